/* access_nodes.c - what /sys says of a node: CPUs, memory, distances. */
#include "alloc/core/machine/topology.h"
#include "profiler/record/access/access_priv.h"

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static uint64_t list_number(const char **p) {
    uint64_t v = 0;
    for (; is_digit(**p); ++*p)
        v = v * 10 + (uint64_t)(**p - '0');
    return v;
}

/* Elements of a list like 0-3,8; calls `each` (may be NULL) with every one. */
static uint32_t count_list(const char *p, void (*each)(void *arg, uint32_t index, unsigned id),
                           void *arg) {
    uint32_t count = 0;
    while (is_digit(*p)) {
        uint64_t first = list_number(&p), last = first;
        if (*p == '-') {
            p++;
            last = list_number(&p);
        }
        for (uint64_t i = first; i <= last && i - first < NA_MAX_CPUS; i++, count++)
            if (each != NULL) each(arg, count, (unsigned)i);
        if (*p == ',') p++;
    }
    return count;
}

typedef struct row {
    na_nprof_access_node_t *facts;
    uint8_t distance[1024]; /* by place in the list of nodes that are online */
    uint32_t count;
} row_t;

static void keep_node(void *arg, uint32_t index, unsigned id) {
    const row_t *row = arg;
    int dense = na_node_dense(id);
    if (dense >= 0 && dense < 64 && index < row->count)
        row->facts->distance[dense] = row->distance[index];
}

void na_node_facts(unsigned node, na_nprof_access_node_t *facts) {
    static char text[NA_CPULIST_BYTES];
    char path[256];
    facts->kernel_id = na_node_system_id(node);
    na_topology_path(path, sizeof path, node, "/cpulist");
    if (na_os_read_file(path, text, sizeof text) > 0) facts->cpus = count_list(text, NULL, NULL);
    na_topology_path(path, sizeof path, node, "/meminfo");
    if (na_os_read_file(path, text, sizeof text) > 0) {
        /* Node 0 MemTotal:       16384000 kB */
        for (const char *p = text; *p != 0; p++) {
            static const char key[] = "MemTotal:";
            size_t i = 0;
            while (key[i] != 0 && p[i] == key[i])
                i++;
            if (key[i] != 0) continue;
            for (p += i; *p == ' '; p++) {
            }
            facts->memory_bytes = list_number(&p) << 10;
            break;
        }
    }
    row_t row = {.facts = facts};
    na_topology_path(path, sizeof path, node, "/distance");
    if (na_os_read_file(path, text, sizeof text) > 0) {
        for (const char *p = text; is_digit(*p) && row.count < sizeof row.distance;) {
            row.distance[row.count++] = (uint8_t)list_number(&p);
            while (*p == ' ')
                p++;
        }
        if (na_os_read_file("/sys/devices/system/node/online", text, sizeof text) > 0)
            count_list(text, keep_node, &row);
    }
}
