/* replay.c - the blocks that live, and the figures of sites, event by event.
 *
 * Blocks lie in a table with open addressing by address; a free closes the gap behind it, so that
 * the table never holds more than what lives. Sites lie in one array, found by stack id. The peak
 * is the largest sum of live bytes: a new one only raises a number (epoch), and a site copies its
 * figures the next time that it changes, as in mode sites; here each event does so, and the peak is
 * exact. */
#include "profiler/analyze/replay.h"

#include <stdlib.h>
#include <string.h>

typedef struct site {
    na_nprof_cell_t cell;
    uint64_t local; /* bytes live now */
} site_t;

/* What was last seen of a thread. */
typedef struct thread {
    uint64_t block;    /* allocated last; 0: freed since, or none */
    uint64_t coming;   /* MOVED said that a block comes here, */
    uint64_t old_size; /* and how large it was */
} thread_t;

struct na_replay {
    na_events_t *events;
    na_live_t *blocks;
    uint64_t room, used; /* room is a power of two */
    site_t *sites;
    uint32_t *site_of; /* by stack: index + 1 in `sites`; 0: none yet */
    uint32_t site_count, site_room, stack_room;
    thread_t *threads;
    uint32_t thread_room;
    uint32_t epoch; /* of the peak */
    uint32_t final_epoch;
    unsigned age_shift;
    na_replay_totals_t totals;
    bool failed;
};

/* ---- blocks ---- */

static uint64_t home(const na_replay_t *r, uint64_t address) {
    return (address * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (r->room - 1);
}

static na_live_t *slot_of(const na_replay_t *r, uint64_t address) {
    uint64_t i = home(r, address);
    while (r->blocks[i].address != 0 && r->blocks[i].address != address)
        i = (i + 1) & (r->room - 1);
    return &r->blocks[i];
}

static bool grow_blocks(na_replay_t *r) {
    na_live_t *old = r->blocks;
    uint64_t old_room = r->room;
    uint64_t room = old_room == 0 ? 4096 : old_room * 2;
    na_live_t *blocks = calloc(room, sizeof *blocks);
    if (blocks == NULL) return false;
    r->blocks = blocks;
    r->room = room;
    for (uint64_t i = 0; i < old_room; i++)
        if (old[i].address != 0) *slot_of(r, old[i].address) = old[i];
    free(old);
    return true;
}

/* Closes the gap: what follows in the same run moves up if it may. */
static void remove_block(na_replay_t *r, na_live_t *slot) {
    uint64_t hole = (uint64_t)(slot - r->blocks), i = hole;
    for (;;) {
        i = (i + 1) & (r->room - 1);
        if (r->blocks[i].address == 0) break;
        uint64_t at = home(r, r->blocks[i].address);
        if (((i - at) & (r->room - 1)) < ((i - hole) & (r->room - 1))) continue;
        r->blocks[hole] = r->blocks[i];
        hole = i;
    }
    r->blocks[hole].address = 0;
    r->used--;
}

/* ---- sites ---- */

static site_t *site_of(na_replay_t *r, uint32_t stack) {
    if (stack == NA_NPROF_NO_STACK) stack = NA_NPROF_ROOT;
    if (stack >= r->stack_room) {
        uint64_t room = r->stack_room == 0 ? 4096 : r->stack_room;
        while (room <= stack)
            room *= 2;
        uint32_t *more = room <= UINT32_MAX / 2 ? realloc(r->site_of, room * sizeof *more) : NULL;
        if (more == NULL) return NULL;
        memset(more + r->stack_room, 0, (room - r->stack_room) * sizeof *more);
        r->site_of = more;
        r->stack_room = (uint32_t)room;
    }
    if (r->site_of[stack] == 0) {
        if (r->site_count == r->site_room) {
            uint32_t room = r->site_room == 0 ? 256 : r->site_room * 2;
            site_t *more = reallocarray(r->sites, room, sizeof *more);
            if (more == NULL) return NULL;
            r->sites = more;
            r->site_room = room;
        }
        r->sites[r->site_count] = (site_t){.cell = {.site = stack,
                                                    .size_min = UINT64_MAX,
                                                    .lifetime_min = UINT64_MAX,
                                                    .peak_epoch = r->epoch}};
        r->site_of[stack] = ++r->site_count;
    }
    return &r->sites[r->site_of[stack] - 1];
}

/* Before the site changes: its figures at the latest peak. */
static void keep_peak(na_replay_t *r, site_t *s) {
    if (s->cell.peak_epoch == r->epoch) return;
    s->cell.peak_bytes = (int64_t)(s->cell.alloc_bytes - s->cell.free_bytes);
    s->cell.peak_count = (int64_t)(s->cell.alloc_count - s->cell.free_count);
    s->cell.peak_epoch = r->epoch;
}

static thread_t *thread_of(na_replay_t *r, uint32_t thread) {
    if (thread >= r->thread_room) {
        uint32_t room = r->thread_room == 0 ? 64 : r->thread_room;
        while (room <= thread && room <= UINT32_MAX / 4)
            room *= 2;
        /* A thread has an index of 16 bits: more is damage, and shares the state of thread 0. */
        if (thread > UINT16_MAX) return thread_of(r, 0);
        thread_t *more = reallocarray(r->threads, room, sizeof *more);
        if (more == NULL) return NULL;
        memset(more + r->thread_room, 0, (room - r->thread_room) * sizeof *more);
        r->threads = more;
        r->thread_room = room;
    }
    return &r->threads[thread];
}

/* ---- events ---- */

static void count_free(na_replay_t *r, site_t *s, const na_live_t *block, const na_event_t *event) {
    na_nprof_cell_t *c = &s->cell;
    keep_peak(r, s);
    c->free_count++;
    c->free_bytes += block->size;
    c->free_usable += block->size + block->slack;
    uint64_t age = (event->ticks - block->ticks) >> r->age_shift;
    c->lifetime_sum += age;
    if (age < c->lifetime_min) c->lifetime_min = age;
    if (age > c->lifetime_max) c->lifetime_max = age;
    if (block->thread != event->thread || event->thread == 0) c->cross_thread_free_count++;
    s->local -= block->size;
    r->totals.frees++;
    r->totals.live_blocks--;
    r->totals.live_bytes -= block->size;
}

static void count_alloc(na_replay_t *r, site_t *s, const na_event_t *event) {
    na_nprof_cell_t *c = &s->cell;
    keep_peak(r, s);
    c->alloc_count++;
    c->alloc_bytes += event->size;
    c->alloc_usable += event->size + event->slack;
    if (event->size < c->size_min) c->size_min = event->size;
    if (event->size > c->size_max) c->size_max = event->size;
    if (event->align != 0) {
        if (c->aligned_count != UINT32_MAX) c->aligned_count++;
        c->align_mask |= 1u << (event->align & 31);
    }
    s->local += event->size;
    if ((int64_t)s->local > c->local_peak_bytes) c->local_peak_bytes = (int64_t)s->local;
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

static void count_realloc(site_t *s, uint64_t old_size, uint64_t new_size, bool copied) {
    na_nprof_cell_t *c = &s->cell;
    c->realloc_count++;
    if (new_size > old_size)
        c->realloc_grow_bytes += new_size - old_size;
    else
        c->realloc_shrink_bytes += old_size - new_size;
    if (copied) c->realloc_copy_bytes += old_size < new_size ? old_size : new_size;
}

static bool play_alloc(na_replay_t *r, const na_event_t *event, na_live_t *freed) {
    if (event->address == 0) { /* damage: nobody gets that */
        r->totals.contradictions++;
        return true;
    }
    if (r->used * 4 >= r->room * 3 && !grow_blocks(r)) return false;
    site_t *s = site_of(r, event->stack);
    thread_t *t = thread_of(r, event->thread);
    if (s == NULL || t == NULL) return false;
    na_live_t *slot = slot_of(r, event->address);
    bool resize = event->kind == NA_NPROF_EVENT_RESIZE && slot->address != 0;
    if (slot->address != 0) {
        *freed = *slot;
        if (!resize) r->totals.contradictions++;
        site_t *old = site_of(r, slot->stack);
        s = site_of(r, event->stack);
        if (old == NULL || s == NULL) return false;
        count_free(r, old, freed, event);
        if (resize) count_realloc(s, freed->size, event->size, false);
    } else {
        r->used++;
    }
    if (t->coming == event->address && event->kind == NA_NPROF_EVENT_REALLOC) {
        count_realloc(s, t->old_size, event->size, false);
        t->coming = 0;
    }
    *slot = (na_live_t){.address = event->address,
                        .size = event->size,
                        .index = event->index,
                        .ticks = event->ticks,
                        .slack = event->slack,
                        .stack = event->stack,
                        .thread = event->thread};
    count_alloc(r, s, event);
    look_for_peak(r, event);
    t->block = event->address;
    return true;
}

static bool play_free(na_replay_t *r, const na_event_t *event, na_live_t *freed) {
    thread_t *t = thread_of(r, event->thread);
    if (t == NULL) return false;
    na_live_t *slot = r->room != 0 && !event->before ? slot_of(r, event->address) : NULL;
    if (slot == NULL || slot->address == 0) {
        r->totals.unknown++;
        return true;
    }
    *freed = *slot;
    site_t *s = site_of(r, freed->stack);
    if (s == NULL) return false;
    count_free(r, s, freed, event);
    remove_block(r, slot);
    if (event->kind == NA_NPROF_EVENT_MOVED) {
        const na_live_t *next = slot_of(r, event->moved_to);
        if (next->address != 0 && next->thread == event->thread) {
            s = site_of(r, next->stack);
            if (s == NULL) return false;
            count_realloc(s, freed->size, next->size, true);
        } else {
            t->coming = event->moved_to;
            t->old_size = freed->size;
        }
    } else if (t->block == freed->address && freed->thread == event->thread) {
        s->cell.temporary_count++;
    }
    return true;
}

bool na_replay_next(na_replay_t *r, na_event_t *event, na_live_t *freed) {
    na_live_t unused;
    if (freed == NULL) freed = &unused;
    freed->address = 0;
    if (r->failed || !na_events_next(r->events, event)) return false;
    r->failed =
        !(na_event_is_alloc(event) ? play_alloc(r, event, freed) : play_free(r, event, freed));
    r->totals.events++;
    return !r->failed;
}

void na_replay_to(na_replay_t *r, uint64_t count) {
    na_event_t event;
    while (r->totals.events < count && na_replay_next(r, &event, NULL))
        ;
}

na_replay_t *na_replay_open(na_reader_t *reader) {
    na_replay_t *r = calloc(1, sizeof *r);
    if (r == NULL) return NULL;
    r->events = na_events_open(reader);
    r->age_shift = na_reader_header(reader)->age_shift;
    r->epoch = 1;
    if (r->events != NULL && grow_blocks(r)) return r;
    na_replay_close(r);
    return NULL;
}

void na_replay_close(na_replay_t *r) {
    if (r == NULL) return;
    na_events_close(r->events);
    free(r->blocks);
    free(r->sites);
    free(r->site_of);
    free(r->threads);
    free(r);
}

bool na_replay_failed(const na_replay_t *r) {
    return r->failed;
}

const na_replay_totals_t *na_replay_totals(const na_replay_t *r) {
    return &r->totals;
}

const na_live_t *na_replay_find(const na_replay_t *r, uint64_t address) {
    const na_live_t *slot = slot_of(r, address);
    return slot->address != 0 ? slot : NULL;
}

void na_replay_each(const na_replay_t *r, void (*visit)(void *, const na_live_t *), void *arg) {
    for (uint64_t i = 0; i < r->room; i++)
        if (r->blocks[i].address != 0) visit(arg, &r->blocks[i]);
}

void na_replay_cells(const na_replay_t *r, na_cell_fn_t visit, void *arg) {
    for (uint32_t i = 0; i < r->site_count; i++) {
        na_nprof_cell_t cell = r->sites[i].cell;
        if (cell.peak_epoch != r->epoch) {
            cell.peak_bytes = (int64_t)(cell.alloc_bytes - cell.free_bytes);
            cell.peak_count = (int64_t)(cell.alloc_count - cell.free_count);
        }
        cell.peak_epoch = r->final_epoch;
        visit(arg, 0, &cell);
    }
}

bool na_replay_all_cells(na_reader_t *reader, na_cell_fn_t visit, void *arg) {
    na_replay_t *r = na_replay_open(reader);
    if (r == NULL) return false;
    na_replay_to(r, UINT64_MAX);
    bool good = !r->failed;
    r->final_epoch = na_reader_header(reader)->peak_epoch;
    if (good) na_replay_cells(r, visit, arg);
    na_replay_close(r);
    return good;
}
