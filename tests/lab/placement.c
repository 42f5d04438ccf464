/* placement.c - where pages end when the kernel's NUMA balancing may move those that it may:
 *
 *     lab-placement KIND BYTES [POLICY [LEAST MOST]]
 *                                           prints "remote PER_CENT": accesses to pages of other
 *                                           nodes than their user's, at the end; fails where it is
 *                                           not between LEAST and MOST
 *     lab-placement run POLICY COMMAND...   runs a command under the policy
 *
 * POLICY is none, or one of all nodes for the whole process, which malloc's memory then has:
 * bind-balanced (MPOL_BIND with MPOL_F_NUMA_BALANCING) or preferred-many.
 *
 * The kernel scans and moves by the processor time of threads, and so each uses its blocks for so
 * much of that; periods are a tenth of the usual ones. Emulated machines know places, not time. */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lab.h"

/* Preloaded, not linked. */
#pragma weak numalloc_migrate

enum {
    TEAM = 8,
    EACH = 4 << 20, /* bytes that a thread uses */
    PAGE = 4096,
    USE_MS = 1200, /* processor time of each thread */
    SHORT_LIVES = 60,
    STAYS = 12,    /* of a wanderer, on one node after another */
    STAY_MS = 100, /* processor time of each */
    HELD = 8,      /* blocks that it has at a time */
    LARGE = 2 << 20,
    HIDE_MS = 1500, /* in which the kernel hides all of them */
    PREFERRED_MANY = 5,
    BALANCING = 1 << 13,
};

typedef struct kind {
    const char *name;
    bool by_one;  /* the main thread allocates */
    bool filled;  /* who allocates writes first */
    bool moved;   /* the user goes to another node between filling and using */
    bool crossed; /* neighbouring blocks have different users */
    bool parts;   /* one block, a part for each */
    bool reused;  /* another thread has used and freed as much before, on another node */
    bool brief;   /* each block is freed after a short use */
    bool crowded; /* two threads a processor, and none is pinned */
    bool wanders; /* the user goes from node to node, and renews its blocks all the time */
} kind_t;

static const kind_t kinds[] = {
    {.name = "own", .filled = true},
    {.name = "handed", .by_one = true},
    {.name = "filled", .by_one = true, .filled = true},
    {.name = "pool", .by_one = true, .filled = true, .crossed = true},
    {.name = "moved", .filled = true, .moved = true},
    {.name = "parts", .by_one = true, .filled = true, .parts = true},
    {.name = "touched", .by_one = true, .parts = true},
    {.name = "reused", .filled = true, .reused = true},
    {.name = "crowd", .filled = true, .crowded = true},
    {.name = "wanderer", .filled = true, .wanders = true},
    {.name = "acceptor", .by_one = true, .filled = true, .brief = true},
    {.name = "brief", .filled = true, .brief = true},
    {.name = "reused-brief", .filled = true, .reused = true, .brief = true},
};

static const kind_t *kind;
static size_t size, blocks; /* of each block; of a thread */
static int team;
static unsigned char **block[TEAM];
static _Atomic(unsigned char *) offered[TEAM];
static pthread_barrier_t met;
static atomic_ulong local, remote;

static void write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

/* Balancing is on, and ten times as fast as it would be. */
static void begin_balancing(void) {
#define BALANCER "/sys/kernel/debug/sched/numa_balancing/"
    mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
    write_text(BALANCER "scan_delay_ms", "100");
    write_text(BALANCER "scan_period_min_ms", "100");
    write_text(BALANCER "scan_period_max_ms", "1000");
    write_text("/proc/sys/kernel/numa_balancing", "1");
}

static void set_policy(const char *name) {
    unsigned long nodes = (1ul << lab_nodes) - 1;
    long mode = strcmp(name, "bind-balanced") == 0    ? 2 | BALANCING
                : strcmp(name, "preferred-many") == 0 ? PREFERRED_MANY
                                                      : 0;
    REQUIRE(mode != 0 || strcmp(name, "none") == 0);
    if (mode != 0) REQUIRE(syscall(SYS_set_mempolicy, mode, &nodes, 65ul) == 0);
}

static uint64_t used_ms(void) {
    struct timespec t;
    REQUIRE(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* The part of a block that a thread uses. */
static size_t part(int me, size_t *from) {
    size_t bytes = kind->parts ? size / (size_t)team : size;
    *from = kind->parts ? bytes * (size_t)me : 0;
    return bytes;
}

static void touch(unsigned char *b, int me) {
    size_t from, bytes = part(me, &from);
    for (size_t at = 0; at < bytes; at += 64)
        ++*(volatile unsigned char *)(b + from + at);
}

/* Accesses count, so a page does as often as lines of it are used. A page that waits for its
 * hinting fault seems to be missing: it is touched, and asked for again. */
static void look(unsigned char *b, int me) {
    size_t from, bytes = part(me, &from);
    unsigned node = 0;
    for (size_t at = 0; at < bytes;) {
        volatile unsigned char *byte = b + from + at;
        void *page = (void *)((uintptr_t)byte & ~(uintptr_t)(PAGE - 1));
        size_t rest = PAGE - ((uintptr_t)byte & (PAGE - 1));
        int status = -1;
        for (int tries = 0; tries < 100 && status < 0; tries++) {
            *byte = *byte;
            if (syscall(SYS_move_pages, 0, 1ul, &page, NULL, &status, 0) != 0) status = -1;
        }
        REQUIRE(status >= 0);
        REQUIRE(syscall(SYS_getcpu, NULL, &node, NULL) == 0);
        if (rest > bytes - at) rest = bytes - at;
        atomic_fetch_add((unsigned)status == node ? &local : &remote, rest);
        at += rest;
    }
}

static unsigned char *make(void) {
    unsigned char *b = check_opaque(malloc(size));
    REQUIRE(b != NULL);
    if (kind->filled) memset(b, 1, size);
    return b;
}

static void make_all(int me) {
    for (size_t i = 0; i < blocks; i++)
        block[me][i] = make();
}

/* Of all threads, in the order of the blocks: thread after thread, or each the next one's
 * neighbour. */
static void make_for_all(void) {
    if (kind->parts) {
        unsigned char *b = make();
        for (int t = 0; t < team; t++)
            block[t][0] = b;
        return;
    }
    for (size_t i = 0; i < blocks * (size_t)team; i++) {
        size_t t = kind->crossed ? i % (size_t)team : i / blocks;
        size_t k = kind->crossed ? i / (size_t)team : i % blocks;
        block[t][k] = make();
    }
}

static void use_all(int me) {
    for (uint64_t begun = used_ms(); used_ms() - begun < USE_MS;)
        for (size_t i = 0; i < blocks; i++)
            touch(block[me][i], me);
}

static void live_briefly(int me) {
    for (unsigned i = 0; i < SHORT_LIVES; i++) {
        unsigned char *b = NULL;
        if (kind->by_one)
            while ((b = atomic_exchange(&offered[me], NULL)) == NULL)
                sched_yield();
        else
            b = make();
        for (int times = 0; times < 4; times++)
            touch(b, me);
        look(b, me);
        free(b);
    }
}

static void wander(int me) {
    unsigned char *held[HELD] = {NULL};
    for (int stay = 0; stay < STAYS; stay++) {
        lab_pin((me + stay) % lab_nodes);
        unsigned i = 0;
        for (uint64_t begun = used_ms(); used_ms() - begun < STAY_MS; i = (i + 1) % HELD) {
            free(held[i]);
            held[i] = make();
            for (int times = 0; times < 4; times++)
                touch(held[i], me);
            look(held[i], me);
        }
    }
    for (unsigned i = 0; i < HELD; i++)
        free(held[i]);
}

/* Who allocates for all: on node 0. */
static void *hand_out(void *nothing) {
    unsigned given[TEAM] = {0};
    for (unsigned left = SHORT_LIVES * (unsigned)team; left > 0; sched_yield()) {
        for (int t = 0; t < team; t++) {
            if (given[t] == SHORT_LIVES || atomic_load(&offered[t]) != NULL) continue;
            atomic_store(&offered[t], make());
            given[t]++;
            left--;
        }
    }
    return nothing;
}

static void work(void *argument, int me) {
    (void)argument;
    if (!kind->crowded) lab_pin(me % lab_nodes);
    if (kind->brief) {
        live_briefly(me);
        return;
    }
    if (kind->wanders) {
        wander(me);
        return;
    }
    if (!kind->by_one) make_all(me);
    if (kind->moved) lab_pin((me + 1) % lab_nodes);
    use_all(me);
    pthread_barrier_wait(&met);
    for (size_t i = 0; i < blocks; i++)
        look(block[me][i], me);
}

/* A thread of another life: it uses what is then freed, on another node. */
static void use_before(void *argument, int me) {
    (void)argument;
    lab_pin((me + 1) % lab_nodes);
    make_all(me);
    for (size_t i = 0; i < blocks; i++)
        touch(block[me][i], me);
    for (size_t i = 0; i < blocks; i++)
        free(block[me][i]);
}

/* Large blocks, which the kernel hides while it waits for who uses them: none of their pages is
 * passed over. */
static void move_hidden(void) {
    if (numalloc_migrate == NULL || !kind->by_one || kind->brief || size < LARGE) return;
    lab_pin(1);
    for (uint64_t begun = used_ms(); used_ms() - begun < HIDE_MS;) {
    }
    size_t untouched = 0;
    for (int t = 0; t < (kind->parts ? 1 : team); t++)
        for (size_t i = 0; i < blocks; i++) {
            numalloc_migration_t m;
            numalloc_migrate(block[t][i], lab_node[0].id, &m);
            untouched += m.untouched;
        }
    CHECK_MSG(untouched == 0, "%zu bytes were not found", untouched);
}

int main(int argc, char **argv) {
    check_begin();
    lab_begin(2);
    if (argc > 3 && strcmp(argv[1], "run") == 0) {
        begin_balancing();
        set_policy(argv[2]);
        execvp(argv[3], argv + 3);
        perror(argv[3]);
        return 1;
    }
    for (size_t i = 0; argc > 2 && i < NA_COUNT(kinds); i++)
        if (strcmp(argv[1], kinds[i].name) == 0) kind = &kinds[i];
    size = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    if (kind == NULL || size == 0) {
        fprintf(
            stderr,
            "usage: lab-placement KIND BYTES [none|bind-balanced|preferred-many [LEAST MOST]]\n");
        return 2;
    }
    free(check_opaque(malloc(1))); /* what malloc reads at its start it has read now */
    begin_balancing();
    set_policy(argc > 3 ? argv[3] : "none");
    team = kind->crowded ? 2 * lab_nodes : lab_nodes;
    if (team > TEAM) team = TEAM;
    if (kind->parts) size *= (size_t)team;
    blocks = kind->parts || EACH < size ? 1 : EACH / size;
    for (int t = 0; t < team; t++)
        block[t] = lab_map(blocks * sizeof **block);
    pthread_barrier_init(&met, NULL, (unsigned)team);
    if (kind->reused) lab_team(team, use_before, NULL);
    if (!kind->crowded) lab_pin(0);
    if (kind->by_one && !kind->brief) make_for_all();
    if (kind->by_one && kind->brief) {
        pthread_t giver;
        REQUIRE(pthread_create(&giver, NULL, hand_out, NULL) == 0);
        lab_team(team, work, NULL);
        pthread_join(giver, NULL);
    } else {
        lab_team(team, work, NULL);
    }
    double share = 100.0 * (double)remote / (double)(local + remote);
    printf("remote %.1f\n", share);
    if (argc > 5) move_hidden();
    if (argc > 5) CHECK(share >= strtod(argv[4], NULL) && share <= strtod(argv[5], NULL));
    return lab_status(check_status());
}
