/* record.c - access profiles of a program whose accesses are known (load.c), recorded by the
 * library as users do it, and read through the C API.
 *
 * usage: record LOAD TEST [SOURCE]
 *   watch SOURCE        every sample names the right block, thread, instruction, read or write
 *   vague SOURCE        the same on a processor that does not always know the instruction: all
 *                       else is right
 *   update SOURCE       what one instruction reads and writes is said to be both
 *   reuse SOURCE        blocks that take turns at one address are told apart
 *   renew SOURCE        of blocks of one site that follow each other at one address, faster than
 *                       samples are looked at, the site is known
 *   gone SOURCE         blocks that end while nobody watches them are found to be gone
 *   pool SOURCE         blocks of a pool that lie in one heap block are told apart, and from it
 *   kinds SOURCE        page faults: each kind of memory is named, each page once, and none is
 *                       the library's own, of its threads or tables; with
 *                       NUMALLOC_ACCESS_FRAMES in the environment each has its call chain
 *   sim                 made-up samples of the kernel module arrive through the same way
 *   fork                a forked child says that it has none
 *   refused WHY         the first source of SOURCE=auto that is used, or none
 *   seccomp             in a seccomp filter like Docker's
 *   paranoid            as nobody under perf_event_paranoid 3, 2, 1, 0, and as root (for root, on
 *                       a machine to spare)
 * The environment: NA_TEST_LIB is libnumalloc.so; NA_KMOD, where it is set, the kernel module. */
#include <errno.h>
#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "access/recorded_run.h"
#include "support/access_source.h"
#include "support/check.h"

/* ---- watch ---- */

static bool watched_enough(const run_t *r, numalloc_profile_t *p) {
    unsigned in[2] = {0, 0};
    for (size_t i = 0; i < numalloc_profile_accesses(p); i++) {
        numalloc_profile_access_t a;
        REQUIRE(numalloc_profile_access(p, i, &a, sizeof a) == 0);
        if (a.object == 0) continue;
        in[0] += run_within(run_named(r, "written"), a.address);
        in[1] += run_within(run_named(r, "read"), a.address);
    }
    return in[0] >= 40 && in[1] >= 40;
}

/* Innermost first. Where `whole`, what follows is the thread's beginning; else the stack ends in
 * the last of them or one more like it. */
static void check_chain(numalloc_profile_t *p, uint32_t stack, const char *const *names,
                        size_t count, bool whole) {
    numalloc_profile_frame_t f[64];
    size_t depth = numalloc_profile_stack_frames(p, stack, 0, f, sizeof f[0], 64);
    CHECK_MSG(depth >= count, "%zu frames of %zu", depth, count);
    for (size_t i = 0; i < count && i < depth; i++)
        CHECK_MSG(strcmp(f[i].function, names[i]) == 0, "frame %zu is %s, not %s", i, f[i].function,
                  names[i]);
    CHECK(numalloc_profile_stack_truncated(p, stack) == !whole);
    for (size_t i = count; i < depth; i++)
        CHECK_MSG(whole != (strcmp(f[i].function, names[count - 1]) == 0), "frame %zu is %s", i,
                  f[i].function);
}

static void test_watch(const char *source, bool vague) {
    run_t r;
    run_start(&r, "team", source, (condition_t){0});
    run_until_line(&r, "ready");
    run_wait_for(&r, watched_enough);
    run_end(&r);
    numalloc_profile_t *p = must_open(r.file);
    char text[256];
    CHECK_MSG(numalloc_profile_damage(p, 0, text, sizeof text) == -1, "%s", text);
    numalloc_profile_access_source_t s = source_used(p);
    /* Watchpoints are only on blocks, and come with the stack; others see whatever is accessed. */
    bool chosen = strcmp(source, "watch") == 0;
    CHECK(s.used && s.knows_op && (s.knows_stack || !chosen));
    CHECK_MSG(strstr(s.name, source) != NULL, "by %s, not %s", s.name, source);
    if (chosen) CHECK(s.unresolved == 0 && s.impossible == 0);
    CHECK(s.stored == numalloc_profile_accesses(p));
    const named_t *written = run_named(&r, "written"), *read_block = run_named(&r, "read");
    uint32_t sites[2] = {0, 0};
    unsigned counted[2] = {0, 0}, elsewhere = 0, others = 0;
    double weight[2] = {0, 0};
    uint64_t last = 0;
    for (size_t i = 0; i < numalloc_profile_accesses(p); i++) {
        numalloc_profile_access_t a;
        REQUIRE(numalloc_profile_access(p, i, &a, sizeof a) == 0);
        CHECK(a.weight > 0);
        if (chosen) CHECK(a.ns >= last && a.stack != 0);
        last = a.ns;
        numalloc_profile_access_thread_t by;
        REQUIRE(numalloc_profile_access_thread(p, a.thread, &by, sizeof by) == 0);
        if (by.tid != run_named(&r, "writer")->at && by.tid != run_named(&r, "reader")->at &&
            by.tid != (uint64_t)r.pid && others++ == 0)
            check_say("thread %u '%s', not the program's, at %lx of %lu\n", by.tid, by.name,
                      (unsigned long)a.ip, (unsigned long)a.ns);
        int which = run_within(written, a.address) ? 0 : run_within(read_block, a.address) ? 1 : -1;
        if (which < 0) continue;
        if (!chosen && by.tid == (uint64_t)r.pid) continue; /* it made the block, and cleared it */
        numalloc_profile_access_object_t o;
        REQUIRE(numalloc_profile_access_object(p, a.object, &o, sizeof o) == 0);
        CHECK(o.base == (which == 0 ? written : read_block)->at && o.size == (16u << 10));
        CHECK(o.birth_ns <= a.ns);
        if (sites[which] == 0) sites[which] = o.site;
        CHECK(o.site == sites[which]);
        numalloc_profile_access_thread_t t;
        REQUIRE(numalloc_profile_access_thread(p, a.thread, &t, sizeof t) == 0);
        CHECK_MSG(t.tid == run_named(&r, which == 0 ? "writer" : "reader")->at, "tid %u", t.tid);
        CHECK_MSG(strcmp(t.name, which == 0 ? "writer" : "reader") == 0, "'%s'", t.name);
        CHECK_MSG(a.op == (which == 0 ? 2 : 1), "op %d", a.op);
        elsewhere += !run_within(run_named(&r, which == 0 ? "write_all" : "read_all"), a.ip);
        CHECK(a.cpu >= 0 && a.cpu_node >= 0);
        static const char *const writes[] = {"write_all", "write_by", "write_by", "write_by",
                                             "writer"};
        static const char *const reads[] = {"read_all", "read_by", "read_by", "read_by"};
        if (chosen && which == 0)
            check_chain(p, a.stack, writes, 5, true);
        else if (chosen)
            check_chain(p, a.stack, reads, 4, false);
        counted[which]++;
        weight[which] += a.weight;
    }
    CHECK(sites[0] != 0 && sites[1] != 0 && sites[0] != sites[1]);
    CHECK(counted[0] >= 40 && counted[1] >= 40);
    check_say("%u with another instruction, %u by threads that are not the program's; %lu "
              "lost, %lu filtered, %lu stored\n",
              elsewhere, others, (unsigned long)s.lost, (unsigned long)s.filtered,
              (unsigned long)s.stored);
    CHECK(others == 0); /* the library's own threads are left out */
    CHECK(s.lost <= (s.stored + s.filtered) / 2);
    CHECK(vague || elsewhere == 0);
    uint32_t hits = 0;
    for (uint32_t id = 1; id <= numalloc_profile_access_windows(p); id++) {
        numalloc_profile_access_window_t w;
        REQUIRE(numalloc_profile_access_window(p, id, &w, sizeof w) == 0);
        CHECK(w.inverse >= 0.5 && w.watched_ns > 0 && w.interval_ns > w.watched_ns);
        CHECK(w.threads <= 3);
        hits += w.hits;
    }
    if (chosen) CHECK(numalloc_profile_access_windows(p) == s.windows && hits == s.stored);
    check_say("%u and %u hits, estimates %.3g writes and %.3g reads\n", counted[0], counted[1],
              weight[0], weight[1]);
    numalloc_profile_close(p);
    run_clean(&r);
}

/* ---- update ---- */

static bool updated_enough(const run_t *r, numalloc_profile_t *p) {
    unsigned count = 0;
    for (size_t i = 0; i < numalloc_profile_accesses(p); i++) {
        numalloc_profile_access_t a;
        REQUIRE(numalloc_profile_access(p, i, &a, sizeof a) == 0);
        count += run_within(run_named(r, "updated"), a.address);
    }
    return count >= 100;
}

static void test_update(const char *source) {
    run_t r;
    run_start(&r, "update", source, (condition_t){0});
    run_until_line(&r, "ready");
    run_wait_for(&r, updated_enough);
    run_end(&r);
    numalloc_profile_t *p = must_open(r.file);
    unsigned of[4] = {0};
    for (size_t i = 0; i < numalloc_profile_accesses(p); i++) {
        numalloc_profile_access_t a;
        REQUIRE(numalloc_profile_access(p, i, &a, sizeof a) == 0);
        if (run_within(run_named(&r, "updated"), a.address) &&
            run_within(run_named(&r, "update_all"), a.ip))
            of[a.op & 3]++;
    }
    CHECK_MSG(of[3] >= 50 && of[0] + of[1] + of[2] == 0, "%u both, %u reads, %u writes, %u unknown",
              of[3], of[1], of[2], of[0]);
    numalloc_profile_close(p);
    run_clean(&r);
}

/* ---- reuse ---- */

enum { REUSED = 1024 }; /* bytes of each block */

/* Which of two functions, that may lie right behind each other, an instruction is in; -1: neither.
 */
static int user_of(const run_t *r, uint64_t ip) {
    const named_t *one = run_named(r, "use_one"), *two = run_named(r, "use_two");
    bool in_one = run_within(one, ip), in_two = run_within(two, ip);
    if (in_one && in_two) return one->at > two->at ? 0 : 1;
    return in_one ? 0 : in_two ? 1 : -1;
}

static unsigned samples_by(const run_t *r, numalloc_profile_t *p, int which) {
    unsigned count = 0;
    for (size_t i = 0; i < numalloc_profile_accesses(p); i++) {
        numalloc_profile_access_t a;
        REQUIRE(numalloc_profile_access(p, i, &a, sizeof a) == 0);
        count += user_of(r, a.ip) == which;
    }
    return count;
}

static bool reused_enough(const run_t *r, numalloc_profile_t *p) {
    return samples_by(r, p, 0) >= 500 && samples_by(r, p, 1) >= 500;
}

static bool renewed_enough(const run_t *r, numalloc_profile_t *p) {
    return samples_by(r, p, 0) >= 500;
}

/* Windows with samples of a place that the instruction does not use. A hypervisor may leave the
 * word of the window before in a debug register until the thread gets a CPU again: of some 77,000
 * windows here in one, which said hits of the old word of the new one. */
typedef struct strays {
    uint32_t window, count; /* the latest */
} strays_t;

static void add_stray(strays_t *s, uint32_t window) {
    s->count += s->count == 0 || s->window != window;
    s->window = window;
}

static uint32_t most_strays(void) {
    static char text[8192];
    FILE *f = fopen("/proc/cpuinfo", "r");
    REQUIRE(f != NULL);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return strstr(text, " hypervisor") != NULL ? 2 : 0;
}

/* Of two sites that take turns; or of one alone, without a pause: then what is between two lives
 * that are remembered is known by its site, but for 1 to 2 %, the more the busier the machine. (Of
 * two sites none as a rule; on a full machine 8 of 1,020 once.) */
static void test_reuse(const char *source, bool alone) {
    run_t r;
    run_start(&r, alone ? "renew" : "reuse", source, (condition_t){0});
    run_until_line(&r, "ready");
    run_wait_for(&r, alone ? renewed_enough : reused_enough);
    run_end(&r);
    numalloc_profile_t *p = must_open(r.file);
    uint32_t site[2] = {0, 0}, of[2] = {0, 0}, unresolved = 0, most = alone ? 40 : 10;
    strays_t strays = {0, 0};
    for (size_t i = 0; i < numalloc_profile_accesses(p); i++) {
        numalloc_profile_access_t a;
        REQUIRE(numalloc_profile_access(p, i, &a, sizeof a) == 0);
        int which = user_of(&r, a.ip);
        if (which < 0) continue;
        of[which]++;
        numalloc_profile_access_object_t o;
        if (numalloc_profile_access_object(p, a.object, &o, sizeof o) != 0) {
            if (a.window != 0 && !alone)
                add_stray(&strays, a.window);
            else
                unresolved++;
            continue;
        }
        if (a.window != 0 && o.size != REUSED) {
            add_stray(&strays, a.window);
            continue;
        }
        if (site[which] == 0) site[which] = o.site;
        CHECK_MSG(o.site == site[which], "a block of site %u, not %u", o.site, site[which]);
        CHECK(a.address - o.base < REUSED);
        CHECK(o.birth_ns <= a.ns + 100000);
        CHECK_MSG(o.death_ns >= a.ns - 100000, "dead at %lu, accessed at %lu",
                  (unsigned long)o.death_ns, (unsigned long)a.ns);
    }
    CHECK(site[0] != 0 && site[0] != site[1] && (alone || site[1] != 0));
    CHECK_MSG(unresolved * 1000 <= (of[0] + of[1]) * most, "%u of %u unresolved", unresolved,
              of[0] + of[1]);
    CHECK_MSG(strays.count <= most_strays(), "%u windows are astray", strays.count);
    check_say("%u and %u hits, %u unresolved, %u strays\n", of[0], of[1], unresolved, strays.count);
    numalloc_profile_close(p);
    run_clean(&r);
}

/* ---- gone ---- */

static bool used_one(const run_t *r, numalloc_profile_t *p) {
    return samples_by(r, p, 0) >= 200;
}

static bool used_two(const run_t *r, numalloc_profile_t *p) {
    return samples_by(r, p, 1) >= 1;
}

/* The site, size and times of what a function was seen to use; false: not this sample. */
static bool used_by(const run_t *r, numalloc_profile_t *p, size_t sample, int which,
                    numalloc_profile_access_object_t *o) {
    numalloc_profile_access_t a;
    REQUIRE(numalloc_profile_access(p, sample, &a, sizeof a) == 0);
    return user_of(r, a.ip) == which &&
           numalloc_profile_access_object(p, a.object, o, sizeof *o) == 0;
}

static void test_gone(const char *source) {
    run_t r;
    run_start(&r, "gone", source, (condition_t){0});
    run_until_line(&r, "made");
    run_wait_for(&r, used_one);
    REQUIRE(write(r.in, "\n", 1) == 1);
    run_until_line(&r, "ready");
    run_wait_for(&r, used_two);
    run_end(&r);
    numalloc_profile_t *p = must_open(r.file);
    numalloc_profile_access_object_t o;
    uint64_t ended_after = 0, seen = 0;
    for (size_t i = 0; i < numalloc_profile_accesses(p); i++)
        if (used_by(&r, p, i, 1, &o)) {
            CHECK_MSG(o.death_ns == UINT64_MAX, "ended after %lu ns, not at all",
                      (unsigned long)o.death_ns);
            ended_after = o.birth_ns;
        }
    REQUIRE(ended_after != 0);
    for (size_t i = 0; i < numalloc_profile_accesses(p); i++)
        if (used_by(&r, p, i, 0, &o)) {
            seen |= UINT64_C(1) << (o.base >> 10 & 63);
            CHECK_MSG(o.death_ns != UINT64_MAX && o.death_ns + 100000 >= ended_after,
                      "ended after %lu ns, not %lu", (unsigned long)o.death_ns,
                      (unsigned long)ended_after);
        }
    check_say("%d blocks have ended\n", __builtin_popcountll(seen));
    CHECK(__builtin_popcountll(seen) > 4); /* more than were watched at that moment */
    numalloc_profile_close(p);
    run_clean(&r);
}

/* ---- pool ---- */

static bool pooled_enough(const run_t *r, numalloc_profile_t *p) {
    unsigned in[2] = {0, 0};
    for (size_t i = 0; i < numalloc_profile_accesses(p); i++) {
        numalloc_profile_access_t a;
        REQUIRE(numalloc_profile_access(p, i, &a, sizeof a) == 0);
        int which = run_within(run_named(r, "chunk"), a.address) ? user_of(r, a.ip) : -1;
        if (which >= 0) in[which]++;
    }
    return in[0] >= 100 && in[1] >= 100;
}

/* What the functions touch is always a live block of the pool, of the right site; what the pool
 * itself does (its list lies in free cells) is done to the heap block around it. */
static void test_pool(const char *source) {
    run_t r;
    run_start(&r, "pool", source, (condition_t){0});
    run_until_line(&r, "ready");
    run_wait_for(&r, pooled_enough);
    run_end(&r);
    numalloc_profile_t *p = must_open(r.file);
    const named_t *chunk = run_named(&r, "chunk");
    uint32_t site[2] = {0, 0}, of[2] = {0, 0}, unresolved = 0, around = 0, pool = 0;
    for (size_t i = 0; i < numalloc_profile_accesses(p); i++) {
        numalloc_profile_access_t a;
        REQUIRE(numalloc_profile_access(p, i, &a, sizeof a) == 0);
        if (!run_within(chunk, a.address)) continue;
        int which = user_of(&r, a.ip);
        numalloc_profile_access_object_t o;
        if (numalloc_profile_access_object(p, a.object, &o, sizeof o) != 0) {
            unresolved++;
            continue;
        }
        if (which < 0) {
            around += o.pool == 0;
            continue;
        }
        of[which]++;
        CHECK_MSG(strcmp(a.target, "pool") == 0, "in the pool, but called %s", a.target);
        if (site[which] == 0) site[which] = o.site;
        if (pool == 0) pool = o.pool;
        CHECK_MSG(o.site == site[which], "a block of site %u, not %u", o.site, site[which]);
        CHECK(o.pool != 0 && o.pool == pool && o.size == 256);
        CHECK((o.base - chunk->at) % 256 == 0 && a.address - o.base < 256);
        CHECK(o.birth_ns <= a.ns + 100000);
        CHECK_MSG(o.death_ns >= a.ns - 100000, "dead at %lu, accessed at %lu",
                  (unsigned long)o.death_ns, (unsigned long)a.ns);
    }
    CHECK(site[0] != 0 && site[1] != 0 && site[0] != site[1]);
    CHECK(of[0] >= 100 && of[1] >= 100);
    CHECK_MSG(unresolved * 1000 <= of[0] + of[1] + 999, "%u of %u unresolved", unresolved,
              of[0] + of[1]);
    check_say("%u and %u hits in blocks, %u around, %u unresolved\n", of[0], of[1], around,
              unresolved);
    numalloc_profile_close(p);
    run_clean(&r);
}

/* ---- kinds ---- */

/* A sample of the thread: its counter is open. */
static bool has_thread(const run_t *r, numalloc_profile_t *p) {
    for (uint32_t id = 1; id <= numalloc_profile_access_threads(p); id++) {
        numalloc_profile_access_thread_t t;
        if (numalloc_profile_access_thread(p, id, &t, sizeof t) == 0 &&
            t.tid == run_named(r, "toucher")->at && t.samples > 0)
            return true;
    }
    return false;
}

static const char *const kinds[] = {"heap", "anonymous", "file", "data", "stack"};

/* The stack is touched last. */
static bool has_kinds(const run_t *r, numalloc_profile_t *p) {
    for (size_t i = 0; i < numalloc_profile_accesses(p); i++) {
        numalloc_profile_access_t a;
        REQUIRE(numalloc_profile_access(p, i, &a, sizeof a) == 0);
        if (run_within(run_named(r, "stack"), a.address)) return true;
    }
    return false;
}

/* The chain of a fault, by frame pointers: what called is known, as far as is allowed. What called
 * the thread's function is the C library, whose frame pointers are none. False: it is a fault of
 * another function, as the recorder's own where the stack was not as deep yet. */
static bool check_frames(numalloc_profile_t *p, uint32_t stack, bool on_stack, size_t most) {
    static const char *const names[] = {"touch", "touch_stack", "toucher"};
    numalloc_profile_frame_t f[64];
    size_t depth = numalloc_profile_stack_frames(p, stack, 0, f, sizeof f[0], 64), at = 1;
    if (depth == 0 || strcmp(f[0].function, names[0]) != 0) return false;
    for (size_t k = on_stack ? 1 : 2; k < 3 && at < most; k++, at++)
        CHECK_MSG(at < depth && strcmp(f[at].function, names[k]) == 0, "frame %zu of %zu is %s", at,
                  depth, at < depth ? f[at].function : "none");
    CHECK_MSG(depth <= most, "%zu frames", depth);
    if (depth == most) CHECK(numalloc_profile_stack_truncated(p, stack));
    return true;
}

static void test_kinds(const char *source) {
    const char *frames = getenv("NUMALLOC_ACCESS_FRAMES");
    run_t r;
    run_start(&r, "kinds", source, (condition_t){0});
    run_until_line(&r, "made");
    run_wait_for(&r, has_thread);
    REQUIRE(write(r.in, "\n", 1) == 1);
    run_until_line(&r, "ready");
    run_wait_for(&r, has_kinds);
    run_end(&r);
    numalloc_profile_t *p = must_open(r.file);
    CHECK(source_of(p, source).knows_stack == (frames != NULL));
    unsigned found[5] = {0}, checked[5] = {0};
    for (size_t i = 0; i < numalloc_profile_accesses(p); i++) {
        numalloc_profile_access_t a;
        REQUIRE(numalloc_profile_access(p, i, &a, sizeof a) == 0);
        CHECK(strcmp(a.target, "own") != 0);
        numalloc_profile_access_thread_t by;
        REQUIRE(numalloc_profile_access_thread(p, a.thread, &by, sizeof by) == 0);
        CHECK_MSG(by.tid == (uint64_t)r.pid || by.tid == run_named(&r, "toucher")->at,
                  "thread %u '%s' is not the program's", by.tid, by.name);
        for (unsigned k = 0; k < 5; k++) {
            if (!run_within(run_named(&r, kinds[k]), a.address)) continue;
            found[k]++;
            CHECK_MSG(strcmp(a.target, kinds[k]) == 0, "%s is called %s", kinds[k], a.target);
            numalloc_profile_access_thread_t thread;
            REQUIRE(numalloc_profile_access_thread(p, a.thread, &thread, sizeof thread) == 0);
            CHECK(thread.tid == run_named(&r, "toucher")->at);
            if (frames != NULL)
                checked[k] += check_frames(p, a.stack, k == 4, strtoul(frames, NULL, 10));
            if (k == 0) continue;
            numalloc_profile_access_mapping_t m;
            REQUIRE(numalloc_profile_access_mapping(p, a.mapping, &m, sizeof m) == 0);
            CHECK(m.start <= a.address && a.address < m.end);
        }
    }
    /* The kernel's faulting around may take several at a time. */
    check_say("faults: heap %u, anonymous %u, file %u, data %u, stack %u\n", found[0], found[1],
              found[2], found[3], found[4]);
    for (unsigned k = 0; k < 5; k++)
        CHECK_MSG(found[k] >= 1 && found[k] <= 65, "%s: %u faults", kinds[k], found[k]);
    for (unsigned k = 0; frames != NULL && k < 5; k++)
        CHECK_MSG(checked[k] >= 1, "%s: no chain", kinds[k]);
    numalloc_profile_close(p);
    run_clean(&r);
}

/* ---- what does not work, and is said ---- */

static void expect_refusal(run_t *r, const char *name, const char *why) {
    char text[2048];
    numalloc_profile_t *p = must_open(r->file);
    numalloc_profile_access_source_t s = source_of(p, name);
    CHECK_MSG(!s.used && s.why != NULL && strstr(s.why, why) != NULL, "%s: '%s'", name,
              s.why != NULL ? s.why : "not considered");
    numalloc_profile_close(p);
    run_said(r, text, sizeof text);
    CHECK_MSG(strstr(text, "numalloc: no accesses") == text, "'%s'", text);
    CHECK_MSG(strstr(text, why) != NULL, "'%s'", text);
    CHECK_MSG(strchr(text, '\n') == text + strlen(text) - 1, "more than a line: '%s'", text);
}

static bool has_source(const run_t *r, numalloc_profile_t *p) {
    (void)r;
    numalloc_profile_access_source_t s;
    for (uint32_t id = 1; id <= numalloc_profile_access_sources(p); id++)
        if (numalloc_profile_access_source(p, id, &s, sizeof s) == 0 && s.used) return true;
    return false;
}

/* One case of the permission matrix: `source`, asked for by a user, is used, or the reason given is
 * `why`. A used one is said in the file only. */
static void expect_of(const char *title, const char *asked, const char *source, condition_t as,
                      const char *why) {
    run_t r;
    char text[2048];
    run_start(&r, "kinds", asked, as);
    run_until_line(&r, "made");
    if (why == NULL) run_wait_for(&r, has_source);
    REQUIRE(write(r.in, "\n", 1) == 1);
    run_until_line(&r, "ready");
    run_end(&r);
    run_said(&r, text, sizeof text);
    check_say("%s, access=%s\n    %s", title, asked, text);
    if (why != NULL) {
        expect_refusal(&r, source, why);
    } else {
        numalloc_profile_t *p = must_open(r.file);
        CHECK_MSG(source_of(p, source).used, "%s is not used", source);
        if (strcmp(asked, "auto") == 0) /* what would have been better, and why it was not taken */
            CHECK(source_of(p, "kmod-ibs").why != NULL && source_of(p, "kmod-ibs").why[0] != 0);
        numalloc_profile_close(p);
        CHECK_MSG(text[0] == 0, "said although all is well: '%s'", text);
    }
    run_clean(&r);
}

static void test_seccomp(void) {
    static const char why[] = "perf_event_open is not permitted: a container's seccomp filter";
    const char *user = getuid() == 0 ? "root in a container" : "a user in a container";
    expect_of(user, "auto", "watch", (condition_t){.contained = true}, why);
    expect_of(user, "fault", "fault", (condition_t){.contained = true}, why);
}

/* Where there is none, one line says so. */
static void test_spe(void) {
#if defined(__aarch64__)
    const char *why = "the processor has no SPE";
    if (access("/sys/bus/event_source/devices/arm_spe_0/type", R_OK) == 0) why = NULL;
#else
    const char *why = "the processor is not Arm's";
#endif
    expect_of("SPE", "spe", "spe", (condition_t){0}, why);
}

static void test_paranoid(void) {
    int fd = open("/proc/sys/kernel/perf_event_paranoid", O_RDWR);
    REQUIRE(fd >= 0);
    for (char level = '0'; level <= '3'; level++) {
        char title[64];
        REQUIRE(pwrite(fd, &level, 1, 0) == 1);
        const char *why = level == '3' ? "kernel.perf_event_paranoid is 3" : NULL;
        snprintf(title, sizeof title, "perf_event_paranoid %c, nobody", level);
        expect_of(title, "auto", "watch", (condition_t){.uid = 65534}, why);
        expect_of(title, "fault", "fault", (condition_t){.uid = 65534}, why);
        if (level != '3') continue;
        expect_of("perf_event_paranoid 3, root", "auto", "watch", (condition_t){0}, NULL);
        expect_of("perf_event_paranoid 3, root", "fault", "fault", (condition_t){0}, NULL);
    }
    close(fd);
}

static void test_fork(void) {
    run_t r;
    run_start(&r, "fork", "watch", (condition_t){0});
    run_until_line(&r, "ready");
    run_end(&r);
    char name[128];
    snprintf(name, sizeof name, "%s.1", r.file);
    numalloc_profile_t *p = must_open(name);
    numalloc_profile_access_source_t s = source_of(p, "watch");
    CHECK(!s.used && s.why != NULL && strstr(s.why, "forked child") != NULL);
    CHECK(numalloc_profile_accesses(p) == 0);
    numalloc_profile_close(p);
    p = must_open(r.file);
    CHECK(source_of(p, "watch").unit != NULL);
    numalloc_profile_close(p);
    run_clean(&r);
}

/* ---- the module's made-up samples ---- */

static bool simulated_enough(const run_t *r, numalloc_profile_t *p) {
    (void)r;
    unsigned latencies = 0, on_heap = 0;
    for (size_t i = 0; i < numalloc_profile_accesses(p); i++) {
        numalloc_profile_access_t a;
        REQUIRE(numalloc_profile_access(p, i, &a, sizeof a) == 0);
        latencies += a.latency > 0;
        on_heap += a.object != 0;
    }
    return numalloc_profile_accesses(p) >= 100 && latencies > 0 && on_heap > 0;
}

static void test_sim(void) {
    run_t r;
    run_start(&r, "team", "kmod-sim", (condition_t){0});
    run_until_line(&r, "ready");
    run_wait_for(&r, simulated_enough);
    run_end(&r);
    numalloc_profile_t *p = must_open(r.file);
    numalloc_profile_access_source_t s = source_of(p, "kmod-sim");
    CHECK(s.used && s.made_up && s.knows_latency && s.stored == numalloc_profile_accesses(p));
    unsigned latencies = 0, homes = 0, heap = 0;
    for (size_t i = 0; i < numalloc_profile_accesses(p); i++) {
        numalloc_profile_access_t a;
        REQUIRE(numalloc_profile_access(p, i, &a, sizeof a) == 0);
        latencies += a.latency > 0;
        homes += a.home_node >= 0;
        if (a.object != 0) {
            heap++;
            CHECK(a.home_node >= 0);
        }
        CHECK(a.cpu_node >= 0);
        CHECK(strcmp(a.target, "?") != 0);
    }
    CHECK(latencies > 0 && homes > 0 && heap > 0);
    check_say("%zu made-up samples: %u with a latency, %u with a home node, %u on blocks\n",
              numalloc_profile_accesses(p), latencies, homes, heap);
    numalloc_profile_close(p);
    run_clean(&r);
}

static void load_module(void) {
    const char *module = getenv("NA_KMOD");
    if (module == NULL) return;
    int fd = open(module, O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    CHECK(syscall(SYS_finit_module, fd, "test_sources=1", 0) == 0 || errno == EEXIST);
    close(fd);
}

/* May this process have such an event of its own, and does it tell anything? Asked without the
 * library. */
static void need_perf(const char *test) {
    bool watch = strcmp(test, "watch") == 0 || strcmp(test, "reuse") == 0 ||
                 strcmp(test, "renew") == 0 || strcmp(test, "gone") == 0 ||
                 strcmp(test, "pool") == 0;
    if (!watch && strcmp(test, "kinds") != 0) return;
    static volatile uint64_t word;
    struct perf_event_attr attr = {.size = PERF_ATTR_SIZE_VER5,
                                   .type = watch ? PERF_TYPE_BREAKPOINT : PERF_TYPE_SOFTWARE,
                                   .sample_period = 1,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1,
                                   .disabled = 1};
    if (watch) {
        attr.bp_type = HW_BREAKPOINT_RW;
        attr.bp_addr = (uintptr_t)&word;
        attr.bp_len = HW_BREAKPOINT_LEN_8;
    } else {
        attr.config = PERF_COUNT_SW_PAGE_FAULTS;
    }
    long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    if (fd < 0) {
        check_say("skipped: perf_event_open: %s; as root: sysctl kernel.perf_event_paranoid=2\n",
                  strerror(errno));
        exit(CHECK_SKIP_STATUS);
    }
    uint64_t fired = 0;
    ioctl((int)fd, PERF_EVENT_IOC_ENABLE, 0);
    word = 1;
    bool told = read((int)fd, &fired, sizeof fired) == (ssize_t)sizeof fired && fired != 0;
    close((int)fd);
    if (watch && !told) {
        check_say("skipped: watchpoints can be set here, and never fire (a hypervisor)\n");
        exit(CHECK_SKIP_STATUS);
    }
}

int main(int argc, char **argv) {
    REQUIRE(argc >= 3 && getenv("NA_TEST_LIB") != NULL);
    run_program = argv[1];
    const char *test = argv[2], *source = argc > 3 ? argv[3] : "";
    load_module();
    if (strcmp(source, "kmod-fault") != 0) need_perf(test);
    if (strcmp(test, "watch") == 0 || strcmp(test, "vague") == 0)
        test_watch(source, test[0] == 'v');
    else if (strcmp(test, "pool") == 0)
        test_pool(source);
    else if (strcmp(test, "update") == 0)
        test_update(source);
    else if (strcmp(test, "reuse") == 0 || strcmp(test, "renew") == 0)
        test_reuse(source, test[2] == 'n');
    else if (strcmp(test, "gone") == 0)
        test_gone(source);
    else if (strcmp(test, "kinds") == 0)
        test_kinds(source);
    else if (strcmp(test, "sim") == 0)
        test_sim();
    else if (strcmp(test, "fork") == 0)
        test_fork();
    else if (strcmp(test, "seccomp") == 0)
        test_seccomp();
    else if (strcmp(test, "spe") == 0)
        test_spe();
    else if (strcmp(test, "paranoid") == 0)
        test_paranoid();
    else
        return 2;
    return check_failures != 0;
}
