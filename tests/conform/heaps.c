/* heaps.c - heaps of the program's own: their blocks are blocks like any other, lie apart, and go
 * all at once. Also run with every free verified, and in each mode of profile.
 *
 * Arguments: [seconds] of the part with threads; 2 otherwise. */
#include "support/check.h"
#include "support/fill.h"
#include "support/proc_mem.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "numalloc/numalloc.h"
#include "support/alloc_api.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const size_t sizes[] = {0,    1,    8,    16,    17,    48,    64,     100,    128,     250,
                               1000, 4096, 8192, 20000, 32768, 32769, 100000, 300000, 3000000, 50};

/* --- a block is a block --- */

static void one_block(numalloc_heap_t *heap, size_t size) {
    unsigned char *block = numalloc_heap_malloc(heap, size);
    CHECK(block != NULL);
    CHECK(numalloc_heap_of(block) == heap);
    CHECK((uintptr_t)block % 16 == 0);
    CHECK(malloc_usable_size(block) >= size);
    fill_block(block, size, size + 1);
    unsigned char *zeroed = numalloc_heap_calloc(heap, size / 8 + 1, 8);
    CHECK(zeroed != NULL && numalloc_heap_of(zeroed) == heap);
    CHECK(fill_is_zero(zeroed, size));
    memset(zeroed, 0xa5, size);
    /* realloc moves it within the heap, and malloc's copy does not. */
    unsigned char *grown = realloc(block, 3 * size + 100);
    CHECK(grown != NULL && numalloc_heap_of(grown) == heap);
    CHECK(fill_holds(grown, size, size + 1));
    grown = numalloc_heap_realloc(heap, grown, size + 1);
    CHECK(numalloc_heap_of(grown) == heap && fill_holds(grown, size, size + 1));
    unsigned char *plain = malloc(size + 1);
    fill_block(plain, size, size + 2);
    CHECK(numalloc_heap_of(plain) == NULL);
    plain = numalloc_heap_realloc(heap, plain, size + 40);
    CHECK(numalloc_heap_of(plain) == heap && fill_holds(plain, size, size + 2));
    for (size_t alignment = 8; alignment <= 65536; alignment *= 8) {
        void *aligned = numalloc_heap_aligned(heap, alignment, size);
        CHECK(aligned != NULL && (uintptr_t)aligned % alignment == 0);
        CHECK(numalloc_heap_of(aligned) == heap);
        free(aligned);
    }
    errno = 42;
    free(grown);
    CHECK(errno == 42);
    free(plain);
    free(zeroed);
}

static void blocks(numalloc_heap_t *heap) {
    for (size_t i = 0; i < COUNT(sizes); i++)
        one_block(heap, sizes[i]);
    errno = 0;
    CHECK(numalloc_heap_malloc(heap, (size_t)1 << 62) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(numalloc_heap_calloc(heap, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(numalloc_heap_aligned(heap, 48, 100) == NULL && errno == EINVAL);
    CHECK(numalloc_heap_realloc(heap, numalloc_heap_malloc(heap, 10), 0) == NULL);
}

static void every_kind(void) {
    static const numalloc_heap_options_t kinds[] = {
        {.name = "local"},
        {.name = "node", .place = NUMALLOC_HEAP_NODE},
        {.name = "interleaved", .place = NUMALLOC_HEAP_INTERLEAVED},
        {.name = "touch", .place = NUMALLOC_HEAP_FIRST_TOUCH},
        {.name = "near", .place = NUMALLOC_HEAP_NEAR},
        {.name = "far", .place = NUMALLOC_HEAP_FAR},
        {.name = "consumer", .place = NUMALLOC_HEAP_CONSUMER},
        {.name = "lines", .flags = NUMALLOC_HEAP_OWN_LINES},
        {.name = "huge", .flags = NUMALLOC_HEAP_HUGE_PAGES},
        {.name = "both", .flags = NUMALLOC_HEAP_OWN_LINES | NUMALLOC_HEAP_HUGE_PAGES},
    };
    for (size_t i = 0; i < COUNT(kinds); i++) {
        numalloc_heap_t *heap = numalloc_heap_create(&kinds[i]);
        CHECK(heap != NULL);
        blocks(heap);
        numalloc_heap_stats_t stats;
        numalloc_heap_read_stats(heap, &stats, sizeof stats);
        CHECK(strcmp(stats.name, kinds[i].name) == 0);
        /* The process's totals have what the heap has, from wherever it is. */
        numalloc_stats_t before, after;
        numalloc_read_stats(&before, sizeof before);
        for (unsigned n = 0; n < 1000; n++)
            CHECK(numalloc_heap_malloc(heap, 8000) != NULL);
        numalloc_read_stats(&after, sizeof after);
        CHECK(after.in_spans >= before.in_spans + (7u << 20));
        CHECK(after.committed >= after.in_spans);
        numalloc_heap_destroy(heap);
        numalloc_read_stats(&after, sizeof after);
        CHECK(after.in_spans < before.in_spans + (1u << 20));
    }
    numalloc_heap_t *heap = numalloc_heap_create(NULL);
    CHECK(heap != NULL);
    blocks(heap);
    numalloc_heap_destroy(heap);
    numalloc_heap_destroy(NULL);
}

static void bad_options(void) {
    int nodes[] = {0, 4711};
    const numalloc_heap_options_t bad[] = {
        {.place = NUMALLOC_HEAP_NODE, .node = 4711},
        {.place = NUMALLOC_HEAP_NODE, .node = -1},
        {.place = (numalloc_heap_place_t)99},
        {.place = NUMALLOC_HEAP_INTERLEAVED, .nodes = nodes, .node_count = 2},
        {.place = NUMALLOC_HEAP_INTERLEAVED, .nodes = nodes},
        {.flags = 64},
        {.size = sizeof bad[0] - 1},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        errno = 0;
        CHECK(numalloc_heap_create(&bad[i]) == NULL && errno == EINVAL);
    }
    /* Those of a later version: taken as long as no member is used that is not known. */
    struct {
        numalloc_heap_options_t known;
        unsigned char later[16];
    } options = {.known = {.name = "later", .size = sizeof options}};
    numalloc_heap_t *heap = numalloc_heap_create(&options.known);
    CHECK(heap != NULL);
    numalloc_heap_destroy(heap);
    options.later[15] = 1;
    errno = 0;
    CHECK(numalloc_heap_create(&options.known) == NULL && errno == EINVAL);
}

/* --- apart --- */

/* No line has two blocks in it. */
static void own_lines(void) {
    numalloc_heap_t *heap =
        numalloc_heap_create(&(numalloc_heap_options_t){.flags = NUMALLOC_HEAP_OWN_LINES});
    enum { BLOCKS = 1000 };
    static uintptr_t at[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        at[i] = (uintptr_t)numalloc_heap_malloc(heap, i % 300);
        CHECK(at[i] % 64 == 0);
        CHECK(malloc_usable_size((void *)at[i]) % 64 == 0);
    }
    numalloc_heap_destroy(heap);
}

/* No page has blocks of two heaps in it. */
static void own_pages(void) {
    numalloc_heap_t *heaps[2] = {numalloc_heap_create(NULL), numalloc_heap_create(NULL)};
    enum { BLOCKS = 4000 };
    static uintptr_t page[2][BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++)
        for (unsigned h = 0; h < 2; h++)
            page[h][i] = (uintptr_t)numalloc_heap_malloc(heaps[h], 40) / 4096;
    for (unsigned i = 0; i < BLOCKS; i++)
        for (unsigned k = i % 7; k < BLOCKS; k += 7)
            if (page[0][i] == page[1][k]) CHECK(page[0][i] != page[1][k]);
    numalloc_heap_destroy(heaps[0]);
    numalloc_heap_destroy(heaps[1]);
}

/* --- all at once --- */

/* A heap goes with what is in it, and what comes after it is whole. */
static void goes(void) {
    enum { BLOCKS = 20000, ROUNDS = 20 };
    static unsigned char *kept[BLOCKS];
    for (unsigned round = 0; round < ROUNDS; round++) {
        numalloc_heap_t *heap = numalloc_heap_create(NULL);
        for (unsigned i = 0; i < BLOCKS; i++) {
            size_t size = sizes[i % 11];
            void *block = numalloc_heap_malloc(heap, size);
            memset(block, 0xee, size);
            if (i % 3 == 0) free(block);
            if (i % 1000 == 0) memset(numalloc_heap_malloc(heap, 200000), 0xee, 200000);
        }
        numalloc_heap_stats_t stats;
        numalloc_heap_read_stats(heap, &stats, sizeof stats);
        CHECK(stats.live > (size_t)20 * 200000 && stats.in_spans >= stats.live);
        CHECK(stats.large >= (size_t)20 * 200000);
        numalloc_heap_destroy(heap);
        for (unsigned i = 0; i < BLOCKS; i++) {
            kept[i] = malloc(sizes[i % 11]);
            fill_block(kept[i], sizes[i % 11], i);
        }
        numalloc_heap_t *next = numalloc_heap_create(NULL); /* the same struct, as likely as not */
        for (unsigned i = 0; i < 1000; i++)
            memset(numalloc_heap_malloc(next, 64), 0xdd, 64);
        numalloc_heap_destroy(next);
        for (unsigned i = 0; i < BLOCKS; i++) {
            CHECK(fill_holds(kept[i], sizes[i % 11], i));
            free(kept[i]);
        }
    }
}

static void trims(void) {
    static const unsigned flags[] = {0, NUMALLOC_HEAP_HUGE_PAGES};
    enum { BLOCKS = 10000 };
    static void *block[BLOCKS];
    for (size_t k = 0; k < COUNT(flags); k++) {
        numalloc_heap_t *heap = numalloc_heap_create(&(numalloc_heap_options_t){.flags = flags[k]});
        for (unsigned i = 0; i < BLOCKS; i++)
            block[i] = memset(numalloc_heap_malloc(heap, 500), 1, 500);
        for (unsigned i = 0; i < BLOCKS; i++)
            free(block[i]);
        numalloc_heap_trim(heap);
        numalloc_heap_stats_t stats;
        numalloc_heap_read_stats(heap, &stats, sizeof stats);
        CHECK(stats.live == 0 && stats.in_spans == 0);
        numalloc_heap_destroy(heap);
    }
}

/* Thousands cost little, and are nothing when they are gone. */
static void many(void) {
    enum { HEAPS = 5000 };
    static numalloc_heap_t *heap[HEAPS];
    numalloc_stats_t before, after;
    for (unsigned round = 0; round < 3; round++) {
        numalloc_read_stats(&before, sizeof before);
        for (unsigned i = 0; i < HEAPS; i++)
            CHECK((heap[i] = numalloc_heap_create(NULL)) != NULL);
        numalloc_read_stats(&after, sizeof after);
        uint64_t each = (after.metadata - before.metadata) / HEAPS;
        CHECK(each < (round == 0 ? 1100 : 1)); /* mapped 64 KiB at a time */
        for (unsigned i = 0; i < HEAPS; i++)
            CHECK(numalloc_heap_malloc(heap[i], i % 2000) != NULL);
        for (unsigned i = 0; i < HEAPS; i++)
            numalloc_heap_destroy(heap[i]);
    }
    numalloc_read_stats(&before, sizeof before);
    for (unsigned i = 0; i < 100000; i++) {
        numalloc_heap_t *one = numalloc_heap_create(NULL);
        CHECK(numalloc_heap_malloc(one, 100) != NULL);
        numalloc_heap_destroy(one);
    }
    numalloc_read_stats(&after, sizeof after);
    CHECK(after.metadata - before.metadata < 1 << 20);
    CHECK(after.in_spans < before.in_spans + (4 << 20));
}

/* More than there may be at one time: refused, and nothing is lost by it. */
static void too_many(void) {
    enum { MOST = 16383 };
    static numalloc_heap_t *heap[MOST + 1];
    unsigned made = 0;
    while (made <= MOST && (heap[made] = numalloc_heap_create(NULL)) != NULL)
        made++;
    CHECK(made <= MOST && made > MOST - 100 && errno == ENOMEM);
    while (made-- > 0)
        numalloc_heap_destroy(heap[made]);
    numalloc_heap_t *again = numalloc_heap_create(NULL);
    CHECK(again != NULL);
    numalloc_heap_destroy(again);
}

/* --- threads --- */

#define SLOTS 512
static numalloc_heap_t *shared[3];
static _Atomic(unsigned char *) slots[SLOTS];
static long end_ms;

static bool over(void) {
    return proc_now_ms() >= end_ms;
}

/* What a block is filled with goes by its address, so that any thread can verify it. */
static uint64_t seed_of(const unsigned char *block) {
    return (uint64_t)(uintptr_t)block * 31;
}

static void *exchange(void *arg) {
    uint64_t random = (uint64_t)(uintptr_t)arg * 7919 + 1;
    while (!over()) {
        for (unsigned i = 0; i < 1000; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            size_t size = 16 + (random >> 40) % ((random >> 33) % 50 == 0 ? 60000 : 400);
            numalloc_heap_t *heap = shared[(random >> 25) % COUNT(shared)];
            unsigned char *block = numalloc_heap_malloc(heap, size);
            CHECK(block != NULL);
            fill_block(block, 16, seed_of(block));
            block = atomic_exchange(&slots[(random >> 50) % SLOTS], block);
            if (block == NULL) continue;
            CHECK(fill_holds(block, 16, seed_of(block)));
            free(block);
        }
    }
    return NULL;
}

/* Heaps of a thread's own, whose blocks another has freed before they go. */
static void *short_lived(void *arg) {
    (void)arg;
    while (!over()) {
        numalloc_heap_t *heap = numalloc_heap_create(NULL);
        for (unsigned i = 0; i < 300; i++)
            memset(numalloc_heap_malloc(heap, i), 0xcc, i);
        numalloc_heap_destroy(heap);
    }
    return NULL;
}

static pthread_barrier_t handed;
static void *block_for_other[4000];

static void *frees_for_other(void *arg) {
    (void)arg;
    for (unsigned round = 0; round < 50; round++) {
        pthread_barrier_wait(&handed);
        for (unsigned i = 0; i < COUNT(block_for_other); i++)
            free(block_for_other[i]); /* and keeps the last of them for a while */
        pthread_barrier_wait(&handed);
    }
    return NULL;
}

static void kept_by_another(void) {
    pthread_t other;
    pthread_barrier_init(&handed, NULL, 2);
    pthread_create(&other, NULL, frees_for_other, NULL);
    for (unsigned round = 0; round < 50; round++) {
        numalloc_heap_t *heap = numalloc_heap_create(NULL);
        for (unsigned i = 0; i < COUNT(block_for_other); i++)
            block_for_other[i] = numalloc_heap_malloc(heap, i % 100);
        pthread_barrier_wait(&handed);
        pthread_barrier_wait(&handed);
        numalloc_heap_destroy(heap);
        unsigned char *mine[200];
        for (unsigned i = 0; i < COUNT(mine); i++)
            fill_block((mine[i] = malloc(i)), i, i);
        for (unsigned i = 0; i < COUNT(mine); i++) {
            CHECK(fill_holds(mine[i], i, i));
            free(mine[i]);
        }
    }
    pthread_join(other, NULL);
}

/* A child has the heaps, and may use and destroy them, whatever its parent's threads were at. */
static void child(void) {
    for (unsigned h = 0; h < COUNT(shared); h++) {
        void *block[100];
        for (unsigned i = 0; i < COUNT(block); i++)
            block[i] = numalloc_heap_malloc(shared[h], 100 * i);
        for (unsigned i = 0; i < COUNT(block); i++)
            free(block[i]);
        numalloc_heap_destroy(shared[h]);
    }
    _exit(check_failures != 0);
}

static void threads(unsigned seconds) {
    enum { THREADS = 4 };
    pthread_t thread[THREADS + 1];
    shared[0] = numalloc_heap_create(NULL);
    shared[1] = numalloc_heap_create(
        &(numalloc_heap_options_t){.flags = NUMALLOC_HEAP_OWN_LINES | NUMALLOC_HEAP_HUGE_PAGES});
    shared[2] = numalloc_heap_create(
        &(numalloc_heap_options_t){.place = NUMALLOC_HEAP_INTERLEAVED, .name = "three"});
    end_ms = proc_now_ms() + 1000 * (long)seconds;
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, exchange, (void *)i);
    pthread_create(&thread[THREADS], NULL, short_lived, NULL);
    while (!over()) {
        pid_t pid = fork();
        if (pid == 0) child();
        int status = 0;
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    for (unsigned i = 0; i <= THREADS; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < SLOTS; i++)
        free(slots[i]);
    for (unsigned h = 0; h < COUNT(shared); h++)
        numalloc_heap_destroy(shared[h]);
}

int main(int argc, char **argv) {
    check_begin();
    every_kind();
    bad_options();
    own_lines();
    own_pages();
    goes();
    trims();
    many();
    too_many();
    kept_by_another();
    threads(argc > 1 ? (unsigned)atoi(argv[1]) : 2);
    return check_status();
}
