/* seam.h - what the core knows of all that stands beside it.
 *
 * Hardening, guarded blocks, heaps of the program's own and recording are no part of the core. The
 * core has one way to do a thing, and at a few points of its slow paths it looks whether something
 * else is to be done there. These points are tables of functions, which the core declares and
 * others fill. What is beside the core includes it, never the other way round. The tables:
 *
 *   na_path     the path in force: one function for each point of malloc and free. NULL: as the
 *               core does it.
 *   na_layers   who keeps something of each thread: to be given back, counted, forgotten after a
 *               fork.
 *   na_owners   spans that belong neither to a thread cache nor to a node.
 * and, declared where they are called, since that is below this header:
 *   na_links         how free blocks are linked (central/block.h).
 *   na_chunk_source  pages that are placed otherwise than a node's (central/central.h).
 *   na_limits        how much memory there may be (machine/pressure.h).
 *   na_controller    when a profile begins and ends (thread/switch.h).
 *   na_above         what begins and ends with the process (thread/attach.h).
 *
 * The hot path looks at none of it. A path that wants to see each call keeps credits at zero and
 * page tags slow (na_every_event), so that each is missed. Then a thread's misses go to a pair of
 * functions of its own (tcache->misses, na_misses_t), which do the usual call in one piece, and the
 * slow paths (malloc/small.h, large.h) do all else. What is NULL is the core's.
 *
 *   hot path -- no credit, no tag --> misses->alloc, free -- not usual --> slow path -> na_path
 *                                 \-- misses is NULL: -----------------/
 *
 * Order. Paths stand in front of each other; na_path_front puts one in front. Its functions replace
 * those of the same points; where it has none, the one behind stays in force. The core is the last.
 *
 *   guarded or hardened  ->  recorded  ->  the core
 *
 * Recorded and hardened come with na_init, guarded with the library's constructor; there is never
 * both guarded and hardened. A function leaves a block that is not its own to the core (it returns
 * NULL, or false). Paths are never taken away.
 *
 * Switching. What is in force for the process does not change while threads run; whether calls are
 * recorded does. The switch (thread/switch.h) raises an alarm, and each thread that notices it
 * takes credits back and asks na_path.misses where its calls go from now on. Who has not noticed
 * yet calls those of before: each sees for itself whether it may do what it is for.
 *
 * Who is called when. A function of a table runs on the thread that makes the call, with no lock of
 * the core held, behind the gate only where that is said. It may run in a signal handler that
 * interrupted any other, after fork, and in a child that was made meanwhile: it keeps errno, waits
 * for nobody for long, and allocates by the slow paths only. A thread that has no thread cache yet,
 * or never will, comes by `wanted`, `large`, `born`, `back`, `stray`, `resize` and `usable`; for
 * it, `taken` and `given` have no track. */
#ifndef NUMALLOC_ALLOC_CORE_PATH_SEAM_H
#define NUMALLOC_ALLOC_CORE_PATH_SEAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"
#include "alloc/core/track/hooks.h"
#include "alloc/core/track/track.h"
#include "pagemap/pagemap.h"

struct na_tcache;

/* --- the path --- */

/* Where a thread's calls go that the hot path missed. Of a thread that has a thread cache; the
 * hot path has found no credit in the bin, or no tag. */
typedef struct na_misses {
    void *(*alloc)(size_t size, na_entry_t entry, struct na_tcache *tcache, unsigned cls);
    void (*free)(void *block, na_release_t how, struct na_tcache *tcache);
} na_misses_t;

/* Every one may be NULL: then the core does what it does by itself. */
typedef struct na_path {
    /* By the thread, when it notices that recording was switched, and at its beginning: where its
     * misses go; NULL: to the slow paths. */
    const na_misses_t *(*misses)(struct na_tcache *tcache);

    /* --- malloc's slow path --- */
    /* A small block is wanted. It; or NULL, and *cls is the class that it is to be of; 0: a large
     * block is to be taken for it. Before the thread has a thread cache, perhaps. */
    void *(*wanted)(size_t size, na_entry_t entry, unsigned *cls);
    /* The sampler has drawn the small block that is wanted (track.h), of a bin of `usable` bytes,
     * by `step`. It, recorded; or NULL: not this one. */
    void *(*drawn)(na_track_t *track, size_t requested, size_t usable, uint8_t step,
                   na_entry_t entry);
    /* A large block is wanted that the thread does not keep. It, reading as zero; or NULL. */
    void *(*large)(size_t size, na_entry_t entry);
    /* From a bin that is counted and has a block: one for the program; NULL: none is sound. */
    void *(*draw)(struct na_tcache *tcache, unsigned cls);
    /* There is no memory. True: some was given back, and another try is worth it. */
    bool (*spare)(void);
    /* The block, of whatever size, is about to be the program's. NULL is none. */
    void (*born)(void *block, size_t asked, na_entry_t entry);

    /* --- free's slow path --- */
    /* A block on a page without a tag comes back, or something that is none. True: it was seen to.
     */
    bool (*back)(void *block, na_release_t how, const void *moved_to);
    /* The address lies in no span. True: it was seen to. */
    bool (*stray)(void *block, na_release_t how, const void *moved_to);
    /* The block goes to the bin, instead of on its list. */
    void (*put)(struct na_tcache *tcache, unsigned cls, void *block);
    /* All that the bin has is to be on its list now. Behind the gate. */
    void (*close)(struct na_tcache *tcache, unsigned cls);

    /* --- the rest --- */
    /* realloc of a block on a page without a tag, to a size that is not 0; `span`: NULL, where it
     * is in none. True: it was seen to, *resized is the result. */
    bool (*resize)(na_span_t *span, void *block, size_t size, void **resized);
    /* The large block is about to be resized where it is, or moved with its pages: what `moved` is
     * to be told. And it was, or was not. */
    unsigned (*moves)(const void *block);
    void (*moved)(void *block, unsigned told);
    /* All blocks that begin in the range end with their owner. */
    void (*ended)(uintptr_t start, size_t bytes);
    /* malloc_usable_size. True: *bytes is the answer. */
    bool (*usable)(const na_span_t *span, const void *block, size_t *bytes);
    /* delete: the block was given by an aligned form of new, if `aligned`, else not. */
    bool (*is_of_form)(const void *block, bool aligned);

    /* --- records of blocks: of a span that has some, or where every block is to have one --- */
    /* The block was taken, and is about to be handed out. `track`: NULL, where the thread can have
     * no thread cache. */
    void (*taken)(na_track_t *track, na_span_t *span, void *block, size_t requested, size_t usable,
                  na_entry_t entry);
    /* It is about to be given back. False: it is not live, which was reported. */
    bool (*given)(na_track_t *track, na_span_t *span, void *block, size_t usable, na_release_t how,
                  const void *moved_to);
    /* False: the span knows of every block, and this one was freed. */
    bool (*is_live)(const na_span_t *span, const void *block);
    /* realloc of a live block of such a span. */
    void *(*resize_known)(na_span_t *span, void *block, size_t size);
    /* The pages of the large block that is all of `span` are about to move; realloc kept the block,
     * which now is at `block`. */
    void (*moving)(na_track_t *track, const na_span_t *span);
    void (*kept)(na_track_t *track, na_span_t *span, const void *old_block, void *block,
                 size_t old_usable, size_t requested, size_t usable);
    /* A call for a large block begins, of a thread whose track.is_timed: what `ends` is to be told
     * with the block. NULL: nothing. It clears calloc's. */
    struct na_tcache *(*starts)(void);
    void (*ends)(struct na_tcache *told, void *block, size_t size, na_entry_t entry, bool *zeroed);

    /* Bytes that blocks have beyond what was asked for. */
    size_t room;
    /* Not 0: a large block is a mapping of its own, if there is room for one, that ends with a
     * page which nobody can reach, and never resized. */
    size_t apart;
} na_path_t;

/* The path in force, for all threads. */
extern NA_NEAR na_path_t na_path;

/* What the path has is called from now on, instead of what was there. In na_init, or in the
 * library's constructor. */
void na_path_front(const na_path_t *path);

/* A path has something to look at when the process ends (na_above_t.at_exit). */
extern NA_NEAR bool na_path_ends;

/* What several slow paths do. */
NA_INLINE void na_path_born(void *block, size_t asked, na_entry_t entry) {
    if (NA_UNLIKELY(na_path.born != NULL)) na_path.born(block, asked, entry);
}
NA_INLINE bool na_path_spare(void) {
    return na_path.spare != NULL && na_path.spare();
}

NA_INLINE bool na_path_knows(const na_span_t *span) {
    return na_every_is_recorded() || span->records != NULL;
}
NA_INLINE void na_path_taken(na_track_t *track, na_span_t *span, void *block, size_t requested,
                             size_t usable, na_entry_t entry) {
    if (na_path_knows(span)) na_path.taken(track, span, block, requested, usable, entry);
}
NA_INLINE bool na_path_given(na_track_t *track, na_span_t *span, void *block, size_t usable,
                             na_release_t how, const void *moved_to) {
    return !na_path_knows(span) || na_path.given(track, span, block, usable, how, moved_to);
}
NA_INLINE bool na_path_is_live(const na_span_t *span, const void *block) {
    return NA_LIKELY(span->records == NULL) || na_path.is_live(span, block);
}
NA_INLINE void na_path_kept(na_track_t *track, na_span_t *span, const void *old_block, void *block,
                            size_t old_usable, size_t requested, size_t usable) {
    if (na_path_knows(span))
        na_path.kept(track, span, old_block, block, old_usable, requested, usable);
}

/* --- who keeps something of threads --- */

/* What a layer keeps of a thread is a word of its thread cache, tcache->kept[], NULL at first. */
typedef enum na_keeper { NA_KEPT_HEAPS, NA_KEPT_DELAY, NA_KEPT_HANDS, NA_KEEPERS } na_keeper_t;

typedef struct na_layer {
    /* What is kept of the thread goes back: all; what was not used since the last time. Behind the
     * gate. */
    void (*flush)(struct na_tcache *tcache);
    void (*decay)(struct na_tcache *tcache);
    /* By the thread, when it notices that recording was switched. */
    void (*switched)(struct na_tcache *tcache);
    /* The thread leaves its cache, for another one or for ever. By the thread. */
    void (*leave)(struct na_tcache *tcache);
    /* When a fork is over: what it kept from being done. Not behind the gate. */
    void (*drain)(struct na_tcache *tcache);
    /* Around fork; `taken`: what before_fork said. Nested, where a signal handler forks. */
    unsigned (*before_fork)(void);
    void (*after_fork)(bool child, unsigned taken);
    /* Forked child: locks that others held are free. */
    void (*reset)(void);
    /* The same, later, in this order: nothing is counted any more; what another thread kept is lost
     * (bytes); what the thread itself keeps counts again. */
    void (*forget_counts)(void);
    uint64_t (*forget)(struct na_tcache *tcache);
    void (*recount)(struct na_tcache *tcache);
    _Atomic(struct na_layer *) next;
    unsigned bits; /* where `taken` is, among those of all */
} na_layer_t;
#define NA_LAYER_TAKEN 7u /* the most that before_fork may say */

/* Once for each, behind those that are there; thread-safe. */
void na_layer_add(na_layer_t *layer);

/* All layers' functions of that name. */
void na_layers_flush(struct na_tcache *tcache);
void na_layers_decay(struct na_tcache *tcache);
void na_layers_switched(struct na_tcache *tcache);
void na_layers_leave(struct na_tcache *tcache);
void na_layers_drain(struct na_tcache *tcache);
unsigned na_layers_before_fork(void);
void na_layers_after_fork(bool child, unsigned taken);
void na_layers_reset(void);
void na_layers_forget_counts(void);
uint64_t na_layers_forget(struct na_tcache *tcache);
void na_layers_recount(struct na_tcache *tcache);

/* --- spans of other owners (na_span_is_others) --- */

typedef struct na_owners {
    /* free of a small block: its page has the owner's tag, which no bin expects. */
    void (*free)(void *block, na_release_t how, struct na_tcache *tcache);
    /* A small block is free; its record has ended. Not behind the gate. */
    void (*put)(struct na_tcache *tcache, na_span_t *span, void *block);
    /* A large block is free, and an ordinary one from now on; `node`: of the thread. Behind the
     * gate. */
    void (*leave)(na_span_t *span, unsigned node);
    /* A block of the same owner, for one that realloc moves. */
    void *(*beside)(const na_span_t *span, size_t size, na_entry_t entry);
} na_owners_t;

/* Set before the first such span is made; there is one kind of them. */
extern NA_NEAR const na_owners_t *na_owners;

#endif
