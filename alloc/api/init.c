/* init.c - start-up and shut-down of the library. */
#include "alloc/api/init.h"

#include <stdatomic.h>

#include "alloc/api/stats.h"
#include "alloc/api/whose.h"
#include "alloc/cache/thread_cache.h"
#include "alloc/central/sizeclass.h"
#include "alloc/machine/topology.h"
#include "alloc/malloc/foreign.h"
#include "alloc/malloc/hardened.h"
#include "alloc/policy/policy.h"
#include "alloc/policy/policy_move.h"
#include "alloc/sys/lock.h"
#include "alloc/sys/options.h"
#include "alloc/sys/os.h"
#include "alloc/sys/reserve.h"
#include "alloc/thread/attach.h"
#include "alloc/thread/background.h"
#include "alloc/thread/fork.h"
#include "alloc/track/guarded.h"
#include "alloc/track/hooks.h"
#include "alloc/track/misuse.h"
#include "pagemap/live.h"
#include "pagemap/pagemap.h"
#include "profiler/control/control.h"
#include "profiler/guard/guards.h"
#include "profiler/leaks/leaks.h"

static na_lock_t init_lock;
NA_FIRST static _Atomic(bool) done;

void na_init(void) {
    if (NA_LIKELY(atomic_load_explicit(&done, memory_order_acquire))) return;
    na_pagemap_init();
    na_lock(&init_lock);
    if (!atomic_load_explicit(&done, memory_order_relaxed)) {
        na_os_init();
        na_options_init();
        na_reserve_init(na_option(NA_OPT_CGROUPS) != NA_CGROUPS_IGNORE,
                        na_option(NA_OPT_HUGEPAGES) == NA_HUGE_ALWAYS);
        na_sizeclass_init();
        na_span_fault = na_misuse_late;
        na_topology_init(NULL, NULL);
        if (na_option(NA_OPT_NUMA) == NA_NUMA_OFF) na_topology_ignore();
        na_strict = na_option(NA_OPT_CHECK) != 0;
        na_leaks_on = na_option(NA_OPT_LEAKS) != 0;
        if (na_leaks_on) na_sizeclass_spare();
        na_record_all = na_strict || na_leaks_on || na_option(NA_OPT_HARDEN) > 1;
        na_every_event = na_record_all ? NA_EVERY_RECORDED : 0u;
        if (na_option(NA_OPT_HARDEN) != 0)
            na_hardened_init((unsigned)na_option(NA_OPT_HARDEN));
        else
            na_live_never();
        na_sizes_count = na_strict || na_harden != 0;
        if (na_option(NA_OPT_STATS)) na_stats_keep_stderr();
        na_control_init();
        atomic_store_explicit(&done, true, memory_order_release);
    }
    na_unlock(&init_lock);
}

static bool ends_later; /* at_last will be called; set at load */

/* Blocks may still be allocated and freed after this; it goes unreported. */
static NA_COLD bool at_end(void) {
    na_guard_at_exit();
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache == NULL) return false;
    bool lost = na_control_at_exit(tcache);
    if (na_harden > 1) na_hardened_at_exit(tcache);
    if (na_option(NA_OPT_STATS)) na_stats_print_at_exit();
    na_tcache_leave(tcache);
    return lost;
}

/* The last of all exit handlers: so the C library's exit goes on from here with that status. */
static void at_last(void) {
    if (at_end() && na_option(NA_OPT_LEAKS_EXIT) != 0) na_leaks_exit();
}

/* Early among constructors, so that our fork handlers run innermost (entry_fork.c; where that is
 * not linked, as innermost as can be): prepare last, after everyone else has taken their locks,
 * which may need malloc. A program that asks for nothing is set up by its first malloc: one that
 * never calls it pays next to nothing. */
__attribute__((constructor(101))) static void at_load(void) {
    na_pagemap_init();
    na_os_note_stderr();
    na_foreign_init();
    na_fork_init();
    if (na_os_env_has("NUMALLOC_")) { /* some of it may be meant for us */
        na_whose_init();
        na_init();
        na_control_at_load();
        na_policy_at_load();
        if (na_policy_is_named()) na_control_note_policy();
        na_policy_move_at_load();
        na_background_init();
        na_guard_at_load();
        if (na_leaks_on) ends_later = na_leaks_at_load(at_last);
        const na_hooks_t *hooks = na_hooks;
        if (hooks != NULL && hooks->on_load != NULL) hooks->on_load();
    }
}

/* Late among destructors. */
__attribute__((destructor(101))) static void at_unload(void) {
    if (!atomic_load_explicit(&done, memory_order_acquire)) return; /* nobody called */
    if (na_hooks == NULL && !na_option(NA_OPT_STATS) && na_harden < 2 && na_guard == NULL &&
        !na_leaks_on)
        return;
    if (!ends_later) at_end();
}
