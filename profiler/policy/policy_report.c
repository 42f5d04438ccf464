/* policy_report.c - what the rules did: for the statistics, and for the profile. */
#include <string.h>

#include "alloc/core/sys/print.h"
#include "alloc/heaps/api/api_heap.h"
#include "profiler/policy/bind/bound.h"
#include "profiler/policy/bind/policy_sites.h"
#include "profiler/policy/policy.h"
#include "profiler/policy/policy_report.h"

/* --- the statistics --- */

static void part(na_text_t *t, const char *before, uint64_t count, const char *what) {
    if (count == 0) return;
    na_text_str(t, before);
    na_text_u64(t, count);
    na_text_str(t, what);
}

/* What the site gave so far; a snapshot. */
typedef struct given {
    uint64_t calls, bytes, control_calls, control_bytes;
} given_t;

static given_t given_by_rule(const na_policy_site_t *site) {
    given_t g = {
        .calls = atomic_load_explicit(&site->large, memory_order_relaxed),
        .bytes = atomic_load_explicit(&site->large_bytes, memory_order_relaxed),
        .control_calls = atomic_load_explicit(&site->large_control, memory_order_relaxed),
        .control_bytes = atomic_load_explicit(&site->large_control_bytes, memory_order_relaxed),
    };
    for (unsigned i = 0; i < NA_POLICY_SHARDS; i++) {
        const na_policy_sums_t *sums = &site->sums[i];
        int32_t left = __atomic_load_n(&sums->left, __ATOMIC_RELAXED);
        int32_t granted = atomic_load_explicit(&sums->granted, memory_order_relaxed);
        uint64_t now = (uint64_t)(granted - (left > 0 ? left : 0));
        uint64_t bytes = atomic_load_explicit(&sums->bytes, memory_order_relaxed);
        g.calls += atomic_load_explicit(&sums->calls, memory_order_relaxed) + now;
        g.bytes += bytes;
        g.control_calls += atomic_load_explicit(&sums->control_calls, memory_order_relaxed);
        g.control_bytes += atomic_load_explicit(&sums->control_bytes, memory_order_relaxed);
        if (!atomic_load_explicit(&sums->control, memory_order_relaxed)) continue;
        g.control_calls += now;
        g.control_bytes += bytes - atomic_load_explicit(&sums->bytes_before, memory_order_relaxed);
    }
    return g;
}

static void print_sums(na_text_t *t) {
    const na_policy_reading_t *r = na_bound.reading;
    uint64_t calls = 0, bytes = 0, control = 0, failed = 0, moved = 0;
    uint32_t unbound = 0, unmatched = 0, missing_nodes = 0;
    for (uint32_t i = 0; i < r->rules.rule_count; i++) {
        const na_policy_site_t *site = r->sites[i];
        given_t g = given_by_rule(site);
        calls += g.calls;
        bytes += g.bytes;
        control += g.control_calls;
        failed += atomic_load_explicit(&site->failed, memory_order_relaxed);
        uint64_t moved_here = atomic_load_explicit(&site->moved, memory_order_relaxed);
        moved += moved_here;
        unbound += !site->bound;
        unmatched += site->bound && g.calls == 0 && moved_here == 0;
        missing_nodes += site->pool->missing;
    }
    part(t, ": ", r->rules.rule_count, " rules");
    part(t, ", ", unbound, " not bound");
    part(t, ", ", unmatched, " never matched");
    part(t, ", ", r->rules.faults, " lines left out");
    part(t, ", ", r->other_builds, " modules of another build");
    part(t, ", ", r->missing_modules, " modules not loaded");
    part(t, ", ", r->not_constant, " rules with frames that cannot be followed");
    part(t, ", ", missing_nodes, " for nodes that are not here");
    if (na_bound.full) na_text_str(t, ", too many calls by function name");
    if (na_bound.linked_in) na_text_str(t, ", calls of the program itself out of reach");
    part(t, "; ", calls, " blocks, ");
    if (calls != 0) na_text_bytes(t, bytes);
    part(t, ", ", control, " of them for comparison");
    part(t, ", ", failed, " from malloc for want of memory");
    part(t, ", ", moved >> 10, " KiB moved where they lay");
}

static const char *why_nothing(void) {
    return na_bound.not_ours          ? ": malloc is another's"
           : na_bound.reading == NULL ? ": cannot be used"
           : na_bound.for_others      ? ": for other programs, or another build of this one"
           : !na_policy_is_on()       ? ": no rules"
                                      : NULL;
}

void na_policy_print(int fd) {
    if (na_bound.file == NULL) return;
    na_text_t t = {0};
    na_text_str(&t, "policy ");
    na_text_str(&t, na_bound.file);
    if (!na_policy_enter(NA_POLICY_PATIENCE_MS)) { /* nobody changes what it says */
        na_text_str(&t, ": is being bound\n");
        na_text_end(&t, fd);
        return;
    }
    const char *nothing = why_nothing();
    if (nothing != NULL)
        na_text_str(&t, nothing);
    else
        print_sums(&t);
    part(&t, "; read again ", na_bound.readings, na_bound.readings == 1 ? " time" : " times");
    na_text_str(&t, "\n");
    if (na_bound.refused[0] != 0) {
        na_text_str(&t, "policy ");
        na_text_str(&t, na_bound.file);
        na_text_str(&t, ": changed, and not taken: ");
        na_text_str(&t, na_bound.refused);
        na_text_str(&t, "\n");
    }
    na_text_end(&t, fd);
    na_policy_leave();
}

_Static_assert(NA_POLICY_SITES_EVER <= NA_NPROF_POLICY_HEAPS, "a site has one heap at most");

/* --- the profile --- */

static uint32_t state_now(void) {
    return na_bound.not_ours          ? NA_NPROF_POLICY_NOT_OURS
           : na_bound.reading == NULL ? NA_NPROF_POLICY_UNREADABLE
           : na_bound.for_others      ? NA_NPROF_POLICY_FOR_OTHERS
           : !na_policy_is_on()       ? NA_NPROF_POLICY_WITHOUT
                                      : NA_NPROF_POLICY_APPLIED;
}

static void copy_padded(char *to, size_t size, const char *from, size_t length) {
    size_t n = length < size - 1 ? length : size - 1;
    memcpy(to, from, n);
    memset(to + n, 0, size - n);
}

static void copy_line(char *to, size_t size, uint32_t line) {
    const na_policy_t *rules = &na_bound.reading->rules;
    na_policy_name_t part = na_policy_line(rules->text, rules->length, line);
    copy_padded(to, size, rules->text + part.at, part.length);
}

/* Why it is not bound, as far as can be said. */
static uint32_t flags_of(const na_policy_rule_t *rule, const na_policy_site_t *site) {
    uint32_t flags = site->bound ? NA_NPROF_RULE_BOUND : 0;
    if (site->no_frame) flags |= NA_NPROF_RULE_NO_FRAME;
    if (site->pool->missing) flags |= NA_NPROF_RULE_NO_NODE;
    if (atomic_load_explicit(&site->moved, memory_order_relaxed) != 0) flags |= NA_NPROF_RULE_MOVED;
    if (site->bound) return flags;
    for (unsigned k = 0; k < rule->depth; k++) {
        uint32_t module = rule->frames[k].module;
        if (module == NA_POLICY_NO_MODULE) continue;
        if (na_bound.reading->module_states[module] == NA_POLICY_NOT_LOADED)
            flags |= NA_NPROF_RULE_NO_MODULE;
        if (na_bound.reading->module_states[module] == NA_POLICY_OTHER_BUILD)
            flags |= NA_NPROF_RULE_BUILD;
    }
    return flags != 0 ? flags : NA_NPROF_RULE_NO_CALL;
}

static void add_heap(const numalloc_heap_t *heap, uint64_t *live, uint64_t *in_spans) {
    if (heap == NULL) return;
    numalloc_heap_stats_t stats;
    numalloc_heap_read_stats((numalloc_heap_t *)(uintptr_t)heap, &stats, sizeof stats);
    *live = stats.live;
    *in_spans = stats.in_spans;
}

static void fill_rule(uint32_t i, na_nprof_rule_t *to) {
    const na_policy_site_t *site = na_bound.reading->sites[i];
    na_policy_pool_t *pool = site->pool;
    const numalloc_heap_t *heap = atomic_load_explicit(&pool->heap, memory_order_acquire);
    given_t g = given_by_rule(site);
    na_nprof_rule_t r = {
        .line = site->line,
        .flags = flags_of(&na_bound.reading->rules.rules[i], site),
        .heap = pool->apart ? pool->number : 0,
        .control = site->control,
        .blocks = g.calls,
        .bytes = g.bytes,
        .control_blocks = g.control_calls,
        .control_bytes = g.control_bytes,
        .failed = atomic_load_explicit(&site->failed, memory_order_relaxed),
        .node =
            pool->options.place == NUMALLOC_HEAP_NODE ? pool->options.node : na_heap_consumer(heap),
    };
    add_heap(heap, &r.live, &r.in_spans);
    add_heap(atomic_load_explicit(&pool->control, memory_order_acquire), &r.control_live,
             &r.control_in_spans);
    copy_line(r.text, sizeof r.text, site->line);
    *to = r;
}

bool na_policy_report(na_nprof_policy_t *to) {
    if (na_bound.file == NULL) return false;
    if (!na_policy_enter(NA_POLICY_PATIENCE_MS)) return false;
    na_nprof_policy_t p = {.state = state_now()};
    if (na_bound.full) p.flags |= NA_NPROF_POLICY_FULL;
    if (na_bound.linked_in) p.flags |= NA_NPROF_POLICY_LINKED_IN;
    copy_padded(p.file, sizeof p.file, na_bound.file, strlen(na_bound.file));
    if (na_bound.refused[0] != 0) p.flags |= NA_NPROF_POLICY_REFUSED;
    p.readings = na_bound.readings;
    const na_policy_reading_t *r = na_bound.reading;
    if (r != NULL) {
        p.faults = r->rules.faults;
        p.modules = r->rules.module_count;
    }
    if (r != NULL && p.state == NA_NPROF_POLICY_APPLIED) {
        p.rules = r->rules.rule_count;
        p.missing_modules = r->missing_modules;
        p.other_builds = r->other_builds;
        for (uint32_t i = 0; i < p.rules; i++)
            p.bound += r->sites[i]->bound;
    }
    na_policy_leave();
    *to = p;
    return true;
}

void na_policy_report_rules(na_nprof_rule_t *to, uint32_t count) {
    if (!na_policy_enter(NA_POLICY_PATIENCE_MS)) return;
    const na_policy_reading_t *r = na_bound.reading;
    for (uint32_t i = 0; i < count; i++)
        if (na_policy_is_on() && i < r->rules.rule_count)
            fill_rule(i, &to[i]);
        else
            to[i].line = 0; /* gone since it was counted */
    na_policy_leave();
}

uint32_t na_policy_ruled(const void *block) {
    const na_policy_pool_t *pool = na_policy_pools();
    if (pool == NULL) return 0;
    const numalloc_heap_t *heap = numalloc_heap_of(block);
    for (; heap != NULL && pool != NULL; pool = pool->next) {
        if (atomic_load_explicit(&pool->heap, memory_order_relaxed) == heap) return pool->number;
        if (atomic_load_explicit(&pool->control, memory_order_relaxed) == heap)
            return pool->number | NA_NPROF_RULED_CONTROL;
    }
    return 0;
}
