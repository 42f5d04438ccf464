/* fork_joins_lib.c - a library with a thread that it ends before a fork, as OpenBLAS does. The
 * program is linked with it, so that its constructor runs before that of a preloaded library. */
#include "support/check.h"
#include "support/fill.h"

#include <pthread.h>

#include "conform/fork_joins.h"

#define EXPORT __attribute__((visibility("default")))
#define BLOCKS 2000

EXPORT int fork_joins_ended;
static pthread_t thread;
static pthread_barrier_t begun;
static bool running;
static int stop; /* __atomic */

/* Allocates and frees for as long as it is there, and once more after it was told to end: enough
 * for the slow paths. */
static void *work(void *unused) {
    (void)unused;
    uint64_t random = 1;
    bool last = false;
    for (unsigned round = 0; !last; round++) {
        last = __atomic_load_n(&stop, __ATOMIC_ACQUIRE) != 0;
        void *blocks[BLOCKS];
        for (size_t i = 0; i < BLOCKS; i++)
            REQUIRE((blocks[i] = malloc(fill_random_size(&random, i % 500 == 0 ? 20 : 12))) !=
                    NULL);
        for (size_t i = 0; i < BLOCKS; i++)
            free(blocks[i]);
        if (round == 0) pthread_barrier_wait(&begun);
    }
    __atomic_fetch_add(&fork_joins_ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

EXPORT void fork_joins_start(void) {
    __atomic_store_n(&stop, 0, __ATOMIC_RELEASE);
    REQUIRE(pthread_barrier_init(&begun, NULL, 2) == 0);
    REQUIRE(pthread_create(&thread, NULL, work, NULL) == 0);
    pthread_barrier_wait(&begun);
    running = true;
}

static void before(void) {
    if (!running) return;
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    running = false;
}

__attribute__((constructor)) static void begin(void) {
    REQUIRE(pthread_atfork(before, NULL, NULL) == 0);
}
