/* profile_calls.c - threads whose calls of the allocator are known, and which time them themselves.
 *
 * Seven threads do the same, each at its own pace: whoever compares takes the middle one. Each
 * prints, for each kind of call: thread, entry point, calls, nanoseconds. Those are what the middle
 * call took, times the calls: it does not count when a processor was taken away in the middle of
 * one, which a profiler that times one call in many seldom sees. Of large blocks it times all
 * calls, and the nanoseconds are their sum. A thread is named after its part. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADS 7
#define SMALL   30000
#define MIDDLE  8000
#define LARGE   200

static void *(*operator_new)(size_t);
static void (*operator_delete)(void *);

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

typedef struct part {
    const char *name;
    uint64_t ns; /* the sum */
    unsigned calls;
    uint64_t each[SMALL];
} part_t;

static part_t part[3]; /* of the thread that runs: there is one at a time */

static void *volatile keep;

#define TIMED(part, call)                                                                          \
    do {                                                                                           \
        uint64_t from = now();                                                                     \
        call;                                                                                      \
        uint64_t took = now() - from;                                                              \
        (part)->ns += took;                                                                        \
        (part)->each[(part)->calls++] = took;                                                      \
    } while (0)

/* Small blocks, in a ring, so that they are not always the same one. */
static void small(part_t *of_malloc, part_t *of_free) {
    void *ring[64] = {NULL};
    for (unsigned i = 0; i < SMALL + 64; i++) {
        void **place = &ring[i % 64];
        if (*place != NULL) TIMED(of_free, free(*place));
        *place = NULL;
        if (i < SMALL) TIMED(of_malloc, keep = malloc(48));
        if (i < SMALL) *place = keep;
    }
}

/* Blocks that calloc clears: of the largest small size. */
static void middle(part_t *of_calloc) {
    for (unsigned i = 0; i < MIDDLE; i++) {
        TIMED(of_calloc, keep = calloc(1, 32768));
        free(keep);
    }
}

/* Blocks that grow from one class to another: allocated, copied, freed. */
static void growing(part_t *of_realloc) {
    for (unsigned i = 0; i < MIDDLE; i++) {
        char *block = malloc(16000);
        if (block == NULL) exit(99);
        memset(block, 1, 16000);
        TIMED(of_realloc, keep = realloc(block, 30000));
        free(keep);
    }
}

static void large(part_t *of_calloc) {
    for (unsigned i = 0; i < LARGE; i++) {
        TIMED(of_calloc, keep = calloc(1, 1 << 20));
        memset(keep, 1, 1 << 20); /* or it would be known to be clear next time */
        free(keep);
    }
}

/* Two ways down the stack, taken in turn, so that the profiler finds forty new frames at each call
 * below: it takes far longer than the call. */
typedef void (*call_t)(part_t *part);
#define WAY(name)                                                                                  \
    __attribute__((noinline)) static void name(call_t call, part_t *part, unsigned depth) {        \
        if (depth == 0)                                                                            \
            call(part);                                                                            \
        else                                                                                       \
            name(call, part, depth - 1);                                                           \
        keep = part;                                                                               \
    }
WAY(one_way)
WAY(other_way)

static void call_aligned(part_t *part) {
    TIMED(part, keep = aligned_alloc(64, 192));
    free(keep);
}

static void call_new(part_t *part) {
    TIMED(part, keep = operator_new(80));
    operator_delete(keep);
}

static void *volatile little;

static void call_realloc(part_t *part) {
    TIMED(part, keep = realloc(little, 96));
    free(keep);
}

static void others(part_t *of_aligned, part_t *of_new, part_t *of_realloc) {
    for (unsigned i = 0; i < SMALL / 5; i++) {
        void (*way)(call_t, part_t *, unsigned) = i % 2 ? one_way : other_way;
        void (*back)(call_t, part_t *, unsigned) = i % 2 ? other_way : one_way;
        little = malloc(32);
        way(call_aligned, of_aligned, 40);
        back(call_new, of_new, 40);
        way(call_realloc, of_realloc, 40);
    }
}

/* By halving the range of values: qsort would allocate. */
static uint64_t middle_call(const part_t *p) {
    uint64_t low = 0, high = p->ns;
    while (low < high) {
        uint64_t at = low + (high - low) / 2;
        unsigned below = 0;
        for (unsigned i = 0; i < p->calls; i++)
            below += p->each[i] <= at;
        if (below > p->calls / 2)
            high = at;
        else
            low = at + 1;
    }
    return low;
}

static void begin(size_t index, const char *name) {
    part[index].name = name;
    part[index].ns = part[index].calls = 0;
}

static void put(const char *role, size_t count, bool sums) {
    for (const part_t *p = part; p < part + count; p++) {
        uint64_t ns = sums ? p->ns : middle_call(p) * p->calls;
        printf("%s %s %u %llu\n", role, p->name, p->calls, (unsigned long long)ns);
    }
    fflush(stdout);
}

typedef struct task {
    const char *kind;
    int number;
} task_t;

static void *run(void *arg) {
    const task_t *task = arg;
    char role[16];
    snprintf(role, sizeof role, "%s-%d", task->kind, task->number);
    pthread_setname_np(pthread_self(), role);
    if (strcmp(task->kind, "small") == 0) {
        begin(0, "malloc");
        begin(1, "free");
        small(&part[0], &part[1]);
        put(role, 2, false);
    } else if (strcmp(task->kind, "middle") == 0) {
        begin(0, "calloc");
        middle(&part[0]);
        put(role, 1, false);
    } else if (strcmp(task->kind, "growing") == 0) {
        begin(0, "realloc");
        growing(&part[0]);
        put(role, 1, false);
    } else if (strcmp(task->kind, "large") == 0) {
        begin(0, "calloc");
        large(&part[0]);
        put(role, 1, true);
    } else {
        begin(0, "aligned");
        begin(1, "new");
        begin(2, "realloc");
        others(&part[0], &part[1], &part[2]);
        put(role, 3, false);
    }
    return NULL;
}

int main(void) {
    static char buffer[1 << 16];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer); /* or the first to print allocates it */
    static const char *const kinds[] = {"small", "middle", "growing", "large", "others"};
    *(void **)&operator_new = dlsym(RTLD_DEFAULT, "_Znwm");
    *(void **)&operator_delete = dlsym(RTLD_DEFAULT, "_ZdlPv");
    if (operator_new == NULL || operator_delete == NULL) {
        fprintf(stderr, "profile_calls: no operator new; preload the library\n");
        return 2;
    }
    for (int number = 0; number < THREADS; number++)
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            task_t task = {kinds[k], number};
            pthread_t thread;
            if (pthread_create(&thread, NULL, run, &task) != 0) return 99;
            pthread_join(thread, NULL);
        }
    return 0;
}
