/* process.c - the process begins and ends. */
#include "alloc/api/process.h"

#include <stddef.h>

#include "alloc/api/stats.h"
#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/malloc/foreign.h"
#include "alloc/core/path/seam.h"
#include "alloc/core/sys/options.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/thread/fork.h"
#include "alloc/core/thread/scavenge.h"
#include "alloc/core/track/hooks.h"
#include "alloc/interpose/whose.h"
#include "pagemap/pagemap.h"

bool na_process_ends_later;

/* What na_init lies below. */
static void init_process(void) {
    if (na_option(NA_OPT_STATS)) na_stats_keep_stderr();
}

const na_above_t na_process_above = {.init = init_process};

NA_COLD void na_process_end(void) {
    na_tcache_t *tcache = na_tcache_enter();
    unsigned count = 0;
    while (na_above[count] != NULL)
        count++;
    while (count-- > 0)
        if (na_above[count]->at_exit != NULL) na_above[count]->at_exit(tcache);
    if (tcache == NULL) return;
    if (na_option(NA_OPT_STATS)) na_stats_print_at_exit();
    na_tcache_leave(tcache);
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
        if (!na_whose_init()) return;
        na_init();
        for (const na_above_t *const *above = na_above; *above != NULL; above++)
            if ((*above)->at_load != NULL) (*above)->at_load();
        na_background_init();
        const na_hooks_t *hooks = na_hooks;
        if (hooks != NULL && hooks->on_load != NULL) hooks->on_load();
    }
}

/* Late among destructors. */
__attribute__((destructor(101))) static void at_unload(void) {
    if (!na_init_is_done()) return; /* nobody called */
    if (na_hooks == NULL && !na_option(NA_OPT_STATS) && !na_record_all && !na_path_ends) return;
    if (!na_process_ends_later) na_process_end();
}
