/* view_errors.c - memory errors that guarded blocks found (docs/guard.md), those of many processes
 * put together: the same kind of error with the same stacks is one, wherever its modules lay.
 *
 * How often such an error has happened is more than how often it was found: of the blocks of its
 * allocation site only a part is guarded, and that part is known. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "profiler/containers/array.h"
#include "profiler/containers/path.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/text.h"
#include "profiler/dump/views/error_files.h"

/* --- words --- */

static const char *const kind_keys[NA_GF_KINDS] = {
    [NA_GF_USE_AFTER_FREE] = "use-after-free",
    [NA_GF_OVERFLOW] = "overflow",
    [NA_GF_UNDERFLOW] = "underflow",
    [NA_GF_DOUBLE_FREE] = "double-free",
    [NA_GF_INTERIOR_FREE] = "interior-free",
    [NA_GF_OVERWRITTEN] = "overflow-found-at-free",
    [NA_GF_UNDERWRITTEN] = "underflow-found-at-free",
    [NA_GF_REALLOC_FREED] = "realloc-after-free",
    [NA_GF_WILD] = "unknown-block",
};
static const char *const kind_words[NA_GF_KINDS] = {
    [NA_GF_USE_AFTER_FREE] = "use after free",
    [NA_GF_OVERFLOW] = "overflow",
    [NA_GF_UNDERFLOW] = "underflow",
    [NA_GF_DOUBLE_FREE] = "double free",
    [NA_GF_INTERIOR_FREE] = "free of an address that is no block's",
    [NA_GF_OVERWRITTEN] = "overflow, found when the block was freed",
    [NA_GF_UNDERWRITTEN] = "underflow, found when the block was freed",
    [NA_GF_REALLOC_FREED] = "realloc of a freed block",
    [NA_GF_WILD] = "access to a block of which nothing is known any more",
};

static const char *key_of(uint32_t kind) {
    return kind < NA_GF_KINDS && kind_keys[kind] != NULL ? kind_keys[kind] : "unknown";
}

static const char *words_of(uint32_t kind) {
    return kind < NA_GF_KINDS && kind_words[kind] != NULL ? kind_words[kind] : "unknown error";
}

static const char *access_of(uint32_t access) {
    return access == NA_GF_WRITE ? "write" : access == NA_GF_READ ? "read" : NULL;
}

/* --- groups --- */

typedef struct group {
    char *key;
    const na_error_file_t *file; /* of the first one */
    const na_gf_error_t *error;
    size_t *files; /* those that it is in; a file once for each time */
    size_t times, room;
    size_t processes;
    uint64_t first_ns, last_ns;
    double happened; /* estimated; 0: no chance is known */
} group_t;

typedef struct errors {
    na_error_file_t *files;
    size_t file_count;
    group_t *groups;
    size_t count, room;
    size_t lost; /* errors that were found, and are not in the files */
    const na_options_t *options;
} errors_t;

static bool add_text(char **text, size_t *length, size_t *room, const char *more) {
    size_t n = strlen(more);
    if (!NA_ARRAY_RESERVE(*text, *room, *length + n + 1)) return false;
    memcpy(*text + *length, more, n + 1);
    *length += n;
    return true;
}

static uint32_t frame_count(const na_gf_error_t *e, unsigned which) {
    return e->frames[which] < NA_GF_FRAMES ? e->frames[which] : NA_GF_FRAMES;
}

/* The kind and all places: NULL: out of memory. */
static char *make_key(const na_error_file_t *file, const na_gf_error_t *e) {
    char *key = NULL, part[320];
    size_t length = 0, room = 0;
    snprintf(part, sizeof part, "%u %u", e->kind, e->access);
    bool good = add_text(&key, &length, &room, part);
    for (unsigned which = 0; which < NA_GF_STACKS && good; which++) {
        good = add_text(&key, &length, &room, "|");
        for (uint32_t i = 0; i < frame_count(e, which) && good; i++) {
            na_error_file_place(file, e->pcs[which][i], part, sizeof part - 1);
            strcat(part, " ");
            good = add_text(&key, &length, &room, part);
        }
    }
    if (good) return key;
    free(key);
    return NULL;
}

/* The part of the allocations of the block's site that is guarded; 0: not known. */
static double chance_of(const na_error_file_t *file, const na_gf_error_t *e) {
    for (uint32_t i = 0; e->has_block && i < file->head->parts[NA_GF_SITES].count; i++) {
        const na_gf_site_t *s = &file->sites[i];
        uint64_t pcs[NA_GF_FRAMES];
        if (s->hash == 0 || s->guarded == 0 || !(s->estimated >= 1)) continue;
        uint32_t n = na_error_file_stack(file, s->stack, pcs, NA_GF_FRAMES);
        if (n != 0 && n == frame_count(e, NA_GF_ALLOC) &&
            memcmp(pcs, e->pcs[NA_GF_ALLOC], n * sizeof *pcs) == 0) {
            double chance = s->guarded / s->estimated;
            return chance < 1 ? chance : 1;
        }
    }
    return 0;
}

static bool add_error(errors_t *all, size_t file, const na_gf_error_t *e) {
    char *key = make_key(&all->files[file], e);
    if (key == NULL) return false;
    group_t *g = NULL;
    for (size_t i = 0; i < all->count && g == NULL; i++)
        if (strcmp(all->groups[i].key, key) == 0) g = &all->groups[i];
    if (g != NULL) {
        free(key);
    } else {
        if (!NA_ARRAY_RESERVE(all->groups, all->room, all->count + 1)) {
            free(key);
            return false;
        }
        g = &all->groups[all->count++];
        *g = (group_t){.key = key, .file = &all->files[file], .error = e, .first_ns = UINT64_MAX};
    }
    if (!NA_ARRAY_RESERVE(g->files, g->room, g->times + 1)) return false;
    if (g->times == 0 || g->files[g->times - 1] != file) g->processes++;
    g->files[g->times++] = file;
    if (e->unix_ns < g->first_ns) g->first_ns = e->unix_ns;
    if (e->unix_ns > g->last_ns) g->last_ns = e->unix_ns;
    double chance = chance_of(&all->files[file], e);
    if (chance > 0) g->happened += 1 / chance;
    return true;
}

static int most_first(const void *a, const void *b) {
    const group_t *x = a, *y = b;
    if (x->times != y->times) return x->times > y->times ? -1 : 1;
    return (x->first_ns > y->first_ns) - (x->first_ns < y->first_ns);
}

/* --- text --- */

static void put_time(uint64_t ns) {
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm when;
    char text[64] = "?";
    if (gmtime_r(&seconds, &when) != NULL) strftime(text, sizeof text, "%F %T UTC", &when);
    printf("%s", text);
}

static void put_frames(const na_error_file_t *file, const uint64_t *pcs, uint32_t count,
                       bool first_exact) {
    unsigned shown = 0;
    for (uint32_t i = 0; i < count; i++) {
        const na_symbol_frame_t *frames;
        uint32_t n = na_error_file_frames(file, pcs[i], first_exact && i == 0, &frames);
        if (n == 0) printf("      #%-2u %#" PRIx64 "\n", shown++, pcs[i]);
        for (uint32_t f = 0; f < n; f++) {
            printf("      #%-2u ", shown++);
            na_text_put(stdout, frames[f].function);
            if (frames[f].file != NULL) {
                fputs("  ", stdout);
                na_text_put(stdout, frames[f].file);
                if (frames[f].line != 0) printf(":%u", frames[f].line);
            } else if (frames[f].named) {
                fputs("  ", stdout);
                na_text_put(stdout, na_base_name(frames[f].module));
            }
            puts(frames[f].inlined ? " (inlined)" : "");
        }
    }
    if (count == 0) puts("      (not known any more)");
}

static void put_stack(const na_error_file_t *file, const na_gf_error_t *e, unsigned which,
                      const char *title) {
    printf("   %s\n", title);
    put_frames(file, e->pcs[which], frame_count(e, which), which == NA_GF_ACCESS && e->access != 0);
}

static const char *const release_words[] = {"free", "delete", "delete[]", "realloc"};
static const char *const entry_words[] = {"malloc", "calloc", "realloc", "aligned allocation",
                                          "new",    "new[]"};

static void put_block(const na_gf_record_t *r, uint64_t address) {
    int64_t at = (int64_t)(address - r->address), size = r->size;
    printf("a block of %u byte%s", r->size, r->size == 1 ? "" : "s");
    if (at < 0)
        printf(", %" PRId64 " before it", -at);
    else if (at >= size)
        printf(", %" PRId64 " behind its end", at - size + 1);
    else if (at > 0)
        printf(", %" PRId64 " into it", at);
}

static void put_group(const errors_t *all, const group_t *g, size_t rank) {
    const na_gf_error_t *e = g->error;
    const char *access = access_of(e->access);
    bool at_free = e->kind == NA_GF_OVERWRITTEN || e->kind == NA_GF_UNDERWRITTEN;
    printf("%zu. %s%s%s, in ", rank, words_of(e->kind), access != NULL && !at_free ? ": " : "",
           access != NULL && !at_free ? access : "");
    na_text_put(stdout, na_base_name(g->file->head->program));
    putchar('\n');
    if (e->has_block) {
        printf("   of ");
        put_block(&e->block, e->address);
        putchar('\n');
    }
    if (g->times > 1)
        printf("   found %zu times, in %zu process%s; first ", g->times, g->processes,
               g->processes == 1 ? "" : "es");
    else
        printf("   found once, ");
    put_time(g->first_ns);
    if (g->times > 1) {
        printf(", last ");
        put_time(g->last_ns);
    }
    putchar('\n');
    if (g->happened >= 1.5 * (double)g->times)
        printf(
            "   one block in %.0f of its call site is guarded: it has happened some %.0f times\n",
            g->happened / (double)g->times, g->happened);
    if (all->options->address == NULL)
        put_stack(g->file, e, NA_GF_ACCESS,
                  at_free          ? "found when it was freed, by"
                  : access != NULL ? "accessed by"
                                   : "called by");
    char title[64];
    if (e->has_block && e->block.state == NA_GF_FREED) {
        snprintf(title, sizeof title, "freed (%s), %.3f s before, by",
                 release_words[e->block.release & 3], (e->ms - e->block.free_ms) / 1e3);
        put_stack(g->file, e, NA_GF_FREE, title);
    }
    if (e->has_block) {
        snprintf(title, sizeof title, "allocated (%s), %.3f s before, by",
                 entry_words[e->block.entry < 6 ? e->block.entry : 0],
                 (e->ms - e->block.alloc_ms) / 1e3);
        put_stack(g->file, e, NA_GF_ALLOC, title);
    }
    size_t last = SIZE_MAX, shown = 0;
    for (size_t i = 0; i < g->times && shown < 5; i++) {
        if (g->files[i] == last) continue;
        last = g->files[i];
        printf(shown == 0 ? "   in " : ", ");
        na_text_put(stdout, all->files[last].path);
        shown++;
    }
    if (g->processes > shown) printf(" and %zu more", g->processes - shown);
    puts("\n");
}

static void put_text(const errors_t *all) {
    size_t times = 0, top = all->options->top;
    for (size_t i = 0; i < all->count; i++)
        times += all->groups[i].times;
    if (all->count == 0)
        printf("No errors in %zu file%s.\n", all->file_count, all->file_count == 1 ? "" : "s");
    else
        printf("%zu error%s, found %zu time%s in %zu file%s\n\n", all->count,
               all->count == 1 ? "" : "s", times, times == 1 ? "" : "s", all->file_count,
               all->file_count == 1 ? "" : "s");
    for (size_t i = 0; i < all->count && i < top; i++)
        put_group(all, &all->groups[i], i + 1);
    if (all->count > top) printf("%zu more: --top=0\n", all->count - top);
    if (all->lost != 0) printf("%zu more were found than a file has room for.\n", all->lost);
}

/* --- JSON --- */

static void json_stack(na_json_t *json, const na_error_file_t *file, const na_gf_error_t *e,
                       unsigned which, const char *name) {
    na_json_array(json, name);
    for (uint32_t i = 0; i < frame_count(e, which); i++) {
        const na_symbol_frame_t *frames;
        bool exact = which == NA_GF_ACCESS && i == 0 && e->access != 0;
        uint32_t n = na_error_file_frames(file, e->pcs[which][i], exact, &frames);
        for (uint32_t f = 0; f < n; f++) {
            na_json_object(json, NULL);
            na_json_string(json, "function", frames[f].function);
            na_json_string(json, "file", frames[f].file);
            if (frames[f].line != 0) na_json_u64(json, "line", frames[f].line);
            na_json_string(json, "module", frames[f].module);
            na_json_u64(json, "offset", frames[f].offset);
            na_json_bool(json, "inlined", frames[f].inlined);
            na_json_end(json);
        }
        if (n != 0) continue;
        na_json_object(json, NULL);
        na_json_u64(json, "address", e->pcs[which][i]);
        na_json_end(json);
    }
    na_json_end(json);
}

static void json_group(na_json_t *json, const errors_t *all, const group_t *g) {
    const na_gf_error_t *e = g->error;
    na_json_line(json);
    na_json_object(json, NULL);
    na_json_string(json, "kind", key_of(e->kind));
    na_json_string(json, "access", access_of(e->access));
    na_json_string(json, "program", g->file->head->program);
    na_json_u64(json, "times", g->times);
    na_json_u64(json, "processes", g->processes);
    na_json_u64(json, "first_unix_ms", g->first_ns / 1000000);
    na_json_u64(json, "last_unix_ms", g->last_ns / 1000000);
    na_json_key(json, "happened");
    if (g->happened > 0)
        na_json_number(json, NULL, g->happened);
    else
        na_json_null(json, NULL);
    na_json_u64(json, "address", e->address);
    na_json_string(json, "thread", e->thread_name);
    if (e->has_block) {
        na_json_object(json, "block");
        na_json_u64(json, "address", e->block.address);
        na_json_u64(json, "size", e->block.size);
        na_json_i64(json, "offset", (int64_t)(e->address - e->block.address));
        na_json_string(json, "allocated_by", entry_words[e->block.entry < 6 ? e->block.entry : 0]);
        na_json_number(json, "allocated_s_before", (e->ms - e->block.alloc_ms) / 1e3);
        bool freed = e->block.state == NA_GF_FREED;
        na_json_string(json, "freed_by", freed ? release_words[e->block.release & 3] : NULL);
        if (freed) na_json_number(json, "freed_s_before", (e->ms - e->block.free_ms) / 1e3);
        na_json_end(json);
    }
    json_stack(json, g->file, e, NA_GF_ACCESS, "access_stack");
    json_stack(json, g->file, e, NA_GF_FREE, "free_stack");
    json_stack(json, g->file, e, NA_GF_ALLOC, "allocation_stack");
    na_json_array(json, "files");
    for (size_t i = 0; i < g->times; i++)
        na_json_string(json, NULL, all->files[g->files[i]].path);
    na_json_end(json);
    na_json_end(json);
}

static void put_json(const errors_t *all) {
    na_json_t json = na_json_open(stdout);
    na_json_document(&json, "errors");
    na_json_array(&json, "errors");
    for (size_t i = 0; i < all->count && i < all->options->top; i++)
        json_group(&json, all, &all->groups[i]);
    na_json_end(&json);
    na_json_array(&json, "files");
    for (size_t i = 0; i < all->file_count; i++) {
        const na_gf_head_t *h = all->files[i].head;
        na_json_line(&json);
        na_json_object(&json, NULL);
        na_json_string(&json, "file", all->files[i].path);
        na_json_string(&json, "program", h->program);
        na_json_u64(&json, "pid", h->pid);
        na_json_u64(&json, "start_unix_ms", h->start_unix_ns / 1000000);
        na_json_u64(&json, "drawn", h->drawn);
        na_json_u64(&json, "guarded", h->guarded);
        na_json_u64(&json, "errors", h->errors);
        na_json_end(&json);
    }
    na_json_end(&json);
    na_json_end(&json);
}

/* --- an address by itself --- */

/* As if the library had seen the fault: what it would have said of the block. */
static bool at_address(const na_error_file_t *file, uint64_t address, na_gf_error_t *e) {
    const na_gf_head_t *h = file->head;
    if (address - h->area >= h->area_bytes) return false;
    *e = (na_gf_error_t){.kind = NA_GF_WILD,
                         .address = address,
                         .ms = (uint32_t)h->now_ms,
                         .unix_ns = h->start_unix_ns + h->now_ms * 1000000};
    const na_gf_record_t *r = na_error_file_at(file, address);
    if (r == NULL) return true;
    e->has_block = 1;
    e->block = *r;
    e->kind = r->state != NA_GF_LIVE ? NA_GF_USE_AFTER_FREE
              : address < r->address ? NA_GF_UNDERFLOW
                                     : NA_GF_OVERFLOW;
    e->frames[NA_GF_FREE] =
        na_error_file_stack(file, r->free_stack, e->pcs[NA_GF_FREE], NA_GF_FRAMES);
    e->frames[NA_GF_ALLOC] =
        na_error_file_stack(file, r->alloc_stack, e->pcs[NA_GF_ALLOC], NA_GF_FRAMES);
    return true;
}

/* --- the view --- */

static na_status_t show_errors(const char *const *paths, size_t count,
                               const na_options_t *options) {
    errors_t all = {.options = options};
    na_status_t status = NA_STATUS_WHOLE;
    all.files = calloc(count, sizeof *all.files);
    na_gf_error_t *faults = options->address != NULL ? calloc(count, sizeof *faults) : NULL;
    bool good = all.files != NULL && (options->address == NULL || faults != NULL);
    for (size_t i = 0; i < count && good; i++) {
        na_error_file_t *file = &all.files[all.file_count];
        if (!na_error_file_open(file, paths[i], options)) {
            na_error_file_close(file);
            status = NA_STATUS_PARTIAL;
            continue;
        }
        if (options->address != NULL) {
            na_gf_error_t *fault = &faults[all.file_count];
            if (at_address(file, strtoull(options->address, NULL, 16), fault))
                good = add_error(&all, all.file_count, fault);
        } else {
            for (uint32_t e = 0; e < file->error_count && good; e++)
                good = add_error(&all, all.file_count, &file->errors[e]);
            all.lost += file->head->errors - file->error_count;
        }
        all.file_count++;
    }
    if (good && all.file_count == 0) {
        status = NA_STATUS_NOTHING;
    } else if (good && options->address != NULL && all.count == 0) {
        status = na_fail("%s is not in the area of guarded blocks of %s", options->address,
                         all.file_count == 1 ? paths[0] : "any of the files");
    } else if (good) {
        qsort(all.groups, all.count, sizeof *all.groups, most_first);
        if (options->format == NA_FORMAT_JSON)
            put_json(&all);
        else
            put_text(&all);
    }
    for (size_t i = 0; i < all.count; i++) {
        free(all.groups[i].key);
        free(all.groups[i].files);
    }
    for (size_t i = 0; i < all.file_count; i++)
        na_error_file_close(&all.files[i]);
    free(faults);
    free(all.groups);
    free(all.files);
    return good ? status : NA_STATUS_MEMORY;
}

const na_view_t na_view_row_errors = {
    .name = "errors",
    .words = "FILE...",
    .help = "memory errors that NUMALLOC_GUARD=1 found, from its .errors files",
    .more = "The same error in many processes is one: same kind, same stacks. A directory stands "
            "for the\nfiles of errors in it. Exit status 1: a file could not be read.",
    .modes = 0,
    .flags = NA_VIEW_FACTS | NA_VIEW_ERRORS,
    .takes = NA_TAKES_TOP | NA_TAKES_JSON | NA_TAKES_ADDRESS,
    .without = "an error is no row of figures",
    .show_files = show_errors,
};
