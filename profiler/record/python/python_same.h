/* python_same.h - what nearly every event finds: the thread's Python frames are as at an earlier
 * one. To be inlined where stacks are captured. Nothing is learnt here; what is in any way
 * different is for na_python_node (python.h), which knows all cases.
 *
 * The code is made three times, once for each way in which frames tell where they are
 * (na_py_how_t): what lies where is then known, and a frame is compared by a dozen instructions. */
#ifndef NUMALLOC_PROFILER_RECORD_PYTHON_PYTHON_SAME_H
#define NUMALLOC_PROFILER_RECORD_PYTHON_PYTHON_SAME_H

#include "alloc/core/sys/base.h"
#include "alloc/core/sys/lock.h"
#include "profiler/record/python/python.h"

#define NA_PY_PAGE_BITS 12

NA_INLINE uintptr_t na_py_word(uintptr_t at) {
    return *(const uintptr_t *)at;
}

/* ---- where the thread is ---- */

/* `current`, the state that has the GIL, is this thread's own, the one seen last. A state is of one
 * thread as long as it is there, and one that has the GIL is there. */
NA_INLINE bool na_py_is_own(const na_py_thread_t *p, const void *current) {
    return NA_LIKELY(current == p->state) &&
           NA_LIKELY(na_py_word((uintptr_t)current + na_py.layout.thread_id) ==
                     na_thread_pointer());
}

/* This word lies on the thread's own stack, which stays readable. (What leads to the innermost
 * frame does where the thread runs the interpreter, whoever made the state.) */
NA_INLINE bool na_py_is_on_stack(const na_rthread_t *t, uintptr_t at) {
    const na_unwind_thread_t *stack = &t->frames.stack;
    return at - stack->lo < stack->size && (at & 7) == 0;
}

/* The innermost frame, if what leads to it is known to be readable; 0: not, or there is none. (Of
 * an interpreter that may be unloaded no state is kept: it is asked for each time.) */
NA_INLINE uintptr_t na_py_innermost(const na_rthread_t *t) {
    const na_py_layout_t *l = &na_py.layout;
    const void *state = na_py.current_state();
    if (NA_UNLIKELY(!na_py_is_own(t->python, state))) return 0;
    uintptr_t top = na_py_word((uintptr_t)state + l->thread_frame);
    if (l->cframe_frame == NA_PY_NONE) return top;
    top += l->cframe_frame;
    return NA_LIKELY(na_py_is_on_stack(t, top)) ? na_py_word(top) : 0;
}

/* Its instruction can be read. False for 0. */
NA_INLINE bool na_py_is_readable(na_py_thread_t *p, uintptr_t frame) {
    if (frame == p->readable) return true;
    uintptr_t page = (frame + na_py.layout.frame_instr) >> NA_PY_PAGE_BITS;
    if (NA_UNLIKELY(p->pages[page % NA_PY_PAGES] != page) || NA_UNLIKELY((frame & 7) != 0))
        return false;
    p->readable = frame;
    return true;
}

NA_INLINE uintptr_t na_py_instr(uintptr_t frame, const na_py_how_t how) {
    uintptr_t at = frame + na_py.layout.frame_instr;
    return how == NA_PY_BY_NUMBER ? (uintptr_t) * (const uint32_t *)at : na_py_word(at);
}

/* ---- is what was kept still so? ---- */

/* Two words, in halves. */
typedef int na_py_words_t __attribute__((vector_size(16), aligned(8), may_alias));
typedef int na_py_kept_words_t __attribute__((vector_size(16), may_alias));

/* The halves that are as they were; what they were is aligned. */
NA_INLINE na_py_kept_words_t na_py_same_halves(uintptr_t at, const void *was) {
    return *(const na_py_words_t *)at == *(const na_py_kept_words_t *)was;
}

NA_INLINE bool na_py_all_halves(na_py_kept_words_t same) {
#if defined(__x86_64__)
    typedef char bytes_t __attribute__((vector_size(16)));
    return __builtin_ia32_pmovmskb128((bytes_t)same) == 0xffff;
#else
    return (same[0] & same[1] & same[2] & same[3]) != 0;
#endif
}

/* As it is now, a kept frame is as it was, but for its code. It can be read: something leads
 * there. */
NA_INLINE bool na_py_is_linked(const na_py_frame_t *k, const na_py_how_t how, size_t linked_at,
                               size_t instr_at) {
    if (NA_UNLIKELY(!na_py_all_halves(na_py_same_halves(k->frame + linked_at, k->linked))))
        return false;
    if (how == NA_PY_BY_POINTER) return NA_LIKELY(na_py_word(k->frame + instr_at) == k->instr);
    if (how == NA_PY_BY_NUMBER)
        return NA_LIKELY(*(const uint32_t *)(k->frame + instr_at) == k->instr);
    return true;
}

/* The block of its code is as it was; of code without one this says nothing. */
NA_INLINE bool na_py_is_alive(const na_py_frame_t *k) {
    return na_py_all_halves(na_py_same_halves((uintptr_t)k->life, &k->born));
}

/* Both, by one comparison. */
NA_INLINE bool na_py_is_same(const na_py_frame_t *k, const na_py_how_t how, size_t linked_at,
                             size_t instr_at) {
    if (NA_UNLIKELY(!na_py_all_halves(na_py_same_halves(k->frame + linked_at, k->linked) &
                                      na_py_same_halves((uintptr_t)k->life, &k->born))))
        return false;
    if (how == NA_PY_BY_POINTER) return NA_LIKELY(na_py_word(k->frame + instr_at) == k->instr);
    if (how == NA_PY_BY_NUMBER)
        return NA_LIKELY(*(const uint32_t *)(k->frame + instr_at) == k->instr);
    return true;
}

/* From the kept frame `k` outwards, the first that is not as it was, but for its mark; the one
 * before the first: all are. */
NA_INLINE const na_py_frame_t *na_py_changed(const na_py_frame_t *k, const na_py_how_t how) {
    const size_t linked_at = na_py.layout.frame_linked, instr_at = na_py.layout.frame_instr;
    while (na_py_is_same(k, how, linked_at, instr_at))
        k--;
    return k;
}

/* Innermost frames have a place by frame and instruction. */
NA_INLINE na_py_frame_t *na_py_tails_at(na_py_thread_t *p, uintptr_t frame, uintptr_t instr) {
    uint64_t hash = (frame ^ instr << 7) * UINT64_C(0x9e3779b97f4a7c15);
    return p->tails[hash >> (64 - NA_PY_TAIL_BITS)];
}

/* The tail of this innermost frame, which can be read, if it was met before, where it is now:
 * inside of the kept chain; else NULL, and *found. */
NA_INLINE const na_py_frame_t *na_py_tail_by(na_py_thread_t *p, uintptr_t frame,
                                             const na_py_how_t how, na_py_found_t *found) {
    const na_py_layout_t *l = &na_py.layout;
    uintptr_t instr = na_py_instr(frame, how);
    *found = (na_py_found_t){.met = NULL};
    na_py_frame_t *tail = na_py_tails_at(p, frame, instr);
    if (tail->frame != frame || tail->instr != instr) {
        tail++;
        if (NA_UNLIKELY(tail->frame != frame) || NA_UNLIKELY(tail->instr != instr)) return NULL;
    }
    if (NA_UNLIKELY(!na_py_is_linked(tail, how, l->frame_linked, l->frame_instr))) return NULL;
    uint32_t place = tail->place;
    const na_py_frame_t *outer = p->kept + place - 1;
    uintptr_t marked = tail->mark.name;
    if (NA_LIKELY(place != 0)) {
        if (NA_UNLIKELY(place > p->count) || NA_UNLIKELY(outer->frame != tail->back) ||
            NA_UNLIKELY(outer->as_outer != tail->outer))
            goto elsewhere;
        marked |= outer->marks;
    } else if (NA_UNLIKELY(tail->back != 0)) {
        goto elsewhere;
    }
    if (marked != 0) {
        if (NA_LIKELY(na_py_all_same(tail, p->kept, place))) return tail;
        goto elsewhere;
    }
    if (NA_UNLIKELY(!na_py_is_alive(tail))) return NULL;
    const na_py_frame_t *changed = na_py_changed(outer, how);
    if (NA_LIKELY(changed < p->kept)) return tail;
    found->place = place;
    found->changed = (int32_t)(changed - p->kept);
elsewhere:
    found->met = tail;
    return NULL;
}

NA_INLINE const na_py_frame_t *na_py_tail(na_py_thread_t *p, uintptr_t frame,
                                          na_py_found_t *found) {
    switch (na_py.layout.how) {
    case NA_PY_BY_LINKED:
        return na_py_tail_by(p, frame, NA_PY_BY_LINKED, found);
    case NA_PY_BY_POINTER:
        return na_py_tail_by(p, frame, NA_PY_BY_POINTER, found);
    default:
        return na_py_tail_by(p, frame, NA_PY_BY_NUMBER, found);
    }
}

/* The same of the calling thread. NULL: *frame is its innermost frame, which can be read and has no
 * such tail; 0: that has to be found out first. */
NA_INLINE const na_py_frame_t *na_python_same(const na_rthread_t *t, uintptr_t *frame,
                                              na_py_found_t *found) {
    na_py_thread_t *p = t->python;
    *frame = 0;
    if (NA_UNLIKELY(p->unmapped != atomic_load_explicit(&na_py_unmapped, memory_order_relaxed)))
        return NULL;
    uintptr_t innermost = na_py_innermost(t);
    if (NA_UNLIKELY(!na_py_is_readable(p, innermost))) return NULL;
    *frame = innermost;
    return na_py_tail(p, innermost, found);
}

/* ---- pairs ---- */

NA_INLINE uint64_t na_py_pair_of(uint32_t native, uint32_t python) {
    return (uint64_t)python << 32 | native;
}

/* The place of the pair of these two. */
NA_INLINE na_py_pair_t *na_py_pair_at(na_py_thread_t *p, uint64_t stacks) {
    return &p->pairs[stacks * UINT64_C(0x9e3779b97f4a7c15) >> (64 - NA_PY_PAIR_BITS)];
}

#endif
