/* pressure.c - what is known of limits, and what is left of a node. */
#include "alloc/core/machine/pressure.h"

#include "alloc/core/machine/topology.h"
#include "alloc/core/sys/os.h"

na_pressure_t na_pressure;
na_lock_t na_exhausted_lock;
const na_limits_t *na_limits;

/* --- Reading what is left of a node --- */

/* The number of KiB after `word`, in bytes; false: it is not there. */
static bool find_bytes(const char *text, const char *word, uint64_t *bytes) {
    for (; *text != 0; text++) {
        size_t n = 0;
        while (word[n] != 0 && text[n] == word[n])
            n++;
        if (word[n] != 0) continue;
        text += n;
        while (*text == ' ')
            text++;
        if (*text < '0' || *text > '9') return false;
        uint64_t kib = 0;
        for (; *text >= '0' && *text <= '9' && kib < (uint64_t)1 << 50; text++)
            kib = kib * 10 + (uint64_t)(*text - '0');
        *bytes = kib << 10;
        return true;
    }
    return false;
}

/* The kernel turns to the next node when free memory falls to the low watermark. Where that lies
 * depends on vm.min_free_kbytes (at most 5 % of all memory, about 110 MiB where transparent huge
 * pages are on) and vm.watermark_scale_factor (0.1 %, twice). */
static uint64_t reserve(uint64_t total) {
    uint64_t small = total / 100 * 8, large = ((uint64_t)128 << 20) + total / 400;
    return small < large ? small : large;
}

uint64_t na_node_free_parse(const char *meminfo) {
    uint64_t total, free;
    if (!find_bytes(meminfo, "MemTotal:", &total) || !find_bytes(meminfo, "MemFree:", &free))
        return NA_NODE_FREE_UNKNOWN;
    uint64_t kept = reserve(total);
    return free > kept ? free - kept : 0;
}

uint64_t na_node_free(unsigned node) {
    char path[512], text[256]; /* the two lines wanted are the first */
    na_topology_path(path, sizeof path, node, "/meminfo");
    if (na_os_ask_file(path, text, sizeof text) < 0) return NA_NODE_FREE_UNKNOWN;
    return na_node_free_parse(text);
}
