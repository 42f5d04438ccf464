/* turns.c - two threads write to a block in turn, `argv[1]` and `argv[2]` ms each, for `argv[3]`
 * seconds; then one line: the mean length of a turn, in microseconds, as it was. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WORDS = 64 };

static volatile uint64_t *block;
static uint64_t turn_us[2], until;
static _Atomic(unsigned) whose;
static _Atomic(uint64_t) turns;

static uint64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void pause_us(long us) {
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* False: the time is over. */
static bool wait_for_turn(unsigned me) {
    while (atomic_load(&whose) != me) {
        if (now_us() > until) return false;
        pause_us(50);
    }
    return now_us() <= until;
}

static void *work(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg;
    while (wait_for_turn(me)) {
        for (uint64_t end = now_us() + turn_us[me]; now_us() < end; pause_us(100))
            for (unsigned i = 0; i < WORDS; i++)
                block[i]++;
        atomic_fetch_add(&turns, 1);
        atomic_store(&whose, !me);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    for (unsigned i = 0; i < 2; i++)
        turn_us[i] = strtoul(argv[1 + i], NULL, 10) * 1000;
    uint64_t begin = now_us();
    until = begin + strtoul(argv[3], NULL, 10) * 1000000;
    block = calloc(WORDS, sizeof *block);
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i) != 0) return 1;
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%llu\n", (unsigned long long)((now_us() - begin) / atomic_load(&turns)));
    free((void *)block);
    return 0;
}
