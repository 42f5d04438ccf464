/* plugin.c - instructions, as QEMU translates and runs them. Arguments of the plugin:
 *
 *     cpus=N,nodes=N,place=pack|spread,seed=N,quantum=CYCLES,l2=KIB,l3=KIB,out=FILE,NAME=CYCLES
 *
 * NAME is one of the costs in model.h. */
#include "bench/cores/hooks.h"
#include "bench/cores/model.h"

#include <stdlib.h>
#include <string.h>

#include <qemu-plugin.h>

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

struct machine machine = {.cpus = 64, .nodes = 8, .quantum = 200, .out = "cores.json"};

/* A stretch of code that runs to its end once begun. */
struct block {
    uint64_t units, instructions, locked;
    uint64_t pc, runs, spent; /* while counted: how often, and until the next block began */
    struct block *next;
};
static struct block *blocks;
struct place {
    uint64_t pc;
    bool locked;
};

static void run_block(unsigned index, void *data) {
    struct block *block = data;
    struct thread *thread = &machine.thread[index];
    uint64_t busy = thread->clock - thread->waited;
    if (thread->counted && thread->block != NULL) {
        thread->block->runs++;
        thread->block->spent += busy - thread->block_began;
    }
    thread->block = block;
    thread->block_began = busy;
    thread->counts->instructions += block->instructions;
    thread->counts->locked += block->locked;
    thread->clock += block->units;
    if (block->locked != 0 && thread->stores > thread->clock) thread->clock = thread->stores;
    if (thread->clock > machine.limit) turns_pass(thread);
}

static void run_access(unsigned index, qemu_plugin_meminfo_t info, uint64_t address, void *data) {
    const struct place *place = data;
    lines_access(&machine.thread[index], address, 1U << qemu_plugin_mem_size_shift(info),
                 qemu_plugin_mem_is_store(info), place->locked, place->pc);
}

enum kind { PLAIN, LOCKED, PAUSE };

/* What matters of an instruction: a lock prefix, xchg with memory, PAUSE. */
static enum kind kind_of(const uint8_t *code, size_t size) {
    bool rep = false;
    for (size_t i = 0; i < size; i++) {
        switch (code[i]) {
        case 0xf0:
            return LOCKED;
        case 0xf3:
            rep = true;
            continue;
        case 0x66:
        case 0xf2:
        case 0x64:
        case 0x65:
        case 0x2e:
        case 0x3e:
            continue;
        default:
            break;
        }
        if ((code[i] & 0xf0) == 0x40) continue; /* REX */
        if (code[i] == 0x90) return rep ? PAUSE : PLAIN;
        return (code[i] == 0x86 || code[i] == 0x87) && i + 1 < size && code[i + 1] < 0xc0 ? LOCKED
                                                                                          : PLAIN;
    }
    return PLAIN;
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    (void)id;
    size_t count = qemu_plugin_tb_n_insns(tb);
    struct block *block = calloc(1, sizeof *block);
    struct place *places = calloc(count, sizeof *places);
    block->pc = qemu_plugin_tb_vaddr(tb);
    block->next = blocks;
    blocks = block;
    block->instructions = count;
    block->units = count * (uint64_t)cost.instruction;
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        enum kind kind = kind_of(qemu_plugin_insn_data(insn), qemu_plugin_insn_size(insn));
        places[i] = (struct place){qemu_plugin_insn_vaddr(insn), kind == LOCKED};
        block->locked += kind == LOCKED;
        if (kind == LOCKED) block->units += (uint64_t)cost.locked * CYCLE;
        if (kind == PAUSE) block->units += (uint64_t)cost.pause * CYCLE;
        qemu_plugin_register_vcpu_mem_cb(insn, run_access, QEMU_PLUGIN_CB_NO_REGS,
                                         QEMU_PLUGIN_MEM_RW, &places[i]);
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, run_block, QEMU_PLUGIN_CB_NO_REGS, block);
}

/* What each block took, in no order: a reader adds them up by function. */
void plugin_report(FILE *out) {
    bool first = true;
    fprintf(out, "\"blocks\":[");
    for (const struct block *block = blocks; block != NULL; block = block->next) {
        if (block->runs == 0) continue;
        fprintf(out, "%s[%lu,%lu,%lu]", first ? "" : ",", block->pc, block->runs,
                block->spent / CYCLE);
        first = false;
    }
    fprintf(out, "]");
}

static void created(int index, int by) {
    report_new(turns_new(index, by), machine.thread[by].counted);
}
static void begun(int index) {
    turns_begin(&machine.thread[index]);
}
static void ended(int index, uint64_t cleared) {
    struct thread *thread = &machine.thread[index];
    if (cleared != 0) turns_wake(thread, cleared, UINT32_MAX, INT32_MAX);
    if (!machine.marked || thread->counted) report_end(thread, 0);
    turns_end(thread);
}
static int tid(int index) {
    return 1000 + index;
}
static uint64_t clock_of(int index) {
    return machine.thread[index].clock / CYCLE;
}

static const struct cores_hooks hooks = {calls_before, calls_after, created, begun,
                                         ended,        tid,         clock_of};

static bool take_option(const char *name, const char *value) {
    static size_t l2 = 2048, l3 = 32768;
    if (strcmp(name, "start") == 0) {
        lines_init(l2, l3);
        return true;
    }
    int64_t number = strtoll(value, NULL, 10);
    if (strcmp(name, "cpus") == 0)
        machine.cpus = (int)number;
    else if (strcmp(name, "nodes") == 0)
        machine.nodes = (int)number;
    else if (strcmp(name, "place") == 0)
        machine.spread = strcmp(value, "spread") == 0;
    else if (strcmp(name, "seed") == 0)
        machine.seed = (uint64_t)number;
    else if (strcmp(name, "quantum") == 0)
        machine.quantum = (int)number;
    else if (strcmp(name, "l2") == 0)
        l2 = (size_t)number;
    else if (strcmp(name, "l3") == 0)
        l3 = (size_t)number;
    else if (strcmp(name, "out") == 0)
        machine.out = strdup(value);
#define OPTION(field, unused, what) else if (strcmp(name, #field) == 0) cost.field = number;
    CORES_COSTS(OPTION)
#undef OPTION
    else return false;
    return true;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                           char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (equals != NULL) *equals = '\0';
        if (equals == NULL || !take_option(argv[i], equals + 1)) {
            fprintf(stderr, "cores: unknown option '%s'\n", argv[i]);
            return 1;
        }
    }
    if (machine.cpus < 1 || machine.cpus > CPUS_MAX || machine.nodes < 1 ||
        machine.nodes > NODES_MAX || machine.cpus % machine.nodes != 0 || machine.quantum < 1) {
        fprintf(stderr, "cores: 1 to %d processors on 1 to %d nodes, as many on each\n", CPUS_MAX,
                NODES_MAX);
        return 1;
    }
    take_option("start", "");
    machine.base = qemu_plugin_cores_hooks(&hooks);
    turns_new(0, -1);
    machine.limit = NEVER;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    return 0;
}
