/* trace_replay.c - the blocks that live, and the figures of sites, event by event.
 *
 * Nearly all the time of a replay is spent waiting for memory: with a million blocks alive each
 * event's block is a miss in every cache. Events are therefore taken some dozens at a time, and
 * what they will touch is asked for (prefetch) before those in front of them are played.
 *
 * Blocks lie in a table of lines (of the cache), two to a line, found by address: in their home
 * line or, if that was full, in the next that was not. A line that was passed over says so
 * (PASSED): an event touches one line only, unless the block's own was ever full. A free closes the
 * gap behind it, so that the table never holds more than what lives; it is at most half full. (The
 * tools' index of numbers, containers/index.h, would be a second line for each event.) Sites lie in
 * one array of two lines each, with an index by stack id; a block knows its site.
 *
 * A realloc is one block, as the program sees it: what it gave counts from the moment at which what
 * it took does no more. Of the two events of one that moved its block the first therefore waits in
 * its thread's state for the second. (That the second comes is seen in the events taken already:
 * both have one stamp, so next to nothing can lie between them.)
 *
 * The peak is the largest sum of live bytes: a new one only raises a number (epoch), and a site
 * copies its figures the next time that it changes, as in mode sites; here each event does so, and
 * the peak is exact. */
#include "profiler/analyze/blocks/trace_replay.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "profiler/containers/array.h"
#include "profiler/containers/index.h"

#define TOGETHER   16u /* events whose blocks are asked for at once, while as many are played */
#define RING       (2 * TOGETHER)
#define SITE_AHEAD 4u /* events between asking for a site and playing the event */
#define HUGE_PAGE  (UINT64_C(2) << 20)

/* Half a line. */
typedef struct block {
    uint64_t key;         /* address, and the thread in the upper 16 bits; 0: free place */
    uint64_t size, ticks; /* as in na_live_t */
    uint32_t slack;
    uint32_t site; /* in `sites`, and MARKED; PASSED belongs to the place, not to the block */
} block_t;
#define MARKED UINT32_C(0x80000000)
/* Of a line's first place: a block that belongs to this line or one before it lies behind it. Then
 * all lines from its home to there are full. */
#define PASSED UINT32_C(0x40000000)
#define LINE   2u /* places */

/* Two lines. Counts and sums as in na_nprof_cell_t; what is rare lies in the second. */
typedef struct site {
    uint64_t alloc_count, alloc_bytes, alloc_slack;
    uint64_t free_count, free_bytes, free_slack;
    uint64_t lifetime_sum;
    uint32_t epoch; /* of the figures at the peak */
    uint32_t stack;
    int64_t peak_bytes, peak_count;
    uint64_t local_peak;
    uint64_t size_min, size_max;
    uint64_t lifetime_min, lifetime_max;
    uint32_t last_block, before_block; /* block_id of the two allocated last; 0: none */
} site_t;

/* Figures that few sites have. */
typedef struct rare {
    uint64_t cross_thread, temporary;
    uint64_t growth_count, growth_bytes, growth_copied;
    uint64_t realloc_count, realloc_grow, realloc_shrink, realloc_copy;
    uint32_t aligned, align_mask;
} rare_t;

/* What was last seen of a thread. */
typedef struct thread {
    uint64_t block;   /* allocated last; 0: freed since, or none */
    uint64_t size;    /* of that one, */
    uint32_t site;    /* and its site */
    bool after_alloc; /* that was its last event */
    na_event_t waits; /* REALLOC: MOVED comes next; address 0: none */
    block_t leaving; /* MOVED was its last event, this its block, which still counts; key 0: none */
    uint64_t coming; /* and this the address of the one that comes */
} thread_t;

struct na_replay {
    na_budget_t *budget;
    na_events_t *events;
    na_event_t taken[RING]; /* a ring: events `at` to `end` are not played yet */
    uint64_t at, end;
    block_t *blocks;
    uint64_t mask, used; /* mask: places - 1, a power of two less one */
    uint64_t odd;        /* multiplier of the hashes: no file can know which addresses collide */
    site_t *sites;
    rare_t *rare;          /* of each site */
    na_index_t site_index; /* by stack id; its slots are the budget's */
    uint32_t site_count, site_room;
    thread_t *threads;
    uint32_t thread_room;
    uint32_t epoch;       /* of the peak */
    uint32_t final_epoch; /* that cells of a whole trace name as the peak's */
    unsigned age_shift;
    uint32_t marked; /* MARKED since na_replay_mark, else 0 */
    na_replay_totals_t totals;
    na_live_t found; /* what na_replay_find returns */
    uint64_t came;   /* address of the block that the last event made; 0: none */
    bool temporary;  /* it freed a temporary block */
    bool failed;
};

#define ADDRESS(key) ((key) & ((UINT64_C(1) << 48) - 1))

/* ---- memory ---- */

/* Zeros in whole pages, large ones where there are such: a table is hit all over. */
static void *map_zeros(uint64_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return NULL;
    if (bytes >= HUGE_PAGE) (void)madvise(at, bytes, MADV_HUGEPAGE);
    return at;
}

static void unmap(void *at, uint64_t bytes) {
    if (at != NULL) munmap(at, bytes);
}

/* ---- blocks ---- */

static uint32_t site_number(const block_t *b) {
    return b->site & ~(MARKED | PASSED);
}

/* The first place of a block's line. */
static uint64_t home_line(const na_replay_t *r, uint64_t address) {
    return (address >> 4) * r->odd >> 24 & r->mask & ~(uint64_t)(LINE - 1);
}

/* A block that lives; NULL: none begins there. */
static block_t *find_block(const na_replay_t *r, uint64_t address) {
    if (address == 0) return NULL;
    for (uint64_t i = home_line(r, address);; i = (i + LINE) & r->mask) {
        block_t *line = &r->blocks[i];
        for (unsigned k = 0; k < LINE; k++)
            if (ADDRESS(line[k].key) == address) return &line[k];
        if ((line->site & PASSED) == 0) return NULL;
    }
}

/* The place of a block, or the free one (key 0) that the caller must fill. The address is not 0. */
static block_t *block_place(const na_replay_t *r, uint64_t address) {
    for (uint64_t i = home_line(r, address);; i = (i + LINE) & r->mask) {
        block_t *line = &r->blocks[i];
        block_t *empty = NULL;
        for (unsigned k = LINE; k-- > 0;) {
            if (ADDRESS(line[k].key) == address) return &line[k];
            if (line[k].key == 0) empty = &line[k];
        }
        if (empty != NULL) return empty; /* nothing that belongs here lies behind it */
        line->site |= PASSED;
    }
}

static void put_in_place(block_t *place, block_t block) {
    block.site = (block.site & ~PASSED) | (place->site & PASSED);
    *place = block;
}

static bool grow_block_table(na_replay_t *r) {
    block_t *old = r->blocks;
    uint64_t old_room = old == NULL ? 0 : r->mask + 1;
    uint64_t room = old_room == 0 ? 4096 : old_room * 2;
    if (!na_budget_take(r->budget, room * sizeof *r->blocks)) return false;
    block_t *blocks = map_zeros(room * sizeof *blocks);
    if (blocks == NULL) {
        na_budget_give(r->budget, room * sizeof *blocks);
        return false;
    }
    r->blocks = blocks;
    r->mask = room - 1;
    for (uint64_t i = 0; i < old_room; i++)
        if (old[i].key != 0) put_in_place(block_place(r, ADDRESS(old[i].key)), old[i]);
    unmap(old, old_room * sizeof *old);
    na_budget_give(r->budget, old_room * sizeof *old);
    return true;
}

/* A block of line `i` that belongs to `line`, which lies before it, or to one before that. */
static block_t *strayed(const na_replay_t *r, uint64_t i, uint64_t line) {
    for (unsigned k = 0; k < LINE; k++) {
        block_t *b = &r->blocks[i + k];
        if (b->key != 0 &&
            ((i - home_line(r, ADDRESS(b->key))) & r->mask) >= ((i - line) & r->mask))
            return b;
    }
    return NULL;
}

static bool is_full(const block_t *line) {
    return line[0].key != 0 && line[1].key != 0;
}

/* Closes the gap: a block that had to pass over the line moves up, and so on. */
static void remove_from_table(na_replay_t *r, block_t *hole) {
    hole->key = 0;
    r->used--;
    uint64_t line = (uint64_t)(hole - r->blocks) & ~(uint64_t)(LINE - 1), i = line;
    while ((r->blocks[line].site & PASSED) != 0) {
        i = (i + LINE) & r->mask;
        bool end = !is_full(&r->blocks[i]) || (r->blocks[i].site & PASSED) == 0;
        block_t *b = strayed(r, i, line);
        if (b != NULL) {
            put_in_place(hole, *b);
            b->key = 0;
            hole = b;
            line = i;
        } else if (end) {
            r->blocks[line].site &= ~PASSED; /* nothing lies behind it any more */
        }
    }
}

static na_live_t live_of(const na_replay_t *r, const block_t *b) {
    return (na_live_t){.address = ADDRESS(b->key),
                       .size = b->size,
                       .ticks = b->ticks,
                       .slack = b->slack,
                       .stack = r->sites[site_number(b)].stack,
                       .thread = (uint32_t)(b->key >> 48),
                       .marked = (b->site & MARKED) != 0};
}

/* ---- sites ---- */

static uint64_t hash_of_stack(const na_replay_t *r, uint32_t stack) {
    return stack * r->odd >> 32;
}

/* Bytes of both arrays for so many sites. */
static uint64_t site_bytes(uint64_t room) {
    return room * (sizeof(site_t) + sizeof(rare_t));
}

static bool grow_sites(na_replay_t *r) {
    uint32_t room = r->site_room == 0 ? 512 : r->site_room * 2;
    if (room > UINT32_MAX / 4 || !na_budget_take(r->budget, site_bytes(room))) return false;
    site_t *sites = aligned_alloc(64, room * sizeof *sites);
    rare_t *rare = reallocarray(r->rare, room, sizeof *rare);
    if (rare != NULL) r->rare = rare;
    if (sites == NULL || rare == NULL) {
        free(sites);
        na_budget_give(r->budget, site_bytes(room));
        return false;
    }
    if (r->site_count != 0) memcpy(sites, r->sites, r->site_count * sizeof *sites);
    free(r->sites);
    na_budget_give(r->budget, site_bytes(r->site_room));
    r->sites = sites;
    r->site_room = room;
    return true;
}

/* The index of a stack's site; UINT32_MAX: out of memory. */
static uint32_t replayed_site(na_replay_t *r, uint32_t stack) {
    if (stack == NA_NPROF_NO_STACK) stack = NA_NPROF_ROOT;
    uint64_t hash = hash_of_stack(r, stack);
    na_probe_t probe = na_index_probe(&r->site_index, hash);
    while (na_index_next(&r->site_index, &probe))
        if (r->sites[probe.number].stack == stack) return probe.number;
    if (r->site_count == r->site_room && !grow_sites(r)) return UINT32_MAX;
    if (!na_budget_index_add(r->budget, &r->site_index, hash, r->site_count)) return UINT32_MAX;
    r->sites[r->site_count] = (site_t){
        .stack = stack, .size_min = UINT64_MAX, .lifetime_min = UINT64_MAX, .epoch = r->epoch};
    r->rare[r->site_count] = (rare_t){0};
    return r->site_count++;
}

/* Before the site changes: its figures at the latest peak. */
static void keep_site_peak(const na_replay_t *r, site_t *s) {
    if (s->epoch == r->epoch) return;
    s->peak_bytes = (int64_t)(s->alloc_bytes - s->free_bytes);
    s->peak_count = (int64_t)(s->alloc_count - s->free_count);
    s->epoch = r->epoch;
}

/* A thread has an index of 16 bits: more is damage, and shares the state of thread 0. */
static uint32_t thread_index(const na_event_t *event) {
    return event->thread <= UINT16_MAX ? event->thread : 0;
}

/* ---- events ---- */

static void count_replayed_free(na_replay_t *r, const block_t *b, const na_event_t *event) {
    site_t *s = &r->sites[site_number(b)];
    keep_site_peak(r, s);
    s->free_count++;
    s->free_bytes += b->size;
    s->free_slack += b->slack;
    uint64_t age = (event->ticks - b->ticks) >> r->age_shift;
    s->lifetime_sum += age;
    if (age < s->lifetime_min) s->lifetime_min = age;
    if (age > s->lifetime_max) s->lifetime_max = age;
    if (b->key >> 48 != event->thread || event->thread == 0) r->rare[site_number(b)].cross_thread++;
    r->totals.frees++;
    r->totals.live_blocks--;
    r->totals.live_bytes -= b->size;
}

static void count_replayed_alloc(na_replay_t *r, uint32_t site, const na_event_t *event) {
    site_t *s = &r->sites[site];
    keep_site_peak(r, s);
    s->alloc_count++;
    s->alloc_bytes += event->size;
    s->alloc_slack += event->slack;
    if (event->size < s->size_min) s->size_min = event->size;
    if (event->size > s->size_max) s->size_max = event->size;
    if (event->align > 4) { /* every block is aligned to 16 */
        rare_t *rare = &r->rare[site];
        if (rare->aligned != UINT32_MAX) rare->aligned++;
        rare->align_mask |= 1u << (event->align & 31);
    }
    uint64_t live = s->alloc_bytes - s->free_bytes;
    if ((int64_t)live > (int64_t)s->local_peak) s->local_peak = live;
    na_replay_totals_t *t = &r->totals;
    t->allocs++;
    t->live_blocks++;
    t->live_bytes += event->size;
}

/* After an allocation (the only moment at which there can be a new peak). */
static void look_for_peak(na_replay_t *r, const na_event_t *event) {
    na_replay_totals_t *t = &r->totals;
    if (t->live_bytes <= t->peak_bytes) return;
    t->peak_bytes = t->live_bytes;
    t->peak_blocks = t->live_blocks;
    t->peak_event = event->index;
    t->peak_ticks = event->ticks;
    r->epoch++;
}

static void count_replayed_realloc(na_replay_t *r, uint32_t site, uint64_t old_size,
                                   uint64_t new_size, bool copied) {
    rare_t *rare = &r->rare[site];
    rare->realloc_count++;
    if (new_size > old_size)
        rare->realloc_grow += new_size - old_size;
    else
        rare->realloc_shrink += old_size - new_size;
    if (copied) rare->realloc_copy += old_size < new_size ? old_size : new_size;
}

static uint32_t block_id(uint64_t address) {
    return (uint32_t)(address >> 4);
}

/* The thread's last event was to allocate at the same site: a container that copies itself into a
 * larger block, if this is the block that the site had before (nprof.h, growth_count). */
static void count_growth(na_replay_t *r, const thread_t *t, const block_t *old) {
    site_t *s = &r->sites[t->site];
    if (block_id(ADDRESS(old->key)) != s->before_block || t->size <= old->size) return;
    rare_t *rare = &r->rare[t->site];
    rare->growth_count++;
    rare->growth_bytes += t->size - old->size;
    rare->growth_copied += old->size;
    s->before_block = 0;
}

/* A block begins its life. freed: NULL where the caller does not want to know. */
static bool begin_block(na_replay_t *r, thread_t *t, const na_event_t *event, na_live_t *freed) {
    if (r->used * 2 > r->mask && !grow_block_table(r)) return false;
    uint32_t site = replayed_site(r, event->stack);
    if (site == UINT32_MAX) return false;
    block_t *b = block_place(r, event->address);
    bool resize = event->kind == NA_NPROF_EVENT_RESIZE;
    if (b->key != 0) {
        if (freed != NULL) *freed = live_of(r, b);
        if (!resize) r->totals.contradictions++;
        count_replayed_free(r, b, event);
        if (resize) count_replayed_realloc(r, site, b->size, event->size, false);
    } else {
        r->used++;
    }
    put_in_place(b, (block_t){.key = event->address | (uint64_t)thread_index(event) << 48,
                              .size = event->size,
                              .ticks = event->ticks,
                              .slack = event->slack,
                              .site = site | r->marked});
    count_replayed_alloc(r, site, event);
    look_for_peak(r, event);
    r->came = event->address;
    t->block = event->address;
    t->size = event->size;
    t->site = site;
    t->after_alloc = !resize;
    r->sites[site].before_block = r->sites[site].last_block;
    r->sites[site].last_block = block_id(event->address);
    return true;
}

/* What realloc took goes: its new block follows, or the thread did something else. */
static uint64_t leave_block(na_replay_t *r, thread_t *t, const na_event_t *event) {
    const block_t left = t->leaving;
    t->leaving.key = 0;
    count_replayed_free(r, &left, event);
    return left.size;
}

/* The thread's next event frees the block that this one replaces. */
static bool replaces(const na_replay_t *r, const na_event_t *event) {
    if (event->kind != NA_NPROF_EVENT_REALLOC) return false;
    for (uint64_t i = r->at; i < r->end; i++) {
        const na_event_t *next = &r->taken[i % RING];
        if (next->thread != event->thread) continue;
        return next->kind == NA_NPROF_EVENT_MOVED && !next->before &&
               next->moved_to == event->address && find_block(r, next->address) != NULL;
    }
    return false;
}

static bool play_alloc(na_replay_t *r, thread_t *t, const na_event_t *event, na_live_t *freed) {
    if (event->address == 0) { /* damage: nobody gets that */
        r->totals.contradictions++;
        return true;
    }
    if (replaces(r, event)) {
        t->waits = *event;
        return true;
    }
    bool comes =
        t->leaving.key != 0 && t->coming == event->address && event->kind == NA_NPROF_EVENT_REALLOC;
    uint64_t old_size = t->leaving.key != 0 ? leave_block(r, t, event) : 0;
    if (!begin_block(r, t, event, freed)) return false;
    if (!comes) return true;
    count_replayed_realloc(r, t->site, old_size, event->size, false);
    t->after_alloc = false;
    return true;
}

static bool play_free(na_replay_t *r, thread_t *t, const na_event_t *event, na_live_t *freed) {
    if (t->leaving.key != 0) leave_block(r, t, event);
    block_t *b = event->before ? NULL : find_block(r, event->address);
    if (b == NULL) {
        r->totals.unknown++;
        bool good = t->waits.address == 0 || begin_block(r, t, &t->waits, NULL); /* damage */
        t->waits.address = 0;
        return good;
    }
    if (freed != NULL) *freed = live_of(r, b);
    const block_t old = *b;
    remove_from_table(r, b);
    if (event->kind == NA_NPROF_EVENT_MOVED) {
        const block_t *next = find_block(r, event->moved_to);
        if (next == NULL && t->waits.address == 0) {
            t->leaving = old;
            t->coming = event->moved_to;
            return true;
        }
        count_replayed_free(r, &old, event);
        if (t->waits.address != 0) {
            t->waits.index = event->index;
            bool good = begin_block(r, t, &t->waits, NULL);
            t->waits.address = 0;
            if (!good) return false;
            count_replayed_realloc(r, t->site, old.size, t->size, true);
        } else if (next->key >> 48 == event->thread) {
            count_replayed_realloc(r, site_number(next), old.size, next->size, true);
        }
        t->after_alloc = false;
        return true;
    }
    count_replayed_free(r, &old, event);
    if (t->block == event->address && old.key >> 48 == event->thread) {
        r->temporary = true;
        r->rare[site_number(&old)].temporary++;
    } else if (t->after_alloc && t->site == site_number(&old)) {
        count_growth(r, t, &old);
    }
    t->after_alloc = false;
    return true;
}

/* gcc takes a function that does nothing but prefetch for one without effect, and drops its calls,
 * unless it is inlined before it gets there. */
#define ASKS static inline __attribute__((always_inline))

/* Its line only: more than a dozen lines on their way are in each other's way. */
ASKS void ask_for(const na_replay_t *r, const na_event_t *event) {
    __builtin_prefetch(&r->blocks[home_line(r, event->address)], 1);
}

/* Its block's place is in a cache by now, its site may not be. */
ASKS void ask_for_site(const na_replay_t *r, const na_event_t *event) {
    const site_t *s;
    if (na_event_is_alloc(event)) { /* the first with its hash is it, nearly always */
        na_probe_t probe = na_index_probe(&r->site_index, hash_of_stack(r, event->stack));
        na_index_next(&r->site_index, &probe);
        s = &r->sites[probe.number];
    } else {
        const block_t *line = &r->blocks[home_line(r, event->address)];
        s = &r->sites[site_number(&line[ADDRESS(line->key) != event->address])];
    }
    __builtin_prefetch(s, 1);
    __builtin_prefetch((const char *)s + 64, 1);
}

const na_event_t *na_replay_peek(na_replay_t *r) {
    if (r->end - r->at <= TOGETHER && r->end % TOGETHER == 0) {
        na_event_t *to = &r->taken[r->end % RING];
        size_t n = na_events_take(r->events, to, TOGETHER);
        for (size_t i = 0; i < n; i++)
            ask_for(r, &to[i]);
        r->end += n;
    }
    return r->at == r->end || r->failed ? NULL : &r->taken[r->at % RING];
}

/* The next event, with the memory of those behind it on the way; NULL: there is none. */
static const na_event_t *next_event(na_replay_t *r) {
    const na_event_t *next = na_replay_peek(r);
    if (next == NULL) return NULL;
    if (r->at + SITE_AHEAD < r->end) ask_for_site(r, &r->taken[(r->at + SITE_AHEAD) % RING]);
    r->at++;
    return next;
}

static bool replay_event(na_replay_t *r, const na_event_t *event, na_live_t *freed) {
    uint32_t thread = thread_index(event);
    r->came = 0;
    r->temporary = false;
    r->failed = !NA_ARRAY_RESERVE_ZERO(r->threads, r->thread_room, thread + 1u);
    if (!r->failed) {
        thread_t *t = &r->threads[thread];
        r->failed = !(na_event_is_alloc(event) ? play_alloc(r, t, event, freed)
                                               : play_free(r, t, event, freed));
    }
    r->totals.events++;
    return !r->failed;
}

bool na_replay_next(na_replay_t *r, na_event_t *event, na_live_t *freed) {
    if (freed != NULL) freed->address = 0;
    const na_event_t *next = next_event(r);
    if (next == NULL) return false;
    *event = *next;
    return replay_event(r, next, freed);
}

void na_replay_to(na_replay_t *r, uint64_t count) {
    while (r->totals.events < count) {
        const na_event_t *next = next_event(r);
        if (next == NULL || !replay_event(r, next, NULL)) break;
    }
}

na_replay_t *na_replay_open(na_reader_t *reader) {
    na_replay_t *r = calloc(1, sizeof *r);
    if (r == NULL) return NULL;
    if (getrandom(&r->odd, sizeof r->odd, GRND_NONBLOCK) != sizeof r->odd)
        r->odd = UINT64_C(0x9e3779b97f4a7c15);
    r->odd |= 1;
    r->budget = na_reader_budget(reader);
    r->events = na_events_open(reader);
    r->age_shift = na_reader_header(reader)->age_shift;
    r->final_epoch = na_reader_header(reader)->peak_epoch;
    r->epoch = 1;
    if (r->events != NULL && grow_block_table(r) && grow_sites(r)) return r;
    na_replay_close(r);
    return NULL;
}

void na_replay_end(na_replay_t *r) {
    na_events_close(r->events);
    r->events = NULL;
    uint64_t bytes = r->blocks != NULL ? (r->mask + 1) * sizeof *r->blocks : 0;
    na_budget_give(r->budget, bytes);
    unmap(r->blocks, bytes);
    r->blocks = NULL;
}

void na_replay_close(na_replay_t *r) {
    if (r == NULL) return;
    na_replay_end(r);
    na_budget_give(r->budget, site_bytes(r->site_room));
    free(r->sites);
    free(r->rare);
    na_budget_free(r->site_index.slots);
    free(r->threads);
    free(r);
}

bool na_replay_failed(const na_replay_t *r) {
    return r->failed;
}

const na_replay_totals_t *na_replay_totals(const na_replay_t *r) {
    return &r->totals;
}

void na_replay_mark(na_replay_t *r) {
    r->marked = MARKED;
}

const na_live_t *na_replay_find(na_replay_t *r, uint64_t address) {
    const block_t *b = find_block(r, address);
    if (b == NULL) return NULL;
    r->found = live_of(r, b);
    return &r->found;
}

const na_live_t *na_replay_came(na_replay_t *r) {
    return na_replay_find(r, r->came);
}

bool na_replay_was_temporary(const na_replay_t *r) {
    return r->temporary;
}

void na_replay_each(const na_replay_t *r, void (*visit)(void *, const na_live_t *), void *arg) {
    for (uint64_t i = 0; i <= r->mask; i++) {
        if (r->blocks[i].key == 0) continue;
        na_live_t live = live_of(r, &r->blocks[i]);
        visit(arg, &live);
    }
}

void na_replay_cells(const na_replay_t *r, na_cell_fn_t visit, void *arg) {
    for (uint32_t i = 0; i < r->site_count; i++) {
        site_t s = r->sites[i];
        const rare_t *rare = &r->rare[i];
        keep_site_peak(r, &s);
        na_nprof_cell_t cell = {
            .site = s.stack,
            .peak_epoch = r->final_epoch,
            .alloc_count = s.alloc_count,
            .alloc_bytes = s.alloc_bytes,
            .alloc_usable = s.alloc_bytes + s.alloc_slack,
            .free_count = s.free_count,
            .free_bytes = s.free_bytes,
            .free_usable = s.free_bytes + s.free_slack,
            .local_peak_bytes = (int64_t)s.local_peak,
            .peak_bytes = s.peak_bytes,
            .peak_count = s.peak_count,
            .size_min = s.size_min,
            .size_max = s.size_max,
            .lifetime_sum = s.lifetime_sum,
            .lifetime_min = s.lifetime_min,
            .lifetime_max = s.lifetime_max,
            .temporary_count = rare->temporary,
            .growth_count = rare->growth_count,
            .growth_bytes = rare->growth_bytes,
            .growth_copied = rare->growth_copied,
            .cross_thread_free_count = rare->cross_thread,
            .realloc_count = rare->realloc_count,
            .realloc_grow_bytes = rare->realloc_grow,
            .realloc_shrink_bytes = rare->realloc_shrink,
            .realloc_copy_bytes = rare->realloc_copy,
            .aligned_count = rare->aligned,
            .align_mask = rare->align_mask,
        };
        visit(arg, 0, &cell);
    }
}
