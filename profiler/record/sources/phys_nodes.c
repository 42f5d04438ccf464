/* phys_nodes.c - see phys_nodes.h. */
#include "profiler/record/sources/phys_nodes.h"

#include "alloc/core/machine/topology.h"
#include "profiler/containers/number.h"

#define BLOCKS (1u << 20) /* of 128 MiB and more: all addresses that processors have */

static uint8_t *block_node; /* of each block, plus one; 0: not known */
static unsigned shift;      /* binary logarithm of a block's bytes */

static void take_memory_block(void *node, uint32_t number) {
    if (number < BLOCKS) block_node[number] = (uint8_t)(*(unsigned *)node + 1);
}

/* "8000000\n", a power of two; 0: it is none. */
static uint64_t read_block_size(void) {
    char path[128], text[32];
    na_topology_path(path, sizeof path, 0, "/../../memory/block_size_bytes");
    if (na_os_read_file(path, text, sizeof text) <= 0) return 0;
    const char *end = text;
    uint64_t v = na_number_read(&end, 16);
    if (*end != 0 && *end != '\n') return 0;
    return v != 0 && (v & (v - 1)) == 0 ? v : 0;
}

bool na_phys_nodes_start(void) {
    uint64_t size = read_block_size();
    if (size == 0) return false;
    block_node = na_own_alloc(BLOCKS);
    if (block_node == NULL) return false;
    shift = (unsigned)__builtin_ctzll(size);
    bool any = false;
    for (unsigned node = 0; node < na_node_count && node < UINT8_MAX; node++) {
        char path[128];
        na_topology_path(path, sizeof path, node, "/");
        any |= na_access_each_number(path, "memory", take_memory_block, &node) == 0;
    }
    return any;
}

int16_t na_phys_node(uint64_t physical) {
    uint64_t block = physical >> shift;
    if (block_node == NULL || block >= BLOCKS || block_node[block] == 0) return NA_NPROF_NO_NODE;
    return (int16_t)(block_node[block] - 1);
}
