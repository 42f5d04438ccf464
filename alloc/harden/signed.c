/* signed.c - see signed.h. */
#include "alloc/harden/signed.h"

#include <sys/syscall.h>

#include "alloc/core/central/central.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/track/misuse.h"
#include "alloc/harden/hand.h"
#include "pagemap/pagemap.h"

uint64_t na_link_waits_key;
uint64_t na_link_keys[4];

enum {
    GRND_NOWAIT = 1,                     /* GRND_NONBLOCK, sys/random.h */
    ADDRESS_BITS = NA_ADDRESS_BITS - 4,  /* of a block's address, its lowest bits left out */
    BATCH_BITS = ADDRESS_BITS + 16,      /* and of a batch: its count */
    HIGH_BITS = 64 - ADDRESS_BITS,       /* of a mark beside the link, */
    LOW_BITS = 64 - BATCH_BITS,          /* and beside the batch */
    NA_MARK_BITS = HIGH_BITS + LOW_BITS, /* 26; where addresses have 48 bits 24 */
};

NA_COLD void na_link_report(const void *block) {
    na_span_fault("a freed block was written to:", block);
}

/* --- links --- */

static void sign(void *block) {
    na_link_set_signed(block, *na_block_next(block));
}

static void sign_list(void *list, uint32_t count) {
    for (void *block = list; count != 0; count--, block = *na_block_next(block))
        na_link_set_signed(block, *na_block_next(block));
}

static void *next(void *block) {
    if (NA_LIKELY(na_link_is_right(block))) return *na_block_next(block);
    na_link_report(block);
    return NULL;
}

static uint32_t check(void **list, uint32_t count) {
    void *before = NULL, *block = *list;
    for (uint32_t right = 0; right < count && block != NULL; right++) {
        bool live = na_live_at(block) != NA_BIRTH_NONE; /* an old link, written back, leads there */
        if (NA_UNLIKELY(live) || NA_UNLIKELY(!na_link_is_right(block))) {
            na_link_report(block);
            if (before != NULL)
                na_link_set_signed(before, NULL);
            else
                *list = NULL;
            return right;
        }
        before = block;
        block = *na_block_next(block);
    }
    return count;
}

/* --- batches on a stack --- */

static uint64_t bits(unsigned count) {
    return (UINT64_C(1) << count) - 1;
}

static uint64_t *words_of(na_batch_t batch) {
    return na_batch_first(batch);
}

static void mark(na_batch_t batch, uint64_t link, uint64_t below) {
    uint64_t *words = words_of(batch), m = na_link_mix(words, link, below);
    words[1] = link | m << ADDRESS_BITS;
    words[0] = below | m >> HIGH_BITS << BATCH_BITS;
}

/* False: it is not as it was marked. */
static bool is_marked(na_batch_t batch, uint64_t *link, uint64_t *below) {
    const uint64_t *words = words_of(batch);
    *link = words[1] & bits(ADDRESS_BITS);
    *below = words[0] & bits(BATCH_BITS);
    uint64_t m = na_link_mix(words, *link, *below);
    if (NA_LIKELY(words[1] == (*link | m << ADDRESS_BITS)) &&
        NA_LIKELY(words[0] == (*below | m >> HIGH_BITS << BATCH_BITS)))
        return true;
    na_link_report(words);
    return false;
}

/* A batch without the lowest bits of its address. */
static uint64_t packed(na_batch_t batch) {
    return (uintptr_t)na_batch_first(batch) >> 4 | (uint64_t)na_batch_count(batch) << ADDRESS_BITS;
}

static na_batch_t unpacked(uint64_t word) {
    return (na_batch_t)((word & bits(ADDRESS_BITS)) << 4 | word >> ADDRESS_BITS << 48);
}

static void stack(na_batch_t batch, na_batch_t below) {
    mark(batch, (uintptr_t)next(na_batch_first(batch)) >> 4, packed(below));
}

static na_batch_t below_of(na_batch_t batch) {
    uint64_t link, below;
    return is_marked(batch, &link, &below) ? unpacked(below) : 0;
}

/* (What a wrong one leads to is lost.) */
static na_batch_t unstack(na_batch_t batch) {
    uint64_t link, below;
    if (!is_marked(batch, &link, &below)) link = below = 0;
    na_link_set_signed(na_batch_first(batch), (void *)(uintptr_t)(link << 4));
    return unpacked(below);
}

static const na_links_t checked = {.sign = sign,
                                   .sign_list = sign_list,
                                   .next = next,
                                   .check = check,
                                   .stack = stack,
                                   .below = below_of,
                                   .unstack = unstack,
                                   .may_give = na_hand_may_give};

/* --- keys --- */

/* Where the kernel has no randomness yet, or none to give, addresses and the clock must do. */
void na_links_init(void) {
    uint64_t drawn[5];
    if (na_syscall(SYS_getrandom, (long)(uintptr_t)drawn, sizeof drawn, GRND_NOWAIT, 0, 0, 0) !=
        (long)sizeof drawn)
        for (unsigned i = 0; i < 5; i++)
            drawn[i] = na_link_fold(na_os_ns() ^ (uintptr_t)&drawn << 16,
                                    ((uintptr_t)na_links_init | 1) + (i << 1)) *
                       UINT64_C(0x9e3779b97f4a7c15);
    for (unsigned i = 0; i < 4; i++)
        na_link_keys[i] = drawn[i];
    na_link_keys[3] |= 1;
    na_link_waits_key = drawn[4];
    na_links = &checked;
}
