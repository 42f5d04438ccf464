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

#include "profiler/containers/path.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/text.h"
#include "profiler/dump/views/errors/error_groups.h"

/* --- text --- */

static void put_time(uint64_t ns) {
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm when;
    char text[64] = "?";
    if (gmtime_r(&seconds, &when) != NULL) strftime(text, sizeof text, "%F %T UTC", &when);
    printf("%s", text);
}

static void put_pc_frames(const na_error_file_t *file, const uint64_t *pcs, uint32_t count,
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

static void put_recorded_stack(const na_error_file_t *file, const na_gf_error_t *e, unsigned which,
                               const char *title) {
    printf("   %s\n", title);
    put_pc_frames(file, e->pcs[which], na_error_frames(e, which),
                  which == NA_GF_ACCESS && e->access != 0);
}

static const char *const release_words[] = {"free", "delete", "delete[]", "realloc"};
static const char *const entry_words[] = {"malloc", "calloc", "realloc", "aligned allocation",
                                          "new",    "new[]"};

static void put_error_block(const na_gf_record_t *r, uint64_t address) {
    int64_t at = (int64_t)(address - r->address), size = r->size;
    printf("a block of %u byte%s", r->size, r->size == 1 ? "" : "s");
    if (at < 0)
        printf(", %" PRId64 " before it", -at);
    else if (at >= size)
        printf(", %" PRId64 " behind its end", at - size + 1);
    else if (at > 0)
        printf(", %" PRId64 " into it", at);
}

static void put_error_group(const na_errors_t *all, const na_error_group_t *g, size_t rank) {
    const na_gf_error_t *e = g->error;
    const char *access = na_error_access(e->access);
    bool late = na_error_is_late(e->kind);
    printf("%zu. %s%s%s, in ", rank, na_error_words(e->kind), access != NULL && !late ? ": " : "",
           access != NULL && !late ? access : "");
    na_text_put(stdout, na_base_name(g->file->head->program));
    putchar('\n');
    if (e->has_block) {
        printf("   of ");
        put_error_block(&e->block, e->address);
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
    if (all->options->errors.address == NULL && (!late || na_error_frames(e, NA_GF_ACCESS) != 0))
        put_recorded_stack(g->file, e, NA_GF_ACCESS,
                           late             ? "found when it was freed, by"
                           : access != NULL ? "accessed by"
                                            : "called by");
    char title[64];
    if (e->has_block && e->block.state == NA_GF_FREED) {
        snprintf(title, sizeof title, "freed (%s), %.3f s before, by",
                 release_words[e->block.release & 3], (e->ms - e->block.free_ms) / 1e3);
        put_recorded_stack(g->file, e, NA_GF_FREE, title);
    }
    if (e->has_block) {
        snprintf(title, sizeof title, "allocated (%s), %.3f s before, by",
                 entry_words[e->block.entry < 6 ? e->block.entry : 0],
                 (e->ms - e->block.alloc_ms) / 1e3);
        put_recorded_stack(g->file, e, NA_GF_ALLOC, title);
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

static void put_errors_text(const na_errors_t *all) {
    size_t times = 0, top = all->options->table.top;
    for (size_t i = 0; i < all->count; i++)
        times += all->groups[i].times;
    if (all->count == 0)
        printf("No errors in %zu file%s.\n", all->file_count, all->file_count == 1 ? "" : "s");
    else
        printf("%zu error%s, found %zu time%s in %zu file%s\n\n", all->count,
               all->count == 1 ? "" : "s", times, times == 1 ? "" : "s", all->file_count,
               all->file_count == 1 ? "" : "s");
    for (size_t i = 0; i < all->count && i < top; i++)
        put_error_group(all, &all->groups[i], i + 1);
    if (all->count > top) printf("%zu more: --top=0\n", all->count - top);
    if (all->lost != 0) printf("%zu more were found than a file has room for.\n", all->lost);
}

/* --- JSON --- */

static void json_stack(na_json_t *json, const na_error_file_t *file, const na_gf_error_t *e,
                       unsigned which, const char *name) {
    na_json_array(json, name);
    for (uint32_t i = 0; i < na_error_frames(e, which); i++) {
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

static void json_group(na_json_t *json, const na_errors_t *all, const na_error_group_t *g) {
    const na_gf_error_t *e = g->error;
    na_json_line(json);
    na_json_object(json, NULL);
    na_json_string(json, "kind", na_error_key(e->kind));
    na_json_string(json, "access", na_error_access(e->access));
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

static void put_errors_json(const na_errors_t *all) {
    na_json_t json = na_json_open(stdout);
    na_json_document(&json, "errors");
    na_json_array(&json, "errors");
    for (size_t i = 0; i < all->count && i < all->options->table.top; i++)
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

/* The errors that this address would be, in each of the files; `faults`: room for them. */
static bool find_address(na_errors_t *all, na_gf_error_t *faults) {
    uint64_t address = strtoull(all->options->errors.address, NULL, 16);
    for (size_t i = 0; i < all->file_count; i++)
        if (at_address(&all->files[i], address, &faults[i]) && !na_errors_add(all, i, &faults[i]))
            return false;
    na_errors_sort(all);
    return true;
}

static na_status_t show_errors(const char *const *paths, size_t count,
                               const na_options_t *options) {
    na_errors_t all;
    na_status_t status;
    na_gf_error_t *faults = NULL;
    bool good = na_errors_read(&all, paths, count, options, &status);
    if (good && options->errors.address != NULL) {
        na_errors_forget(&all);
        faults = calloc(count, sizeof *faults);
        good = faults != NULL && find_address(&all, faults);
    }
    if (good && options->errors.address != NULL && all.file_count != 0 && all.count == 0)
        status = na_fail("%s is not in the area of guarded blocks of %s", options->errors.address,
                         all.file_count == 1 ? paths[0] : "any of the files");
    else if (good && all.file_count != 0 && options->table.format == NA_FORMAT_JSON)
        put_errors_json(&all);
    else if (good && all.file_count != 0)
        put_errors_text(&all);
    na_errors_free(&all);
    free(faults);
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
    .takes = NA_TAKES(TOP) | NA_TAKES(JSON) | NA_TAKES(ADDRESS),
    .without = "an error is no row of figures",
    .show_files = show_errors,
};
