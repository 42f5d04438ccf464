/* fork.c - handlers around fork. */
#include "alloc/fork.h"

#include <pthread.h>
#include <stdatomic.h>

#include "alloc/central.h"
#include "alloc/control.h"
#include "alloc/heap.h"
#include "alloc/hooks.h"
#include "alloc/meta.h"
#include "alloc/os.h"
#include "alloc/pageheap.h"
#include "alloc/thread.h"
#include "alloc/verify.h"

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
    na_verify_after_fork_child();
    na_central_after_fork_child();
    na_fork_lost += na_heap_after_fork_child(self);
    const na_hooks_t *hooks = na_hooks;
    if (hooks != NULL) hooks->after_fork_child(&self->profile);
    na_thread_after_fork_child();
    na_control_after_fork_child();
    na_heap_leave(self);
}

void na_fork_init(void) {
    static atomic_bool done;
    if (!atomic_exchange(&done, true)) pthread_atfork(prepare, in_parent, in_child);
}
