/* policy_load.c - a program whose sites a policy rules, and that looks whether its rules hold.
 *
 *   policy_load COUNT [plain | heedless]    in rounds: blocks of four places in the code, kept and
 *                                          freed again; `heedless` does not look at them
 *
 * It is written against the library that is preloaded: with `plain`, or where no policy is, all
 * blocks are to be malloc's. Else the policy is one of policy.sh: by_one's blocks come from a heap;
 * by_two's only when called from first_way; by_none's never; by_lines' have lines of their own.
 * Status 0: all is so. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone, noipa))

static void *(*heap_of)(const void *);
static bool ruled;

static bool heedless; /* it only runs */

static void expect(bool right, const char *what, unsigned line) {
    if (right || heedless) return;
    fprintf(stderr, "policy_load: line %u: %s\n", line, what);
    exit(1);
}
#define EXPECT(condition) expect(condition, #condition, __LINE__)

/* (Not a call in tail position: its return address is what rules name.) */
APART void *by_one(size_t size) {
    void *block = malloc(size);
    memset(block, 1, size);
    return block;
}

APART void *by_two(size_t size) {
    void *block = calloc(1, size);
    EXPECT(block != NULL && *(char *)block == 0);
    return block;
}

/* Their frames have a size of their own each, and a frame pointer where it changes. */
APART void *first_way(size_t size) {
    volatile char room[40];
    room[0] = (char)size;
    void *block = by_two(size);
    EXPECT(room[0] == (char)size);
    return block;
}

APART void *second_way(size_t size) {
    volatile char *room = __builtin_alloca(size % 100 + 16);
    room[0] = (char)size;
    void *block = by_two(size);
    EXPECT(room[0] == (char)size);
    return block;
}

APART void *by_none(size_t size) {
    void *block = malloc(size);
    memset(block, 2, size);
    return block;
}

APART void *by_lines(size_t size) {
    void *block = malloc(size);
    memset(block, 3, size);
    return block;
}

APART void *by_realloc(void *block, size_t size) {
    void *grown = realloc(block, size);
    EXPECT(grown != NULL);
    return grown;
}

APART void *by_aligned(size_t alignment, size_t size) {
    void *block = NULL;
    EXPECT(posix_memalign(&block, alignment, size) == 0);
    EXPECT((uintptr_t)block % alignment == 0);
    return block;
}

static bool in_heap(const void *block) {
    return heap_of != NULL && heap_of(block) != NULL;
}

/* While a fork is under way a thread may get an ordinary block instead
 * (alloc/heaps/heap_blocks.h), and in a child of one that could not wait for all threads everybody
 * does. */
static atomic_uint forks; /* odd: under way */

static bool is_right(const void *block, unsigned forks_before) {
    return in_heap(block) == ruled || (forks_before & 1) != 0 || forks != forks_before;
}

static bool has_heaps(void) {
    void *(*create)(const void *), *(*allocate)(void *, size_t);
    *(void **)&create = dlsym(RTLD_DEFAULT, "numalloc_heap_create");
    *(void **)&allocate = dlsym(RTLD_DEFAULT, "numalloc_heap_malloc");
    return create != NULL && in_heap(allocate(create(NULL), 100));
}

static void *rounds(void *arg) {
    enum { KEPT = 400 };
    long count = *(long *)arg;
    void *kept[KEPT] = {NULL};
    for (long i = 0; i < count; i++) {
        size_t size = (size_t)(i * 37) % 700 + 1;
        if (i % 501 == 0) size = 40000;
        unsigned slot = (unsigned)(i * 7) % KEPT;
        free(kept[slot]);
        unsigned before = forks;
        switch (i % 7) {
        case 0:
            kept[slot] = by_one(size);
            EXPECT(is_right(kept[slot], before));
            break;
        case 1:
            kept[slot] = first_way(size);
            EXPECT(is_right(kept[slot], before));
            break;
        case 2:
            kept[slot] = second_way(size);
            EXPECT(!in_heap(kept[slot]));
            break;
        case 3:
            kept[slot] = by_none(size);
            EXPECT(!in_heap(kept[slot]));
            break;
        case 4:
            kept[slot] = by_lines(size);
            EXPECT(!in_heap(kept[slot]) && (!ruled || (uintptr_t)kept[slot] % 64 == 0));
            break;
        case 5:
            kept[slot] = by_realloc(by_none(8), size + 100);
            EXPECT(is_right(kept[slot], before) && *(char *)kept[slot] == 2);
            kept[slot] = by_realloc(kept[slot], 2 * size + 500);
            EXPECT(is_right(kept[slot], before) && *(char *)kept[slot] == 2);
            break;
        default:
            kept[slot] = by_aligned(256, size);
            EXPECT(is_right(kept[slot], before));
            break;
        }
    }
    for (unsigned i = 0; i < KEPT; i++)
        free(kept[i]);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: policy_load COUNT [plain | heedless]\n");
        return 2;
    }
    long count = atol(argv[1]);
    *(void **)&heap_of = dlsym(RTLD_DEFAULT, "numalloc_heap_of");
    heedless = argc == 3 && strcmp(argv[2], "heedless") == 0;
    ruled = argc == 2;
    rounds(&count);
    pthread_t threads[3];
    for (unsigned i = 0; i < 3; i++)
        EXPECT(pthread_create(&threads[i], NULL, rounds, &count) == 0);
    forks++;
    pid_t child = fork();
    forks++;
    if (child == 0) {
        if (!has_heaps()) ruled = false;
        rounds(&count);
        _exit(0);
    }
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
