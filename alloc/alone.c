/* alone.c - the core by itself: nothing stands above it. In numalloc-core only. */
#include <stddef.h>

#include "alloc/core/thread/attach.h"
#include "alloc/core/thread/fork.h"

const na_above_t *const na_above[] = {NULL};

/* As api/process.c: our fork handlers run innermost. */
__attribute__((constructor(101))) static void at_load(void) {
    na_fork_init();
}
