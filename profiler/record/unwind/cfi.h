/* cfi.h - call frame information: from a code address to the rule that finds its caller's frame.
 *
 * Reads the .eh_frame of the module that holds the address, in place, and runs the CIE's and FDE's
 * programs up to the address. The result is a full row of register rules; most rows can be packed
 * into 31 bits (na_rule_t), which is what the walker caches. Nothing here allocates, locks or
 * calls the C library; stack use is under 2 KiB. */
#ifndef NUMALLOC_PROFILER_RECORD_UNWIND_CFI_H
#define NUMALLOC_PROFILER_RECORD_UNWIND_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a module's unwind table lies. [start, end) is the module's whole address range. */
typedef struct na_unwind_module {
    uintptr_t start, end;
    const uint8_t *eh_hdr; /* .eh_frame_hdr in memory, NULL: no table */
    const void *link_map;  /* identity given by the loader, may be NULL */
} na_unwind_module_t;

/* DWARF register numbers of x86-64 that have a meaning of their own here. */
enum {
    NA_DW_RBX = 3,
    NA_DW_RBP = 6,
    NA_DW_RSP = 7,
    NA_DW_R12 = 12,
    NA_DW_RA = 16,
    NA_DW_REGS = 17
};

/* Registers of one frame; a bit of `valid` for each register whose value is known. */
typedef struct na_cfi_regs {
    uint64_t r[NA_DW_REGS];
    uint32_t valid;
} na_cfi_regs_t;

/* How the caller's value of a register is found: low 3 bits of na_cfi_row_t.reg; the rest is a
 * signed operand (an offset, a register number, or the address of an expression). */
enum {
    NA_CFI_SAME,      /* unchanged */
    NA_CFI_UNDEFINED, /* unknown; for the return address: the outermost frame */
    NA_CFI_AT_CFA,    /* saved at CFA + operand */
    NA_CFI_IS_CFA,    /* is CFA + operand */
    NA_CFI_REGISTER,  /* in register `operand` */
    NA_CFI_AT_EXPR,   /* saved at the address that the expression gives */
    NA_CFI_IS_EXPR,   /* is the value that the expression gives */
};

typedef struct na_cfi_row {
    int64_t reg[NA_DW_REGS];
    const uint8_t *cfa_expr; /* NULL: CFA = cfa_reg + cfa_off */
    int64_t cfa_off;
    uint32_t cfa_reg;
    uint32_t ra_reg;
    bool signal; /* augmentation 'S': the pc of the caller is exact, not a return address */
} na_cfi_row_t;

/* Fills *row for the instruction at `pc`, which lies in *m. False: no or unusable information. */
bool na_cfi_row(const na_unwind_module_t *m, uintptr_t pc, na_cfi_row_t *row);

/* Where the code that has one description with `pc` begins and ends: a function, or one of the
 * parts that the compiler made of it. False: no or unusable information. */
bool na_cfi_code(const na_unwind_module_t *m, uintptr_t pc, uintptr_t *begin, uintptr_t *end);

/* Reads the stack word at `addr` if it is certain to be readable. */
typedef bool na_cfi_read_t(void *arg, uintptr_t addr, uint64_t *value);

/* From a frame's registers to its caller's, by the row. False: the row cannot be applied. *cfa gets
 * the canonical frame address; *end is set when the row says that there is no caller. */
bool na_cfi_step(const na_cfi_row_t *row, na_cfi_regs_t *regs, na_cfi_read_t *read, void *arg,
                 uint64_t *cfa, bool *end);

#endif
