/* policy_counters.c - counters that the main thread allocates one by one, and two busy threads that
 * count, each in every other one:
 *
 *     policy_counters COUNTERS SECONDS [padded]
 *
 *     policy_counters probe
 *
 * "padded": a line of the cache for each counter, by hand. Prints how many lines of the cache hold
 * counters of both threads, and on stderr the million counts a second. "probe": does a hardware
 * watchpoint fire on this machine? Status 1: no, or none may be set. (Some virtual machines take
 * them and never fire.) */
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 2, LINE = 64, MOST = 1024 };

static uint64_t *counters[MOST];
static int count;
static atomic_bool over;
static uint64_t counted[THREADS];

__attribute__((noinline)) static uint64_t *new_counter(bool padded) {
    uint64_t *counter = padded ? aligned_alloc(LINE, LINE) : malloc(sizeof *counter);
    if (counter == NULL) exit(1);
    *counter = 0;
    return counter;
}

/* A stretch of counts in each: the time is that of counting, not of choosing. */
static void *run(void *argument) {
    int thread = *(int *)argument;
    uint64_t sum = 0;
    for (int at = thread; !atomic_load_explicit(&over, memory_order_relaxed);) {
        volatile uint64_t *counter = counters[at];
        for (int i = 0; i < 1000; i++)
            ++*counter;
        sum += 1000;
        at += THREADS;
        if (at >= count) at = thread;
    }
    counted[thread] = sum;
    return NULL;
}

/* Lines with counters of different threads. */
static int shared_lines(void) {
    int shared = 0;
    for (int i = 0; i < count; i++) {
        bool first = true, both = false;
        for (int k = 0; k < count; k++) {
            if ((uintptr_t)counters[i] / LINE != (uintptr_t)counters[k] / LINE) continue;
            if (k < i) first = false;
            if (k % THREADS != i % THREADS) both = true;
        }
        shared += first && both;
    }
    return shared;
}

static int probe(void) {
    static volatile uint64_t word;
    struct perf_event_attr event = {.type = PERF_TYPE_BREAKPOINT,
                                    .size = sizeof event,
                                    .bp_type = HW_BREAKPOINT_W,
                                    .bp_addr = (uintptr_t)&word,
                                    .bp_len = HW_BREAKPOINT_LEN_8,
                                    .exclude_kernel = 1,
                                    .exclude_hv = 1};
    uint64_t hits = 0;
    int fd = (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, 0UL);
    if (fd < 0) return 1;
    for (int i = 0; i < 10; i++)
        word = (uint64_t)i;
    return read(fd, &hits, sizeof hits) == sizeof hits && hits == 10 ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "probe") == 0) return probe();
    if (argc < 3) return 2;
    count = atoi(argv[1]);
    double seconds = atof(argv[2]);
    bool padded = argc > 3 && strcmp(argv[3], "padded") == 0;
    if (count < THREADS || count > MOST) return 2;
    for (int i = 0; i < count; i++)
        counters[i] = new_counter(padded);
    printf("%d shared\n", shared_lines());

    pthread_t thread[THREADS];
    int number[THREADS];
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        if (pthread_create(&thread[i], NULL, run, &number[i]) != 0) return 1;
    }
    nanosleep(
        &(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)},
        NULL);
    atomic_store(&over, true);
    uint64_t all = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        all += counted[i];
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double took = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    fprintf(stderr, "%.1f million a second\n", (double)all / took / 1e6);
    uint64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += *counters[i];
    return sum == all ? 0 : 1;
}
