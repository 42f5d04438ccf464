/* init.c - start-up and shut-down of the library. */
#include "alloc/init.h"

#include <stdatomic.h>
#include <string.h>

#include "alloc/foreign.h"
#include "alloc/fork.h"
#include "alloc/heap.h"
#include "alloc/hooks.h"
#include "alloc/large.h"
#include "alloc/lock.h"
#include "alloc/misuse.h"
#include "alloc/options.h"
#include "alloc/os.h"
#include "alloc/pageheap.h"
#include "alloc/sampler.h"
#include "alloc/sizeclass.h"
#include "alloc/stats.h"
#include "alloc/topology.h"
#include "profiler/record/record.h"

bool na_every_event;
bool na_strict;

static na_lock_t lock;
static _Atomic(bool) done;

/* For the profile's timeline; takes no lock. */
static uint64_t mapped_bytes(void) {
    return na_pageheap_committed() + na_large_dedicated_bytes();
}

static uint64_t mapped_on(unsigned node) {
    return na_pageheap_committed_on(node) + na_large_dedicated_on(node);
}

static void start_profile(void) {
    const char *mode = na_option_text(NA_OPT_PROFILE);
    if (mode == NULL || *mode == 0) return;
    bool sites = mode[0] == 's' && mode[1] == 'i', trace = mode[0] == 't';
    na_profile_config_t config = {
        .mode = sites   ? NA_PROFILE_SITES
                : trace ? NA_PROFILE_TRACE
                        : NA_PROFILE_SAMPLE,
        .sample_interval = sites || trace ? 0 : na_option(NA_OPT_SAMPLE_INTERVAL),
        .file = na_option_text(NA_OPT_PROFILE_FILE),
        .mapped = mapped_bytes,
        .trace_stacks = (na_trace_stacks_t)na_option(NA_OPT_TRACE_STACKS),
        .trace_buffer = na_option(NA_OPT_TRACE_BUFFER),
        .trace_level = (unsigned)na_option(NA_OPT_TRACE_LEVEL),
        .trace_lossy = na_option(NA_OPT_TRACE_LOSSY) != 0,
        .trace_no_thread = na_option(NA_OPT_TRACE_THREAD) == 0,
        .trace_max = na_option(NA_OPT_TRACE_MAX),
        .mapped_on = mapped_on,
        .own_limit = na_option(NA_OPT_PROFILE_MEMORY),
        .free_sites = na_option(NA_OPT_PROFILE_FREES) != 0,
    };
    na_hooks = na_profile_start(&config);
    if (na_hooks == NULL) return;
    if (sites || trace)
        na_every_event = true;
    else
        na_sample_interval = config.sample_interval;
}

void na_init(void) {
    if (NA_LIKELY(atomic_load_explicit(&done, memory_order_acquire))) return;
    na_lock(&lock);
    if (!atomic_load_explicit(&done, memory_order_relaxed)) {
        na_os_init();
        na_options_init();
        na_sizeclass_init();
        na_topology_init(NULL, NULL);
        if (na_option(NA_OPT_NUMA) == NA_NUMA_OFF) na_topology_ignore();
        na_strict = na_option(NA_OPT_CHECK) != 0;
        na_every_event = na_strict;
        if (na_option(NA_OPT_STATS)) na_stats_keep_stderr();
        start_profile();
        atomic_store_explicit(&done, true, memory_order_release);
    }
    na_unlock(&lock);
}

/* Whether any of the environment is meant for us. */
static bool is_configured(void) {
    static const char prefix[] = "NUMALLOC_";
    const char *entry;
    for (size_t i = 0; (entry = na_os_env_at(i)) != NULL; i++)
        if (strncmp(entry, prefix, sizeof prefix - 1) == 0) return true;
    return false;
}

/* Early among constructors, so that our fork handlers run innermost: prepare last, after everyone
 * else has taken their locks, which may need malloc. A program that asks for nothing is set up by
 * its first malloc: one that never calls it pays next to nothing. */
__attribute__((constructor(101))) static void at_load(void) {
    na_foreign_init();
    na_fork_init();
    if (is_configured()) {
        na_init();
        na_background_init();
        if (na_hooks != NULL && na_hooks->on_load != NULL) na_hooks->on_load();
    }
}

/* Late among destructors. Blocks may still be allocated and freed after this; it goes unreported.
 */
__attribute__((destructor(101))) static void at_unload(void) {
    if (na_hooks == NULL && !na_option(NA_OPT_STATS)) return;
    na_heap_t *heap = na_heap_enter();
    if (heap == NULL) return;
    if (na_hooks != NULL) na_hooks->on_exit(&heap->profile);
    if (na_option(NA_OPT_STATS)) na_stats_print_at_exit();
    na_heap_leave(heap);
}
