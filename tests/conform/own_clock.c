/* own_clock.c - a program that brings its own clocks, as libfaketime does: they allocate, and they
 * stand still. The library reads the kernel's, so none of its threads ever calls these. */
#include "support/check.h"
#include "support/child.h"
#include "support/fill.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static atomic_int calls;

/* The loader gives the library these, wherever it asks for them by name. */
#define FOR_ALL __attribute__((visibility("default")))

static int stands_still(struct timespec *t) {
    atomic_fetch_add(&calls, 1);
    free(check_opaque(malloc(3000)));
    *t = (struct timespec){.tv_sec = 1};
    return 0;
}

FOR_ALL int clock_gettime(clockid_t id, struct timespec *t) {
    (void)id;
    return stands_still(t);
}

FOR_ALL int timespec_get(struct timespec *t, int base) {
    stands_still(t);
    return base;
}

FOR_ALL int nanosleep(const struct timespec *wanted, struct timespec *left) {
    (void)wanted, (void)left;
    struct timespec t;
    return stands_still(&t);
}

FOR_ALL int clock_nanosleep(clockid_t id, int flags, const struct timespec *wanted,
                            struct timespec *left) {
    (void)id, (void)flags;
    return nanosleep(wanted, left);
}

/* All kinds of blocks, with heaps that come and go. */
static void *work(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument + 1;
    void *blocks[256] = {NULL};
    for (int i = 0; i < 60000; i++) {
        size_t at = (size_t)(fill_random(&random) % 256);
        free(blocks[at]);
        size_t size = fill_random_size(&random, i % 500 == 0 ? 21 : 12);
        blocks[at] = malloc(size);
        REQUIRE(blocks[at] != NULL);
        memset(blocks[at], 1, size < 100 ? size : 100);
    }
    for (size_t i = 0; i < 256; i++)
        free(blocks[i]);
    return NULL;
}

static int inside(void) {
    for (int round = 0; round < 3; round++) {
        pthread_t ids[3];
        for (size_t i = 0; i < 3; i++)
            REQUIRE(pthread_create(&ids[i], NULL, work, (void *)i) == 0);
        for (size_t i = 0; i < 3; i++)
            pthread_join(ids[i], NULL);
    }
    CHECK_MSG(atomic_load(&calls) == 0, "the program's clocks were asked %d times",
              atomic_load(&calls));
    return check_status();
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return inside();
    char file[] = "NUMALLOC_PROFILE_FILE=/tmp/numalloc-own_clock-XXXXXX";
    char *path = strchr(file, '/');
    int fd = mkstemp(path);
    REQUIRE(fd >= 0 && close(fd) == 0);
    static const char *const options[] = {
        "NUMALLOC_STATS=0",      "NUMALLOC_CHECK=1",       "NUMALLOC_PURGE_DELAY=1",
        "NUMALLOC_BACKGROUND=1", "NUMALLOC_PROFILE=sites", "NUMALLOC_PROFILE=trace",
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const char *const env[] = {options[i], file, NULL};
        unlink(path);
        child_result_t result;
        child_run_self(&result, "inside", NULL, env, NULL, NULL);
        CHECK_MSG(child_exited(&result, 0) && result.err[0] == '\0', "%s: status %#x, %s%s",
                  options[i], (unsigned)result.status, result.out, result.err);
        CHECK(strstr(options[i], "PROFILE") == NULL || access(path, R_OK) == 0);
    }
    unlink(path);
    return check_status();
}
