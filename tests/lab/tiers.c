/* tiers.c - near memory is short, and there is far memory: with the policy that numalloc-dump
 * writes of a profile (--near), nearly all accesses go to near memory; without it few do.
 *
 *     lab-tiers            the test
 *     lab-tiers load ...   the program that is judged, which the test starts
 *
 * TRUTH_LIB is the library, TIERS_DUMP numalloc-dump. The program has a heap of 46 MiB in blocks of
 * thirteen call sites, from 64 bytes to 3 MiB; those that are hardly used are made first, or, in
 * the other order, all sites by turns. Ballast of the test's own fills all nodes with processors
 * but for NEAR per cent of that heap. How many accesses are near the program says itself: it counts
 * its passes over each site's words, and the kernel says where each page lies. */
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/access_source.h"

#define APART   __attribute__((noinline, noclone, noipa))
#define POLICY  "/tmp/tiers.policy"
#define PROFILE "/tmp/tiers.nprof"

enum {
    KIB = 1024,
    MIB = 1024 * KIB,
    PAGE = 4 * KIB,
    NEAR = 30,         /* per cent of the heap */
    SLACK = 3 * MIB,   /* beside it, for what the program has that is no block; */
    HUGE = 6 * MIB,    /* more, where a touched byte takes a huge page */
    ROUNDED = 2 * MIB, /* of it, for blocks: classes of sizes, the ends of spans */
    FEW = 60,
    MOST = 90,          /* per cent of accesses near: without at most, with at least */
    CYCLES = 16,        /* of a run that is not sampled: each of the sites has its turn */
    SAMPLED_MS = 40000, /* a profile */
    PASSES = 12,        /* in a cycle, of the site that is used most */
    BATCH = 256,
};

/* ---- the program ---- */

static unsigned blocks_made;

/* A wrapper: its callers are told apart by the second frame. */
APART static void *take_block(size_t size) {
    void *block = malloc(size);
    REQUIRE(block != NULL);
    blocks_made++;
    return block;
}

/* (None is a call in tail position: its return address is what a rule names.) */
#define SITE(name, by)                                                                             \
    APART static void *name(size_t size) {                                                         \
        void *block = by(size);                                                                    \
        if (block != NULL) memset(block, 1, size);                                                 \
        return block;                                                                              \
    }
SITE(make_archive, malloc)
SITE(make_history, malloc)
SITE(make_names, malloc)
SITE(make_images, malloc)
SITE(make_log, take_block)
SITE(make_notes, take_block)
SITE(make_edges, malloc)
SITE(make_index, malloc)
SITE(make_table, malloc)
SITE(make_nodes, take_block)
SITE(make_queue, malloc)
SITE(make_cache, malloc)
SITE(make_state, take_block)

/* `passes` over all its words in each cycle of `every`. */
static struct site {
    const char *name;
    void *(*make)(size_t size);
    size_t all, size; /* KiB; bytes of a block */
    unsigned passes, every;
    uint64_t done; /* passes */
    unsigned char **blocks;
    size_t count;
} sites[] = {
    {"archive", make_archive, 10240, 1 * MIB, 0, 1, 0, NULL, 0},
    {"history", make_history, 8192, 64 * KIB, 1, 8, 0, NULL, 0},
    {"names", make_names, 5120, 200, 1, 16, 0, NULL, 0},
    {"images", make_images, 6144, 2 * MIB, 0, 1, 0, NULL, 0},
    {"log", make_log, 2048, 4000, 1, 4, 0, NULL, 0},
    {"notes", make_notes, 1024, 48, 1, 16, 0, NULL, 0},
    /* Used more than the log, but too large for what the sites below leave of near memory. */
    {"edges", make_edges, 4352, 256 * KIB, 1, 2, 0, NULL, 0},
    {"index", make_index, 3072, 3 * MIB, 8, 1, 0, NULL, 0},
    {"table", make_table, 2048, 128 * KIB, 6, 1, 0, NULL, 0},
    {"nodes", make_nodes, 2048, 64, 5, 1, 0, NULL, 0},
    {"queue", make_queue, 1024, 48 * KIB, 10, 1, 0, NULL, 0},
    {"cache", make_cache, 1536, 512, 6, 1, 0, NULL, 0},
    {"state", make_state, 512, 16 * KIB, 12, 1, 0, NULL, 0},
};

static size_t heap_bytes(void) {
    size_t bytes = 0;
    for (size_t i = 0; i < NA_COUNT(sites); i++)
        bytes += sites[i].all * KIB;
    return bytes;
}

/* A site's blocks one after the other; by turns, a 64th of each site's. */
static void make_blocks(bool by_turns) {
    for (size_t i = 0; i < NA_COUNT(sites); i++)
        sites[i].blocks = lab_map((sites[i].all * KIB / sites[i].size + 1) * sizeof(void *));
    for (unsigned turn = by_turns ? 1 : 64; turn <= 64; turn++)
        for (size_t i = 0; i < NA_COUNT(sites); i++) {
            struct site *s = &sites[i];
            while (s->count < s->all * KIB / s->size * turn / 64) {
                s->blocks[s->count] = s->make(s->size);
                REQUIRE(s->blocks[s->count] != NULL);
                s->count++;
            }
        }
}

static void pass(struct site *s) {
    for (size_t i = 0; i < s->count; i++) {
        volatile uint64_t *words = (void *)s->blocks[i];
        for (size_t k = 0; k < s->size / sizeof *words; k++)
            (void)words[k];
    }
    s->done++;
}

/* Passes of all sites take turns, so that no site rests for long. */
static void cycle(unsigned number) {
    for (unsigned k = 1; k <= PASSES; k++)
        for (size_t i = 0; i < NA_COUNT(sites); i++)
            if (number % sites[i].every == 0 && k <= sites[i].passes) pass(&sites[i]);
}

typedef struct sum {
    double bytes, near_bytes, accesses, near_accesses;
    void *page[BATCH];
    size_t part[BATCH]; /* bytes of a block in it */
    unsigned waiting;
} sum_t;

static void ask(sum_t *sum, const struct site *s) {
    int status[BATCH];
    REQUIRE(syscall(SYS_move_pages, 0, (unsigned long)sum->waiting, sum->page, NULL, status, 0) ==
            0);
    for (unsigned i = 0; i < sum->waiting; i++) {
        int index = lab_index(status[i]);
        REQUIRE(index >= 0);
        double bytes = (double)sum->part[i], accesses = bytes / 8 * (double)s->done;
        sum->bytes += bytes;
        sum->accesses += accesses;
        if (lab_node[index].cpu < 0) continue;
        sum->near_bytes += bytes;
        sum->near_accesses += accesses;
    }
    sum->waiting = 0;
}

static void sum_site(sum_t *sum, const struct site *s) {
    for (size_t i = 0; i < s->count; i++) {
        uintptr_t from = (uintptr_t)s->blocks[i], end = from + s->size;
        while (from < end) {
            uintptr_t next = (from / PAGE + 1) * PAGE;
            if (next > end) next = end;
            sum->page[sum->waiting] = (void *)(from / PAGE * PAGE);
            sum->part[sum->waiting] = next - from;
            if (++sum->waiting == BATCH) ask(sum, s);
            from = next;
        }
    }
    ask(sum, s);
}

/* lab-tiers load "cold first"|"by turns" MS: works for that long, at least CYCLES cycles, then
 * writes its sums to descriptor 3. */
static int load(const char *order, unsigned ms) {
    make_blocks(strcmp(order, "by turns") == 0);
    uint64_t until = lab_now_ms() + ms;
    for (unsigned number = 0; number < CYCLES || lab_now_ms() < until; number++) {
        cycle(number);
        lab_sleep_ms(2); /* the recorder's turn, on an emulated machine */
    }
    sum_t sum = {0};
    for (size_t i = 0; i < NA_COUNT(sites); i++) {
        sum_t before = sum;
        sum_site(&sum, &sites[i]);
        dprintf(2, "  %-8s %6.2f MiB, %5.1f %% near; %6.0f passes\n", sites[i].name,
                (sum.bytes - before.bytes) / MIB,
                100 * (sum.near_bytes - before.near_bytes) / (sum.bytes - before.bytes),
                (double)sites[i].done);
    }
    dprintf(3, "%.0f %.0f %.0f %.0f\n", sum.bytes, sum.near_bytes, sum.accesses, sum.near_accesses);
    return 0;
}

/* ---- ballast ---- */

static int first; /* node with processors and memory */

/* Of that node; all other nodes with processors are full. */
static struct ballast {
    unsigned char *start;
    size_t bytes;
} ballast;

static bool prefer(void *start, size_t bytes, int index) {
    unsigned long mask[2] = {1UL << lab_node[index].id, 0};
    return syscall(SYS_mbind, start, bytes, 1 /* MPOL_PREFERRED */, mask, 65UL, 0) == 0;
}

/* Whether the kernel takes huge pages unasked. */
static bool huge_pages;

static void set_huge_pages(bool on) {
    int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_WRONLY | O_CLOEXEC);
    const char *word = on ? "always" : "never";
    REQUIRE(fd >= 0 && write(fd, word, strlen(word)) == (ssize_t)strlen(word));
    close(fd);
    huge_pages = on;
}

/* Writes to all of it. Bytes of it that lie on the node. */
static size_t touch(unsigned char *start, size_t bytes, int node) {
    lab_block_t block = {.start = start, .size = bytes};
    lab_pages_t pages = {0};
    memset(start, 1, bytes);
    lab_judge(&block, 1, false, &pages);
    return pages.on[node] * PAGE;
}

static void let_go(unsigned char *start, size_t bytes) {
    REQUIRE(madvise(start, bytes, MADV_DONTNEED) == 0);
}

/* Takes memory of a node, beyond the bytes that it has, until the kernel turns to another one. The
 * bytes that it has then. */
static size_t fill_node(int node, unsigned char *start, size_t bytes, size_t most) {
    for (; bytes + MIB <= most; bytes += MIB)
        if (touch(start + bytes, MIB, node) < MIB) {
            let_go(start + bytes, MIB);
            break;
        }
    return bytes;
}

/* What the library takes for room: it keeps eight per cent of a node for the kernel, which would
 * turn to another one somewhat later (alloc/core/machine/place.c). */
static size_t library_room(int index) {
    size_t kept = lab_node[index].total / 100 * 8, free = lab_free_bytes(index);
    return free > kept ? free - kept : 0;
}

/* Before each run: what the kernel itself has of a node varies. */
static void make_near_short(size_t wanted) {
    for (int i = lab_nodes - 1; i >= 0 && ballast.start == NULL; i--) {
        if (lab_node[i].cpu < 0 || !lab_node[i].memory) continue;
        size_t most = (size_t)lab_node[i].total;
        unsigned char *start = lab_map(most);
        REQUIRE(prefer(start, most, i));
        size_t filled = fill_node(i, start, 0, most);
        if (i == first) ballast = (struct ballast){start, filled};
    }
    for (size_t room; (room = library_room(first)) < wanted;) {
        size_t less = (wanted - room + MIB - 1) / MIB * MIB;
        REQUIRE(ballast.bytes >= less);
        ballast.bytes -= less;
        let_go(ballast.start + ballast.bytes, less);
    }
    size_t more = (library_room(first) - wanted) / MIB * MIB;
    (void)fill_node(first, ballast.start, ballast.bytes, ballast.bytes + more);
    ballast.bytes += more;
    check_say("ballast of %zu MiB leaves room for %.1f MiB\n", ballast.bytes / MIB,
              (double)library_room(first) / MIB);
}

/* ---- the test ---- */

static char program[4096];

typedef struct result {
    double bytes, near_bytes, accesses, near_accesses;
} result_t;

static result_t run_load(const char *what, const char *order, unsigned ms, const char *policy) {
    make_near_short(heap_bytes() * NEAR / 100 + SLACK + (huge_pages ? HUGE : 0));
    int out[2];
    REQUIRE(pipe2(out, O_CLOEXEC) == 0);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        char time[16];
        if (dup2(out[1], 3) < 0) _exit(125);
        setenv("LD_PRELOAD", getenv("TRUTH_LIB"), 1);
        setenv("NA_TEST_LIB", getenv("TRUTH_LIB"), 1);
        if (policy != NULL) setenv("NUMALLOC_POLICY", policy, 1);
        if (ms != 0) {
            access_from("watch");
            setenv("NUMALLOC_PROFILE_FILE", PROFILE, 1);
            setenv("NUMALLOC_ACCESS_COST", "100", 1);
        }
        snprintf(time, sizeof time, "%u", ms);
        execl(program, program, "load", order, time, (char *)NULL);
        _exit(125);
    }
    close(out[1]);
    FILE *said = fdopen(out[0], "r");
    REQUIRE(said != NULL);
    result_t r = {0};
    int got =
        fscanf(said, "%lf %lf %lf %lf", &r.bytes, &r.near_bytes, &r.accesses, &r.near_accesses);
    fclose(said);
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0 && got == 4);
    check_say("%s, %s: %.1f %% of %.0f million accesses near, %.2f of %.2f MiB near\n", what, order,
              100 * r.near_accesses / r.accesses, r.accesses / 1e6, r.near_bytes / MIB,
              r.bytes / MIB);
    return r;
}

/* False: there are too few samples for rules. */
static bool write_policy(void) {
    char command[9000], line[1024];
    snprintf(command, sizeof command, "%s policy --only place --near %d%% -o " POLICY " " PROFILE,
             getenv("TIERS_DUMP"), NEAR);
    REQUIRE(system(command) == 0);
    FILE *from = fopen(POLICY, "r");
    REQUIRE(from != NULL);
    unsigned near = 0, far = 0;
    bool few = false;
    while (fgets(line, sizeof line, from) != NULL) {
        check_say("%s", line);
        near += strstr(line, ": place=near, control=off") != NULL;
        far += strstr(line, ": place=far, control=off") != NULL;
        few |= strstr(line, "independent samples,") != NULL;
    }
    fclose(from);
    if (few) return false;
    CHECK_MSG(near >= 5 && far >= 3, "%u near rules and %u far ones", near, far);
    return true;
}

static double per_cent_near(const result_t *r) {
    return 100 * r->near_accesses / r->accesses;
}

static void judge_ruled(const char *what, const char *order) {
    result_t r = run_load(what, order, 0, POLICY);
    CHECK_MSG(per_cent_near(&r) >= MOST, "%.1f %% of the accesses are near under the policy",
              per_cent_near(&r));
    CHECK_MSG(r.near_bytes <= r.bytes * NEAR / 100 + ROUNDED,
              "%.2f MiB are near under the policy, which may have %d %% of %.2f MiB",
              r.near_bytes / MIB, NEAR, r.bytes / MIB);
}

int main(int argc, char **argv) {
    check_begin();
    lab_begin(1);
    bool far = false;
    while (first < lab_nodes && (lab_node[first].cpu < 0 || !lab_node[first].memory))
        first++;
    for (int i = 0; i < lab_nodes; i++)
        far |= lab_node[i].memory && lab_node[i].cpu < 0;
    if (argc == 4) {
        lab_pin(first);
        return load(argv[2], (unsigned)strtoul(argv[3], NULL, 10));
    }
    REQUIRE(getenv("TRUTH_LIB") != NULL && getenv("TIERS_DUMP") != NULL);
    if (!far) check_skip("no node has memory and no processors");
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    REQUIRE(length > 0);
    program[length] = 0;
    lab_no_balancing();
    set_huge_pages(false);

    static const char *const orders[] = {"cold first", "by turns"};
    for (size_t i = 0; i < NA_COUNT(orders); i++) {
        result_t r = run_load("without a policy", orders[i], 0, NULL);
        CHECK_MSG(per_cent_near(&r) < FEW, "%.1f %% of the accesses are near without a policy",
                  per_cent_near(&r));
    }
    (void)run_load("profile", orders[0], SAMPLED_MS, NULL);
    if (!write_policy()) check_skip("too few samples on this machine");
    for (size_t i = 0; i < NA_COUNT(orders); i++)
        judge_ruled("policy", orders[i]);
    set_huge_pages(true);
    judge_ruled("policy, huge pages", orders[0]);
    return lab_status(check_status());
}
