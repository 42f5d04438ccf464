/* topology.c - reads the nodes, cpus and distances of the machine; see topology.h. */
#include "alloc/core/machine/topology.h"

#include <stdatomic.h>
#include <stddef.h>

#include "alloc/core/sys/base.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/tuned.h"

#define SYSTEM_NODES     NA_OS_NODES
#define SET_WORDS(bits)  (((bits) + 63u) / 64u)
#define DISTANCE_UNKNOWN 20u /* what firmware without a table stands for: remote */
#define DISTANCE_SELF    10u

_Static_assert(NA_MAX_NODES <= 250, "dense nodes are kept in bytes");

#define CPU_UNKNOWN 0xffu /* in cpu_node, on machines with several nodes */
#define POLL_MS     NA_IDLE_MS
#define NOT_YET_MAX 60u /* tries until there is a change: a system may refuse for ever */

unsigned na_node_count = 1;
bool na_node_many, na_node_balanced;

/* The results. Zeros are right for a machine with one node. */
NA_SPARSE static _Atomic(uint8_t) cpu_node[NA_MAX_CPUS];
static uint16_t system_id[NA_MAX_NODES]; /* written before na_node_count covers it */
static _Atomic(bool) has_cpus[NA_MAX_NODES] = {true};
static _Atomic(bool) usable_nodes[NA_MAX_NODES] = {true};
NA_SPARSE static _Atomic(uint8_t) nearest[NA_MAX_NODES][NA_MAX_NODES];

/* Polling. */
static const char *sysfs = "/sys";
static const char *proc = "/proc";
static _Atomic(uint64_t) polled_ms;
static _Atomic(bool) cpu_missing; /* somebody has met a cpu that is not in the table */
static _Atomic(uint64_t) back;    /* nodes that are usable again */
static _Atomic(unsigned) not_yet; /* tries to bring their memory back that failed */
_Static_assert(NA_MAX_NODES <= 64, "back has a bit for each");

/* Needed while reading only, on machines with several nodes: untouched, and so without cost, on
 * others. Static because the first allocation may run on a small stack. */
typedef uint64_t node_set_t[SET_WORDS(SYSTEM_NODES)];
static node_set_t online, memory, allowed; /* as they were read last */
NA_SPARSE static uint8_t new_cpu_node[NA_MAX_CPUS];
/* On a machine with one node a few bytes are all that is read; it lies where they cost no page. */
__attribute__((section(".bss.sparse.text"))) static char text[NA_CPULIST_BYTES];
NA_SPARSE static uint16_t dense_distance[NA_MAX_NODES][NA_MAX_NODES];
/* Distances from one node, by the system's number. */
NA_SPARSE static uint16_t distance_row[SYSTEM_NODES];
NA_SPARSE static uint64_t cpu_set[SET_WORDS(NA_MAX_CPUS)];

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
    return na_os_ask_file(path, text, sizeof text) >= 0;
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
static void read_memory_nodes(void) {
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

/* Nodes the calling thread may allocate from (cpusets); without /proc all are allowed. A cpuset
 * that changes reaches one thread after the other, and the kernel refuses a policy for nodes that
 * have not reached the caller yet: so it must be the caller's own list. */
static void read_allowed_nodes(void) {
    const char *list = NULL;
    if (read_text(proc, "/thread-self/status", -1, "") || read_text(proc, "/self/status", -1, ""))
        list = find_word(text, "Mems_allowed_list:");
    if (list != NULL)
        parse_list(list, allowed, SYSTEM_NODES);
    else
        for (unsigned i = 0; i < SET_WORDS(SYSTEM_NODES); i++)
            allowed[i] = UINT64_MAX;
}

/* Fills `distance_row` with the distances from a node. The file has a column for each node that is
 * online, in order, and nothing for the gaps between. */
static void read_distances(unsigned id) {
    const char *s = read_text(sysfs, NODE_DIR "node", (int)id, "/distance") ? text : "";
    for (unsigned other = 0; other < SYSTEM_NODES; other++) {
        if (!has(online, other)) continue;
        skip_blanks(&s);
        int distance = parse_number(&s, UINT16_MAX);
        distance_row[other] = distance >= 0 ? (uint16_t)distance
                              : other == id ? DISTANCE_SELF
                                            : DISTANCE_UNKNOWN;
    }
}

/* --- the dense tables --- */

static void reset(unsigned only_node) {
    if (na_node_many) /* only then is there anything but zeros: spares two page faults */
        for (unsigned i = 0; i < NA_MAX_CPUS; i++)
            cpu_node[i] = 0;
    na_node_many = na_node_balanced = false;
    na_node_count = 1;
    system_id[0] = (uint16_t)only_node;
    has_cpus[0] = true;
    usable_nodes[0] = true;
    nearest[0][0] = 0;
}

/* Dense node for the cpus of a node that has none itself: the nearest by `distance_row`. With
 * `with_cpus` only among those that have cpus of their own; na_node_count when there is none. */
static unsigned nearest_by_row(const bool *own_cpus, bool with_cpus) {
    unsigned best = na_node_count;
    for (unsigned node = 0; node < na_node_count; node++)
        if (usable_nodes[node] && (!with_cpus || own_cpus[node]) &&
            (best == na_node_count ||
             distance_row[system_id[node]] < distance_row[system_id[best]]))
            best = node;
    return best;
}

/* What the order of nodes is sorted by: those that cannot be used now come last. */
static unsigned sort_key(unsigned from, unsigned to) {
    return usable_nodes[to] ? dense_distance[from][to] : UINT16_MAX + 1u;
}

/* Sorts the nodes by distance from each. Equals go round from the node on, so that the nodes of a
 * machine with one distance do not all spill to the same one. */
static void sort_nearest(void) {
    for (unsigned node = 0; node < na_node_count; node++) {
        uint8_t order[NA_MAX_NODES] = {(uint8_t)node};
        for (unsigned i = 1; i < na_node_count; i++) {
            unsigned other = (node + i) % na_node_count;
            unsigned at = i;
            for (; at > 1 && sort_key(node, order[at - 1]) > sort_key(node, other); at--)
                order[at] = order[at - 1];
            order[at] = (uint8_t)other;
        }
        for (unsigned i = 0; i < na_node_count; i++)
            nearest[node][i] = order[i];
    }
}

/* Gives the cpus of every online node their dense node. */
static void map_cpus(void) {
    static bool own_cpus[NA_MAX_NODES];
    unsigned mapped = 0;
    for (unsigned cpu = 0; cpu < NA_MAX_CPUS; cpu++)
        new_cpu_node[cpu] = CPU_UNKNOWN;
    for (unsigned node = 0; node < na_node_count; node++) {
        own_cpus[node] = false;
        if (usable_nodes[node]) {
            parse_list(read_text(sysfs, NODE_DIR "node", system_id[node], "/cpulist") ? text : "",
                       cpu_set, NA_MAX_CPUS);
            for (unsigned cpu = 0; cpu < NA_MAX_CPUS; cpu++) {
                if (!has(cpu_set, cpu)) continue;
                new_cpu_node[cpu] = (uint8_t)node;
                own_cpus[node] = true;
                mapped++;
            }
        }
        has_cpus[node] = own_cpus[node];
    }
    /* Then the rest: without memory, not allowed, or beyond NA_MAX_NODES. */
    for (unsigned id = 0; id < SYSTEM_NODES; id++) {
        int dense = has(online, id) ? na_node_dense(id) : -1;
        if (!has(online, id) || (dense >= 0 && usable_nodes[dense]) ||
            !read_text(sysfs, NODE_DIR "node", (int)id, "/cpulist"))
            continue;
        parse_list(text, cpu_set, NA_MAX_CPUS);
        unsigned home = na_node_count;
        for (unsigned cpu = 0; cpu < NA_MAX_CPUS; cpu++) {
            if (!has(cpu_set, cpu)) continue;
            if (home == na_node_count) {
                /* Memory without cpus is slow memory (CXL) or scarce (HBM): only when no other is
                 * left does it become the home of a cpu, and then it counts as having that cpu. */
                read_distances(id);
                home = nearest_by_row(own_cpus, true);
                if (home == na_node_count) home = nearest_by_row(own_cpus, false);
                has_cpus[home] = true;
            }
            new_cpu_node[cpu] = (uint8_t)home;
            mapped++;
        }
    }
    if (mapped == 0) { /* no cpulist could be read: every cpu counts as node 0's */
        has_cpus[0] = true;
        for (unsigned cpu = 0; cpu < NA_MAX_CPUS; cpu++)
            new_cpu_node[cpu] = 0;
    }
    for (unsigned cpu = 0; cpu < NA_MAX_CPUS; cpu++)
        cpu_node[cpu] = new_cpu_node[cpu];
}

/* By words, since every start-up counts the nodes that are online. */
static unsigned count_set(const node_set_t set, unsigned *first) {
    unsigned n = 0;
    for (unsigned word = SET_WORDS(SYSTEM_NODES); word-- > 0;) {
        if (set[word] == 0) continue;
        *first = word * 64 + (unsigned)__builtin_ctzll(set[word]);
        n += na_bits_in_word(set[word]);
    }
    return n;
}

/* From the three sets to the tables. Nodes that are known keep their places. */
static void build(unsigned known) {
    for (unsigned node = 0; node < known; node++) {
        bool was = usable_nodes[node],
             is = has(memory, system_id[node]) && has(allowed, system_id[node]);
        usable_nodes[node] = is;
        if (!is || was) continue;
        atomic_fetch_or_explicit(&back, 1ull << node, memory_order_relaxed);
        atomic_store_explicit(&not_yet, 0, memory_order_relaxed);
    }
    unsigned nodes = known;
    for (unsigned id = 0; id < SYSTEM_NODES && nodes < NA_MAX_NODES; id++) {
        if (!has(memory, id) || !has(allowed, id)) continue;
        unsigned node = 0;
        while (node < known && system_id[node] != id)
            node++;
        if (node < known) continue;
        system_id[nodes] = (uint16_t)id;
        usable_nodes[nodes++] = true;
    }
    /* After the places that it covers. Whoever comes to a node by its index reads the count by
     * is_known; as a bound of all of them it is read without more ado, being a word that only
     * grows. */
    __atomic_store_n(&na_node_count, nodes, __ATOMIC_RELEASE);
    for (unsigned node = 0; node < na_node_count; node++) {
        read_distances(system_id[node]);
        for (unsigned other = 0; other < na_node_count; other++)
            dense_distance[node][other] = distance_row[system_id[other]];
    }
    sort_nearest();
    map_cpus();
}

void na_topology_init(const char *sysfs_root, const char *proc_root) {
    static node_set_t both, empty;
    unsigned only = 0;
    sysfs = sysfs_root != NULL ? sysfs_root : "/sys";
    proc = proc_root != NULL ? proc_root : "/proc";

    reset(0);
    if (!read_text(sysfs, NODE_DIR "online", -1, "")) return;
    parse_list(text, online, SYSTEM_NODES);
    if (count_set(online, &only) <= 1) {
        reset(only);
        return;
    }
    read_memory_nodes();
    read_allowed_nodes();
    for (unsigned i = 0; i < SET_WORDS(SYSTEM_NODES); i++) {
        both[i] = memory[i] & allowed[i];
        empty[i] = online[i] & ~memory[i];
    }
    unsigned nodes = count_set(both, &only), none = 0;
    /* None: contradictory texts, so trust none of them. One: that is all there will be, unless a
     * node without memory gets some, or the cpuset a node. */
    if (nodes == 0 || (count_set(memory, &none) == 1 && count_set(empty, &none) == 0)) {
        reset(nodes == 1 ? only : 0);
        return;
    }
    na_node_many = true;
    /* 0 to 3, a sum: 1 balances; 2 moves between tiers of memory, and is nothing to us. */
    na_node_balanced = read_text(proc, "/sys/kernel/numa_balancing", -1, "") && (text[0] & 1);
    build(0);
}

void na_topology_ignore(void) {
    reset(0);
}

/* --- changes --- */

static bool same(const node_set_t a, const node_set_t b) {
    for (unsigned i = 0; i < SET_WORDS(SYSTEM_NODES); i++)
        if (a[i] != b[i]) return false;
    return true;
}

static void copy_set(node_set_t to, const node_set_t from) {
    for (unsigned i = 0; i < SET_WORDS(SYSTEM_NODES); i++)
        to[i] = from[i];
}

bool na_topology_poll(uint64_t now) {
    static node_set_t was_online, was_memory, was_allowed;
    static _Atomic(bool) reading;
    if (NA_LIKELY(!na_node_many)) return false;
    uint64_t last = atomic_load_explicit(&polled_ms, memory_order_relaxed);
    if (last != 0 && now - last < POLL_MS) return false;
    if (atomic_exchange_explicit(&reading, true, memory_order_acquire)) return false;
    bool changed = false;
    /* The first look says nothing: start-up was just now. */
    if (last != 0 && read_text(sysfs, NODE_DIR "online", -1, "")) {
        copy_set(was_online, online);
        copy_set(was_memory, memory);
        copy_set(was_allowed, allowed);
        parse_list(text, online, SYSTEM_NODES);
        read_memory_nodes();
        read_allowed_nodes();
        changed = atomic_exchange(&cpu_missing, false) || !same(online, was_online) ||
                  !same(memory, was_memory) || !same(allowed, was_allowed);
        bool any = false;
        for (unsigned i = 0; i < SET_WORDS(SYSTEM_NODES); i++)
            any |= (memory[i] & allowed[i]) != 0;
        if (!any) { /* contradictory texts */
            copy_set(online, was_online);
            copy_set(memory, was_memory);
            copy_set(allowed, was_allowed);
            changed = false;
        }
        if (changed) build(na_node_count);
    }
    atomic_store_explicit(&polled_ms, now, memory_order_relaxed);
    atomic_store_explicit(&reading, false, memory_order_release);
    return changed || (last != 0 && atomic_load_explicit(&back, memory_order_relaxed) != 0);
}

void na_topology_not_yet(unsigned node) {
    if (atomic_fetch_add_explicit(&not_yet, 1, memory_order_relaxed) < NOT_YET_MAX)
        atomic_fetch_or_explicit(&back, 1ull << node, memory_order_relaxed);
}

uint64_t na_topology_take_back(void) {
    return atomic_exchange_explicit(&back, 0, memory_order_relaxed);
}

/* --- questions --- */

/* The index of a node is there, and what is kept by it. */
static bool is_known(unsigned node) {
    return node < __atomic_load_n(&na_node_count, __ATOMIC_ACQUIRE);
}

/* The count that covers the node was stored before it got a cpu: who finds it finds that. */
static unsigned node_of(unsigned cpu) {
    return atomic_load_explicit(&cpu_node[cpu], memory_order_acquire);
}

unsigned na_node_of_cpu(unsigned cpu) {
    if (!na_node_many) return 0;
    if (cpu >= NA_MAX_CPUS) return NA_NODE_ANY;
    unsigned node = node_of(cpu);
    if (NA_LIKELY(node != CPU_UNKNOWN)) return node;
    atomic_store_explicit(&cpu_missing, true, memory_order_relaxed);
    return NA_NODE_ANY;
}

void na_topology_path(char *path, size_t size, unsigned node, const char *tail) {
    make_path(path, size, sysfs, NODE_DIR "node", (int)na_node_system_id(node), tail);
}

unsigned na_node_system_id(unsigned node) {
    return is_known(node) ? system_id[node] : UINT32_MAX;
}

int na_node_dense(unsigned id) {
    for (unsigned node = 0; is_known(node); node++)
        if (system_id[node] == id) return (int)node;
    return -1;
}

unsigned na_node_nearest(unsigned node, unsigned i) {
    return is_known(node) && is_known(i)
               ? atomic_load_explicit(&nearest[node][i], memory_order_relaxed)
               : i;
}

bool na_node_has_cpus(unsigned node) {
    return is_known(node) && atomic_load_explicit(&has_cpus[node], memory_order_relaxed);
}

bool na_node_usable(unsigned node) {
    return is_known(node) && atomic_load_explicit(&usable_nodes[node], memory_order_relaxed);
}

/* A cpu that came after the table was made: the kernel knows its node, if not what to do when that
 * has no memory; the next poll sorts it out. */
static NA_COLD unsigned node_of_new_cpu(void) {
    atomic_store_explicit(&cpu_missing, true, memory_order_relaxed);
    int node = na_node_dense(na_os_cpu_node());
    return node >= 0 && na_node_usable((unsigned)node) ? (unsigned)node : 0;
}

unsigned na_node_current(void) {
    if (!na_node_many) return 0;
    unsigned cpu = na_os_cpu();
    unsigned node = cpu < NA_MAX_CPUS ? node_of(cpu) : CPU_UNKNOWN;
    return NA_LIKELY(node != CPU_UNKNOWN) ? node : node_of_new_cpu();
}
