/* waves.c THREADS - the memory of a wave is kept for the next one: 64 MiB in blocks of 100 KB to
 * 1 MB are made, written and freed again and again, while so many threads sleep. The last wave
 * hardly touches memory that the process did not have. */
#include "support/check.h"
#include "support/fill.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/alloc_api.h"

#define WAVES 12
#define TOTAL ((size_t)64 << 20)
#define LEAST ((size_t)100 << 10)
#define MOST  ((size_t)1000 << 10)

static sem_t ready;

static void *sleeper(void *unused) {
    free(malloc(100));
    sem_post(&ready);
    for (;;)
        pause();
    return unused;
}

static void start(unsigned threads) {
    pthread_attr_t attributes;
    REQUIRE(pthread_attr_init(&attributes) == 0);
    REQUIRE(pthread_attr_setstacksize(&attributes, (size_t)64 << 10) == 0);
    REQUIRE(sem_init(&ready, 0, 0) == 0);
    for (unsigned i = 0; i < threads; i++) {
        pthread_t id;
        REQUIRE(pthread_create(&id, &attributes, sleeper, NULL) == 0);
        while (sem_wait(&ready) != 0) {
        }
    }
}

static long wave(void) {
    static void *blocks[TOTAL / LEAST + 1];
    static uint64_t random = 1;
    struct rusage before, after;
    REQUIRE(getrusage(RUSAGE_SELF, &before) == 0);
    unsigned count = 0;
    for (size_t sum = 0, size; sum < TOTAL; sum += size) {
        size = LEAST + fill_random(&random) % (MOST - LEAST);
        blocks[count] = malloc(size);
        REQUIRE(blocks[count] != NULL);
        memset(blocks[count++], 1, size);
    }
    while (count > 0)
        free(blocks[--count]);
    REQUIRE(getrusage(RUSAGE_SELF, &after) == 0);
    return after.ru_minflt - before.ru_minflt;
}

int main(int argc, char **argv) {
    check_begin();
    REQUIRE(argc == 2);
    start((unsigned)atoi(argv[1]));
    long first = wave(), last = 0;
    for (unsigned i = 1; i < WAVES; i++)
        last = wave();
    printf("waves: %ld pages touched first by the first wave, %ld by the last\n", first, last);
    CHECK(last <= first / 20);
    fflush(stdout);
    _exit(check_status());
}
