/* trace_load.c - a program whose every allocation is known: it logs what it does, and trace_check
 * compares that with the trace. Usage: trace_load one|threads|fork LOG
 *
 * The log is static memory, written with write(2) at the end (a forked child writes LOG.child): the
 * C library is not asked for memory between the two marks of a section, so that a thread's events
 * between its marks are exactly those of the log. Nothing depends on time or chance: each thread
 * has a generator of its own with a fixed seed. */
#include "trace_load.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SITE __attribute__((noinline, noclone))
#define KEPT 3000

typedef struct section {
    trace_log_t log;
    uint64_t random;
    struct {
        void *block;
    } kept[KEPT];
} section_t;

static section_t sections[TRACE_THREADS + 1];

static uint64_t next(section_t *s) {
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return s->random >> 33;
}

static void note(section_t *s, unsigned kind, unsigned site, void *block, size_t size,
                 void *other) {
    if (s->log.count == TRACE_LOG) abort();
    s->log.entries[s->log.count++] = (trace_entry_t){
        .kind = (uint8_t)kind,
        .site = (uint8_t)site,
        .address = (uintptr_t)block,
        .size = size,
        .usable = kind < NA_NPROF_EVENT_FREE ? malloc_usable_size(block) : 0,
        .other = (uintptr_t)other,
    };
}

/* One function a site, so that each has a stack of its own. The empty assembly keeps a call from
 * becoming a jump. */
#define ALLOCATES(name, kind, number, call)                                                        \
    SITE static void *name(section_t *s, size_t size) {                                            \
        void *block = call;                                                                        \
        __asm__ volatile("# " #name : "+r"(block));                                                \
        if (block == NULL) abort();                                                                \
        note(s, kind, number, block, size, NULL);                                                  \
        return block;                                                                              \
    }
ALLOCATES(take_malloc, NA_NPROF_EVENT_MALLOC, 1, malloc(size))
ALLOCATES(take_other, NA_NPROF_EVENT_MALLOC, 2, malloc(size))
ALLOCATES(take_zeroed, NA_NPROF_EVENT_CALLOC, 3, calloc(1, size))
ALLOCATES(take_aligned, NA_NPROF_EVENT_ALIGNED, 4, aligned_alloc(64, size))
ALLOCATES(take_realloc, NA_NPROF_EVENT_REALLOC, 5, realloc(NULL, size))

SITE static void *resize(section_t *s, void *block, size_t size) {
    uintptr_t old = (uintptr_t)block;
    void *now = realloc(block, size);
    __asm__ volatile("# resize" : "+r"(now));
    if (now == NULL) abort();
    if ((uintptr_t)now == old) {
        note(s, NA_NPROF_EVENT_RESIZE, 6, now, size, NULL);
    } else {
        /* Copied, or its pages were moved: the checker accepts either order. */
        note(s, NA_NPROF_EVENT_REALLOC, 6, now, size, (void *)old);
        note(s, NA_NPROF_EVENT_MOVED, 0, (void *)old, 0, now);
    }
    return now;
}

static void give(section_t *s, void *block) {
    note(s, NA_NPROF_EVENT_FREE, 0, block, 0, NULL);
    free(block);
}

static void *take_some(section_t *s) {
    size_t size = next(s) % 16 == 0 ? next(s) % 200000 + 1 : next(s) % 500 + 1;
    switch (next(s) % 8) {
    case 0:
        return take_other(s, size);
    case 1:
        return take_zeroed(s, size);
    case 2:
        return take_aligned(s, size);
    case 3:
        return take_realloc(s, size);
    default:
        return take_malloc(s, size);
    }
}

static void steps(section_t *s, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        void **kept = &s->kept[next(s) % KEPT].block;
        unsigned what = (unsigned)(next(s) % 16);
        if (*kept == NULL)
            *kept = take_some(s);
        else if (what < 3)
            *kept = resize(s, *kept, next(s) % 800 + 1);
        else if (what == 3)
            *kept = resize(s, *kept, next(s) % 300000 + 1);
        else {
            give(s, *kept);
            *kept = NULL;
        }
        if (what == 15) give(s, take_malloc(s, 100)); /* temporary */
        if (what == 14)                               /* several threads free what another took */
            for (unsigned k = 0; k < 3; k++) {
                void *block = take_other(s, 40);
                give(s, block);
            }
    }
}

/* A block that grows until the system moves its pages. */
static void grow_large(section_t *s) {
    void *block = take_malloc(s, 100000);
    for (size_t size = 1 << 20; size <= (size_t)256 << 20; size *= 2)
        block = resize(s, block, size);
    give(s, block);
}

static void mark(size_t size) {
    void *volatile block = malloc(size);
    free(block);
}

static void *handed[TRACE_THREADS][TRACE_HANDED];
static pthread_barrier_t barrier;

static void *thread_main(void *argument) {
    section_t *s = argument;
    size_t me = (size_t)(s - sections) - 1;
    mark(TRACE_MARK);
    steps(s, 20000);
    for (unsigned i = 0; i < TRACE_HANDED; i++)
        handed[me][i] = take_other(s, i % 1000 + 1);
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < TRACE_HANDED; i++) /* the neighbour's */
        give(s, handed[(me + 1) % TRACE_THREADS][i]);
    steps(s, 20000);
    mark(TRACE_MARK + 2);
    return NULL;
}

static void run_one(section_t *s) {
    mark(TRACE_MARK);
    steps(s, 100000);
    grow_large(s);
    for (unsigned i = 0; i < KEPT; i += 2)
        if (s->kept[i].block != NULL) {
            give(s, s->kept[i].block);
            s->kept[i].block = NULL;
        }
    mark(TRACE_MARK + 2);
}

static void run_threads(void) {
    pthread_t threads[TRACE_THREADS];
    pthread_barrier_init(&barrier, NULL, TRACE_THREADS);
    for (unsigned i = 0; i < TRACE_THREADS; i++)
        if (pthread_create(&threads[i], NULL, thread_main, &sections[i + 1]) != 0) abort();
    for (unsigned i = 0; i < TRACE_THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void write_log(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) abort();
    for (unsigned i = 0; i <= TRACE_THREADS; i++) {
        const trace_log_t *log = &sections[i].log;
        size_t bytes = offsetof(trace_log_t, entries) + log->count * sizeof log->entries[0];
        if (log->count != 0 && write(fd, log, bytes) != (ssize_t)bytes) abort();
    }
    close(fd);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: trace_load one|threads|fork LOG\n");
        return 2;
    }
    static char child_log[4096];
    for (unsigned i = 0; i <= TRACE_THREADS; i++) {
        sections[i].random = i + 1;
        sections[i].log.section = i;
    }
    if (strcmp(argv[1], "threads") == 0) {
        run_threads();
    } else if (strcmp(argv[1], "fork") == 0) {
        snprintf(child_log, sizeof child_log, "%s.child", argv[2]);
        mark(TRACE_MARK);
        steps(&sections[0], 30000);
        pid_t child = fork();
        if (child < 0) abort();
        section_t *s = &sections[0];
        if (child == 0) {
            s->log.count = 0;
            s->log.inherited = 1;
            mark(TRACE_MARK);
            steps(s, 30000);
            mark(TRACE_MARK + 2);
            write_log(child_log);
            return 0;
        }
        steps(s, 30000);
        mark(TRACE_MARK + 2);
        int status;
        if (waitpid(child, &status, 0) != child || status != 0) return 3;
    } else {
        run_one(&sections[0]);
    }
    write_log(argv[2]);
    return 0;
}
