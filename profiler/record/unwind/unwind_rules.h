/* unwind_rules.h - the caches from a code address to the packed rule that finds its caller's frame.
 *
 * A set-associative table of 64-bit words, shared by all threads. (set, tag) is a bijective image
 * of the pc, so one atomic load gives a rule that is certain to belong to the pc: nothing can be
 * torn, and no lock is needed. Async-signal-safe.
 *
 * There are two: a large one for profiles, of 512 KiB, and a small one of 32 KiB for those who walk
 * seldom. Rules are spread over all of a table, so a few hundred of them touch each of its pages.
 *
 * A cached rule without NA_RULE_LASTING may be used only in a walk that has confirmed the module of
 * the pc (umodules.h); with it, always: its module stays as long as the process. */
#ifndef NUMALLOC_PROFILER_RECORD_UNWIND_UNWIND_RULES_H
#define NUMALLOC_PROFILER_RECORD_UNWIND_UNWIND_RULES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"
#include "profiler/record/unwind/cfi.h"

#if defined(__x86_64__)

/* A rule is 31 bits: kind:3, lasting:1, offset:17 (signed, words), rbp slot:10. It is never 0.
 * Slot 0: rbp is as in the caller; SLOT_AT_RBP: saved at [rbp]; n: saved at CFA - 8 n. */
enum {
    R_NONE,
    R_RSP,           /* CFA = rsp + offset; the return address is at CFA - 8 in this and the next */
    R_RBP,           /* CFA = rbp + offset */
    R_DEREF,         /* CFA = [rbp + offset] */
    R_END,           /* the outermost frame */
    R_SIGNAL,        /* the return of a signal handler; the interrupted state is on the stack */
    R_EXACT,         /* only a walk with all registers can tell */
    R_FRAME_POINTER, /* no information: by convention */
};

#define NA_RULE_OFF_BITS    17
#define NA_RULE_SLOT_BITS   10
#define NA_RULE_SLOT_AT_RBP 1023u
#define NA_RULE_LASTING     (1u << (NA_RULE_OFF_BITS + NA_RULE_SLOT_BITS))
#define NA_RULE(kind, off, slot)                                                                   \
    ((uint32_t)(kind) << 28 |                                                                      \
     ((uint32_t)(off) & ((1U << NA_RULE_OFF_BITS) - 1)) << NA_RULE_SLOT_BITS | (uint32_t)(slot))
#define NA_RULE_KIND(r) ((r) >> 28)
#define NA_RULE_OFF(r)  ((int64_t)((int32_t)((r) << 5) >> 15) * 8)
#define NA_RULE_SLOT(r) ((r) & ((1U << NA_RULE_SLOT_BITS) - 1))

#define NA_RULE_PC_BITS  47
#define NA_RULE_SET_BITS 14
#define NA_RULE_WAYS     4u
#define NA_RULE_TAG_BITS (NA_RULE_PC_BITS - NA_RULE_SET_BITS)

extern NA_NEAR _Atomic uint64_t na_rule_cache[1u << NA_RULE_SET_BITS][NA_RULE_WAYS];

/* The small cache: fewer sets, so longer tags, so shorter rules: kind:3, lasting:1, offset:17, rbp
 * slot:6. A rule with a slot that is none of these is not kept. */
#define NA_RULE_FEW_SET_BITS  10
#define NA_RULE_FEW_TAG_BITS  (NA_RULE_PC_BITS - NA_RULE_FEW_SET_BITS)
#define NA_RULE_FEW_SLOT_BITS 6
#define NA_RULE_FEW_SLOT_MAX  ((1u << NA_RULE_FEW_SLOT_BITS) - 1)
#define NA_RULE_FEW_BITS      (64 - NA_RULE_FEW_TAG_BITS)
_Static_assert(NA_RULE_FEW_BITS == 4 + NA_RULE_OFF_BITS + NA_RULE_FEW_SLOT_BITS, "all of a word");

extern _Atomic uint64_t na_rule_few[1u << NA_RULE_FEW_SET_BITS][NA_RULE_WAYS];
/* Rules that were made for the small cache, by all threads. */
extern _Atomic uint32_t na_rules_few_made;

/* Multiplication by an odd number is a bijection of the 47-bit words; the bits above are noise. */
NA_INLINE uint64_t na_rule_scramble(uintptr_t pc) {
    return pc * UINT64_C(0x5bd1e9955bd1e995);
}

/* The word of an address below 2^47 in a cache of so many sets; 0: none. */
NA_INLINE uint64_t na_rule_word(const _Atomic uint64_t (*cache)[NA_RULE_WAYS], unsigned set_bits,
                                uintptr_t pc) {
    unsigned tag_bits = NA_RULE_PC_BITS - set_bits;
    uint64_t h = na_rule_scramble(pc);
    const _Atomic uint64_t *set = cache[h << (64 - NA_RULE_PC_BITS) >> (64 - set_bits)];
    for (unsigned i = 0; i < NA_RULE_WAYS; i++) {
        uint64_t e = atomic_load_explicit(&set[i], memory_order_relaxed);
        if (NA_LIKELY((e >> (64 - tag_bits) ^ h) << (64 - tag_bits) == 0)) return e;
    }
    return 0;
}

/* The cached rule of such an address; 0: none. */
NA_INLINE uint32_t na_rule_cached(uintptr_t pc) {
    return (uint32_t)na_rule_word(na_rule_cache, NA_RULE_SET_BITS, pc) << 1 >> 1;
}

/* The same of the small cache. */
NA_INLINE uint32_t na_rule_cached_few(uintptr_t pc) {
    uint64_t e = na_rule_word(na_rule_few, NA_RULE_FEW_SET_BITS, pc);
    uint32_t rule = (uint32_t)e & ((1u << NA_RULE_FEW_BITS) - 1);
    uint32_t slot = rule & NA_RULE_FEW_SLOT_MAX;
    if (slot == NA_RULE_FEW_SLOT_MAX) slot = NA_RULE_SLOT_AT_RBP;
    return rule >> NA_RULE_FEW_SLOT_BITS << NA_RULE_SLOT_BITS | slot;
}

typedef enum na_rule_keep { NA_RULE_DROP, NA_RULE_KEEP, NA_RULE_KEEP_FEW } na_rule_keep_t;

/* The rule of pc in *m, from its call frame information; `keep`: into a cache, or none. pc < 2^47
 * if it is kept. */
uint32_t na_rule_make(const na_unwind_module_t *m, uintptr_t pc, na_rule_keep_t keep, bool lasting);

/* Drops every rule of both. */
void na_rules_flush(void);

#endif

#endif
