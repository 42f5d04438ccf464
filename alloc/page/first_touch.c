/* first_touch.c - giving back large blocks whose pages lie where they were first touched. */
#include "alloc/page/first_touch.h"

#include "alloc/machine/topology.h"
#include "alloc/page/pageheap.h"
#include "alloc/sys/os.h"

enum {
    EACH = 64 << 10, /* bytes of which one page is looked up */
    MOST = NA_HUGE_SIZE / EACH,
    MOST_ALL = 512, /* of one block: of larger ones fewer are */
};

/* A part of one hugepage: some pages of it, all at the node. Not always the first of 64 KiB. */
static bool is_home(unsigned node, uintptr_t start, size_t bytes, size_t each) {
    void *pages[MOST] = {NULL};
    int status[MOST];
    unsigned count = 0, system = na_node_system_id(node);
    for (size_t at = 0; at < bytes && count < MOST; at += each) {
        size_t left = bytes - at < each ? bytes - at : each;
        uintptr_t page = start + at + (size_t)count * 5 * na_os_page % left;
        pages[count++] = (void *)na_align_down(page, na_os_page);
    }
    if (na_os_is_confined() || na_os_page_nodes(pages, count, status) < 0) {
        na_pageheap_refuse_touch(node);
        return false;
    }
    for (unsigned i = 0; i < count; i++)
        if (status[i] < 0 || (unsigned)status[i] != system) return false;
    return true;
}

/* Pages within one hugepage. Where the system's pages are larger than ours, those at the ends are
 * somebody else's, too, and stay. */
static void give_back(unsigned node, uintptr_t start, uintptr_t end, bool keep) {
    uintptr_t from = na_align_up(start, na_os_page), to = na_align_down(end, na_os_page);
    if (keep || from >= to || !na_os_purge((void *)from, to - from)) {
        na_pageheap_free(node, start, (uint32_t)((end - start) >> NA_PAGE_SHIFT));
        return;
    }
    na_pageheap_free(node, start, (uint32_t)((from - start) >> NA_PAGE_SHIFT));
    na_pageheap_free_purged(node, from, (uint32_t)((to - from) >> NA_PAGE_SHIFT));
    na_pageheap_free(node, to, (uint32_t)((end - to) >> NA_PAGE_SHIFT));
}

void na_touch_free(unsigned node, uintptr_t start, uint32_t pages, bool look) {
    size_t bytes = (size_t)pages << NA_PAGE_SHIFT, each = EACH;
    while (bytes / each > MOST_ALL)
        each *= 2;
    for (uintptr_t end = start + bytes, next; start < end; start = next) {
        next = na_align_down(start, NA_HUGE_SIZE) + NA_HUGE_SIZE;
        if (next > end) next = end;
        give_back(node, start, next, look && is_home(node, start, next - start, each));
    }
}
