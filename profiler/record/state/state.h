/* state.h - what the recorder's files share: the one profile of this process, and its threads.
 *
 * Everything reachable from here lies in mappings of the recorder's own that a forked child does
 * not inherit. One thread is inside the recorder at most once (a flag in TLS), so its own state
 * needs no protection; an event inside a signal handler that interrupted an event is counted as
 * lost. Locks are held for a few stores or one system call, and never while calling out. */
#ifndef NUMALLOC_PROFILER_RECORD_STATE_STATE_H
#define NUMALLOC_PROFILER_RECORD_STATE_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"
#include "alloc/core/sys/lock.h"
#include "numalloc/instrument.h"
#include "profiler/format/nprof_check.h"
#include "profiler/format/nprof_control.h"
#include "profiler/format/nprof_leaks.h"
#include "profiler/format/nprof_trace.h"
#include "profiler/record/state/record.h"
#include "profiler/record/unwind/frames.h"

#define NA_STACK_MAX   1024u /* frames recorded of a stack that is not kept (frames.h) */
#define NA_QUANTUM     (64 << 10)
#define NA_COUNT_SCALE 256u /* of counts in mode sample */
#define NA_AGE_SHIFT   8u   /* lifetimes are in 2^8 ticks, some 85 to 256 ns */

/* One slot of a thread's site -> cell table. A cell's offset in the file is cell * 64. */
typedef struct na_cell_slot {
    uint32_t site, cell;
} na_cell_slot_t;

/* Nodes of the shared tree that the thread has met (stacks.c), four to a cache line: a large
 * program's are met all over, and each look-up is a line. */
#define NA_EDGE_BITS 8 /* log2 of the places at first */
typedef struct na_edge {
    uint64_t pc48_parent16;          /* 0: none; the parent's lower bits */
    uint64_t parent12_node28_cell24; /* its upper ones; the thread's cell of the node, as in
                                      * na_cell_slot_t, 0: not known */
} na_edge_t;
typedef struct na_edge_pair {
    na_edge_t edge[2]; /* the one met later first */
} na_edge_pair_t;

/* A realloc that copies is under way: the block that its old one becomes. It counts from the
 * moment at which the old one does no more. */
typedef struct na_moving {
    const void *block; /* NULL: none */
    na_record_t *record;
    na_nprof_cell_t *cell; /* mode trace: none */
    uint64_t requested, usable;
    uint64_t ticks; /* when it was taken; mode trace: since the start of the profile */
    uint32_t site;
    na_entry_t entry;
    bool kept; /* nothing is copied: the block stays, or its pages are moved */
} na_moving_t;

typedef struct na_rthread {
    struct na_rthread *next;     /* in the list of idle ones */
    struct na_rthread *all_next; /* in the list of all; constant */
    uint32_t index;              /* in the THREADS table, 0: lost */
    uint32_t known_as;           /* in records: the same, or a number that others have, too */
    uint32_t shared_index;       /* of the entry that the place's later threads share; 0: none */
    na_nprof_thread_t *shared;
    uint8_t node;             /* of the cpu at the last allocation */
    uint64_t record_rest;     /* words[1] of the record of such a one, but for its birth */
    uintptr_t owner;          /* thread pointer of its thread, 0: idle */
    na_nprof_thread_t *entry; /* never NULL; a scratch entry if lost */
    na_nprof_thread_t scratch;
    /* not yet added to the global figures */
    int64_t published_bytes, published_count; /* of what the entry's allocs less frees come to */
    int64_t high, low;                        /* of those bytes, since published */
    int64_t above, below;                     /* bytes at which to publish next */
    uint64_t due;                             /* ticks at which to publish next */
    int64_t base_bytes, base_count;           /* of the entry, when this thread began */
    uint64_t base_allocs, base_alloc_bytes;   /* the same */
    uint64_t noted_allocs, noted_bytes;       /* the timeline knows of */
    uint64_t series_ms;                       /* when the series were told last */
    /* the event before */
    const void *last_block; /* allocated last */
    uint64_t last_size;     /* its size as asked for */
    na_nprof_cell_t *last_cell;
    uint32_t last_alloc_site;
    bool after_alloc; /* and that was the last event */
    na_moving_t moving;
    /* This place's part of the figures by size and node; goes on when another thread takes it. */
    na_nprof_sizes_t *sizes; /* never NULL */
    uint64_t noted_sizes[NA_NPROF_SIZE_BUCKETS];
    /* The last: of a thread whose memory is bound to none. */
    int64_t node_bytes[NA_NPROF_MAX_NODES + 1], noted_nodes[NA_NPROF_MAX_NODES];
    uint64_t stack_looked_ms;
    /* cells */
    na_cell_slot_t *cells;
    uint32_t cell_mask, cell_used;
    na_nprof_chunk_t *cell_chunk; /* being filled */
    uint32_t cell_chunks;
    na_nprof_chunk_t *lives_chunk;
    uint32_t lives_chunks;
    /* stacks */
    na_frames_t frames;
    na_edge_pair_t *edges; /* few_edges, or larger */
    uint32_t edge_bits, edge_misses;
    _Alignas(64) na_edge_pair_t few_edges[1u << NA_EDGE_BITS];
    /* Of the stack captured last: where its cell is noted. */
    uint32_t *stack_cell; /* with the innermost frame, and on its edge; NULL: not there */
    na_edge_t
        *stack_edge; /* else here, and in the tail if that is of this stack; NULL: not there */
    na_frame_tail_t *stack_tail;
    uintptr_t pcs[NA_STACK_MAX + 2]; /* of a stack that is not kept */
    struct na_py_thread *python;     /* python/python.h; NULL: no Python frame was looked for */
    bool native;                     /* the native part of a stack is being captured */
    /* mode trace: where the next event goes (trace.h) */
    na_nprof_buffer_t *trace;
    na_nprof_unit_t *trace_at, *trace_end;
    uint64_t trace_last; /* stamp of the last event */
    uint64_t trace_move; /* stamp of before_move */
} na_rthread_t;

typedef struct na_recorder {
    /* The file is mapped here, and moves where it cannot grow (file/space.h). What was mapped
     * before stays: pointers into the file are good for ever, but only offsets can be compared. */
    uint8_t *base;
    na_nprof_header_t *header; /* NULL: no profile is open, nor being opened */
    _Atomic bool ready;        /* all of it is set up; set last, and nobody comes in before */
    int fd;
    uint64_t dev, ino;
    na_lock_t grow;
    /* Guarded by `grow`. */
    uint64_t on_disk, mapped_to; /* so far the file exists, and is mapped */
    uint64_t unmapped;           /* bytes of the file that were written, never through a mapping */
    bool frozen;                 /* the mapping is not the file's any more: it does not grow */
    /* Own memory that is not in the file. */
    _Atomic uint64_t own_used, own_given_back; /* the latter of the former */
    /* Constant while a profile is open. */
    bool sampling, tracing;
    bool locked;  /* na_nprof_header_t */
    bool unnamed; /* the file has no name: nobody reads it but this process */
    double interval;
    uint64_t own_limit;       /* 0: none */
    uint64_t (*mapped)(void); /* see na_profile_config_t, as the next ones */
    void (*each_records_room)(void (*visit)(void *arg, uintptr_t start, size_t bytes), void *arg);
    uint64_t (*mapped_on)(unsigned node);
    uint32_t (*threads_most)(bool from_now);
    const na_record_t *(*record_of)(const void *block);
    bool many_nodes, free_sites;
    uint64_t start_ticks, tick_mult; /* ms = ticks * tick_mult >> 64 */
    bool tsc;
    _Atomic uint64_t publish_ticks; /* a thread publishes at least so often, if it does anything */
    _Atomic bool closed;
    _Atomic bool lost; /* the file has lost what was in it: it is left as it is (guard.c) */
    _Atomic bool lost_said;
    /* Live figures of all threads, as published. */
    _Atomic int64_t live_bytes, live_count;
    _Atomic int64_t node_live[NA_NPROF_MAX_NODES];
    na_lock_t peak;
    _Atomic uint64_t next_sum;                /* ticks; see sites.c */
    _Atomic int64_t ended_bytes, ended_count; /* of threads that are no more */
    _Atomic uint64_t ended_allocs, ended_alloc_bytes;
    _Atomic uint32_t places;
    _Atomic uint32_t threads_attached; /* ever */
    _Atomic(na_rthread_t *) idle;
    _Atomic(na_rthread_t *) all; /* ever made */
    na_lock_t tables;            /* THREADS and MODULES chunks */
    na_nprof_chunk_t *thread_chunk, *module_chunk;
    uint32_t thread_chunks, module_chunks, next_thread, next_module;
    uint32_t threads_beyond; /* that have no entry of their own */
} na_recorder_t;

extern NA_NEAR na_recorder_t na_rec;

/* What lies at that offset of the file. Who has an offset has it from a thread that met a base at
 * which it is mapped, and any later base will do. */
NA_INLINE void *na_rec_at(uint64_t offset) {
    return __atomic_load_n(&na_rec.base, __ATOMIC_RELAXED) + offset;
}

NA_INLINE void na_rec_move_base(uint8_t *base) {
    __atomic_store_n(&na_rec.base, base, __ATOMIC_RELEASE);
}

/* Something is missing from the profile: one of the header's counts, and their sum. */
NA_INLINE void na_rec_lose(uint64_t *count, uint64_t by) {
    __atomic_fetch_add(count, by, __ATOMIC_RELAXED);
    __atomic_fetch_add(&na_rec.header->missing, by, __ATOMIC_RELAXED);
}

/* Lifetimes are measured in these; birth in registry records is one. */
NA_INLINE uint64_t na_ages(uint64_t ticks) {
    return ticks >> NA_AGE_SHIFT;
}

/* ---- record.c ---- */
/* Reads 0 in a child that no fork handler has seen; otherwise NA_REC_OPEN, or NA_REC_CLOSED where
 * that is known of the profile; NA_REC_TURNING while the first thread there sees to it. */
#define NA_REC_OPEN    1u
#define NA_REC_CLOSED  2u
#define NA_REC_TURNING 3u
extern NA_NEAR _Atomic uint32_t *na_rec_sentinel;
/* This process is a child: forgets the parent's profile; the first event begins another. */
NA_COLD void na_rec_became_child(void);
/* The same, when the thread has been interrupted inside the recorder: what it is at goes on without
 * effect, and the next event finds that this is a child. */
NA_COLD void na_rec_became_child_inside(void);
/* The same where no handler did, at an event of whichever thread: the others wait. */
NA_COLD void na_rec_find_child(void);
/* The child's first event. Other threads' wait until the profile is ready. False: no profile, now
 * or ever. */
NA_COLD bool na_rec_begin_in_child(void);
/* The process ends: waits for a profile that another thread is just beginning; none begins after.
 */
void na_rec_begin_no_more(void);
NA_COLD void na_rec_lost_inside(void);
/* Nothing is recorded after it; the file says that the process ended normally. */
void na_rec_close(void);
/* The same for a file that has lost pages. Safe in a signal handler. */
void na_rec_end_at_once(void);

NA_INLINE bool na_rec_is_ready(void) {
    return NA_LIKELY(atomic_load_explicit(&na_rec.ready, memory_order_acquire));
}

/* A profile of this very process is there, if perhaps closed. */
NA_INLINE bool na_rec_is_open(void) {
    uint32_t sentinel = atomic_load_explicit(na_rec_sentinel, memory_order_acquire);
    return sentinel != 0 && sentinel != NA_REC_TURNING && na_rec_is_ready();
}

/* The same for an event, which begins the profile of a child. */
NA_INLINE bool na_rec_ready(void) {
    uint32_t sentinel = atomic_load_explicit(na_rec_sentinel, memory_order_acquire);
    if (NA_UNLIKELY(sentinel == 0) || NA_UNLIKELY(sentinel == NA_REC_TURNING)) na_rec_find_child();
    if (!na_rec_is_ready() && !na_rec_begin_in_child()) return false;
    return NA_LIKELY(!atomic_load_explicit(&na_rec.closed, memory_order_relaxed));
}

/* ---- hooks.c ---- */
extern NA_NEAR na_hooks_t na_rec_hooks;
void na_rec_hooks_set(void);
/* False: the block was recorded in this profile. True: it is from before (counted), or was lost. */
bool na_rec_not_ours_slow(const na_record_t *record, uint64_t usable);
NA_INLINE bool na_rec_not_ours(const na_record_t *record, uint64_t usable) {
    if (NA_LIKELY(record->epoch == na_profile_epoch) &&
        NA_LIKELY(record->site != NA_NPROF_NO_STACK))
        return false;
    return na_rec_not_ours_slow(record, usable);
}

/* ---- clock.c ---- */
uint64_t na_rec_clock_ns(long id); /* by system call */
uint64_t na_rec_ticks(void);       /* of the profile's clock */
uint64_t na_rec_ticks_slow(void);  /* the same, without a time stamp counter to go by */

#if defined(__x86_64__)

/* The time stamp counter: monotone on one core, synchronous over cores on every machine whose
 * kernel calls it invariant. */
NA_INLINE uint64_t na_ticks(void) {
    uint64_t lo, hi; /* their upper halves are cleared */
    __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
    return hi << 32 | lo;
}

#elif defined(__aarch64__)

NA_INLINE uint64_t na_ticks(void) {
    uint64_t t;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(t));
    return t;
}

#else
#error "numalloc's profiler knows x86-64 and aarch64 only"
#endif

/* na_rec_ticks without a call. */
NA_INLINE uint64_t na_rec_now(void) {
    return NA_LIKELY(na_rec.tsc) ? na_ticks() : na_rec_ticks_slow();
}

uint64_t na_rec_ms(void); /* since the start of the profile */
uint64_t na_rec_ms_of(uint64_t ticks);
uint64_t na_rec_ns_of(uint64_t ticks);    /* what so many take; below 2^52 */
uint64_t na_rec_ticks_of_ms(uint64_t ms); /* how many make so long */
/* The time stamp counter serves if the processor says that it never changes its rate. */
bool na_rec_tsc_is_steady(void);
/* One moment by CLOCK_MONOTONIC and by the recorder's clock: the closest of a few readings, for a
 * thread that loses its processor between the two would have them apart by that long. */
void na_rec_both_clocks(uint64_t *mono_ns, uint64_t *ticks);
/* Ticks a second, from a pair of both clocks that was taken some time ago to now. */
uint64_t na_rec_measure_hz(uint64_t mono_ns, uint64_t ticks);

/* ---- header.c ---- */
typedef struct na_header_facts {
    int32_t pid, parent_pid; /* the latter 0: no profile of a parent */
    uint64_t start_unix_ns, parent_start;
    const char *other_malloc; /* NULL or empty: the program calls ours */
} na_header_facts_t;

/* The file's constant part but for magic and checksum, which na_header_seal adds last of all. */
void na_header_fill(const na_header_facts_t *facts);
void na_header_environment(void);
void na_header_seal(void);
/* The path of the executable, before there is a header to read it into. */
void na_header_program(char *name, size_t size);
/* Bounded; always ends with a zero byte. */
void na_rec_copy(char *to, size_t size, const char *from);

/* ---- own.c ---- */
/* All that the process has for the recorder's sake: file, other memory, blocks' records, and of the
 * library the code and variables that only it uses. */
typedef struct na_own {
    uint64_t resident; /* bytes in memory, as the system says of each page */
    uint64_t space;    /* bytes of address space, without the library's */
} na_own_t;
/* False: the system does not say. Reads 8 bytes for each page. One thread at a time. */
bool na_own_measure(na_own_t *own);

/* ---- writer.c ---- */
typedef void (*na_area_fn_t)(void *arg, uintptr_t start, size_t bytes);
/* Makes the file and maps its header; na_rec's file part is set. False: said why on stderr. */
bool na_writer_open(const char *pattern, int32_t pid, uint64_t start_unix_ns, const char *program);
void na_writer_close(void);
/* Finds a place for at most `bytes` of the recorder's own memory; na_writer_open does. */
bool na_own_find_place(uint64_t bytes);
/* The file, or other memory of the recorder, is mapped at the address. Async-signal-safe. */
bool na_writer_has_file_at(uintptr_t address);
bool na_writer_is_own(uintptr_t address);
/* Visits what is in use of both. */
void na_writer_each_area(na_area_fn_t visit, void *arg);
/* Bytes of address space for both. */
uint64_t na_writer_space(void);
/* Where in the file this lies, whichever area it points into. */
uint64_t na_writer_offset(const void *p);
/* Whether a child made by fork has a copy of the recorder's own memory. */
void na_writer_inherit(bool on);
/* In such a child: the file becomes a private copy, too, and is not the parent's any more. */
void na_writer_detach(void);
/* The copies are not needed any more. */
void na_writer_drop(void);
/* A child has no mapping of its parent's. */
void na_writer_forget(void);
/* Closes and removes the file of a profile that could not begin; says so on stderr. */
void na_writer_abandon(void);
/* A chunk of `length` bytes (a multiple of a page), header written, magic not. NULL: the file
 * cannot grow. na_writer_publish makes it exist. Thread-safe. */
na_nprof_chunk_t *na_writer_chunk(uint16_t type, uint64_t length, uint32_t entry_size,
                                  uint32_t thread, uint32_t sequence, uint32_t first_id);
void na_writer_publish(na_nprof_chunk_t *chunk);
/* Appends a sealed chunk: all fields set but magic, self_offset and header_crc; `data` is its
 * length less the header. False: the file cannot grow. Thread-safe. */
bool na_writer_append(na_nprof_chunk_t *chunk, const uint8_t *data, uint64_t *offset);
/* No more of the disk than is used; growing is possible still. */
void na_writer_trim(void);
/* Writes another header over one that was appended, at chunk->self_offset. */
bool na_writer_rewrite(na_nprof_chunk_t *chunk);
/* The file has holes where nothing was written, and SEEK_DATA finds what was. */
bool na_writer_is_sparse(void);
/* Writes a sealed chunk with its payload, which follows it, to where its self_offset says: the
 * header last. False: refused. */
bool na_writer_put(na_nprof_chunk_t *chunk);
/* Gives the disk back what lies in whole pages of the file; they read as zero. */
void na_writer_punch(uint64_t offset, uint64_t length);
/* Writes to a file: 0 or a negative errno. */
long na_writer_write(int fd, const void *from, uint64_t bytes, uint64_t offset);
/* Reads all of that from a file; false: it could not, or the file ends before. */
bool na_writer_read(int fd, void *to, uint64_t bytes, uint64_t offset);
/* Nothing that is stored from now on reaches the file, but what is written to it; it does not grow
 * any more. False: refused, and all is as it was. */
bool na_writer_freeze(void);
/* Zeroed memory that is not in the file. NULL: refused. Thread-safe. */
void *na_own_alloc(uint64_t bytes);
/* All of what na_own_alloc gave is not needed any more: it reads as zero from now on. */
void na_own_give_back(void *p, uint64_t bytes);

/* False: so much more would exceed the limit that the user set; the report says that it was met. */
bool na_rec_has_room(uint64_t bytes); /* cells.c */
/* The descriptor is still the file's: programs may close what they did not open. */
bool na_writer_still_ours(void);
/* The name of the file as opened. */
const char *na_writer_name(void);
/* Opens a file that is to have the next number of the name, which goes to `copy`, and has
 * NA_NPROF_PART behind it so far. A descriptor or a negative errno. */
long na_writer_open_next(char *copy, size_t size);
/* It is whole: it gets its name, or the next free number of it. 0 or a negative errno. */
long na_writer_name_next(char *copy, size_t size);
/* It is not to be. */
void na_writer_drop_next(char *copy);
/* Out of the way of the program's descriptors: another number for it, or a negative errno. */
long na_writer_move_up(long fd);
/* "numalloc: `what``name`: why" for a negative errno, on stderr. */
/* At most a line an hour. By one thread at a time. */
void na_writer_warn(const char *what, const char *name, long error);

/* What is mapped is not the file any more: says so, and keeps from changing it. */
void na_writer_lost(void);

/* ---- sigbus.c ---- */
/* Keeps the program alive when the file loses pages. */
void na_rec_catch_sigbus(void);

/* ---- copy.c ---- */
/* The profile as it is now, in a file of its own; no hook may be running. False: said why. */
bool na_copy_make(void);
/* The same, of a process that ends, into this directory. Others may run on. */
bool na_copy_last(const char *directory);

/* ---- pack.c ---- */
/* The profile is closed: packs the file if it holds little. True: did. */
bool na_pack(void);

/* ---- sums.c ---- */
/* Adds the checksums of a file that does not change any more, with this header, of which `sums` and
 * `used` change; they stay as they are where that fails. */
void na_sums_add(int fd, na_nprof_header_t *header);
/* The header's own: the last that changes in it. */
void na_sums_seal(na_nprof_header_t *header);
/* Both, of the profile's file, which is frozen; a packed one has its own checksum. */
void na_sums_finish(bool packed);

/* ---- session_chunk.c ---- */
void na_session_start(const na_profile_config_t *config, uint32_t session);
/* The profile ends, and the process runs on. */
void na_session_stopped(void);
/* Of the header of a copy: what its SESSION chunk says, at this offset of the file; 0: none. */
uint64_t na_session_entry(na_nprof_session_t *entry);

/* ---- pools.c ---- */
void na_pools_start(void);
void na_rec_on_pool(void **prof, na_pool_event_t event, uint32_t pool, const char *name,
                    const void *block, size_t size);
void na_rec_on_marker(void **prof, const char *name);

/* ---- origins.c: see there ---- */
void na_origins_add(int32_t pid, uint64_t start_unix_ns, uint8_t epoch);
void na_origins_forget(void);
void na_origins_start(const na_profile_config_t *config);
/* A block of another epoch is freed; true: it was an ancestor's. */
bool na_origins_free(const na_record_t *record, uint64_t usable);

/* ---- stacks.c ---- */
/* Who keeps the calls of each thread, where the program does it itself. No walks are usual then
 * (na_umodule_generation has risen). */
extern _Atomic(numalloc_shadow_t (*)(void)) na_stacks_shadow;
/* Why stacks are not the usual ones, as a set; 0: they are. With any of it no walks are usual
 * (frames.h), so that who makes usual ones need not ask. */
#define NA_STACKS_SHADOW 1u /* na_stacks_shadow */
#define NA_STACKS_PYTHON 2u /* Python frames are wanted, and there is an interpreter */
extern NA_NEAR _Atomic uint32_t na_stacks_special;
void na_stacks_special_set(uint32_t what, bool on);
/* The node of `node` with one more frame inside; *path is the path (tree.h) of the former and
 * becomes that of the latter. 0: no room. */
uint32_t na_stacks_enter(na_rthread_t *thread, uint32_t *path, uint32_t node, uint64_t pc,
                         uint32_t flags);
/* NA_NPROF_ROOT of an outermost frame. */
uint32_t na_stacks_parent(uint32_t node);
/* The node of a stack of which nothing is known but its innermost pc; not `exact`: the instruction
 * before. Any thread. 0: no room. */
uint32_t na_stacks_of_pc(uint64_t pc, bool exact);
/* The node of a stack with one more frame inside. Any thread. 0: no room. */
uint32_t na_stacks_child(uint32_t parent, uint64_t pc, bool exact, bool truncated);
bool na_stacks_start(void);
/* The node of the calling thread's stack; NA_NPROF_ROOT where it finds none (counted). */
uint32_t na_stacks_capture(na_rthread_t *thread);
/* The thread's cell of the stack captured last, for the next time that it comes. */
void na_stacks_note_cell(na_rthread_t *thread, uint32_t cell);
/* The structure serves another thread from now on. */
void na_stacks_attach(na_rthread_t *thread);

/* ---- sites.c ---- */
/* Hooks, in mode sites. */
void na_site_on_alloc(void **prof, na_record_t *record, void *block, size_t requested,
                      size_t usable, na_entry_t entry, const void *entered);
void na_site_on_free(void **prof, const na_record_t *record, void *block, size_t usable,
                     na_release_t how, const void *moved_to);
/* The same in mode sample. */
void na_site_on_sampled_alloc(void **prof, na_record_t *record, void *block, size_t requested,
                              size_t usable, na_entry_t entry, const void *entered);
void na_site_on_sampled_free(void **prof, const na_record_t *record, void *block, size_t usable,
                             na_release_t how, const void *moved_to);
/* The usual ways, in modes sites and trace (usual.c). A program that has this code without the
 * allocator has none. */
extern const struct na_misses na_usual_sites __attribute__((weak));
extern const struct na_misses na_usual_trace __attribute__((weak));
/* With accesses: of blocks whose lives are asked for (access_deaths.c) by the hooks. */
extern const struct na_misses na_usual_noted __attribute__((weak));
/* What a block counts for: itself, or in mode sample as many as it stands for. */
typedef struct na_amount {
    uint64_t count; /* scaled */
    uint64_t bytes, usable;
} na_amount_t;
na_amount_t na_site_amount(uint64_t requested, uint64_t usable);
/* Fills the record of a block, and counts it; where realloc puts it in another's place, the free of
 * that one does. `entry`: as hooks.h has it. */
void na_site_alloc(na_rthread_t *t, na_record_t *record, const void *block, uint64_t requested,
                   uint64_t usable, na_entry_t entry);
/* `how` and `moved_to` as in hooks.h. */
void na_site_free(na_rthread_t *t, const na_record_t *record, const void *block, uint64_t usable,
                  na_release_t how, const void *moved_to);
/* The old block of the thread's realloc will not be told of (signals): the new one counts by
 * itself. */
void na_site_moving_left(na_rthread_t *t);
/* free was called from this stack (option). */
void na_site_freed_here(na_rthread_t *t, uint32_t site, uint64_t requested);
/* Adds what the thread holds back to the global figures, finds peaks, feeds the timeline. */
void na_site_publish(na_rthread_t *t);
/* The same, and what is not published every time: sizes, nodes, the stack. */
void na_site_publish_all(na_rthread_t *t);
/* What all threads have come to, read while they run: exact where no other does anything. */
typedef struct na_sums {
    int64_t live_bytes, live_count;
    uint64_t alloc_count, alloc_bytes;
} na_sums_t;
na_sums_t na_site_sums(void);

/* ---- shares.c ---- */
void na_share_publish(na_nprof_cell_t *c, int64_t live);
/* The process's peak is so large now. */
void na_share_quantum(int64_t peak);

/* ---- spans.c ---- */
void na_spans_start(const na_profile_config_t *config);
/* Looks at all spans, and says in the file what they hold. Before the profile, or a copy of it, is
 * completed; other threads' events meanwhile make it inexact, not unsound. */
void na_spans_walk(void);

/* ---- ruled.c ---- */
void na_ruled_start(const na_profile_config_t *config);
/* What the policy did so far; if there is one. One thread at a time. */
void na_ruled_write(void);

/* ---- lost.c ---- */
/* Where so many rows of a scan for leaks go, those of an earlier one having gone; NULL: no profile
 * is open, or it has no room. Then na_lost_end. One thread at a time. */
na_nprof_leak_site_t *na_lost_begin(uint32_t sites);
/* Before that: room for rows of who holds what; NULL: none. Then na_lost_held_end. */
na_nprof_leak_held_t *na_lost_held(uint32_t entries);
void na_lost_held_end(uint32_t entries);
void na_lost_end(const na_nprof_leaks_t *leaks, uint32_t sites);

/* ---- maps.c ---- */
void na_maps_start(void);
void na_maps_count(na_rthread_t *t, uint32_t call, uint64_t bytes); /* NA_NPROF_MAP_* */

/* ---- stackmem.c ---- */
/* Looks how much of the calling thread's stack is resident, if it is time to. */
void na_stackmem_look(na_rthread_t *t, uint64_t ms, bool at_once);

/* ---- timeline.c ---- */
bool na_timeline_start(void);
typedef struct na_timeline_event {
    int64_t bytes, most, least; /* live now; most and least since the thread's last publication */
    int64_t count;
    uint64_t allocs, alloc_bytes;
} na_timeline_event_t;
void na_timeline_note(const na_timeline_event_t *event, uint64_t ms);
/* How many threads there were at one time goes into the header. */
void na_timeline_threads(void);
/* The same, and what is in memory now, when the profile or a copy of it is completed. */
void na_timeline_end(void);

/* ---- modules.c ---- */
void na_modules_seen(const na_unwind_seen_t *seen);
/* The record of a module, also of one that was unloaded: of this id; id 0: that `pc` lies in, or
 * lay. Its id, 0: there is none. */
uint32_t na_modules_find(uint32_t id, uint64_t pc, na_nprof_module_t *found);

#endif
