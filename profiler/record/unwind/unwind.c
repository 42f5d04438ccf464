/* unwind.c - walks the calling thread's stack.
 *
 * Two walkers. The fast one carries pc, stack pointer and frame pointer only, and finds the rule of
 * each pc in a cache (unwind_rules.h); it serves every frame whose CFA comes from one of those
 * registers, which is all that compilers make. When it meets anything else (hand-written assembly),
 * the exact one starts over with all callee-saved registers and no cache.
 *
 * Readable memory: [lo, hi) of na_unwind_thread_t has been probed page by page up to the end of the
 * thread's stack, which lives as long as the thread. On any other stack (signal stack, coroutine)
 * each page is probed again in each walk. The frames of a walk must climb strictly. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* REG_RIP and its like */
#endif
#include "profiler/record/unwind/unwind.h"

#include <stdatomic.h>
#include <sys/auxv.h>
#include <ucontext.h>

#include "alloc/core/sys/base.h"
#include "alloc/core/sys/syscall.h"
#include "profiler/record/unwind/cfi.h"
#include "profiler/record/unwind/umodules.h"
#include "profiler/record/unwind/unwind_rules.h"

/* The code of the archive, in a program that was linked with it (cmake/own_text.cmake). */
extern const char __start_numalloc_text[] __attribute__((weak, visibility("hidden")));
extern const char __stop_numalloc_text[] __attribute__((weak, visibility("hidden")));

uintptr_t na_unwind_skip_lo, na_unwind_skip_hi; /* this library, if its frames are to be left out */

/* Given by the C library: where the main thread's stack begins. */
extern void *__libc_stack_end __attribute__((weak));

/* ---- what may be read ---- */

typedef struct walk {
    uintptr_t *pcs;
    size_t max, count;
    uint64_t exact;
    bool truncated;
    bool skipping;
    uintptr_t lo, hi; /* readable without a further question */
    uintptr_t floor;  /* nothing below the stack pointer is looked at */
    na_unwind_thread_t *thread;
    na_unwind_module_t module; /* confirmed in this walk */
    na_umodule_state_t module_state;
    na_unwind_module_t before; /* the one before it, confirmed too: calls go to and fro */
    na_umodule_state_t before_state;
} walk_t;

#define PAGE ((uintptr_t)4096)

/* A stack is no larger: 131,072 frames of 8 KiB. */
#define STACK_MAX ((uintptr_t)1 << 30)

/* So far from the thread block a stack pointer is taken for one of the thread's own stack more than
 * once: coroutines' stacks may lie below, and each would be probed at each switch. */
#define PROBE_MAX ((uintptr_t)64 << 20)

static NA_COLD bool probe_memory(uintptr_t from, uintptr_t to, uintptr_t *good) {
    for (uintptr_t p = na_align_down(from, PAGE); p < to; p += PAGE) {
        if (!na_sys_readable(p)) {
            *good = p;
            return false;
        }
    }
    *good = to;
    return true;
}

/* Where the stack may end that sp lies on; 0: nowhere near. The C library puts the thread block at
 * the end of the stack of every thread but the first. A wrong guess is harmless: what lies between
 * is probed. */
static NA_COLD uintptr_t end_of_stack(const na_unwind_thread_t *t, uintptr_t sp) {
    uintptr_t main_end = &__libc_stack_end != NULL ? (uintptr_t)__libc_stack_end : 0;
    uintptr_t tp = na_thread_pointer(), most = t->far_tried ? PROBE_MAX : STACK_MAX;
    if (sp < tp && tp - sp <= most) return na_align_down(tp, 8);
    return sp < main_end && main_end - sp <= STACK_MAX ? na_align_down(main_end, 8) : 0;
}

NA_COLD bool na_unwind_learn(na_unwind_thread_t *t, uintptr_t sp) {
    if (sp - t->other_lo < t->other_hi - t->other_lo) return false;
    uintptr_t top = t->hi;
    if (top == 0 || sp >= top) {
        top = end_of_stack(t, sp);
        t->far_tried = true;
        if (top == 0) return false;
        t->hi = t->lo = t->size = t->lowest = 0;
    }
    bool deeper = t->hi == top && sp < t->lo;
    uintptr_t good, upto = deeper ? t->lo : top;
    if (upto - sp > STACK_MAX || (deeper && sp < t->lowest)) return false;
    if (!probe_memory(sp, upto, &good)) {
        if (deeper) t->lowest = good + 1;
        t->other_lo = na_align_down(sp, PAGE);
        t->other_hi = good;
        return false;
    }
    t->lo = na_align_down(sp, PAGE);
    t->hi = top;
    t->size = top - t->lo;
    return true;
}

/* Sets the readable range for a stack pointer: the thread's own stack, or one page. */
static NA_COLD void learn_stack(walk_t *w, uintptr_t sp) {
    na_unwind_thread_t *t = w->thread;
    w->lo = w->hi = 0;
    if (t == NULL || !na_unwind_learn(t, sp)) return;
    w->lo = t->lo;
    w->hi = t->hi;
}

NA_INLINE void enter_stack(walk_t *w, uintptr_t sp) {
    na_unwind_thread_t *t = w->thread;
    w->floor = sp;
    if (NA_LIKELY(t != NULL && sp - t->lo < t->hi - t->lo)) {
        w->lo = t->lo;
        w->hi = t->hi;
    } else {
        learn_stack(w, sp);
    }
}

/* One aligned word, not below `floor`. */
NA_INLINE bool read_word(walk_t *w, uintptr_t addr, uintptr_t *value) {
    if (NA_UNLIKELY((addr & 7) != 0 || addr < w->floor)) return false;
    if (NA_UNLIKELY(addr - w->lo >= w->hi - w->lo)) {
        /* On the thread's own stack nothing lies beyond its end. Elsewhere, page by page. */
        uintptr_t page = na_align_down(addr, PAGE);
        if ((w->thread != NULL && w->hi != 0 && w->hi == w->thread->hi) || !na_sys_readable(page))
            return false;
        w->lo = page;
        w->hi = page + PAGE;
    }
    *value = *(const uintptr_t *)addr;
    return true;
}

/* False: the caller's array is full. */
NA_INLINE bool emit(walk_t *w, uintptr_t pc, bool exact) {
    if (NA_UNLIKELY(w->skipping)) {
        if (pc - na_unwind_skip_lo < na_unwind_skip_hi - na_unwind_skip_lo) return true;
        w->skipping = false;
    }
    if (NA_UNLIKELY(w->count == w->max)) {
        w->truncated = true;
        return false;
    }
    if (NA_UNLIKELY(exact) && w->count < 64) w->exact |= (uint64_t)1 << w->count;
    w->pcs[w->count++] = pc;
    return true;
}

/* The frame-pointer convention, where nothing better is known: [fp] = caller's fp, [fp + 8] =
 * return address. The result must lie higher on the stack. */
static bool frame_step(walk_t *w, uintptr_t *pc, uintptr_t *sp, uintptr_t *fp) {
    uintptr_t next_fp, ra;
    if (*fp < *sp || *fp - *sp > PROBE_MAX || !read_word(w, *fp, &next_fp) ||
        !read_word(w, *fp + 8, &ra))
        return false;
    *pc = na_unwind_address(ra);
    *sp = *fp + 16;
    *fp = next_fp;
    return true;
}

/* Makes w->module the module of pc, confirmed in this walk. */
static na_umodule_state_t confirm(walk_t *w, uintptr_t pc) {
    na_unwind_module_t m = w->before;
    na_umodule_state_t s = w->before_state;
    if (pc - m.start >= m.end - m.start) s = na_umodule_find(pc, &m);
    if (s == NA_UMODULE_NONE) return s;
    w->before = w->module;
    w->before_state = w->module_state;
    w->module = m;
    w->module_state = s;
    return s;
}

NA_INLINE bool has_module(walk_t *w, uintptr_t pc) {
    return pc - w->module.start < w->module.end - w->module.start ||
           confirm(w, pc) != NA_UMODULE_NONE;
}

#if defined(__x86_64__)

NA_INLINE uint32_t cached(uintptr_t pc, na_rule_keep_t in) {
    return in == NA_RULE_KEEP ? na_rule_cached(pc) : na_rule_cached_few(pc);
}

/* The rule of a code address whose module must be asked for, or whose rule is new. `in`: the cache.
 */
static NA_NOINLINE uint32_t rule_by_asking(walk_t *w, uintptr_t pc, na_rule_keep_t in) {
    if (!has_module(w, pc)) return NA_RULE(R_FRAME_POINTER, 0, 0);
    bool keep = w->module_state >= NA_UMODULE_KNOWN && pc >> NA_RULE_PC_BITS == 0;
    uint32_t rule = keep ? cached(pc, in) : 0;
    if (rule == 0)
        rule = na_rule_make(&w->module, pc, keep ? in : NA_RULE_DROP,
                            w->module_state == NA_UMODULE_LASTING);
    return rule;
}

NA_INLINE uint32_t rule_of(walk_t *w, uintptr_t pc, na_rule_keep_t in) {
    if (NA_LIKELY(pc >> NA_RULE_PC_BITS == 0)) {
        uint32_t rule = cached(pc, in);
        if (NA_LIKELY((rule & NA_RULE_LASTING) != 0)) return rule;
    }
    return rule_by_asking(w, pc, in);
}

/* ---- the walkers ---- */

/* Offsets in the ucontext_t that lies at the stack pointer when a handler has returned. */
enum { UC_RBP = 120, UC_RSP = 160, UC_RIP = 168 };

static bool step_exact_reader(void *arg, uintptr_t addr, uint64_t *value) {
    uintptr_t v = 0;
    bool ok = read_word(arg, addr, &v);
    *value = v;
    return ok;
}

/* All registers, no cache. Ends the walk. */
static NA_COLD void walk_exact(walk_t *w, na_cfi_regs_t regs) {
    bool exact = true, first = true;
    enter_stack(w, regs.r[NA_DW_RSP]);
    for (;;) {
        uintptr_t pc = regs.r[NA_DW_RA], key = exact ? pc : pc - 1;
        if (pc == 0) return;
        if (!first && !emit(w, pc, exact)) return;
        first = false;
        na_cfi_row_t row;
        uint64_t cfa, sp = regs.r[NA_DW_RSP];
        bool end;
        if (has_module(w, key) && na_cfi_row(&w->module, key, &row)) {
            if (!na_cfi_step(&row, &regs, step_exact_reader, w, &cfa, &end)) break;
            if (end) return;
            exact = row.signal;
        } else {
            uintptr_t fp = regs.r[NA_DW_RBP], s = sp;
            if (fp == 0 && (regs.valid >> NA_DW_RBP & 1)) return;
            if (!(regs.valid >> NA_DW_RBP & 1) || !frame_step(w, &pc, &s, &fp)) break;
            regs.valid = 1U << NA_DW_RBP | 1U << NA_DW_RSP | 1U << NA_DW_RA;
            regs.r[NA_DW_RBP] = fp;
            regs.r[NA_DW_RSP] = s;
            regs.r[NA_DW_RA] = pc;
            exact = false;
        }
        if (!exact && regs.r[NA_DW_RSP] <= sp) break;
        if (exact)
            enter_stack(w, regs.r[NA_DW_RSP]);
        else
            w->floor = regs.r[NA_DW_RSP];
    }
    w->truncated = true;
}

/* False: start over with walk_exact. */
NA_INLINE bool walk_by_rules(walk_t *w, uintptr_t pc, uintptr_t sp, uintptr_t bp,
                             na_rule_keep_t in) {
    bool exact = true;
    unsigned signals = 0;
    uintptr_t key = pc;
    for (;;) {
        uint32_t rule = rule_of(w, key, in);
        uintptr_t cfa, from = sp;
        switch (NA_RULE_KIND(rule)) {
        case R_RSP:
            cfa = sp + (uintptr_t)NA_RULE_OFF(rule);
            break;
        case R_RBP:
            cfa = bp + (uintptr_t)NA_RULE_OFF(rule);
            break;
        case R_DEREF:
            if (!read_word(w, bp + (uintptr_t)NA_RULE_OFF(rule), &cfa)) goto broken;
            break;
        case R_END:
            return true;
        case R_SIGNAL:
            /* A handler may run on a stack of its own: what climbs starts anew below it. */
            if (++signals > 8 || !read_word(w, sp + UC_RBP, &bp) ||
                !read_word(w, sp + UC_RIP, &pc) || !read_word(w, sp + UC_RSP, &sp))
                goto broken;
            enter_stack(w, sp);
            exact = true;
            key = pc;
            goto next;
        case R_FRAME_POINTER:
            if (bp == 0) /* the outermost frame, by the convention of the ABI */
                return true;
            if (!frame_step(w, &pc, &sp, &bp)) goto broken;
            goto climbed;
        default:
            return false;
        }
        if (NA_UNLIKELY(cfa <= sp || !read_word(w, cfa - 8, &pc))) goto broken;
        unsigned slot = NA_RULE_SLOT(rule);
        if (slot != 0) {
            uintptr_t at = slot == NA_RULE_SLOT_AT_RBP ? bp : cfa - 8 * (uintptr_t)slot;
            if (NA_UNLIKELY(!read_word(w, at, &bp))) goto broken;
        }
        sp = cfa;
    climbed:
        if (NA_UNLIKELY(pc == 0 || sp <= from)) {
            w->truncated = pc != 0;
            return true;
        }
        w->floor = sp;
        exact = false;
        key = pc - 1;
    next:
        if (NA_UNLIKELY(!emit(w, pc, exact))) return true;
    }
broken:
    w->truncated = true;
    return true;
}

static bool walk_fast(walk_t *w, uintptr_t pc, uintptr_t sp, uintptr_t bp) {
    return walk_by_rules(w, pc, sp, bp, NA_RULE_KEEP);
}

/* By the small cache. */
static NA_COLD bool walk_seldom(walk_t *w, uintptr_t pc, uintptr_t sp, uintptr_t bp) {
    return walk_by_rules(w, pc, sp, bp, NA_RULE_KEEP_FEW);
}

#endif

static void start_walk(walk_t *w) {
    w->count = 0;
    w->exact = 0;
    w->truncated = false;
    w->skipping = na_unwind_skip_hi != 0;
}

typedef enum how { EXACTLY, FAST, SELDOM } how_t;

/* Walks from the frame of the function that it is inlined into, which is left out. */
NA_INLINE size_t walk(na_unwind_thread_t *thread, uintptr_t *pcs, size_t max, uint64_t *exact,
                      bool *truncated, how_t how) {
    walk_t w;
    w.pcs = pcs;
    w.max = max;
    w.thread = thread;
    w.module = w.before = (na_unwind_module_t){0, 0, NULL, NULL};
    w.module_state = w.before_state = NA_UMODULE_NONE;
    start_walk(&w);
#if defined(__x86_64__)
    na_cfi_regs_t regs;
    __asm__ volatile("movq %%rbx, 24(%0)\n\t"
                     "movq %%rbp, 48(%0)\n\t"
                     "movq %%rsp, 56(%0)\n\t"
                     "movq %%r12, 96(%0)\n\t"
                     "movq %%r13, 104(%0)\n\t"
                     "movq %%r14, 112(%0)\n\t"
                     "movq %%r15, 120(%0)\n\t"
                     "leaq 0(%%rip), %%rax\n\t"
                     "movq %%rax, 128(%0)"
                     :
                     : "r"(regs.r)
                     : "rax", "memory");
    regs.valid =
        1U << NA_DW_RBX | 1U << NA_DW_RBP | 1U << NA_DW_RSP | 0xfU << NA_DW_R12 | 1U << NA_DW_RA;
    enter_stack(&w, regs.r[NA_DW_RSP]);
    bool (*by_rules)(walk_t *, uintptr_t, uintptr_t, uintptr_t) =
        how == FAST ? walk_fast : walk_seldom;
    if (how == EXACTLY ||
        NA_UNLIKELY(!by_rules(&w, regs.r[NA_DW_RA], regs.r[NA_DW_RSP], regs.r[NA_DW_RBP]))) {
        start_walk(&w);
        walk_exact(&w, regs);
    }
#else
    (void)how;
    uintptr_t fp = (uintptr_t)__builtin_frame_address(0), sp = fp, pc = 0;
    enter_stack(&w, sp);
    for (;;) {
        if (!frame_step(&w, &pc, &sp, &fp)) {
            w.truncated = fp != 0;
            break;
        }
        if (pc == 0) break;
        has_module(&w, pc - 1); /* not for the walk: it is met, and so is in the profile */
        if (!emit(&w, pc, false) || fp == 0) break;
        w.floor = sp;
    }
#endif
    if (exact != NULL) *exact = w.exact;
    *truncated = w.truncated;
    return w.count;
}

NA_NOINLINE size_t na_unwind_thread(na_unwind_thread_t *thread, uintptr_t *pcs, size_t max,
                                    uint64_t *exact, bool *truncated) {
    return walk(thread, pcs, max, exact, truncated, FAST);
}

NA_NOINLINE size_t na_unwind_exact(na_unwind_thread_t *thread, uintptr_t *pcs, size_t max,
                                   uint64_t *exact, bool *truncated) {
    return walk(thread, pcs, max, exact, truncated, EXACTLY);
}

NA_NOINLINE size_t na_unwind(uintptr_t *pcs, size_t max, bool *truncated) {
    return walk(NULL, pcs, max, NULL, truncated, SELDOM);
}

uint32_t na_unwind_learnt(void) {
#if defined(__x86_64__)
    return atomic_load_explicit(&na_rules_few_made, memory_order_relaxed);
#else
    return 0;
#endif
}

NA_COLD size_t na_unwind_context(const void *context, uintptr_t *pcs, size_t max, bool *truncated) {
    const ucontext_t *uc = context;
    walk_t w = {.pcs = pcs, .max = max};
#if defined(__x86_64__)
    const greg_t *g = uc->uc_mcontext.gregs;
    na_cfi_regs_t regs = {.valid = 1U << NA_DW_RBX | 1U << NA_DW_RBP | 1U << NA_DW_RSP |
                                   0xfU << NA_DW_R12 | 1U << NA_DW_RA};
    regs.r[NA_DW_RBX] = (uint64_t)g[REG_RBX];
    regs.r[NA_DW_RBP] = (uint64_t)g[REG_RBP];
    regs.r[NA_DW_RSP] = (uint64_t)g[REG_RSP];
    regs.r[NA_DW_R12] = (uint64_t)g[REG_R12];
    regs.r[NA_DW_R12 + 1] = (uint64_t)g[REG_R13];
    regs.r[NA_DW_R12 + 2] = (uint64_t)g[REG_R14];
    regs.r[NA_DW_R12 + 3] = (uint64_t)g[REG_R15];
    regs.r[NA_DW_RA] = (uint64_t)g[REG_RIP];
    if (max != 0) {
        emit(&w, (uintptr_t)g[REG_RIP], true);
        walk_exact(&w, regs);
    }
#else
    uintptr_t fp = uc->uc_mcontext.regs[29], sp = uc->uc_mcontext.sp, pc = uc->uc_mcontext.pc;
    enter_stack(&w, sp);
    while (pc != 0 && emit(&w, pc, w.count == 0) && fp != 0) {
        has_module(&w, w.count == 1 ? pc : pc - 1);
        if (!frame_step(&w, &pc, &sp, &fp)) {
            w.truncated = true;
            break;
        }
        w.floor = sp;
    }
#endif
    *truncated = w.truncated;
    return w.count;
}

void na_unwind_after_fork(void) {
    na_umodule_forget();
#if defined(__x86_64__)
    /* What the parent's other modules left in the cache could belong to a module that was replaced
     * while nothing was known of it; start clean. */
    na_rules_flush();
#endif
}

void na_unwind_init(void (*seen)(const na_unwind_seen_t *), bool skip_own) {
#if defined(__x86_64__)
    na_umodule_init(seen, na_rules_flush);
#else
    na_umodule_init(seen, NULL);
#endif
    na_unwind_skip_lo = na_unwind_skip_hi = 0;
    na_unwind_module_t own, program;
    if (!skip_own) return;
    if (__start_numalloc_text != NULL) {
        na_unwind_skip_lo = (uintptr_t)__start_numalloc_text;
        na_unwind_skip_hi = (uintptr_t)__stop_numalloc_text;
        return;
    }
    /* A program that was linked with the objects holds this code itself: nothing to skip. */
    if (na_umodule_find((uintptr_t)&na_unwind_thread, &own) != NA_UMODULE_NONE &&
        na_umodule_find(getauxval(AT_ENTRY), &program) != NA_UMODULE_NONE &&
        own.start != program.start) {
        na_unwind_skip_lo = own.start;
        na_unwind_skip_hi = own.end;
    }
}
