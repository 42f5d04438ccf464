/* rthreads.c - the recorder's state of each thread: attached at its first event. When the thread
 * ends, the structure is the place of a later one, which goes on with its cells: what is recorded
 * grows with the threads at one time. The entry in THREADS is each thread's own. */
#include <sys/prctl.h>

#include "alloc/machine/topology.h"
#include "alloc/sys/thread.h"
#include "profiler/record/events/rthreads.h"
#include "profiler/record/events/trace.h"

#define THREAD_CHUNK_BYTES (8u << 10)

NA_TLS bool na_rthread_inside, na_rthread_own;

static void read_rthread_name(na_rthread_t *t) {
    static _Atomic bool refused;
    char name[16] = "";
    na_sys_optional(&refused, SYS_prctl, PR_GET_NAME, (long)name, 0);
    na_rec_copy(t->entry->name, sizeof t->entry->name, name);
}

static na_rthread_t *take_idle(void) {
    na_rthread_t *all = atomic_exchange(&na_rec.idle, NULL), *t = all;
    if (t == NULL) return NULL;
    /* The whole list was taken, so nobody can have changed it: no ABA. Give the rest back. */
    na_rthread_t *rest = t->next;
    while (rest != NULL) {
        na_rthread_t *next = rest->next, *head = atomic_load(&na_rec.idle);
        do
            rest->next = head;
        while (!atomic_compare_exchange_weak(&na_rec.idle, &head, rest));
        rest = next;
    }
    return t;
}

static na_nprof_thread_t *new_thread_entry(uint32_t *index) {
    na_lock(&na_rec.tables);
    na_nprof_chunk_t *c = na_rec.thread_chunk;
    if (na_rec.next_thread > UINT16_MAX)
        c = NULL; /* records have 16 bits for a thread */
    else if (c == NULL || c->count == c->capacity) {
        c = na_writer_chunk(NA_NPROF_THREADS, THREAD_CHUNK_BYTES, sizeof(na_nprof_thread_t), 0,
                            na_rec.thread_chunks, na_rec.next_thread);
        if (c != NULL) {
            na_writer_publish(c);
            na_rec.thread_chunks++;
            na_rec.thread_chunk = c;
        }
    }
    na_nprof_thread_t *e = NULL;
    if (c != NULL) {
        e = (na_nprof_thread_t *)(c + 1) + c->count;
        __atomic_store_n(&c->count, c->count + 1, __ATOMIC_RELEASE);
        *index = na_rec.next_thread++;
    }
    na_unlock(&na_rec.tables);
    return e;
}

/* In the file, or where that cannot grow, in memory that nobody reads. */
static na_nprof_sizes_t *new_sizes(void) {
    uint64_t length = na_nprof_chunk_length(1, sizeof(na_nprof_sizes_t));
    na_nprof_chunk_t *c =
        na_writer_chunk(NA_NPROF_SIZES, length, sizeof(na_nprof_sizes_t), 0, 0, 0);
    if (c == NULL) return na_own_alloc(length, length);
    c->capacity = c->count = 1;
    na_writer_publish(c);
    return (na_nprof_sizes_t *)(c + 1);
}

void na_rthread_change_node(na_rthread_t *t, uint8_t node) {
    t->node = node;
    t->record_rest = node | (uint64_t)na_profile_epoch << NA_RECORD_EPOCH_SHIFT;
}

static void push_on_all(na_rthread_t *t) {
    na_rthread_t *head = atomic_load(&na_rec.all);
    do
        t->all_next = head;
    while (!atomic_compare_exchange_weak(&na_rec.all, &head, t));
}

na_rthread_t *na_rthread_attach(void **prof) {
    na_rthread_t *t = take_idle();
    bool is_new = t == NULL;
    if (is_new) {
        t = na_own_alloc(sizeof *t, 76 << 10);
        if (t != NULL) t->sizes = new_sizes();
        if (t == NULL || t->sizes == NULL) {
            na_rec_lose(&na_rec.header->lost_events, 1);
            return NULL;
        }
    } else {
        t->next = NULL; /* cells, lifetimes, sizes and nodes go on */
    }
    na_stacks_attach(t);
    uint32_t index = 0;
    na_nprof_thread_t *entry = new_thread_entry(&index);
    if (entry == NULL) {
        t->scratch = (na_nprof_thread_t){0};
        entry = &t->scratch;
        na_rec_lose(&na_rec.header->lost_threads, 1);
    }
    t->index = index;
    __atomic_store_n(&t->entry, entry, __ATOMIC_RELEASE);
    if (is_new) push_on_all(t); /* with an entry: others go by it */
    t->known_as = t->index != 0 ? t->index : UINT32_MAX;
    t->published_bytes = t->published_count = t->high = t->low = 0;
    t->above = NA_QUANTUM;
    t->below = -NA_QUANTUM;
    t->due = 0;
    t->noted_allocs = t->noted_bytes = 0;
    t->stack_looked_ms = 0;
    t->last_block = NULL;
    t->last_cell = NULL;
    t->last_alloc_site = 0;
    t->after_alloc = false;
    t->moving.block = NULL;
    na_rthread_change_node(t, (uint8_t)na_node_current());
    __atomic_store_n(&t->owner, na_thread_pointer(), __ATOMIC_RELEASE); /* t->entry is there */
    read_rthread_name(t);
    t->entry->start_ms = na_rec_ms();
    t->entry->end_ms = NA_NPROF_MODULE_STILL;
    __atomic_store_n(&t->entry->tid, (uint32_t)na_sys0(SYS_gettid), __ATOMIC_RELEASE);
    na_nprof_thread_seal(t->entry);
    atomic_fetch_add(&na_rec.threads_attached, 1);
    na_timeline_threads();
    if (na_rec.tracing) na_trace_attached(t);
    *prof = t;
    return t;
}

bool na_rthread_left_alone(void) {
    if (!na_thread_is_left_alone()) return false;
    na_rthread_inside = na_rthread_own = false;
    return true;
}

void na_rthread_end(na_rthread_t *t) {
    na_site_publish_all(t);
    na_nprof_thread_open(t->entry);
    read_rthread_name(t);
    __atomic_store_n(&t->entry->end_ms, na_rec_ms(), __ATOMIC_RELEASE);
    na_nprof_thread_seal(t->entry);
}

void na_rthread_retire(na_rthread_t *t) {
    if (na_rec.tracing)
        na_trace_moving_left(t);
    else
        na_site_moving_left(t);
    na_rthread_end(t);
    t->owner = 0;
    na_rthread_t *head = atomic_load(&na_rec.idle);
    do
        t->next = head;
    while (!atomic_compare_exchange_weak(&na_rec.idle, &head, t));
}

/* In a child that no fork handler has seen the word may point anywhere. (Where one has, it was
 * cleared; and where the kernel does not wipe the sentinel, this cannot be told.) */
na_rthread_t *na_rthread_enter_slow(void **prof) {
    uint32_t sentinel = atomic_load_explicit(na_rec_sentinel, memory_order_acquire);
    if (sentinel == 0 || sentinel == NA_REC_TURNING) *prof = NULL;
    na_rthread_t *t = NULL;
    if (NA_LIKELY(na_rec_ready())) t = *prof != NULL ? *prof : na_rthread_attach(prof);
    if (NA_UNLIKELY(t == NULL)) na_rthread_leave();
    return t;
}
