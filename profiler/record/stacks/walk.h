/* walk.h - the walk that nearly every event makes, to be inlined where events are recorded.
 *
 * It begins with what the allocator has found at its door: the frame of a function that was entered
 * as the program's call entered the library, or one call further in. A few steps of the usual kind
 * lead to a frame of the last stack (frames.h), whose words are compared. What is in any way
 * different is for na_frames_walk_on and na_frames_walk, which know all kinds. */
#ifndef NUMALLOC_PROFILER_RECORD_STACKS_WALK_H
#define NUMALLOC_PROFILER_RECORD_STACKS_WALK_H

#include "alloc/core/sys/base.h"
#include "profiler/record/stacks/tree.h"
#include "profiler/record/state/state.h"
#include "profiler/record/unwind/frames.h"
#include "profiler/record/unwind/umodules.h"
#include "profiler/record/unwind/unwind_rules.h"

#if defined(__x86_64__)

#define NA_FRAMES_RBP_MATTERS (1u << 31) /* of na_frame_t.rule */

/* ---- is what was kept still so? ---- */

typedef long long two_words_t __attribute__((vector_size(16), aligned(8), may_alias));
typedef long long two_values_t __attribute__((vector_size(16), may_alias));

NA_INLINE two_words_t pair_differs(const na_frame_pair_t *p) {
    return *(const two_words_t *)p->at ^ *(const two_words_t *)&p->bp;
}

NA_INLINE two_words_t words_differ(const na_frame_words_t *w) {
    two_words_t now = {*(const long long *)w->at[0], *(const long long *)w->at[1]};
    return now ^ *(const two_values_t *)w->value;
}

/* Every read is inside the thread's own stack. */
NA_INLINE bool unchanged(const na_frames_t *f, uint32_t words, uint32_t pairs) {
    const na_frame_words_t *first = f->words, *w = first + words / 2;
    two_words_t differs = {0, 0};
    if ((words & 1) != 0 && NA_UNLIKELY(*(const uintptr_t *)w->at[0] != w->value[0])) return false;
    if ((words & 2) != 0) differs = words_differ(--w);
    if ((words & 4) != 0) {
        w -= 2;
        differs |= words_differ(w) | words_differ(w + 1);
    }
    for (; w != first; w -= 4)
        differs |=
            words_differ(w - 1) | words_differ(w - 2) | words_differ(w - 3) | words_differ(w - 4);
    if (pairs != 0) {
        const na_frame_pair_t *lowest = f->pairs, *p = lowest + pairs;
        for (; (pairs & 3) != 0; pairs--)
            differs |= pair_differs(--p);
        for (; p != lowest; p -= 4)
            differs |= pair_differs(p - 1) | pair_differs(p - 2) | pair_differs(p - 3) |
                       pair_differs(p - 4);
    }
    return NA_LIKELY((differs[0] | differs[1]) == 0);
}

NA_INLINE bool is_alive(const na_frame_module_t *m) {
    return m->life != NULL && m->life->site == m->born.site &&
           m->life->words[1] == m->born.words[1];
}

/* Of the modules of kept frames, the first n. */
NA_INLINE bool all_alive(const na_frames_t *f, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (!is_alive(&f->modules[i])) return false;
    return true;
}

/* The place among the modules of kept frames, from 1, of the one that pc lies in, if it is certain
 * to be there still; 0: not. */
NA_INLINE uint32_t living_module(const na_frames_t *f, uintptr_t pc) {
    uint32_t n = f->count != 0 ? f->frames[f->count - 1].modules : 0;
    for (uint32_t i = 0; i < n; i++)
        if (pc - f->modules[i].start < f->modules[i].end - f->modules[i].start)
            return is_alive(&f->modules[i]) ? i + 1 : 0;
    return 0;
}

/* ---- the walk ---- */

NA_INLINE bool is_at(const na_frame_t *kept, const na_frame_state_t *s) {
    return kept->sp == s->sp && kept->pc == s->pc &&
           (kept->bp == s->bp || !(kept->rule & NA_FRAMES_RBP_MATTERS));
}

NA_INLINE void keep_word(na_frames_t *f, uint32_t i, uintptr_t at, uintptr_t value) {
    f->words[i / 2].at[i % 2] = at;
    f->words[i / 2].value[i % 2] = value;
}

/* Makes `frame` the kept one of a plain step; the one before it in the array is its caller's. */
NA_INLINE void keep_plain(na_frames_t *f, na_frame_t *frame, const na_frame_fresh_t *fresh) {
    const na_frame_t *outer = frame - 1;
    uint32_t rule = fresh->rule, words = outer->words, pairs = outer->pairs,
             slot = NA_RULE_SLOT(rule);
    bool outer_rbp = (outer->rule & NA_FRAMES_RBP_MATTERS) != 0;
    if (outer_rbp && slot == 2) {
        f->pairs[pairs++] = (na_frame_pair_t){outer->sp - 16, outer->bp, outer->pc};
    } else {
        keep_word(f, words++, outer->sp - 8, outer->pc);
        if (outer_rbp && slot != 0)
            keep_word(f, words++, outer->sp - 8 * (uintptr_t)slot, outer->bp);
    }
    bool uses = NA_RULE_KIND(rule) == R_RBP || (slot == 0 && outer_rbp);
    frame->pc = fresh->s.pc;
    frame->sp = fresh->s.sp;
    frame->bp = fresh->s.bp;
    frame->rule = rule | (uses ? NA_FRAMES_RBP_MATTERS : 0);
    frame->words = words;
    frame->pairs = pairs;
    frame->modules = outer->modules;
}

NA_INLINE na_frame_step_t *step_at(na_frames_t *f, uintptr_t pc) {
    return &f->steps[pc * UINT64_C(0x9e3779b97f4a7c15) >> (64 - NA_FRAMES_STEP_BITS)];
}

/* From a frame to its caller by a step of the usual kind: *s becomes the caller's; the rule, or 0:
 * it is not one, and *s is as it was. Unless the rule is a lasting one, the module must be there
 * still (living_module). What counts from rsp needs no more of a check than that the CFA is inside
 * the stack: see na_frames_learn. */
NA_INLINE uint32_t usual_step(na_frames_t *f, na_frame_state_t *s) {
    na_frame_step_t *step = step_at(f, s->pc);
    if (NA_UNLIKELY(step->pc != s->pc) && !na_frames_learn(step, s->pc)) return 0;
    uint32_t rule = step->rule;
    uintptr_t cfa = s->sp + (uintptr_t)(intptr_t)step->offset;
    size_t slot = NA_RULE_SLOT(rule);
    if ((rule & NA_RULE(R_RBP, 0, 0)) != 0) { /* or R_RSP */
        cfa = s->bp + (uintptr_t)(intptr_t)step->offset;
        uintptr_t reach = cfa - s->sp;
        if (NA_UNLIKELY(reach - 8 >= f->stack.hi - s->sp) || NA_UNLIKELY(reach < 8 * slot) ||
            NA_UNLIKELY((cfa & 7) != 0))
            return 0;
    }
    if (NA_UNLIKELY(cfa > f->stack.hi)) return 0;
    const uintptr_t *top = (const uintptr_t *)cfa;
    uintptr_t pc = top[-1];
    if (NA_UNLIKELY(pc == 0)) return 0;
    if (slot != 0) s->bp = *(top - slot);
    s->pc = pc;
    s->sp = cfa;
    return rule;
}

typedef enum na_walked {
    NA_WALKED_USUALLY, /* the new frames are those of na_frames_walk_from; nothing is kept yet */
    NA_WALKED,         /* as na_frames_walk says */
    NA_WALKED_NOT,
} na_walked_t;

/* The state in which a function of this library was entered, whose __builtin_frame_address(0) this
 * is and which has called its way here. */
NA_INLINE na_frame_state_t na_frames_entered(const void *entered) {
    const uintptr_t *at = entered;
    return (na_frame_state_t){.pc = at[1], .sp = (uintptr_t)(at + 2), .bp = at[0]};
}

/* Usual walks can be made, and what is known of the stack is of the code that is there. */
NA_INLINE bool na_frames_usual(const na_frames_t *f) {
    return NA_LIKELY(atomic_load_explicit(&na_umodule_generation, memory_order_acquire) ==
                     f->usual);
}

/* From there to the state in which the library was called: *own steps. False: usual walks cannot be
 * made. */
NA_INLINE bool na_frames_begin(na_frames_t *f, na_frame_state_t *s, na_frame_fresh_t *steps,
                               uint32_t *own) {
    if (!na_frames_usual(f) || NA_UNLIKELY(s->sp - f->stack.lo >= f->stack.size)) return false;
    uint32_t n = 0;
    for (; s->pc - f->own_lo < f->own_size; n++) {
        if (NA_UNLIKELY(n == NA_FRAMES_OWN)) return false;
        steps[n].s = *s;
        steps[n].rule = usual_step(f, s);
        steps[n].module = 0;
        if (NA_UNLIKELY((steps[n].rule & NA_RULE_LASTING) == 0)) return false;
    }
    *own = n;
    return true;
}

/* The walk from there. Usually: *joined is the kept frame that *n new ones lie inside of. */
NA_INLINE na_walked_t na_frames_join(na_frames_t *f, na_frame_state_t s, na_frame_fresh_t *fresh,
                                     uint32_t *n, const na_frame_t **joined, uint32_t *same) {
    const na_frame_t *kept = f->frames + f->count - 1;
    na_frame_fresh_t *next = fresh;
    uint32_t modules = 0;
    ptrdiff_t sound = 0; /* so many kept frames, the outermost ones, have been found unchanged */
    for (;;) {
        while (kept->sp < s.sp)
            kept--;
        if (is_at(kept, &s)) {
            if (kept - f->frames < sound || NA_LIKELY(unchanged(f, kept->words, kept->pairs)))
                break;
            sound = na_frames_sound(f, (uint32_t)(kept + 1 - f->frames));
            kept = f->frames + sound - 1;
        }
        if (NA_UNLIKELY(next == fresh + NA_FRAMES_PLAIN)) goto unusual;
        next->s = s;
        uint32_t module = 0, rule = usual_step(f, &s);
        if (NA_UNLIKELY((rule & NA_RULE_LASTING) == 0)) {
            if (rule == 0) goto unusual;
            if (NA_UNLIKELY((module = living_module(f, next->s.pc - 1)) == 0)) {
                s = next->s;
                goto unusual;
            }
            if (module > modules) modules = module; /* the frames joined must have as many */
        }
        next->rule = rule;
        next->module = module;
        next++;
    }
    if (NA_UNLIKELY(kept->modules < modules) || !all_alive(f, kept->modules)) goto unusual;
    if (NA_UNLIKELY(kept + (next - fresh) >= f->frames + f->room)) goto unusual;
    *n = (uint32_t)(next - fresh);
    *joined = kept;
    return NA_WALKED_USUALLY;
unusual:
    return na_frames_walk_on(f, fresh, (uint32_t)(next - fresh), s, same) ? NA_WALKED
                                                                          : NA_WALKED_NOT;
}

/* ---- tails ---- */

NA_INLINE uint64_t tail_key(uintptr_t pc, uintptr_t sp) {
    return pc ^ sp >> 4;
}

NA_INLINE na_frame_tail_t *tail_at(na_frames_t *f, const na_frame_state_t *s) {
    na_frame_tail_t *tail = &f->tails[tail_key(s->pc, s->sp) % (1u << NA_FRAMES_TAIL_BITS)];
    __asm__("" : "+r"(tail)); /* not to be computed again for each of its fields */
    return tail;
}

/* The set of older ones that begin so. It is another part of the key: those that share a place
 * among the tails do not share a set. */
NA_INLINE na_frame_tail_t *older_at(na_frames_t *f, uintptr_t pc, uintptr_t sp) {
    uint64_t hash = tail_key(pc, sp) * UINT64_C(0x9e3779b97f4a7c15);
    return f->older[hash >> (64 - NA_FRAMES_OLDER_BITS)];
}

/* A tail that is not a plain one, with the rbp at its beginning, which becomes that at its end. */
NA_INLINE bool goes_specially(const na_frame_tail_t *tail, uintptr_t *bp) {
    if ((tail->special & NA_FRAMES_TAIL_BY_BP) != 0 && NA_UNLIKELY(tail->bp != *bp)) return false;
    if ((tail->special & NA_FRAMES_TAIL_OTHER) == 0) return true;
    const uintptr_t *stack = (const uintptr_t *)tail->sp;
    uintptr_t differs = 0;
    for (uint32_t i = 0; i < tail->words; i++)
        differs |= stack[tail->at[i]] ^ tail->value[i];
    if (NA_UNLIKELY(differs != 0)) return false;
    if (tail->bp_at != NA_FRAMES_TAIL_BP_HERE) *bp = stack[tail->bp_at];
    return true;
}

/* The walk from *s on goes through this tail, and then as the kept frames do. (All that is read of
 * the stack lies between a stack pointer that is in it and kept frames. A frame of the same node
 * has the same pc.) */
NA_INLINE bool goes_through(const na_frames_t *f, const na_frame_tail_t *tail,
                            const na_frame_state_t *s) {
    if (NA_UNLIKELY(tail->pc != s->pc) || NA_UNLIKELY(tail->sp != s->sp)) return false;
    uint32_t place = tail->place;
    const na_frame_t *kept = f->frames + place;
    const uintptr_t *at = (const uintptr_t *)tail->sp + tail->join_at;
    if (NA_UNLIKELY(place >= f->count) || NA_UNLIKELY(kept->node != tail->join) ||
        NA_UNLIKELY(kept->sp != (uintptr_t)(at + 1)) || NA_UNLIKELY(*at != tail->leads))
        return false;
    uintptr_t bp = s->bp;
    if (tail->special != 0 && NA_UNLIKELY(!goes_specially(tail, &bp))) return false;
    if ((kept->rule & NA_FRAMES_RBP_MATTERS) != 0 && NA_UNLIKELY(kept->bp != bp)) return false;
    return all_alive(f, kept->modules) && unchanged(f, kept->words, kept->pairs);
}

#endif

/* --- A stack that is captured as nearly all are, in one piece with the event that it belongs to:
 * the usual walk, then the edges of the few new frames --- */

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
