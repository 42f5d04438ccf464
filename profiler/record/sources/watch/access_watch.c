/* access_watch.c - source "watch": hardware watchpoints on random words, for short times.
 *
 * The run is cut into rounds of `interval`. Somewhere in each, at a moment drawn uniformly, two
 * words of the heap (access_watch_draw.c) are watched in all threads: each word by two of the four
 * debug registers, one for writes and one for any access, so that reads and writes are told apart
 * (a write makes both fire at once; QEMU's emulation reports the first of the two only, which is
 * why that for writes comes first). Every access to the word stops its thread in the kernel, which
 * writes a sample into memory that it shares: no signal, nothing that the program or a debugger
 * would notice, but that no debug register is left for another.
 *
 * A hit costs its thread some microseconds, thousands of times what the access takes, and getting
 * a CPU costs more than usual, too. A thread's window is therefore measured in the time that the
 * thread would have had unwatched: hits count while (time since the beginning - what the thread is
 * late by, access_watch_late.c) <= length, and the window stays open until all threads have come so
 * far, or a thread has had MOST hits: then the window is censored. How long a word is watched goes
 * by what became of it, or of its like, earlier: until there is a hit, and not so long that there
 * are many.
 *
 * Each thread's window begins when its registers are on, all at one moment: they are a group, whose
 * leader is switched on last. Switching takes as long as it takes to interrupt the thread's CPU, or
 * to go there (access_watch_near.h), so the threads begin one after the other, and one that never
 * pauses may have had MOST hits before the recorder knows that it began. Its window begins with the
 * first of them.
 *
 * What is spent on hits and on arming is kept under a share of the time (access_cost, 3 % unless
 * the user says otherwise): after a round that cost more, the next interval is longer. Lengths and
 * intervals are known before anything in them is drawn, so that weights stay unbiased. Intervals
 * are of uneven length, or else they would keep step with a program that does things every 10 ms,
 * and see the same part of what it does for long: their middle is watched more often than their
 * ends.
 *
 * Between windows, where an interval has the time left, come probes (access_watch_lines.h): of two
 * words of one line, to see which threads use them at one time. They make no samples, and count as
 * cost. A clock (access_watch_scout.h) tells which words are worth a look.
 *
 * perf's signal on a watchpoint (sigtrap) is not used: it would come to the program's own handlers
 * and into its system calls. */
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <time.h>

#include "profiler/record/sources/access_chain.h"
#include "profiler/record/sources/watch/access_watch_draw.h"
#include "profiler/record/sources/watch/access_watch_events.h"
#include "profiler/record/sources/watch/access_watch_late.h"
#include "profiler/record/sources/watch/access_watch_lines.h"
#include "profiler/record/sources/watch/access_watch_near.h"
#include "profiler/record/sources/watch/access_watch_scout.h"
#include "profiler/record/sources/watch/access_watch_trap.h"

#define WORDS        NA_WATCH_WORDS
#define EACH         NA_WATCH_EACH
#define MOST         32u
#define SPARE        8u /* more records of writes: none of them is to be missed while there is room */
#define REGISTERS    NA_WATCH_REGISTERS
#define LEADER       NA_WATCH_LEADER
#define FIRST_WATCH  NA_WATCH_FIRST
#define CLOCK        NA_WATCH_CLOCK
#define SCOUTS_BYTES (64u * NA_SCOUT_BYTES)
#define HIT_WORDS    ((uint32_t)sizeof(na_perf_hit_t) / 8)
#define SWITCH_BYTES 8000u
#define FIRST        UINT64_C(2000000)  /* ns: length of the first window of a stratum */
#define SHORTEST     UINT64_C(200000)   /* ns */
#define INTERVAL     UINT64_C(20000000) /* ns, unless the user says */
#define EARLY        UINT64_C(5000000)  /* ns: the first ones, so that a short run is seen, too */
/* Hits slow a thread down by so many times at most: what they cost is known on average only, and
 * where one cost less, nothing or less might be left of the time that the thread had itself. */
#define MOST_SLOWED 8
#define PROBE       UINT64_C(2000000) /* ns: length of a probe, at least, and */
#define LATE_PROBES 3u                /* rounds; 1 where threads were seen to share a line */
#define PROBE_MOST  UINT64_C(8000000)
#define MOST_MISSED 8u                  /* intervals */
#define LONG_ROUND  4u                  /* of those that a round usually takes */
#define AHEAD       UINT64_C(200000000) /* ns that looks at lines may cost beyond the limit, in all */
#define LOOK_SHARE  64u /* listing the spans takes at most one part in so many of the time */

typedef struct hit {
    uint64_t time, ip;
    uint32_t tid;
    uint64_t spent; /* ns that watching had cost its thread until then */
    uint16_t cpu;
    uint16_t target;
    uint32_t stack; /* of its call chain; 0: none */
    uint8_t word;
    bool write;
    bool paired; /* both registers of the word have said so */
} hit_t;

static na_perf_plan_t watch_plan, watch_plan_without; /* the latter: no call chains */
static struct {
    uint64_t interval, base_interval;
    uint64_t mean_interval; /* of the next one: the base, or less at first */
    uint64_t ahead;         /* ns of AHEAD that are left */
    uint64_t stands_for;    /* time of the run: the interval, and what was missed before it */
    uint64_t begins;        /* of the current interval */
    uint64_t look_at;
    uint64_t closed;     /* of the window: when taking the registers away began */
    uint64_t paid;       /* for hits in this round, by the busiest thread */
    uint64_t own_before; /* CPU time of this thread at the end of the last round */
    uint32_t round;
    uint32_t probed; /* the last round with a probe */
    uint32_t unarmed;
    bool have_spans;
    bool lacks_threads;             /* some were closed, and are to be opened again */
    bool chains;                    /* hits have call chains */
    bool refills;                   /* events that spent their budget can be given more */
    uint64_t length[NA_DRAW_SLOTS]; /* of the next window; 0: FIRST */
} w;

enum { HITS = NA_PERF_TARGETS * WORDS * MOST };
static hit_t *hits; /* HITS of them, from the first start on; kept */
static uint32_t hit_count;
static uint32_t hits_of[NA_PERF_TARGETS][WORDS]; /* of a target in this window */
static hit_t *latest[NA_PERF_TARGETS][WORDS];    /* of these; NULL: there is none */
/* When the window of a target begins, and what watching had cost it by then. */
static struct beginning { uint64_t time, spent; } beginning[NA_PERF_TARGETS][WORDS];
static uint32_t counted[NA_PERF_TARGETS][WORDS]; /* hits of a target in its window */
/* Of a target that had MOST hits before its time was over: when that was, in its own time. */
static uint64_t cut_at[NA_PERF_TARGETS][WORDS];

/* ---- the records ---- */

static uint32_t event_of(const na_perf_target_t *t, uint64_t id) {
    for (uint32_t i = 0; i < t->events; i++)
        if (t->id[i] == id) return i;
    return UINT32_MAX;
}

/* What follows the header of a switch. */
typedef struct switched {
    uint32_t pid, tid;
    uint64_t time;
} switched_t;

/* A block, or a variable that can be written: no constants, and no stacks. */
static bool is_data(uintptr_t address) {
    const uint32_t data = NA_NPROF_MAPPING_ELF | NA_NPROF_MAPPING_WRITE;
    na_found_t found;
    na_access_config->find((const void *)address, &found);
    if (found.kind != NA_LOOKUP_FOREIGN) return found.kind == NA_LOOKUP_BLOCK;
    uint32_t id;
    na_lock(&na_access_store_lock);
    const na_nprof_access_mapping_t *m = na_amaps_find(address, &id);
    bool is = m != NULL && (m->flags & data) == data;
    na_unlock(&na_access_store_lock);
    return is;
}

/* A word that a thread works on. Blocks' words are known from now on, as if drawn and hit. */
static void scout(const na_perf_hit_t *at, const uint64_t *words, uint32_t count) {
    na_scout_word_t found = na_scout_take(at->ip, at->tid, words, count);
    if (found.address == 0) return;
    if (found.again) na_draw_suspect(found.address);
    na_line_seen_t seen = {.threads = 1, .thread = at->tid, .written = found.written};
    if (found.shared && is_data(found.address))
        na_lines_met(found.address, &seen, found.words, 0, at->time);
}

/* A write is told by both registers of its word: two records of its thread with one ip, no other of
 * the word between them. (Not by their times: a hypervisor may pause the thread between the two.
 * Nor are they taken at one time: the first may be when the second is not yet there.) */
static void take_hit(na_perf_target_t *t, const struct perf_event_header *header,
                     const uint64_t *words, uint32_t count) {
    uint32_t target = (uint32_t)(t - na_perf_target);
    if (header->type == PERF_RECORD_SWITCH) {
        switched_t b;
        if (count * 8 < sizeof b) return;
        __builtin_memcpy(&b, words, sizeof b);
        if ((header->misc & PERF_RECORD_MISC_SWITCH_OUT) == 0) na_late_woken(target, b.time);
        return;
    }
    na_perf_hit_t b;
    if (count * 8 < sizeof b) return;
    __builtin_memcpy(&b, words, sizeof b);
    uint32_t event = event_of(t, b.id);
    na_near_seen(target, b.cpu);
    if (event == CLOCK) scout(&b, words + HIT_WORDS, count - HIT_WORDS);
    if (event < FIRST_WATCH || event >= CLOCK) return;
    if (t->budget[event] != 0) t->budget[event]--;
    uint32_t watch = event - FIRST_WATCH;
    uint8_t word = (uint8_t)(watch / EACH);
    bool write = watch % EACH == 0;
    hit_t hit = {b.time, b.ip, b.tid, 0, (uint16_t)b.cpu, (uint16_t)target, 0, word, write, false};
    /* The event for any access has the call chain. */
    if (!write && w.chains)
        hit.stack = na_access_batch_of(words + HIT_WORDS, count - HIT_WORDS, true);
    hit_t *half = latest[target][word];
    if (half != NULL && half->tid == b.tid && half->ip == b.ip && !half->paired &&
        half->write != write) {
        if (!half->write) na_late_hit(target, b.time, na_late_cost.hit[1] - na_late_cost.hit[0]);
        half->write = half->paired = true;
        if (hit.stack != 0) half->stack = hit.stack;
        return;
    }
    /* Enough. From here on one of the two events may have spent its budget, and the other tells but
     * half of it. */
    if (hits_of[target][word] == MOST) return;
    hit.spent = na_late_spent(target);
    latest[target][word] = &hits[hit_count];
    hits[hit_count++] = hit;
    hits_of[target][word]++;
    na_late_hit(target, b.time, na_late_cost.hit[write]);
}

/* ---- arming ---- */

static uint32_t budget_of(uint32_t watch) {
    return watch % EACH == 0 ? MOST + SPARE : MOST;
}

/* None counts until its target's leader is on. */
static void set_watches(na_perf_target_t *t, const na_line_range_t *ranges) {
    for (uint32_t k = 0; k < REGISTERS; k++) {
        uint32_t event = FIRST_WATCH + k, add = budget_of(k) - t->budget[event];
        struct perf_event_attr attr = watch_plan.attr[event];
        attr.bp_addr = ranges[k / EACH].address;
        attr.bp_len = ranges[k / EACH].length;
        t->budget[event] += add; /* the others are left from before */
        na_sys3(SYS_ioctl, t->fd[event], PERF_EVENT_IOC_MODIFY_ATTRIBUTES, (long)&attr);
        na_sys3(SYS_ioctl, t->fd[event], PERF_EVENT_IOC_REFRESH, (long)add);
    }
}

static void begin_target(uint32_t i) {
    na_sys3(SYS_ioctl, na_perf_target[i].fd[LEADER], PERF_EVENT_IOC_ENABLE, 0);
    uint64_t now = na_access_mono();
    na_late_begin(i, now);
    for (uint32_t k = 0; k < WORDS; k++)
        beginning[i][k] = (struct beginning){now, 0};
}

/* All begin as near to each other as can be: at the end, unless the recorder goes to each. */
static void arm(const na_line_range_t *ranges) {
    bool goes = na_near_begin();
    for (uint32_t i = 0; i < na_perf_count; i++) {
        na_perf_target_t *t = &na_perf_target[i];
        if (t->events == 0) continue;
        na_near_go(i, t->tid);
        set_watches(t, ranges);
        if (goes) begin_target(i);
        na_near_done();
    }
    for (uint32_t i = 0; i < na_perf_count && !goes; i++)
        if (na_perf_target[i].events != 0) begin_target(i);
    na_near_end();
}

static void disarm(void) {
    bool goes = na_near_begin();
    for (uint32_t i = 0; i < na_perf_count && !goes; i++)
        if (na_perf_target[i].events != 0)
            na_sys3(SYS_ioctl, na_perf_target[i].fd[LEADER], PERF_EVENT_IOC_DISABLE, 0);
    for (uint32_t i = 0; i < na_perf_count; i++) {
        na_perf_target_t *t = &na_perf_target[i];
        if (t->events == 0) continue;
        na_near_go(i, t->tid);
        if (goes) na_sys3(SYS_ioctl, t->fd[LEADER], PERF_EVENT_IOC_DISABLE, 0);
        for (uint32_t k = FIRST_WATCH; k < CLOCK; k++)
            na_sys3(SYS_ioctl, t->fd[k], PERF_EVENT_IOC_DISABLE, 0);
        na_near_done();
    }
    na_near_end();
}

/* An event that has used up its budget counts nothing any more on some kernels, also when it is
 * given more (na_perf_refills), and one that was throttled may not: a new one takes its place. */
static void renew(void) {
    for (uint32_t i = 0; i < na_perf_count; i++) {
        na_perf_target_t *t = &na_perf_target[i];
        bool spent = false;
        for (uint32_t k = FIRST_WATCH; k < CLOCK; k++)
            if (t->budget[k] == 0) spent = true;
        if (t->events == 0 || !(t->throttled || (spent && !w.refills))) continue;
        na_near_meet(t->tid);
        na_perf_close(t);
        na_near_met();
        w.lacks_threads = true;
    }
}

static void drain_targets(void) {
    for (uint32_t i = 0; i < na_perf_count; i++)
        if (na_perf_target[i].events != 0) na_perf_drain(&na_perf_target[i], take_hit);
}

/* The memory for the rings may be too much for what the system lets a user lock
 * (kernel.perf_event_mlock_kb and ulimit -l): call chains are given up first. */
static void meet_watched_threads(void) {
    long error = 0;
    w.lacks_threads = false;
    na_trap_look();
    w.unarmed = na_perf_scan(&watch_plan, take_hit, &error);
    if (w.unarmed != 0 && error == -EPERM && w.chains) {
        na_perf_close_all();
        watch_plan = watch_plan_without;
        w.chains = false;
        w.unarmed = na_perf_scan(&watch_plan, take_hit, NULL);
    }
}

/* ---- a window ---- */

/* Keeps the window open until every thread has had its time. */
static void hold_open(uint64_t opened, uint64_t length) {
    uint64_t until = opened + length;
    for (;;) {
        if (!na_access_sleep(until)) break;
        drain_targets();
        uint64_t most = 0;
        for (uint32_t i = 0; i < na_perf_count; i++) {
            bool over = hits_of[i][0] >= MOST || hits_of[i][1] >= MOST;
            if (!over && na_late_now(i) > most) most = na_late_now(i);
        }
        uint64_t wanted = opened + length + most;
        if (wanted <= until) break;
        until = wanted;
    }
}

/* ---- what a window becomes ---- */

/* Time of the window as its thread had it, without the hits. */
static int64_t own_time(const hit_t *hit) {
    const struct beginning *from = &beginning[hit->target][hit->word];
    return (int64_t)(hit->time - from->time) - (int64_t)(hit->spent - from->spent) -
           (int64_t)na_late_cost.entry;
}

static bool begun(const hit_t *hit) {
    return hit->time > beginning[hit->target][hit->word].time + na_late_cost.entry;
}

/* A hit is in the window if its thread's own time is. (And not of the moment in which one register
 * is taken away, and the other is still there: a window that the profile's end cuts off.) */
static bool is_hit_counted(const hit_t *hit, uint64_t length) {
    return begun(hit) && hit->time <= w.closed && own_time(hit) <= (int64_t)length;
}

/* A target's window begins when its leader was on, as far as the recorder knows: what came before
 * cost time, and is not in it. One that had most of its hits before has its window from its first
 * hit on, which is not in it either. (That such a window begins with an access matters little: what
 * has so many in so short a time has them all the time, or in bursts longer than this.) */
static void find_beginnings(void) {
    static uint32_t after[NA_PERF_TARGETS][WORDS];
    __builtin_memset(after, 0, na_perf_count * sizeof after[0]);
    for (uint32_t i = 0; i < na_perf_count; i++)
        for (uint32_t k = 0; k < WORDS; k++)
            beginning[i][k].spent = na_late_spent(i) - na_late_now(i);
    for (uint32_t i = 0; i < hit_count; i++)
        after[hits[i].target][hits[i].word] += begun(&hits[i]);
    for (uint32_t i = hit_count; i-- > 0;) { /* to the first one */
        uint32_t target = hits[i].target, word = hits[i].word;
        if (hits_of[target][word] < MOST || after[target][word] >= MOST / 2) continue;
        beginning[target][word] =
            (struct beginning){hits[i].time - na_late_cost.entry, hits[i].spent};
    }
}

/* Counts each target's hits of a word, and finds those that had MOST too early; true: there are
 * some. */
static bool find_cuts(uint32_t word, uint64_t length) {
    bool any = false;
    for (uint32_t i = 0; i < na_perf_count; i++) {
        cut_at[i][word] = hits_of[i][word] >= MOST ? 1 : 0;
        counted[i][word] = 0;
    }
    for (uint32_t i = 0; i < hit_count; i++) {
        const hit_t *hit = &hits[i];
        if (hit->word != word) continue;
        counted[hit->target][word] += is_hit_counted(hit, length);
        if (cut_at[hit->target][word] == 0) continue;
        int64_t own = own_time(hit); /* of the last one, in the end */
        int64_t least = (int64_t)(hit->time - beginning[hit->target][word].time) / MOST_SLOWED;
        if (own < least) own = least;
        cut_at[hit->target][word] = own > (int64_t)length ? 0 : (uint64_t)(own > 1 ? own : 1);
    }
    for (uint32_t i = 0; i < na_perf_count; i++)
        if (cut_at[i][word] != 0) any = true;
    return any;
}

/* How long a hit's target was watched. Of one that was cut off at its last hit: hits less one, by
 * the time to the last. */
static double time_of(const hit_t *hit, uint64_t length) {
    uint64_t cut = cut_at[hit->target][hit->word];
    uint32_t count = counted[hit->target][hit->word];
    return cut == 0 || count < 2 ? (double)length : (double)cut * count / (count - 1);
}

static void store_hits(const na_draw_t *draw, uint32_t word, uint32_t id, uint64_t length) {
    double all = draw->inverse / WORDS * (double)w.stands_for;
    for (uint32_t i = 0; i < hit_count; i++) {
        const hit_t *hit = &hits[i];
        if (hit->word != word || !is_hit_counted(hit, length)) continue;
        na_access_store_sample(&(na_access_raw_t){
            .mono_ns = hit->time,
            .ip = hit->ip,
            .address = draw->address,
            .weight = all / time_of(hit, length),
            .tid = hit->tid,
            .window = id,
            .stack = hit->stack,
            .latency = -1,
            .cpu = hit->cpu,
            .home = NA_NPROF_NO_NODE,
            .op = hit->write ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ,
        });
    }
}

static void write_window(const na_draw_t *draw, uint32_t word, uint32_t object, uint64_t opened,
                         uint64_t length) {
    uint32_t threads = 0, id, count = 0;
    for (uint32_t i = 0; i < na_perf_count; i++)
        threads += na_perf_target[i].events != 0;
    bool cut = find_cuts(word, length);
    for (uint32_t i = 0; i < hit_count; i++)
        count += hits[i].word == word && is_hit_counted(&hits[i], length);
    na_lock(&na_access_store_lock);
    na_nprof_access_window_t *window = na_access_store_window(&id);
    if (window != NULL) {
        *window = (na_nprof_access_window_t){
            .start_ns = na_access_since(opened),
            .watched_ns = length,
            .address = draw->address,
            .object = object,
            .hits = count,
            .threads = threads,
            .length = 8,
            .flags = (uint16_t)((cut ? NA_NPROF_WINDOW_CENSORED : 0) |
                                (object == 0 ? NA_NPROF_WINDOW_EMPTY : 0) |
                                (w.unarmed != 0 ? NA_NPROF_WINDOW_INCOMPLETE : 0)),
            .round = w.round,
            .inverse = draw->inverse / WORDS,
            .interval_ns = w.stands_for,
        };
        na_access_store_window_done();
        na_access_entry->windows++;
    } else {
        na_access_entry->lost += count;
    }
    na_unlock(&na_access_store_lock);
    if (window != NULL) store_hits(draw, word, id, length);
}

/* The next window of what a word was drawn from: shorter after many hits, longer after none. */
static void adapt(uint32_t slot, uint64_t length, uint32_t most) {
    if (most >= MOST / 4)
        length /= 2;
    else if (most == 0)
        length += length / 16;
    uint64_t longest = w.base_interval / 10 * 7;
    if (length < SHORTEST) length = SHORTEST;
    if (length > longest) length = longest;
    w.length[slot] = length;
}

/* By the hits in the window: arming many threads may take longer than that, and has its own. */
static void learn_from_draw(const na_draw_t *draw, uint32_t word, uint64_t length) {
    static uint32_t in_it[NA_PERF_TARGETS];
    uint32_t most = 0, all = 0;
    for (uint32_t i = 0; i < na_perf_count; i++)
        in_it[i] = 0;
    for (uint32_t i = 0; i < hit_count; i++)
        if (hits[i].word == word && is_hit_counted(&hits[i], length)) in_it[hits[i].target]++;
    for (uint32_t i = 0; i < na_perf_count; i++) {
        uint32_t hit = cut_at[i][word] != 0 ? MOST : in_it[i];
        if (hit > most) most = hit;
        all += in_it[i];
    }
    adapt(draw->slot, length, most);
    /* A word that is known from now on has a length of its own. */
    uint32_t fresh = na_draw_learn(draw, (double)all / (double)length);
    if (fresh != UINT32_MAX) adapt(fresh, length, most);
}

static uint64_t own_cpu_time(void) {
    struct timespec t = {0};
    na_sys2(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static uint64_t next_interval(void) {
    return w.mean_interval / 4 * 3 + na_draw_below(w.mean_interval / 2);
}

static void objects_at(const na_line_range_t *ranges, uint64_t when, uint32_t *objects) {
    na_lock(&na_access_store_lock);
    na_access_clock_tick();
    for (uint32_t k = 0; k < WORDS; k++)
        objects[k] = na_access_store_object_at(ranges[k].address, when);
    na_unlock(&na_access_store_lock);
}

/* Watches, and has the hits. Returns when it began. */
static uint64_t watch_ranges(const na_line_range_t *ranges, uint64_t length, uint32_t *objects) {
    uint64_t lost = na_access_entry->lost;
    drain_targets(); /* the clock's samples since the last time; if there was no room for all, be it
                        so */
    na_access_entry->lost = lost;
    hit_count = 0;
    __builtin_memset(hits_of, 0, na_perf_count * sizeof hits_of[0]);
    __builtin_memset(latest, 0, na_perf_count * sizeof latest[0]);
    na_deaths_watch(ranges[0].address, ranges[1].address);
    objects_at(ranges, na_access_mono(), objects);
    na_late_open();
    arm(ranges);
    uint64_t opened = na_access_mono();
    hold_open(opened, length);
    w.closed = na_access_mono();
    disarm();
    drain_targets();
    find_beginnings();
    return opened;
}

/* What the busiest thread pays for being watched. */
static uint64_t paid(void) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < na_perf_count; i++)
        if (na_perf_target[i].events != 0 && na_late_spent(i) > most) most = na_late_spent(i);
    return most;
}

/* Who used a range while it was watched; returns the hits. */
static uint32_t seen_of(uint32_t word, uint64_t length, na_line_seen_t *seen) {
    uint32_t count = 0;
    *seen = (na_line_seen_t){0};
    for (uint32_t i = 0; i < hit_count; i++) {
        const hit_t *hit = &hits[i];
        if (hit->word != word || !is_hit_counted(hit, length)) continue;
        count++;
        if (hit->write) seen->written = true;
        if (seen->threads != 0 && seen->thread == hit->tid) continue;
        seen->threads = seen->threads == 0 ? 1 : 2;
        seen->thread = hit->tid;
    }
    return count;
}

/* Is this word's line to be looked at? */
static void meet_line(uintptr_t word, uint32_t k, uint64_t opened, uint64_t length) {
    na_line_seen_t seen;
    uint32_t count = seen_of(k, length, &seen);
    uint64_t over = length;
    for (uint32_t i = 0; i < na_perf_count; i++)
        if (cut_at[i][k] != 0 && cut_at[i][k] < over) over = cut_at[i][k];
    if (count > 1) na_lines_met(word, &seen, 0, (double)over / count, opened);
}

static void window(const na_draw_t *draws, const uint64_t *length) {
    uint32_t objects[WORDS];
    na_line_range_t ranges[WORDS];
    for (uint32_t k = 0; k < WORDS; k++)
        ranges[k] = (na_line_range_t){draws[k].address, 8};
    uint64_t longest = length[0] > length[1] ? length[0] : length[1];
    uint64_t opened = watch_ranges(ranges, longest, objects);
    for (uint32_t k = 0; k < WORDS; k++) {
        write_window(&draws[k], k, objects[k], opened, length[k]);
        learn_from_draw(&draws[k], k, length[k]);
        if (na_perf_count > 1) meet_line(draws[k].address, k, opened, length[k]);
    }
    na_access_store_flush();
    na_deaths_watch(0, 0);
    w.paid = paid();
    renew();
}

/* ---- probes ---- */

static void add_use(na_nprof_access_probe_t *to, const hit_t *hit, uint64_t over) {
    uint32_t thread = na_athreads_id(hit->tid, na_access_since(hit->time)), i = 0;
    while (i < to->count && (to->uses[i].thread != thread || to->uses[i].range != hit->word))
        i++;
    if (i == NA_NPROF_PROBE_USES) return;
    if (i == to->count)
        to->uses[to->count++] = (na_nprof_probe_use_t){
            .thread = thread, .watched_ns = (uint32_t)over, .range = hit->word};
    (*(hit->write ? &to->uses[i].writes : &to->uses[i].reads))++;
}

/* Nothing is kept where a block came or went meanwhile. */
static void write_probe(const na_line_range_t *ranges, const uint32_t *objects, uint64_t opened,
                        uint64_t length) {
    uint32_t now[WORDS];
    objects_at(ranges, na_access_mono(), now);
    if (now[0] != objects[0] || now[1] != objects[1]) return;
    for (uint32_t k = 0; k < WORDS; k++)
        find_cuts(k, length);
    na_lock(&na_access_store_lock);
    na_nprof_access_probe_t *to = na_access_store_probe();
    if (to != NULL) {
        *to = (na_nprof_access_probe_t){
            .start_ns = na_access_since(opened),
            .watched_ns = length,
            .address = {ranges[0].address, ranges[1].address},
            .object = {objects[0], objects[1]},
            .length = {(uint8_t)ranges[0].length, (uint8_t)ranges[1].length},
        };
        if (objects[0] == 0) na_amaps_find(ranges[0].address, &to->mapping);
        for (uint32_t i = 0; i < na_perf_count; i++)
            to->threads += na_perf_target[i].events != 0;
        for (uint32_t i = 0; i < hit_count; i++) {
            const hit_t *hit = &hits[i];
            if (is_hit_counted(hit, length)) add_use(to, hit, (uint64_t)time_of(hit, length));
        }
        na_access_store_probe_done();
    }
    na_unlock(&na_access_store_lock);
}

/* Looks at a line, if one is due and it can be over before `ends`. True: did. */
static bool look_at_line(uint64_t ends) {
    uint64_t now = na_access_mono(), length = ends > now ? (ends - now) / 4 * 3 : 0;
    na_line_range_t ranges[WORDS];
    na_line_seen_t seen[WORDS];
    uint32_t objects[WORDS];
    if (length > PROBE_MOST) length = PROBE_MOST;
    /* A recorder that is always late, on a full machine, takes it from the next round. */
    uint32_t late = na_lines_open() ? 1 : LATE_PROBES;
    if (length < PROBE && w.round >= w.probed + late) length = PROBE_MOST / 2;
    if (na_perf_count < 2 || length < PROBE || !na_lines_next(now, ranges)) return false;
    w.probed = w.round;
    if (w.lacks_threads) meet_watched_threads(); /* those that use most of all */
    uint64_t opened = watch_ranges(ranges, length, objects);
    write_probe(ranges, objects, opened, length);
    for (uint32_t k = 0; k < WORDS; k++)
        seen_of(k, length, &seen[k]);
    na_lines_learn(seen);
    na_deaths_watch(0, 0);
    w.paid += paid();
    renew();
    return true;
}

/* Where arming is slow, rounds are far between, and what a line has to say would take a minute. So
 * more looks than one have part in a long round, from its beginning on, and what they cost is spent
 * ahead: once. */
static void probe_ahead(uint64_t ends) {
    while (w.ahead != 0 && w.interval >= LONG_ROUND * w.base_interval) {
        uint64_t paid_before = w.paid, own = own_cpu_time();
        if (!look_at_line(ends)) return;
        uint64_t spent = own_cpu_time() - own;
        w.own_before += spent;
        spent += w.paid - paid_before;
        w.paid = paid_before;
        w.ahead -= spent < w.ahead ? spent : w.ahead;
    }
}

/* What hits cost, and the recorder's own time: among it that of arming and disarming, which
 * interrupts threads for as long. Not the time by the clock: a recorder that waits for a CPU costs
 * nobody anything. */
static void settle_costs(void) {
    uint64_t own = own_cpu_time(), spent = w.paid + own - w.own_before;
    w.paid = 0;
    w.own_before = own;
    uint64_t least = spent * 100 / na_access_config->access_cost;
    w.mean_interval += w.mean_interval / 32;
    if (w.mean_interval > w.base_interval) w.mean_interval = w.base_interval;
    w.interval = next_interval();
    if (w.interval < least) w.interval = least;
}

/* ---- the source ---- */

/* All that may come in a window: what each event may tell, and some switches. */
static uint32_t ring_for(uint32_t stack) {
    uint32_t record = (uint32_t)(sizeof(struct perf_event_header) + sizeof(na_perf_hit_t));
    uint32_t told = budget_of(0) * record + budget_of(1) * (record + na_access_batch_bytes(stack));
    uint32_t need = WORDS * told + SWITCH_BYTES + SCOUTS_BYTES;
    uint32_t bytes = (uint32_t)na_os_page;
    while (bytes < need)
        bytes *= 2;
    return bytes;
}

/* Where a watchpoint tells of an access once it is done. aarch64's tells before it is, and what the
 * kernel does to get past it was never tried with this. */
#if defined(__x86_64__)
enum { TELLS_AFTERWARDS = true };
#else
enum { TELLS_AFTERWARDS = false };
#endif

static bool start_watch(uint64_t period, char why[NA_WHY]) {
    if (!TELLS_AFTERWARDS) {
        na_access_why(why, "watchpoints are used on x86-64 only", NULL);
        return false;
    }
    __builtin_memset(&w, 0, sizeof w);
    na_trap_start();
    na_perf_plan_t registers;
    na_watch_events((uintptr_t)&w, &watch_plan, &registers);
    watch_plan.ring_bytes = ring_for(0);
    watch_plan.may = na_trap_may_watch;
    watch_plan.before = na_near_meet;
    watch_plan.after = na_near_met;
    watch_plan_without = watch_plan;
    watch_plan.ring_bytes = ring_for(na_access_config->access_stack);
    w.chains = na_access_config->access_stack != 0;
    for (uint32_t k = FIRST_WATCH + 1; k < CLOCK; k += EACH)
        na_access_batch_ask(&watch_plan.attr[k], na_access_config->access_stack);
    long error = na_perf_try(&watch_plan);
    registers.ring_bytes = watch_plan.ring_bytes;
    for (uint32_t k = 0; k < REGISTERS; k++)
        registers.attr[k] = watch_plan.attr[FIRST_WATCH + k];
    registers.attr[0].context_switch = 1;
    if (error == 0 && !na_late_measure(&registers, EACH)) {
        na_access_why(why,
                      "watchpoints can be set but never fire: a hypervisor keeps the debug "
                      "registers to itself",
                      NULL);
        return false;
    }
    if (hits == NULL) hits = na_os_map(na_align_up(HITS * sizeof *hits, na_os_page));
    if (error == 0 && (hits == NULL || !na_draw_start(na_rec_ticks()))) error = -ENOMEM;
    if (error != 0) {
        na_perf_refusal(error, why);
        return false;
    }
    na_deaths_keep_watched_only();
    na_lines_start();
    na_near_start();
    w.refills = na_perf_refills(&registers, EACH - 1);
    na_scout_start();
    if (w.chains) na_access_entry->flags |= NA_NPROF_ACCESS_STACK;
    w.base_interval = period != 0 ? period * 1000 : INTERVAL;
    if (w.base_interval < 2 * FIRST) w.base_interval = 2 * FIRST;
    w.mean_interval = w.base_interval < EARLY ? w.base_interval : EARLY;
    w.interval = next_interval();
    meet_watched_threads(); /* once, as all of this: no round pays for it */
    w.begins = na_access_mono();
    w.own_before = own_cpu_time();
    w.ahead = AHEAD;
    na_access_entry->period = w.base_interval;
    return true;
}

static uint64_t step_watch(void) {
    uint64_t now = na_access_mono();
    /* Where it was late, on a machine with too much to do, this round stands for the time that was
     * missed as well; but not for the hour that the process was stopped. */
    w.stands_for = w.interval;
    if (w.begins + w.interval < now) {
        uint64_t missed = now - w.begins, most = MOST_MISSED * w.base_interval;
        w.stands_for += missed < most ? missed : most;
        w.begins = now;
    }
    if (now >= w.look_at) {
        uint64_t before = own_cpu_time(); /* on a full machine less than by the clock */
        w.have_spans = na_draw_look(na_access_config) != 0;
        w.look_at = na_access_mono() + (own_cpu_time() - before) * LOOK_SHARE;
    }
    na_draw_t draws[WORDS];
    uint64_t length[WORDS], longest = 0;
    bool drawn = w.have_spans;
    for (uint32_t k = 0; k < WORDS && drawn; k++) {
        drawn = na_draw(&draws[k]);
        uint64_t *known = &w.length[draws[k].slot];
        if (*known == 0) *known = FIRST;
        length[k] = *known < w.interval / 10 * 7 ? *known : w.interval / 10 * 7;
        if (length[k] > longest) longest = length[k];
    }
    uint64_t ends = w.begins + w.interval, opens = w.begins + na_draw_below(w.interval - longest);
    if (w.ahead != 0 && opens > w.begins + LONG_ROUND * w.base_interval) {
        if (!na_access_sleep(w.begins + w.base_interval)) return 0;
        meet_watched_threads();
        drain_targets(); /* where threads are at work now */
        probe_ahead(opens);
    }
    if (!na_access_sleep(opens)) return 0;
    w.round++;
    meet_watched_threads();
    if (w.unarmed > na_access_entry->unarmed) na_access_entry->unarmed = w.unarmed;
    if (drawn) window(draws, length);
    if (look_at_line(ends)) probe_ahead(ends);
    settle_costs();
    w.begins = ends;
    return ends;
}

static void stop_watch(void) {
    na_perf_close_all();
    na_deaths_watch(0, 0);
}

na_access_source_t na_access_watch(void) {
    return (na_access_source_t){.kind = NA_NPROF_SOURCE_WATCH,
                                .unit = NA_NPROF_UNIT_ACCESSES,
                                .flags = NA_NPROF_ACCESS_OP | NA_NPROF_ACCESS_SKID,
                                .choice = NA_ACCESS_WATCH,
                                .automatic = true,
                                .rounds = true,
                                .start = start_watch,
                                .step = step_watch,
                                .stop = stop_watch,
                                .forget = na_perf_forget};
}
