/* file_tails.c - see file_tails.h. Paths are sorted by their ends: the two beside a path have as
 * many last folders in common with it as any. */
#include "profiler/dump/symbols/file_tails.h"

#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"

/* From the ends on; where one path is the end of the other, and at the end of a folder's name, the
 * shorter is less. */
static int compare_ends(const char *a, const char *b) {
    size_t i = strlen(a), j = strlen(b);
    while (i != 0 && j != 0) {
        unsigned char x = (unsigned char)a[--i], y = (unsigned char)b[--j];
        if (x != y) return x == '/' ? -1 : y == '/' ? 1 : x < y ? -1 : 1;
    }
    return (i > j) - (i < j);
}

static int by_end(const void *a, const void *b) {
    return compare_ends(*(const char *const *)a, *(const char *const *)b);
}

bool na_file_tails_add(na_file_tails_t *tails, const char *file) {
    if (!NA_ARRAY_RESERVE(tails->files, tails->room, tails->count + 1u)) return false;
    tails->files[tails->count++] = file;
    return true;
}

void na_file_tails_sort(na_file_tails_t *tails) {
    if (tails->count == 0) return;
    qsort(tails->files, tails->count, sizeof *tails->files, by_end);
    uint32_t kept = 1;
    for (uint32_t i = 1; i < tails->count; i++)
        if (strcmp(tails->files[i], tails->files[kept - 1]) != 0)
            tails->files[kept++] = tails->files[i];
    tails->count = kept;
}

/* Where the shortest end of `file` begins, of whole names, that `other` does not end with. */
static size_t differing(const char *file, const char *other) {
    size_t i = strlen(file), j = strlen(other);
    while (i != 0 && j != 0 && file[i - 1] == other[j - 1]) {
        i--;
        j--;
    }
    /* [i, end) is the same. Where it begins a name of both, the one in front of it is needed. */
    if (i != 0 && file[i - 1] == '/' && j == 0) i--;
    while (i != 0 && file[i - 1] != '/')
        i--;
    return i;
}

const char *na_file_tail(const na_file_tails_t *tails, const char *file) {
    const char **found = bsearch(&file, tails->files, tails->count, sizeof *tails->files, by_end);
    const char *slash = strrchr(file, '/');
    size_t begin = slash == NULL ? 0 : (size_t)(slash + 1 - file);
    if (found == NULL) return file + begin;
    size_t at = (size_t)(found - tails->files);
    for (int side = -1; side <= 1; side += 2) {
        if ((side < 0 && at == 0) || (side > 0 && at + 1 == tails->count)) continue;
        size_t other = differing(file, tails->files[side < 0 ? at - 1 : at + 1]);
        if (other < begin) begin = other;
    }
    return file + begin;
}

void na_file_tails_free(na_file_tails_t *tails) {
    free(tails->files);
    *tails = (na_file_tails_t){.files = NULL};
}
