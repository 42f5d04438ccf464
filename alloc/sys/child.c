/* child.c - see child.h. */
#include "alloc/sys/child.h"

#include <stddef.h>

#include "alloc/sys/lock.h"
#include "alloc/sys/os.h"

static _Atomic(uint32_t) alone = NA_CHILD_KNOWN; /* of a process that has not been watched */
_Atomic(uint32_t) *na_child_word = &alone;

static _Atomic(uint32_t) *wiped; /* on a page of its own; once made, it is so in children, too */
static bool (*settle_child)(void);

static _Atomic(uint32_t) *make_wiped(void) {
    static bool tried;
    if (tried) return NULL;
    tried = true;
    void *page = na_os_map(na_os_page);
    if (page == NULL || na_os_wipe_in_children(page, na_os_page)) return page;
    na_os_unmap(page, na_os_page);
    return NULL;
}

NA_COLD void na_child_watch(bool (*settle)(void)) {
    if (na_child_word != &alone) return;
    if (wiped == NULL) wiped = make_wiped();
    if (wiped == NULL) return;
    settle_child = settle;
    atomic_store_explicit(wiped, NA_CHILD_KNOWN, memory_order_relaxed);
    __atomic_store_n(&na_child_word, wiped, __ATOMIC_RELEASE);
}

NA_COLD void na_child_settle(void) {
    uint32_t me = na_thread_tag(), nobody = 0;
    if (atomic_compare_exchange_strong(na_child_word, &nobody, me)) {
        atomic_store(na_child_word, settle_child() ? NA_CHILD_KNOWN : 0);
    } else if (nobody != me) {
        while (atomic_load(na_child_word) > NA_CHILD_KNOWN)
            na_os_yield();
    }
}

void na_child_is_settled(void) {
    if (na_child_word != &alone) na_child_word = &alone;
}
