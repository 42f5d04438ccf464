/* plugged.c - a thread on a node without memory is served from elsewhere; memory is plugged into
 * its node while the program runs, and what it allocates from then on is local. */
#include "lab.h"

enum { SLOTS = 64, SIZE = 128 << 10 };

static lab_block_t block[SLOTS];

static void renew(void) {
    for (size_t i = 0; i < SLOTS; i++)
        lab_drop(&block[i]);
    for (size_t i = 0; i < SLOTS; i++)
        lab_make(&block[i], SIZE);
}

int main(void) {
    check_begin();
    lab_begin(1);
    int bare = -1;
    for (int i = 0; i < lab_nodes; i++)
        if (lab_node[i].cpu >= 0 && lab_node[i].total == 0) bare = i;
    if (bare < 0) check_skip("every node with a CPU has memory");
    lab_pin(bare);
    renew();
    lab_pages_t pages = {0};
    lab_judge(block, SLOTS, false, &pages);
    lab_expect_on(&pages, lab_home(bare), "before memory is plugged");

    lab_plug(bare, 256);
    check_say("node %d has %llu MiB now\n", lab_node[bare].id,
              (unsigned long long)lab_node[bare].total >> 20);
    /* The allocator may take a few seconds to look again; a program that goes on allocating must
     * not have to do anything for it. */
    uint64_t plugged = lab_now_ms();
    do {
        lab_sleep_ms(100);
        renew();
        memset(&pages, 0, sizeof pages);
        lab_judge(block, SLOTS, false, &pages);
    } while (pages.on[bare] != pages.total && lab_now_ms() - plugged < 15000);
    check_say("local after %llu ms\n", (unsigned long long)(lab_now_ms() - plugged));
    lab_expect_on(&pages, bare, "after memory was plugged");
    return lab_status(check_status());
}
