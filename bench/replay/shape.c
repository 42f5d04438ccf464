/* shape.c - made-up traces, drawn from tables of groups.
 *
 * Time is the number of allocations so far. At each the blocks whose time has come are freed, or
 * grow; then one block is made, of a group drawn by its share. */
#include "bench/replay/shape.h"

#include "bench/load/prng.h"
#include "bench/suite/work.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define NEVER UINT32_MAX

/* Ranges are drawn by octaves: each doubling from the least on is equally likely, and within it
 * each number. */
typedef struct group {
    uint32_t share;           /* of all groups' shares */
    uint32_t least, most;     /* bytes; with `drift`, of the first block */
    uint32_t soonest, latest; /* lifetime in allocations, of all threads; NEVER: it stays */
    uint32_t phase; /* not 0: freed at the end of a phase of so many allocations, the last first */
    uint8_t kind;   /* NA_SHAPE_MALLOC, CALLOC or ALIGNED */
    uint8_t grows;  /* so often its size is doubled by realloc, each after a lifetime */
    uint8_t drift;  /* bytes of the last block are so many times those of the first; 0: the same */
    uint8_t from, makers; /* threads that make its blocks: from, and how many; 0: the main thread */
    uint8_t to, takers;   /* threads one of which frees it; 0: the one that made it */
} group_t;

#define GROUPS_MAX 16

struct na_shape {
    const char *name, *summary;
    uint64_t seed;
    uint32_t allocations;
    group_t group[GROUPS_MAX]; /* up to the first without a share */
};

/* docs/benchmarks.md says which of these figures are those of traces, rounded, and which are
 * invented. */
static const na_shape_t shapes[] = {
    {"compiler",
     "many small blocks, passes whose blocks are freed together, trees that stay (g++)",
     1,
     200000,
     {
         {.share = 250, .least = 64, .most = 127, .soonest = 1, .latest = 1},
         {.share = 280, .least = 8, .most = 127, .soonest = 1, .latest = 16},
         {.share = 140, .least = 16, .most = 511, .soonest = 1, .latest = 3},
         {.share = 110, .least = 32, .most = 255, .soonest = 8, .latest = 31},
         {.share = 40, .least = 32, .most = 127, .phase = 4096},
         {.share = 60, .least = 8, .most = 511, .kind = NA_SHAPE_CALLOC, .soonest = 1, .latest = 8},
         {.share = 40, .least = 2048, .most = 8191, .soonest = 2, .latest = 31},
         {.share = 8,
          .least = 512,
          .most = 65535,
          .kind = NA_SHAPE_CALLOC,
          .soonest = 4,
          .latest = 4095},
         {.share = 8, .least = 16, .most = 63, .soonest = 2, .latest = 63, .grows = 5},
         {.share = 40, .least = 32, .most = 127, .kind = NA_SHAPE_CALLOC, .soonest = NEVER},
         {.share = 1, .least = 65536, .most = 131071, .phase = 16384},
     }},
    {"interpreter",
     "objects of 32 to 128 bytes, short-lived blocks of 1 KiB, a heap freed at the end (python)",
     2,
     200000,
     {
         {.share = 330, .least = 32, .most = 63, .soonest = 1, .latest = 24},
         {.share = 210, .least = 1024, .most = 1200, .soonest = 1, .latest = 3},
         {.share = 100, .least = 64, .most = 127, .soonest = 1, .latest = 24},
         {.share = 70, .least = 32, .most = 63, .soonest = 512, .latest = 65535},
         {.share = 50, .least = 16, .most = 31, .soonest = 1, .latest = 16},
         {.share = 150, .least = 32, .most = 127, .phase = 200000},
         {.share = 60, .least = 32, .most = 63, .phase = 50000},
         {.share = 20, .least = 128, .most = 511, .soonest = 2, .latest = 16},
         {.share = 8, .least = 32, .most = 63, .soonest = 16, .latest = 1023, .grows = 6},
         {.share = 1, .least = 8192, .most = 262143, .soonest = 64, .latest = 2047},
     }},
    {"store",
     "keys and values that live long and are replaced, values that become 16 times as large "
     "(redis)",
     3,
     200000,
     {
         {.share = 440, .least = 16, .most = 31, .soonest = 1, .latest = 4},
         {.share = 220, .least = 32, .most = 63, .soonest = 1, .latest = 4},
         {.share = 110, .least = 16, .most = 31, .soonest = 16, .latest = 255},
         {.share = 60, .least = 16, .most = 31, .soonest = NEVER},
         {.share = 50, .least = 4, .most = 63, .soonest = 2048, .latest = 65535},
         {.share = 80, .least = 32, .most = 127, .soonest = 8192, .latest = 65535, .drift = 16},
         {.share = 8, .least = 64, .most = 127, .soonest = 1024, .latest = 8191, .grows = 5},
         {.share = 2, .least = 16384, .most = 20479, .soonest = 2048, .latest = 16383},
     }},
    {"server",
     "requests read by two threads, served by four and freed by others (hand-over; node, zstd)",
     4,
     150000,
     {
         {.share = 100,
          .least = 4096,
          .most = 16383,
          .soonest = 16,
          .latest = 255,
          .from = 1,
          .makers = 2,
          .to = 3,
          .takers = 4},
         {.share = 150,
          .least = 32,
          .most = 255,
          .soonest = 16,
          .latest = 255,
          .from = 1,
          .makers = 2,
          .to = 3,
          .takers = 4},
         {.share = 400,
          .least = 4,
          .most = 127,
          .soonest = 1,
          .latest = 63,
          .from = 3,
          .makers = 4},
         {.share = 150,
          .least = 16,
          .most = 63,
          .soonest = 128,
          .latest = 1023,
          .from = 3,
          .makers = 4},
         {.share = 80,
          .least = 256,
          .most = 32767,
          .soonest = 32,
          .latest = 511,
          .from = 3,
          .makers = 4,
          .to = 1,
          .takers = 2},
         {.share = 5,
          .least = 131072,
          .most = 262143,
          .soonest = 32,
          .latest = 255,
          .from = 3,
          .makers = 4,
          .to = 1,
          .takers = 2},
         {.share = 20,
          .least = 64,
          .most = 1023,
          .soonest = 4096,
          .latest = 32767,
          .from = 1,
          .makers = 2,
          .to = 3,
          .takers = 4},
         {.share = 10,
          .least = 512,
          .most = 1023,
          .soonest = 4,
          .latest = 31,
          .grows = 4,
          .from = 3,
          .makers = 4},
         {.share = 10, .least = 32, .most = 511, .soonest = NEVER},
     }},
    {"media",
     "frames of 0.5 to 2 MiB aligned to 64 bytes, passed from stage to stage (picture sizes)",
     5,
     20000,
     {
         {.share = 20,
          .least = 2088960,
          .most = 2088960,
          .kind = NA_SHAPE_ALIGNED,
          .soonest = 64,
          .latest = 255,
          .from = 1,
          .makers = 1,
          .to = 2,
          .takers = 2},
         {.share = 40,
          .least = 522240,
          .most = 522240,
          .kind = NA_SHAPE_ALIGNED,
          .soonest = 64,
          .latest = 255,
          .from = 1,
          .makers = 1,
          .to = 2,
          .takers = 2},
         {.share = 200,
          .least = 32,
          .most = 511,
          .kind = NA_SHAPE_CALLOC,
          .soonest = 64,
          .latest = 255,
          .from = 1,
          .makers = 1,
          .to = 2,
          .takers = 2},
         {.share = 150,
          .least = 1024,
          .most = 131071,
          .soonest = 16,
          .latest = 127,
          .to = 1,
          .takers = 1},
         {.share = 300,
          .least = 32,
          .most = 511,
          .soonest = 1,
          .latest = 15,
          .from = 1,
          .makers = 3},
         {.share = 60,
          .least = 4096,
          .most = 262143,
          .kind = NA_SHAPE_ALIGNED,
          .soonest = 1,
          .latest = 7,
          .from = 2,
          .makers = 2},
         {.share = 20, .least = 16, .most = 1023, .soonest = NEVER},
         {.share = 1, .least = 4194304, .most = 16777215, .soonest = 512, .latest = 2047},
     }},
};

#define SHAPES (sizeof shapes / sizeof *shapes)

const na_shape_t *na_shape_find(const char *text, char *error, size_t size) {
    const char *name = text + sizeof NA_SHAPE_PREFIX - 1;
    size_t length = 0;
    for (size_t i = 0; i < SHAPES; i++)
        if (strcmp(shapes[i].name, name) == 0) return &shapes[i];
    length = (size_t)snprintf(error, size, "no shape '%.64s'; there are:", name);
    for (size_t i = 0; i < SHAPES && length < size; i++)
        length += (size_t)snprintf(error + length, size - length, " %s", shapes[i].name);
    return NULL;
}

void na_shape_list(void) {
    for (size_t i = 0; i < SHAPES; i++)
        printf(NA_SHAPE_PREFIX "%-12s %s\n", shapes[i].name, shapes[i].summary);
}

/* ---- Drawing ----------------------------------------------------------------------------------
 */

typedef struct block {
    uint32_t next; /* of those whose time comes with it, plus 1 */
    uint32_t size;
    uint8_t group, maker, taker, grows;
} block_t;

typedef struct drawing {
    const na_shape_t *shape;
    na_prng_t prng;
    uint32_t *due;  /* [allocations + 1]: the block added last of those whose time it is, plus 1 */
    block_t *block; /* [allocations] */
    void (*event)(void *to, const na_shape_event_t *event);
    void *to;
} drawing_t;

static uint32_t draw_below(drawing_t *d, uint64_t bound) {
    return (uint32_t)na_prng_scale(na_prng_next(&d->prng), bound);
}

static uint64_t draw_range(drawing_t *d, uint64_t least, uint64_t most) {
    uint32_t octaves = 1;
    while (least << octaves <= most)
        octaves++;
    uint64_t low = least << draw_below(d, octaves), high = 2 * low - 1;
    if (high > most) high = most;
    return low + draw_below(d, high - low + 1);
}

/* When its time comes again; later than the last allocation: never. */
static void set_due(drawing_t *d, uint32_t index, uint32_t now) {
    block_t *block = &d->block[index];
    const group_t *group = &d->shape->group[block->group];
    if (group->soonest == NEVER) return;
    uint64_t when = group->phase != 0 ? (uint64_t)(now / group->phase + 1) * group->phase
                                      : now + draw_range(d, group->soonest, group->latest);
    if (when > d->shape->allocations) return;
    block->next = d->due[when];
    d->due[when] = index + 1;
}

static void pass(drawing_t *d, uint32_t now) {
    for (uint32_t next = d->due[now]; next != 0;) {
        uint32_t index = next - 1;
        block_t *block = &d->block[index];
        next = block->next;
        if (block->grows > 0) {
            block->grows--;
            block->size *= 2;
            d->event(d->to,
                     &(na_shape_event_t){NA_SHAPE_REALLOC, block->maker, index, block->size});
            set_due(d, index, now);
        } else {
            d->event(d->to, &(na_shape_event_t){NA_SHAPE_FREE, block->taker, index, 0});
        }
    }
}

static void make_block(drawing_t *d, uint32_t now, uint32_t shares) {
    const na_shape_t *shape = d->shape;
    uint32_t at = draw_below(d, shares);
    uint8_t which = 0;
    while (at >= shape->group[which].share)
        at -= shape->group[which++].share;
    const group_t *group = &shape->group[which];
    uint64_t size = draw_range(d, group->least, group->most);
    if (group->drift != 0) size += size * (group->drift - 1u) * now / shape->allocations;
    block_t *block = &d->block[now];
    *block = (block_t){.size = (uint32_t)size, .group = which, .grows = group->grows};
    if (group->makers != 0) block->maker = (uint8_t)(group->from + draw_below(d, group->makers));
    block->taker = block->maker;
    if (group->takers != 0) block->taker = (uint8_t)(group->to + draw_below(d, group->takers));
    d->event(d->to, &(na_shape_event_t){group->kind, block->maker, now, block->size});
    set_due(d, now, now);
}

void na_shape_draw(const na_shape_t *shape, void (*event)(void *to, const na_shape_event_t *event),
                   void *to) {
    size_t dues = ((size_t)shape->allocations + 1) * sizeof(uint32_t),
           blocks = (size_t)shape->allocations * sizeof(block_t);
    drawing_t d = {.shape = shape,
                   .prng = na_prng_make(shape->seed, 0),
                   .due = na_bench_map(dues),
                   .block = na_bench_map(blocks),
                   .event = event,
                   .to = to};
    uint32_t shares = 0;
    for (size_t i = 0; i < GROUPS_MAX; i++)
        shares += shape->group[i].share;
    for (uint32_t now = 0; now < shape->allocations; now++) {
        pass(&d, now);
        make_block(&d, now, shares);
    }
    pass(&d, shape->allocations);
    munmap(d.due, dues);
    munmap(d.block, blocks);
}
