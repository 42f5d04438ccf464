/* instructions.c - pairs of malloc and free, to have their instructions counted.
 *
 *   instructions single COUNT     malloc(64), free, COUNT times
 *   instructions deep COUNT       the same, malloc being called by three functions
 *   instructions batch COUNT      100 times malloc(64), then 100 times free, COUNT / 100 times
 *   instructions mixed COUNT      a random block of 2,000 (16 to 1,024 bytes) freed, and one of a
 *                                 random size allocated in its place
 *   instructions realloc COUNT    a block of 64 bytes resized to 256 and back, COUNT / 2 times
 *   instructions new COUNT        operator new(64), sized operator delete, COUNT times
 *   instructions new-array COUNT  the same for arrays
 *   instructions ring SIZE COUNT  the oldest of 16 blocks of SIZE bytes freed, and one allocated in
 *                                 its place, COUNT times
 *   instructions stack SIZE COUNT 32 times malloc(SIZE), then free from the last to the first,
 *                                 COUNT / 32 times
 *   instructions wave SIZE COUNT  the same with 2,000
 *   instructions heap SIZE COUNT  the oldest of 500 blocks of a heap freed, and one allocated in
 * its place, COUNT times instructions threads COUNT    four threads replace random blocks, COUNT
 * each; then four others
 *
 * `instructions again KIND...` does it once to warm up, and once more in the function `measured`.
 *
 * There is no C++ in it: whoever has these operators is preloaded. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void single(long count) {
    for (long i = 0; i < count; i++)
        free(malloc(64));
}

/* Three frames that a policy may tell apart. */
__attribute__((noinline, noclone)) static void *inner(void) {
    void *block = malloc(64);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

__attribute__((noinline, noclone)) static void *middle(void) {
    void *block = inner();
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

static void deep(long count) {
    for (long i = 0; i < count; i++)
        free(middle());
}

static void batch(long count) {
    enum { BATCH = 100 };
    void *blocks[BATCH];
    for (long i = 0; i < count; i += BATCH) {
        for (unsigned k = 0; k < BATCH; k++)
            blocks[k] = malloc(64);
        for (unsigned k = 0; k < BATCH; k++)
            free(blocks[k]);
    }
}

static void mixed(long count) {
    enum { SLOTS = 2000 };
    static void *blocks[SLOTS];
    uint32_t state = 1;
    for (long i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        void **slot = &blocks[(uint64_t)SLOTS * state >> 32];
        free(*slot);
        *slot = malloc(16 + state / 64 % 1009);
    }
}

static void resize(long count) {
    void *block = malloc(64);
    for (long i = 0; i < count; i += 2) {
        block = realloc(block, 256);
        block = realloc(block, 64);
    }
    free(block);
}

static void pairs(long count, const char *new_name, const char *delete_name) {
    void *(*new)(size_t);
    void (*delete)(void *, size_t);
    *(void **)&new = dlsym(RTLD_DEFAULT, new_name);
    *(void **)&delete = dlsym(RTLD_DEFAULT, delete_name);
    for (long i = 0; i < count; i++)
        delete (new (64), 64);
}

static void one(long count) {
    pairs(count, "_Znwm", "_ZdlPvm");
}

static void array(long count) {
    pairs(count, "_Znam", "_ZdaPvm");
}

static size_t size_of_all;

static void ring(long count) {
    enum { LIVE = 16 };
    void *blocks[LIVE] = {NULL};
    for (long i = 0; i < count; i++) {
        void **slot = &blocks[i % LIVE];
        free(*slot);
        *slot = malloc(size_of_all);
    }
}

static void many(long count, unsigned at_once) {
    static void *blocks[2000];
    for (long i = 0; i < count; i += at_once) {
        for (unsigned k = 0; k < at_once; k++)
            blocks[k] = malloc(size_of_all);
        for (unsigned k = at_once; k-- > 0;)
            free(blocks[k]);
    }
}

static void stack(long count) {
    many(count, 32);
}

static void wave(long count) {
    many(count, 2000);
}

static void heap(long count) {
    enum { LIVE = 500 };
    void *blocks[LIVE] = {NULL};
    void *(*create)(const void *);
    void *(*heap_malloc)(void *, size_t);
    *(void **)&create = dlsym(RTLD_DEFAULT, "numalloc_heap_create");
    *(void **)&heap_malloc = dlsym(RTLD_DEFAULT, "numalloc_heap_malloc");
    void *of = create(NULL);
    for (long i = 0; i < count; i++) {
        void **slot = &blocks[i % LIVE];
        free(*slot);
        *slot = heap_malloc(of, size_of_all);
    }
}

static void *replace(void *count) {
    enum { SLOTS = 200 };
    void *blocks[SLOTS] = {NULL};
    uint32_t state = 1;
    for (long i = 0; i < *(long *)count; i++) {
        state = state * 1664525u + 1013904223u;
        void **slot = &blocks[(uint64_t)SLOTS * state >> 32];
        free(*slot);
        *slot = malloc(16 + state / 64 % 1009);
    }
    for (unsigned i = 0; i < SLOTS; i++)
        free(blocks[i]);
    return NULL;
}

static void threads(long count) {
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < THREADS; i++)
            if (pthread_create(&thread[i], NULL, replace, &count) != 0) abort();
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
    }
}

__attribute__((noinline, noclone)) static void measured(void (*run)(long count), long count) {
    run(count);
    __asm__ volatile("" : : : "memory"); /* no tail call */
}

int main(int argc, char **argv) {
    int again = argc > 1 && strcmp(argv[1], "again") == 0;
    argc -= again;
    argv += again;
    if (argc == 3 || argc == 4) {
        long count = atol(argv[argc - 1]);
        if (argc == 4) size_of_all = (size_t)atol(argv[2]);
        static const struct {
            const char *name;
            int argc;
            void (*run)(long count);
        } runs[] = {{"single", 3, single},   {"deep", 3, deep},      {"batch", 3, batch},
                    {"mixed", 3, mixed},     {"realloc", 3, resize}, {"new", 3, one},
                    {"new-array", 3, array}, {"ring", 4, ring},      {"stack", 4, stack},
                    {"wave", 4, wave},       {"heap", 4, heap},      {"threads", 3, threads}};
        for (unsigned i = 0; i < sizeof runs / sizeof runs[0]; i++) {
            if (strcmp(argv[1], runs[i].name) == 0 && runs[i].argc == argc) {
                runs[i].run(count);
                if (again) measured(runs[i].run, count);
                return 0;
            }
        }
    }
    fprintf(
        stderr,
        "usage: instructions [again] single|deep|batch|mixed|realloc|new|new-array|threads COUNT\n"
        "       instructions [again] ring|stack|wave|heap SIZE COUNT\n");
    return 2;
}
