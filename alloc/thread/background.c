/* background.c - the thread that gives memory back while the program sleeps. */
#include "alloc/thread/background.h"

#include <sys/syscall.h>
#include <time.h>

#include "alloc/cache/thread_cache.h"
#include "alloc/central/central.h"
#include "alloc/machine/topology.h"
#include "alloc/page/pageheap.h"
#include "alloc/page/run_cache.h"
#include "alloc/sys/options.h"
#include "alloc/sys/os.h"
#include "alloc/sys/thread.h"
#include "alloc/thread/attach.h"
#include "alloc/thread/scavenge.h"
#include "alloc/thread/switch.h"
#include "pagemap/span.h"

static void *background_main(void *unused) {
    (void)unused;
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache == NULL) return NULL;
    uint64_t last = 0;
    for (;;) {
        struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};
        na_syscall(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
        uint64_t now = na_os_ms();
        if (!na_gate_enter(tcache)) continue;
        for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node)) {
            na_pageheap_tick(node, now);
            if (now - last < NA_OTHERS_MS) continue;
            na_transfer_decay(node);
            na_run_cache_decay(node);
        }
        if (now - last >= NA_OTHERS_MS) na_scavenge_others(tcache);
        na_gate_leave(tcache);
        na_controller->poll(tcache, now);
        if (now - last < NA_OTHERS_MS) continue;
        last = now;
        if (na_thread_is_left_alone()) break;
    }
    na_tcache_leave(tcache);
    return NULL;
}

void na_background_init(void) {
    if (!na_option(NA_OPT_BACKGROUND)) return;
    na_thread_start(background_main); /* refused: memory waits for slow paths */
}
