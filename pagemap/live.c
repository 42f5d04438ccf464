/* live.c - see live.h. */
#include "pagemap/live.h"

#include "alloc/sys/os.h"
#include "alloc/sys/reserve.h"

NA_SPARSE na_live_leaf_t *na_live_leaves[1u << (NA_ADDRESS_BITS - NA_LIVE_LEAF_SHIFT)];
bool na_live_is_partial;
uint8_t na_harden;

NA_COLD void na_live_never(void) {
    enum { PAGE_MOST = 64 * 1024 };
    uintptr_t start = na_align_up((uintptr_t)na_live_leaves, PAGE_MOST);
    uintptr_t end = na_align_down((uintptr_t)na_live_leaves + sizeof na_live_leaves, PAGE_MOST);
    (void)na_os_keep_zeros((void *)start, end - start);
}

/* Two threads may race to make one: the loser unmaps its own. NULL: no memory. */
static na_live_leaf_t *make_leaf(uintptr_t address) {
    na_live_leaf_t *leaf = na_os_map(sizeof *leaf), *known = NULL;
    if (leaf == NULL && na_reserve_give_back()) leaf = na_os_map(sizeof *leaf);
    if (leaf == NULL) return NULL;
    na_os_dump(leaf, sizeof *leaf, false); /* next to nothing of it is ever touched */
    if (__atomic_compare_exchange_n(&na_live_leaves[address >> NA_LIVE_LEAF_SHIFT], &known, leaf,
                                    false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return leaf;
    na_os_unmap(leaf, sizeof *leaf);
    return known;
}

NA_COLD void na_live_begin_first(const void *block, na_birth_t birth) {
    uintptr_t at = (uintptr_t)block;
    na_live_leaf_t *leaf = make_leaf(at);
    if (leaf != NULL)
        na_live_set(leaf, block, birth);
    else
        __atomic_store_n(&na_live_is_partial, true, __ATOMIC_RELAXED);
}

NA_COLD void na_live_forget(uintptr_t start, size_t bytes) {
    _Static_assert(4096 % (1u << NA_LIVE_WORD_SHIFT) == 0, "whole words a page");
    for (uintptr_t at = start; at < start + bytes; at += (uintptr_t)1 << NA_LIVE_WORD_SHIFT) {
        na_live_leaf_t *leaf = na_live_leaf(at);
        if (leaf != NULL) __atomic_store_n(na_live_word(leaf, at), 0, __ATOMIC_RELAXED);
    }
}
