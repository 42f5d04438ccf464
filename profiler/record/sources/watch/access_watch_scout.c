/* access_watch_scout.c - see access_watch_scout.h. */
#include "profiler/record/sources/watch/access_watch_scout.h"

#include <stddef.h>
#include <sys/uio.h>

#include "alloc/core/sys/syscall.h"

#define PERIOD    UINT64_C(2000000) /* ns of a thread's CPU time */
#define LINES     512u
#define CODES     256u
#define LONGEST   15u /* bytes of an instruction */
#define REGISTERS 17u
#define MASK      UINT64_C(0xff01ff) /* as access_chain.c */

/* Bits of an opcode: it has a ModRM byte; with an immediate of 8 bits, or of 32 (16 with 66). */
#define MODRM  1u
#define IMM8   2u
#define IMM32  4u
#define IMM_T  8u  /* an immediate if the ModRM's reg is 0 or 1 (test) */
#define NONE   16u /* its operand is no access */
#define CALLS  32u /* may go elsewhere */
#define JUDGED 16u
#define STEPS  6u /* instructions that are looked at for one with an operand */

static struct {
    struct line {
        uintptr_t line;
        uint32_t tid;
        uint32_t words;  /* that were seen: a bit each */
        uint32_t judged; /* samples that were asked whether it is written */
        bool shared, written;
    } line[LINES];
    struct code { /* what was read lately */
        uint64_t ip;
        uint32_t count;
        uint8_t bytes[LONGEST + 1];
    } code[CODES];
    bool refused;
    uint32_t samples;
} scout_state;

void na_scout_start(void) {
    __builtin_memset(&scout_state, 0, sizeof scout_state);
}

void na_scout_ask(struct perf_event_attr *attr) {
    attr->type = PERF_TYPE_SOFTWARE;
    attr->config = PERF_COUNT_SW_TASK_CLOCK;
    attr->sample_period = PERIOD;
    attr->sample_type |= PERF_SAMPLE_REGS_USER;
    attr->sample_regs_user = MASK;
    attr->disabled = 0;
}

/* ---- instructions ---- */

static uint32_t one_byte(uint8_t op) {
    if (op < 0x40) return (op & 7) < 4 ? MODRM : 0;
    switch (op) {
    case 0x63:
    case 0xd0 ... 0xd3:
    case 0xd8 ... 0xdf:
    case 0xfe:
        return MODRM;
    case 0xff:
        return MODRM | CALLS;
    case 0x69:
    case 0x81:
    case 0xc7:
        return MODRM | IMM32;
    case 0x6b:
    case 0x80:
    case 0x83:
    case 0xc0:
    case 0xc1:
    case 0xc6:
        return MODRM | IMM8;
    case 0x84 ... 0x8c:
    case 0x8e:
        return MODRM;
    case 0x8d: /* only computes an address */
        return MODRM | NONE;
    case 0xf6:
        return MODRM | IMM8 | IMM_T;
    case 0xf7:
        return MODRM | IMM32 | IMM_T;
    default:
        return 0;
    }
}

static uint32_t two_bytes(uint8_t op) {
    switch (op) {
    case 0x0d:
    case 0x18 ... 0x1f: /* what may be needed soon, and nothing */
        return MODRM | NONE;
    case 0x10 ... 0x17:
    case 0x28 ... 0x2f:
    case 0x40 ... 0x6f:
    case 0x74 ... 0x76:
    case 0x78 ... 0x7f:
    case 0x90 ... 0x9f:
    case 0xa3:
    case 0xa5:
    case 0xab:
    case 0xad ... 0xb9:
    case 0xbb ... 0xc1:
    case 0xc3:
    case 0xc7:
    case 0xd0 ... 0xff:
        return MODRM;
    case 0x70 ... 0x73:
    case 0xa4:
    case 0xac:
    case 0xba:
    case 0xc2:
    case 0xc4 ... 0xc6:
        return MODRM | IMM8;
    default:
        return 0;
    }
}

/* Of one byte, with an operand in memory: it is read and no more. */
static bool one_byte_reads(uint8_t op, uint8_t reg) {
    switch (op) {
    case 0x38 ... 0x3b: /* cmp */
    case 0x63:
    case 0x69:
    case 0x6b:
    case 0x84: /* test */
    case 0x85:
    case 0x8a:
    case 0x8b:
    case 0x8e:
        return true;
    case 0x80:
    case 0x81:
    case 0x83:
        return reg == 7; /* cmp */
    case 0xf6:
    case 0xf7:
        return reg != 2 && reg != 3; /* all but not, neg */
    case 0xff:
        return reg > 1; /* all but inc, dec */
    default:
        return op < 0x40 && (op & 7) > 1; /* to a register */
    }
}

static bool two_bytes_read(uint8_t op) {
    switch (op) {
    case 0x10:
    case 0x12:
    case 0x14 ... 0x16:
    case 0x28:
    case 0x2a:
    case 0x2c ... 0x2f:
    case 0x40 ... 0x76:
    case 0x7c:
    case 0x7d:
    case 0xa3: /* bt */
    case 0xaf:
    case 0xb6 ... 0xb9:
    case 0xbc ... 0xbf:
    case 0xc2:
    case 0xc4 ... 0xc6:
    case 0xd0 ... 0xd5:
    case 0xd8 ... 0xe6:
    case 0xe8 ... 0xff:
        return true;
    default:
        return false;
    }
}

typedef struct decoded {
    uint32_t at;     /* of the ModRM byte */
    uint32_t opcode; /* of the opcode, plus 1; 0: a vector instruction, or not known */
    uint32_t what;
    uint8_t rex;
    bool wide16, far_segment;
    bool map1; /* of a vector instruction: as those of two bytes */
} decoded_t;

/* A vector instruction's prefix. */
static void vex(const uint8_t *code, uint32_t at, decoded_t *d) {
    uint8_t first = code[at], map, op;
    if (first == 0xc5) {
        map = 1;
        op = code[at + 2];
        d->at = at + 3;
    } else {
        uint8_t bits = (uint8_t)~code[at + 1];
        d->rex = (uint8_t)((bits >> 7 & 1) << 2 | (bits >> 6 & 1) << 1 | (bits >> 5 & 1));
        map = code[at + 1] & (first == 0x62 ? 7 : 31);
        op = code[at + (first == 0x62 ? 4 : 3)];
        d->at = at + (first == 0x62 ? 5 : 4);
    }
    d->map1 = map == 1;
    d->what = map == 3 ? MODRM | IMM8 : map == 2 ? MODRM : op == 0x77 ? 0 : two_bytes(op);
    /* Displacements of EVEX are in units that go by the instruction: only those of four bytes are
     * what they say. */
    if (first == 0x62 && code[d->at] >> 6 == 1) d->what = 0;
}

static decoded_t decode(const uint8_t *code) {
    decoded_t d = {.at = 0};
    uint32_t at = 0;
    for (; at < 5; at++) {
        uint8_t b = code[at];
        if (b == 0x64 || b == 0x65)
            d.far_segment = true;
        else if (b == 0x66)
            d.wide16 = true;
        else if (b == 0x67)
            return d; /* addresses of 32 bits */
        else if (b != 0xf0 && b != 0xf2 && b != 0xf3 && b != 0x2e && b != 0x36 && b != 0x3e &&
                 b != 0x26)
            break;
    }
    if (code[at] == 0xc4 || code[at] == 0xc5 || code[at] == 0x62) {
        vex(code, at, &d);
        return d;
    }
    if ((code[at] & 0xf0) == 0x40) d.rex = code[at++];
    d.opcode = at + 1;
    uint8_t op = code[at++];
    if (op != 0x0f) {
        d.what = one_byte(op);
    } else {
        op = code[at++];
        d.what = two_bytes(op);
        if (op == 0x38 || op == 0x3a) {
            d.what = op == 0x38 ? MODRM : MODRM | IMM8;
            at++;
        }
    }
    d.at = at;
    return d;
}

static int64_t signed_at(const uint8_t *code, uint32_t bytes) {
    if (bytes == 1) return (int8_t)code[0];
    return (int32_t)((uint32_t)code[0] | (uint32_t)code[1] << 8 | (uint32_t)code[2] << 16 |
                     (uint32_t)code[3] << 24);
}

/* Without a ModRM byte, after `at` bytes: the next one's place; 0: not known, or elsewhere. */
static uint64_t behind(const uint8_t *code, uint32_t at, bool wide16, uint64_t ip) {
    uint8_t op = code[at++];
    switch (op) {
    case 0x70 ... 0x7f: /* a loop's end leads to its beginning */
    case 0xeb:
        return ip + at + 1 + (uint64_t)(op == 0xeb || code[at] > 127 ? signed_at(code + at, 1) : 0);
    case 0xe9:
        return ip + at + 4 + (uint64_t)signed_at(code + at, 4);
    case 0x0f:
        if ((code[at] & 0xf0) != 0x80) return 0;
        return ip + at + 5 + (uint64_t)(code[at + 4] > 127 ? signed_at(code + at + 1, 4) : 0);
    case 0x50 ... 0x5f:
    case 0x90:
    case 0x98:
    case 0x99:
        return ip + at;
    case 0x04:
    case 0x0c:
    case 0x24:
    case 0x2c:
    case 0x34:
    case 0x3c:
    case 0xa8:
        return ip + at + 1;
    case 0x05:
    case 0x0d:
    case 0x25:
    case 0x2d:
    case 0x35:
    case 0x3d:
    case 0xa9:
        return ip + at + (wide16 ? 2 : 4);
    case 0xb8 ... 0xbf:
        return (code[(int)at - 2] & 0xf8) == 0x48 ? 0 : ip + at + 4;
    default:
        return 0;
    }
}

bool na_scout_may_write(const uint8_t *code) {
    uint8_t whole[32] = {0};
    __builtin_memcpy(whole, code, LONGEST);
    decoded_t d = decode(whole);
    if ((d.what & MODRM) == 0) return true;
    uint8_t op = whole[d.at - 1], before = d.at > 1 ? whole[d.at - 2] : 0;
    if (d.opcode == 0) return !(d.map1 && two_bytes_read(op));
    if (d.at - d.opcode == 0) return !one_byte_reads(op, whole[d.at] >> 3 & 7);
    return before != 0x0f || !two_bytes_read(op);
}

uintptr_t na_scout_operand(const uint8_t *code, uint32_t count, uint64_t ip,
                           const uint64_t registers[16], uint64_t *next) {
    uint8_t whole[32] = {0}; /* longer than any that can be asked for below */
    uint8_t *first = whole + 1;
    __builtin_memcpy(first, code, count < LONGEST ? count : LONGEST);
    decoded_t d = decode(first);
    *next = 0;
    if (d.opcode != 0 && (d.what & MODRM) == 0) *next = behind(first, d.opcode - 1, d.wide16, ip);
    if ((d.what & MODRM) == 0) return 0;
    uint32_t at = d.at;
    uint8_t modrm = first[at++], mod = modrm >> 6, rm = modrm & 7, reg = modrm >> 3 & 7;
    uint64_t address = 0;
    bool relative = false, no_base = false;
    if (mod == 3) {
        /* registers only */
    } else if (rm == 4) {
        uint8_t sib = first[at++], index = (uint8_t)((sib >> 3 & 7) | (d.rex & 2) << 2);
        if (index != 4) address = registers[index] << (sib >> 6);
        no_base = (sib & 7) == 5 && mod == 0;
        if (!no_base) address += registers[(sib & 7) | (d.rex & 1) << 3];
    } else if (rm == 5 && mod == 0) {
        relative = true;
    } else {
        address = registers[rm | (d.rex & 1) << 3];
    }
    uint32_t bytes = mod == 1 ? 1 : mod == 2 || relative || no_base ? 4 : 0;
    if (bytes != 0) address += (uint64_t)signed_at(first + at, bytes);
    at += bytes;
    bool immediate = (d.what & IMM_T) == 0 || reg < 2;
    if (immediate && (d.what & IMM8) != 0) at += 1;
    if (immediate && (d.what & IMM32) != 0) at += d.wide16 ? 2 : 4;
    if (at > count || at > LONGEST) return 0;
    /* (ff: calls and jumps lead elsewhere) */
    if ((d.what & CALLS) == 0 || reg < 2) *next = ip + at;
    if (mod == 3 || d.far_segment || (d.what & NONE) != 0) return 0;
    return relative ? address + ip + at : address;
}

/* ---- samples ---- */

/* By the kernel, which refuses where there is nothing: code may be taken away meanwhile. */
static const struct code *scouted_code(uint64_t ip) {
    struct code *c = &scout_state.code[ip * UINT64_C(0x9e3779b97f4a7c15) >> 56];
    _Static_assert(CODES == 256, "the upper 8 bits");
    if (c->ip == ip) return c;
    uint32_t in_page = (uint32_t)(4096 - ip % 4096); /* the next one may not be there */
    struct iovec to = {c->bytes, LONGEST}, from[2] = {{(void *)ip, LONGEST}, {NULL, 0}};
    if (in_page < LONGEST) {
        from[0].iov_len = in_page;
        from[1] = (struct iovec){(void *)(ip + in_page), LONGEST - in_page};
    }
    c->ip = 0;
    long pid = na_sys0(SYS_getpid);
    long got = na_sys6(SYS_process_vm_readv, pid, (long)&to, 1, (long)from,
                       from[1].iov_base != NULL ? 2 : 1, 0);
    if (got == -1 || got == -38) scout_state.refused = true; /* EPERM, ENOSYS: by a sandbox */
    if (got <= 0) return NULL;
    c->ip = ip;
    c->count = (uint32_t)got;
    return c;
}

/* Who reads a counter may write it next. (With the registers as they are now: often enough.) */
static bool is_written_next(uintptr_t line, uint64_t ip, const uint64_t registers[16]) {
    for (uint32_t step = 0; step < STEPS && ip != 0; step++) {
        const struct code *code = scouted_code(ip);
        if (code == NULL) return false;
        bool writes = na_scout_may_write(code->bytes);
        uintptr_t at = na_scout_operand(code->bytes, code->count, ip, registers, &ip);
        if (writes && at / 64 == line) return true;
    }
    return false;
}

na_scout_word_t na_scout_take(uint64_t ip, uint32_t tid, const uint64_t *words, uint32_t count) {
    /* In the order of instructions: ax, cx, dx, bx, sp, bp, si, di, r8 to r15. */
    static const uint8_t from[16] = {0, 2, 3, 1, 7, 6, 4, 5, 9, 10, 11, 12, 13, 14, 15, 16};
    na_scout_word_t to = {0};
    if (scout_state.refused || count < 1 + REGISTERS || words[0] != 2)
        return to; /* PERF_SAMPLE_REGS_ABI_64 */
    uint64_t registers[16];
    for (uint32_t i = 0; i < 16; i++)
        registers[i] = words[1 + from[i]];
    /* Half of the samples are of the next operand, or the one behind it. A clock that finds a loop
     * at one place always (behind what waits; an emulator's at the beginning) would show one alone.
     */
    static const uint8_t ahead[4] = {0, 1, 0, 2};
    uint32_t skip = ahead[scout_state.samples++ % 4];
    uintptr_t address = 0;
    const struct code *code = NULL;
    uint64_t next = 0;
    for (uint32_t step = 0; step < STEPS && ip != 0; step++) {
        const struct code *here = scouted_code(ip);
        if (here == NULL) break;
        uintptr_t operand = na_scout_operand(here->bytes, here->count, ip, registers, &ip);
        if (operand == 0) continue;
        address = operand;
        code = here;
        next = ip;
        if (skip-- == 0) break;
    }
    if (address < 4096 || address >> 47 != 0) return to;
    to.address = address & ~(uintptr_t)7;
    uintptr_t line = address / 64;
    uint32_t word = 1u << address / 8 % 8;
    struct line *l = &scout_state.line[line * UINT64_C(0x9e3779b97f4a7c15) >> 55];
    _Static_assert(LINES == 512, "the upper 9 bits");
    if (l->line != line) {
        *l = (struct line){.line = line, .tid = tid, .words = word};
        return to;
    }
    to.again = (l->words & word) != 0;
    l->words |= word;
    if (l->tid != tid) l->shared = true;
    l->tid = tid;
    if (l->shared && !l->written && l->judged < JUDGED) {
        l->judged++;
        l->written = na_scout_may_write(code->bytes) || is_written_next(line, next, registers);
    }
    to.shared = l->shared;
    to.written = l->written;
    to.words = l->words;
    return to;
}
