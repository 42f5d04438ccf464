/* two_nodes.c - threads of two nodes, which a tree of files makes up, free each other's blocks of
 * all sizes by a table; the threads come and go. Those of the second node begin when the others
 * have looked at all nodes, of which it is none yet. With sanitizers: linked with the library,
 * which it tells of the tree. */
#include "support/check.h"
#include "support/fill.h"

#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc/core/machine/topology.h"
#include "alloc/core/thread/attach.h"
#include "support/alloc_api.h"

enum { THREADS = 8, ROUNDS = 4, TIMES = 20000, SLOTS = 512 };

static char root[] = "/tmp/numalloc_nodes.XXXXXX";
static _Atomic(unsigned char *) table[SLOTS];
static _Atomic(bool) all; /* threads have begun */

static void put(const char *path, const char *text) {
    char full[256];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *c = full + sizeof root; *c != 0; c++)
        if (*c == '/') {
            *c = 0;
            mkdir(full, 0700);
            *c = '/';
        }
    FILE *file = fopen(full, "w");
    REQUIRE(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static int drop(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

#define NODE "sys/devices/system/node/"

static void make_up_nodes(void) {
    static char sys[64], proc[64]; /* the library looks there again */
    REQUIRE(mkdtemp(root) != NULL);
    put(NODE "online", "0-1\n");
    put(NODE "has_memory", "0-1\n");
    put(NODE "node0/cpulist", "0\n");
    put(NODE "node1/cpulist", "1-1023\n");
    put(NODE "node0/distance", "10 20\n");
    put(NODE "node1/distance", "20 10\n");
    put(NODE "node0/meminfo", "Node 0 MemTotal: 16777216 kB\nNode 0 MemFree: 8388608 kB\n");
    put(NODE "node1/meminfo", "Node 1 MemTotal: 16777216 kB\nNode 1 MemFree: 8388608 kB\n");
    put("proc/self/status", "Mems_allowed:\t3\nMems_allowed_list:\t0-1\n");
    snprintf(sys, sizeof sys, "%s/sys", root);
    snprintf(proc, sizeof proc, "%s/proc", root);
    na_init();
    na_topology_init(sys, proc);
    REQUIRE(na_node_count == 2);
}

static void let_go(unsigned char *block) {
    if (block != NULL) CHECK(*block == 7);
    free(block);
}

static void *work(void *index) {
    uint64_t random = (uintptr_t)index + 1;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((uintptr_t)index % 2, &set);
    sched_setaffinity(0, sizeof set, &set); /* refused: it stays where it is */
    for (unsigned i = 0; i < TIMES || !atomic_load_explicit(&all, memory_order_relaxed); i++) {
        uint64_t drawn = fill_random(&random);
        size_t size = drawn % 64 == 0 ? 30000 + drawn % 3000000 : 16 + drawn % 2000;
        unsigned char *block = malloc(size);
        REQUIRE(block != NULL);
        *block = 7;
        let_go(atomic_exchange(&table[(drawn >> 32) % SLOTS], block));
    }
    return NULL;
}

int main(void) {
    check_begin();
    make_up_nodes();
    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_t thread[THREADS];
        for (uintptr_t i = 0; i < THREADS; i += 2)
            REQUIRE(pthread_create(&thread[i], NULL, work, (void *)i) == 0);
        if (round == 0) usleep(500 * 1000);
        for (uintptr_t i = 1; i < THREADS; i += 2)
            REQUIRE(pthread_create(&thread[i], NULL, work, (void *)i) == 0);
        atomic_store_explicit(&all, true, memory_order_relaxed);
        for (unsigned i = 0; i < THREADS; i++)
            REQUIRE(pthread_join(thread[i], NULL) == 0);
    }
    for (unsigned i = 0; i < SLOTS; i++)
        let_go(table[i]);
    nftw(root, drop, 16, FTW_DEPTH | FTW_PHYS);
    return check_status();
}
