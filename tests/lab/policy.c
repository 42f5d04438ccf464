/* policy.c - the user's own policy wins. Started under numactl, in a cpuset, or setting a policy by
 * itself, the program checks that its pages lie where that policy says, every one.
 *
 * usage: policy node ID         all pages of threads on every node are on this one
 *        policy interleave      all nodes hold the same share of each thread's pages
 *        policy interleave huge all nodes have their turn, which is a huge page's where the kernel
 *                               gives them
 *        policy local           pages are on their threads' nodes (in a cpuset: of those allowed)
 *        policy later ID        as node, by set_mempolicy(MPOL_BIND) while the program runs, for
 *                               what is allocated afterwards */
#include "lab.h"

#include <linux/mempolicy.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { SMALL = 6000, LARGE = 24, SLOTS = SMALL + LARGE };

typedef struct worker {
    lab_block_t block[SLOTS];
    lab_pages_t pages;
} worker_t;

static worker_t *workers;
static int place_of[LAB_NODES];
static int places;
static int wanted = -1; /* table index */
static bool later;

static void fill(worker_t *self) {
    uint64_t random = 7;
    for (size_t i = 0; i < SMALL; i++)
        lab_make(&self->block[i], 16 + lab_random(&random) % 2000);
    for (size_t i = SMALL; i < SLOTS; i++)
        lab_make(&self->block[i], 256 << 10);
}

static void bind_thread(int index) {
    unsigned long mask = 1UL << lab_node[index].id;
    REQUIRE(syscall(SYS_set_mempolicy, MPOL_BIND, &mask, 64UL) == 0);
}

static void work(void *argument, int number) {
    (void)argument;
    worker_t *self = &workers[number];
    lab_pin(place_of[number]);
    if (later) {
        fill(self);
        bind_thread(wanted);
        /* Blocks at hand were placed before; a few slow paths later none of them is left: the old
         * ones stay allocated until the new ones are judged. */
        lab_block_t *old = lab_map(SLOTS * sizeof *old);
        memcpy(old, self->block, SLOTS * sizeof *old);
        fill(self);
        fill(self);
        for (size_t i = 0; i < SLOTS; i++)
            self->block[i].fresh = i >= SMALL;
        lab_judge(self->block, SLOTS, true, &self->pages);
        for (size_t i = 0; i < SLOTS; i++)
            lab_drop(&old[i]);
        return;
    }
    fill(self);
    lab_judge(self->block, SLOTS, false, &self->pages);
}

static void check_shares(const lab_pages_t *pages, int thread_node) {
    int nodes = 0;
    for (int i = 0; i < lab_nodes; i++)
        nodes += lab_node[i].memory;
    for (int i = 0; i < lab_nodes; i++) {
        if (!lab_node[i].memory) continue;
        double share = (double)pages->on[i] * nodes / (double)pages->total;
        check_say("thread on node %d: node %d has %.3f of its fair share of %llu pages\n",
                  thread_node, lab_node[i].id, share, (unsigned long long)pages->total);
        CHECK(share > 0.85 && share < 1.15);
    }
}

/* The kernel takes turns by huge pages, too few of them for equal shares of each thread. */
static void check_turns(void) {
    char text[4096];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    unsigned long huge_kib = 0;
    REQUIRE(file != NULL);
    while (fgets(text, sizeof text, file) != NULL)
        (void)sscanf(text, "AnonHugePages: %lu", &huge_kib);
    fclose(file);
    if (huge_kib == 0) check_skip("this machine makes no huge pages unasked");
    lab_pages_t all = {0};
    for (int i = 0; i < places; i++)
        for (int node = 0; node < lab_nodes; node++) {
            all.on[node] += workers[i].pages.on[node];
            all.total += workers[i].pages.on[node];
        }
    for (int node = 0; node < lab_nodes; node++) {
        if (!lab_node[node].memory) continue;
        double share = (double)all.on[node] * lab_nodes / (double)all.total;
        check_say("%lu MiB of huge pages: node %d has %.2f of its fair share of %llu pages\n",
                  huge_kib >> 10, lab_node[node].id, share, (unsigned long long)all.total);
        CHECK(share > 0.5 && share < 1.5);
    }
}

static int index_or_end(const char *text) {
    int index = text == NULL ? -1 : lab_index(atoi(text));
    if (index < 0) check_skip("this machine has no such node");
    return index;
}

int main(int argc, char **argv) {
    check_begin();
    lab_begin(1);
    const char *what = argc > 1 ? argv[1] : "";
    bool interleave = strcmp(what, "interleave") == 0;
    later = strcmp(what, "later") == 0;
    if (later || strcmp(what, "node") == 0)
        wanted = index_or_end(argv[2]);
    else if (!interleave && strcmp(what, "local") != 0) {
        check_say("usage: %s node ID | later ID | interleave [huge] | local\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < lab_nodes; i++)
        if (lab_node[i].cpu >= 0) place_of[places++] = i;
    /* The kernel takes turns by huge pages where it can: too few of them for equal shares. */
    bool huge = interleave && argc > 2 && strcmp(argv[2], "huge") == 0;
    if (interleave && !huge) REQUIRE(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
    workers = lab_map((size_t)places * sizeof *workers);
    lab_team(places, work, NULL);
    if (huge) check_turns();
    for (int i = 0; i < places && !huge; i++) {
        char text[64];
        int on = place_of[i];
        snprintf(text, sizeof text, "thread on node %d", lab_node[on].id);
        if (interleave)
            check_shares(&workers[i].pages, lab_node[on].id);
        else
            lab_expect_on(&workers[i].pages, wanted >= 0 ? wanted : lab_home(on), text);
    }
    return lab_status(check_status());
}
