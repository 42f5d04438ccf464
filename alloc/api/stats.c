/* stats.c - gathering and printing statistics. */
#include "alloc/api/stats.h"
#include "alloc/api/fill_struct.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/core/cache/large_bins.h"
#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/malloc/large.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/print.h"
#include "alloc/core/sys/reserve.h"
#include "alloc/core/thread/attach.h"
#include "alloc/heaps/chunk.h"
#include "alloc/limits/limits.h"

static void add_tcache(na_tcache_t *tcache, void *arg) {
    na_totals_t *t = arg;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        const na_bin_t *bin = &tcache->bins[cls];
        const na_bin_state_t *state = &tcache->states[cls];
        int pop = bin->pop < 0 ? 0 : bin->pop, push = bin->push < 0 ? 0 : bin->push;
        uint64_t pops = (uint64_t)(state->granted.pop - pop);
        uint64_t pushes = (uint64_t)(state->granted.push - push);
        t->classes[cls].allocs += state->pops + pops;
        t->classes[cls].frees += state->pushes + pushes;
        t->classes[cls].cached += state->count + pushes - pops;
    }
    t->large_allocs += na_large_taken(tcache);
    t->large_frees += na_large_given(tcache);
    t->remote_frees += tcache->posts.frees;
}

void na_stats_gather(na_totals_t *t) {
    memset(t, 0, sizeof *t);
    na_tcache_each(add_tcache, t);
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node)) {
        na_pageheap_stats_t p;
        na_pageheap_get_stats(node, &p);
        t->all.reserved += p.reserved;
        t->all.committed += p.committed;
        t->all.in_spans += p.used;
        t->all.dirty += p.dirty;
        t->all.purged += p.purged;
        t->regions += p.regions;
        t->all.reserved += na_chunks_mapped(node);
        t->all.committed += na_chunks_mapped(node);
        t->all.in_spans += na_chunks_used(node);
    }
    uint64_t dedicated = na_large_dedicated_bytes();
    t->all.reserved += dedicated;
    t->all.committed += dedicated;
    t->all.in_spans += dedicated;
    t->all.large = na_large_bytes();
    t->all.metadata = na_meta_bytes();
    t->all.thread_caches = na_tcache_count();
    t->all.leaked_by_fork = na_fork_lost;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        na_class_stats_t *c = &t->classes[cls];
        t->small_allocs += c->allocs;
        t->small_frees += c->frees;
        t->cached += c->cached * na_classes[cls].size;
        if (c->allocs > c->frees) t->small_live += (c->allocs - c->frees) * na_classes[cls].size;
    }
}

/* Sums over thread caches: allocated and not freed, by the node of the thread cache that the blocks
 * were taken from, and corrected for frees (and takes) across nodes. */
typedef struct node_sum {
    unsigned node;
    int64_t live;
    uint64_t remote_frees;
} node_sum_t;

static void add_tcache_to_node(na_tcache_t *tcache, void *arg) {
    node_sum_t *sum = arg;
    if (tcache->node != sum->node) {
        sum->live -= tcache->posts.crossed[sum->node].bytes;
        sum->remote_frees += tcache->posts.crossed[sum->node].blocks;
        return;
    }
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        const na_bin_t *bin = &tcache->bins[cls];
        const na_bin_state_t *state = &tcache->states[cls];
        int pop = bin->pop < 0 ? 0 : bin->pop, push = bin->push < 0 ? 0 : bin->push;
        int64_t blocks = (int64_t)(state->pops - state->pushes) + (state->granted.pop - pop) -
                         (state->granted.push - push);
        sum->live += blocks * na_classes[cls].size;
    }
    if (na_node_many)
        for (unsigned other = 0; other <= NA_NODE_ANY; other = na_node_next(other))
            sum->live += tcache->posts.crossed[other].bytes;
}

void na_stats_gather_node(unsigned node, numalloc_node_stats_t *s) {
    node_sum_t sum = {.node = node};
    na_tcache_each(add_tcache_to_node, &sum);
    na_pageheap_stats_t p;
    na_pageheap_get_stats(node, &p);
    uint64_t dedicated = na_large_dedicated_on(node), chunks = na_chunks_mapped(node);
    uint64_t in_spans = p.used + dedicated + na_chunks_used(node);
    uint64_t live = (sum.live > 0 ? (uint64_t)sum.live : 0) + na_large_bytes_on(node);
    uint64_t wanted_here = in_spans + p.away - p.guests;
    *s = (numalloc_node_stats_t){
        .live = live,
        .cached = wanted_here > live ? wanted_here - live : 0,
        .in_spans = in_spans,
        .dirty = p.dirty,
        .committed = p.committed + dedicated + chunks,
        .reserved = p.reserved + dedicated + chunks,
        .purged = p.purged,
        .strays = p.away,
        .strays_total = p.strays,
        .guests = p.guests,
        .remote_frees = sum.remote_frees,
        .regions = p.regions,
        .bound = p.bound,
        .refused = p.bind_refused,
        .usable = node == NA_NODE_ANY || na_node_usable(node),
    };
}

void numalloc_read_stats(numalloc_stats_t *stats, size_t size) {
    na_totals_t totals;
    na_stats_gather(&totals);
    na_fill_struct(stats, size, &totals.all, sizeof totals.all);
}

/* --- text --- */

static void label_column(na_text_t *t, const char *label) {
    na_text_str(t, "  ");
    na_text_str(t, label);
    for (size_t width = strlen(label); width < 26; width++)
        na_text_str(t, " ");
}

static void row(na_text_t *t, const char *label, uint64_t bytes) {
    label_column(t, label);
    na_text_bytes(t, bytes);
    na_text_str(t, "\n");
}

static void count_row(na_text_t *t, const char *label, uint64_t count) {
    label_column(t, label);
    na_text_u64(t, count);
    na_text_str(t, "\n");
}

static void print_totals(const na_totals_t *s, int fd) {
    na_text_t t = {0};
    na_text_str(&t, "numalloc statistics\n");
    row(&t, "live small blocks", s->small_live);
    row(&t, "live large blocks", s->all.large);
    row(&t, "in spans", s->all.in_spans);
    row(&t, "free, not yet given back", s->all.dirty);
    row(&t, "given back so far", s->all.purged);
    row(&t, "accessible", s->all.committed);
    row(&t, "address space", s->all.reserved);
    row(&t, "own tables", s->all.metadata);
    count_row(&t, "thread caches", s->all.thread_caches);
    count_row(&t, "regions", s->regions);
    count_row(&t, "large allocations", s->large_allocs);
    count_row(&t, "large frees", s->large_frees);
    count_row(&t, "frees by other threads", s->remote_frees);
    uint64_t refusals = na_limits_refusals();
    if (refusals != 0) count_row(&t, "refused (control group)", refusals);
    if (s->all.leaked_by_fork != 0) row(&t, "lost in fork (at most)", s->all.leaked_by_fork);
    na_text_end(&t, fd);
}

static void print_node(unsigned node, int fd) {
    numalloc_node_stats_t s;
    na_stats_gather_node(node, &s);
    if (s.reserved == 0 && s.in_spans == 0) return;
    na_text_t t = {0};
    na_text_str(&t, "  node ");
    if (node < NA_NODE_ANY)
        na_text_u64(&t, na_node_system_id(node));
    else
        na_text_str(&t, "any");
    const struct {
        const char *label;
        uint64_t bytes;
    } parts[] = {{": live ", s.live},
                 {", cached ", s.cached},
                 {", in spans ", s.in_spans},
                 {", free ", s.dirty},
                 {", given back ", s.purged}};
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        na_text_str(&t, parts[i].label);
        na_text_bytes(&t, parts[i].bytes);
    }
    na_text_str(&t, ", regions ");
    na_text_u64(&t, s.regions);
    if (na_node_many) {
        na_text_str(&t, ", strays ");
        na_text_bytes(&t, s.strays);
        na_text_str(&t, " of ");
        na_text_bytes(&t, s.strays_total);
        na_text_str(&t, ", guests ");
        na_text_bytes(&t, s.guests);
        na_text_str(&t, ", freed from other nodes ");
        na_text_u64(&t, s.remote_frees);
        if (node < NA_NODE_ANY)
            na_text_str(&t, s.bound     ? ", bound"
                            : s.refused ? ", binding refused by the system: placed by first touch"
                                        : ", placed by first touch");
        if (node < NA_NODE_ANY && !s.usable) na_text_str(&t, ", not usable now");
    }
    na_text_str(&t, "\n");
    na_text_end(&t, fd);
}

static void print_classes(const na_totals_t *s, int fd) {
    na_text_t t = {0};
    na_text_str(&t, "     size      allocated          freed           live         in bins\n");
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        const na_class_stats_t *c = &s->classes[cls];
        if (c->allocs == 0) continue;
        na_text_u64_pad(&t, na_classes[cls].size, 9);
        na_text_u64_pad(&t, c->allocs, 15);
        na_text_u64_pad(&t, c->frees, 15);
        na_text_u64_pad(&t, c->allocs > c->frees ? c->allocs - c->frees : 0, 15);
        na_text_u64_pad(&t, c->cached, 16);
        na_text_str(&t, "\n");
        na_text_end(&t, fd);
    }
}

void na_stats_print(int fd) {
    na_totals_t totals;
    na_stats_gather(&totals);
    print_totals(&totals, fd);
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node))
        print_node(node, fd);
    print_classes(&totals, fd);
    for (const na_above_t *const *above = na_above; *above != NULL; above++)
        if ((*above)->print != NULL) (*above)->print(fd);
}

static int kept_stderr = -1;

void na_stats_keep_stderr(void) {
    enum { OUT_OF_THE_WAY = 100 }; /* not a number that the program expects to get itself */
    kept_stderr =
        (int)na_syscall(SYS_fcntl, STDERR_FILENO, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY, 0, 0, 0);
}

void na_stats_print_at_exit(void) {
    /* A daemon closes it, too, and may have given its number to a file by now. */
    int fd = kept_stderr >= 0 && na_os_is_stderr(kept_stderr) ? kept_stderr : na_os_stderr();
    if (fd >= 0) na_stats_print(fd);
}
