/* unwind_rules.c - packs rows of call frame information into 31 bits, and keeps them. */
#include "profiler/record/unwind/unwind_rules.h"

#if defined(__x86_64__)

_Alignas(32) _Atomic uint64_t na_rule_cache[1u << NA_RULE_SET_BITS][NA_RULE_WAYS];
_Alignas(32) _Atomic uint64_t na_rule_few[1u << NA_RULE_FEW_SET_BITS][NA_RULE_WAYS];
_Atomic uint32_t na_rules_few_made;

typedef _Atomic uint64_t set_t[NA_RULE_WAYS];
static atomic_bool rules_used, few_used; /* ever, of each cache */

/* What was never written to is not written to now: each forked child would have a copy of its own.
 */
static void flush_rules(set_t *sets, unsigned count, atomic_bool *in_use) {
    if (!atomic_load_explicit(in_use, memory_order_relaxed)) return;
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = 0; j < NA_RULE_WAYS; j++)
            if (atomic_load_explicit(&sets[i][j], memory_order_relaxed) != 0)
                atomic_store_explicit(&sets[i][j], 0, memory_order_relaxed);
}

void na_rules_flush(void) {
    flush_rules(na_rule_cache, 1u << NA_RULE_SET_BITS, &rules_used);
    flush_rules(na_rule_few, 1u << NA_RULE_FEW_SET_BITS, &few_used);
}

/* gcc's and clang's stack realignment: the CFA, or the address of the saved rbp, as one
 * expression {breg6 off} or {breg6 off; deref}. */
static bool is_breg_rbp(const uint8_t *expr, bool deref, int64_t *off) {
    unsigned bytes = expr[0];
    if (bytes < 2 || bytes > 6 || expr[1] != 0x70 + NA_DW_RBP) return false;
    uint64_t v = 0;
    unsigned i = 2, shift = 0;
    for (;; i++) {
        if (i > bytes) return false;
        v |= (uint64_t)(expr[i] & 0x7f) << shift;
        shift += 7;
        if (!(expr[i] & 0x80)) break;
    }
    if (expr[i] & 0x40) v |= ~(uint64_t)0 << shift;
    *off = (int64_t)v;
    i++;
    return deref ? i == bytes && expr[i] == 0x06 : i == bytes + 1;
}

/* mov $15, %rax; syscall: what the C library gives the kernel as the return of a handler. */
static bool is_sigreturn(uintptr_t pc) {
    static const uint8_t code[9] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    for (unsigned i = 0; i < sizeof code; i++)
        if (((const uint8_t *)pc)[i] != code[i]) return false;
    return true;
}

static uint32_t pack_rule(const na_cfi_row_t *row, uintptr_t pc) {
    int64_t ra = row->reg[NA_DW_RA], bp = row->reg[NA_DW_RBP];
    int ra_how = (int)(ra & 7), bp_how = (int)(bp & 7);
    if (row->ra_reg != NA_DW_RA) return NA_RULE(R_EXACT, 0, 0);
    if (row->signal) return is_sigreturn(pc) ? NA_RULE(R_SIGNAL, 0, 0) : NA_RULE(R_EXACT, 0, 0);
    if (ra_how == NA_CFI_UNDEFINED || ra_how == NA_CFI_SAME) return NA_RULE(R_END, 0, 0);
    if (ra_how != NA_CFI_AT_CFA || ra >> 3 != -8 || (row->reg[NA_DW_RSP] & 7) != NA_CFI_SAME)
        return NA_RULE(R_EXACT, 0, 0);
    unsigned slot;
    int64_t off, at;
    if (bp_how == NA_CFI_SAME)
        slot = 0;
    else if (bp_how == NA_CFI_AT_CFA && (bp >> 3) % 8 == 0 && bp >> 3 < 0 &&
             -(bp >> 3) / 8 < NA_RULE_SLOT_AT_RBP)
        slot = (unsigned)(-(bp >> 3) / 8);
    else if (bp_how == NA_CFI_AT_EXPR &&
             is_breg_rbp((const uint8_t *)(uintptr_t)(bp >> 3), false, &at) && at == 0)
        slot = NA_RULE_SLOT_AT_RBP;
    else
        return NA_RULE(R_EXACT, 0, 0);
    int kind;
    if (row->cfa_expr != NULL) {
        if (!is_breg_rbp(row->cfa_expr, true, &off)) return NA_RULE(R_EXACT, 0, 0);
        kind = R_DEREF;
    } else if (row->cfa_reg == NA_DW_RSP || row->cfa_reg == NA_DW_RBP) {
        kind = row->cfa_reg == NA_DW_RSP ? R_RSP : R_RBP;
        off = row->cfa_off;
    } else {
        return NA_RULE(R_EXACT, 0, 0);
    }
    if (off % 8 != 0 || off / 8 >= 1 << (NA_RULE_OFF_BITS - 1) ||
        off / 8 < -(1 << (NA_RULE_OFF_BITS - 1)))
        return NA_RULE(R_EXACT, 0, 0);
    return NA_RULE(kind, off / 8, slot);
}

/* To a free way of the set, or in the place of another. */
static void keep_in(_Atomic uint64_t *set, uintptr_t pc, uint64_t word, atomic_bool *in_use) {
    unsigned way = (unsigned)(pc >> 2) % NA_RULE_WAYS;
    for (unsigned i = 0; i < NA_RULE_WAYS; i++) {
        if (atomic_load_explicit(&set[i], memory_order_relaxed) == 0) {
            way = i;
            break;
        }
    }
    if (!atomic_load_explicit(in_use, memory_order_relaxed)) atomic_store(in_use, true);
    atomic_store_explicit(&set[way], word, memory_order_relaxed);
}

static void keep_many(uintptr_t pc, uint64_t h, uint32_t rule) {
    uint64_t tag = h & ((UINT64_C(1) << NA_RULE_TAG_BITS) - 1);
    keep_in(na_rule_cache[h >> NA_RULE_TAG_BITS], pc, tag << 31 | rule, &rules_used);
}

static void keep_few(uintptr_t pc, uint64_t h, uint32_t rule) {
    uint64_t tag = h & ((UINT64_C(1) << NA_RULE_FEW_TAG_BITS) - 1);
    uint32_t slot = NA_RULE_SLOT(rule);
    atomic_fetch_add_explicit(&na_rules_few_made, 1, memory_order_relaxed);
    if (slot == NA_RULE_SLOT_AT_RBP)
        slot = NA_RULE_FEW_SLOT_MAX;
    else if (slot >= NA_RULE_FEW_SLOT_MAX)
        return;
    uint32_t few = rule >> NA_RULE_SLOT_BITS << NA_RULE_FEW_SLOT_BITS | slot;
    keep_in(na_rule_few[h >> NA_RULE_FEW_TAG_BITS], pc, tag << NA_RULE_FEW_BITS | few, &few_used);
}

uint32_t na_rule_make(const na_unwind_module_t *m, uintptr_t pc, na_rule_keep_t keep,
                      bool lasting) {
    na_cfi_row_t row;
    uint32_t rule = na_cfi_row(m, pc, &row) ? pack_rule(&row, pc) : NA_RULE(R_FRAME_POINTER, 0, 0);
    if (lasting) rule |= NA_RULE_LASTING;
    uint64_t h = na_rule_scramble(pc) & ((UINT64_C(1) << NA_RULE_PC_BITS) - 1);
    if (keep == NA_RULE_KEEP) keep_many(pc, h, rule);
    if (keep == NA_RULE_KEEP_FEW) keep_few(pc, h, rule);
    return rule;
}

#endif
