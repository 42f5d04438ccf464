/* frames.h - the last stack of a thread, kept, so that the next walk can stop where it joins it.
 *
 * A walk is a function: the state of a frame (pc, stack pointer, rbp), the code there, and the
 * words of stack that the rules read, give the state of its caller. So when a walk comes to a frame
 * whose state equals that of a kept frame, and every word that was read from there outwards still
 * has the value that it had, and the code is the same, the rest of the walk would give the kept
 * frames again. Nothing less will do: equal frames at equal places may have been called from
 * elsewhere.
 *
 *   words    each kept frame knows the stack words that its step read; rbp's only where a frame
 *            further out depends on it. They are compared in one sweep, outermost first.
 *   code     frames in modules that may be unloaded are kept with the identity of the module, which
 *            is confirmed again before they are believed, as is that there still is none around
 *            generated code; na_umodule_generation tells when code was replaced meanwhile.
 *   reading  only on the thread's own stack, which stays readable as long as the thread. Walks on
 *            other stacks, over signal frames, or that need more than pc, sp and rbp, are not kept
 *            and keep what was.
 *
 * This is x86-64's. Elsewhere stacks are walked by frame pointers, of which less has to be kept:
 * frames_fp.c. Used by its own thread, never by a signal handler that interrupted it. Allocates by
 * na_own_alloc only. */
#ifndef NUMALLOC_PROFILER_RECORD_UNWIND_FRAMES_H
#define NUMALLOC_PROFILER_RECORD_UNWIND_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "pagemap/pagemap.h"
#include "profiler/record/unwind/unwind.h"

#define NA_FRAMES_LEAST 256u       /* room at first */
#define NA_FRAMES_MOST  (1u << 17) /* deeper stacks are walked as if nothing were kept */

typedef struct na_frame {
    uintptr_t pc, sp, bp; /* as they are when the call that is under way has returned */
    uint32_t node;        /* kept for stacks.c */
    uint32_t rule; /* unwind_rules.h; top bit: rbp matters to this frame or one further out */
    uint32_t words, pairs; /* of this frame and those outwards */
    uint32_t modules;      /* the same; while being walked: the place in `confirmed`, from 1 */
    uint32_t cell, path;   /* kept for stacks.c */
    uint32_t reserved[3];  /* 64 bytes: places are found by shifting */
} na_frame_t;

/* `value` was read at `at`: two of them, so that they can be compared as one. */
typedef struct na_frame_words {
    _Alignas(16) uintptr_t at[2];
    uintptr_t value[2];
} na_frame_words_t;

/* Two words, one after the other: rbp and the return address above it. */
typedef struct na_frame_pair {
    uintptr_t at, bp, pc;
} na_frame_pair_t;

/* Whose code a frame lies in, where it may go: a module, or none (end == start). */
typedef struct na_frame_module {
    uintptr_t start, end;
    const void *eh_hdr, *link_map;
    /* The registry's record of the block that is link_map, and what it was; NULL: it has none. The
     * loader frees that block when it has unloaded the module, before anything can be loaded in its
     * place: so while the record is the same, the module is there. */
    const na_record_t *life;
    na_record_t born;
} na_frame_module_t;

#define NA_FRAMES_MODULES 32u

/* The frames of this library between the walk and the program are the same few chains over and
 * over: where each return address lies, seen from the stack pointer. */
#define NA_FRAMES_CHAINS 16u
#define NA_FRAMES_CHAIN  12u
typedef struct na_frame_chain {
    uint32_t count; /* return addresses into this library */
    uint32_t span;  /* from the stack pointer to that of the program's frame */
    uint32_t bp_at; /* where rbp of the program's frame is saved; NA_FRAMES_BP_HERE: in rbp */
    uint32_t at[NA_FRAMES_CHAIN];
    uintptr_t value[NA_FRAMES_CHAIN];
} na_frame_chain_t;
#define NA_FRAMES_BP_HERE UINT32_MAX

/* The steps of the usual kind that the thread made of late, by return address: the CFA counts from
 * rsp or rbp, and rbp, if it is saved, lies between that frame's stack pointer and its CFA. What is
 * true of cached rules (unwind_rules.h) is true of them; they are forgotten when a module has taken
 * the place of another. 0 in `pc`: nothing is known. */
#define NA_FRAMES_STEP_BITS 10
typedef struct na_frame_step {
    uintptr_t pc;
    uint32_t rule;  /* unwind_rules.h */
    int32_t offset; /* of the CFA */
} na_frame_step_t;
_Static_assert(sizeof(na_frame_step_t) == 16, "none crosses a line");

/* The innermost frames of a stack, from the state in which a function of this library was entered
 * (it may be one of the library that called it) on to a kept frame, and what they came to. Where a
 * walk begins in this state, and the words are as they were, it would go the same way. (As for the
 * code: where that may go, it lies in a module that the kept frame or one further out lies in, as
 * na_frames_join sees to; and these are confirmed.) */
#define NA_FRAMES_TAIL_BITS  7
#define NA_FRAMES_TAIL_WORDS 7u
/* Those whose places others have taken lie in a second table, in sets by where they begin. */
#define NA_FRAMES_OLDER_BITS   6
#define NA_FRAMES_OLDER        4u
#define NA_FRAMES_TAIL_BY_BP   1u /* a step counts from the rbp at its beginning */
#define NA_FRAMES_TAIL_OTHER   2u /* more words, or another rbp at its end */
#define NA_FRAMES_TAIL_BP_HERE UINT16_MAX
/* Where a word lies is counted from sp in words, 2^16 of them at most. */
typedef struct na_frame_tail {
    _Alignas(64) uintptr_t pc; /* it begins here; 0: nothing is known */
    uintptr_t sp;
    uintptr_t leads;     /* the return address that leads to the kept frame, at join_at */
    uint32_t join;       /* the kept frame's node */
    uint32_t node, cell; /* of the whole stack; the cell 0: not known */
    uint32_t place;      /* the kept frame's, in the array */
    uint16_t join_at;
    uint16_t bp_at;  /* where its rbp is saved; TAIL_BP_HERE: it is the one at the beginning */
    uint8_t words;   /* that are compared besides */
    uint8_t special; /* NA_FRAMES_TAIL_*; 0: none, and that is all */
    uint16_t at[NA_FRAMES_TAIL_WORDS];
    _Alignas(64) uintptr_t bp; /* at the beginning, if BY_BP */
    uintptr_t value[NA_FRAMES_TAIL_WORDS];
} na_frame_tail_t;
_Static_assert(sizeof(na_frame_tail_t) == 128, "two lines; most need one");

typedef struct na_frames {
    na_unwind_thread_t stack;
    /* Outermost first. [0, count) are kept; a walk puts new ones at the end of the array. */
    na_frame_t *frames;
    na_frame_words_t *words;
    na_frame_pair_t *pairs;
    uint32_t count, room;
    uint32_t generation;        /* na_umodule_generation when they were kept */
    uint32_t usual;             /* the same, if usual walks can be made (walk.h); else UINT32_MAX */
    uint32_t usual_native;      /* what `usual` is while only the native part is asked for */
    uintptr_t own_lo, own_size; /* this library's code */
    na_frame_module_t modules[NA_FRAMES_MODULES];
    na_frame_chain_t *chain; /* the one that fitted last, NULL: none yet */
    uint32_t chain_count;    /* ever learnt; the table is a ring */
    na_frame_chain_t chains[NA_FRAMES_CHAINS];
    na_frame_step_t steps[1u << NA_FRAMES_STEP_BITS];
    na_frame_tail_t tails[1u << NA_FRAMES_TAIL_BITS];
    na_frame_tail_t older[1u << NA_FRAMES_OLDER_BITS][NA_FRAMES_OLDER];
    uint32_t replaced; /* so many tails, since there were none */
} na_frames_t;

/* The state of a frame. */
typedef struct na_frame_state {
    uintptr_t pc, sp, bp;
} na_frame_state_t;

/* A new frame of a walk that has come so far by plain steps. */
typedef struct na_frame_fresh {
    na_frame_state_t s;
    uint32_t rule, module; /* the latter: its place in na_frames_t.modules, from 1; 0: it stays */
} na_frame_fresh_t;

#define NA_FRAMES_PLAIN 32u /* plain steps in a row */
#define NA_FRAMES_OWN   4u  /* the same in this library, where a walk begins */

/* Walks the calling thread's stack, this library's frames left out where they are innermost (in a
 * program that was linked with the library's objects: the caller's frame only). True: it is
 * f->frames[0
 * .. f->count), whole; those below *same are as they were before, nodes included, the others are
 * new. False: it cannot be had so (see above), use na_unwind_thread. That is quicker, and takes
 * less memory, at the first event of a thread; `learns`: now this stack is to be kept, too, if it
 * is the thread's own. */
bool na_frames_walk(na_frames_t *f, bool learns, uint32_t *same);

/* The same from the state `s` on, which `n` new frames lie inside of, the innermost first; `fresh`
 * has room for NA_FRAMES_PLAIN. */
bool na_frames_walk_on(na_frames_t *f, na_frame_fresh_t *fresh, uint32_t n, na_frame_state_t s,
                       uint32_t *same);

/* How many kept frames, from the outermost on, have their words unchanged; fewer than `upto`. */
uint32_t na_frames_sound(const na_frames_t *f, uint32_t upto);

/* Makes *step that of the return address; false: it is not of the usual kind. */
bool na_frames_learn(na_frame_step_t *step, uintptr_t pc);

/* Makes *tail, one of f->tails, that of `n` new frames inside of the kept one, which has this place
 * in the array, if it has room for them; what it was is an older one from now on. Node and cell are
 * the stack's. */
void na_frames_remember(na_frames_t *f, na_frame_tail_t *tail, const na_frame_fresh_t *fresh,
                        uint32_t n, const na_frame_t *joined, size_t place, uint32_t node,
                        uint32_t cell);
/* Of another thread from now on. */
void na_frames_forget(na_frames_t *f);

#endif
