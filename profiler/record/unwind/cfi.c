/* cfi.c - reads .eh_frame: table lookup, CIE and FDE, the CFA program, DWARF expressions.
 *
 * The bytes belong to a loaded module, and a module with a frame on the calling thread's stack
 * cannot be unloaded, so they are read in place. They are not trusted to be well formed: every
 * read is checked against the end of its entry, and every entry against the module's range. */
#include "profiler/record/unwind/cfi.h"

#include "alloc/core/sys/base.h"

/* DW_EH_PE pointer encodings. */
enum {
    PE_ABSPTR = 0x00,
    PE_ULEB = 0x01,
    PE_UDATA2 = 0x02,
    PE_UDATA4 = 0x03,
    PE_UDATA8 = 0x04,
    PE_SLEB = 0x09,
    PE_SDATA2 = 0x0a,
    PE_SDATA4 = 0x0b,
    PE_SDATA8 = 0x0c,
    PE_PCREL = 0x10,
    PE_DATAREL = 0x30,
    PE_INDIRECT = 0x80,
    PE_OMIT = 0xff,
};

/* A bounded reader: once it has run over its end, `bad` stays set and every value is 0. */
typedef struct reader {
    const uint8_t *p, *end;
    bool bad;
} reader_t;

static uint64_t rd_fixed(reader_t *r, unsigned bytes) {
    uint64_t v = 0;
    if ((size_t)(r->end - r->p) < bytes) {
        r->bad = true;
        r->p = r->end;
        return 0;
    }
    for (unsigned i = 0; i < bytes; i++)
        v |= (uint64_t)r->p[i] << (8 * i);
    r->p += bytes;
    return v;
}

static uint64_t rd_uleb(reader_t *r) {
    uint64_t v = 0;
    for (unsigned shift = 0; r->p < r->end; shift += 7) {
        uint8_t b = *r->p++;
        if (shift < 64) v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) return v;
    }
    r->bad = true;
    return 0;
}

static int64_t rd_sleb(reader_t *r) {
    uint64_t v = 0;
    for (unsigned shift = 0; r->p < r->end;) {
        uint8_t b = *r->p++;
        if (shift < 64) v |= (uint64_t)(b & 0x7f) << shift;
        shift += 7;
        if (!(b & 0x80)) {
            if ((b & 0x40) && shift < 64) v |= ~(uint64_t)0 << shift;
            return (int64_t)v;
        }
    }
    r->bad = true;
    return 0;
}

/* A pointer in the encoding `enc`. `datarel` is the base of PE_DATAREL. An indirect pointer is not
 * followed: only personality routines use that, and they are skipped. */
static uintptr_t rd_pointer(reader_t *r, uint8_t enc, uintptr_t datarel) {
    uintptr_t here = (uintptr_t)r->p;
    uint64_t v;
    switch (enc & 0x0f) {
    case PE_ABSPTR:
        v = rd_fixed(r, sizeof(void *));
        break;
    case PE_ULEB:
        v = rd_uleb(r);
        break;
    case PE_UDATA2:
        v = rd_fixed(r, 2);
        break;
    case PE_UDATA4:
        v = rd_fixed(r, 4);
        break;
    case PE_UDATA8:
    case PE_SDATA8:
        v = rd_fixed(r, 8);
        break;
    case PE_SLEB:
        v = (uint64_t)rd_sleb(r);
        break;
    case PE_SDATA2:
        v = (uint64_t)(int64_t)(int16_t)rd_fixed(r, 2);
        break;
    case PE_SDATA4:
        v = (uint64_t)(int64_t)(int32_t)rd_fixed(r, 4);
        break;
    default:
        r->bad = true;
        return 0;
    }
    switch (enc & 0x70) {
    case 0:
        return v;
    case PE_PCREL:
        return v == 0 ? 0 : here + v;
    case PE_DATAREL:
        return datarel + v;
    default:
        r->bad = true;
        return 0;
    }
}

/* ---- entries ---- */

/* One CIE or FDE: [body, end), and the address that its CIE pointer field is counted from. */
typedef struct entry {
    const uint8_t *id_at;
    const uint8_t *end;
    uint32_t id; /* 0: a CIE; else the distance back from id_at to the CIE */
} entry_t;

static bool in_module(const na_unwind_module_t *m, const void *p, size_t bytes) {
    uintptr_t a = (uintptr_t)p;
    return a >= m->start && a <= m->end && m->end - a >= bytes;
}

/* *length gets 0 at the terminator of the section. */
static bool entry_at(const na_unwind_module_t *m, const uint8_t *p, entry_t *e, uint64_t *length) {
    if (!in_module(m, p, 4)) return false;
    reader_t r = {p, (const uint8_t *)m->end, false};
    uint64_t len = rd_fixed(&r, 4);
    if (len == 0xffffffff) len = rd_fixed(&r, 8);
    *length = len;
    if (r.bad || len == 0) return !r.bad;
    if (len < 4 || len > (uint64_t)(r.end - r.p)) return false;
    e->id_at = r.p;
    e->end = r.p + len;
    e->id = (uint32_t)rd_fixed(&r, 4);
    return true;
}

typedef struct cie {
    uint64_t code_align;
    int64_t data_align;
    uint32_t ra_reg;
    uint8_t fde_enc;
    bool has_aug_data;
    bool signal;
    const uint8_t *program, *end;
} cie_t;

static bool parse_cie(const na_unwind_module_t *m, const uint8_t *at, cie_t *c) {
    entry_t e;
    uint64_t length;
    if (!entry_at(m, at, &e, &length) || length == 0 || e.id != 0) return false;
    reader_t r = {e.id_at + 4, e.end, false};
    uint64_t version = rd_fixed(&r, 1);
    if (version != 1 && version != 3) return false;
    const uint8_t *aug = r.p;
    while (r.p < r.end && *r.p != 0)
        r.p++;
    rd_fixed(&r, 1);
    c->code_align = rd_uleb(&r);
    c->data_align = rd_sleb(&r);
    c->ra_reg = version == 1 ? (uint32_t)rd_fixed(&r, 1) : (uint32_t)rd_uleb(&r);
    c->fde_enc = PE_ABSPTR;
    c->has_aug_data = false;
    c->signal = false;
    if (r.bad || c->ra_reg >= NA_DW_REGS) return false;
    if (*aug == 'z') {
        c->has_aug_data = true;
        uint64_t bytes = rd_uleb(&r);
        if (r.bad || bytes > (uint64_t)(r.end - r.p)) return false;
        const uint8_t *program = r.p + bytes;
        for (const uint8_t *a = aug + 1; *a != 0; a++) {
            if (*a == 'R') {
                c->fde_enc = (uint8_t)rd_fixed(&r, 1);
            } else if (*a == 'L') {
                rd_fixed(&r, 1);
            } else if (*a == 'P') {
                uint8_t enc = (uint8_t)rd_fixed(&r, 1);
                rd_pointer(&r, enc & 0x7f & (uint8_t)~PE_DATAREL, 0);
            } else if (*a == 'S') {
                c->signal = true;
            } else if (*a != 'B') { /* 'B': aarch64 pointer authentication key */
                break;              /* unknown: the length of the data is known all the same */
            }
        }
        r.p = program;
    } else if (*aug != 0) {
        return false; /* "eh" and other forms from before gcc 3 */
    }
    c->program = r.p;
    c->end = r.end;
    return !r.bad;
}

/* What an FDE says, but for its CIE. */
typedef struct fde {
    uintptr_t begin, bytes; /* the code */
    reader_t program;
} fde_t;

/* The FDE at `at`, if it covers pc. */
static bool parse_fde(const na_unwind_module_t *m, const uint8_t *at, uintptr_t pc, cie_t *c,
                      fde_t *f) {
    entry_t e;
    uint64_t length;
    if (!entry_at(m, at, &e, &length) || length == 0 || e.id == 0) return false;
    if (!parse_cie(m, e.id_at - e.id, c)) return false;
    reader_t r = {e.id_at + 4, e.end, false};
    f->begin = rd_pointer(&r, c->fde_enc, 0);
    f->bytes = rd_pointer(&r, c->fde_enc & 0x0f, 0);
    if (c->has_aug_data) {
        uint64_t bytes = rd_uleb(&r);
        if (r.bad || bytes > (uint64_t)(r.end - r.p)) return false;
        r.p += bytes;
    }
    f->program = r;
    return !r.bad && pc - f->begin < f->bytes;
}

/* Without a search table: every FDE of the section in turn. Slow, and so rare that it may be. */
static bool scan_fdes(const na_unwind_module_t *m, const uint8_t *at, uintptr_t pc, cie_t *c,
                      fde_t *f) {
    for (;;) {
        entry_t e;
        uint64_t length;
        if (!entry_at(m, at, &e, &length) || length == 0) return false;
        if (e.id != 0 && parse_fde(m, at, pc, c, f)) return true;
        at = e.end;
    }
}

static bool find_fde(const na_unwind_module_t *m, uintptr_t pc, cie_t *c, fde_t *f) {
    if (m->eh_hdr == NULL || !in_module(m, m->eh_hdr, 4) || m->eh_hdr[0] != 1) return false;
    uintptr_t base = (uintptr_t)m->eh_hdr;
    reader_t r = {m->eh_hdr + 4, (const uint8_t *)m->end, false};
    uint8_t frame_enc = m->eh_hdr[1], count_enc = m->eh_hdr[2], table_enc = m->eh_hdr[3];
    uintptr_t frame = frame_enc == PE_OMIT ? 0 : rd_pointer(&r, frame_enc, base);
    uint64_t count = count_enc == PE_OMIT ? 0 : rd_pointer(&r, count_enc, base);
    if (r.bad) return false;
    if (table_enc != (PE_DATAREL | PE_SDATA4) || count == 0)
        return frame != 0 && scan_fdes(m, (const uint8_t *)frame, pc, c, f);
    if (count > (uint64_t)(r.end - r.p) / 8) return false;
    /* The last row whose function begins at or before pc. */
    const uint8_t *table = r.p;
    uint64_t lo = 0, hi = count;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        reader_t row = {table + 8 * mid, table + 8 * count, false};
        uintptr_t at = base + (uintptr_t)(int64_t)(int32_t)rd_fixed(&row, 4);
        if (at <= pc)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0) return false;
    reader_t row = {table + 8 * (lo - 1) + 4, table + 8 * count, false};
    uintptr_t fde = base + (uintptr_t)(int64_t)(int32_t)rd_fixed(&row, 4);
    return parse_fde(m, (const uint8_t *)fde, pc, c, f);
}

bool na_cfi_code(const na_unwind_module_t *m, uintptr_t pc, uintptr_t *begin, uintptr_t *end) {
    cie_t c;
    fde_t f;
    if (!find_fde(m, pc, &c, &f)) return false;
    *begin = f.begin;
    *end = f.begin + f.bytes;
    return true;
}

/* ---- the CFA program ---- */

#define REMEMBER_MAX 6

typedef struct machine {
    na_cfi_row_t *row;
    int64_t initial[NA_DW_REGS]; /* rules after the CIE's program, for DW_CFA_restore */
    struct {
        int64_t reg[NA_DW_REGS];
        const uint8_t *cfa_expr;
        int64_t cfa_off;
        uint32_t cfa_reg;
    } saved[REMEMBER_MAX];
    unsigned depth;
} machine_t;

static void set_rule(na_cfi_row_t *row, uint64_t reg, int how, int64_t operand) {
    if (reg < NA_DW_REGS) /* vector registers are of no interest */
        row->reg[reg] = (int64_t)((uint64_t)operand << 3) | how;
}

static void set_expr(na_cfi_row_t *row, uint64_t reg, int how, reader_t *r) {
    const uint8_t *at = r->p;
    uint64_t bytes = rd_uleb(r);
    if (r->bad || bytes > (uint64_t)(r->end - r->p)) {
        r->bad = true;
        return;
    }
    r->p += bytes;
    if (how < 0)
        row->cfa_expr = at;
    else
        set_rule(row, reg, how, (int64_t)(uintptr_t)at);
}

/* Runs a program until it passes `pc`. False: an instruction that is not understood. */
static bool run_program(machine_t *vm, const cie_t *c, reader_t r, uintptr_t loc, uintptr_t pc) {
    na_cfi_row_t *row = vm->row;
    while (r.p < r.end && !r.bad) {
        uint8_t op = *r.p++;
        uint64_t low = op & 0x3f, reg, delta = 0;
        bool advance = false;
        switch (op >> 6) {
        case 1: /* advance_loc */
            delta = low;
            advance = true;
            break;
        case 2: /* offset */
            set_rule(row, low, NA_CFI_AT_CFA, (int64_t)rd_uleb(&r) * c->data_align);
            continue;
        case 3: /* restore */
            if (low < NA_DW_REGS) row->reg[low] = vm->initial[low];
            continue;
        default:
            break;
        }
        if (!advance) {
            switch (op) {
            case 0x00: /* nop */
                break;
            case 0x01: { /* set_loc */
                uintptr_t to = rd_pointer(&r, c->fde_enc, 0);
                if (to > pc) return !r.bad;
                loc = to;
                break;
            }
            case 0x02: /* advance_loc1, 2, 4 */
            case 0x03:
            case 0x04:
                delta = rd_fixed(&r, 1U << (op - 2));
                advance = true;
                break;
            case 0x05: /* offset_extended */
                reg = rd_uleb(&r);
                set_rule(row, reg, NA_CFI_AT_CFA, (int64_t)rd_uleb(&r) * c->data_align);
                break;
            case 0x06: /* restore_extended */
                reg = rd_uleb(&r);
                if (reg < NA_DW_REGS) row->reg[reg] = vm->initial[reg];
                break;
            case 0x07: /* undefined */
                set_rule(row, rd_uleb(&r), NA_CFI_UNDEFINED, 0);
                break;
            case 0x08: /* same_value */
                set_rule(row, rd_uleb(&r), NA_CFI_SAME, 0);
                break;
            case 0x09: /* register */
                reg = rd_uleb(&r);
                set_rule(row, reg, NA_CFI_REGISTER, (int64_t)rd_uleb(&r));
                break;
            case 0x0a: /* remember_state */
                if (vm->depth == REMEMBER_MAX) return false;
                for (int i = 0; i < NA_DW_REGS; i++)
                    vm->saved[vm->depth].reg[i] = row->reg[i];
                vm->saved[vm->depth].cfa_expr = row->cfa_expr;
                vm->saved[vm->depth].cfa_off = row->cfa_off;
                vm->saved[vm->depth].cfa_reg = row->cfa_reg;
                vm->depth++;
                break;
            case 0x0b: /* restore_state */
                if (vm->depth == 0) return false;
                vm->depth--;
                for (int i = 0; i < NA_DW_REGS; i++)
                    row->reg[i] = vm->saved[vm->depth].reg[i];
                row->cfa_expr = vm->saved[vm->depth].cfa_expr;
                row->cfa_off = vm->saved[vm->depth].cfa_off;
                row->cfa_reg = vm->saved[vm->depth].cfa_reg;
                break;
            case 0x0c: /* def_cfa */
                row->cfa_reg = (uint32_t)rd_uleb(&r);
                row->cfa_off = (int64_t)rd_uleb(&r);
                row->cfa_expr = NULL;
                break;
            case 0x0d: /* def_cfa_register */
                row->cfa_reg = (uint32_t)rd_uleb(&r);
                row->cfa_expr = NULL;
                break;
            case 0x0e: /* def_cfa_offset */
                row->cfa_off = (int64_t)rd_uleb(&r);
                break;
            case 0x0f: /* def_cfa_expression */
                set_expr(row, 0, -1, &r);
                break;
            case 0x10: /* expression */
                reg = rd_uleb(&r);
                set_expr(row, reg, NA_CFI_AT_EXPR, &r);
                break;
            case 0x11: /* offset_extended_sf */
                reg = rd_uleb(&r);
                set_rule(row, reg, NA_CFI_AT_CFA, rd_sleb(&r) * c->data_align);
                break;
            case 0x12: /* def_cfa_sf */
                row->cfa_reg = (uint32_t)rd_uleb(&r);
                row->cfa_off = rd_sleb(&r) * c->data_align;
                row->cfa_expr = NULL;
                break;
            case 0x13: /* def_cfa_offset_sf */
                row->cfa_off = rd_sleb(&r) * c->data_align;
                break;
            case 0x14: /* val_offset */
                reg = rd_uleb(&r);
                set_rule(row, reg, NA_CFI_IS_CFA, (int64_t)rd_uleb(&r) * c->data_align);
                break;
            case 0x15: /* val_offset_sf */
                reg = rd_uleb(&r);
                set_rule(row, reg, NA_CFI_IS_CFA, rd_sleb(&r) * c->data_align);
                break;
            case 0x16: /* val_expression */
                reg = rd_uleb(&r);
                set_expr(row, reg, NA_CFI_IS_EXPR, &r);
                break;
            case 0x2e: /* GNU_args_size */
                rd_uleb(&r);
                break;
            case 0x2f: /* GNU_negative_offset_extended */
                reg = rd_uleb(&r);
                set_rule(row, reg, NA_CFI_AT_CFA, -(int64_t)rd_uleb(&r) * c->data_align);
                break;
            default:
                return false;
            }
        }
        if (advance) {
            loc += delta * c->code_align;
            if (loc > pc) return !r.bad;
        }
    }
    return !r.bad;
}

bool na_cfi_row(const na_unwind_module_t *m, uintptr_t pc, na_cfi_row_t *row) {
    cie_t c;
    fde_t f;
    if (!find_fde(m, pc, &c, &f)) return false;
    machine_t vm;
    vm.row = row;
    vm.depth = 0;
    for (int i = 0; i < NA_DW_REGS; i++)
        vm.initial[i] = row->reg[i] = NA_CFI_SAME;
    row->cfa_expr = NULL;
    row->cfa_off = 0;
    row->cfa_reg = UINT32_MAX;
    row->ra_reg = c.ra_reg;
    row->signal = c.signal;
    if (!run_program(&vm, &c, (reader_t){c.program, c.end, false}, 0, UINTPTR_MAX)) return false;
    for (int i = 0; i < NA_DW_REGS; i++)
        vm.initial[i] = row->reg[i];
    return run_program(&vm, &c, f.program, f.begin, pc);
}

/* ---- expressions ---- */

#define EXPR_STACK 16

static bool eval(const uint8_t *at, const na_cfi_regs_t *regs, na_cfi_read_t *read, void *arg,
                 bool push_cfa, uint64_t cfa, uint64_t *result) {
    /* The length was checked against its entry when the program ran. */
    reader_t r = {at, at + 10, false};
    uint64_t bytes = rd_uleb(&r);
    r.end = r.p + bytes;
    uint64_t st[EXPR_STACK];
    unsigned n = 0;
    if (push_cfa) st[n++] = cfa;
    for (unsigned steps = 0; r.p < r.end && !r.bad; steps++) {
        uint8_t op = *r.p++;
        uint64_t v;
        if (steps > 256 || n > EXPR_STACK - 2) return false;
        if (op >= 0x30 && op <= 0x4f) { /* lit0..lit31 */
            st[n++] = op - 0x30U;
        } else if (op >= 0x70 && op <= 0x8f) { /* breg0..breg31 */
            unsigned reg = op - 0x70U;
            int64_t off = rd_sleb(&r);
            if (reg >= NA_DW_REGS || !(regs->valid >> reg & 1)) return false;
            st[n++] = regs->r[reg] + (uint64_t)off;
        } else if (op >= 0x08 && op <= 0x0f) { /* const1u, const1s, ... const8s */
            unsigned size = 1U << ((op - 0x08) / 2);
            v = rd_fixed(&r, size);
            if ((op & 1) && size < 8)
                v = (uint64_t)((int64_t)(v << (64 - 8 * size)) >> (64 - 8 * size));
            st[n++] = v;
        } else if (op == 0x10) { /* constu */
            st[n++] = rd_uleb(&r);
        } else if (op == 0x11) { /* consts */
            st[n++] = (uint64_t)rd_sleb(&r);
        } else if (op == 0x96) { /* nop */
        } else if (n == 0) {
            return false;
        } else if (op == 0x06) { /* deref */
            if (!read(arg, st[n - 1], &st[n - 1])) return false;
        } else if (op == 0x12) { /* dup */
            st[n] = st[n - 1];
            n++;
        } else if (op == 0x13) { /* drop */
            n--;
        } else if (op == 0x1f) { /* neg */
            st[n - 1] = 0 - st[n - 1];
        } else if (op == 0x20) { /* not */
            st[n - 1] = ~st[n - 1];
        } else if (op == 0x23) { /* plus_uconst */
            st[n - 1] += rd_uleb(&r);
        } else if (n < 2) {
            return false;
        } else {
            uint64_t b = st[n - 1], a = st[n - 2];
            int64_t sa = (int64_t)a, sb = (int64_t)b;
            n--;
            switch (op) {
            case 0x14: /* over */
                n += 2;
                st[n - 1] = a;
                continue;
            case 0x16: /* swap */
                n++;
                st[n - 1] = a;
                v = b;
                st[n - 2] = v;
                continue;
            case 0x1a:
                v = a & b;
                break;
            case 0x1c:
                v = a - b;
                break;
            case 0x1e:
                v = a * b;
                break;
            case 0x21:
                v = a | b;
                break;
            case 0x22:
                v = a + b;
                break;
            case 0x24:
                v = b < 64 ? a << b : 0;
                break;
            case 0x25:
                v = b < 64 ? a >> b : 0;
                break;
            case 0x26:
                v = (uint64_t)(sa >> (b < 64 ? b : 63));
                break;
            case 0x27:
                v = a ^ b;
                break;
            case 0x29:
                v = sa == sb;
                break;
            case 0x2a:
                v = sa >= sb;
                break;
            case 0x2b:
                v = sa > sb;
                break;
            case 0x2c:
                v = sa <= sb;
                break;
            case 0x2d:
                v = sa < sb;
                break;
            case 0x2e:
                v = sa != sb;
                break;
            default:
                return false;
            }
            st[n - 1] = v;
        }
    }
    if (r.bad || n == 0) return false;
    *result = st[n - 1];
    return true;
}

bool na_cfi_step(const na_cfi_row_t *row, na_cfi_regs_t *regs, na_cfi_read_t *read, void *arg,
                 uint64_t *cfa, bool *end) {
    *end = false;
    int ra_how = (int)(row->reg[row->ra_reg] & 7);
    if (ra_how == NA_CFI_UNDEFINED || ra_how == NA_CFI_SAME) {
        *end = true;
        return true;
    }
    if (row->cfa_expr != NULL) {
        if (!eval(row->cfa_expr, regs, read, arg, false, 0, cfa)) return false;
    } else {
        if (row->cfa_reg >= NA_DW_REGS || !(regs->valid >> row->cfa_reg & 1)) return false;
        *cfa = regs->r[row->cfa_reg] + (uint64_t)row->cfa_off;
    }
    na_cfi_regs_t out;
    out.valid = 0;
    for (unsigned i = 0; i < NA_DW_REGS; i++) {
        int64_t operand = row->reg[i] >> 3;
        uint64_t v = 0;
        bool ok = false;
        switch ((int)(row->reg[i] & 7)) {
        case NA_CFI_SAME:
            v = regs->r[i];
            ok = regs->valid >> i & 1;
            break;
        case NA_CFI_AT_CFA:
            ok = read(arg, *cfa + (uint64_t)operand, &v);
            break;
        case NA_CFI_IS_CFA:
            v = *cfa + (uint64_t)operand;
            ok = true;
            break;
        case NA_CFI_REGISTER:
            if (operand >= 0 && operand < NA_DW_REGS) {
                v = regs->r[operand];
                ok = regs->valid >> operand & 1;
            }
            break;
        case NA_CFI_AT_EXPR: {
            uint64_t at;
            ok = eval((const uint8_t *)(uintptr_t)operand, regs, read, arg, true, *cfa, &at) &&
                 read(arg, at, &v);
            break;
        }
        case NA_CFI_IS_EXPR:
            ok = eval((const uint8_t *)(uintptr_t)operand, regs, read, arg, true, *cfa, &v);
            break;
        default:
            break;
        }
        if (ok) {
            out.r[i] = v;
            out.valid |= 1U << i;
        }
    }
    /* The stack pointer of the caller is the CFA unless a rule says otherwise (signal frames). */
    if ((row->reg[NA_DW_RSP] & 7) == NA_CFI_SAME) {
        out.r[NA_DW_RSP] = *cfa;
        out.valid |= 1U << NA_DW_RSP;
    }
    if (!(out.valid >> row->ra_reg & 1)) return false;
    if (row->ra_reg != NA_DW_RA) {
        out.r[NA_DW_RA] = out.r[row->ra_reg];
        out.valid |= 1U << NA_DW_RA;
    }
    *regs = out;
    return true;
}
