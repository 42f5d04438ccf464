/* rthreads.c - the recorder's state of each thread: attached at its first event. When the thread
 * ends, the structure is the place of a later one, which goes on with its cells: what is recorded
 * grows with the threads at one time. The entry in THREADS is each thread's own. */
#include <sys/prctl.h>

#include "alloc/core/machine/topology.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/thread.h"
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

void na_rthread_rename(na_rthread_t *t) {
    static const char comm[] = "/comm";
    char path[40] = "/proc/self/task/", name[16];
    uint32_t tid = t->entry->tid, most = 1;
    while (tid / most >= 10)
        most *= 10;
    char *end = path + sizeof "/proc/self/task/" - 1;
    for (; most != 0; most /= 10)
        *end++ = (char)('0' + tid / most % 10);
    na_rec_copy(end, sizeof comm, comm);
    long n = na_os_ask_file(path, name, sizeof name);
    if (n <= 0) return;
    if (name[n - 1] == '\n') name[n - 1] = 0;
    na_nprof_thread_open(t->entry);
    na_rec_copy(t->entry->name, sizeof t->entry->name, name);
    na_nprof_thread_seal(t->entry);
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

/* Under the lock. NULL: the file cannot grow. */
static na_nprof_thread_t *new_thread_entry(uint32_t *index) {
    na_nprof_chunk_t *c = na_rec.thread_chunk;
    if (c == NULL || c->count == c->capacity) {
        c = na_writer_chunk(NA_NPROF_THREADS, THREAD_CHUNK_BYTES, sizeof(na_nprof_thread_t), 0,
                            na_rec.thread_chunks, na_rec.next_thread);
        if (c != NULL) {
            na_writer_publish(c);
            na_rec.thread_chunks++;
            na_rec.thread_chunk = c;
        }
    }
    if (c == NULL) return NULL;
    na_nprof_thread_t *e = (na_nprof_thread_t *)(c + 1) + c->count;
    __atomic_store_n(&c->count, c->count + 1, __ATOMIC_RELEASE);
    *index = na_rec.next_thread++;
    return e;
}

/* The entry of a thread that takes this place, which another may have had: its own, or the one that
 * the later threads of the place share. Records have 16 bits for a thread: those of later ones go
 * round in what is left. */
static na_nprof_thread_t *take_thread_entry(na_rthread_t *t) {
    na_lock(&na_rec.tables);
    na_nprof_thread_t *e = t->shared;
    t->index = t->shared_index;
    if (e != NULL)
        __atomic_store_n(&e->more, e->more + 1, __ATOMIC_RELAXED);
    else
        e = new_thread_entry(&t->index);
    t->known_as = t->index;
    if (t->index == 0 || t->index > NA_NPROF_THREADS_OWN) {
        t->known_as = NA_NPROF_THREADS_OWN + 1 +
                      na_rec.threads_beyond++ % (UINT16_MAX - NA_NPROF_THREADS_OWN);
        t->shared_index = t->index;
        t->shared = e;
    }
    na_unlock(&na_rec.tables);
    return e;
}

/* In the file, or where that cannot grow, in memory that nobody reads. */
static na_nprof_sizes_t *new_sizes(void) {
    uint64_t length = na_nprof_chunk_length(1, sizeof(na_nprof_sizes_t));
    na_nprof_chunk_t *c =
        na_writer_chunk(NA_NPROF_SIZES, length, sizeof(na_nprof_sizes_t), 0, 0, 0);
    if (c == NULL) return na_own_alloc(length);
    c->capacity = c->count = 1;
    na_writer_publish(c);
    return (na_nprof_sizes_t *)(c + 1);
}

void na_rthread_change_node(na_rthread_t *t, uint8_t node) {
    t->node = node;
    t->record_rest = node | (uint64_t)na_profile_epoch << NA_RECORD_EPOCH_SHIFT;
}

static void push_on_all(na_rthread_t *t) {
    atomic_fetch_add(&na_rec.places, 1);
    na_rthread_t *head = atomic_load(&na_rec.all);
    do
        t->all_next = head;
    while (!atomic_compare_exchange_weak(&na_rec.all, &head, t));
}

na_rthread_t *na_rthread_attach(void **prof) {
    na_rthread_t *t = take_idle();
    bool is_new = t == NULL;
    if (is_new) {
        t = na_own_alloc(sizeof *t);
        if (t != NULL) t->sizes = new_sizes();
        if (t == NULL || t->sizes == NULL) {
            na_rec_lose(&na_rec.header->lost_events, 1);
            return NULL;
        }
    } else {
        t->next = NULL; /* cells, lifetimes, sizes and nodes go on */
    }
    na_stacks_attach(t);
    na_nprof_thread_t *entry = take_thread_entry(t);
    if (entry == NULL) {
        t->scratch = (na_nprof_thread_t){0};
        entry = &t->scratch;
        na_rec_lose(&na_rec.header->lost_threads, 1);
    }
    __atomic_store_n(&t->entry, entry, __ATOMIC_RELEASE);
    if (is_new) push_on_all(t); /* with an entry: others go by it */
    /* An entry that is shared goes on from what the thread before published. */
    int64_t net = (int64_t)(entry->alloc_bytes - entry->free_bytes);
    t->published_bytes = t->high = t->low = t->base_bytes = net;
    t->published_count = t->base_count = (int64_t)(entry->alloc_count - entry->free_count);
    t->above = net + NA_QUANTUM;
    t->below = net - NA_QUANTUM;
    t->due = 0;
    t->noted_allocs = t->base_allocs = entry->alloc_count;
    t->noted_bytes = t->base_alloc_bytes = entry->alloc_bytes;
    t->stack_looked_ms = 0;
    t->last_block = NULL;
    t->last_cell = NULL;
    t->last_alloc_site = 0;
    t->after_alloc = false;
    t->moving.block = NULL;
    na_rthread_change_node(t, (uint8_t)na_node_current());
    __atomic_store_n(&t->owner, na_thread_pointer(), __ATOMIC_RELEASE); /* t->entry is there */
    if (entry->tid == 0)
        entry->start_ms = na_rec_ms();
    else
        na_nprof_thread_open(entry);
    read_rthread_name(t);
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
    const na_nprof_thread_t *e = t->entry;
    int64_t bytes = (int64_t)(e->alloc_bytes - e->free_bytes) - t->base_bytes;
    int64_t count = (int64_t)(e->alloc_count - e->free_count) - t->base_count;
    __atomic_store_n(&t->owner, 0,
                     __ATOMIC_RELEASE); /* before the thread is among the ended ones */
    atomic_fetch_add(&na_rec.ended_bytes, bytes);
    atomic_fetch_add(&na_rec.ended_count, count);
    atomic_fetch_add(&na_rec.ended_allocs, e->alloc_count - t->base_allocs);
    atomic_fetch_add(&na_rec.ended_alloc_bytes, e->alloc_bytes - t->base_alloc_bytes);
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
