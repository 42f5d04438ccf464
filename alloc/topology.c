/* topology.c - reads the nodes, cpus and distances of the machine; see topology.h. */
#include "alloc/topology.h"

#include <stddef.h>

#include "alloc/base.h"
#include "alloc/os.h"

#define SYSTEM_NODES     1024u /* the largest MAX_NUMNODES a kernel can be built with */
#define SET_WORDS(bits)  (((bits) + 63u) / 64u)
#define DISTANCE_UNKNOWN 20u /* what firmware without a table stands for: remote */
#define DISTANCE_SELF    10u
#define TEXT_SIZE        32768u /* a cpulist with every other of NA_MAX_CPUS cpus fits */

_Static_assert(NA_MAX_NODES <= 256, "dense nodes are kept in bytes");

unsigned na_node_count = 1;

/* The results. Zeros are right for a machine with one node. */
static uint8_t cpu_node[NA_MAX_CPUS];
static uint16_t system_id[NA_MAX_NODES];
static bool has_cpus[NA_MAX_NODES] = {true};
static uint8_t nearest[NA_MAX_NODES][NA_MAX_NODES];

/* Needed while reading only, on machines with several nodes: untouched, and so without cost, on
 * others. Static because the first allocation may run on a small stack. */
typedef uint64_t node_set_t[SET_WORDS(SYSTEM_NODES)];
static char text[TEXT_SIZE];
static uint16_t dense_distance[NA_MAX_NODES][NA_MAX_NODES];
static uint16_t row[SYSTEM_NODES]; /* distances from one node, by the system's number */
static uint64_t cpu_set[SET_WORDS(NA_MAX_CPUS)];

static bool has(const uint64_t *set, unsigned bit) {
    return (set[bit / 64] >> (bit % 64) & 1) != 0;
}

/* --- texts of the kernel --- */

/* root + middle + number + tail (number < 0: left out), cut at the size, which no real root meets.
 */
static void make_path(char *path, size_t size, const char *root, const char *middle, int number,
                      const char *tail) {
    char digits[12];
    size_t n = sizeof digits - 1;
    digits[n] = 0;
    if (number >= 0) do {
            digits[--n] = (char)('0' + number % 10);
            number /= 10;
        } while (number > 0);
    const char *const parts[] = {root, middle, digits + n, tail};
    size_t length = 0;
    for (unsigned i = 0; i < 4; i++)
        for (const char *c = parts[i]; *c != 0 && length + 1 < size; c++)
            path[length++] = *c;
    path[length] = 0;
}

/* Reads root/middle[number]tail into `text`; false when it is not there. */
static bool read_text(const char *root, const char *middle, int number, const char *tail) {
    char path[512];
    make_path(path, sizeof path, root, middle, number, tail);
    return na_os_read_file(path, text, sizeof text) >= 0;
}

/* The number at *s, moving past it, at most `most`; -1: none. */
static int parse_number(const char **s, int most) {
    if (**s < '0' || **s > '9') return -1;
    int value = 0;
    for (; **s >= '0' && **s <= '9'; (*s)++)
        value = value > most / 10 ? most : value * 10 + (**s - '0');
    return value < most ? value : most;
}

static void skip_blanks(const char **s) {
    while (**s == ' ' || **s == '\t' || **s == '\n')
        (*s)++;
}

/* Clears the set and adds a list such as "0-3,8,10-11"; numbers from `bits` on are left out. */
static void parse_list(const char *s, uint64_t *set, unsigned bits) {
    for (unsigned i = 0; i < SET_WORDS(bits); i++)
        set[i] = 0;
    skip_blanks(&s);
    for (;;) {
        int first = parse_number(&s, (int)bits);
        if (first < 0) return;
        int last = first;
        if (*s == '-') {
            s++;
            last = parse_number(&s, (int)bits - 1);
        }
        for (int i = first; i <= last && i < (int)bits; i++)
            set[i / 64] |= 1ull << (i % 64);
        if (*s++ != ',') return;
    }
}

/* Right after the first `word` at the beginning of a word, NULL: not there. */
static const char *find_word(const char *s, const char *word) {
    for (const char *at = s; *at != 0; at++) {
        if (at != s && at[-1] != '\n' && at[-1] != ' ') continue;
        size_t n = 0;
        while (word[n] != 0 && at[n] == word[n])
            n++;
        if (word[n] == 0) return at + n;
    }
    return NULL;
}

/* --- sysfs --- */

#define NODE_DIR "/devices/system/node/"

/* Nodes with memory: the kernel's list, which old kernels lack, else each node's meminfo. A node
 * whose meminfo is missing counts as having some. */
static void read_memory_nodes(const char *sysfs, const node_set_t online, node_set_t memory) {
    if (read_text(sysfs, NODE_DIR "has_memory", -1, "")) {
        parse_list(text, memory, SYSTEM_NODES);
        for (unsigned i = 0; i < SET_WORDS(SYSTEM_NODES); i++)
            memory[i] &= online[i];
        return;
    }
    for (unsigned i = 0; i < SET_WORDS(SYSTEM_NODES); i++)
        memory[i] = online[i];
    for (unsigned id = 0; id < SYSTEM_NODES; id++) {
        if (!has(online, id) || !read_text(sysfs, NODE_DIR "node", (int)id, "/meminfo")) continue;
        const char *total = find_word(text, "MemTotal:");
        if (total == NULL) continue;
        skip_blanks(&total);
        if (parse_number(&total, 1) == 0) memory[id / 64] &= ~(1ull << (id % 64));
    }
}

/* Nodes the process may allocate from (cpusets); without /proc all are allowed. */
static void keep_allowed(const char *proc, node_set_t set) {
    static node_set_t allowed;
    if (!read_text(proc, "/self/status", -1, "")) return;
    const char *list = find_word(text, "Mems_allowed_list:");
    if (list == NULL) return;
    parse_list(list, allowed, SYSTEM_NODES);
    for (unsigned i = 0; i < SET_WORDS(SYSTEM_NODES); i++)
        set[i] &= allowed[i];
}

/* Fills `row` with the distances from a node. The file has a column for each node that is online,
 * in order, and nothing for the gaps between. */
static void read_distances(const char *sysfs, unsigned id, const node_set_t online) {
    const char *s = read_text(sysfs, NODE_DIR "node", (int)id, "/distance") ? text : "";
    for (unsigned other = 0; other < SYSTEM_NODES; other++) {
        if (!has(online, other)) continue;
        skip_blanks(&s);
        int distance = parse_number(&s, UINT16_MAX);
        row[other] = distance >= 0 ? (uint16_t)distance
                     : other == id ? DISTANCE_SELF
                                   : DISTANCE_UNKNOWN;
    }
}

/* --- the dense tables --- */

static void reset(unsigned only_node) {
    if (na_node_count > 1) /* only then is there anything but zeros: spares two page faults */
        for (unsigned i = 0; i < NA_MAX_CPUS; i++)
            cpu_node[i] = 0;
    na_node_count = 1;
    system_id[0] = (uint16_t)only_node;
    has_cpus[0] = true;
    nearest[0][0] = 0;
}

/* Dense node for the cpus of a node that has none itself: the nearest by `row`. With `with_cpus`
 * only among those that have cpus of their own; na_node_count when there is none. */
static unsigned nearest_by_row(const bool *own_cpus, bool with_cpus) {
    unsigned best = na_node_count;
    for (unsigned node = 0; node < na_node_count; node++)
        if ((!with_cpus || own_cpus[node]) &&
            (best == na_node_count || row[system_id[node]] < row[system_id[best]]))
            best = node;
    return best;
}

/* Sorts the nodes by distance from each. Equals go round from the node on, so that the nodes of a
 * machine with one distance do not all spill to the same one. */
static void sort_nearest(void) {
    for (unsigned node = 0; node < na_node_count; node++) {
        uint8_t *order = nearest[node];
        order[0] = (uint8_t)node;
        for (unsigned i = 1; i < na_node_count; i++) {
            unsigned other = (node + i) % na_node_count;
            unsigned at = i;
            for (; at > 1 && dense_distance[node][order[at - 1]] > dense_distance[node][other];
                 at--)
                order[at] = order[at - 1];
            order[at] = (uint8_t)other;
        }
    }
}

/* Gives the cpus of every online node their dense node. */
static void map_cpus(const char *sysfs, const node_set_t online) {
    static bool own_cpus[NA_MAX_NODES];
    unsigned mapped = 0;
    for (unsigned node = 0; node < na_node_count; node++) {
        parse_list(read_text(sysfs, NODE_DIR "node", system_id[node], "/cpulist") ? text : "",
                   cpu_set, NA_MAX_CPUS);
        own_cpus[node] = false;
        for (unsigned cpu = 0; cpu < NA_MAX_CPUS; cpu++) {
            if (!has(cpu_set, cpu)) continue;
            cpu_node[cpu] = (uint8_t)node;
            own_cpus[node] = true;
            mapped++;
        }
        has_cpus[node] = own_cpus[node];
    }
    /* Then the rest: without memory, not allowed, or beyond NA_MAX_NODES. */
    for (unsigned id = 0; id < SYSTEM_NODES; id++) {
        if (!has(online, id) || na_node_dense(id) >= 0 ||
            !read_text(sysfs, NODE_DIR "node", (int)id, "/cpulist"))
            continue;
        parse_list(text, cpu_set, NA_MAX_CPUS);
        unsigned home = na_node_count;
        for (unsigned cpu = 0; cpu < NA_MAX_CPUS; cpu++) {
            if (!has(cpu_set, cpu)) continue;
            if (home == na_node_count) {
                /* Memory without cpus is slow memory (CXL) or scarce (HBM): only when no other is
                 * left does it become the home of a cpu, and then it counts as having that cpu. */
                read_distances(sysfs, id, online);
                home = nearest_by_row(own_cpus, true);
                if (home == na_node_count) home = nearest_by_row(own_cpus, false);
                has_cpus[home] = true;
            }
            cpu_node[cpu] = (uint8_t)home;
            mapped++;
        }
    }
    if (mapped == 0) /* no cpulist could be read: every cpu counts as node 0's */
        has_cpus[0] = true;
}

static unsigned count(const node_set_t set, unsigned *first) {
    unsigned n = 0;
    for (unsigned id = 0; id < SYSTEM_NODES; id++)
        if (has(set, id) && n++ == 0) *first = id;
    return n;
}

void na_topology_init(const char *sysfs_root, const char *proc_root) {
    static node_set_t online;
    static node_set_t usable;
    const char *sysfs = sysfs_root != NULL ? sysfs_root : "/sys";
    const char *proc = proc_root != NULL ? proc_root : "/proc";
    unsigned only = 0;

    reset(0);
    if (!read_text(sysfs, NODE_DIR "online", -1, "")) return;
    parse_list(text, online, SYSTEM_NODES);
    if (count(online, &only) <= 1) {
        reset(only);
        return;
    }
    read_memory_nodes(sysfs, online, usable);
    keep_allowed(proc, usable);
    unsigned nodes = count(usable, &only);
    if (nodes <= 1) { /* none: contradictory texts, so trust none of them */
        reset(nodes == 1 ? only : 0);
        return;
    }

    na_node_count = 0;
    for (unsigned id = 0; id < SYSTEM_NODES && na_node_count < NA_MAX_NODES; id++)
        if (has(usable, id)) system_id[na_node_count++] = (uint16_t)id;
    for (unsigned node = 0; node < na_node_count; node++) {
        read_distances(sysfs, system_id[node], online);
        for (unsigned other = 0; other < na_node_count; other++)
            dense_distance[node][other] = row[system_id[other]];
    }
    sort_nearest();
    map_cpus(sysfs, online);
}

/* --- questions --- */

unsigned na_node_of_cpu(unsigned cpu) {
    return cpu < NA_MAX_CPUS ? cpu_node[cpu] : 0;
}

unsigned na_node_system_id(unsigned node) {
    return node < na_node_count ? system_id[node] : UINT32_MAX;
}

int na_node_dense(unsigned id) {
    for (unsigned node = 0; node < na_node_count; node++)
        if (system_id[node] == id) return (int)node;
    return -1;
}

unsigned na_node_nearest(unsigned node, unsigned i) {
    return node < na_node_count && i < na_node_count ? nearest[node][i] : i;
}

bool na_node_has_cpus(unsigned node) {
    return node < na_node_count && has_cpus[node];
}

unsigned na_node_current(void) {
    return na_node_count == 1 ? 0 : na_node_of_cpu(na_os_cpu());
}
