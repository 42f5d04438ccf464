/* mappings.c - a heap of 8 GiB takes few mappings: the kernel allows a process 65,530, and looks
 * through them at every page fault. Most of the memory is never touched.
 *
 * Where the system makes huge pages unasked, blocks of more than 4 MiB are advised to have them,
 * which takes one or two mappings for each. */
#include "support/check.h"

#include <pthread.h>

#define MIB       ((size_t)1 << 20)
#define HEAP_SIZE (8192 * MIB)
#define MOST      200
#define ADVISED   (4 * MIB)

/* Lines of /proc/self/maps. */
static size_t mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    REQUIRE(maps != NULL);
    size_t lines = 0;
    for (int c; (c = fgetc(maps)) != EOF;)
        lines += c == '\n';
    fclose(maps);
    return lines;
}

static bool huge_pages_come_unasked(void) {
    char text[64] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (file == NULL || fgets(text, sizeof text, file) == NULL) text[0] = 0;
    if (file != NULL) fclose(file);
    return strncmp(text, "[always]", 8) == 0;
}

enum { BLOCKS = 400000, THREADS = 4 };

/* Sizes of every kind; small ones are few, since the memory of theirs is touched by malloc. */
static size_t size_of(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    unsigned kind = (unsigned)(*state >> 20) % 1000;
    if (kind < 600) return 1 + (*state >> 32) % 512;
    if (kind < 990) return 1 + (*state >> 32) % 16384;
    if (kind < 998) return 1 + (*state >> 32) % MIB;
    return 1 + (*state >> 32) % (40 * MIB);
}

typedef struct share {
    void **blocks;
    size_t count, bytes, advised;
    uint64_t seed;
} share_t;

/* Takes a share of the heap, giving back one block in four on the way. */
static void *fill(void *argument) {
    share_t *share = argument;
    uint64_t state = share->seed;
    while (share->bytes < HEAP_SIZE / THREADS && share->count < BLOCKS / THREADS) {
        size_t size = size_of(&state);
        void *block = malloc(size);
        REQUIRE(block != NULL);
        if (share->count % 4 == 3 && size < 40 * MIB) {
            free(share->blocks[share->count - 1]);
            share->blocks[share->count - 1] = NULL;
        }
        share->blocks[share->count++] = block;
        share->bytes += size;
        share->advised += size > ADVISED;
    }
    return NULL;
}

int main(void) {
    check_begin();
    size_t before = mappings();
    static void *blocks[BLOCKS];
    static share_t shares[THREADS];
    pthread_t threads[THREADS];
    size_t most = 0, bytes = 0, may_be = MOST;
    for (unsigned i = 0; i < THREADS; i++) {
        shares[i] = (share_t){.blocks = blocks + (size_t)i * (BLOCKS / THREADS),
                              .seed = 0x9e3779b97f4a7c15u * (i + 1)};
        REQUIRE(pthread_create(&threads[i], NULL, fill, &shares[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
        bytes += shares[i].bytes;
        if (huge_pages_come_unasked()) may_be += 2 * shares[i].advised;
    }
    CHECK_MSG(bytes >= HEAP_SIZE, "only %zu bytes were allocated", bytes);
    most = mappings();
    check_say("%zu mappings, %zu before\n", most, before);
    CHECK_MSG(most < may_be, "%zu mappings, %zu before", most, before);
    for (size_t i = 0; i < BLOCKS; i++)
        if (i % 2 == 0) free(blocks[i]);
    most = mappings();
    CHECK_MSG(most < may_be, "%zu mappings with holes", most);
    for (size_t i = 0; i < BLOCKS; i++)
        if (i % 2 != 0) free(blocks[i]);
    return check_status();
}
