/* slow_read.c - preloaded into numalloc-dump: its n-th read of a profile (SLOW_READ_AT=n) is the
 * moment at which something happens, whatever the machine's speed. SLOW_READ_MS: it waits so long
 * first. SLOW_READ_SIGNAL: then the process gets this signal. */
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static atomic_long reads;

static long setting(const char *name) {
    const char *text = getenv(name);
    return text == NULL ? 0 : atol(text);
}

static void before_read(void) {
    if (atomic_fetch_add(&reads, 1) + 1 != setting("SLOW_READ_AT")) return;
    long ms = setting("SLOW_READ_MS");
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
    if (setting("SLOW_READ_SIGNAL") != 0) kill(getpid(), (int)setting("SLOW_READ_SIGNAL"));
}

typedef ssize_t (*pread_t)(int, void *, size_t, off_t);

ssize_t pread(int fd, void *buffer, size_t size, off_t offset) {
    before_read();
    return ((pread_t)dlsym(RTLD_NEXT, "pread"))(fd, buffer, size, offset);
}
