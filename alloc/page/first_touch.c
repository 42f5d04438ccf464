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
    if (na_os_page_nodes(pages, count, status) < 0) {
        na_pageheap_refuse_touch(node);
        return false;
    }
    for (unsigned i = 0; i < count; i++)
        if (status[i] < 0 || (unsigned)status[i] != system) return false;
    return true;
}

void na_touch_free(unsigned node, uintptr_t start, uint32_t pages, bool look) {
    size_t bytes = (size_t)pages << NA_PAGE_SHIFT, each = EACH;
    while (bytes / each > MOST_ALL)
        each *= 2;
    for (uintptr_t end = start + bytes, next; start < end; start = next) {
        next = na_align_down(start, NA_HUGE_SIZE) + NA_HUGE_SIZE;
        if (next > end) next = end;
        uint32_t part = (uint32_t)((next - start) >> NA_PAGE_SHIFT);
        bool whole = (start | next) % na_os_page == 0; /* else part of a page is somebody else's */
        if ((look && is_home(node, start, next - start, each)) || !whole ||
            !na_os_purge((void *)start, next - start))
            na_pageheap_free(node, start, part);
        else
            na_pageheap_free_purged(node, start, part);
    }
}
