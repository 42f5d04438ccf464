/* trace_check.c - is a trace what the program says that it did? Usage: trace_check PROFILE LOG
 *
 * Compares, exactly: every event between a thread's marks; the blocks that live after each of 200
 * events spread over the trace; and every figure of every site, against figures that are computed
 * here from the log alone, by other code than the replay's. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/trace_replay.h"
#include "trace_load.h"

#define FAIL(...)                                                                                  \
    do {                                                                                           \
        fprintf(stderr, "trace_check: " __VA_ARGS__);                                              \
        fputc('\n', stderr);                                                                       \
        exit(1);                                                                                   \
    } while (0)

static trace_log_t *logs[TRACE_THREADS + 1];
static unsigned log_count;

static void read_logs(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) FAIL("cannot open %s", path);
    for (;;) {
        trace_log_t *log = malloc(sizeof *log);
        if (log == NULL) FAIL("out of memory");
        if (fread(log, offsetof(trace_log_t, entries), 1, file) != 1) {
            free(log);
            break;
        }
        if (log_count > TRACE_THREADS || log->count > TRACE_LOG ||
            fread(log->entries, sizeof log->entries[0], log->count, file) != log->count)
            FAIL("%s is cut short", path);
        logs[log_count++] = log;
    }
    fclose(file);
    if (log_count == 0) FAIL("%s is empty", path);
}

/* ---- events: every one that is between its thread's marks, with the log's entry ---- */

typedef struct cursor {
    uint32_t thread; /* in the trace */
    trace_log_t *log;
    uint64_t at;
    int marks; /* 0 before, 1 inside, 2 after */
    bool swap; /* a moved block's two events come the other way round */
} cursor_t;

static cursor_t cursors[1 << 16];
static bool log_taken[TRACE_THREADS + 1];

/* The threads of the program have distinct logs: the first entries tell which. */
static trace_log_t *log_of(const na_event_t *first) {
    for (unsigned i = 0; i < log_count; i++)
        if (!log_taken[i] && logs[i]->entries[0].address == first->address &&
            logs[i]->entries[0].size == first->size) {
            log_taken[i] = true;
            return logs[i];
        }
    FAIL("event %llu: a thread that begins with %#llx is in no log",
         (unsigned long long)first->index, (unsigned long long)first->address);
}

static bool is_mark(const na_event_t *e, uint64_t size) {
    return e->kind == NA_NPROF_EVENT_MALLOC && e->size == size;
}

/* The log's entry of this event; NULL: it is none of the log's. */
static const trace_entry_t *entry_of(const na_event_t *e) {
    static bool mark_freed[1 << 16];
    cursor_t *c = &cursors[e->thread & 0xffff];
    if (c->marks == 0) {
        if (is_mark(e, TRACE_MARK)) {
            c->marks = 1;
            mark_freed[e->thread & 0xffff] = false;
        }
        return NULL;
    }
    if (c->marks == 2) return NULL;
    if (!mark_freed[e->thread & 0xffff]) { /* the mark's own free */
        mark_freed[e->thread & 0xffff] = true;
        return NULL;
    }
    if (is_mark(e, TRACE_MARK + 2)) {
        c->marks = 2;
        if (c->log == NULL || c->at != c->log->count)
            FAIL("thread %u ends after %llu of its log's entries", e->thread,
                 (unsigned long long)c->at);
        return NULL;
    }
    if (c->log == NULL) c->log = log_of(e);
    if (c->at == c->log->count) FAIL("thread %u has more events than its log", e->thread);
    uint64_t at = c->at++;
    const trace_entry_t *entry = &c->log->entries[at];
    if (c->swap) { /* the second of the two */
        c->swap = false;
        return &c->log->entries[at - 1];
    }
    /* A block from before that realloc left where it was: it goes, and comes as one of ours. */
    static trace_entry_t half;
    if (entry->kind == NA_NPROF_EVENT_RESIZE && c->log->inherited != 0 &&
        (e->before || half.kind == NA_NPROF_EVENT_MOVED)) {
        bool goes = half.kind != NA_NPROF_EVENT_MOVED;
        half = *entry;
        half.kind = goes ? NA_NPROF_EVENT_MOVED : NA_NPROF_EVENT_REALLOC;
        half.site = goes ? 0 : entry->site;
        half.other = goes ? entry->address : 0;
        if (goes) c->at--;
        return &half;
    }
    if (entry->kind == NA_NPROF_EVENT_REALLOC && entry->other != 0 &&
        e->kind == NA_NPROF_EVENT_MOVED) {
        c->swap = true;
        return &c->log->entries[at + 1];
    }
    return entry;
}

static uint32_t stack_of_site[TRACE_SITES];

static void compare(const na_event_t *e, const trace_entry_t *entry) {
    unsigned long long n = (unsigned long long)e->index;
    if (e->kind != entry->kind) FAIL("event %llu: kind %u, not %u", n, e->kind, entry->kind);
    if (e->address != entry->address)
        FAIL("event %llu: address %#llx, not %#llx", n, (unsigned long long)e->address,
             (unsigned long long)entry->address);
    if (na_event_is_alloc(e)) {
        if (e->size != entry->size || e->size + e->slack != entry->usable)
            FAIL("event %llu: size %llu + %u, not %llu (usable %llu)", n,
                 (unsigned long long)e->size, e->slack, (unsigned long long)entry->size,
                 (unsigned long long)entry->usable);
        if (e->align != (entry->kind == NA_NPROF_EVENT_ALIGNED ? 6 : 0))
            FAIL("event %llu: alignment 2^%u", n, e->align);
    } else if (e->moved_to != (entry->kind == NA_NPROF_EVENT_MOVED ? entry->other : 0)) {
        FAIL("event %llu: moved to %#llx", n, (unsigned long long)e->moved_to);
    }
}

/* ---- figures, from the log ---- */

typedef struct block {
    uint64_t address, size, usable;
    unsigned site, thread;
    uint32_t stack;
    bool live, newest; /* the last allocation of its thread */
} block_t;

static block_t *blocks;
static size_t block_count, block_room;
static int32_t *latest; /* by hash of address: index of the latest block there, linked */
static int32_t *older;
#define BUCKETS (1u << 20)

static block_t *find_live(uint64_t address) {
    for (int32_t i = latest[address / 16 % BUCKETS]; i >= 0; i = older[i])
        if (blocks[i].address == address && blocks[i].live) return &blocks[i];
    return NULL;
}

static block_t *add_block(const trace_entry_t *entry, const na_event_t *e) {
    if (block_count == block_room) {
        block_room = block_room == 0 ? 1 << 16 : block_room * 2;
        blocks = reallocarray(blocks, block_room, sizeof *blocks);
        older = reallocarray(older, block_room, sizeof *older);
        if (blocks == NULL || older == NULL) FAIL("out of memory");
    }
    block_t *b = &blocks[block_count];
    *b = (block_t){.address = entry->address,
                   .size = entry->size,
                   .usable = entry->usable,
                   .site = entry->site,
                   .thread = e->thread,
                   .stack = e->stack,
                   .live = true};
    older[block_count] = latest[entry->address / 16 % BUCKETS];
    latest[entry->address / 16 % BUCKETS] = (int32_t)block_count++;
    return b;
}

typedef struct figures {
    uint64_t allocs, bytes, usable, frees, freed_bytes, freed_usable, least, most;
    uint64_t temporary, cross, reallocs, grown, shrunk, copied, aligned;
    int64_t live, local_peak, at_peak, at_peak_blocks;
} figures_t;

/* By stack: the same function is called from several places, and each is a site. */
#define STACKS 4096u
static figures_t figures[STACKS];
static int64_t newest_of_thread[1 << 16];

static figures_t *figures_of(uint32_t stack) {
    if (stack == 0 || stack >= STACKS) FAIL("stack %u", stack);
    return &figures[stack];
}

/* Its figures; that it is gone may have been so before. */
static void log_free(block_t *b, const na_event_t *e) {
    figures_t *f = figures_of(b->stack);
    f->frees++;
    f->freed_bytes += b->size;
    f->freed_usable += b->usable;
    f->live -= (int64_t)b->size;
    if (b->thread != e->thread) f->cross++;
    b->live = false;
}

static figures_t *log_alloc(const trace_entry_t *entry, const na_event_t *e) {
    figures_t *f = figures_of(e->stack);
    if (f->allocs++ == 0 || entry->size < f->least) f->least = entry->size;
    if (entry->size > f->most) f->most = entry->size;
    f->bytes += entry->size;
    f->usable += entry->usable;
    f->live += (int64_t)entry->size;
    if (f->live > f->local_peak) f->local_peak = f->live;
    if (entry->kind == NA_NPROF_EVENT_ALIGNED) f->aligned++;
    add_block(entry, e);
    newest_of_thread[e->thread] = (int64_t)block_count - 1;
    return f;
}

static void log_change(figures_t *f, uint64_t old, uint64_t now, bool copied) {
    f->reallocs++;
    if (now > old) f->grown += now - old;
    if (old > now) f->shrunk += old - now;
    if (copied) f->copied += old < now ? old : now;
}

/* A realloc that moves its block is one block: its two entries count together, with the second. */
typedef struct half {
    const trace_entry_t *entry; /* the first of the two; NULL: none */
    na_event_t event;
    size_t old; /* of a MOVED: its block */
} half_t;
static half_t halves[1 << 16]; /* by thread */

static int64_t moved(block_t *old, const trace_entry_t *to, const na_event_t *e, bool copied) {
    uint64_t before = old->size;
    log_free(old, e);
    log_change(log_alloc(to, e), before, to->size, copied);
    return (int64_t)to->size - (int64_t)before;
}

/* Plays one entry of the log; the trace says only the order across threads. Returns what is live
 * more. */
static int64_t play(const trace_entry_t *entry, const na_event_t *e, bool inherited) {
    half_t *half = &halves[e->thread & 0xffff];
    block_t *old;
    switch (entry->kind) {
    case NA_NPROF_EVENT_RESIZE:
        old = find_live(entry->address);
        if (old == NULL) FAIL("the log resizes what it does not have");
        return moved(old, entry, e, false);
    case NA_NPROF_EVENT_FREE:
    case NA_NPROF_EVENT_MOVED:
        old = find_live(entry->address);
        if (old == NULL && inherited && e->before) return 0;
        if (old == NULL) FAIL("the log frees what it does not have");
        if (e->before) FAIL("event %llu is not from before", (unsigned long long)e->index);
        if (entry->kind == NA_NPROF_EVENT_FREE) {
            if (newest_of_thread[e->thread] == old - blocks) figures_of(old->stack)->temporary++;
            log_free(old, e);
            return -(int64_t)old->size;
        }
        if (half->entry == NULL) {
            *half = (half_t){entry, *e, (size_t)(old - blocks)};
            old->live = false;
            return 0;
        }
        entry = half->entry;
        half->entry = NULL;
        return moved(old, entry, &half->event, true);
    default:
        if (half->entry != NULL) {
            half->entry = NULL;
            return moved(&blocks[half->old], entry, e, false);
        }
        if (entry->other != 0 && find_live(entry->other) != NULL) {
            *half = (half_t){entry, *e, 0};
            return 0;
        }
        log_alloc(entry, e);
        return (int64_t)entry->size;
    }
}

/* ---- the replay against them ---- */

static uint64_t live_of_log, seen_live;

static void count_live(void *arg, const na_live_t *block) {
    (void)arg;
    const block_t *b = find_live(block->address);
    if (b == NULL) return; /* the C library's */
    if (b->size != block->size || b->stack != block->stack || b->thread != block->thread)
        FAIL("the block at %#llx is another", (unsigned long long)block->address);
    seen_live++;
}

static void compare_live(const na_replay_t *replay) {
    live_of_log = seen_live = 0;
    for (size_t i = 0; i < block_count; i++)
        live_of_log += blocks[i].live;
    na_replay_each(replay, count_live, NULL);
    if (seen_live != live_of_log)
        FAIL("after event %llu %llu blocks live, not %llu",
             (unsigned long long)na_replay_totals(replay)->events, (unsigned long long)seen_live,
             (unsigned long long)live_of_log);
}

static unsigned sites_compared;

#define SAME(field, expected)                                                                      \
    if ((uint64_t)c->field != (uint64_t)(expected))                                                \
    FAIL("site %u: " #field " is %llu, not %llu", c->site, (unsigned long long)c->field,           \
         (unsigned long long)(expected))

static void compare_cell(void *arg, uint32_t thread, const na_nprof_cell_t *c) {
    (void)arg;
    (void)thread;
    if (c->site >= STACKS || figures[c->site].allocs == 0) return;
    const figures_t *f = &figures[c->site];
    SAME(alloc_count, f->allocs);
    SAME(alloc_bytes, f->bytes);
    SAME(alloc_usable, f->usable);
    SAME(free_count, f->frees);
    SAME(free_bytes, f->freed_bytes);
    SAME(free_usable, f->freed_usable);
    SAME(size_min, f->least);
    SAME(size_max, f->most);
    SAME(local_peak_bytes, f->local_peak);
    SAME(peak_bytes, f->at_peak);
    SAME(peak_count, f->at_peak_blocks);
    SAME(temporary_count, f->temporary);
    SAME(cross_thread_free_count, f->cross);
    SAME(realloc_count, f->reallocs);
    SAME(realloc_grow_bytes, f->grown);
    SAME(realloc_shrink_bytes, f->shrunk);
    SAME(realloc_copy_bytes, f->copied);
    SAME(aligned_count, f->aligned);
    sites_compared++;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: trace_check PROFILE LOG\n");
        return 2;
    }
    read_logs(argv[2]);
    latest = malloc(BUCKETS * sizeof *latest);
    if (latest == NULL) FAIL("out of memory");
    memset(latest, 0xff, BUCKETS * sizeof *latest);
    memset(newest_of_thread, 0xff, sizeof newest_of_thread);
    char error[512];
    na_reader_t *reader = na_reader_open(argv[1], error, sizeof error);
    if (reader == NULL) FAIL("%s", error);
    na_replay_t *replay = na_replay_open(reader);
    if (replay == NULL) FAIL("out of memory");
    na_event_t e;
    uint64_t matched = 0, sum = 0, last_ticks = 0;
    int64_t live = 0, peak = 0; /* of everything, the C library's blocks included */
    na_live_t freed;
    for (unsigned i = 0; i < log_count; i++)
        sum += logs[i]->count;
    while (na_replay_next(replay, &e, &freed)) {
        if (e.ticks < last_ticks) FAIL("event %llu goes back in time", (unsigned long long)e.index);
        last_ticks = e.ticks;
        const trace_entry_t *entry = entry_of(&e);
        if (entry == NULL && freed.address != 0) live -= (int64_t)freed.size;
        if (entry == NULL && na_event_is_alloc(&e)) live += (int64_t)e.size;
        if (entry != NULL) {
            compare(&e, entry);
            /* A function is called from more than one place: its sites are several, and no other
             * function's. */
            if (entry->site != 0) {
                static uint8_t site_of_stack[STACKS];
                figures_of(e.stack);
                if (site_of_stack[e.stack] != 0 && site_of_stack[e.stack] != entry->site)
                    FAIL("event %llu: stack %u is of two sites", (unsigned long long)e.index,
                         e.stack);
                site_of_stack[e.stack] = entry->site;
                stack_of_site[entry->site] = e.stack;
            }
            live += play(entry, &e, cursors[e.thread].log->inherited != 0);
            bool half =
                e.before && entry->kind == NA_NPROF_EVENT_MOVED && entry->other == entry->address;
            if (!half && matched++ % (sum / 200 + 1) == 0 && !cursors[e.thread].swap)
                compare_live(replay);
        }
        if (live > peak) { /* the exact peak: what each site has then */
            peak = live;
            if (entry != NULL || block_count != 0)
                for (uint32_t s = 0; s < STACKS; s++) {
                    figures[s].at_peak = figures[s].live;
                    figures[s].at_peak_blocks = (int64_t)(figures[s].allocs - figures[s].frees);
                }
        }
    }
    const na_replay_totals_t *t = na_replay_totals(replay);
    if (matched != sum)
        FAIL("%llu of %llu entries", (unsigned long long)matched, (unsigned long long)sum);
    if ((int64_t)t->peak_bytes != peak || (int64_t)t->live_bytes != live)
        FAIL("peak %llu, not %lld; live %llu, not %lld", (unsigned long long)t->peak_bytes,
             (long long)peak, (unsigned long long)t->live_bytes, (long long)live);
    if (t->contradictions != 0) FAIL("%llu contradictions", (unsigned long long)t->contradictions);
    na_replay_cells(replay, compare_cell, NULL);
    unsigned sites = 0;
    for (uint32_t s = 0; s < STACKS; s++)
        sites += figures[s].allocs != 0;
    if (sites_compared != sites || sites < 6) FAIL("%u of %u sites", sites_compared, sites);
    for (unsigned i = 0; i < na_reader_issue_count(reader); i++) {
        na_reader_issue_text(reader, i, error, sizeof error);
        FAIL("%s", error);
    }
    const na_nprof_header_t *h = na_reader_header(reader);
    if (h->lost_events != 0 || h->state != NA_NPROF_CLOSED)
        FAIL("%llu events lost, state %u", (unsigned long long)h->lost_events, h->state);
    printf("%llu events, %llu of the log, %u sites, %llu threads\n", (unsigned long long)t->events,
           (unsigned long long)matched, sites, (unsigned long long)log_count);
    na_replay_close(replay);
    na_reader_close(reader);
    return 0;
}
