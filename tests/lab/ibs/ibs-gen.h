/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * ibs-gen.h - what the translator adds to a block for instruction-based sampling (see ibs.h).
 * Becomes include/exec/ibs-gen.h of a patched QEMU; included by exec/gen-icount.h alone.
 */
#ifndef EXEC_IBS_GEN_H
#define EXEC_IBS_GEN_H

#if defined(TARGET_X86_64) && !defined(CONFIG_USER_ONLY)

/* CPUs that run in parallel also translate in parallel. */
static __thread TCGOp *ibs_taken; /* takes the block's instructions from those that are left */
static __thread TCGLabel *ibs_gives_up;

static inline void ibs_gen_tb_start(const TranslationBlock *tb) {
    TCGv_i32 left;

    ibs_gives_up = NULL;
    if (!(tb_cflags(tb) & CF_IBS_COUNT)) {
        return;
    }
    ibs_gives_up = gen_new_label();
    left = tcg_temp_local_new_i32();
    tcg_gen_ld_i32(left, cpu_env, offsetof(CPUX86State, ibs.left));
    tcg_gen_sub_i32(left, left, tcg_constant_i32(0)); /* how many is known at the end */
    ibs_taken = tcg_last_op();
    tcg_gen_brcondi_i32(TCG_COND_LT, left, 0, ibs_gives_up);
    tcg_gen_st_i32(left, cpu_env, offsetof(CPUX86State, ibs.left));
    tcg_temp_free_i32(left);
}

static inline void ibs_gen_tb_end(const TranslationBlock *tb, int instructions) {
    if (ibs_gives_up) {
        tcg_set_insn_param(ibs_taken, 2, tcgv_i32_arg(tcg_constant_i32(instructions)));
        gen_set_label(ibs_gives_up);
        tcg_gen_exit_tb(tb, TB_EXIT_REQUESTED);
    }
}

#else
static inline void ibs_gen_tb_start(const TranslationBlock *tb) {}
static inline void ibs_gen_tb_end(const TranslationBlock *tb, int instructions) {}
#endif
#endif
