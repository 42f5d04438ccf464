/* access_chain.c - see access_chain.h.
 *
 * Modules that dlopen brought may be unloaded while their call frame information is read here (in
 * malloc they may not: a frame of the calling thread returns into them, umodules.h). Chains end
 * there, and nothing of such a module is looked at. */
#include "profiler/record/sources/access_chain.h"

#include "profiler/record/unwind/cfi.h"
#include "profiler/record/unwind/umodules.h"

uint32_t na_access_batch_enter(const na_access_batch_t *chain) {
    uint32_t node = NA_NPROF_ROOT;
    na_lock(&na_access_store_lock);
    for (uint32_t i = chain->count; i-- > 0;) {
        bool outermost = i == chain->count - 1;
        bool exact = chain->exact != NULL ? chain->exact[i] : i == 0;
        if (i == 0 && !chain->exact_first) exact = false;
        node = na_stacks_child(node, chain->pcs[i], exact, outermost && chain->truncated);
        if (node == 0) break; /* no room */
    }
    na_unlock(&na_access_store_lock);
    return node;
}

#if defined(__x86_64__)

#define FRAMES 128u

/* The general registers, in the order of the kernel's numbers (asm/perf_regs.h: ax, bx, cx, dx, si,
 * di, bp, sp, ip; 16 to 23: r8 to r15), by their DWARF numbers. */
#define REGISTERS 17u
#define MASK      UINT64_C(0xff01ff)
static const uint8_t dwarf[REGISTERS] = {0, 3, 2,  1,  4,  5,  6,  7, NA_DW_RA,
                                         8, 9, 10, 11, 12, 13, 14, 15};

void na_access_batch_ask(struct perf_event_attr *attr, uint32_t stack) {
    if (stack == 0) return;
    attr->sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    attr->sample_regs_user = MASK;
    attr->sample_stack_user = stack;
}

uint32_t na_access_batch_bytes(uint32_t stack) {
    return stack == 0 ? 0 : (1 + REGISTERS + 2) * 8 + stack;
}

/* What was copied. */
typedef struct copy {
    const char *data;
    uint64_t from, size;
} copy_t;

static bool read_copy(void *arg, uintptr_t address, uint64_t *value) {
    const copy_t *c = arg;
    if ((address & 7) != 0 || address < c->from || address - c->from > c->size - 8 || c->size < 8)
        return false;
    __builtin_memcpy(value, c->data + (address - c->from), 8);
    return true;
}

typedef struct chain {
    uint64_t pcs[FRAMES];
    bool exact[FRAMES];
    uint32_t count;
    bool truncated;
} chain_t;

/* The frame-pointer convention, for code that has no module. */
static bool copied_frame_step(na_cfi_regs_t *regs, copy_t *copy) {
    uint64_t fp = regs->r[NA_DW_RBP], next, ra;
    if ((regs->valid >> NA_DW_RBP & 1) == 0 || fp < regs->r[NA_DW_RSP] ||
        !read_copy(copy, fp, &next) || !read_copy(copy, fp + 8, &ra))
        return false;
    regs->valid = 1U << NA_DW_RBP | 1U << NA_DW_RSP | 1U << NA_DW_RA;
    regs->r[NA_DW_RBP] = next;
    regs->r[NA_DW_RSP] = fp + 16;
    regs->r[NA_DW_RA] = ra;
    return true;
}

static void unwind(na_cfi_regs_t regs, copy_t *copy, chain_t *to) {
    bool exact = true;
    for (;;) {
        uint64_t pc = regs.r[NA_DW_RA], sp = regs.r[NA_DW_RSP], cfa;
        uintptr_t key = exact ? pc : pc - 1;
        if (pc == 0) return;
        if (to->count == FRAMES) break;
        to->exact[to->count] = exact;
        to->pcs[to->count++] = pc;
        na_unwind_module_t module;
        na_cfi_row_t row;
        bool end;
        switch (na_umodule_of_others(key, &module)) {
        case NA_UMODULE_LASTING:
            if (!na_cfi_row(&module, key, &row) ||
                !na_cfi_step(&row, &regs, read_copy, copy, &cfa, &end)) {
                to->truncated = true;
                return;
            }
            if (end) return;
            exact = row.signal;
            break;
        case NA_UMODULE_NONE:
            if (regs.r[NA_DW_RBP] == 0) return; /* the outermost, by the convention of the ABI */
            if (!copied_frame_step(&regs, copy)) {
                to->truncated = true;
                return;
            }
            exact = false;
            break;
        default:
            to->truncated = true;
            return;
        }
        if (!exact && regs.r[NA_DW_RSP] <= sp) break;
    }
    to->truncated = true;
}

uint32_t na_access_batch_of(const uint64_t *words, uint32_t count, bool after_ip) {
    static chain_t chain;
    if (count < 1 + REGISTERS + 2 || words[0] != PERF_SAMPLE_REGS_ABI_64) return 0;
    na_cfi_regs_t regs = {.valid = (1U << NA_DW_REGS) - 1};
    for (uint32_t i = 0; i < REGISTERS; i++)
        regs.r[dwarf[i]] = words[1 + i];
    words += 1 + REGISTERS;
    count -= 1 + REGISTERS;
    uint64_t room = words[0], copied = 0;
    if (room / 8 + 2 > count) return 0;
    if (room != 0) copied = words[1 + room / 8]; /* less than there was room for: its end */
    copy_t copy = {.data = (const char *)(words + 1),
                   .from = regs.r[NA_DW_RSP],
                   .size = copied < room ? copied : room};
    chain.count = 0;
    chain.truncated = false;
    unwind(regs, &copy, &chain);
    if (chain.count == 0) return 0;
    return na_access_batch_enter(&(na_access_batch_t){.pcs = chain.pcs,
                                                      .exact = chain.exact,
                                                      .count = chain.count,
                                                      .exact_first = !after_ip,
                                                      .truncated = chain.truncated});
}

#else

void na_access_batch_ask(struct perf_event_attr *attr, uint32_t stack) {
    (void)attr;
    (void)stack;
}

uint32_t na_access_batch_bytes(uint32_t stack) {
    (void)stack;
    return 0;
}

uint32_t na_access_batch_of(const uint64_t *words, uint32_t count, bool after_ip) {
    (void)words;
    (void)count;
    (void)after_ip;
    return 0;
}

#endif
