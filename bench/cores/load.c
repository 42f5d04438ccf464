/* load.c - the loads of `numalloc-bench cores`: numalloc-cores-load LOAD THREADS OPERATIONS
 *
 *   churn     each thread: frees a block at random of 1,000 of its own and takes another, 16 to 512
 *             bytes
 *   larson    the same with 256 blocks, which the next thread goes on with after every 256
 *   handoff   pairs: one takes blocks of 64 bytes and writes them, the other reads and frees them
 *   cold      puts a block at random into a table of all threads and frees what was there
 *   large     churn of 8 blocks of 30 KiB to 4 MiB, with a word written in every page
 *   threads   each thread: starts one that takes and frees 100 blocks, and waits for its end
 *   server    one thread takes requests and hands them to workers, which make answers that it frees
 *
 * An operation is a block that was taken and freed; in `threads` a thread. Each thread warms up
 * with as many operations as it does after, then waits for the others; the marks tell the
 * instrument what to count. Everything is drawn by the number of the thread. Waiting for a partner
 * is told as such, so that it doesn't count as work. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* syscalls.c: a system call that no kernel has. */
enum { MARK = 500, MARK_BEGIN = 1, MARK_END = 2, MARK_IDLE = 3 };
enum { THREADS_MAX = 256, SLOTS = 1000, BATCH = 256, RING = 64, ALIGN = 128 };

typedef struct worker {
    _Alignas(ALIGN) uint64_t random;
    unsigned index;
    void **table; /* larson: whose blocks it goes on with */
    void *slot[SLOTS];
} worker_t;

/* From one thread to another; each index is written by one of them. */
typedef struct ring {
    _Alignas(ALIGN) _Atomic uint64_t put;
    _Alignas(ALIGN) _Atomic uint64_t taken;
    _Alignas(ALIGN) void *block[RING];
} ring_t;

/* Returns how many blocks it took, or those that another took and it freed. */
typedef uint64_t run_fn(worker_t *self, uint64_t operations);

static unsigned threads;
static uint64_t operations;
static run_fn *run;
static pthread_barrier_t barrier;
static worker_t workers[THREADS_MAX];
static ring_t rings[THREADS_MAX], answers[THREADS_MAX];
static void *spare[THREADS_MAX][BATCH];
static _Atomic(void **) tables[THREADS_MAX];
static bool instrument;
static _Atomic(void *) shared[THREADS_MAX * 64];

static void mark(long what, uint64_t count) {
    if (instrument) syscall(MARK, what, count);
}

static void idle(void) {
    static _Thread_local unsigned times;
    if (instrument)
        mark(MARK_IDLE, 0);
    else if (++times % 64 != 0)
        __builtin_ia32_pause();
    else
        sched_yield();
}

static uint64_t draw(worker_t *self) {
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return self->random * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

static void *take(size_t size) {
    void *block = malloc(size);
    if (block == NULL) {
        fputs("no memory\n", stderr);
        _Exit(1);
    }
    *(uint64_t *)block = size;
    return block;
}

static void replace(worker_t *self, void **slot) {
    free(*slot);
    *slot = take(16 + draw(self) % 497);
}

static uint64_t churn(worker_t *self, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        replace(self, &self->slot[draw(self) % SLOTS]);
    return count;
}

static uint64_t larson(worker_t *self, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        replace(self, &self->table[draw(self) % BATCH]);
        if ((i + 1) % BATCH == 0)
            self->table =
                atomic_exchange(&tables[(i / BATCH + self->index) % threads], self->table);
    }
    return count;
}

static void put(ring_t *ring, void *block) {
    uint64_t at = atomic_load_explicit(&ring->put, memory_order_relaxed);
    while (at - atomic_load_explicit(&ring->taken, memory_order_acquire) == RING)
        idle();
    ring->block[at % RING] = block;
    atomic_store_explicit(&ring->put, at + 1, memory_order_release);
}

static bool is_empty(ring_t *ring) {
    return atomic_load_explicit(&ring->put, memory_order_acquire) ==
           atomic_load_explicit(&ring->taken, memory_order_relaxed);
}

static void *get(ring_t *ring) {
    uint64_t at = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    while (is_empty(ring))
        idle();
    void *block = ring->block[at % RING];
    atomic_store_explicit(&ring->taken, at + 1, memory_order_release);
    return block;
}

static void free_64(uint64_t *block) {
    if (*block != 64) abort();
    free(block);
}

static uint64_t handoff(worker_t *self, uint64_t count) {
    ring_t *ring = &rings[self->index / 2];
    bool puts = self->index % 2 == 0, gets = !puts || threads == 1;
    for (uint64_t i = 0; i < count; i++) {
        if (puts) put(ring, take(64));
        if (gets) free_64(get(ring));
    }
    return gets ? count : 0;
}

static uint64_t cold(worker_t *self, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        _Atomic(void *) *slot = &shared[draw(self) % (threads * UINT64_C(64))];
        free(atomic_exchange(slot, take(16 + draw(self) % 497)));
    }
    return count;
}

static uint64_t large(worker_t *self, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        void **slot = &self->slot[draw(self) % 8];
        size_t size = (30720U << draw(self) % 7) + draw(self) % 30720;
        free(*slot);
        char *block = *slot = take(size);
        for (size_t at = 0; at < size; at += 4096)
            block[at] = 1;
    }
    return count;
}

static void *short_life(void *arg) {
    worker_t *self = arg;
    void *block[100];
    for (int i = 0; i < 100; i++)
        block[i] = take(16 + draw(self) % 497);
    for (int i = 0; i < 100; i++)
        free(block[i]);
    return NULL;
}

static uint64_t lives(worker_t *self, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, short_life, self) != 0) abort();
        pthread_join(thread, NULL);
    }
    return count;
}

/* A request is 4 blocks, the answer one. */
static void **new_request(worker_t *self) {
    void **request = take(4 * sizeof(void *));
    for (int i = 1; i < 4; i++)
        request[i] = take(32 + draw(self) % 1000);
    return request;
}

static void *answer_to(worker_t *self, void **request) {
    void *answer = take(200 + draw(self) % 4000);
    for (int i = 3; i >= 1; i--)
        free(request[i]);
    free(request);
    return answer;
}

/* Hands requests to all workers in turn, at most 8 before the answer. */
static void accept_all(worker_t *self, uint64_t requests) {
    uint64_t sent = 0, freed = 0;
    while (freed < requests) {
        bool room = sent < requests && sent - freed < (threads - 1) * UINT64_C(8);
        if (room) put(&rings[1 + sent++ % (threads - 1)], new_request(self));
        uint64_t before = freed;
        for (unsigned i = 1; i < threads; i++)
            while (!is_empty(&answers[i])) {
                free(get(&answers[i]));
                freed++;
            }
        if (!room && freed == before) idle();
    }
}

static uint64_t server(worker_t *self, uint64_t count) {
    uint64_t requests = count / 5;
    if (threads > 1 && self->index == 0) {
        accept_all(self, requests * (threads - 1));
        return requests * (threads - 1) * 5;
    }
    for (uint64_t i = 0; i < requests; i++) {
        if (threads == 1)
            free(answer_to(self, new_request(self)));
        else
            put(&answers[self->index], answer_to(self, get(&rings[self->index])));
    }
    return threads == 1 ? requests * 5 : 0;
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void *work(void *arg) {
    worker_t *self = arg;
    run(self, operations);
    pthread_barrier_wait(&barrier);
    uint64_t began = now();
    mark(MARK_BEGIN, 0);
    uint64_t done = run(self, operations);
    mark(MARK_END, done);
    uint64_t ended = now();
    pthread_barrier_wait(&barrier);
    if (!instrument && done > 0 && (self->index < 2))
        printf("%.1f ns\n", (double)(ended - began) / (double)done);
    return NULL;
}

static const struct load {
    const char *name;
    run_fn *run;
} loads[] = {{"churn", churn}, {"larson", larson}, {"handoff", handoff}, {"cold", cold},
             {"large", large}, {"threads", lives}, {"server", server}};

int main(int argc, char **argv) {
    static pthread_t thread[THREADS_MAX];
    for (size_t i = 0; argc == 4 && i < sizeof loads / sizeof *loads; i++)
        if (strcmp(argv[1], loads[i].name) == 0) run = loads[i].run;
    threads = argc == 4 ? (unsigned)atoi(argv[2]) : 0;
    if (run == NULL || threads < 1 || threads > THREADS_MAX) {
        fputs("usage: numalloc-cores-load churn|larson|handoff|cold|large|threads|server "
              "THREADS(1..256) OPERATIONS\n",
              stderr);
        return 2;
    }
    operations = strtoull(argv[3], NULL, 10);
    instrument = syscall(MARK, 0) == 0;
    pthread_barrier_init(&barrier, NULL, threads);
    for (unsigned i = 0; i < threads; i++)
        tables[i] = spare[i];
    for (unsigned i = 0; i < threads; i++) {
        workers[i].index = i;
        workers[i].table = workers[i].slot;
        workers[i].random = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        if (pthread_create(&thread[i], NULL, work, &workers[i]) != 0) return 1;
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
