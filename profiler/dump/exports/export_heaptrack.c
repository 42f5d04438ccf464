/* export_heaptrack.c - a trace as heaptrack's interpreted data, for heaptrack_print and
 * heaptrack_gui: every event in its order. Numbers are hexadecimal; strings, places of code and
 * stacks are numbered from 1 in the order in which they come up, kinds of allocations (size and
 * stack) too: 0 is a kind of no bytes that nothing has.
 *
 * Temporaries. Heaptrack takes a free for one if the line before it allocated a block of the same
 * kind, the views if it was the block that its thread allocated last. So that its reading agrees
 * with them, a free that is not one and would be taken for one (of what realloc replaces; of
 * another block of the kind) comes behind a line that says nothing, a free of kind 0. And a free
 * that is one comes before others that came since its allocation, which are held back for that, for
 * 10 ms at most. Where threads allocate between each other's mallocs and frees, heaptrack finds
 * fewer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/trace_replay.h"
#include "profiler/containers/array.h"
#include "profiler/containers/index.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/text.h"

/* A set of pairs, numbered from 1. */
typedef struct map {
    struct pair {
        uint64_t a, b;
    } * items;
    uint32_t count, room;
    na_index_t index;
} map_t;

/* The number of a pair; *fresh: it is new. 0: out of memory. */
static uint32_t mapped_number(map_t *map, uint64_t a, uint64_t b, bool *fresh) {
    uint64_t hash = na_hash_number(na_hash_number(NA_HASH_BEGIN, a), b);
    *fresh = false;
    na_probe_t probe = na_index_probe(&map->index, hash);
    while (na_index_next(&map->index, &probe))
        if (map->items[probe.number].a == a && map->items[probe.number].b == b)
            return probe.number + 1;
    if (!NA_ARRAY_RESERVE(map->items, map->room, map->count + 1u) ||
        !na_index_add(&map->index, hash, map->count))
        return 0;
    *fresh = true;
    map->items[map->count] = (struct pair){a, b};
    return ++map->count;
}

static void free_map(map_t *map) {
    free(map->items);
    na_index_free(&map->index);
}

typedef struct heaptrack {
    const na_view_input_t *in;
    map_t strings;    /* by address: the symbols have each text once, or a few times */
    map_t kinds;      /* by size and stack */
    uint32_t *stacks; /* by stack entry: its number, 0: not yet written */
    uint32_t stack_count, place_count;
    uint32_t last_kind; /* of the line before, if that was an allocation, else 0 */
    uint32_t *held;     /* kinds of frees */
    size_t held_count, held_room;
    uint64_t held_until; /* ms */
    bool failed;
} heaptrack_t;

#define HOLD_MS 10u
#define HOLD_BY 65536u

static uint32_t put_heaptrack_string(heaptrack_t *h, const char *text) {
    if (text == NULL) return 0; /* none */
    bool fresh;
    uint32_t number = mapped_number(&h->strings, (uintptr_t)text, 0, &fresh);
    if (number == 0) h->failed = true;
    if (fresh) {
        char *copy = NULL;
        size_t size = 0;
        FILE *to = open_memstream(&copy, &size); /* what is not printable becomes '?' */
        if (to != NULL) {
            na_text_put(to, text);
            fclose(to);
        }
        printf("s %zx %s\n", size, copy == NULL ? "" : copy);
        free(copy);
    }
    return number;
}

/* Writes a stack entry after those outside of it. Returns its number, 0: the root. */
static uint32_t put_heaptrack_stack(heaptrack_t *h, uint32_t site) {
    na_stack_table_t stacks = na_reader_stacks(h->in->reader);
    uint32_t path[NA_VIEW_DEEPEST], depth = 0, node = site;
    while (node > NA_NPROF_ROOT && node < stacks.count && h->stacks[node] == 0 &&
           depth < NA_VIEW_DEEPEST) {
        path[depth++] = node;
        node = stacks.items[node].parent;
    }
    uint32_t parent = node > NA_NPROF_ROOT && node < stacks.count ? h->stacks[node] : 0;
    while (depth-- > 0) {
        node = path[depth];
        const na_symbol_frame_t *frames;
        uint32_t count = na_symbols_frames(h->in->symbols, node, &frames);
        uint32_t module = put_heaptrack_string(h, count == 0 ? NULL : frames[0].module);
        for (uint32_t i = 0; i < count; i++) {
            put_heaptrack_string(h, frames[i].function);
            put_heaptrack_string(h, frames[i].file);
        }
        printf("i %" PRIx64 " %x", stacks.items[node].pc, module);
        for (uint32_t i = 0; i < count; i++)
            printf(" %x %x %x", put_heaptrack_string(h, frames[i].function),
                   put_heaptrack_string(h, frames[i].file), frames[i].line);
        printf("\nt %x %x\n", ++h->place_count, parent);
        parent = h->stacks[node] = ++h->stack_count;
    }
    return parent;
}

/* The number of a kind of allocation, from 1. */
static uint32_t put_kind(heaptrack_t *h, uint64_t size, uint32_t site) {
    bool fresh;
    uint32_t number = mapped_number(&h->kinds, size, site, &fresh);
    if (number == 0) {
        h->failed = true;
        return 0;
    }
    if (fresh) {
        uint32_t stack = put_heaptrack_stack(h, site);
        printf("a %" PRIx64 " %x\n", size, stack);
    }
    return number;
}

static void put_free(heaptrack_t *h, uint32_t kind) {
    printf("- %x\n", kind);
    h->last_kind = 0;
}

static void free_heaptrack(heaptrack_t *h) {
    for (size_t i = 0; i < h->held_count; i++) {
        if (h->held[i] == h->last_kind) put_free(h, 0);
        put_free(h, h->held[i]);
    }
    h->held_count = 0;
}

/* A free of the kind, but not of a temporary block. */
static void hold_free(heaptrack_t *h, uint32_t kind, uint64_t ms) {
    if (h->last_kind == 0) { /* no temporary can follow */
        put_free(h, kind);
        return;
    }
    if (h->held_count == HOLD_BY) free_heaptrack(h);
    if (!NA_ARRAY_RESERVE(h->held, h->held_room, h->held_count + 1u)) {
        h->failed = true;
        return;
    }
    if (h->held_count == 0) h->held_until = ms + HOLD_MS;
    h->held[h->held_count++] = kind;
}

/* What the event did to blocks. */
static void put_event(heaptrack_t *h, na_replay_t *replay, const na_live_t *freed, uint64_t ms) {
    if (freed->address != 0) {
        uint32_t kind = put_kind(h, freed->size, freed->stack);
        if (na_replay_was_temporary(replay))
            put_free(h, kind);
        else
            hold_free(h, kind, ms);
    }
    const na_live_t *came = na_replay_came(replay);
    if (came == NULL) return;
    free_heaptrack(h);
    h->last_kind = put_kind(h, came->size, came->stack);
    printf("+ %x\n", h->last_kind);
}

static na_status_t show_heaptrack(na_view_input_t *in) {
    const na_nprof_header_t *header = na_reader_header(in->reader);
    heaptrack_t h = {.in = in};
    h.stacks = calloc((size_t)na_reader_stacks(in->reader).count + 1, sizeof *h.stacks);
    na_replay_t *replay = na_replay_open(in->reader);
    bool good = h.stacks != NULL && replay != NULL;
    if (good) {
        printf("v 10400 3\nX ");
        na_text_put(stdout, header->command[0] != 0 ? header->command : header->program);
        printf("\nI %x 0\na 0 0\n", header->page_size);
        double ms_per_tick = 1e3 / (double)header->ticks_hz;
        uint64_t last_ms = 0;
        na_event_t event;
        na_live_t freed;
        while (!h.failed && na_replay_next(replay, &event, &freed)) {
            uint64_t ms = (uint64_t)((double)event.ticks * ms_per_tick);
            if (h.held_count != 0 && ms >= h.held_until) free_heaptrack(&h);
            if (ms > last_ms) printf("c %" PRIx64 "\n", last_ms = ms);
            put_event(&h, replay, &freed, ms);
        }
        free_heaptrack(&h);
        good = !h.failed && !na_replay_failed(replay);
    }
    if (replay != NULL) na_replay_close(replay);
    free(h.stacks);
    free(h.held);
    free_map(&h.strings);
    free_map(&h.kinds);
    return good ? NA_STATUS_WHOLE : NA_STATUS_MEMORY;
}

const na_view_t na_view_row_heaptrack = {
    .name = "heaptrack",
    .words = "FILE",
    .help = "for heaptrack_print and heaptrack_gui",
    .modes = NA_IN(NA_NPROF_MODE_TRACE),
    .flags = NA_VIEW_EXPORT,
    .without = NA_VIEW_WHOLE,
    .show = show_heaptrack,
};
