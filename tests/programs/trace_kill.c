/* trace_kill.c - SIGKILL at many moments: the trace always reads, and what the victim had done is
 * in it. Usage: trace_kill LIBNUMALLOC.SO DIRECTORY ROUNDS
 *
 * The victim's threads count, in memory that they share with this program, what they have begun and
 * what is done. Each has sizes of its own, which tell its events. A trace that lacks an event that
 * was done 100 ms before the kill fails the promise; this is stricter: one event for each thread
 * may be missing, the one that it was in. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "profiler/analyze/blocks/trace_replay.h"

#define THREADS 3u
#define LIVE    64u
#define BASE    5000u /* sizes: BASE + 10 * thread */

typedef struct shared {
    struct {
        _Alignas(64) _Atomic uint64_t allocs, frees; /* done */
    } of[THREADS];
} shared_t;

static shared_t *shared;

static void *work(void *arg) {
    size_t me = (size_t)arg;
    void *volatile kept[LIVE] = {NULL};
    for (size_t i = 0;; i = (i * 5 + 1) % LIVE) {
        if (kept[i] != NULL) {
            free(kept[i]);
            atomic_fetch_add(&shared->of[me].frees, 1);
        }
        kept[i] = malloc(BASE + 10 * me);
        atomic_fetch_add(&shared->of[me].allocs, 1);
    }
    return NULL;
}

static int victim(const char *path) {
    int fd = open(path, O_RDWR);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || shared == MAP_FAILED) return 9;
    for (size_t i = 1; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, (void *)i) != 0) return 9;
    }
    work((void *)0);
    return 0;
}

static void fail(unsigned round, const char *what, uint64_t got, uint64_t want) {
    fprintf(stderr, "trace_kill: round %u: %s (%llu, %llu)\n", round, what, (unsigned long long)got,
            (unsigned long long)want);
    exit(1);
}

static void check(unsigned round, const char *path, bool killed_early) {
    char text[512];
    na_reader_t *reader = na_reader_open(path, text, sizeof text);
    if (reader == NULL && killed_early) return; /* it had not begun */
    if (reader == NULL) {
        fprintf(stderr, "trace_kill: round %u: %s\n", round, text);
        exit(1);
    }
    na_replay_t *replay = na_replay_open(reader);
    if (replay == NULL) fail(round, "out of memory", 0, 0);
    uint64_t allocs[THREADS] = {0}, frees[THREADS] = {0};
    na_event_t e;
    na_live_t freed;
    while (na_replay_next(replay, &e, &freed)) {
        uint64_t size = na_event_is_alloc(&e) ? e.size : freed.address != 0 ? freed.size : 0;
        if (size < BASE || size >= BASE + 10 * THREADS || size % 10 != 0) continue;
        uint64_t *count = na_event_is_alloc(&e) ? allocs : frees;
        count[(size - BASE) / 10]++;
    }
    for (unsigned i = 0; i < THREADS; i++) {
        uint64_t done = atomic_load(&shared->of[i].allocs);
        if (allocs[i] < done || allocs[i] > done + 1) fail(round, "allocations", allocs[i], done);
        done = atomic_load(&shared->of[i].frees);
        if (frees[i] < done || frees[i] > done + 1) fail(round, "frees", frees[i], done);
    }
    if (na_replay_totals(replay)->contradictions != 0)
        fail(round, "contradictions", na_replay_totals(replay)->contradictions, 0);
    if (na_reader_header(reader)->lost_events != 0)
        fail(round, "lost", na_reader_header(reader)->lost_events, 0);
    na_replay_close(replay);
    na_reader_close(reader);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "victim") == 0) return victim(argv[2]);
    if (argc < 4) {
        fprintf(stderr, "usage: trace_kill LIBNUMALLOC.SO DIRECTORY ROUNDS\n");
        return 2;
    }
    char counters[4096], profile[4096], name[4200];
    snprintf(counters, sizeof counters, "%s/counters", argv[2]);
    snprintf(profile, sizeof profile, "%s/killed.nprof", argv[2]);
    int fd = open(counters, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *shared) != 0) return 9;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) return 9;
    unsigned rounds = (unsigned)strtoul(argv[3], NULL, 10);
    uint64_t random = 12345, events = 0;
    for (unsigned round = 0; round < rounds; round++) {
        memset(shared, 0, sizeof *shared);
        unlink(profile);
        pid_t child = fork();
        if (child < 0) return 9;
        if (child == 0) {
            setenv("NUMALLOC_PROFILE", "trace", 1);
            setenv("NUMALLOC_PROFILE_FILE", profile, 1);
            setenv("NUMALLOC_TRACE_BUFFER", round % 2 == 0 ? "64K" : "1M", 1);
            if (round % 5 == 4) setenv("NUMALLOC_TRACE_THREAD", "0", 1);
            snprintf(name, sizeof name, "%s", argv[1]);
            setenv("LD_PRELOAD", name, 1);
            execl(argv[0], argv[0], "victim", counters, (char *)NULL);
            _exit(9);
        }
        /* Half of the kills within 20 ms, when buffers are made; the others within 200 ms. */
        random = random * 6364136223846793005u + 1442695040888963407u;
        long us = (long)((random >> 33) % (round % 2 == 0 ? 20000 : 200000));
        nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        check(round, profile, atomic_load(&shared->of[0].allocs) == 0);
        for (unsigned i = 0; i < THREADS; i++)
            events += atomic_load(&shared->of[i].allocs) + atomic_load(&shared->of[i].frees);
    }
    printf("%u kills, %llu events, none lost\n", rounds, (unsigned long long)events);
    return 0;
}
