/* matrix_plugin.c - a plugin for QEMU's TCG: counts every access that a machine's programs make, by
 * virtual CPU, virtual page and the node whose memory it is. Nothing of ours in the guest knows of
 * it, so that what is sampled there can be held against it.
 *
 *     -plugin matrix_plugin.so,nodes=384:384:384:384,least=1000,out=FILE
 *
 * nodes: MiB of each node, which lie one after the other from physical address 0 on (all below the
 * gap of the PC's first 4 GiB). What QEMU gives plugins as a physical address is the place in the
 * emulator's memory and that in the machine, added up: what lies before counts twice. The reader of
 * the file should know of a page or two where they lie. least: pages with fewer accesses from a CPU
 * are left out. When the machine ends, the file has lines of
 *
 *     page VIRTUAL-ADDRESS CPU NODE LOADS STORES
 *
 * Accesses of the kernel are those above the middle of all addresses, and left out. An access is
 * one of the emulator's: of up to 8 bytes. GPL, version 2 or later, as QEMU is. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qemu-plugin.h>

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

enum { CPUS = 64, NODES = 64, SLOTS = 1 << 18 };

/* A table for each CPU, which alone writes it. Full: what finds no place is counted as left out. */
typedef struct Slot {
    uint64_t page; /* virtual address >> 12, plus one; 0: free */
    int node;
    uint64_t loads, stores;
} Slot;

static Slot *table[CPUS];
static uint64_t left_out[CPUS];
static uint64_t node_begin[NODES], node_end[NODES];
static int nodes;
static uint64_t least = 1000;
static const char *out = "matrix.log";

static int node_of(uint64_t physical) {
    for (int i = 0; i < nodes; i++) {
        if (physical >= node_begin[i] && physical < node_end[i]) {
            return i;
        }
    }
    return -1;
}

static Slot *slot_of(unsigned cpu, uint64_t page, int node) {
    uint64_t at = (page * UINT64_C(0x9e3779b97f4a7c15)) >> 46;

    for (unsigned i = 0; i < 64; i++) {
        Slot *slot = &table[cpu][(at + i) % SLOTS];

        if (slot->page == 0) {
            slot->page = page + 1;
            slot->node = node;
        }
        if (slot->page == page + 1 && slot->node == node) {
            return slot;
        }
    }
    return NULL;
}

static void on_access(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *unused) {
    struct qemu_plugin_hwaddr *where;
    Slot *slot;

    if (address >> 63 || cpu >= CPUS) {
        return;
    }
    where = qemu_plugin_get_hwaddr(info, address);
    if (!where || qemu_plugin_hwaddr_is_io(where)) {
        return;
    }
    slot = slot_of(cpu, address >> 12, node_of(qemu_plugin_hwaddr_phys_addr(where)));
    if (!slot) {
        left_out[cpu]++;
        return;
    }
    if (qemu_plugin_mem_is_store(info)) {
        slot->stores++;
    } else {
        slot->loads++;
    }
}

static void on_block(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    size_t count = qemu_plugin_tb_n_insns(block);

    for (size_t i = 0; i < count; i++) {
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, i), on_access,
                                         QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
    }
}

static void on_cpu(qemu_plugin_id_t id, unsigned cpu) {
    if (cpu < CPUS && !table[cpu]) {
        table[cpu] = calloc(SLOTS, sizeof(Slot));
        if (!table[cpu]) {
            abort();
        }
    }
}

static void on_end(qemu_plugin_id_t id, void *unused) {
    FILE *file = fopen(out, "w");

    if (!file) {
        perror(out);
        return;
    }
    for (unsigned cpu = 0; cpu < CPUS; cpu++) {
        for (size_t i = 0; table[cpu] && i < SLOTS; i++) {
            const Slot *slot = &table[cpu][i];

            if (slot->loads + slot->stores >= least) {
                fprintf(file, "page %" PRIx64 " %u %d %" PRIu64 " %" PRIu64 "\n",
                        (slot->page - 1) << 12, cpu, slot->node, slot->loads, slot->stores);
            }
        }
        if (left_out[cpu]) {
            fprintf(file, "left out %u %" PRIu64 "\n", cpu, left_out[cpu]);
        }
    }
    fclose(file);
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                           char **argv) {
    uint64_t before = 0;

    for (int i = 0; i < argc; i++) {
        if (!strncmp(argv[i], "nodes=", 6)) {
            char *at = argv[i] + 6;

            while (nodes < NODES && *at) {
                uint64_t size = strtoull(at, &at, 10) << 20;

                node_begin[nodes] = 2 * before;
                node_end[nodes++] = 2 * before + size;
                before += size;
                at += *at == ':';
            }
        } else if (!strncmp(argv[i], "least=", 6)) {
            least = strtoull(argv[i] + 6, NULL, 10);
        } else if (!strncmp(argv[i], "out=", 4)) {
            out = strdup(argv[i] + 4);
        } else {
            fprintf(stderr, "matrix_plugin: there is no setting %s\n", argv[i]);
            return -1;
        }
    }
    qemu_plugin_register_vcpu_init_cb(id, on_cpu);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
    qemu_plugin_register_atexit_cb(id, on_end, NULL);
    return 0;
}
