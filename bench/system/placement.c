/* placement.c - asks the kernel for the node of pages, without libnuma. */
#include "bench/system/placement.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BATCH 512 /* pages of one system call */

unsigned na_placement_node(void) {
    unsigned cpu = 0, node = 0;
    if (syscall(SYS_getcpu, &cpu, &node, NULL) != 0) return 0;
    return node;
}

/* A kernel without NUMA has no move_pages; then there is one node, and everything is on it. */
static long ask_nodes(size_t count, void **pages, int *nodes) {
    if (syscall(SYS_move_pages, 0, count, pages, NULL, nodes, 0) == 0) return 0;
    if (errno == ENOSYS && access("/sys/devices/system/node/node1", F_OK) != 0) {
        for (size_t i = 0; i < count; i++)
            nodes[i] = 0;
        return 0;
    }
    return -1;
}

/* How many multiples of `stride` lie in from .. to-1. */
static uint64_t multiples(size_t from, size_t to, size_t stride) {
    return (to + stride - 1) / stride - (from + stride - 1) / stride;
}

void na_placement_count(const void *block, size_t size, size_t stride, unsigned node,
                        na_placement_t *sum) {
    size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t base = (uintptr_t)block;
    void *pages[BATCH];
    uint64_t accesses[BATCH];
    int nodes[BATCH];
    for (size_t from = 0; from < size;) {
        size_t count = 0;
        while (count < BATCH && from < size) {
            uintptr_t page = (base + from) & ~(uintptr_t)(page_size - 1);
            size_t to = page + page_size - base;
            if (to > size) to = size;
            uint64_t here = multiples(from, to, stride);
            if (here != 0) {
                pages[count] = (void *)page;
                accesses[count++] = here;
            }
            from = to;
        }
        long error = count == 0 ? 0 : ask_nodes(count, pages, nodes);
        for (size_t i = 0; i < count; i++) {
            if (error != 0 || nodes[i] < 0)
                sum->unknown += accesses[i];
            else if ((unsigned)nodes[i] == node)
                sum->local += accesses[i];
            else
                sum->remote += accesses[i];
        }
    }
}
