/* error_groups.c - see error_groups.h. */
#include "profiler/dump/views/errors/error_groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"

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
    [NA_GF_WRITTEN_FREED] = "write-after-free-found-later",
};
static const char *const error_kinds[NA_GF_KINDS] = {
    [NA_GF_USE_AFTER_FREE] = "use after free",
    [NA_GF_OVERFLOW] = "overflow",
    [NA_GF_UNDERFLOW] = "underflow",
    [NA_GF_DOUBLE_FREE] = "double free",
    [NA_GF_INTERIOR_FREE] = "free of an address that is no block's",
    [NA_GF_OVERWRITTEN] = "overflow, found when the block was freed",
    [NA_GF_UNDERWRITTEN] = "underflow, found when the block was freed",
    [NA_GF_REALLOC_FREED] = "realloc of a freed block",
    [NA_GF_WILD] = "access to a block of which nothing is known any more",
    [NA_GF_WRITTEN_FREED] = "write to a freed block, found later",
};

const char *na_error_key(uint32_t kind) {
    return kind < NA_GF_KINDS && kind_keys[kind] != NULL ? kind_keys[kind] : "unknown";
}

const char *na_error_words(uint32_t kind) {
    return kind < NA_GF_KINDS && error_kinds[kind] != NULL ? error_kinds[kind] : "unknown error";
}

const char *na_error_access(uint32_t access) {
    return access == NA_GF_WRITE ? "write" : access == NA_GF_READ ? "read" : NULL;
}

bool na_error_is_late(uint32_t kind) {
    return kind == NA_GF_OVERWRITTEN || kind == NA_GF_UNDERWRITTEN || kind == NA_GF_WRITTEN_FREED;
}

/* --- groups --- */

static bool append_words(char **text, size_t *length, size_t *room, const char *more) {
    size_t n = strlen(more);
    if (!NA_ARRAY_RESERVE(*text, *room, *length + n + 1)) return false;
    memcpy(*text + *length, more, n + 1);
    *length += n;
    return true;
}

uint32_t na_error_frames(const na_gf_error_t *e, unsigned which) {
    return e->frames[which] < NA_GF_FRAMES ? e->frames[which] : NA_GF_FRAMES;
}

/* The kind and all places: NULL: out of memory. */
static char *make_key(const na_error_file_t *file, const na_gf_error_t *e) {
    char *key = NULL, part[320];
    size_t length = 0, room = 0;
    snprintf(part, sizeof part, "%u %u", e->kind, e->access);
    bool good = append_words(&key, &length, &room, part);
    for (unsigned which = 0; which < NA_GF_STACKS && good; which++) {
        good = append_words(&key, &length, &room, "|");
        for (uint32_t i = 0; i < na_error_frames(e, which) && good; i++) {
            na_error_file_place(file, e->pcs[which][i], part, sizeof part - 1);
            strcat(part, " ");
            good = append_words(&key, &length, &room, part);
        }
    }
    if (good) return key;
    free(key);
    return NULL;
}

/* The part of the allocations of the block's site in which such an error is found: an access in
 * those that are guarded, all else in those between canaries as well. 0: not known. */
static double chance_of(const na_error_file_t *file, const na_gf_error_t *e) {
    for (uint32_t i = 0; e->has_block && i < file->head->parts[NA_GF_SITES].count; i++) {
        const na_gf_site_t *s = &file->sites[i];
        uint64_t pcs[NA_GF_FRAMES];
        if (s->hash == 0 || (s->guarded == 0 && s->canaries == 0) || !(s->estimated >= 1)) continue;
        uint32_t n = na_error_file_stack(file, s->stack, pcs, NA_GF_FRAMES);
        if (n != 0 && n == na_error_frames(e, NA_GF_ALLOC) &&
            memcmp(pcs, e->pcs[NA_GF_ALLOC], n * sizeof *pcs) == 0) {
            bool faults = e->kind == NA_GF_USE_AFTER_FREE || e->kind == NA_GF_OVERFLOW ||
                          e->kind == NA_GF_UNDERFLOW;
            double chance = (s->guarded + (faults ? 0.0 : s->canaries)) / s->estimated;
            return chance < 1 ? chance : 1;
        }
    }
    return 0;
}

bool na_errors_add(na_errors_t *all, size_t file, const na_gf_error_t *e) {
    char *key = make_key(&all->files[file], e);
    if (key == NULL) return false;
    na_error_group_t *g = NULL;
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
        *g = (na_error_group_t){
            .key = key, .file = &all->files[file], .error = e, .first_ns = UINT64_MAX};
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

static int groups_most_first(const void *a, const void *b) {
    const na_error_group_t *x = a, *y = b;
    if (x->times != y->times) return x->times > y->times ? -1 : 1;
    return (x->first_ns > y->first_ns) - (x->first_ns < y->first_ns);
}

void na_errors_sort(na_errors_t *all) {
    if (all->count != 0) qsort(all->groups, all->count, sizeof *all->groups, groups_most_first);
}

/* --- files --- */

bool na_errors_read(na_errors_t *all, const char *const *paths, size_t count,
                    const na_options_t *options, na_status_t *status) {
    *status = NA_STATUS_WHOLE;
    *all = (na_errors_t){.options = options, .files = calloc(count + 1, sizeof *all->files)};
    if (all->files == NULL) return false;
    for (size_t i = 0; i < count; i++) {
        na_error_file_t *file = &all->files[all->file_count];
        if (!na_error_file_open(file, paths[i], options)) {
            na_error_file_close(file);
            *status = NA_STATUS_PARTIAL;
            continue;
        }
        size_t place = all->file_count++;
        for (uint32_t e = 0; e < file->error_count; e++)
            if (!na_errors_add(all, place, &file->errors[e])) return false;
        all->lost += file->head->errors - file->error_count;
    }
    if (all->file_count == 0) *status = NA_STATUS_NOTHING;
    na_errors_sort(all);
    return true;
}

void na_errors_forget(na_errors_t *all) {
    for (size_t i = 0; i < all->count; i++) {
        free(all->groups[i].key);
        free(all->groups[i].files);
    }
    all->count = 0;
}

void na_errors_free(na_errors_t *all) {
    na_errors_forget(all);
    for (size_t i = 0; i < all->file_count; i++)
        na_error_file_close(&all->files[i]);
    free(all->groups);
    free(all->files);
    *all = (na_errors_t){0};
}
