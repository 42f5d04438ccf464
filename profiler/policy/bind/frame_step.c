/* frame_step.c - packs a row of call frame information into a step of the walk. */
#include "profiler/policy/bind/frame_step.h"

bool na_policy_step(const na_unwind_module_t *module, uintptr_t pc, na_policy_node_t *node) {
#ifdef __x86_64__
    na_cfi_row_t row;
    if (module->eh_hdr == NULL || !na_cfi_row(module, pc - 1, &row)) return false;
    if (row.signal || row.cfa_expr != NULL || row.ra_reg != NA_DW_RA ||
        (row.cfa_reg != NA_DW_RSP && row.cfa_reg != NA_DW_RBP) || row.cfa_off <= 0 ||
        row.cfa_off > INT32_MAX)
        return false;
    int64_t ra = row.reg[NA_DW_RA], bp = row.reg[NA_DW_RBP];
    if ((ra & 7) != NA_CFI_AT_CFA || ra >> 3 != -8) return false;
    if ((row.reg[NA_DW_RSP] & 7) != NA_CFI_SAME && (row.reg[NA_DW_RSP] & 7) != NA_CFI_IS_CFA)
        return false;
    node->bp_at = NA_POLICY_BP_SAME;
    if ((bp & 7) == NA_CFI_AT_CFA && bp >> 3 > INT16_MIN && bp >> 3 < 0)
        node->bp_at = (int16_t)(bp >> 3);
    else if ((bp & 7) != NA_CFI_SAME)
        return false;
    node->cfa_by_bp = row.cfa_reg == NA_DW_RBP;
    node->cfa = (int32_t)row.cfa_off;
    return true;
#else
    (void)module, (void)pc, (void)node;
    return false;
#endif
}
