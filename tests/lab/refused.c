/* refused.c - under `refuse`: the allocator works and its counters say that binding was refused.
 * The placement itself is judged by `churn KIND maps`. */
#include "lab.h"

#include <sys/syscall.h>

static void work(void *argument, int number) {
    (void)argument;
    lab_pin(number);
    lab_block_t block[64];
    for (size_t i = 0; i < NA_COUNT(block); i++)
        lab_make(&block[i], (size_t)16 << i % 16);
    for (size_t i = 0; i < NA_COUNT(block); i++)
        lab_drop(&block[i]);
}

int main(void) {
    check_begin();
    lab_begin(2);
    REQUIRE(syscall(SYS_mbind, 0, 0, 0, 0, 0, 0) == -1 && (errno == EPERM || errno == ENOSYS));
    lab_team(lab_nodes, work, NULL);
    for (int i = 0; i < lab_nodes; i++) {
        uint64_t strays;
        int bound, refused;
        if (!lab_node_stats(i, &strays, &bound, &refused))
            check_skip("the allocator has no statistics of nodes");
        check_say("node %d: bound %d, refused %d\n", lab_node[i].id, bound, refused);
        CHECK(!bound && refused);
    }
    return lab_status(check_status());
}
