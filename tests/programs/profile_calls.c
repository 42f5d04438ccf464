/* profile_calls.c - threads whose calls of the allocator are known, and which time them themselves.
 *
 * Seven threads do the same, each at its own pace: whoever compares takes the middle one, so that a
 * thread that was put to sleep in the middle of a call does not count. Each prints, for each kind
 * of call: thread, entry point, calls, nanoseconds. A thread is named after its part. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
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
    uint64_t ns;
    unsigned calls;
} part_t;

static void *volatile keep;

#define TIMED(part, call)                                                                          \
    do {                                                                                           \
        uint64_t from = now();                                                                     \
        call;                                                                                      \
        (part)->ns += now() - from;                                                                \
        (part)->calls++;                                                                           \
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
        char *block = malloc(4000);
        if (block == NULL) exit(99);
        memset(block, 1, 4000);
        TIMED(of_realloc, keep = realloc(block, 20000));
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

static void put(const char *role, const part_t *parts, size_t count) {
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&turn);
    for (size_t i = 0; i < count; i++)
        printf("%s %s %u %llu\n", role, parts[i].name, parts[i].calls,
               (unsigned long long)parts[i].ns);
    fflush(stdout);
    pthread_mutex_unlock(&turn);
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
        part_t parts[] = {{"malloc", 0, 0}, {"free", 0, 0}};
        small(&parts[0], &parts[1]);
        put(role, parts, 2);
    } else if (strcmp(task->kind, "middle") == 0) {
        part_t parts[] = {{"calloc", 0, 0}};
        middle(&parts[0]);
        put(role, parts, 1);
    } else if (strcmp(task->kind, "growing") == 0) {
        part_t parts[] = {{"realloc", 0, 0}};
        growing(&parts[0]);
        put(role, parts, 1);
    } else if (strcmp(task->kind, "large") == 0) {
        part_t parts[] = {{"calloc", 0, 0}};
        large(&parts[0]);
        put(role, parts, 1);
    } else {
        part_t parts[] = {{"aligned", 0, 0}, {"new", 0, 0}, {"realloc", 0, 0}};
        others(&parts[0], &parts[1], &parts[2]);
        put(role, parts, 3);
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
