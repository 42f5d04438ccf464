/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * ibs-gen.h - what the translator adds to a block for instruction-based sampling (see ibs.h).
 * Becomes include/exec/ibs-gen.h of a patched QEMU; included by exec/gen-icount.h alone.
 */
#ifndef EXEC_IBS_GEN_H
#define EXEC_IBS_GEN_H

#if defined(TARGET_X86_64) && !defined(CONFIG_USER_ONLY)

/* CPUs that run in parallel also translate in parallel. */
static __thread TCGOp *ibs_taken;   /* takes the block's instructions from those that are left */
static __thread TCGOp *ibs_fetched; /* and its fetches */
static __thread TCGLabel *ibs_gives_up;

/* left - N, where N is known at the end of the block; gives up below zero. */
static inline TCGv_i32 ibs_gen_take(intptr_t left_at, TCGOp **takes) {
    TCGv_i32 left = tcg_temp_local_new_i32();

    tcg_gen_ld_i32(left, cpu_env, left_at);
    tcg_gen_sub_i32(left, left, tcg_constant_i32(0));
    *takes = tcg_last_op();
    tcg_gen_brcondi_i32(TCG_COND_LT, left, 0, ibs_gives_up);
    return left;
}

static inline void ibs_gen_keep(TCGv_i32 left, intptr_t left_at) {
    tcg_gen_st_i32(left, cpu_env, left_at);
    tcg_temp_free_i32(left);
}

/* Nothing is taken unless both can be. */
static inline void ibs_gen_tb_start(const TranslationBlock *tb) {
    const intptr_t left_at = offsetof(CPUX86State, ibs.left);
    const intptr_t fetches_at = offsetof(CPUX86State, ibs.fetches_left);
    TCGv_i32 left = NULL, fetches = NULL;

    ibs_gives_up = NULL;
    ibs_taken = ibs_fetched = NULL;
    if (!(tb_cflags(tb) & (CF_IBS_COUNT | CF_IBS_FETCH))) {
        return;
    }
    ibs_gives_up = gen_new_label();
    if (tb_cflags(tb) & CF_IBS_COUNT) {
        left = ibs_gen_take(left_at, &ibs_taken);
    }
    if (tb_cflags(tb) & CF_IBS_FETCH) {
        fetches = ibs_gen_take(fetches_at, &ibs_fetched);
        ibs_gen_keep(fetches, fetches_at);
    }
    if (left) {
        ibs_gen_keep(left, left_at);
    }
}

/* From the translator, when it knows where the block ends. */
static inline void ibs_gen_fetches(uint64_t first, uint64_t next) {
    if (ibs_fetched) {
        int fetches = ibs_fetches(first, next - first);

        tcg_set_insn_param(ibs_fetched, 2, tcgv_i32_arg(tcg_constant_i32(fetches)));
    }
}

static inline void ibs_gen_tb_end(const TranslationBlock *tb, int instructions) {
    if (ibs_taken) {
        tcg_set_insn_param(ibs_taken, 2, tcgv_i32_arg(tcg_constant_i32(instructions)));
    }
    if (ibs_gives_up) {
        gen_set_label(ibs_gives_up);
        tcg_gen_exit_tb(tb, TB_EXIT_REQUESTED);
    }
}

#else
static inline void ibs_gen_tb_start(const TranslationBlock *tb) {}
static inline void ibs_gen_fetches(uint64_t first, uint64_t next) {}
static inline void ibs_gen_tb_end(const TranslationBlock *tb, int instructions) {}
#endif
#endif
