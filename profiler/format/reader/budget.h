/* budget.h - what a profile may cost its reader in memory, counted in one place.
 *
 * A profile can be hostile: a few kilobytes inflate to gigabytes of entries, and each entry becomes
 * a place in some table. Whatever a file claims, what is made of it takes at most
 *
 *     64 MB + 16 bytes for each of the file + 2048 for each that holds compressed events,
 *
 * and never more than the larger of 64 MB and half of the machine's memory. How it is kept:
 *   - Entries that inflate (other than events and symbols) are bounded when the file is opened: to
 *     the file's size and 2 MiB in all. So everything that is made of entries, here and in
 *     whatever uses the reader, is bounded, also what is not counted below. No recorder compresses
 *     them.
 *   - Tables that grow with entries or events (stacks, sites, lifetimes, access samples, open runs
 *     of events, live blocks, ...) are taken from the budget, which is three quarters of the bound.
 *     One that does not fit is not made: as out of memory, but na_reader_over_budget says why.
 *   - What is not counted has to fit in the last quarter: buffers of fixed size, the index of
 * chunks (1/50 of the file), what flows and verdicts make of samples. fuzz_reader.c holds the whole
 * process against the bound; test_budget.c made files.
 *
 * Events have their own term because a trace of a regular program is honest and small: it takes
 * less than a byte of the file to say that one more block lives (measured: 0.37), and 64 to 192 of
 * memory to know it.
 *
 * A block knows its budget, so that tables may outlive the reader. Not thread-safe: one reader, its
 * tables and whoever frees them belong to one thread at a time. */
#ifndef NUMALLOC_PROFILER_FORMAT_READER_BUDGET_H
#define NUMALLOC_PROFILER_FORMAT_READER_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/containers/array.h"
#include "profiler/containers/index.h"

typedef struct na_budget na_budget_t;

/* The bound above, in bytes, for a file of this size of which so many bytes are coded events. */
uint64_t na_budget_bound(uint64_t file, uint64_t events);

/* NULL: out of memory. Lives until it is closed and its last block is freed. */
na_budget_t *na_budget_open(void);
void na_budget_close(na_budget_t *budget);
/* Sets the bound; nothing has been refused before. */
void na_budget_set(na_budget_t *budget, uint64_t bound);
uint64_t na_budget_of(const na_budget_t *budget);   /* the bound that was set */
uint64_t na_budget_left(const na_budget_t *budget); /* bytes that still fit */

/* As calloc and reallocarray. NULL: too much, or out of memory (which it was: na_budget_refused);
 * the old block is then as before. Free with na_budget_free. */
void *na_budget_calloc(na_budget_t *budget, size_t count, size_t size);
void *na_budget_resize(na_budget_t *budget, void *block, size_t count, size_t size);
void na_budget_free(void *block); /* NULL is allowed */

/* NA_ARRAY_RESERVE (profiler/containers/array.h) for an array of the budget. */
#define NA_BUDGET_RESERVE(budget, items, room, wanted)                                             \
    NA_ARRAY_RESERVE_FROM((items), (room), (wanted),                                               \
                          na_budget_resize((budget), (items), na_more, sizeof *(items)))

/* na_index_add (profiler/containers/index.h) for an index whose slots are the budget's: free them
 * with na_budget_free. */
static inline bool na_budget_index_add(na_budget_t *budget, na_index_t *index, uint64_t hash,
                                       uint32_t number) {
    uint32_t room = na_index_wants(index);
    if (__builtin_expect(room != 0, 0)) {
        na_index_slot_t *slots = na_budget_calloc(budget, room, sizeof *slots);
        if (slots == NULL) return false;
        na_budget_free(na_index_move(index, slots, room));
    }
    na_index_add_here(index, hash, number);
    return true;
}

/* For memory that comes from elsewhere. False: it does not fit. */
bool na_budget_take(na_budget_t *budget, uint64_t bytes);
void na_budget_give(na_budget_t *budget, uint64_t bytes);

/* Something did not fit. */
bool na_budget_refused(const na_budget_t *budget);

#endif
