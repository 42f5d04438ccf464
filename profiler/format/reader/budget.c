/* budget.c - blocks with a header that names their budget. See budget.h. */
#include "profiler/format/reader/budget.h"

#include <stdalign.h>
#include <stdlib.h>
#include <unistd.h>

#define LEAST     (UINT64_C(64) << 20)
#define PER_BYTE  16u
#define PER_EVENT 2048u /* for each byte of coded events */

struct na_budget {
    uint64_t bound, used;
    uint64_t blocks; /* that were not freed; one more until it is closed */
    bool refused;
};

typedef struct head {
    alignas(16) na_budget_t *budget;
    uint64_t bytes; /* header included */
} head_t;

static uint64_t half_of_memory(void) {
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size / 2 : UINT64_MAX;
}

uint64_t na_budget_bound(uint64_t file, uint64_t events) {
    uint64_t bound = LEAST, most = half_of_memory();
    if (most < LEAST) most = LEAST;
    if (file > most / PER_BYTE || events > most / PER_EVENT) return most;
    bound += file * PER_BYTE + events * PER_EVENT;
    return bound < most ? bound : most;
}

na_budget_t *na_budget_open(void) {
    na_budget_t *b = calloc(1, sizeof *b);
    if (b == NULL) return NULL;
    b->blocks = 1;
    b->bound = LEAST;
    return b;
}

static void drop_block(na_budget_t *b) {
    if (--b->blocks == 0) free(b);
}

void na_budget_close(na_budget_t *b) {
    if (b != NULL) drop_block(b);
}

void na_budget_set(na_budget_t *b, uint64_t bound) {
    b->bound = bound;
}

uint64_t na_budget_of(const na_budget_t *b) {
    return b->bound;
}

uint64_t na_budget_left(const na_budget_t *b) {
    uint64_t most = b->bound / 4 * 3;
    return b->used < most ? most - b->used : 0;
}

bool na_budget_take(na_budget_t *b, uint64_t bytes) {
    if (bytes > na_budget_left(b)) {
        b->refused = true;
        return false;
    }
    b->used += bytes;
    return true;
}

void na_budget_give(na_budget_t *b, uint64_t bytes) {
    b->used -= bytes;
}

bool na_budget_refused(const na_budget_t *b) {
    return b->refused;
}

/* Bytes of a block with its header; UINT64_MAX: nobody has that. */
static uint64_t block_bytes(size_t count, size_t size) {
    uint64_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(head_t), &bytes))
        return UINT64_MAX;
    return bytes;
}

void *na_budget_calloc(na_budget_t *b, size_t count, size_t size) {
    uint64_t bytes = block_bytes(count, size);
    if (!na_budget_take(b, bytes)) return NULL;
    head_t *head = calloc(1, bytes);
    if (head == NULL) {
        na_budget_give(b, bytes);
        return NULL;
    }
    *head = (head_t){b, bytes};
    b->blocks++;
    return head + 1;
}

/* Old and new count while both may exist. */
void *na_budget_resize(na_budget_t *b, void *block, size_t count, size_t size) {
    if (block == NULL) return na_budget_calloc(b, count, size);
    head_t *head = (head_t *)block - 1;
    uint64_t before = head->bytes, bytes = block_bytes(count, size);
    if (!na_budget_take(b, bytes)) return NULL;
    head_t *more = realloc(head, bytes);
    if (more == NULL) {
        na_budget_give(b, bytes);
        return NULL;
    }
    na_budget_give(b, before);
    more->bytes = bytes;
    return more + 1;
}

void na_budget_free(void *block) {
    if (block == NULL) return;
    head_t *head = (head_t *)block - 1;
    na_budget_t *b = head->budget;
    na_budget_give(b, head->bytes);
    free(head);
    drop_block(b);
}
