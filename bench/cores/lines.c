/* lines.c - pages and their homes, caches, and lines that move between them.
 *
 * A line has the set of processors whose private cache (first and second level together) has it,
 * and the owner, if one may write it: MESI without a difference between M and E. A cache has 16
 * ways, the least recently used leaves; the first level is 48 KiB; what leaves the last cache of a
 * node goes into the third level there. */
#include "bench/cores/model.h"

#include <stdlib.h>
#include <string.h>

enum { WAYS = 16, RECENT = 8, RADIX = 1 << 12, HOT_MAX = 10 };

struct line {
    uint64_t sharers[CPUS_MAX / 64];
    uint64_t address;
    uint64_t pc; /* who had it last */
    int16_t owner;
    uint16_t l3; /* nodes whose third level has it */
};

struct page {
    struct line line[LINES_PER_PAGE];
    uint64_t address;
    int8_t home; /* -1: not there */
};

struct cache {
    size_t sets;
    struct line **way; /* the most recent first; NULL: empty, and a line may have left */
};

static struct page **root[RADIX][RADIX];
static struct cache l1[CPUS_MAX], l2[CPUS_MAX], l3[NODES_MAX];
static struct recent {
    uint64_t line[RECENT];
    unsigned at;
    struct page *page; /* that it used last */
} recent[CPUS_MAX];

static struct policy {
    uint64_t begin, end, nodes;
    int mode;
} * policies;
static size_t policy_count, policy_space;

/* Which two places had a line one after the other, how often, and for which words of it. */
static struct pair {
    uint64_t line, pc, before, count, far;
    uint8_t words;
} * pairs;
static size_t pair_count, pair_space;

static void size(struct cache *cache, size_t kib) {
    cache->sets = kib * 1024 / LINE / WAYS;
    cache->way = calloc(cache->sets * WAYS, sizeof(struct line *));
}

void lines_init(size_t l2_kib, size_t l3_kib) {
    for (int cpu = 0; cpu < machine.cpus; cpu++) {
        size(&l1[cpu], 48);
        size(&l2[cpu], l2_kib);
    }
    for (int node = 0; node < machine.nodes; node++)
        size(&l3[node], l3_kib);
}

static struct page *find(uint64_t address, bool make) {
    uint64_t number = address / PAGE;
    struct page ***second = &root[number / RADIX / RADIX % RADIX][number / RADIX % RADIX];
    if (*second == NULL) {
        if (!make) return NULL;
        *second = calloc(RADIX, sizeof(struct page *));
    }
    struct page **page = &(*second)[number % RADIX];
    if (*page == NULL && make) {
        *page = calloc(1, sizeof **page);
        (*page)->home = -1;
        (*page)->address = address / PAGE * PAGE;
        for (uint64_t i = 0; i < LINES_PER_PAGE; i++) {
            (*page)->line[i].owner = -1;
            (*page)->line[i].address = (*page)->address + i * LINE;
        }
    }
    return *page;
}

static bool has(const struct line *line, int cpu) {
    return line->sharers[cpu / 64] >> (cpu % 64) & 1;
}

static bool node_has(const struct line *line, int node) {
    int each = machine.cpus / machine.nodes;
    for (int cpu = node * each; cpu < (node + 1) * each; cpu++)
        if (has(line, cpu)) return true;
    return false;
}

static bool anyone_has(const struct line *line) {
    uint64_t any = 0;
    for (int i = 0; i < CPUS_MAX / 64; i++)
        any |= line->sharers[i];
    return any != 0;
}

/* Puts the line first in its set and returns the line that leaves, or NULL. `*there`: it was in it.
 */
static struct line *use(struct cache *cache, struct line *line, bool *there) {
    struct line **set = &cache->way[line->address / LINE % cache->sets * WAYS];
    struct line *carried = line;
    bool found = false;
    for (int i = 0; i < WAYS && carried != NULL && !found; i++) {
        struct line *here = set[i];
        set[i] = carried;
        carried = here;
        found = here == line;
    }
    if (there != NULL) *there = found;
    return found ? NULL : carried;
}

static void leave(int cpu, struct line *line);

static void fill(int cpu, struct line *line) {
    use(&l1[cpu], line, NULL);
    struct line *left = use(&l2[cpu], line, NULL);
    if (left != NULL && has(left, cpu)) leave(cpu, left);
}

static void leave(int cpu, struct line *line) {
    int node = node_of(cpu);
    line->sharers[cpu / 64] &= ~(UINT64_C(1) << (cpu % 64));
    if (line->owner == cpu) line->owner = -1;
    if (node_has(line, node)) return;
    line->l3 |= (uint16_t)(1U << node);
    struct line *left = use(&l3[node], line, NULL);
    if (left != NULL) left->l3 &= (uint16_t) ~(1U << node);
}

static void count_pair(uint64_t address, bool is_far, uint64_t pc, uint64_t before) {
    uint64_t line = address / LINE * LINE;
    if (pair_count * 2 >= pair_space) {
        struct pair *old = pairs;
        size_t space = pair_space;
        pair_space = space == 0 ? 1 << 16 : space * 2;
        pairs = calloc(pair_space, sizeof *pairs);
        pair_count = 0;
        for (size_t i = 0; i < space; i++) {
            if (old[i].count == 0) continue;
            uint64_t at = (old[i].line * 31 + old[i].pc * 17 + old[i].before) *
                              UINT64_C(0x9e3779b97f4a7c15) >>
                          20;
            while (pairs[at % pair_space].count != 0)
                at++;
            pairs[at % pair_space] = old[i];
            pair_count++;
        }
        free(old);
    }
    uint64_t at = (line * 31 + pc * 17 + before) * UINT64_C(0x9e3779b97f4a7c15) >> 20;
    struct pair *pair;
    for (;; at++) {
        pair = &pairs[at % pair_space];
        if (pair->count == 0 || (pair->line == line && pair->pc == pc && pair->before == before))
            break;
    }
    pair->far += is_far;
    pair->words |= (uint8_t)(1U << (address % LINE / 8));
    if (pair->count++ == 0) {
        pair->line = line;
        pair->pc = pc;
        pair->before = before;
        pair_count++;
    }
}

void lines_forget(void) {
    if (pairs != NULL) memset(pairs, 0, pair_space * sizeof *pairs);
    pair_count = 0;
}

/* Whether this processor took a neighbour of the line shortly before. */
static bool streams(int cpu, uint64_t line) {
    struct recent *r = &recent[cpu];
    bool found = false;
    for (int i = 0; i < RECENT; i++)
        found |= r->line[i] == line - 1 || r->line[i] == line + 1;
    r->line[r->at++ % RECENT] = line;
    return found;
}

static int count_of(uint64_t nodes) {
    return __builtin_popcountll(nodes);
}

static int home_of(const struct thread *thread, uint64_t address) {
    int mode = thread->policy, local = node_of(thread->cpu);
    uint64_t nodes = thread->policy_nodes;
    for (size_t i = policy_count; i-- > 0;) {
        if (address < policies[i].begin || address >= policies[i].end) continue;
        mode = policies[i].mode;
        nodes = policies[i].nodes;
        break;
    }
    enum { PREFERRED = 1, BIND = 2, INTERLEAVE = 3, MANY = 5 };
    if (nodes == 0) return local;
    if (mode == PREFERRED) return __builtin_ctzll(nodes);
    if (mode == BIND || mode == MANY) return nodes >> local & 1 ? local : __builtin_ctzll(nodes);
    if (mode != INTERLEAVE) return local;
    for (uint64_t skip = address / PAGE % (uint64_t)count_of(nodes); skip-- > 0;)
        nodes &= nodes - 1;
    return __builtin_ctzll(nodes);
}

/* The first touch of a page: the kernel clears it, so that its lines are in the cache after. */
static void fault(struct thread *thread, struct page *page) {
    thread->counts->faults++;
    lines_kernel(thread);
    turns_spend(thread, cost.fault);
    page->home = (int8_t)home_of(thread, page->address);
    if (page->home != node_of(thread->cpu)) turns_spend(thread, cost.remote);
    if (++machine.pages > machine.pages_peak) machine.pages_peak = machine.pages;
    for (uint64_t i = 0; i < LINES_PER_PAGE; i++) {
        struct line *line = &page->line[i];
        memset(line->sharers, 0, sizeof line->sharers);
        line->sharers[thread->cpu / 64] |= UINT64_C(1) << (thread->cpu % 64);
        line->owner = (int16_t)thread->cpu;
        line->l3 = 0;
        fill(thread->cpu, line);
    }
}

struct costs cost = {
#define FIELD(name, value, what) .name = value,
    CORES_COSTS(FIELD)
#undef FIELD
};

/* Brings the line into the processor's cache, to read or to write it. Returns the cycles until it
 * is there. */
static int64_t take(struct thread *thread, struct page *page, struct line *line, uint64_t address,
                    bool store, uint64_t pc) {
    int cpu = thread->cpu, node = node_of(cpu);
    bool mine = has(line, cpu), moved = false, is_far = false;
    int64_t cycles;
    struct counts *counts = thread->counts;
    if (line->owner >= 0) { /* another has it alone */
        moved = true;
        is_far = node_of(line->owner) != node;
        cycles = is_far ? cost.far : cost.near;
    } else if (store && anyone_has(line)) {
        for (int other = 0; other < machine.cpus; other++) {
            if (other == cpu || !has(line, other)) continue;
            moved = true;
            is_far |= node_of(other) != node;
        }
        cycles = is_far ? cost.far : cost.near;
        if (!moved) cycles = mine ? 0 : cost.l3;
    } else if ((line->l3 >> node & 1) || node_has(line, node)) {
        counts->l3++;
        cycles = cost.l3;
    } else {
        bool local = page->home == node && line->l3 == 0 && !anyone_has(line);
        counts->memory += local;
        counts->remote += !local;
        cycles = local ? cost.memory : cost.remote;
    }
    if (moved) {
        counts->near += !is_far;
        counts->far += is_far;
        if (thread->counted || !machine.marked) count_pair(address, is_far, pc, line->pc);
    }
    if (store) {
        memset(line->sharers, 0, sizeof line->sharers);
        line->owner = (int16_t)cpu;
        line->l3 = 0;
    } else {
        line->owner = anyone_has(line) || line->l3 != 0 ? -1 : (int16_t)cpu;
    }
    line->sharers[cpu / 64] |= UINT64_C(1) << (cpu % 64);
    line->pc = pc;
    fill(cpu, line);
    if (cycles > 0 && streams(cpu, address / LINE)) cycles /= cost.stream;
    return cycles;
}

static void access_line(struct thread *thread, uint64_t address, bool store, bool locked,
                        uint64_t pc) {
    struct recent *r = &recent[thread->cpu];
    struct page *page = r->page;
    if (page == NULL || page->address != address / PAGE * PAGE)
        page = r->page = find(address, true);
    if (page->home < 0) fault(thread, page);
    struct line *line = &page->line[address % PAGE / LINE];
    int cpu = thread->cpu;
    int64_t cycles = 0;
    if (store ? line->owner != cpu : !has(line, cpu)) {
        cycles = take(thread, page, line, address, store, pc);
    } else {
        if (store) line->pc = pc;
        bool there;
        use(&l1[cpu], line, &there);
        if (!there) {
            fill(cpu, line);
            cycles = cost.l2;
        }
    }
    if (cycles == 0) return;
    if (!store || locked) {
        turns_spend(thread, cycles);
        return;
    }
    if (thread->stores < thread->clock) thread->stores = thread->clock;
    thread->stores += (uint64_t)cycles * CYCLE;
    uint64_t depth = (uint64_t)cost.depth * CYCLE;
    if (thread->stores > thread->clock + depth) thread->clock = thread->stores - depth;
}

void lines_access(struct thread *thread, uint64_t address, unsigned size, bool store, bool locked,
                  uint64_t pc) {
    access_line(thread, address, store, locked, pc);
    if (address % LINE + size > LINE)
        access_line(thread, address / LINE * LINE + LINE, store, locked, pc);
}

void lines_kernel(struct thread *thread) {
    static int last = -1;
    if (last >= 0 && last != thread->cpu)
        turns_spend(thread, node_of(last) == node_of(thread->cpu) ? cost.near : cost.far);
    last = thread->cpu;
    turns_spend(thread, 2 * cost.locked);
}

uint64_t lines_drop(uint64_t address, uint64_t size) {
    uint64_t dropped = 0;
    for (uint64_t at = address / PAGE * PAGE; at < address + size;) {
        uint64_t number = at / PAGE;
        if (root[number / RADIX / RADIX % RADIX][number / RADIX % RADIX] == NULL) {
            at = (number / RADIX + 1) * RADIX * PAGE;
            continue;
        }
        struct page *page = find(at, false);
        at += PAGE;
        if (page == NULL || page->home < 0) continue;
        page->home = -1;
        machine.pages--;
        dropped++;
    }
    return dropped;
}

void lines_move(uint64_t from, uint64_t to, uint64_t size) {
    for (uint64_t offset = 0; offset < size; offset += PAGE) {
        struct page *page = find(from + offset, false);
        if (page == NULL || page->home < 0) continue;
        struct page *now = find(to + offset, true);
        if (now->home < 0) machine.pages++;
        now->home = page->home;
        lines_drop(from + offset, PAGE);
    }
}

void lines_policy(uint64_t address, uint64_t size, int mode, uint64_t nodes) {
    size_t kept = 0;
    for (size_t i = 0; i < policy_count; i++)
        if (policies[i].begin < address || policies[i].end > address + size)
            policies[kept++] = policies[i];
    policy_count = kept;
    if (policy_count == policy_space) {
        policy_space = policy_space * 2 + 64;
        policies = realloc(policies, policy_space * sizeof *policies);
    }
    policies[policy_count++] = (struct policy){address, address + size, nodes, mode};
}

int lines_home(uint64_t address) {
    const struct page *page = find(address, false);
    return page == NULL ? -1 : page->home;
}

void lines_migrate(uint64_t address, int node) {
    struct page *page = find(address, false);
    if (page != NULL && page->home >= 0) page->home = (int8_t)node;
}

static int by_count(const void *a, const void *b) {
    const struct pair *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    if (x->line != y->line) return x->line < y->line ? -1 : 1;
    if (x->pc != y->pc) return x->pc < y->pc ? -1 : 1;
    return x->before < y->before ? -1 : x->before > y->before;
}

static void print_pairs(FILE *out, const struct pair *from, size_t count) {
    fprintf(out, "[");
    for (size_t i = 0; i < count && i < HOT_MAX; i++)
        fprintf(out, "%s[\"%#lx\",\"%#lx\",%lu]", i == 0 ? "" : ",", from[i].pc, from[i].before,
                from[i].count);
    fprintf(out, "]");
}

static int by_line(const void *a, const void *b) {
    const struct pair *x = a, *y = b;
    return x->line < y->line ? -1 : x->line > y->line ? 1 : by_count(a, b);
}

static int by_places(const void *a, const void *b) {
    const struct pair *x = a, *y = b;
    if (x->pc != y->pc) return x->pc < y->pc ? -1 : 1;
    return x->before < y->before ? -1 : x->before > y->before;
}

/* The lines that moved most, each with the places that had it in turn; then the places over all. */
void lines_report(FILE *out) {
    struct pair *all = calloc(pair_count + 1, sizeof *all),
                *sum = calloc(pair_count + 1, sizeof *sum);
    size_t count = 0, lines = 0, places = 0;
    for (size_t i = 0; i < pair_space; i++)
        if (pairs[i].count != 0) all[count++] = pairs[i];
    qsort(all, count, sizeof *all, by_line);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || all[i].line != all[i - 1].line)
            sum[lines++] = (struct pair){.line = all[i].line, .pc = i};
        sum[lines - 1].count += all[i].count;
        sum[lines - 1].far += all[i].far;
        sum[lines - 1].words |= all[i].words;
        sum[lines - 1].before = i + 1;
    }
    qsort(sum, lines, sizeof *sum, by_count);
    fprintf(out, "\"lines_that_move\":%zu,\n\"lines\":[", lines);
    for (size_t i = 0; i < lines && i < HOT_MAX; i++) {
        fprintf(out, "%s\n{\"line\":\"%#lx\",\"moved\":%lu,\"far\":%lu,\"words\":%u,\"pairs\":",
                i == 0 ? "" : ",", sum[i].line, sum[i].count, sum[i].far, sum[i].words);
        print_pairs(out, &all[sum[i].pc], sum[i].before - sum[i].pc);
        fprintf(out, "}");
    }
    qsort(all, count, sizeof *all, by_places);
    for (size_t i = 0; i < count; i++) {
        if (places == 0 || by_places(&all[i], &sum[places - 1]) != 0) {
            sum[places++] = all[i];
            sum[places - 1].count = 0;
            sum[places - 1].line = 0;
        }
        sum[places - 1].count += all[i].count;
    }
    qsort(sum, places, sizeof *sum, by_count);
    fprintf(out, "],\n\"places\":");
    print_pairs(out, sum, places);
    free(all);
    free(sum);
}
