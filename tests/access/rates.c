/* rates.c - a program that counts its own accesses to heap blocks, for coverage.py.
 *
 *   rates MS [behind|timetable [SITE]]    three threads use blocks of three sites (or of one) for
 *                                         so long
 *
 *   steady   1,024 words, each once in 2 ms by threads 1 and 2
 *   bursts   1,024 words, by threads 1 and 3: every 50 ms each word 60 times, a sweep every 50 us
 *            or what the timer makes of it
 *   swept    32,768 words, each once in 40 ms by threads 2 and 3
 *
 * behind (the default): a thread that is held up does all that follows later, and so less in all.
 * timetable: it sleeps less instead, and does as much.
 * Lines: SITE THREAD ACCESSES. Counts are in no heap block. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define THREADS 3

typedef volatile uint64_t word_t;

/* A site: blocks that fill spans, so that few draws are lost on free memory. */
typedef struct site {
    const char *name;
    uint32_t blocks, words; /* words of a block */
    uint64_t every_ns, sweep_ns;
    uint32_t sweeps;
    int threads[2];
    word_t *block[64];
} site_t;

static site_t sites[] = {
    {"steady", 64, 16, 2000000, 0, 1, {0, 1}, {NULL}},
    {"bursts", 16, 64, 50000000, 50000, 60, {0, 2}, {NULL}},
    {"swept", 1, 32768, 40000000, 0, 1, {1, 2}, {NULL}},
};
enum { SITES = sizeof sites / sizeof sites[0] };

static uint64_t counts[SITES][THREADS];
static uint64_t began, ends;
static bool timetable;
static const char *only; /* site; NULL: all */

static bool in_use(const site_t *s) {
    return only == NULL || strcmp(only, s->name) == 0;
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static void until(uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000U), .tv_nsec = (long)(ns % 1000000000U)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) {
    }
}

/* Each in a function of its own: its allocations are a site. */
__attribute__((noinline)) static void *steady(size_t bytes) {
    void *block = malloc(bytes);
    __asm__("" ::: "memory");
    return block;
}

__attribute__((noinline)) static void *bursts(size_t bytes) {
    void *block = malloc(bytes);
    __asm__("" ::: "memory");
    return block;
}

__attribute__((noinline)) static void *swept(size_t bytes) {
    void *block = malloc(bytes);
    __asm__("" ::: "memory");
    return block;
}

/* Reads by the site's first thread, writes by its second: one access each. */
static uint64_t sweep(const site_t *s, bool write) {
    uint64_t done = 0;
    for (uint32_t b = 0; b < s->blocks; b++)
        for (uint32_t i = 0; i < s->words; i++, done++) {
            if (write)
                s->block[b][i] = i;
            else
                (void)s->block[b][i];
        }
    return done;
}

typedef struct task {
    site_t *site;
    uint64_t next;
    uint32_t left; /* sweeps of this burst */
    bool write;
} task_t;

static void *work(void *arg) {
    int self = (int)(intptr_t)arg;
    char name[16];
    snprintf(name, sizeof name, "thread%d", self + 1);
    prctl(PR_SET_NAME, name);
    prctl(PR_SET_TIMERSLACK, 1);
    task_t task[2] = {{0}};
    int tasks = 0;
    for (int i = 0; i < SITES; i++)
        for (int which = 0; which < 2; which++)
            if (sites[i].threads[which] == self && in_use(&sites[i]))
                task[tasks++] = (task_t){.site = &sites[i],
                                         .next = began + (uint64_t)which * sites[i].every_ns / 3,
                                         .left = sites[i].sweeps,
                                         .write = which == 1};
    while (tasks != 0) {
        task_t *t = &task[tasks == 2 && task[1].next < task[0].next];
        if (t->next >= ends) break;
        until(t->next);
        counts[t->site - sites][self] += sweep(t->site, t->write);
        if (!timetable) t->next = now();
        if (--t->left != 0) {
            t->next += t->site->sweep_ns;
        } else {
            t->left = t->site->sweeps;
            t->next += t->site->every_ns;
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    long ms = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    if (ms <= 0) {
        fprintf(stderr, "usage: rates MS [behind|timetable [SITE]]\n");
        return 2;
    }
    timetable = argc > 2 && strcmp(argv[2], "timetable") == 0;
    only = argc > 3 ? argv[3] : NULL;
    void *(*const take[])(size_t) = {steady, bursts, swept};
    for (int i = 0; i < SITES; i++)
        for (uint32_t b = 0; b < sites[i].blocks && in_use(&sites[i]); b++)
            if ((sites[i].block[b] = take[i](sites[i].words * sizeof(uint64_t))) == NULL) return 1;
    /* The recorder meets threads once a round: all are there before the first access. */
    began = now() + 100000000;
    ends = began + (uint64_t)ms * 1000000;
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)(intptr_t)i) != 0) return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < SITES; i++)
        for (int which = 0; which < 2; which++)
            if (counts[i][sites[i].threads[which]] != 0)
                printf("%s thread%d %llu\n", sites[i].name, sites[i].threads[which] + 1,
                       (unsigned long long)counts[i][sites[i].threads[which]]);
    return 0;
}
