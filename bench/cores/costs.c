/* costs.c - what this machine's costs are, in the model's terms (model.h): costs
 *
 * Prints NAME=CYCLES, a line each, for `numalloc-bench cores --here`. A cycle is 0.4 ns, as the
 * model's. Each figure is the least of many rounds, for others may use the machine; of `near` the
 * median, for a hypervisor may run two processors as one core's threads at times. Two threads,
 * bound to the first two processors that the process may use; of one processor what needs two is
 * left out. Not measured: what other instructions hide (instruction, l2, depth, stream), and what
 * needs several nodes (far, remote). */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, PAGE = 4096, ROUNDS = 40, PAGES = 512, LINES = 512, NEAR = 401 };
#define NS_PER_CYCLE 0.4

static int cpu[2], cpus;
static _Atomic(uint32_t) turn, sleeping;
static char *shared;
static _Atomic(uint32_t) word;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void bind_to(int which) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu[which], &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) exit(1);
}

static void say(const char *name, double ns) {
    printf("%s=%.0f\n", name, ns > 0 ? ns / NS_PER_CYCLE : 0);
}

static double least(double a, double b) {
    return a < b ? a : b;
}

/* A cycle of pointers through each line of `bytes`, in an order that no prefetcher guesses. */
static void *chain(char *base, size_t bytes) {
    size_t lines = bytes / LINE, *order = malloc(lines * sizeof *order);
    uint64_t random = 88172645463325252U;
    if (order == NULL) exit(1);
    for (size_t i = 0; i < lines; i++)
        order[i] = i;
    for (size_t i = lines - 1; i > 0; i--) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        size_t k = random % (i + 1), other = order[i];
        order[i] = order[k], order[k] = other;
    }
    for (size_t i = 0; i < lines; i++)
        *(void **)(void *)(base + order[i] * LINE) = base + order[(i + 1) % lines] * LINE;
    free(order);
    return base;
}

static double follow(void *from, size_t steps) {
    double began = now();
    void *volatile *at = from;
    for (size_t i = 0; i < steps; i++)
        at = *at;
    double took = now() - began;
    atomic_signal_fence(memory_order_seq_cst);
    return at == NULL ? 0 : took / (double)steps;
}

static double load_from(size_t bytes) {
    char *base = aligned_alloc((size_t)2 << 20, bytes);
    double best = 1e9;
    if (base == NULL) exit(1);
    madvise(base, bytes, MADV_HUGEPAGE);
    void *from = chain(base, bytes);
    for (int i = 0; i < 5; i++)
        best = least(best, follow(from, bytes / LINE));
    free(base);
    return best;
}

#define TIMES(count, what)                                                                         \
    ({                                                                                             \
        double best_ = 1e18;                                                                       \
        for (int round_ = 0; round_ < ROUNDS; round_++) {                                          \
            double began_ = now();                                                                 \
            for (int i_ = 0; i_ < (count); i_++) {                                                 \
                what;                                                                              \
            }                                                                                      \
            best_ = least(best_, (now() - began_) / (count));                                      \
        }                                                                                          \
        best_;                                                                                     \
    })

static char *map(size_t bytes) {
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) exit(1);
    madvise(p, bytes, MADV_NOHUGEPAGE);
    return p;
}

/* Faults of fresh pages, and giving them back. */
static void pages(double call) {
    char *p = map((size_t)PAGES * PAGE);
    double fault = 1e18, drop = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        double began = now();
        for (int i = 0; i < PAGES; i++)
            *(volatile char *)(p + (size_t)i * PAGE) = 1;
        fault = least(fault, (now() - began) / PAGES);
        began = now();
        madvise(p, (size_t)PAGES * PAGE, MADV_DONTNEED);
        drop = least(drop, (now() - began - call) / PAGES);
    }
    munmap(p, (size_t)PAGES * PAGE);
    say("fault", fault);
    say("drop", drop);
}

static double drop_one(char *p) {
    double best = 1e18;
    for (int i = 0; i < ROUNDS * 10; i++) {
        *(volatile char *)p = 1;
        double began = now();
        madvise(p, PAGE, MADV_DONTNEED);
        best = least(best, now() - began);
    }
    return best;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { WRITE = 1, SPIN, FUTEX, END, DONE };

/* The other thread: writes the lines, or waits in the kernel, as it is told. */
static void *other(void *unused) {
    (void)unused;
    bind_to(1);
    for (;;) {
        uint32_t what = atomic_load(&turn);
        if (what == END) return NULL;
        if (what == WRITE) {
            for (int i = 0; i < LINES; i++)
                ((volatile uint64_t *)(void *)(shared + (size_t)i * LINE))[1]++;
            atomic_store(&turn, DONE);
        }
        if (what == FUTEX) {
            atomic_store(&sleeping, 1);
            syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
            atomic_store(&sleeping, 0);
            atomic_store(&turn, DONE);
        }
    }
}

static void of_two(void) {
    pthread_t thread;
    char *page = map(PAGE);
    double alone = drop_one(page), near[NEAR], wake = 1e18, woken = 1e18;
    void *from = chain(shared = map((size_t)LINES * LINE), (size_t)LINES * LINE);
    double clone = 1e18;
    atomic_store(&turn, END);
    for (int i = 0; i < ROUNDS; i++) {
        double began = now();
        if (pthread_create(&thread, NULL, other, NULL) != 0) exit(1);
        clone = least(clone, now() - began);
        pthread_join(thread, NULL);
    }
    say("clone", clone);
    atomic_store(&turn, SPIN);
    if (pthread_create(&thread, NULL, other, NULL) != 0) exit(1);
    for (int i = 0; i < NEAR; i++) {
        atomic_store(&turn, WRITE);
        while (atomic_load(&turn) != DONE)
            ;
        near[i] = follow(from, LINES);
    }
    qsort(near, NEAR, sizeof *near, by_value);
    say("near", near[NEAR / 2]);
    atomic_store(&turn, SPIN);
    say("shootdown", drop_one(page) - alone);
    for (int i = 0; i < ROUNDS; i++) {
        atomic_store(&word, 0);
        atomic_store(&turn, FUTEX);
        while (atomic_load(&sleeping) == 0)
            ;
        usleep(200); /* until it sleeps */
        atomic_store(&word, 1);
        double start = now();
        long count = syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        double after = now();
        while (atomic_load(&turn) != DONE)
            ;
        if (count != 1) continue; /* it had not slept yet */
        wake = least(wake, after - start);
        woken = least(woken, now() - start);
    }
    say("wake", wake);
    say("woken", woken > wake ? woken - wake : 0);
    atomic_store(&turn, END);
    pthread_join(thread, NULL);
}

int main(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    for (int i = 0; i < CPU_SETSIZE && cpus < 2; i++)
        if (CPU_ISSET(i, &set)) cpu[cpus++] = i;
    bind_to(0);
    static _Atomic(uint64_t) counter;
    static volatile uint64_t plain;
    struct timespec t;
    double add = TIMES(10000, plain++);
    say("locked", TIMES(10000, atomic_fetch_add(&counter, 1)) - add);
    say("pause", TIMES(10000, __builtin_ia32_pause()));
    say("vdso", TIMES(10000, clock_gettime(CLOCK_MONOTONIC, &t)));
    double call = TIMES(1000, syscall(SYS_getppid));
    say("call", call);
    /* A call that maps, and one that unmaps. */
    say("mapping",
        TIMES(200, munmap(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE)) /
                2 -
            call);
    pages(call);
    say("l3", load_from((size_t)8 << 20));
    say("memory", load_from((size_t)256 << 20));
    if (cpus == 2) of_two();
    return 0;
}
