/* fork.c - handlers around fork, and the background thread. */
#include "alloc/fork.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "alloc/central.h"
#include "alloc/control.h"
#include "alloc/heap.h"
#include "alloc/hooks.h"
#include "alloc/meta.h"
#include "alloc/options.h"
#include "alloc/os.h"
#include "alloc/pageheap.h"
#include "alloc/topology.h"
#include "pagemap/span.h"

/* The forking thread's heap; guarded by the heap-list lock, which is held from prepare to the end.
 */
static na_heap_t *forking_heap;

static void wait_until_idle(na_heap_t *heap, void *self) {
    while (heap != self && atomic_load(&heap->busy) != 0)
        na_os_yield();
}

static void prepare(void) {
    na_heap_t *self = na_heap_enter();
    if (self == NULL) return;
    na_control_before_fork();
    const na_hooks_t *hooks = na_hooks;
    if (hooks != NULL) hooks->before_fork();
    na_heap_lock_list();
    forking_heap = self;
    atomic_store(&na_forking, self->id);
    na_heap_each(wait_until_idle, self);
}

static void open_gate(void) {
    forking_heap = NULL;
    atomic_store(&na_forking, 0);
}

static void in_parent(void) {
    na_heap_t *self = forking_heap;
    if (self == NULL) return;
    open_gate();
    na_heap_unlock_list();
    na_os_futex_wake((const uint32_t *)&na_forking, INT32_MAX);
    const na_hooks_t *hooks = na_hooks;
    if (hooks != NULL) hooks->after_fork_parent();
    na_control_after_fork_parent();
    na_heap_leave(self);
}

static void in_child(void) {
    na_heap_t *self = forking_heap;
    if (self == NULL) return;
    open_gate();
    na_meta_after_fork_child();
    na_span_after_fork_child();
    na_pageheap_after_fork_child();
    na_central_after_fork_child();
    na_fork_lost += na_heap_after_fork_child(self);
    const na_hooks_t *hooks = na_hooks;
    if (hooks != NULL) hooks->after_fork_child(&self->profile);
    na_control_after_fork_child();
    na_heap_leave(self);
}

void na_fork_init(void) {
    pthread_atfork(prepare, in_parent, in_child);
}

/* --- background thread --- */

static void *give_back(void *unused) {
    (void)unused;
    na_heap_t *heap = na_heap_enter();
    if (heap == NULL) return NULL;
    uint64_t swept = 0;
    for (;;) {
        struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};
        nanosleep(&pause, NULL);
        uint64_t now = na_os_ms();
        na_gate_enter(heap);
        for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node)) {
            na_pageheap_tick(node, now);
            if (now - swept >= 1000) na_central_sweep(node);
        }
        na_gate_leave(heap);
        if (now - swept >= 1000) swept = now;
        na_control_poll(heap, now);
    }
    return NULL;
}

void na_background_init(void) {
    if (!na_option(NA_OPT_BACKGROUND)) return;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the program's business */
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 128 * 1024);
    pthread_t thread;
    pthread_create(&thread, &attributes, give_back,
                   NULL); /* refused: memory waits for slow paths */
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}
