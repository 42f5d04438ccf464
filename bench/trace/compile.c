/* compile.c - numalloc-bench-compile: the program of a replay (bench/replay/program.h) of a trace.
 *
 *   numalloc-bench-compile TRACE|shape:NAME DESCRIPTOR WINDOW
 *
 * It reads the events of all threads in their order, knows the block at each address, and writes
 * every call into the operations of its thread. When a block is made nobody knows yet who will take
 * it: it gets a slot of its thread's, and if another thread takes it, the operation that made it is
 * changed to name a slot that only this block has. The program goes to the open file DESCRIPTOR.
 *
 * Never a crash on a hostile file: what the reader (reader.h) gives is checked there, and what this
 * makes of it is no larger than the memory that is free. */
#include "bench/replay/program.h"
#include "bench/replay/shape.h"
#include "bench/suite/limits.h"
#include "profiler/containers/array.h"
#include "profiler/containers/index.h"
#include "profiler/format/reader/events.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define NO_WINDOW    UINT32_MAX
#define NO_THREAD    UINT32_MAX
#define THREADS_MAX  (UINT32_C(1) << 20) /* indices in the trace */
#define MAIL         (UINT32_C(1) << 26) /* of a slot, until all are known: of one block alone */
#define BATCH        4096u               /* events taken at once, */
#define LOOK_AHEAD   64u                 /* and how far the second event of a realloc may be */
#define CREATOR_NEAR 64u                 /* events; see thread_of */

/* A block that lives. */
typedef struct block {
    uint64_t address; /* 0: a free place; its `slot` is the next one's number + 1 */
    uint64_t size;
    uint64_t unit;  /* of its maker's, which names its slot */
    uint32_t maker; /* thread of the program */
    uint32_t slot;
} block_t;

typedef struct maker {
    na_replay_unit_t *unit;
    uint64_t units, room;
    uint32_t *spare; /* slots of this thread without a block */
    uint64_t spares, spare_room;
    uint32_t window;
    block_t leaving;  /* MOVED was its last event: the block that realloc took; address 0: none */
    uint64_t coming;  /* and the address of the one that it will give */
    na_event_t waits; /* REALLOC whose MOVED comes next; address 0: none */
} maker_t;

typedef struct compiler {
    const char *path;
    na_replay_head_t head;
    maker_t *maker;
    uint64_t maker_room;
    uint32_t *number_of; /* [THREADS_MAX]: program's thread + 1 of a trace's; 0: not seen yet */
    uint32_t *in_window;
    uint64_t window_room;
    block_t *block; /* live ones and free places */
    uint32_t places, block_room, free_place;
    na_index_t index; /* of live ones, by address */
    uint64_t odd;
    uint64_t live_bytes;
    uint64_t calls;
    uint64_t made; /* bytes of all arrays, checked against `most` */
    uint64_t most;
    uint32_t own_slots, mail_slots;
    uint32_t last_thread, calloc_thread; /* of the program */
    uint64_t calloc_at;                  /* event */
} compiler_t;

_Noreturn __attribute__((format(printf, 2, 3))) static void refuse(const compiler_t *c,
                                                                   const char *format, ...) {
    va_list arguments;
    fprintf(stderr, "numalloc-bench: replay: ");
    if (c != NULL) fprintf(stderr, "'%s' ", c->path);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(NA_REPLAY_REFUSED);
}

/* Counts what an array or table grows by. */
static void count_made(compiler_t *c, uint64_t bytes) {
    c->made += bytes;
    if (c->made > c->most)
        refuse(c, "needs more than the %llu MiB of memory that are free",
               (unsigned long long)(c->most >> 20));
}

static void *resized(compiler_t *c, void *items, uint64_t room, uint64_t more, size_t each) {
    count_made(c, (more - room) * each);
    return reallocarray(items, more, each);
}

/* Room for one item more than `count`. */
#define RESERVE(c, items, room, count)                                                             \
    do {                                                                                           \
        if (!NA_ARRAY_RESERVE_FROM((items), (room), (count) + 1,                                   \
                                   resized((c), (items), (room), na_more, sizeof *(items))))       \
            refuse((c), "needs more memory than there is");                                        \
    } while (0)

/* ---- Blocks by address ------------------------------------------------------------------------
 */

/* No file can know which addresses collide. */
static uint64_t hash_of_block(const compiler_t *c, uint64_t address) {
    return (address >> 4) * c->odd;
}

/* None begins at its address. */
static void insert_block(compiler_t *c, const block_t *block) {
    uint32_t number = c->free_place != 0 ? c->free_place - 1 : c->places;
    RESERVE(c, c->block, c->block_room, number);
    uint32_t slots = na_index_wants(&c->index);
    if (slots != 0) count_made(c, (slots - (uint64_t)c->index.room) * sizeof *c->index.slots);
    if (!na_index_add(&c->index, hash_of_block(c, block->address), number))
        refuse(c, "needs more memory than there is");
    if (number == c->places)
        c->places++;
    else
        c->free_place = c->block[number].slot;
    c->block[number] = *block;
}

/* False: none begins at the address. */
static bool remove_block(compiler_t *c, uint64_t address, block_t *out) {
    if (address == 0) return false;
    na_probe_t probe = na_index_probe(&c->index, hash_of_block(c, address));
    while (na_index_next(&c->index, &probe)) {
        block_t *found = &c->block[probe.number];
        if (found->address != address) continue;
        *out = *found;
        *found = (block_t){.slot = c->free_place};
        c->free_place = probe.number + 1;
        na_index_remove(&c->index, &probe);
        return true;
    }
    return false;
}

/* ---- Operations -------------------------------------------------------------------------------
 */

static void add_unit(compiler_t *c, uint32_t thread, uint32_t what, uint32_t size) {
    maker_t *maker = &c->maker[thread];
    RESERVE(c, maker->unit, maker->room, maker->units);
    maker->unit[maker->units++] = (na_replay_unit_t){what, size};
}

/* A call of the thread: it belongs to the next place of the order of all. */
static void begin_call(compiler_t *c, uint32_t thread) {
    uint64_t window = c->calls++ / c->head.window;
    if (window >= NO_WINDOW) refuse(c, "has too many events; give a larger --window");
    if (c->maker[thread].window == window) return;
    c->maker[thread].window = (uint32_t)window;
    if (window == c->head.windows) {
        RESERVE(c, c->in_window, c->window_room, window);
        c->in_window[window] = 0;
        c->head.windows++;
    }
    c->in_window[window]++;
    add_unit(c, thread, na_replay_what(NA_REPLAY_WINDOW, 0), (uint32_t)window);
}

static void add_sized(compiler_t *c, uint32_t thread, uint32_t kind, uint32_t slot, uint64_t size) {
    if (size <= UINT32_MAX) {
        add_unit(c, thread, na_replay_what(kind, slot), (uint32_t)size);
        return;
    }
    uint64_t pages = size / 4096 + (size % 4096 != 0);
    if (pages > UINT32_MAX) refuse(c, "asks for a block of %llu bytes", (unsigned long long)size);
    add_unit(c, thread, na_replay_what(kind + NA_REPLAY_PAGES, slot), (uint32_t)pages);
}

static uint32_t take_spare(compiler_t *c, uint32_t thread) {
    maker_t *maker = &c->maker[thread];
    if (maker->spares != 0) return maker->spare[--maker->spares];
    if (c->own_slots == MAIL) refuse(c, "has more than %u live blocks", MAIL);
    return c->own_slots++;
}

static void give_spare(compiler_t *c, uint32_t thread, uint32_t slot) {
    maker_t *maker = &c->maker[thread];
    RESERVE(c, maker->spare, maker->spare_room, maker->spares);
    maker->spare[maker->spares++] = slot;
}

/* The slot from which the thread takes the block. */
static uint32_t slot_to_take(compiler_t *c, uint32_t thread, const block_t *block) {
    give_spare(c, block->maker, block->slot);
    if (block->maker == thread) return block->slot;
    if (c->mail_slots == MAIL) refuse(c, "has more than %u blocks handed over", MAIL);
    uint32_t slot = MAIL | c->mail_slots++;
    uint32_t *what = &c->maker[block->maker].unit[block->unit].what;
    *what = (*what & ~NA_REPLAY_SLOT_MASK) | slot;
    c->head.handed++;
    return slot;
}

static void count_live_bytes(compiler_t *c, uint64_t came, uint64_t went) {
    c->live_bytes += came - went;
    c->head.bytes += came;
    if (c->live_bytes <= c->head.peak_bytes) return;
    c->head.peak_bytes = c->live_bytes;
    c->head.peak_blocks = c->index.count;
}

static void add_free_call(compiler_t *c, uint32_t thread, const block_t *block) {
    begin_call(c, thread);
    add_unit(c, thread, na_replay_what(NA_REPLAY_FREE, slot_to_take(c, thread, block)), 0);
    c->head.frees++;
    count_live_bytes(c, 0, block->size);
}

/* A block lives where another is said to live: the end of that one is not in the trace. */
static void make_way(compiler_t *c, uint32_t thread, uint64_t address) {
    block_t old;
    if (!remove_block(c, address, &old)) return;
    c->head.replaced++;
    add_free_call(c, thread, &old);
}

static void add_allocation(compiler_t *c, uint32_t thread, const na_event_t *event) {
    make_way(c, thread, event->address);
    begin_call(c, thread);
    uint32_t kind = event->kind == NA_NPROF_EVENT_CALLOC ? NA_REPLAY_CALLOC
                    : event->align != 0                  ? NA_REPLAY_ALIGNED
                                                         : NA_REPLAY_MALLOC;
    block_t block = {.address = event->address,
                     .size = event->size,
                     .unit = c->maker[thread].units,
                     .maker = thread,
                     .slot = take_spare(c, thread)};
    add_sized(c, thread, kind, block.slot, event->size);
    if (kind == NA_REPLAY_ALIGNED) {
        if (event->align > 46) refuse(c, "asks for an alignment of 2^%u", event->align);
        add_unit(c, thread, event->align, 0);
    }
    insert_block(c, &block);
    c->head.allocations++;
    count_live_bytes(c, event->size, 0);
}

/* `old` is no longer in the table. */
static void add_realloc(compiler_t *c, uint32_t thread, const block_t *old, uint64_t address,
                        uint64_t size) {
    make_way(c, thread, address);
    begin_call(c, thread);
    uint32_t from = slot_to_take(c, thread, old);
    block_t block = {.address = address,
                     .size = size,
                     .unit = c->maker[thread].units + 1,
                     .maker = thread,
                     .slot = take_spare(c, thread)};
    add_sized(c, thread, NA_REPLAY_REALLOC, from, size);
    add_unit(c, thread, block.slot, old->size < UINT32_MAX ? (uint32_t)old->size : UINT32_MAX);
    insert_block(c, &block);
    c->head.reallocs++;
    count_live_bytes(c, size, old->size);
}

/* ---- Events -----------------------------------------------------------------------------------
 */

static uint32_t new_thread(compiler_t *c, uint32_t index) {
    uint32_t thread = c->head.threads;
    RESERVE(c, c->maker, c->maker_room, thread);
    c->maker[thread] = (maker_t){.window = NO_WINDOW};
    c->head.threads++;
    c->number_of[index] = thread + 1;
    return thread;
}

/* The program's thread of an event. A new one begins in the thread that made it: what the C library
 * callocs for a thread is the last that its maker does before, a few events earlier. */
static uint32_t thread_of(compiler_t *c, const na_event_t *event) {
    uint32_t index = event->thread < THREADS_MAX ? event->thread : 0;
    if (c->number_of[index] != 0) return c->number_of[index] - 1;
    if (index == 0) return 0; /* one that had no entry */
    uint32_t thread = new_thread(c, index);
    uint32_t creator = c->last_thread;
    if (c->calloc_thread != NO_THREAD && event->index - c->calloc_at < CREATOR_NEAR)
        creator = c->calloc_thread;
    add_unit(c, creator, na_replay_what(NA_REPLAY_THREAD, 0), thread);
    return thread;
}

/* Whether MOVED is what the thread of this REALLOC does next, and of its block. */
static bool moves(const na_event_t *event, const na_event_t *end) {
    for (const na_event_t *next = event + 1; next < end && next - event < LOOK_AHEAD; next++)
        if (next->thread == event->thread)
            return next->kind == NA_NPROF_EVENT_MOVED && next->moved_to == event->address;
    return false;
}

static void left_over(compiler_t *c, uint32_t thread) {
    maker_t *maker = &c->maker[thread];
    if (maker->leaving.address == 0) return;
    block_t old = maker->leaving;
    maker->leaving.address = 0;
    add_free_call(c, thread, &old);
}

static void play_event(compiler_t *c, const na_event_t *event, const na_event_t *end) {
    uint32_t thread = thread_of(c, event);
    maker_t *maker = &c->maker[thread];
    block_t old;
    if (event->kind == NA_NPROF_EVENT_MOVED) {
        bool known = !event->before && remove_block(c, event->address, &old);
        if (maker->waits.address != 0 && maker->waits.address == event->moved_to) {
            na_event_t made = maker->waits;
            maker->waits.address = 0;
            if (known) {
                add_realloc(c, thread, &old, made.address, made.size);
                c->head.moved++;
            } else {
                c->head.left_out++;
                made.kind = NA_NPROF_EVENT_MALLOC;
                add_allocation(c, thread, &made);
            }
        } else if (known) {
            left_over(c, thread);
            maker->leaving = old;
            maker->coming = event->moved_to;
        } else {
            c->head.left_out++;
        }
    } else if (event->kind >= NA_NPROF_EVENT_FREE) {
        left_over(c, thread);
        if (!event->before && remove_block(c, event->address, &old))
            add_free_call(c, thread, &old);
        else
            c->head.left_out++;
    } else if (event->kind == NA_NPROF_EVENT_RESIZE) {
        left_over(c, thread);
        if (remove_block(c, event->address, &old))
            add_realloc(c, thread, &old, event->address, event->size);
        else
            add_allocation(c, thread, event);
    } else if (event->kind == NA_NPROF_EVENT_REALLOC && maker->leaving.address != 0 &&
               maker->coming == event->address) {
        old = maker->leaving;
        maker->leaving.address = 0;
        add_realloc(c, thread, &old, event->address, event->size);
        c->head.moved++;
    } else {
        left_over(c, thread);
        if (event->kind == NA_NPROF_EVENT_REALLOC && moves(event, end))
            maker->waits = *event;
        else
            add_allocation(c, thread, event);
        if (event->kind == NA_NPROF_EVENT_CALLOC) {
            c->calloc_thread = thread;
            c->calloc_at = event->index;
        }
    }
    c->last_thread = thread;
}

static void play_all(compiler_t *c, na_reader_t *reader) {
    static na_event_t batch[BATCH];
    na_events_t *events = na_events_open(reader);
    if (events == NULL) refuse(c, "needs more memory than there is");
    size_t have = 0, got;
    do {
        got = na_events_take(events, batch + have, BATCH - have);
        have += got;
        /* What a realloc looks ahead for stays, as long as more may come. */
        size_t play = got == 0 ? have : have > LOOK_AHEAD ? have - LOOK_AHEAD : 0;
        for (size_t i = 0; i < play; i++)
            play_event(c, &batch[i], batch + have);
        c->head.events += play;
        memmove(batch, batch + play, (have - play) * sizeof *batch);
        have -= play;
    } while (got != 0);
    na_events_close(events);
    for (uint32_t t = 0; t < c->head.threads; t++)
        left_over(c, t);
}

/* A made-up event, as a trace would have it. Blocks lie at addresses of their own, and realloc
 * leaves them there. */
static void play_shape_event(void *to, const na_shape_event_t *drawn) {
    static const uint8_t kinds[] = {
        [NA_SHAPE_MALLOC] = NA_NPROF_EVENT_MALLOC,   [NA_SHAPE_CALLOC] = NA_NPROF_EVENT_CALLOC,
        [NA_SHAPE_ALIGNED] = NA_NPROF_EVENT_ALIGNED, [NA_SHAPE_REALLOC] = NA_NPROF_EVENT_RESIZE,
        [NA_SHAPE_FREE] = NA_NPROF_EVENT_FREE,
    };
    compiler_t *c = to;
    na_event_t event = {.index = c->head.events++,
                        .address = ((uint64_t)drawn->block + 1) * 64,
                        .size = drawn->size,
                        .thread = drawn->thread + 1,
                        .kind = kinds[drawn->kind],
                        .align = drawn->kind == NA_SHAPE_ALIGNED ? 6 : 0};
    play_event(c, &event, &event + 1);
}

/* ---- The file ---------------------------------------------------------------------------------
 */

/* Slots of single blocks follow those of threads. Also the print of all operations. */
static void settle_slots(compiler_t *c) {
    uint64_t print = UINT64_C(0xcbf29ce484222325);
    c->head.slots = (uint64_t)c->own_slots + c->mail_slots;
    if (c->head.slots >= NA_REPLAY_SLOT_MASK) refuse(c, "has too many blocks handed over");
    for (uint32_t t = 0; t < c->head.threads; t++) {
        add_unit(c, t, na_replay_what(NA_REPLAY_END, 0), 0);
        maker_t *maker = &c->maker[t];
        bool second = false;
        for (uint64_t i = 0; i < maker->units; i++) {
            uint32_t *what = &maker->unit[i].what;
            uint32_t kind = *what >> NA_REPLAY_SLOT_BITS & (NA_REPLAY_PAGES - 1);
            bool aligned = !second && kind == NA_REPLAY_ALIGNED;
            if ((*what & MAIL) != 0)
                *what = (*what & ~NA_REPLAY_SLOT_MASK) | (c->own_slots + (*what & (MAIL - 1)));
            second = !second && kind == NA_REPLAY_REALLOC;
            print = (print ^ *what) * UINT64_C(0x100000001b3);
            print = (print ^ maker->unit[i].size) * UINT64_C(0x100000001b3);
            if (aligned) i++; /* its second unit names no slot */
        }
        c->head.units += maker->units;
    }
    c->head.print = print;
}

static void write_program(compiler_t *c, int file) {
    uint64_t bytes = na_replay_bytes(&c->head), first = 0;
    if (ftruncate(file, (off_t)bytes) != 0)
        refuse(c, "cannot be made a program of %llu bytes: %s", (unsigned long long)bytes,
               strerror(errno));
    char *to = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (to == MAP_FAILED)
        refuse(c, "cannot be made a program of %llu bytes: %s", (unsigned long long)bytes,
               strerror(errno));
    memcpy(to, &c->head, sizeof c->head);
    to += sizeof c->head;
    for (uint32_t t = 0; t < c->head.threads; t++) {
        na_replay_thread_t thread = {first, c->maker[t].units};
        memcpy(to, &thread, sizeof thread);
        to += sizeof thread;
        first += thread.units;
    }
    if (c->head.windows != 0) memcpy(to, c->in_window, c->head.windows * sizeof *c->in_window);
    to += (c->head.windows * sizeof *c->in_window + 7) & ~(size_t)7;
    for (uint32_t t = 0; t < c->head.threads; t++) {
        memcpy(to, c->maker[t].unit, c->maker[t].units * sizeof(na_replay_unit_t));
        to += c->maker[t].units * sizeof(na_replay_unit_t);
    }
}

/* The thread with the process's id, or the first one that did anything. */
static uint32_t main_index(const na_nprof_header_t *header, na_reader_t *reader) {
    na_thread_table_t threads = na_reader_threads(reader);
    for (uint32_t i = 1; i < threads.count && i < THREADS_MAX; i++)
        if (threads.items[i].tid == (uint32_t)header->pid) return i;
    return 1;
}

static void compile_shape(compiler_t *c) {
    char text[512];
    const na_shape_t *shape = na_shape_find(c->path, text, sizeof text);
    if (shape == NULL) refuse(NULL, "%s", text);
    new_thread(c, 1);
    na_shape_draw(shape, play_shape_event, c);
}

/* How many events the trace lacks at its beginning. */
static uint64_t compile_trace(compiler_t *c) {
    char text[512];
    na_reader_t *reader = na_reader_open(c->path, text, sizeof text);
    if (reader == NULL) refuse(NULL, "%s", text);
    const na_nprof_header_t *header = na_reader_header(reader);
    if (header->mode != NA_NPROF_MODE_TRACE)
        refuse(c, "is a profile of mode %s; replay needs a trace (NUMALLOC_PROFILE=trace)",
               header->mode == NA_NPROF_MODE_SITES ? "sites" : "sample");
    new_thread(c, main_index(header, reader));
    play_all(c, reader);
    if (na_reader_issue_count(reader) != 0) {
        na_reader_issue_text(reader, 0, text, sizeof text);
        refuse(c, "is damaged: %s; record it again", text);
    }
    if (c->calls == 0) refuse(c, "has no events that could be played");
    uint64_t dropped = header->dropped_events;
    na_reader_close(reader);
    return dropped;
}

int main(int argc, char **argv) {
    compiler_t c = {.calloc_thread = NO_THREAD};
    uint64_t file, window, dropped = 0;
    if (argc != 4 || !na_knobs_number(argv[2], 0, 1 << 20, &file) ||
        !na_knobs_number(argv[3], 1, UINT32_MAX, &window))
        refuse(NULL, "numalloc-bench-compile is for numalloc-bench; use numalloc-bench replay");
    c.path = argv[1];
    c.most = na_limits_memory() / 3;
    c.number_of = calloc(THREADS_MAX, sizeof *c.number_of);
    if (c.number_of == NULL || getrandom(&c.odd, sizeof c.odd, 0) < 0)
        refuse(&c, "needs more memory than there is");
    c.odd |= 1;
    c.head = (na_replay_head_t){
        .magic = NA_REPLAY_MAGIC, .version = NA_REPLAY_VERSION, .window = (uint32_t)window};
    if (na_shape_named(c.path))
        compile_shape(&c);
    else
        dropped = compile_trace(&c);
    c.head.left_bytes = c.live_bytes;
    c.head.left_blocks = c.index.count;
    settle_slots(&c);
    write_program(&c, (int)file);
    if (dropped != 0)
        fprintf(stderr,
                "numalloc-bench: replay: '%s' lacks its first %llu events (NUMALLOC_TRACE_MAX): "
                "what is left is played\n",
                c.path, (unsigned long long)dropped);
    return 0;
}
