/* compare_bad.c - libraries that are no good to preload: one crashes at its first malloc, one never
 * comes back from it. `numalloc-bench compare` must outlive both. */
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

void *malloc(size_t size);

void *malloc(size_t size) {
    (void)size;
#ifdef HANGS
    for (;;)
        pause();
#else
    raise(SIGSEGV);
    return NULL;
#endif
}
