/* capture.h - a stack that is captured as nearly all are, in one piece with the event that it
 * belongs to: the usual walk (walk.h), then the edges of the few new frames. */
#ifndef NUMALLOC_RECORD_CAPTURE_H
#define NUMALLOC_RECORD_CAPTURE_H

#include "profiler/record/stacks/tree.h"
#include "profiler/record/stacks/walk.h"
#include "profiler/record/state/state.h"

#define PC_BITS   48 /* of an edge; others are in the tree only */
#define CELL_BITS 24 /* of an edge; cells beyond are looked up */
#define NODE_BITS 28 /* tree.c */
#define CELL_MASK ((1u << CELL_BITS) - 1)

NA_INLINE na_edge_pair_t *edges_at(const na_rthread_t *t, uint32_t path) {
    return &t->edges[path >> (32 - t->edge_bits)];
}

/* What an edge holds of its key. Code beyond 2^48, if there is any, has no edges. */
NA_INLINE uint64_t key_low(uint32_t parent, uint64_t pc) {
    return pc << 16 | (uint16_t)parent;
}

NA_INLINE bool is_edge(const na_edge_t *e, uint64_t low, uint32_t parent) {
    return e->pc48_parent16 == low && e->parent12_node28_cell24 >> (64 - 12) == parent >> 16;
}

NA_INLINE uint32_t node_of(const na_edge_t *e) {
    return (uint32_t)(e->parent12_node28_cell24 >> CELL_BITS) & ((1u << NODE_BITS) - 1);
}

NA_INLINE uint32_t cell_of(const na_edge_t *e) {
    return (uint32_t)e->parent12_node28_cell24 & CELL_MASK;
}

/* The thread's edge, NULL: it has none. For a pc below 2^48. */
NA_INLINE na_edge_t *near_edge(const na_rthread_t *t, uint32_t path, uint32_t parent, uint64_t pc) {
    na_edge_t *e = edges_at(t, path)->edge;
    uint64_t low = key_low(parent, pc);
    if (NA_LIKELY(is_edge(&e[0], low, parent))) return &e[0];
    return NA_LIKELY(is_edge(&e[1], low, parent)) ? &e[1] : NULL;
}

/* A stack that was captured. */
typedef struct na_captured {
    uint32_t node; /* as na_stacks_capture says */
    uint32_t cell; /* the thread's, 0: not known (na_stacks_note_cell) */
} na_captured_t;

/* As na_stacks_capture. */
na_captured_t na_stacks_capture_slowly(na_rthread_t *t);
#if defined(__x86_64__)
/* Of a stack that is `s`, the state in which a function of this library was entered, and what is
 * outside of it, where no tail was found at the place for it. */
na_captured_t na_stacks_capture_again(na_rthread_t *t, na_frame_state_t s, bool cell_wanted);
/* The same where walks are not usual: there may be Python frames. */
na_captured_t na_stacks_capture_unusual(na_rthread_t *t, const void *entered, bool cell_wanted);

/* The tail is of the stack that begins so. */
NA_INLINE bool is_of(const na_rthread_t *t, const na_frame_tail_t *tail, const na_frame_state_t *s,
                     bool cell_wanted) {
    return NA_LIKELY(goes_through(&t->frames, tail, s)) &&
           (!cell_wanted || NA_LIKELY(tail->cell != 0));
}
#endif

/* Of a thread that came by a function whose frame is `entered` (hooks.h); NULL: it is not known.
 * cell_wanted: it is asked for. */
NA_INLINE na_captured_t na_stacks_capture_inline(na_rthread_t *t, const void *entered,
                                                 bool cell_wanted) {
#if defined(__x86_64__)
    if (NA_UNLIKELY(entered == NULL)) return na_stacks_capture_slowly(t);
    if (!na_frames_usual(&t->frames)) return na_stacks_capture_unusual(t, entered, cell_wanted);
    const na_frame_state_t s = na_frames_entered(entered);
    /* No tail begins off the stack: that has not to be asked where one fits. */
    const na_frame_tail_t *tail = tail_at(&t->frames, &s);
    if (is_of(t, tail, &s, cell_wanted))
        return (na_captured_t){.node = tail->node, .cell = tail->cell};
    return na_stacks_capture_again(t, s, cell_wanted);
#else
    (void)entered, (void)cell_wanted;
    return na_stacks_capture_slowly(t);
#endif
}

/* Where stacks are checked, it is done there. */
#ifdef NA_STACKS_CHECK
na_captured_t na_stacks_capture_from(na_rthread_t *t, const void *entered, bool cell_wanted);
#else
NA_INLINE na_captured_t na_stacks_capture_from(na_rthread_t *t, const void *entered,
                                               bool cell_wanted) {
    return na_stacks_capture_inline(t, entered, cell_wanted);
}
#endif

#endif
