/* access_threads.c - the threads that samples name: by tid, with name, entry in THREADS and stack.
 *
 * Tids are used again. A thread that allocates has an entry of its own in THREADS; when that of a
 * known tid changes, the tid names another thread. One that never allocates and takes a tid over is
 * not told from the one before. */
#include <fcntl.h>

#include "profiler/record/access/access_priv.h"

#define SLOTS 8192u /* of the hash; at most half are used */

typedef struct known {
    uint32_t tid; /* 0: free */
    uint32_t id;
    na_nprof_access_thread_t *entry;
} known_t;

static known_t *thread_slots;
static uint32_t slots_used;
static na_access_table_t thread_table;

bool na_athreads_start(void) {
    thread_table = (na_access_table_t){.type = NA_NPROF_ACCESS_THREADS,
                                       .size = sizeof(na_nprof_access_thread_t),
                                       .next_id = 1,
                                       .chunk_bytes = 8u << 10};
    slots_used = 0;
    thread_slots = na_own_alloc(SLOTS * sizeof *thread_slots);
    return thread_slots != NULL;
}

/* The recorder's state of a running thread. Places are never unmapped while a profile runs. Who
 * finds an owner finds the entry, and who finds the entry's tid finds all that is known of the
 * thread. */
static na_rthread_t *rthread_of(uint32_t tid) {
    na_rthread_t *t = atomic_load_explicit(&na_rec.all, memory_order_acquire);
    for (; t != NULL; t = t->all_next) {
        if (__atomic_load_n(&t->owner, __ATOMIC_ACQUIRE) == 0) continue;
        const na_nprof_thread_t *e = __atomic_load_n(&t->entry, __ATOMIC_RELAXED);
        if (__atomic_load_n(&e->tid, __ATOMIC_ACQUIRE) == tid) return t;
    }
    return NULL;
}

static void read_thread_name(na_nprof_access_thread_t *entry) {
    char name[32], kept[sizeof entry->name] = "";
    long n = na_access_read_task(entry->tid, "/comm", name, sizeof name);
    if (n <= 0) return; /* it has ended: the last known name stays */
    if (name[n - 1] == '\n') name[n - 1] = 0;
    na_rec_copy(kept, sizeof kept, name);
    if (__builtin_memcmp(kept, entry->name, sizeof kept) == 0) return;
    na_nprof_open(entry, sizeof *entry);
    __builtin_memcpy(entry->name, kept, sizeof kept);
    na_nprof_seal(entry, sizeof *entry);
}

static known_t *thread_slot(uint32_t tid) {
    uint32_t i = tid * 0x9e3779b1u >> 19;
    while (thread_slots[i % SLOTS].tid != 0 && thread_slots[i % SLOTS].tid != tid)
        i++;
    return &thread_slots[i % SLOTS];
}

uint32_t na_athreads_id(uint32_t tid, uint64_t since_ns) {
    known_t *k = thread_slot(tid);
    if (k->tid == tid) return k->id;
    if (tid == 0 || slots_used >= SLOTS / 2) return 0;
    na_nprof_access_thread_t *e = na_access_table_next(&thread_table);
    if (e == NULL) return 0;
    const na_rthread_t *t = rthread_of(tid);
    e->tid = tid;
    e->thread = t != NULL ? t->index : 0;
    e->first_ns = e->last_ns = since_ns;
    read_thread_name(e);
    if (k->tid == 0) slots_used++;
    *k = (known_t){tid, na_access_table_commit(&thread_table), e};
    return k->id;
}

static known_t *thread_by_id(uint32_t id) {
    static uint32_t last;
    if (thread_slots[last].id == id && id != 0) return &thread_slots[last];
    for (last = 0; last < SLOTS - 1; last++)
        if (thread_slots[last].id == id && thread_slots[last].tid != 0) return &thread_slots[last];
    last = 0;
    return NULL;
}

void na_athreads_seen(uint32_t id, uint64_t since_ns) {
    known_t *k = thread_by_id(id);
    if (k == NULL) return;
    na_nprof_open(k->entry, sizeof *k->entry);
    __atomic_store_n(&k->entry->samples, k->entry->samples + 1, __ATOMIC_RELAXED);
    if (since_ns > k->entry->last_ns)
        __atomic_store_n(&k->entry->last_ns, since_ns, __ATOMIC_RELAXED);
    na_nprof_seal(k->entry, sizeof *k->entry);
}

void na_athreads_tick(void) {
    for (uint32_t i = 0; i < SLOTS; i++) {
        known_t *k = &thread_slots[i];
        if (k->tid == 0) continue;
        const na_rthread_t *t = rthread_of(k->tid);
        if (t != NULL && k->entry->thread == 0 && t->index != 0) {
            na_nprof_open(k->entry, sizeof *k->entry);
            __atomic_store_n(&k->entry->thread, t->index, __ATOMIC_RELAXED);
            na_nprof_seal(k->entry, sizeof *k->entry);
        }
        if (t != NULL && k->entry->thread != t->index) {
            /* The tid is another thread's now: the next sample makes an entry. */
            k->id = 0;
            na_nprof_access_thread_t *e = na_access_table_next(&thread_table);
            if (e == NULL) continue;
            e->tid = k->tid;
            e->thread = t->index;
            e->first_ns = e->last_ns = na_access_since(na_access_mono());
            k->entry = e;
            k->id = na_access_table_commit(&thread_table);
        }
        read_thread_name(k->entry);
    }
}

uint32_t na_athreads_stack(uintptr_t start, uintptr_t end, uint64_t since_ns) {
    /* The C library puts the control block of a thread that it makes above its stack. */
    na_rthread_t *t = atomic_load_explicit(&na_rec.all, memory_order_acquire);
    for (; t != NULL; t = t->all_next) {
        uintptr_t owner = __atomic_load_n(&t->owner, __ATOMIC_ACQUIRE);
        if (owner < start || owner >= end) continue;
        const na_nprof_thread_t *e = __atomic_load_n(&t->entry, __ATOMIC_RELAXED);
        uint32_t tid = __atomic_load_n(&e->tid, __ATOMIC_ACQUIRE);
        uint32_t id = tid != 0 ? na_athreads_id(tid, since_ns) : 0;
        known_t *k = id != 0 ? thread_by_id(id) : NULL;
        if (k == NULL) continue;
        na_nprof_open(k->entry, sizeof *k->entry);
        __atomic_store_n(&k->entry->stack_low, start, __ATOMIC_RELAXED);
        __atomic_store_n(&k->entry->stack_high, end, __ATOMIC_RELAXED);
        na_nprof_seal(k->entry, sizeof *k->entry);
        return id;
    }
    return 0;
}
