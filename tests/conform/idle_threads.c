/* idle_threads.c THREADS KIB - threads that sleep hold next to nothing: each allocates 300
 * blocks of random sizes up to 5 KB, frees them all and waits. Then, and a second later with nobody
 * calling, no more than KIB is resident.
 *
 * All threads are there before the first allocates; then TURNS of them do at a time, whatever the
 * machine: what thousands hold that have not come to their frees yet is no question of this test.
 */
#include "support/check.h"
#include "support/fill.h"
#include "support/proc_mem.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <unistd.h>

#include "support/alloc_api.h"

#define BLOCKS  300
#define LARGEST 5120
#define STACK   ((size_t)64 << 10)
#define TURNS   16

static pthread_barrier_t start;
static sem_t turns;
static _Atomic(unsigned) done;

static void *once(void *seed) {
    void *blocks[BLOCKS];
    uint64_t random = (uintptr_t)seed * 0x9e3779b97f4a7c15;
    pthread_barrier_wait(&start);
    while (sem_wait(&turns) != 0) {
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t size = 1 + fill_random(&random) % LARGEST;
        blocks[i] = malloc(size);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], 1, size);
    }
    /* Half of the threads free in the order of allocation, the others the other way round. */
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[(uintptr_t)seed % 2 ? i : BLOCKS - 1 - i]);
    sem_post(&turns);
    atomic_fetch_add(&done, 1);
    for (;;)
        pause();
    return NULL;
}

int main(int argc, char **argv) {
    check_begin();
    REQUIRE(argc >= 3);
    unsigned threads = (unsigned)atoi(argv[1]);
    long most = atol(argv[2]);
    pthread_attr_t attributes;
    REQUIRE(pthread_attr_init(&attributes) == 0);
    REQUIRE(pthread_attr_setstacksize(&attributes, STACK) == 0);
    REQUIRE(pthread_barrier_init(&start, NULL, threads) == 0);
    REQUIRE(sem_init(&turns, 0, TURNS) == 0);
    for (unsigned i = 0; i < threads; i++) {
        pthread_t id;
        if (pthread_create(&id, &attributes, once, (void *)(uintptr_t)(i + 1)) != 0)
            check_skip("so many threads are not allowed here");
    }
    while (atomic_load(&done) < threads)
        usleep(1000);
    long first = proc_rss_kib();
    sleep(1);
    long then = proc_rss_kib();
    printf("idle_threads: %u threads: %ld KiB resident, a second later %ld; at most %ld\n", threads,
           first, then, most);
    CHECK(first <= most);
    CHECK(then <= most);
    CHECK(then <= first + 1024);
    fflush(stdout);
    _exit(check_status());
}
