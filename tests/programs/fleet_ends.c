/* fleet_ends.c - a service whose memory grows from dump to dump, and how it ends: fleet_ends.sh.
 *
 *   HOW DUMPS   a block from cache_here and one from lost_here before each dump. Then it ends:
 *     return    main returns, and a destructor frees the cache
 *     _exit     at once; the cache is freed before
 *     term      by SIGTERM, whose handler makes main return
 *     kill      by SIGKILL
 *     exec      it becomes /bin/true
 *     steady    as return; the cache is of a constant size, and nothing is lost
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST  64
#define BYTES 100000

static void *cache[MOST];
static volatile sig_atomic_t ended;

static __attribute__((noinline)) void *cache_here(void) {
    void *p = malloc(BYTES);
    __asm__ volatile("# cache" : : "r"(p) : "memory");
    return p;
}

static __attribute__((noinline)) void lost_here(void) {
    void *p = malloc(BYTES / 2);
    __asm__ volatile("# lost" : : "r"(p) : "memory");
}

static void empty_cache(void) {
    for (int i = 0; i < MOST; i++)
        free(cache[i]);
    memset(cache, 0, sizeof cache);
}

static __attribute__((destructor)) void last_of_all(void) {
    empty_cache();
}

static void end(int signal) {
    (void)signal;
    ended = 1;
}

int main(int argc, char **argv) {
    int (*dump)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "numalloc_record_dump");
    if (argc != 3 || dump == NULL) return 2;
    int steady = strcmp(argv[1], "steady") == 0;
    signal(SIGTERM, end);
    for (int i = 0; i < atoi(argv[2]) && i < MOST; i++) {
        int at = steady ? 0 : i;
        free(cache[at]);
        cache[at] = cache_here();
        if (!steady) lost_here();
        nanosleep(&(struct timespec){0, 3000000}, NULL); /* each dump has a time of its own */
        if (dump() != 0) return 3;
    }
    if (strcmp(argv[1], "_exit") == 0) {
        empty_cache();
        _exit(0);
    }
    if (strcmp(argv[1], "kill") == 0) kill(getpid(), SIGKILL);
    if (strcmp(argv[1], "exec") == 0) {
        unsetenv("LD_PRELOAD");
        execl("/bin/true", "true", (char *)NULL);
    }
    if (strcmp(argv[1], "term") == 0) {
        kill(getpid(), SIGTERM);
        while (!ended)
            pause();
    }
    return 0;
}
