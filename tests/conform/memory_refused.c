/* memory_refused.c - a program that wants more than its memory cgroup allows is told ENOMEM, in
 * whatever way it asks, and is not killed; what it has stays whole, and what it gives back serves
 * again. Needs the right to make a memory cgroup, and a kernel that can be asked
 * (alloc/limits/charge.h).
 */
#include "support/check.h"
#include "support/child.h"
#include "support/fill.h"
#include "support/memory_group.h"

#include <pthread.h>
#include <sys/mman.h>

enum { LIMIT_MIB = 64, THREADS = 4, BLOCKS = 1 << 20 };

typedef struct hoard {
    void **block;
    size_t count, bytes;
    uint64_t random;
} hoard_t;

/* `draw` says how large the next is. Each is used in full. */
static void fill(hoard_t *hoard, size_t (*draw)(uint64_t *random)) {
    for (; hoard->count < BLOCKS; hoard->count++) {
        size_t size = draw(&hoard->random);
        errno = 0;
        void *block = malloc(size);
        if (block == NULL) {
            CHECK_MSG(errno == ENOMEM, "errno %d", errno);
            return;
        }
        memset(block, 1, size);
        hoard->block[hoard->count] = block;
        hoard->bytes += size;
    }
    CHECK_MSG(false, "%zu blocks, and no end", hoard->count);
}

static void empty(hoard_t *hoard) {
    while (hoard->count > 0)
        free(hoard->block[--hoard->count]);
    hoard->bytes = 0;
}

static size_t small(uint64_t *random) {
    return 16 + fill_random(random) % 1008;
}

static size_t medium(uint64_t *random) {
    return 2000 + fill_random(random) % 30000;
}

static size_t large(uint64_t *random) {
    return 40000 + fill_random(random) % 400000;
}

/* Blocks that are found filled by this are another's. */
static bool all_ones(const unsigned char *p, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (p[i] != 1) return false;
    return true;
}

static void one_thread(hoard_t *hoard, const char *what, size_t (*draw)(uint64_t *random)) {
    fill(hoard, draw);
    CHECK_MSG(hoard->bytes > (size_t)LIMIT_MIB * 3 / 4 << 20, "%s: refused after %zu MiB", what,
              hoard->bytes >> 20);
    /* Every second goes, and is had again: all but what other threads' heaps have back. */
    size_t half = 0;
    for (size_t i = 0; i < hoard->count; i += 2) {
        free(hoard->block[i]);
        hoard->block[i] = malloc(16);
        half++;
    }
    size_t had = 0;
    for (size_t i = 0; i < hoard->count; i += 2)
        had += hoard->block[i] != NULL;
    CHECK_MSG(had > half - half / 8, "%s: %zu of %zu small blocks where larger ones were freed",
              what, had, half);
    empty(hoard);
}

/* A block that cannot grow is as it was. */
static void grown(hoard_t *hoard) {
    fill(hoard, small);
    for (size_t i = 0; i < 100 && i < hoard->count; i++)
        free(hoard->block[--hoard->count]);
    size_t size = 64;
    void *block = malloc(size);
    REQUIRE(block != NULL);
    memset(block, 1, size);
    for (void *next; size < (size_t)LIMIT_MIB << 20; block = next, size *= 2) {
        next = realloc(block, 2 * size);
        if (next == NULL) break;
        memset(next, 1, 2 * size);
    }
    CHECK_MSG(size < (size_t)LIMIT_MIB << 20, "a block grew to %zu", size);
    CHECK(all_ones(block, size));
    void *zeroed = calloc(LIMIT_MIB, 1 << 19);
    free(zeroed); /* half of the limit, not touched: given or not */
    free(block);
    empty(hoard);
}

static hoard_t hoards[THREADS];
static pthread_barrier_t together;

static void *one_of_many(void *argument) {
    hoard_t *hoard = argument;
    for (int round = 0; round < 3; round++) {
        fill(hoard, round == 1 ? medium : small);
        pthread_barrier_wait(&together);
        empty(hoard);
        pthread_barrier_wait(&together);
    }
    return NULL;
}

static void many_threads(void) {
    pthread_t thread[THREADS];
    REQUIRE(pthread_barrier_init(&together, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&thread[i], NULL, one_of_many, &hoards[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

static int inside(void) {
    size_t table = (size_t)BLOCKS * sizeof(void *);
    for (int i = 0; i < THREADS; i++) {
        hoards[i].random = (uint64_t)i + 1;
        hoards[i].block = mmap(NULL, table, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        REQUIRE(hoards[i].block != MAP_FAILED);
        madvise(hoards[i].block, table, MADV_NOHUGEPAGE);
    }
    one_thread(&hoards[0], "small", small);
    one_thread(&hoards[0], "medium", medium);
    one_thread(&hoards[0], "large", large);
    grown(&hoards[0]);
    many_threads();
    one_thread(&hoards[0], "small again", small);
    return check_status();
}

/* Whether this kernel collapses pages when it is told to: else it cannot be asked. */
static bool can_be_asked(void) {
    enum { HUGE = 2 << 20, COLLAPSE = 25 };
    char *area = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(area != MAP_FAILED);
    char *start = (char *)(((uintptr_t)area + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
    *start = 1;
    bool done = madvise(start, HUGE, COLLAPSE) == 0;
    munmap(area, 2 * HUGE);
    return done;
}

int main(int argc, char **argv) {
    check_begin();
    (void)argv;
    if (argc > 1) return inside();
    if (!can_be_asked()) check_skip("the kernel does not collapse pages (Linux 6.1, huge pages)");
    char limit[32];
    snprintf(limit, sizeof limit, "%d", LIMIT_MIB << 20);
    if (!memory_group_make(limit)) check_skip("no memory cgroup can be made here (needs root)");
    child_result_t result;
    static const char *const env[] = {"NUMALLOC_STATS=1", NULL};
    child_run_self(&result, "inside", NULL, env, memory_group_enter, NULL);
    memory_group_remove();
    if (child_exited(&result, 126)) check_skip("the memory cgroup cannot be entered");
    child_expect_ok(&result, "memory cgroup of 64 MiB (signal 9: out of memory)");
    CHECK_MSG(strstr(result.err, "refused (control group)") != NULL, "the statistics say: %s",
              result.err);
    return check_status();
}
