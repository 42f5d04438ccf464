/* child.c - see child.h. */
#include "alloc/sys/child.h"

#include <stddef.h>

#include "alloc/sys/lock.h"
#include "alloc/sys/os.h"

static na_child_word_t alone = NA_CHILD_KNOWN; /* of a process that has not been watched */
_Atomic(na_child_word_t *) na_child_word = &alone;

static na_child_word_t *wiped; /* on a page of its own; once made, it is so in children, too */
static bool (*settle_child)(void);

static na_child_word_t *make_wiped(void) {
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
    atomic_store_explicit(&na_child_word, wiped, memory_order_release);
}

NA_COLD void na_child_settle(void) {
    na_child_word_t *word = na_child_word;
    uint32_t me = na_thread_tag(), nobody = 0;
    if (atomic_compare_exchange_strong(word, &nobody, me)) {
        atomic_store(word, settle_child() ? NA_CHILD_KNOWN : 0);
    } else if (nobody != me) {
        while (atomic_load(word) > NA_CHILD_KNOWN)
            na_os_yield();
    }
}

void na_child_is_settled(void) {
    if (na_child_word != &alone) na_child_word = &alone;
}
