/* access_priv.h - what the files of access profiles share: raw samples, the store, the interface
 * of sources, and the descriptors of counters. Used by the access thread only, but where said. */
#ifndef NUMALLOC_PROFILER_RECORD_ACCESS_ACCESS_PRIV_H
#define NUMALLOC_PROFILER_RECORD_ACCESS_ACCESS_PRIV_H

#include "alloc/core/sys/syscall.h"
#include "alloc/record/lookup.h"
#include "profiler/format/nprof_access.h"
#include "profiler/record/access/access.h"
#include "profiler/record/state/state.h"

#define NA_WHY 320 /* bytes of a reason, its end included */

/* ---- access.c ---- */

/* A block's life. */
typedef struct na_life {
    uintptr_t base;
    uint64_t death; /* ages, 44 bits, as birth in the record */
    uint64_t usable;
    na_record_t record;
} na_life_t;

/* A sample as its source knows it. */
typedef struct na_access_raw {
    uint64_t mono_ns; /* CLOCK_MONOTONIC */
    uint64_t ip, address;
    double weight;
    uint32_t tid;
    uint32_t window; /* id, 0: none */
    uint32_t stack;  /* node of its call chain, 0: it has none but ip */
    int32_t latency; /* -1: not known */
    uint16_t cpu;    /* UINT16_MAX: not known */
    int16_t home;    /* dense; NA_NPROF_NO_NODE: not known, to be asked for */
    uint8_t op, level, width, flags;
    uint8_t source; /* id, 0: the one in use */
    bool exact_ip;
    bool caught;    /* what lay there was noted by whoever freed it, or something near it: */
    na_life_t life; /* it */
} na_access_raw_t;

/* A source. One is in use at a time. (Each is made by a function, when it is wanted: a table of
 * them the loader would relocate in every process.) */
typedef struct na_access_source {
    uint32_t kind, unit, flags; /* NA_NPROF_* */
    na_access_choice_t choice;
    bool automatic; /* among those that auto may choose */
    bool rounds;    /* comes at times of its own; others also before notes of lives are lost */
    /* Makes itself ready; false: it cannot be used here, `why` says why and what would help. */
    bool (*start)(uint64_t period, char why[NA_WHY]);
    /* Does what is due, gives samples to the store, and returns when to be called next
     * (CLOCK_MONOTONIC). */
    uint64_t (*step)(void);
    void (*stop)(void);
    void (*forget)(void); /* in a forked child: closes descriptors, touches no mapping */
} na_access_source_t;

na_access_source_t na_access_kmod(void), na_access_perf_ibs(void), na_access_pebs(void),
    na_access_spe(void), na_access_watch(void), na_access_numa(void), na_access_fault(void),
    na_access_kmod_fault(void), na_access_kmod_sim(void);

/* The entry in the file of the source that is in use. */
extern na_nprof_access_source_t *na_access_entry;
extern uint8_t na_access_entry_id;
extern const na_profile_config_t *na_access_config;

uint64_t na_access_mono(void);
/* Sleeps until then (CLOCK_MONOTONIC); false: the profile ends. */
bool na_access_sleep(uint64_t until);
/* The notes of lives (access_deaths.c) are half written over since the access thread's last step:
 * wakes it, where its source has samples that wait. Any thread. */
void na_access_hurry(void);
/* Text into a reason, cut where it does not fit. NULL ends the list. */
void na_access_why(char why[NA_WHY], const char *first, ...) __attribute__((sentinel));
/* A decimal number at the beginning of a file; -1: none. */
long na_access_number_in(const char *path);
/* major * 1000 + minor of the running kernel. */
unsigned na_access_kernel(void);

/* ---- access_dir.c ---- */
/* Calls `each` with the number of every entry of a directory that is `prefix` and a number. 0, or a
 * negative errno: it cannot be opened. */
long na_access_each_number(const char *path, const char *prefix,
                           void (*each)(void *argument, uint32_t number), void *argument);

/* Reads /proc/self/task/`tid``file`, as na_os_read_file has it. */
long na_access_read_task(uint32_t tid, const char *file, char *text, size_t size);

/* ---- access_clock.c: CLOCK_MONOTONIC against the profile's clock ---- */
void na_access_clock_start(void);
/* A new pair of both clocks; more often than once in 100 ms. */
void na_access_clock_tick(void);
/* The moment of a sample, not later than the last tick: as words[1] of a record of this profile
 * that begins just then, and of nothing but that moment's end. To a microsecond or so near now. */
uint64_t na_access_moment_of(uint64_t mono_ns);
/* Time of a birth or death in ages (ticks >> NA_AGE_SHIFT). */
uint64_t na_access_mono_of(uint64_t ages);
/* ns since the start of the profile; 0 for earlier times. */
uint64_t na_access_since(uint64_t mono_ns);

/* ---- access_deaths.c: lives that have ended lately ---- */
#define NA_LIFE_LASTS UINT64_MAX /* death: there was none yet */
bool na_deaths_start(void);
/* By how much (ages) a time lies outside of a life. */
uint64_t na_life_off(const na_life_t *life, uint64_t ages);
/* The life of the block that had `address` in it at this time, or nearest to it and less than
 * `slack` away. `base`: of the block there now, 0: not known. */
bool na_deaths_find(uintptr_t address, uintptr_t base, uint64_t ages, uint64_t slack,
                    na_life_t *life);
/* The block that was there between two lives which are remembered, both of one site and size, as
 * are all of late that are known of the address, and `now`, the block there now (NULL: none). When
 * it was born and ended is not known: all that were there within a millisecond are taken as one,
 * which lasted so long. False: they are not, or it was not between two. */
bool na_deaths_around(uintptr_t base, const na_life_t *now, uint64_t ages, na_life_t *life);
/* Keeps every life that covers one of these words (0: none) until the next call. */
void na_deaths_watch(uintptr_t first, uintptr_t second);
/* From now on all samples are of watched words: other lives are not kept. Until the next start. */
void na_deaths_keep_watched_only(void);
/* Is an address in one of the words? */
bool na_deaths_watches(uintptr_t address);

/* What each free asks, of any thread: it is all here. */
typedef struct na_deaths_asked {
    _Atomic uintptr_t word[2]; /* 0: none */
    _Atomic bool only_watched;
} na_deaths_asked_t;
extern na_deaths_asked_t na_deaths_asked;

NA_INLINE bool na_deaths_all(void) {
    return !atomic_load_explicit(&na_deaths_asked.only_watched, memory_order_acquire);
}

/* Does a block cover one of the words? (No block is as near to the end of all addresses as 0 is.)
 */
NA_INLINE bool na_deaths_is_watched(uintptr_t base, uint64_t size) {
    const na_deaths_asked_t *asked = &na_deaths_asked;
    return atomic_load_explicit(&asked->word[0], memory_order_relaxed) - base < size ||
           atomic_load_explicit(&asked->word[1], memory_order_relaxed) - base < size;
}

/* ---- access_caught.c: what lay at an address whose sample waits in the module's ring ---- */
struct na_ibs_ring;
/* From now on those who free look into this ring, which is never unmapped: its place stays mapped.
 * One that is shown again goes on. By the access thread, as the next three. */
void na_caught_ring(uint32_t cpu, uint32_t cpus, const struct na_ibs_ring *ring, uint32_t records);
/* No more. Before the places are zeroed. */
void na_caught_end(void);
/* This process is a forked child. */
void na_caught_forget(void);
/* What was noted of a sample: the life that was there when somebody looked, after the sample. */
bool na_caught_find(uint32_t cpu, uint32_t seq, na_life_t *life);
/* A block is about to be freed, by this thread. Any thread; while na_access_on. */
void na_caught_look(const void *block, uint64_t usable, const na_record_t *record);

/* ---- access_resolve.c ---- */
/* One block's life: what a sample at an address and a moment was about. */
typedef struct na_resolved {
    uint8_t target; /* NA_NPROF_TARGET_*; UNKNOWN: no heap */
    na_life_t life; /* HEAP */
} na_resolved_t;
/* Ages by which the clocks of a sample and of an event may differ: half a microsecond or so. */
#define NA_RESOLVE_SLACK 5u
void na_access_resolve(uintptr_t address, uint64_t moment, na_resolved_t *to);
/* The same of blocks that still live, only these; no lock, any thread. False: it is not in one. */
bool na_access_resolve_living(uintptr_t address, uint64_t moment, na_resolved_t *to);

/* ---- access_store.c ---- */
/* A profile begins: na_access_store_source may be called, of all others nothing before the start.
 * By the thread that begins it. */
void na_access_store_init(void);
/* Tables, nodes and mappings. False: no memory. */
bool na_access_store_start(void);
/* Keeps a sample for the next flush. */
void na_access_store_sample(const na_access_raw_t *raw);
/* What is kept goes to the file. Call after each batch of samples. */
void na_access_store_flush(void);
/* What is due now and then: names of threads, mappings, blocks that are gone. */
void na_access_store_tick(uint64_t mono_ns);
/* After the last sample: the same for all blocks, and the source's end. */
void na_access_store_stop(void);
/* The object at an address now, 0: none. Under na_access_store_lock. */
uint32_t na_access_store_object_at(uintptr_t address, uint64_t mono_ns);
/* An entry for a window; its id goes to *id. NULL: no room. Under na_access_store_lock; commit
 * after. */
na_nprof_access_window_t *na_access_store_window(uint32_t *id);
void na_access_store_window_done(void);
/* The same of probes. */
na_nprof_access_probe_t *na_access_store_probe(void);
void na_access_store_probe_done(void);
/* A source's entry, open. */
na_nprof_access_source_t *na_access_store_source(const na_access_source_t *source);
/* The entries of sources may change from here on; not any more. */
void na_access_store_sources(bool change);
extern na_lock_t na_access_store_lock; /* held while the file changes */

/* ---- access_nodes.c ---- */
/* Number, CPUs, memory and distances of a dense node, as far as /sys says. */
void na_node_facts(unsigned node, na_nprof_access_node_t *facts);

/* ---- access_table.c: tables in the file that grow ---- */
typedef struct na_access_table {
    uint16_t type;
    uint32_t size, next_id, chunks;
    uint32_t chunk_bytes;
    na_nprof_chunk_t *chunk;
} na_access_table_t;
/* Room for one more entry, zeroed, which exists after the commit. NULL: none. */
void *na_access_table_next(na_access_table_t *table);
/* Its id. */
uint32_t na_access_table_commit(na_access_table_t *table);

/* ---- access_maps.c ---- */
bool na_amaps_start(void);
/* Reads /proc/self/maps again. */
void na_amaps_read(uint64_t mono_ns);
/* The mapping of an address, NULL: none is known. */
const na_nprof_access_mapping_t *na_amaps_find(uintptr_t address, uint32_t *id);
/* The i-th mapping that holds heap blocks; NULL: there are no more. */
const na_nprof_access_mapping_t *na_amaps_heap(uint32_t index);

/* ---- access_threads.c ---- */
bool na_athreads_start(void);
/* The entry of a thread of this process, 0: no room. */
uint32_t na_athreads_id(uint32_t tid, uint64_t since_ns);
void na_athreads_seen(uint32_t id, uint64_t since_ns);
void na_athreads_tick(void);
/* Whose stack lies in this mapping: an id, 0: not known. */
uint32_t na_athreads_stack(uintptr_t start, uintptr_t end, uint64_t since_ns);

#endif
