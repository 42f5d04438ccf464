/* open_together.c - preloaded into numalloc-dump: who opens a profile (a name that ends in .nprof)
 * waits there until OPEN_TOGETHER threads do so at the same time. Files that are read one after the
 * other never get beyond the first; those that are read in parallel do, on however slow a machine.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static pthread_barrier_t together;

__attribute__((constructor)) static void prepare(void) {
    const char *text = getenv("OPEN_TOGETHER");
    if (text == NULL || pthread_barrier_init(&together, NULL, (unsigned)atoi(text)) != 0) abort();
}

static int open_next(const char *name, const char *path, int flags, mode_t mode) {
    typedef int (*open_t)(const char *, int, ...);
    size_t length = strlen(path);
    if (length > 6 && strcmp(path + length - 6, ".nprof") == 0) pthread_barrier_wait(&together);
    return ((open_t)dlsym(RTLD_NEXT, name))(path, flags, mode);
}

static mode_t mode_of(int flags, va_list args) {
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(args, mode_t) : 0;
}

int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return open_next("open", path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return open_next("open64", path, flags, mode);
}
