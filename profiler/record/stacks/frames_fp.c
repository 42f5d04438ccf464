/* frames_fp.c - the walk that joins the last one, where stacks are walked by frame pointers (not on
 * x86-64).
 *
 * A frame record is two words: the caller's frame pointer, and the return address into the caller.
 * A step reads them and nothing else; there are no rules that depend on code. So the state of a
 * frame is its pc and where its own record lies, and a kept frame's record is unchanged if it still
 * holds what the next kept one has. Return addresses are compared as they lie there, signatures
 * included.
 *
 * What na_frame_t has here: `bp` is where the frame's own record lies, 0 of the outermost; `sp` is
 * the return address as it lay in the record that led here. No words, pairs, rules or modules.
 *
 * Only code that stays is kept. A walk over a module that may go, or over none, is made as if
 * nothing were kept (na_unwind_thread), which meets the module each time. */
#include "profiler/record/unwind/frames.h"

#include "alloc/core/sys/base.h"
#include "profiler/record/state/state.h"
#include "profiler/record/unwind/umodules.h"

#if !defined(__x86_64__)

typedef struct walk {
    na_frames_t *f;
    uint32_t fresh; /* index of the outermost new frame; they lie at the array's end */
    uint32_t kept;  /* kept frames [0, kept) may still be met */
    na_unwind_module_t module, before; /* that stay, met in this walk */
} walk_t;

#define WORD(at) (*(const uintptr_t *)(at))

static NA_COLD bool grow_fp_frames(walk_t *w) {
    na_frames_t *f = w->f;
    uint32_t room = f->room == 0 ? NA_FRAMES_LEAST : f->room * 2, fresh = f->room - w->fresh;
    if (room > NA_FRAMES_MOST) return false;
    uint64_t bytes = room * sizeof *f->frames;
    na_frame_t *to = na_own_alloc(bytes);
    if (to == NULL) return false;
    for (uint32_t i = 0; i < f->count; i++)
        to[i] = f->frames[i];
    for (uint32_t i = 0; i < fresh; i++)
        to[room - fresh + i] = f->frames[w->fresh + i];
    if (f->frames != NULL) na_own_give_back(f->frames, f->room * sizeof *f->frames);
    f->frames = to;
    f->room = room;
    w->fresh = room - fresh;
    return true;
}

/* The code that a call returns to stays. */
static bool stays(walk_t *w, uintptr_t pc) {
    if (pc - w->module.start < w->module.end - w->module.start) return true;
    na_unwind_module_t m = w->before;
    if (pc - m.start >= m.end - m.start && na_umodule_find(pc, &m) != NA_UMODULE_LASTING)
        return false;
    w->before = w->module;
    w->module = m;
    return true;
}

/* The nth return address from the walk outwards. In a program that was linked with the objects, as
 * tests are, only the frame of na_frames_walk's caller is left out. */
static bool is_left_out(uintptr_t pc, unsigned nth) {
    return na_unwind_skip_hi != 0 ? pc - na_unwind_skip_lo < na_unwind_skip_hi - na_unwind_skip_lo
                                  : nth == 0;
}

/* How many of the kept frames [0, upto), from the outermost on, lead to each other still. */
static uint32_t sound(const na_frames_t *f, uint32_t upto) {
    uint32_t n = 1;
    for (; n < upto; n++) {
        const na_frame_t *inner = &f->frames[n], *outer = inner - 1;
        if (WORD(inner->bp) != outer->bp || WORD(inner->bp + 8) != outer->sp) break;
    }
    return n;
}

/* The walk has come to a frame in this state: it is a kept one, and what lies outside of it is as
 * it was. (All of it lies between the walk and the end of the stack.) */
static bool joins(walk_t *w, uintptr_t pc, uintptr_t record) {
    const na_frame_t *frames = w->f->frames;
    if (record == 0) /* the outermost */
        w->kept = w->kept != 0;
    else
        while (w->kept > 1 && frames[w->kept - 1].bp < record)
            w->kept--;
    if (w->kept == 0 || frames[w->kept - 1].bp != record || frames[w->kept - 1].pc != pc)
        return false;
    uint32_t upto = w->kept;
    w->kept = sound(w->f, upto);
    return w->kept == upto;
}

NA_NOINLINE bool na_frames_walk(na_frames_t *f, bool learns, uint32_t *same) {
    walk_t w = {.f = f, .fresh = f->room, .kept = f->count};
    uintptr_t record = (uintptr_t)__builtin_frame_address(0);
    if (record - f->stack.lo >= f->stack.size && (!learns || !na_unwind_learn(&f->stack, record)))
        return false;
    uintptr_t hi = f->stack.hi;
    bool inside = true; /* of the library */
    for (unsigned nth = 0;; nth++) {
        if (record >= hi || hi - record < 16 || (record & 7) != 0) return false;
        uintptr_t raw = WORD(record + 8), pc = na_unwind_address(raw), next = WORD(record);
        if (pc == 0 || (next != 0 && next < record + 16)) return false;
        inside = inside && is_left_out(pc, nth);
        if (inside && next == 0) return false;
        if (!inside) {
            if (joins(&w, pc, next)) break;
            if (!stays(&w, pc - 1)) return false;
            if (w.fresh <= f->count && !grow_fp_frames(&w)) return false;
            f->frames[--w.fresh] = (na_frame_t){.pc = pc, .sp = raw, .bp = next};
            w.kept = next == 0 ? 0 : w.kept;
            if (next == 0) break;
        }
        record = next;
    }
    *same = w.kept;
    f->count = w.kept;
    for (uint32_t i = w.fresh; i < f->room; i++)
        f->frames[f->count++] = f->frames[i];
    return true;
}

#endif
