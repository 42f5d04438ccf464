/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * ibs.c - AMD's instruction-based sampling of ops, for QEMU's TCG: registers, the tagged
 * instruction and the sample made of it. Becomes target/i386/tcg/sysemu/ibs.c; ibs.h says who calls
 * what. ibs-fetch.c has the sampling of fetches.
 *
 * Field names in the comments are those of AMD's manuals (APM volume 2, "Instruction-Based
 * Sampling"; the PPRs of families 17h and 19h).
 */
#include "qemu/osdep.h"
/* (QEMU wants it before all others.) */

#include "cpu.h"
#include "exec/exec-all.h"
#include "exec/helper-proto.h"
#include "hw/boards.h"
#include "hw/i386/apic.h"
#include "hw/i386/x86.h"
#include "qemu/main-loop.h"
#include "sysemu/numa.h"
#include "tcg/helper-tcg.h"

enum {
    MSR_FETCH_CTL = 0xc0011030,
    MSR_FETCH_LINEAR,
    MSR_FETCH_PHYSICAL,
    MSR_OP_CTL,
    MSR_OP_RIP,
    MSR_OP_DATA,
    MSR_OP_DATA2,
    MSR_OP_DATA3,
    MSR_DC_LINEAR,
    MSR_DC_PHYSICAL,
    MSR_CONTROL,
    MSR_BRANCH_TARGET,
    MSR_FETCH_EXT,
    MSR_OP_DATA4,
};

/* IbsOpCtl */
#define CTL_MAX          0xffffull /* the period's bits 19:4 */
#define CTL_L3_MISS_ONLY BIT_ULL(16)
#define CTL_ENABLE       BIT_ULL(17)
#define CTL_VALID        BIT_ULL(18)
#define CTL_COUNT_OPS    BIT_ULL(19)
#define CTL_MAX_EXT      (0x7full << 20) /* the period's bits 26:20 */
#define CTL_COUNT_SHIFT  32
#define CTL_LATENCY_MASK (0xfull << 59) /* a threshold, in 128 cycles, less one */
#define CTL_LATENCY_ON   BIT_ULL(63)

/* IbsOpData */
#define DATA_TAG_TO_RET_SHIFT 16
#define DATA_RETURN           BIT_ULL(34)
#define DATA_TAKEN            BIT_ULL(35)
#define DATA_BRANCH           BIT_ULL(37)
#define DATA_RIP_INVALID      BIT_ULL(38)

/* IbsOpData2: what answered. */
#define DATA2_REMOTE    BIT_ULL(4)
#define DATA2_HIT_OWNED BIT_ULL(5) /* a cache that answered had the line owned, not modified */
#define DATA2_HIGH      6          /* where the source's bits 4:3 are, since Zen 4 */
enum {
    SOURCE_NONE,
    SOURCE_L3 = 1,     /* Zen 4 */
    SOURCE_L3_OLD = 2, /* before: or a cache of the same node */
    SOURCE_NEAR = 2,   /* Zen 4: a cache of another complex of the node */
    SOURCE_DRAM = 3,
    SOURCE_FAR_OLD = 4, /* a cache of another node */
    SOURCE_FAR = 5,     /* the same, Zen 4 */
    SOURCE_PMEM = 6,    /* Zen 4, as the next */
    SOURCE_IO = 7,
    SOURCE_EXTENDED = 8 /* CXL */
};

/* IbsOpData3 */
#define DATA3_LOAD              BIT_ULL(0)
#define DATA3_STORE             BIT_ULL(1)
#define DATA3_TLB1_MISS         BIT_ULL(2)
#define DATA3_TLB2_MISS         BIT_ULL(3)
#define DATA3_DC_MISS           BIT_ULL(7)
#define DATA3_MISALIGNED        BIT_ULL(8)
#define DATA3_UNCACHED          BIT_ULL(14)
#define DATA3_LOCKED            BIT_ULL(15)
#define DATA3_NO_BUFFER         BIT_ULL(16) /* the miss found a buffer that waits for the line */
#define DATA3_LINEAR_VALID      BIT_ULL(17)
#define DATA3_PHYSICAL_VALID    BIT_ULL(18)
#define DATA3_L2_MISS           BIT_ULL(20)
#define DATA3_PREFETCH          BIT_ULL(21)
#define DATA3_WIDTH_SHIFT       22
#define DATA3_OPEN_SHIFT        26
#define DATA3_LATENCY_SHIFT     32
#define DATA3_TLB_LATENCY_SHIFT 48

/* The local APIC's extended registers. */
#define LVT_MASKED   BIT(16)
#define LVT_WRITABLE (0xff | 7 << 8 | LVT_MASKED) /* vector, message type, mask */

/* xorshift64*: each CPU has its own, so that a run with one CPU can be repeated. */
uint32_t ibs_draw(IBSState *ibs, uint32_t below) {
    ibs->random ^= ibs->random >> 12;
    ibs->random ^= ibs->random << 25;
    ibs->random ^= ibs->random >> 27;
    return (uint64_t)(uint32_t)((ibs->random * 0x2545f4914f6cdd1dull) >> 32) * below >> 32;
}

bool ibs_happens(IBSState *ibs, uint32_t percent) {
    return percent != 0 && ibs_draw(ibs, 100) < percent;
}

static bool present(CPUX86State *env) {
    return env->features[FEAT_8000_0001_ECX] & CPUID_EXT3_IBS;
}

uint32_t ibs_caps(CPUX86State *env) {
    return env_archcpu(env)->ibs_config.caps;
}

void ibs_reset(X86CPU *cpu) {
    IBSState *ibs = &cpu->env.ibs;

    CPU(cpu)->tcg_cflags &= ~(CF_IBS_COUNT | CF_IBS_FETCH);
    for (int i = 0; i < IBS_EILVTS; i++) {
        ibs->eilvt[i] = LVT_MASKED;
    }
    ibs->random = ((uint64_t)cpu->apic_id + 1) * 0x9e3779b97f4a7c15ull ^
                  ((uint64_t)cpu->ibs_config.seed << 32);
    ibs->random |= 1; /* never 0 */
    for (int i = 0; i < 8; i++) {
        ibs_draw(ibs, 1);
    }
}

/* ---- Counting ------------------------------------------------------------------------------- */

static uint64_t count_mask(CPUX86State *env) {
    return ibs_caps(env) & IBS_CAP_COUNT_27 ? 0x7ffffff : 0xfffff;
}

/* IbsOpMaxCnt, in ops. */
static uint32_t period(const IBSState *ibs) {
    uint32_t ops = (ibs->op_ctl & CTL_MAX) << 4 | (ibs->op_ctl & CTL_MAX_EXT);

    return ops > 0 && ops < IBS_PERIOD_MIN ? IBS_PERIOD_MIN : ops;
}

static bool counting(const IBSState *ibs) {
    return (ibs->op_ctl & CTL_ENABLE) && !(ibs->op_ctl & CTL_VALID) && period(ibs) > 0;
}

/* The count goes on from what IbsOpCtl has, up to the period. The flag of the blocks to come is
 * changed here alone. */
static void count_from_register(CPUX86State *env) {
    IBSState *ibs = &env->ibs;

    if (counting(ibs)) {
        uint64_t count = ibs->op_ctl >> CTL_COUNT_SHIFT & count_mask(env);

        ibs->left = count < period(ibs) ? period(ibs) - count : 0;
        ibs->interrupting = false;
    }
    if (counting(ibs) || ibs->interrupting) {
        env_cpu(env)->tcg_cflags |= CF_IBS_COUNT;
    } else {
        env_cpu(env)->tcg_cflags &= ~CF_IBS_COUNT;
    }
}

/* Silicon starts anew from a small random number when it counts ops, so that loops whose length
 * divides the period are sampled everywhere. */
static void restart_count(IBSState *ibs) {
    ibs->op_ctl &= MAKE_64BIT_MASK(0, CTL_COUNT_SHIFT);
    if (ibs->op_ctl & CTL_COUNT_OPS) {
        ibs->op_ctl |= (uint64_t)(1 + ibs_draw(ibs, 127)) << CTL_COUNT_SHIFT;
    }
}

/* ---- Model-specific registers --------------------------------------------------------------- */

bool ibs_has_msr(CPUX86State *env, uint32_t msr) {
    return msr >= MSR_FETCH_CTL && msr <= MSR_OP_DATA4 && present(env);
}

/* The registers that are no more than storage, and those alone. */
static uint64_t *storage(CPUX86State *env, uint32_t msr) {
    IBSState *ibs = &env->ibs;
    uint32_t offered = ibs_caps(env);

    switch (msr) {
    case MSR_FETCH_LINEAR:
        return offered & IBS_CAP_FETCH ? &ibs->fetch_linear : NULL;
    case MSR_FETCH_PHYSICAL:
        return offered & IBS_CAP_FETCH ? &ibs->fetch_physical : NULL;
    case MSR_FETCH_EXT:
        return offered & IBS_CAP_FETCH_EXT ? &ibs->fetch_ext : NULL;
    case MSR_BRANCH_TARGET:
        return offered & IBS_CAP_BRANCH_TARGET ? &ibs->branch_target : NULL;
    case MSR_OP_DATA4:
        return offered & IBS_CAP_OP_DATA4 ? &ibs->op_data4 : NULL;
    }
    if (!(offered & IBS_CAP_OP)) {
        return NULL;
    }
    switch (msr) {
    case MSR_OP_RIP:
        return &ibs->op_rip;
    case MSR_OP_DATA:
        return &ibs->op_data;
    case MSR_OP_DATA2:
        return &ibs->op_data2;
    case MSR_OP_DATA3:
        return &ibs->op_data3;
    case MSR_DC_LINEAR:
        return &ibs->dc_linear;
    case MSR_DC_PHYSICAL:
        return &ibs->dc_physical;
    }
    return NULL;
}

bool ibs_rdmsr(CPUX86State *env, uint32_t msr, uint64_t *value) {
    IBSState *ibs = &env->ibs;

    if (msr == MSR_CONTROL) {
        *value = env_archcpu(env)->ibs_config.control;
        return true;
    }
    if (msr == MSR_FETCH_CTL && (ibs_caps(env) & IBS_CAP_FETCH)) {
        *value = ibs_fetch_ctl(env);
        return true;
    }
    if (msr == MSR_OP_CTL && (ibs_caps(env) & IBS_CAP_OP)) {
        *value = ibs->op_ctl;
        if (counting(ibs)) {
            /* (The rest of the block of this rdmsr has been counted already.) */
            *value &= MAKE_64BIT_MASK(0, CTL_COUNT_SHIFT);
            *value |= (uint64_t)(period(ibs) - ibs->left) << CTL_COUNT_SHIFT;
        }
        return true;
    }
    uint64_t *place = storage(env, msr);
    if (!place) {
        return false;
    }
    *value = *place;
    return true;
}

static bool write_op_ctl(CPUX86State *env, uint64_t value) {
    IBSState *ibs = &env->ibs;
    uint32_t offered = ibs_caps(env);
    uint64_t count = count_mask(env) << CTL_COUNT_SHIFT;
    uint64_t defined = CTL_MAX | CTL_ENABLE | CTL_VALID | count;

    defined |= offered & IBS_CAP_COUNT_OPS ? CTL_COUNT_OPS : 0;
    defined |= offered & IBS_CAP_COUNT_27 ? CTL_MAX_EXT : 0;
    defined |= offered & IBS_CAP_ZEN4 ? CTL_L3_MISS_ONLY : 0;
    defined |= offered & IBS_CAP_LATENCY ? CTL_LATENCY_MASK | CTL_LATENCY_ON : 0;
    if (value & ~defined) {
        return false;
    }
    ibs->op_ctl = value;
    if (!(offered & IBS_CAP_COUNT_WRITABLE)) {
        restart_count(ibs);
    }
    count_from_register(env);
    return true;
}

/* The caller's block ends here, so that the next one has the right flags. */
bool ibs_wrmsr(CPUX86State *env, uint32_t msr, uint64_t value) {
    uint64_t *place;

    if (msr == MSR_CONTROL) {
        return false;
    }
    if (msr == MSR_FETCH_CTL && (ibs_caps(env) & IBS_CAP_FETCH)) {
        return ibs_write_fetch_ctl(env, value);
    }
    if (msr == MSR_OP_CTL && (ibs_caps(env) & IBS_CAP_OP)) {
        return write_op_ctl(env, value);
    }
    place = storage(env, msr);
    if (!place) {
        return false;
    }
    *place = value;
    return true;
}

/* ---- The local APIC's extended registers ----------------------------------------------------- */

/* Bit 31: there is an extended register space. */
uint32_t ibs_apic_version(X86CPU *cpu) {
    return present(&cpu->env) ? 1u << 31 : 0;
}

bool ibs_apic_read(X86CPU *cpu, int index, uint32_t *value) {
    if (!present(&cpu->env)) {
        return false;
    }
    switch (index) {
    case IBS_APIC_EFEAT:
        *value = IBS_EILVTS << 16; /* so many local vectors, and nothing else */
        return true;
    case IBS_APIC_ECTRL:
        *value = 0;
        return true;
    case IBS_APIC_EILVT ... IBS_APIC_EILVT + IBS_EILVTS - 1:
        *value = cpu->env.ibs.eilvt[index - IBS_APIC_EILVT];
        return true;
    }
    return false;
}

bool ibs_apic_write(X86CPU *cpu, int index, uint32_t value) {
    if (!present(&cpu->env)) {
        return false;
    }
    switch (index) {
    case IBS_APIC_EFEAT:
    case IBS_APIC_ECTRL:
        return true; /* nothing to enable */
    case IBS_APIC_EILVT ... IBS_APIC_EILVT + IBS_EILVTS - 1:
        cpu->env.ibs.eilvt[index - IBS_APIC_EILVT] = value & LVT_WRITABLE;
        return true;
    }
    return false;
}

void ibs_interrupt(X86CPU *cpu) {
    unsigned offset = cpu->ibs_config.control & 0xf;
    uint32_t lvt = offset < IBS_EILVTS ? cpu->env.ibs.eilvt[offset] : LVT_MASKED;

    if (!(lvt & LVT_MASKED) && cpu->apic_state) {
        qemu_mutex_lock_iothread();
        ibs_apic_deliver(cpu->apic_state, lvt);
        qemu_mutex_unlock_iothread();
    }
}

/* ---- The tagged instruction ------------------------------------------------------------------ */

bool ibs_expired(CPUState *cs, TranslationBlock *tb) {
    CPUX86State *env = cs->env_ptr;
    IBSState *ibs = &env->ibs;
    uint32_t cflags;

    if (ibs_fetch_expired(cs, tb)) {
        return true;
    }
    if (!(tb_cflags(tb) & CF_IBS_COUNT) || ibs->left >= tb->icount) {
        return false;
    }
    cflags = curr_cflags(cs) & ~CF_COUNT_MASK;
    if (ibs->left > 0) {
        cs->cflags_next_tb = cflags | ibs->left;
    } else if (ibs->interrupting) {
        ibs->interrupting = false;
        count_from_register(env);
        ibs_interrupt(env_archcpu(env));
    } else {
        cs->cflags_next_tb = (cflags & ~(CF_IBS_COUNT | CF_IBS_FETCH)) | CF_IBS_TAG |
                             CF_NO_GOTO_TB | CF_NO_GOTO_PTR | 1;
    }
    return true;
}

/* Block `tb`, of one instruction, is about to run. Should it fault, then the op is not retired, and
 * counting starts anew, as silicon does. */
void ibs_tagged(CPUState *cs, uint64_t pc, uint64_t cs_base, TranslationBlock *tb) {
    CPUX86State *env = cs->env_ptr;
    IBSState *ibs = &env->ibs;

    ibs->rip = pc - cs_base;
    ibs->length = MIN(tb->size, sizeof ibs->code);
    ibs->accesses = 0;
    /* Now, since the instruction may change what is mapped. */
    if (cpu_memory_rw_debug(cs, pc, ibs->code, ibs->length, false) < 0) {
        memset(ibs->code, 0, sizeof ibs->code);
    }
    restart_count(ibs);
    count_from_register(env);
}

/* After each access of a tagged instruction that translated code makes: flags 1 read, 2 written. An
 * access that goes on where the one before it ended belongs to it, as does writing what was read.
 */
void helper_ibs_access(CPUX86State *env, target_ulong address, uint32_t oi, uint32_t flags) {
    IBSState *ibs = &env->ibs;
    uint32_t size = memop_size(get_memop(oi));
    bool load = flags & 1, store = flags & 2;
    IBSAccess *access = ibs->accesses ? &ibs->access[ibs->accesses - 1] : NULL;
    CPUTLBEntryFull *full;
    void *host;
    int bits;

    if (access && access->load == load && access->store == store &&
        access->linear + access->size == address) {
        access->size += size;
        return;
    }
    if (access && store && access->linear == address && access->size == size) {
        access->store = true;
        return;
    }
    if (ibs->accesses == IBS_ACCESSES) {
        return;
    }
    access = &ibs->access[ibs->accesses++];
    *access = (IBSAccess){.linear = address, .size = size, .load = load, .store = store};
    /* The translation is still there: the access has just gone by it. */
    bits = probe_access_full(env, address, MMU_DATA_LOAD, get_mmuidx(oi), true, &host, &full, 0);
    if (!(bits & TLB_INVALID_MASK)) {
        access->physical = full->phys_addr | (address & ~TARGET_PAGE_MASK);
        access->known = true;
        access->io = bits & TLB_MMIO;
    }
}

/* The same of a software prefetch, which translated code leaves out, and which never faults. */
void helper_ibs_prefetch(CPUX86State *env, target_ulong address) {
    IBSState *ibs = &env->ibs;
    IBSAccess *access = &ibs->access[0];
    CPUTLBEntryFull *full;
    void *host;
    int bits;

    *access = (IBSAccess){.linear = address, .load = true, .prefetch = true};
    ibs->accesses = 1;
    bits = probe_access_full(env, address, MMU_DATA_LOAD, cpu_mmu_index(env, false), true, &host,
                             &full, 0);
    if (!(bits & TLB_INVALID_MASK)) {
        access->physical = full->phys_addr | (address & ~TARGET_PAGE_MASK);
        access->known = true;
        access->io = bits & TLB_MMIO;
    }
}

/* ---- The sample ------------------------------------------------------------------------------ */

/* What the instruction is, as far as a sample tells it. */
typedef struct Kind {
    bool branch, returns, locked;
} Kind;

static Kind decode(const CPUX86State *env, const IBSState *ibs) {
    const uint8_t *code = ibs->code, *end = ibs->code + ibs->length;
    Kind kind = {0};
    uint8_t op, modrm;

    for (; code < end; code++) {
        op = *code;
        if (op == 0xf0) {
            kind.locked = true;
        } else if (op != 0x66 && op != 0x67 && op != 0xf2 && op != 0xf3 && op != 0x2e &&
                   op != 0x36 && op != 0x3e && op != 0x26 && op != 0x64 && op != 0x65 &&
                   !((op & 0xf0) == 0x40 && (env->hflags & HF_CS64_MASK))) {
            break;
        }
    }
    if (code == end) {
        return kind;
    }
    op = *code++;
    modrm = code < end ? *code : 0;
    if (op == 0x0f) {
        kind.branch = (modrm & 0xf0) == 0x80;
    } else if (op == 0xff) {
        kind.branch = ((modrm >> 3) & 7) >= 2 && ((modrm >> 3) & 7) <= 5;
    } else if (op == 0xc2 || op == 0xc3 || op == 0xca || op == 0xcb || op == 0xcf) {
        kind.branch = kind.returns = true;
    } else {
        kind.branch =
            (op & 0xf0) == 0x70 || (op & 0xfc) == 0xe0 || op == 0x9a || (op >= 0xe8 && op <= 0xeb);
        kind.locked |= (op & 0xfe) == 0x86 && modrm < 0xc0; /* exchange with memory */
    }
    return kind;
}

/* The node whose memory `physical` is: nodes lie one after another, with a gap below 4 GiB, as the
 * firmware's table (SRAT) says. Memory plugged in later counts as the CPU's own. */
int ibs_node_of(uint64_t physical, int own) {
    MachineState *machine = MACHINE(qdev_get_machine());
    X86MachineState *x86 = X86_MACHINE(machine);
    uint64_t offset = physical;

    if (physical >= x86->above_4g_mem_start) {
        offset = physical - x86->above_4g_mem_start + x86->below_4g_mem_size;
    }
    for (int node = 0; machine->numa_state && node < machine->numa_state->num_nodes; node++) {
        if (offset < machine->numa_state->nodes[node].node_mem) {
            return node;
        }
        offset -= machine->numa_state->nodes[node].node_mem;
    }
    return own;
}

static uint32_t distance(int from, int to) {
    NumaState *numa = MACHINE(qdev_get_machine())->numa_state;

    if (numa && numa->have_numa_distance && numa->nodes[from].distance[to]) {
        return numa->nodes[from].distance[to];
    }
    return from == to ? 10 : 20;
}

uint32_t ibs_memory_cycles(IBSState *ibs, int from, int to) {
    uint32_t usual = IBS_MEMORY_CYCLES * distance(from, to) / 10;

    return usual - usual / 4 + ibs_draw(ibs, usual / 2 + 1);
}

int ibs_tlb_misses(X86CPU *cpu, uint32_t *walk) {
    IBSState *ibs = &cpu->env.ibs;

    if (!ibs_happens(ibs, cpu->ibs_config.tlb_misses)) {
        return 0;
    }
    if (!ibs_draw(ibs, 2)) {
        return 1;
    }
    *walk = IBS_WALK_CYCLES + ibs_draw(ibs, IBS_WALK_CYCLES);
    return 2;
}

/* Which bits of IbsOpData3 a width has: 1, 2, 4, 8, 16, 32, 64 bytes are 1 to 7; others 0. */
static uint64_t width(uint32_t size) {
    return is_power_of_2(size) && size <= 64 ? ctz32(size) + 1 : 0;
}

/* Who holds a line of memory: nobody (not in the directory), one CPU that wrote it, or some that
 * have read it. It is told of tagged instructions' accesses alone, so it knows a sample of what
 * happens, as fair as samples are; a line that comes to the place of another has it. */
typedef struct Line {
    uint64_t number;  /* physical address / 64, plus 1; 0: no line */
    uint64_t holders; /* set of CPUs, by index modulo 64 */
    int32_t writer;   /* index of the CPU; -1: has only been read since */
} Line;

static QemuMutex lines_lock;
static Line *lines;

static void __attribute__((constructor)) lines_init(void) {
    qemu_mutex_init(&lines_lock);
}

typedef enum Answer { BY_MEMORY, BY_L1, BY_L3, BY_WRITER } Answer;

/* Who answers this CPU's access; *writer: the CPU, if one that wrote the line does. */
static Answer ask_lines(X86CPU *cpu, const IBSAccess *access, int *writer) {
    uint64_t number = access->physical / 64 + 1, me;
    int self = CPU(cpu)->cpu_index;
    Answer answer = BY_MEMORY;
    Line *line;

    me = 1ull << (self & 63);
    qemu_mutex_lock(&lines_lock);
    if (!lines) {
        lines = g_new0(Line, cpu->ibs_config.lines);
    }
    line = &lines[number & (cpu->ibs_config.lines - 1)];
    if (line->number != number) {
        *line = (Line){.number = number, .writer = -1};
    } else if (line->writer == self || (line->writer < 0 && (line->holders & me))) {
        answer = BY_L1;
    } else if (line->writer >= 0) {
        answer = BY_WRITER;
        *writer = line->writer;
    } else {
        CPUState *other;

        CPU_FOREACH(other) {
            if ((line->holders >> (other->cpu_index & 63) & 1) &&
                X86_CPU(other)->node_id == cpu->node_id) {
                answer = BY_L3;
            }
        }
    }
    if (access->store) {
        line->writer = self;
        line->holders = me;
    } else {
        line->writer = line->writer == self ? self : -1;
        line->holders |= me;
    }
    qemu_mutex_unlock(&lines_lock);
    return answer;
}

/* What answers where no line is held: of IbsOpData2, and the cycles. */
static uint64_t memory_source(X86CPU *cpu, const IBSAccess *access, uint32_t *cycles) {
    int own = MAX(cpu->node_id, 0);
    int home = access->known ? ibs_node_of(access->physical, own) : own;
    uint64_t source = SOURCE_DRAM;

    *cycles = ibs_memory_cycles(&cpu->env.ibs, own, home);
    if ((cpu->ibs_config.caps & IBS_CAP_ZEN4) && (cpu->ibs_config.pmem >> home & 1)) {
        source = SOURCE_PMEM;
    } else if ((cpu->ibs_config.caps & IBS_CAP_ZEN4) && (cpu->ibs_config.cxl >> home & 1)) {
        source = (SOURCE_EXTENDED & 7) | (SOURCE_EXTENDED >> 3) << DATA2_HIGH;
    }
    return source | (home != own ? DATA2_REMOTE : 0);
}

/* The same of a line that CPU `writer` wrote. */
static uint64_t writer_source(X86CPU *cpu, int writer, uint32_t *cycles) {
    bool zen4 = cpu->ibs_config.caps & IBS_CAP_ZEN4;
    int own = MAX(cpu->node_id, 0), node = MAX(X86_CPU(qemu_get_cpu(writer))->node_id, 0);

    if (node == own) {
        *cycles = IBS_CACHE_CYCLES;
        return zen4 ? SOURCE_NEAR : SOURCE_L3_OLD;
    }
    *cycles = IBS_CACHE_CYCLES * (1 + distance(own, node) / 10);
    return (zen4 ? SOURCE_FAR : SOURCE_FAR_OLD) | DATA2_REMOTE;
}

/* Fills IbsOpData2 and 3 and the addresses. Returns the cycles that the access took. */
static uint32_t describe(X86CPU *cpu, const IBSAccess *access, bool locked) {
    IBSState *ibs = &cpu->env.ibs;
    bool zen4 = cpu->ibs_config.caps & IBS_CAP_ZEN4;
    uint64_t data3 = DATA3_LINEAR_VALID;
    uint64_t source = SOURCE_NONE;
    uint32_t cycles = IBS_L1_CYCLES, walk = 0;

    data3 |= access->load ? DATA3_LOAD : 0;
    data3 |= access->store ? DATA3_STORE : 0;
    data3 |= locked ? DATA3_LOCKED : 0;
    data3 |= access->prefetch ? DATA3_PREFETCH : 0;
    data3 |= width(access->size) << DATA3_WIDTH_SHIFT;
    if ((access->linear & 63) + access->size > 64) {
        data3 |= DATA3_MISALIGNED;
    }
    ibs->dc_linear = access->linear;
    if (access->known) {
        data3 |= DATA3_PHYSICAL_VALID;
        ibs->dc_physical = cpu->ibs_config.no_physical ? 0 : access->physical;
    }
    switch (ibs_tlb_misses(cpu, &walk)) {
    case 2:
        data3 |= DATA3_TLB2_MISS;
        /* fall through */
    case 1:
        data3 |= DATA3_TLB1_MISS;
    }
    if (access->io) {
        data3 |= DATA3_UNCACHED | DATA3_DC_MISS;
        source = SOURCE_IO;
        cycles = 4 * IBS_MEMORY_CYCLES;
    } else if (cpu->ibs_config.lines && access->known) {
        int writer = -1;

        switch (ask_lines(cpu, access, &writer)) {
        case BY_L1:
            break;
        case BY_L3:
            data3 |= DATA3_DC_MISS | DATA3_L2_MISS;
            source = zen4 ? SOURCE_L3 : SOURCE_L3_OLD | DATA2_HIT_OWNED;
            cycles = IBS_L3_CYCLES;
            break;
        case BY_WRITER:
            data3 |= DATA3_DC_MISS | DATA3_L2_MISS;
            source = writer_source(cpu, writer, &cycles);
            break;
        case BY_MEMORY:
            data3 |= DATA3_DC_MISS | DATA3_L2_MISS;
            source = memory_source(cpu, access, &cycles);
        }
    } else if (ibs_happens(ibs, cpu->ibs_config.cached)) {
        switch (ibs_draw(ibs, 4)) { /* half of them by the first cache */
        case 2:
            data3 |= DATA3_DC_MISS;
            cycles = IBS_L2_CYCLES;
            break;
        case 3:
            data3 |= DATA3_DC_MISS | DATA3_L2_MISS;
            source = zen4 ? SOURCE_L3 : SOURCE_L3_OLD | DATA2_HIT_OWNED;
            cycles = IBS_L3_CYCLES;
            break;
        }
    } else {
        data3 |= DATA3_DC_MISS | DATA3_L2_MISS;
        source = memory_source(cpu, access, &cycles);
        if (ibs_happens(ibs, cpu->ibs_config.lfb)) {
            data3 |= DATA3_NO_BUFFER;
            source = SOURCE_NONE;
        }
    }
    if (data3 & DATA3_DC_MISS) {
        data3 |= (uint64_t)(1 + ibs_draw(ibs, 8)) << DATA3_OPEN_SHIFT;
    }
    if (access->load) {
        ibs->op_data2 = source;
        if (data3 & DATA3_DC_MISS) {
            data3 |= (uint64_t)MIN(cycles, 0xffff) << DATA3_LATENCY_SHIFT;
        }
        data3 |= (uint64_t)walk << DATA3_TLB_LATENCY_SHIFT;
    } else {
        data3 &= ~DATA3_L2_MISS; /* told of loads only */
    }
    ibs->op_data3 = data3;
    return cycles + walk;
}

void ibs_retired(CPUState *cs) {
    CPUX86State *env = cs->env_ptr;
    X86CPU *cpu = env_archcpu(env);
    IBSState *ibs = &env->ibs;
    uint32_t cycles = 1, to_retire;
    Kind kind = decode(env, ibs);

    if (!counting(ibs)) {
        return; /* the instruction itself ended sampling */
    }
    ibs->op_rip = ibs->rip;
    ibs->op_data = ibs->op_data2 = ibs->op_data3 = ibs->op_data4 = 0;
    ibs->dc_linear = ibs->dc_physical = ibs->branch_target = 0;
    if (ibs->accesses) {
        cycles = describe(cpu, &ibs->access[ibs_draw(ibs, ibs->accesses)], kind.locked);
    }
    if ((ibs->op_ctl & CTL_L3_MISS_ONLY) &&
        !((ibs->op_data2 & 7) == SOURCE_DRAM && (ibs->op_data3 & DATA3_L2_MISS))) {
        return; /* counting goes on, as ibs_tagged() started it */
    }
    if (ibs->op_ctl & CTL_LATENCY_ON) {
        uint32_t least = (1 + ((ibs->op_ctl & CTL_LATENCY_MASK) >> 59)) * 128;

        if ((ibs->op_data3 >> DATA3_LATENCY_SHIFT & 0xffff) < least) {
            return; /* likewise */
        }
    }

    to_retire = ibs_draw(ibs, 16);
    ibs->op_data |= to_retire;
    ibs->op_data |= (uint64_t)MIN(cycles + to_retire + 10, 0xffff) << DATA_TAG_TO_RET_SHIFT;
    if (kind.branch) {
        ibs->op_data |= DATA_BRANCH | (kind.returns ? DATA_RETURN : 0);
        if (env->eip != ibs->rip + ibs->length) {
            ibs->op_data |= DATA_TAKEN;
            ibs->branch_target = env->eip;
        }
    }
    if ((ibs_caps(env) & IBS_CAP_RIP_INVALID) && ibs_happens(ibs, cpu->ibs_config.no_rip)) {
        ibs->op_data |= DATA_RIP_INVALID;
        ibs->op_rip = 0;
    }
    ibs->op_ctl |= CTL_VALID;
    if (cpu->ibs_config.nmi_delay) {
        ibs->interrupting = true;
        ibs->left = cpu->ibs_config.nmi_delay;
    }
    count_from_register(env);
    if (!ibs->interrupting) {
        ibs_interrupt(cpu);
    }
}

/* The tagged block did not start, since an interrupt came first: the next instruction is tagged. */
void ibs_interrupted(CPUState *cs) {
    CPUX86State *env = cs->env_ptr;

    if (counting(&env->ibs)) {
        env->ibs.left = 0;
    }
}
