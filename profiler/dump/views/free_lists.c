/* free_lists.c - see free_lists.h. The type of a block is told by its size and by who called
 * malloc; an interpreter without symbols still exports the functions that are looked for. */
#include "profiler/dump/views/free_lists.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/ui/text.h"
#include "profiler/format/reader/reader_python.h"

#define LOOKED_AT 8u   /* native frames inside of the Python one */
#define ROWS      20u  /* the function is among so many with most, */
#define LEAST     0.01 /* has so much of all, */
#define PART      0.1  /* and so much of that is of such blocks */

/* Sizes on 64-bit machines, of every version whose frames are read; with the 16 bytes in front that
 * objects have which the garbage collector knows. */
#define DICT_BYTES  64
#define LIST_BYTES  56
#define FLOAT_BYTES 24

typedef enum kept { KEPT_DICT = 1, KEPT_LIST = 2, KEPT_TUPLE = 4, KEPT_FLOAT = 8 } kept_t;
static const char *const kept_names[] = {"dict", "list", "tuple", "float"};

static bool begins(const char *s, const char *with) {
    return strncmp(s, with, strlen(with)) == 0;
}

/* What a native function makes, of blocks of one size; 0: none of them, or it does not tell. */
static unsigned made_by(const char *function, int64_t bytes) {
    if (strcmp(function, "PyTuple_New") == 0 || begins(function, "_PyTuple_From") ||
        strcmp(function, "PyTuple_Pack") == 0 || begins(function, "tuple_alloc"))
        return KEPT_TUPLE;
    if (bytes == DICT_BYTES && (strcmp(function, "_PyObject_GC_New") == 0 ||
                                begins(function, "PyDict_") || begins(function, "new_dict")))
        return KEPT_DICT;
    if (bytes == LIST_BYTES &&
        (strcmp(function, "_PyObject_GC_New") == 0 || begins(function, "PyList_")))
        return KEPT_LIST;
    bool number =
        begins(function, "PyFloat_") || begins(function, "float_") || begins(function, "PyNumber_");
    return bytes == FLOAT_BYTES && number ? KEPT_FLOAT : 0;
}

static unsigned kept_type(const na_view_input_t *in, const na_site_t *site) {
    na_stack_table_t stacks = na_reader_stacks(in->reader);
    if (site->sum.alloc_count == 0) return 0;
    int64_t bytes = site->sum.size_min == site->sum.size_max ? (int64_t)site->sum.size_max : 0;
    unsigned made = 0;
    uint32_t looked = 0;
    for (uint32_t node = site->site; node > NA_NPROF_ROOT && node < stacks.count;
         node = stacks.items[node].parent) {
        if (na_nprof_is_py(stacks.items[node].pc)) return made;
        if (looked++ == LOOKED_AT) return 0;
        const na_symbol_frame_t *frames;
        uint32_t count = na_symbols_frames(in->symbols, node, &frames);
        for (uint32_t i = 0; i < count; i++) {
            if (strcmp(frames[i].function, "PyMethod_New") == 0) return 0; /* as large as a dict */
            if (made == 0) made = made_by(frames[i].function, bytes);
        }
    }
    return 0;
}

/* By function: what it has of such blocks. NULL: out of memory. */
static double *sum_kept(const na_view_input_t *in, unsigned *types) {
    double *parts = calloc((size_t)in->function_count + 1, sizeof *parts);
    if (parts == NULL) return NULL;
    double all = na_view_metric(in, &in->sites.total);
    *types = 0;
    for (size_t s = 0; s < in->sites.count; s++) {
        const na_site_t *site = &in->sites.items[s];
        double part = na_view_metric(in, &site->sum);
        unsigned type = part > 0 ? kept_type(in, site) : 0;
        const na_symbol_frame_t *leaf,
            *frame = type != 0 ? na_view_site(in, site->site, &leaf) : NULL;
        if (frame == NULL || frame->id >= in->function_count) continue;
        parts[frame->id] += part;
        if (part >= LEAST * all) *types |= type;
    }
    return parts;
}

/* The function with most of those that have such blocks; NULL: none is among those with most. */
static const na_function_row_t *find_main(const na_view_input_t *in, const double *parts) {
    double all = na_view_metric(in, &in->sites.total), most = 0;
    const na_function_row_t *found = NULL;
    for (size_t i = 0; i < in->functions.count; i++) {
        const na_function_row_t *row = &in->functions.items[i];
        double has = na_view_metric(in, &row->self);
        if (has <= most || has < LEAST * all || parts[row->id] < PART * has) continue;
        most = has;
        found = row;
    }
    uint32_t before = 0;
    for (size_t i = 0; i < in->functions.count; i++)
        before += na_view_metric(in, &in->functions.items[i].self) > most;
    return before < ROWS ? found : NULL;
}

void na_view_say_free_lists(const na_view_input_t *in) {
    const na_nprof_python_t *python = na_reader_python(in->reader);
    if (python == NULL || in->symbols == NULL) return;
    unsigned types;
    double *parts = sum_kept(in, &types);
    const na_function_row_t *row = parts != NULL ? find_main(in, parts) : NULL;
    free(parts);
    if (row == NULL || types == 0) return;
    char label[NA_LABEL], words[64] = "";
    na_view_row_label(in, row, label);
    const char *between = "";
    for (unsigned i = 0; i < 4; i++) {
        if ((types >> i & 1) == 0) continue;
        na_text_append(words, sizeof words, "%s%s", between, kept_names[i]);
        between = types >> (i + 1) > 1 ? ", " : " or ";
    }
    printf("\nFree lists: Python %u.%u hands the memory of a dropped %s to the next that is made,\n"
           "and it stays at the line that made the first. Another line may keep what is at\n  ",
           python->version >> 8, python->version & 255, words);
    na_text_put(stdout, label);
    putchar('\n');
}
