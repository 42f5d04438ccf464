/* frames.c - the walk that joins the last one (x86-64). */
#include "profiler/record/unwind/frames.h"

#include "alloc/core/sys/base.h"
#include "profiler/record/state/state.h"
#include "profiler/record/unwind/umodules.h"
#include "profiler/record/unwind/unwind_rules.h"

/* Kept words are compared where they were, which may be anywhere in the thread's own stack by now:
 * in variables out of scope, or between them. AddressSanitizer is told so. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#pragma clang attribute push(__attribute__((no_sanitize("address"))), apply_to = function)
#define READS_ANY_OF_THE_STACK 1
#endif
#endif
#include "profiler/record/stacks/walk.h" /* its functions, too, as long as they are inlined here */

void na_frames_forget(na_frames_t *f) {
    f->stack = (na_unwind_thread_t){0};
    f->count = 0;
    f->generation = f->usual = f->usual_native = UINT32_MAX; /* of no walk yet */
}

#if defined(__x86_64__)

#define CONFIRMED 8u

/* A step reads three words at most: return address, rbp, a CFA that is kept in memory. */
#define WORDS_A_FRAME 3u

typedef struct walk {
    na_frames_t *f;
    uintptr_t hi;           /* end of the thread's own stack */
    uint32_t fresh;         /* index of the outermost new frame */
    const na_frame_t *kept; /* the innermost kept frame that may still be met */
    uint32_t sound;         /* of those, [0, sound) have been found unchanged */
    na_frame_t beyond;      /* where the outermost frame's step led, if it read words: pc is 0 */
    uint32_t confirmed_count;
    na_frame_module_t confirmed[CONFIRMED]; /* in this walk */
} walk_t;

/* ---- room ---- */

static uint64_t kept_bytes(uint64_t room) {
    return (room + 1) * sizeof(na_frame_t) + room * WORDS_A_FRAME * sizeof(na_frame_words_t) / 2 +
           room * sizeof(na_frame_pair_t);
}

/* Doubles the room; both the kept frames and the new ones at the end move. */
static NA_COLD bool grow_kept_frames(walk_t *w) {
    na_frames_t *f = w->f;
    uint32_t room = f->room == 0 ? NA_FRAMES_LEAST : f->room * 2, fresh = f->room - w->fresh;
    if (room > NA_FRAMES_MOST) return false;
    uint64_t frames = (room + 1) * sizeof *f->frames,
             words = room * WORDS_A_FRAME * sizeof *f->words / 2;
    uint8_t *p = na_own_alloc(kept_bytes(room));
    if (p == NULL) return false;
    na_frame_t *to = (na_frame_t *)p + 1;
    to[-1] = (na_frame_t){.sp = UINTPTR_MAX};
    na_frame_words_t *to_words = (na_frame_words_t *)(p + frames);
    na_frame_pair_t *to_pairs = (na_frame_pair_t *)(p + frames + words);
    for (uint32_t i = 0; i < f->count; i++)
        to[i] = f->frames[i];
    for (uint32_t i = 0; i < fresh; i++)
        to[room - fresh + i] = f->frames[w->fresh + i];
    if (f->count != 0) {
        for (uint32_t i = 0; i < (f->frames[f->count - 1].words + 1) / 2; i++)
            to_words[i] = f->words[i];
        for (uint32_t i = 0; i < f->frames[f->count - 1].pairs; i++)
            to_pairs[i] = f->pairs[i];
    }
    w->kept = to + (f->frames != NULL ? w->kept - f->frames : -1);
    if (f->frames != NULL) na_own_give_back(f->frames - 1, kept_bytes(f->room));
    f->frames = to;
    f->words = to_words;
    f->pairs = to_pairs;
    f->room = room;
    w->fresh = room - fresh;
    return true;
}

/* ---- is what was kept still so? ---- */

/* Of the words [0, n), the first that has changed; n: none. */
static NA_NOINLINE uint32_t first_changed_word(const na_frame_words_t *words, uint32_t n) {
    uint32_t i = 0;
    while (i < n && *(const uintptr_t *)words[i / 2].at[i % 2] == words[i / 2].value[i % 2])
        i++;
    return i;
}

static NA_NOINLINE uint32_t first_changed_pair(const na_frame_pair_t *pairs, uint32_t n) {
    uint32_t i = 0;
    for (; i < n; i++) {
        const uintptr_t *at = (const uintptr_t *)pairs[i].at;
        if (at[0] != pairs[i].bp || at[1] != pairs[i].pc) break;
    }
    return i;
}

NA_NOINLINE uint32_t na_frames_sound(const na_frames_t *f, uint32_t upto) {
    const na_frame_t *frames = f->frames;
    uint32_t words = first_changed_word(f->words, frames[upto - 1].words);
    uint32_t pairs = first_changed_pair(f->pairs, frames[upto - 1].pairs);
    uint32_t n = 0;
    while (n < upto && frames[n].words <= words && frames[n].pairs <= pairs)
        n++;
    return n;
}

static bool same_frame_module(const na_frame_module_t *a, const na_frame_module_t *b) {
    return a->start == b->start && a->end == b->end && a->eh_hdr == b->eh_hdr &&
           a->link_map == b->link_map;
}

static bool still_there(const walk_t *w, const na_frame_module_t *m) {
    if (is_alive(m)) return true;
    for (uint32_t i = 0; i < w->confirmed_count; i++)
        if (same_frame_module(m, &w->confirmed[i])) return true;
    na_unwind_module_t now;
    na_umodule_state_t state = na_umodule_find(m->start, &now);
    if (m->end == m->start) return state == NA_UMODULE_NONE;
    return state >= NA_UMODULE_KNOWN && now.start == m->start && now.end == m->end &&
           now.eh_hdr == m->eh_hdr && now.link_map == m->link_map;
}

/* The code of the kept frames [0, upto), in so far as it may go. */
static NA_NOINLINE bool modules_hold(walk_t *w, uint32_t upto) {
    const na_frames_t *f = w->f;
    for (uint32_t i = 0; i < f->frames[upto - 1].modules; i++)
        if (!still_there(w, &f->modules[i])) return false;
    return atomic_load_explicit(&na_umodule_generation, memory_order_acquire) == f->generation;
}

/* Is the frame in the state *s a kept one, and which? Before the first frame lies one that is
 * higher than all. */
NA_INLINE bool meets(walk_t *w, const na_frame_state_t *s) {
    const na_frame_t *kept = w->kept;
    while (kept->sp < s->sp)
        kept--;
    w->kept = kept;
    return kept->sp == s->sp && kept->pc == s->pc &&
           (kept->bp == s->bp || !(kept->rule & NA_FRAMES_RBP_MATTERS));
}

static NA_NOINLINE void forget_changed(walk_t *w) {
    w->sound = na_frames_sound(w->f, (uint32_t)(w->kept + 1 - w->f->frames));
    w->kept = w->f->frames + w->sound - 1;
}

/* The walk has come to a frame in the state of the kept one: is the rest as kept? If not, w->kept
 * says what is left to meet. */
NA_INLINE bool joins(walk_t *w) {
    const na_frame_t *kept = w->kept;
    if (kept - w->f->frames >= (ptrdiff_t)w->sound &&
        NA_UNLIKELY(!unchanged(w->f, kept->words, kept->pairs))) {
        forget_changed(w);
        return false;
    }
    if (NA_UNLIKELY(kept->modules != 0) && !modules_hold(w, (uint32_t)(kept + 1 - w->f->frames))) {
        w->kept = w->f->frames - 1;
        return false;
    }
    return true;
}

/* ---- rules ---- */

/* The place in w->confirmed of what na_umodule_find said of pc, from 1; 0: no room. */
static uint32_t note_confirmed(walk_t *w, uintptr_t pc, const na_unwind_module_t *m, bool none) {
    na_frame_module_t now = {
        .start = m->start, .end = m->end, .eh_hdr = m->eh_hdr, .link_map = m->link_map};
    if (none) now = (na_frame_module_t){.start = pc, .end = pc};
    for (uint32_t i = 0; i < w->confirmed_count; i++)
        if (same_frame_module(&now, &w->confirmed[i])) return i + 1;
    if (w->confirmed_count == CONFIRMED) return 0;
    if (!none && na_rec.record_of != NULL) now.life = na_rec.record_of(now.link_map);
    if (now.life != NULL) {
        now.born = *now.life;
        if (now.born.epoch != na_profile_epoch) now.life = NULL;
    }
    w->confirmed[w->confirmed_count] = now;
    return ++w->confirmed_count;
}

/* The same of what living_module has found. */
static uint32_t note_living(walk_t *w, uint32_t living) {
    const na_frame_module_t *m = &w->f->modules[living - 1];
    for (uint32_t i = 0; i < w->confirmed_count; i++)
        if (same_frame_module(m, &w->confirmed[i])) return i + 1;
    if (w->confirmed_count == CONFIRMED) return 0;
    w->confirmed[w->confirmed_count] = *m;
    return ++w->confirmed_count;
}

/* The rule of an address in code that may go, or that is new; *module gets its place in
 * w->confirmed, 0 if it stays. 0: not in this way. */
static NA_NOINLINE uint32_t rule_of_caller(walk_t *w, uintptr_t pc, uint32_t *module) {
    *module = 0;
    if (pc >> NA_RULE_PC_BITS != 0) return 0;
    for (uint32_t i = 0; i < w->confirmed_count; i++) {
        const na_frame_module_t *m = &w->confirmed[i];
        if (pc - m->start >= m->end - m->start) continue;
        uint32_t rule = na_rule_cached(pc);
        *module = i + 1;
        if (rule != 0) return rule;
    }
    uint32_t living = living_module(w->f, pc);
    if (living != 0 && (*module = note_living(w, living)) != 0) {
        uint32_t rule = na_rule_cached(pc);
        if (rule != 0) return rule;
    }
    na_unwind_module_t m = {0, 0, NULL, NULL};
    na_umodule_state_t state = na_umodule_find(pc, &m);
    if (state == NA_UMODULE_FRESH) return 0;
    if (state != NA_UMODULE_LASTING &&
        (*module = note_confirmed(w, pc, &m, state == NA_UMODULE_NONE)) == 0)
        return 0;
    if (state == NA_UMODULE_NONE) return NA_RULE(R_FRAME_POINTER, 0, 0);
    uint32_t rule = na_rule_cached(pc);
    return rule != 0 ? rule : na_rule_make(&m, pc, NA_RULE_KEEP, state == NA_UMODULE_LASTING);
}

NA_INLINE uint32_t rule_of(walk_t *w, uintptr_t pc, uint32_t *module) {
    if (NA_LIKELY(pc >> NA_RULE_PC_BITS == 0)) {
        uint32_t rule = na_rule_cached(pc);
        if (NA_LIKELY((rule & NA_RULE_LASTING) != 0)) {
            *module = 0;
            return rule;
        }
    }
    return rule_of_caller(w, pc, module);
}

/* ---- one step ---- */

typedef enum step { STEP_DONE, STEP_OUTERMOST, STEP_DECLINED } step_t;

/* The word at `at` lies on the thread's own stack, not below sp. */
NA_INLINE bool can_read(const walk_t *w, uintptr_t at, uintptr_t sp) {
    return at >= sp && at < w->hi && (at & 7) == 0;
}

#define WORD(at) (*(const uintptr_t *)(at))

/* From a frame to its caller, by its rule. */
NA_INLINE step_t step(const walk_t *w, uint32_t rule, na_frame_state_t *s) {
    uintptr_t cfa;
    switch (NA_RULE_KIND(rule)) {
    case R_RSP:
        cfa = s->sp + (uintptr_t)NA_RULE_OFF(rule);
        break;
    case R_RBP:
        cfa = s->bp + (uintptr_t)NA_RULE_OFF(rule);
        break;
    case R_DEREF: {
        uintptr_t at = s->bp + (uintptr_t)NA_RULE_OFF(rule);
        if (!can_read(w, at, s->sp)) return STEP_DECLINED;
        cfa = WORD(at);
        break;
    }
    case R_FRAME_POINTER:
        if (s->bp == 0) return STEP_OUTERMOST;
        if (!can_read(w, s->bp, s->sp) || w->hi - s->bp < 16) return STEP_DECLINED;
        cfa = s->bp + 16;
        s->pc = WORD(cfa - 8);
        s->bp = WORD(cfa - 16);
        s->sp = cfa;
        return s->pc == 0 ? STEP_OUTERMOST : STEP_DONE;
    case R_END:
        return STEP_OUTERMOST;
    default:
        return STEP_DECLINED;
    }
    if (NA_UNLIKELY(cfa <= s->sp || !can_read(w, cfa - 8, s->sp))) return STEP_DECLINED;
    unsigned slot = NA_RULE_SLOT(rule);
    if (slot != 0) {
        uintptr_t at = slot == NA_RULE_SLOT_AT_RBP ? s->bp : cfa - 8 * (uintptr_t)slot;
        if (NA_UNLIKELY(!can_read(w, at, s->sp))) return STEP_DECLINED;
        s->bp = WORD(at);
    }
    s->pc = WORD(cfa - 8);
    s->sp = cfa;
    return s->pc == 0 ? STEP_OUTERMOST : STEP_DONE;
}

/* ---- this library's own frames ---- */

NA_INLINE bool is_own(uintptr_t pc) {
    return pc - na_unwind_skip_lo < na_unwind_skip_hi - na_unwind_skip_lo;
}

/* The nth return address from the walk outwards. In a program that was linked with the objects, as
 * tests are, only the frame of na_frames_walk's caller is left out. */
NA_INLINE bool is_left_out(uintptr_t pc, unsigned nth) {
    return na_unwind_skip_hi != 0 ? is_own(pc) : nth == 0;
}

NA_INLINE bool fits(uintptr_t hi, const na_frame_chain_t *c, const na_frame_state_t *s) {
    if (hi - s->sp < c->span) return false;
    for (uint32_t i = 0; i < c->count; i++)
        if (WORD(s->sp + c->at[i]) != c->value[i]) return false;
    return !is_own(WORD(s->sp + c->span - 8));
}

/* The innermost frame of the program by steps of its own, where the library was built with frame
 * pointers. */
static NA_COLD bool step_out(walk_t *w, na_frame_state_t *s) {
    uintptr_t key = s->pc;
    for (unsigned nth = 0;; nth++, key = s->pc - 1) {
        uint32_t module, rule = rule_of(w, key, &module);
        if (module != 0 || step(w, rule, s) != STEP_DONE) return false;
        if (!is_left_out(s->pc, nth)) return true;
    }
}

/* Learns the chain that begins in the state *s. Only rules that count from rsp make one. */
static NA_COLD bool learn_chain(walk_t *w, const na_frame_state_t *s) {
    na_frames_t *f = w->f;
    na_frame_chain_t c = {.bp_at = NA_FRAMES_BP_HERE};
    na_frame_state_t at = *s;
    uintptr_t key = s->pc;
    for (;;) {
        uint32_t module;
        uint32_t rule = rule_of(w, key, &module);
        if (NA_RULE_KIND(rule) != R_RSP || !(rule & NA_RULE_LASTING)) return false;
        unsigned slot = NA_RULE_SLOT(rule);
        if (slot == NA_RULE_SLOT_AT_RBP || step(w, rule, &at) != STEP_DONE) return false;
        if (slot != 0) c.bp_at = (uint32_t)(at.sp - 8 * (uintptr_t)slot - s->sp);
        if (at.sp - s->sp > 1 << 16) return false;
        if (!is_left_out(at.pc, c.count)) break;
        if (c.count == NA_FRAMES_CHAIN) return false;
        c.at[c.count] = (uint32_t)(at.sp - 8 - s->sp);
        c.value[c.count++] = at.pc;
        key = at.pc - 1;
    }
    c.span = (uint32_t)(at.sp - s->sp);
    f->chain = &f->chains[f->chain_count++ % NA_FRAMES_CHAINS];
    *f->chain = c;
    return true;
}

static NA_NOINLINE bool find_chain(walk_t *w, const na_frame_state_t *s) {
    na_frames_t *f = w->f;
    for (uint32_t i = 0; i < f->chain_count && i < NA_FRAMES_CHAINS; i++) {
        if (!fits(w->hi, &f->chains[i], s)) continue;
        f->chain = &f->chains[i];
        return true;
    }
    return learn_chain(w, s);
}

NA_INLINE void pass(const na_frame_chain_t *c, na_frame_state_t *s) {
    if (c->bp_at != NA_FRAMES_BP_HERE) s->bp = WORD(s->sp + c->bp_at);
    s->sp += c->span;
    s->pc = WORD(s->sp - 8);
}

/* From the walk itself to the program's innermost frame, by another chain than the last one. */
static NA_NOINLINE bool leave_library(walk_t *w, na_frame_state_t *s) {
    if (!find_chain(w, s)) return step_out(w, s);
    pass(w->f->chain, s);
    return true;
}

/* ---- keeping ---- */

/* The module of a new frame gets a place among those of the kept ones. False: no room. */
static NA_NOINLINE bool keep_module(walk_t *w, na_frame_t *frame, uint32_t before) {
    na_frames_t *f = w->f;
    const na_frame_module_t *m = &w->confirmed[frame->modules - 1];
    uint32_t n = before;
    for (uint32_t i = 0; i < before; i++)
        if (same_frame_module(&f->modules[i], m)) goto known;
    if (n == NA_FRAMES_MODULES) return false;
    f->modules[n++] = *m;
known:
    frame->modules = n;
    return true;
}

/* Appends the frame to the kept ones: what its step read (`outer`: the frame it led to, NULL: it is
 * the outermost) is to be compared from now on. */
NA_INLINE bool keep(walk_t *w, const na_frame_t *outer, na_frame_t *frame) {
    na_frames_t *f = w->f;
    uint32_t rule = frame->rule, kind = NA_RULE_KIND(rule), slot = NA_RULE_SLOT(rule);
    uint32_t words = 0, pairs = 0, modules = 0;
    bool outer_rbp = false;
    if (outer != NULL) {
        words = outer->words;
        pairs = outer->pairs;
        modules = outer->modules;
        outer_rbp = (outer->rule & NA_FRAMES_RBP_MATTERS) != 0;
        uintptr_t ra = outer->sp - 8;
        uintptr_t saved = slot == NA_RULE_SLOT_AT_RBP ? frame->bp : outer->sp - 8 * (uintptr_t)slot;
        bool with_rbp = slot != 0 && outer_rbp;
        if (kind == R_FRAME_POINTER || (with_rbp && saved == ra - 8)) {
            f->pairs[pairs++] = (na_frame_pair_t){ra - 8, outer->bp, outer->pc};
        } else {
            keep_word(f, words++, ra, outer->pc);
            if (with_rbp) keep_word(f, words++, saved, outer->bp);
        }
        if (NA_UNLIKELY(kind == R_DEREF))
            keep_word(f, words++, frame->bp + (uintptr_t)NA_RULE_OFF(rule), outer->sp);
    }
    bool uses = kind == R_RBP || kind == R_DEREF || kind == R_FRAME_POINTER ||
                slot == NA_RULE_SLOT_AT_RBP || (slot == 0 && outer_rbp);
    frame->rule = (rule & ~NA_FRAMES_RBP_MATTERS) | (uses ? NA_FRAMES_RBP_MATTERS : 0);
    frame->words = words;
    frame->pairs = pairs;
    if (NA_LIKELY(frame->modules == 0))
        frame->modules = modules;
    else if (!keep_module(w, frame, modules))
        return false;
    return true;
}

/* The new frames follow the kept ones [0, same). */
NA_INLINE bool join(walk_t *w, uint32_t same) {
    na_frames_t *f = w->f;
    uint32_t n = f->room - w->fresh;
    const na_frame_t *outer = same != 0 ? &f->frames[same - 1] : NULL;
    const na_frame_t *from = &f->frames[w->fresh];
    na_frame_t *to = &f->frames[same];
    if (same == 0 && w->beyond.sp != 0) outer = &w->beyond;
    f->count = same;
    for (uint32_t i = 0; i < n; i++, from++, to++) {
        *to = *from;
        if (NA_UNLIKELY(!keep(w, outer, to))) return false;
        outer = to;
    }
    f->count = same + n;
    return true;
}

/* ---- the walk ---- */

NA_INLINE void begin(walk_t *w, na_frames_t *f) {
    w->f = f;
    w->hi = f->stack.hi;
    w->fresh = f->room;
    w->kept = f->frames != NULL ? f->frames + f->count - 1 : NULL; /* grow makes the first */
    w->sound = 0;
    w->confirmed_count = 0;
    w->beyond.sp = 0;
}

NA_INLINE na_frame_t *add_frame(walk_t *w, const na_frame_state_t *s) {
    na_frame_t *frame = &w->f->frames[--w->fresh];
    frame->pc = s->pc;
    frame->sp = s->sp;
    frame->bp = s->bp;
    return frame;
}

/* The walk from the state `s` on; `n` new frames lie inside of it, the innermost first. */
static NA_NOINLINE bool walk_thoroughly(na_frames_t *f, const na_frame_fresh_t *fresh, uint32_t n,
                                        na_frame_state_t s, uint32_t *same) {
    walk_t w;
    begin(&w, f);
    for (uint32_t i = 0; i < n; i++) {
        if (NA_UNLIKELY(w.fresh <= f->count) && !grow_kept_frames(&w)) return false;
        na_frame_t *frame = add_frame(&w, &fresh[i].s);
        frame->rule = fresh[i].rule;
        frame->modules = 0;
        if (NA_UNLIKELY(fresh[i].module != 0) &&
            (frame->modules = note_living(&w, fresh[i].module)) == 0)
            return false;
    }
    for (;;) {
        if (NA_LIKELY(meets(&w, &s)) && NA_LIKELY(joins(&w))) {
            *same = (uint32_t)(w.kept + 1 - f->frames);
            break;
        }
        if (NA_UNLIKELY(w.fresh <= f->count) && !grow_kept_frames(&w)) return false;
        na_frame_t *frame = add_frame(&w, &s);
        frame->rule = rule_of(&w, s.pc - 1, &frame->modules);
        step_t how = step(&w, frame->rule, &s);
        if (NA_UNLIKELY(how != STEP_DONE)) {
            if (how == STEP_DECLINED) return false;
            if (s.sp != frame->sp) w.beyond = (na_frame_t){.sp = s.sp, .bp = s.bp};
            *same = 0;
            break;
        }
    }
    if (w.fresh == f->room) { /* all is as it was */
        f->count = *same;
        return true;
    }
    if (NA_UNLIKELY(!join(&w, *same))) {
        f->count = 0;
        return false;
    }
    return true;
}

/* Most walks end after a few plain steps at a frame in code that stays. For these, what walk_on
 * does is done here in one piece. */

/* The step of a frame that counts from rsp or rbp, in code that stays or in a module of kept frames
 * that is there still (*module: its place, 0: none); the rule, or 0: neither, or the step is not
 * one that leads on. */
NA_INLINE uint32_t plain_step(const na_frames_t *f, const na_frame_state_t *s,
                              na_frame_state_t *next, uint32_t *module) {
    uintptr_t pc = s->pc - 1, hi = f->stack.hi;
    if (NA_UNLIKELY(pc >> NA_RULE_PC_BITS != 0)) return 0;
    uint32_t rule = na_rule_cached(pc);
    if (NA_UNLIKELY((rule & NA_RULE_LASTING) == 0)) {
        if (rule == 0 || (*module = living_module(f, pc)) == 0) return 0;
    }
    uintptr_t base = s->sp;
    if (NA_RULE_KIND(rule) != R_RSP) {
        if (NA_UNLIKELY(NA_RULE_KIND(rule) != R_RBP)) return 0;
        base = s->bp;
    }
    uintptr_t cfa = base + (uintptr_t)NA_RULE_OFF(rule);
    unsigned slot = NA_RULE_SLOT(rule);
    if (NA_UNLIKELY(cfa - s->sp - 8 >= hi - s->sp) || NA_UNLIKELY((cfa & 7) != 0) ||
        NA_UNLIKELY(slot == NA_RULE_SLOT_AT_RBP))
        return 0;
    next->bp = s->bp;
    if (slot != 0) {
        uintptr_t at = cfa - 8 * (uintptr_t)slot;
        if (NA_UNLIKELY(at < s->sp)) return 0;
        next->bp = WORD(at);
    }
    next->pc = WORD(cfa - 8);
    next->sp = cfa;
    return NA_LIKELY(next->pc != 0) ? rule : 0;
}

/* The rule of a usual step is such that of one that counts from rsp, CFA and saved rbp lie where
 * the frame's stack pointer says that they may. */
NA_NOINLINE bool na_frames_learn(na_frame_step_t *step, uintptr_t pc) {
    if ((pc - 1) >> NA_RULE_PC_BITS != 0) return false;
    uint32_t rule = na_rule_cached(pc - 1), slot = NA_RULE_SLOT(rule);
    int64_t offset = NA_RULE_OFF(rule);
    if (slot == NA_RULE_SLOT_AT_RBP) return false;
    if (NA_RULE_KIND(rule) == R_RSP ? offset < 8 || 8 * (int64_t)slot > offset
                                    : NA_RULE_KIND(rule) != R_RBP)
        return false;
    *step = (na_frame_step_t){.pc = pc, .rule = rule, .offset = (int32_t)offset};
    return true;
}

NA_NOINLINE void na_frames_remember(na_frames_t *f, na_frame_tail_t *tail,
                                    const na_frame_fresh_t *fresh, uint32_t n,
                                    const na_frame_t *joined, size_t place, uint32_t node,
                                    uint32_t cell) {
    uintptr_t sp = fresh->s.sp;
    /* With frame pointers a step takes two words. */
    bool pairs = NA_RULE_KIND(fresh[n - 1].rule) == R_RBP;
    if (n > (pairs ? NA_FRAMES_TAIL_WORDS / 2 : NA_FRAMES_TAIL_WORDS) + 1) return;
    if (joined->sp - sp >= 8 * UINT16_MAX) return;
    if (NA_LIKELY(tail->pc != 0))
        older_at(f, tail->pc, tail->sp)[f->replaced++ % NA_FRAMES_OLDER] = *tail;
    tail->pc = 0;
    uint32_t words = 0;
    uintptr_t odd = joined->sp - sp;
    tail->special = 0;
    tail->bp_at = NA_FRAMES_TAIL_BP_HERE;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rule = fresh[i].rule, slot = NA_RULE_SLOT(rule);
        bool last = i == n - 1, by_bp = NA_RULE_KIND(rule) == R_RBP;
        if (words + !last + by_bp > NA_FRAMES_TAIL_WORDS) return;
        if (by_bp && tail->bp_at == NA_FRAMES_TAIL_BP_HERE) {
            tail->special = NA_FRAMES_TAIL_BY_BP;
        } else if (by_bp) {
            tail->at[words] = tail->bp_at;
            tail->value[words++] = fresh[i].s.bp;
        }
        uintptr_t cfa = last ? joined->sp : fresh[i + 1].s.sp;
        if (!last) {
            tail->at[words] = (uint16_t)((cfa - 8 - sp) / 8);
            tail->value[words++] = fresh[i + 1].s.pc;
        }
        odd |= cfa - sp;
        if (slot != 0) tail->bp_at = (uint16_t)((cfa - 8 * (uintptr_t)slot - sp) / 8);
    }
    if (NA_UNLIKELY((odd & 7) != 0)) return;
    if (words != 0 || tail->bp_at != NA_FRAMES_TAIL_BP_HERE) tail->special |= NA_FRAMES_TAIL_OTHER;
    tail->words = (uint8_t)words;
    tail->join_at = (uint16_t)((joined->sp - 8 - sp) / 8);
    tail->leads = joined->pc;
    tail->place = (uint32_t)place;
    tail->sp = sp;
    tail->bp = fresh->s.bp;
    tail->join = joined->node;
    tail->node = node;
    tail->cell = cell;
    tail->pc = fresh->s.pc;
}

static void forget_steps(na_frames_t *f) {
    for (unsigned i = 0; i < 1u << NA_FRAMES_STEP_BITS; i++)
        f->steps[i].pc = 0;
    for (unsigned i = 0; i < 1u << NA_FRAMES_TAIL_BITS; i++)
        f->tails[i].pc = 0;
    if (f->replaced == 0) return; /* no page of the older ones is touched */
    for (unsigned i = 0; i < 1u << NA_FRAMES_OLDER_BITS; i++)
        for (unsigned j = 0; j < NA_FRAMES_OLDER; j++)
            f->older[i][j].pc = 0;
    f->replaced = 0;
}

/* What has to be, or to be found, before a walk; s is in the library. False: none can be made. */
static NA_NOINLINE bool prepare(na_frames_t *f, na_frame_state_t *s, uint32_t generation) {
    walk_t w;
    if (generation != f->generation) {
        f->count = 0;
        f->generation = generation;
        f->usual = UINT32_MAX;
        forget_steps(f);
    }
    begin(&w, f);
    if (f->frames == NULL && !grow_kept_frames(&w)) return false;
    if (!leave_library(&w, s)) return false;
    f->own_lo = na_unwind_skip_lo;
    f->own_size = na_unwind_skip_hi - na_unwind_skip_lo;
#ifndef READS_ANY_OF_THE_STACK
    if (f->own_size != 0 && atomic_load_explicit(&na_stacks_shadow, memory_order_acquire) == NULL)
        f->usual = generation;
#endif
    return true;
}

NA_NOINLINE bool na_frames_walk_on(na_frames_t *f, na_frame_fresh_t *fresh, uint32_t n,
                                   na_frame_state_t s, uint32_t *same) {
    na_frame_state_t next;
    uint32_t modules = 0;
    const na_frame_t *kept = f->frames + f->count - 1;
    while (!is_at(kept, &s)) {
        if (kept->sp < s.sp) {
            kept--;
            continue;
        }
        uint32_t rule, module = 0;
        if (NA_UNLIKELY(n == NA_FRAMES_PLAIN) ||
            NA_UNLIKELY((rule = plain_step(f, &s, &next, &module)) == 0))
            return walk_thoroughly(f, fresh, n, s, same);
        if (module > modules) modules = module; /* the frames joined must have as many */
        fresh[n++] = (na_frame_fresh_t){s, rule, module};
        s = next;
    }
    uint32_t joined = (uint32_t)(kept + 1 - f->frames);
    if (NA_UNLIKELY(kept->modules < modules) || !all_alive(f, kept->modules) ||
        NA_UNLIKELY(joined + n > f->room) || NA_UNLIKELY(!unchanged(f, kept->words, kept->pairs)))
        return walk_thoroughly(f, fresh, n, s, same);
    *same = joined;
    for (; n != 0; n--)
        keep_plain(f, &f->frames[joined++], &fresh[n - 1]);
    f->count = joined;
    return true;
}

NA_NOINLINE bool na_frames_walk(na_frames_t *f, bool learns, uint32_t *same) {
    na_frame_state_t s;
    __asm__ volatile("movq %%rbp, %0\n\t"
                     "movq %%rsp, %1\n\t"
                     "leaq 0(%%rip), %2"
                     : "=r"(s.bp), "=r"(s.sp), "=r"(s.pc));
    if (NA_UNLIKELY(s.sp - f->stack.lo >= f->stack.size) &&
        (!learns || !na_unwind_learn(&f->stack, s.sp)))
        return false;
    uintptr_t hi = f->stack.hi;
    uint32_t generation = atomic_load_explicit(&na_umodule_generation, memory_order_acquire);
    if (NA_LIKELY(generation == f->generation) && NA_LIKELY(f->chain != NULL) &&
        NA_LIKELY(fits(hi, f->chain, &s)))
        pass(f->chain, &s);
    else if (!prepare(f, &s, generation))
        return false;
    na_frame_fresh_t fresh[NA_FRAMES_PLAIN];
    return na_frames_walk_on(f, fresh, 0, s, same);
}

#endif /* elsewhere: frames_fp.c */

#ifdef READS_ANY_OF_THE_STACK
#pragma clang attribute pop
#endif
