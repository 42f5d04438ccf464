/* unwind_index.h - where the function around an address begins, by a module's unwind tables, which
 * files without symbols have, too. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_UNWIND_INDEX_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_UNWIND_INDEX_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stdint.h>

/* Of one module; begins as zeros. */
typedef struct na_unwind_index {
    bool tried;
    const unsigned char *rows; /* of .eh_frame_hdr; belong to libelf */
    uint32_t count;
    uint64_t base; /* p_vaddr that the rows are relative to */
} na_unwind_index_t;

/* The address (p_vaddr) of the function around `vaddr`, else vaddr. */
uint64_t na_unwind_start(na_unwind_index_t *index, Dwfl_Module *module, uint64_t vaddr);

#endif
