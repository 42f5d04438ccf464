/* sizes.c - every size: aligned to 16 bytes, usable size honoured, constant and writable to the
 * last byte while other blocks live. */
#include "support/check.h"
#include "support/fill.h"

#include "support/alloc_api.h"

#define LIVE 61 /* blocks alive at once; a prime, so that sizes meet in changing company */

typedef struct block {
    unsigned char *at;
    size_t size;
    size_t usable;
} block_t;

static block_t live[LIVE];

static void give_back(block_t *block) {
    if (block->at == NULL) return;
    CHECK_MSG(malloc_usable_size(block->at) == block->usable, "size %zu: was %zu, is %zu",
              block->size, block->usable, malloc_usable_size(block->at));
    CHECK_MSG(fill_holds(block->at, block->usable, block->size), "size %zu", block->size);
    free(block->at);
    block->at = NULL;
}

static void take(block_t *block, size_t size) {
    give_back(block);
    unsigned char *at = check_opaque(malloc(size));
    CHECK_MSG(at != NULL, "size %zu", size);
    if (at == NULL) return;
    CHECK_MSG((uintptr_t)at % 16 == 0, "size %zu at %p", size, (void *)at);
    block->at = at;
    block->size = size;
    block->usable = malloc_usable_size(at);
    CHECK_MSG(block->usable >= size, "size %zu: usable %zu", size, block->usable);
    fill_block(at, block->usable, size);
}

int main(void) {
    check_begin();
    size_t turn = 0;
    for (size_t size = 0; size <= 16384; size++)
        take(&live[turn++ % LIVE], size);
    for (size_t size = 16385; size <= ((size_t)1 << 20); size += size / 64 + 1)
        take(&live[turn++ % LIVE], size);
    for (size_t size = (size_t)1 << 14; size <= ((size_t)32 << 20); size *= 2)
        for (size_t off = 0; off < 3; off++)
            take(&live[turn++ % LIVE], size + off - 1);
    for (size_t i = 0; i < LIVE; i++)
        give_back(&live[i]);
    CHECK(malloc_usable_size(check_opaque(NULL)) == 0);
    return check_status();
}
