/* fast_clock.c - preloaded into numalloc-dump: whenever the program itself (no library of its own)
 * asks for the time, two seconds have passed since it last did. What appears after a second,
 * appears at once, whatever the machine's speed. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

static atomic_long asked;

typedef int (*clock_gettime_t)(clockid_t, struct timespec *);

int clock_gettime(clockid_t clock, struct timespec *t) {
    int result = ((clock_gettime_t)dlsym(RTLD_NEXT, "clock_gettime"))(clock, t);
    Dl_info caller;
    const char *name = "numalloc-dump";
    if (dladdr(__builtin_return_address(0), &caller) == 0) return result;
    size_t length = strlen(caller.dli_fname), wanted = strlen(name);
    if (length >= wanted && strcmp(caller.dli_fname + length - wanted, name) == 0)
        t->tv_sec += 2 * atomic_fetch_add(&asked, 1);
    return result;
}
