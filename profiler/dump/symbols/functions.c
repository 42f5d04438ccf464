/* functions.c - see functions.h. */
#include "profiler/dump/symbols/functions.h"

#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"
#include "profiler/containers/path.h"

/* What of its file tells a function from others of its name. A binary may have been built in any
 * folder; Python has a <module> in every __init__.py. */
static const char *telling_file(const na_function_name_t *f) {
    return strcmp(f->module, NA_PYTHON_MODULE) == 0 && f->file != NULL ? f->file
                                                                       : na_base_name(f->file);
}

uint32_t na_functions_id(na_functions_t *functions, const na_function_name_t *f) {
    const char *file = telling_file(f);
    uint64_t hash = na_hash_text(NA_HASH_BEGIN, f->function);
    hash = na_hash_text(na_hash_text(hash, f->module), file);
    hash = na_hash_number(hash, (uint64_t)f->apart << 32 | f->line);
    na_probe_t probe = na_index_probe(&functions->by_name, hash);
    while (na_index_next(&functions->by_name, &probe)) {
        const na_function_name_t *known = &functions->items[probe.number];
        if (known->line == f->line && known->apart == f->apart &&
            strcmp(known->function, f->function) == 0 && strcmp(known->module, f->module) == 0 &&
            strcmp(telling_file(known), file) == 0)
            return probe.number;
    }
    if (!NA_ARRAY_RESERVE(functions->items, functions->room, functions->count + 1u) ||
        !na_index_add(&functions->by_name, hash, functions->count))
        return UINT32_MAX;
    functions->items[functions->count] = *f;
    return functions->count++;
}

void na_functions_free(na_functions_t *functions) {
    free(functions->items);
    na_index_free(&functions->by_name);
}
