/* fuzz_alloc.c - libFuzzer target: bytes as a sequence of calls to the allocator.
 *
 * A table of slots, each empty or one block. Every call is four bytes: what, which slot, and a
 * size. Each block is filled with a pattern of its own up to its usable size, which is verified
 * before the block is freed or resized, so that blocks that overlap, a realloc that loses bytes, a
 * calloc that is not zero, a wrong alignment or a usable size that is no truth ends the run. The
 * entry points are the prefixed ones: malloc itself is the sanitizer's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/core/malloc/api.h"
#include "numalloc/numalloc.h"
#include "support/fill.h"

#define SLOTS       64u
#define PATTERN_MAX ((size_t)8 << 10)
#define LIVE_MAX    ((size_t)32 << 20) /* bytes in all slots */

typedef struct slot {
    unsigned char *at;
    size_t usable;
    size_t size; /* bytes that carry the pattern */
    uint64_t seed;
} slot_t;

static slot_t slots[SLOTS];
static size_t live;
static uint64_t seeds;

static void require(bool condition) {
    if (!condition) abort();
}

static void verify(const slot_t *slot) {
    require(slot->at[slot->usable - 1] == (unsigned char)slot->seed);
    require(fill_holds(slot->at, slot->size, slot->seed));
}

static void keep(slot_t *slot, void *block, size_t asked, size_t alignment) {
    require(block != NULL);
    size_t usable = NA_FN(malloc_usable_size)(block);
    require(usable >= asked && (uintptr_t)block % alignment == 0);
    require(numalloc_node_of(block) >= 0);
    size_t size = usable - 1 < PATTERN_MAX ? usable - 1 : PATTERN_MAX;
    *slot = (slot_t){.at = block, .usable = usable, .size = size, .seed = ++seeds};
    live += usable;
    fill_block(block, size, slot->seed);
    slot->at[usable - 1] = (unsigned char)slot->seed;
}

static void drop(slot_t *slot) {
    if (slot->at != NULL) verify(slot);
    live -= slot->usable;
    errno = 7777;
    NA_FN(free)(slot->at);
    require(errno == 7777);
    *slot = (slot_t){0};
}

static void resize(slot_t *slot, size_t size) {
    if (slot->at == NULL) {
        keep(slot, NA_FN(realloc)(NULL, size), size, 16);
        return;
    }
    verify(slot);
    live -= slot->usable;
    slot_t old = *slot;
    unsigned char *block = NA_FN(realloc)(slot->at, size);
    *slot = (slot_t){0};
    if (size == 0) return;
    require(block != NULL);
    size_t same = old.size < size ? old.size : size;
    /* The pattern's last, partial word depends on the length that was filled: whole words only. */
    require(fill_holds(block, same / 8 * 8, old.seed));
    keep(slot, block, size, 16);
}

static void aligned(slot_t *slot, size_t size, unsigned shift) {
    size_t alignment = (size_t)16 << shift % 19; /* up to 4 MiB */
    void *block = NULL;
    switch (shift / 19 % 3) {
    case 0:
        block = NA_FN(memalign)(alignment, size);
        break;
    case 1:
        block = NA_FN(aligned_alloc)(alignment, size);
        break;
    default:
        require(NA_FN(posix_memalign)(&block, alignment, size) == 0);
    }
    keep(slot, block, size, alignment);
}

static void clear(slot_t *slot, size_t size, unsigned count) {
    size_t each = size / (count + 1);
    unsigned char *block = NA_FN(calloc)(count + 1, each);
    require(block != NULL && fill_is_zero(block, each * (count + 1)));
    keep(slot, block, each * (count + 1), 16);
}

/* What must fail, and leave everything as it is. */
static void refused(slot_t *slot, unsigned which) {
    errno = 0;
    switch (which % 5) {
    case 0:
        require(NA_FN(malloc)(SIZE_MAX - which) == NULL && errno == ENOMEM);
        break;
    case 1:
        require(NA_FN(calloc)(SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
        break;
    case 2:
        if (slot->at == NULL) return;
        require(NA_FN(realloc)(slot->at, PTRDIFF_MAX) == NULL && errno == ENOMEM);
        verify(slot);
        break;
    case 3:
        require(NA_FN(aligned_alloc)(48, 100) == NULL && errno == EINVAL);
        break;
    default: {
        void *block = slot;
        require(NA_FN(posix_memalign)(&block, 4, 100) == EINVAL && block == slot);
    }
    }
}

/* Sizes of all scales, up to 4 MiB: 12 bits, shifted by 4 more. */
static size_t size_of(unsigned low, unsigned high) {
    return (size_t)(low | (high & 0xf) << 8) << (high >> 4) % 11;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (; size >= 4; size -= 4, data += 4) {
        slot_t *slot = &slots[data[1] % SLOTS];
        size_t want = size_of(data[2], data[3]);
        unsigned extra = data[0] >> 3;
        if (live + want > LIVE_MAX) want %= 4096;
        switch (data[0] & 7) {
        case 0:
        case 1:
            drop(slot);
            keep(slot, NA_FN(malloc)(want), want, 16);
            break;
        case 2:
            drop(slot);
            clear(slot, want % ((size_t)512 << 10), extra);
            break;
        case 3:
        case 4:
            resize(slot, want);
            break;
        case 5:
            drop(slot);
            aligned(slot, want % ((size_t)1 << 20), extra);
            break;
        case 6:
            drop(slot);
            break;
        default:
            if (extra == 0)
                (void)numalloc_trim(want);
            else
                refused(slot, extra);
        }
    }
    for (unsigned i = 0; i < SLOTS; i++)
        if (slots[i].at != NULL) drop(&slots[i]);
    require(live == 0);
    return 0;
}
