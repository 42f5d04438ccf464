/* stacks.c - the tree of call stacks, shared by all threads, in the file.
 *
 * A node is (parent, frame); a stack is entered from its outermost frame inwards, one step in a
 * hash table a frame, less the outer frames that it has in common with the thread's last stack.
 *
 * The hash is a chain of tables, each eight times the one before, of 64-byte buckets; a bucket that
 * is full sends its overflow to the next table. Slots are filled in order by compare-and-swap and
 * never emptied, so two threads that enter the same node meet at the same slot, and a reader needs
 * no lock: {check of the key:32, node:32}. */
#include "profiler/record/state.h"

#define CHUNK_BYTES (64u << 10)
#define PER_CHUNK   ((CHUNK_BYTES - 64u) / 16u)
#define CHUNK_MAX   65536u

#define LEVELS 6u
#define BUCKET 8u
#define LEVEL0 9u /* log2 of the buckets of the first table; each further one has 3 bits more */

static struct {
    _Atomic(na_nprof_stack_t *) *chunks; /* entry 0 of each chunk */
    _Atomic(_Atomic uint64_t *) level[LEVELS];
    _Atomic uint32_t next; /* node id */
    na_lock_t lock;        /* to add a chunk or a level */
} tree;

static na_nprof_stack_t *node_at(uint32_t id) {
    na_nprof_stack_t *chunk =
        atomic_load_explicit(&tree.chunks[id / PER_CHUNK], memory_order_acquire);
    return chunk + id % PER_CHUNK;
}

static na_nprof_chunk_t *header_of(na_nprof_stack_t *chunk) {
    return (na_nprof_chunk_t *)chunk - 1;
}

static bool add_chunk(uint32_t k) {
    bool ok = true;
    na_lock(&tree.lock);
    if (atomic_load_explicit(&tree.chunks[k], memory_order_relaxed) == NULL) {
        na_nprof_chunk_t *c = na_writer_chunk(NA_NPROF_STACKS, CHUNK_BYTES,
                                              sizeof(na_nprof_stack_t), 0, k, k * PER_CHUNK);
        ok = c != NULL;
        if (ok) {
            na_writer_publish(c);
            atomic_store_explicit(&tree.chunks[k], (na_nprof_stack_t *)(c + 1),
                                  memory_order_release);
            atomic_fetch_add_explicit(&na_rec.own_resident, CHUNK_BYTES, memory_order_relaxed);
        }
    }
    na_unlock(&tree.lock);
    return ok;
}

/* A slot for a node, 0: the file cannot grow. */
static uint32_t new_node(void) {
    uint32_t id = atomic_load_explicit(&tree.next, memory_order_relaxed);
    do {
        uint32_t k = id / PER_CHUNK;
        if (k >= CHUNK_MAX) return 0;
        if (atomic_load_explicit(&tree.chunks[k], memory_order_acquire) == NULL && !add_chunk(k))
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&tree.next, &id, id + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    na_nprof_chunk_t *c =
        header_of(atomic_load_explicit(&tree.chunks[id / PER_CHUNK], memory_order_relaxed));
    __atomic_fetch_add(&c->count, 1, __ATOMIC_RELEASE);
    return id;
}

static _Atomic uint64_t *level_at(unsigned i) {
    _Atomic uint64_t *t = atomic_load_explicit(&tree.level[i], memory_order_acquire);
    if (t != NULL) return t;
    na_lock(&tree.lock);
    t = atomic_load_explicit(&tree.level[i], memory_order_relaxed);
    if (t == NULL) {
        uint64_t bytes = (uint64_t)BUCKET * 8 << (LEVEL0 + 3 * i);
        t = na_own_alloc(bytes, bytes);
        atomic_store_explicit(&tree.level[i], t, memory_order_release);
    }
    na_unlock(&tree.lock);
    return t;
}

static void store_node(uint32_t id, uint32_t parent, uint64_t pc, uint32_t flags) {
    na_nprof_stack_t *n = node_at(id);
    n->parent = parent;
    n->pc = pc;
    __atomic_store_n(&n->flags, flags | NA_NPROF_STACK_VALID, __ATOMIC_RELEASE);
}

/* The child of `parent` with this frame, made if need be. 0: no room. */
static uint32_t child(uint32_t parent, uint64_t pc, uint32_t flags) {
    uint64_t h = (pc ^ (uint64_t)flags << 56) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 32 ^ parent) * UINT64_C(0xd6e8feb86659fd93);
    h ^= h >> 29;
    uint32_t check = (uint32_t)(h >> 32), made = 0;
    for (unsigned i = 0; i < LEVELS; i++) {
        _Atomic uint64_t *t = level_at(i);
        if (t == NULL) return 0;
        /* Other bits choose the bucket in each table, or full buckets would overflow together. */
        uint64_t bucket = (h >> i * 5 ^ h << 7) & ((UINT64_C(1) << (LEVEL0 + 3 * i)) - 1);
        _Atomic uint64_t *b = t + bucket * BUCKET;
        for (unsigned j = 0; j < BUCKET; j++) {
            uint64_t e = atomic_load_explicit(&b[j], memory_order_acquire);
            if (e == 0) {
                if (made == 0) {
                    made = new_node();
                    if (made == 0) return 0;
                    store_node(made, parent, pc, flags);
                }
                if (atomic_compare_exchange_strong_explicit(&b[j], &e, (uint64_t)check << 32 | made,
                                                            memory_order_acq_rel,
                                                            memory_order_acquire))
                    return made;
            }
            if (e >> 32 == check) {
                uint32_t id = (uint32_t)e;
                const na_nprof_stack_t *n = node_at(id);
                if (n->pc == pc && n->parent == parent &&
                    (n->flags & ~NA_NPROF_STACK_VALID) == flags) {
                    if (made != 0) /* another thread was first: ours was never seen */
                        __atomic_store_n(&node_at(made)->flags, 0, __ATOMIC_RELEASE);
                    return id;
                }
            }
        }
    }
    return 0;
}

bool na_stacks_start(void) {
    for (unsigned i = 0; i < LEVELS; i++)
        atomic_store_explicit(&tree.level[i], NULL, memory_order_relaxed);
    na_lock_reset(&tree.lock);
    tree.chunks = na_own_alloc(CHUNK_MAX * sizeof *tree.chunks, 4096);
    if (tree.chunks == NULL) return false;
    atomic_store_explicit(&tree.next, 0, memory_order_relaxed);
    /* Entry 0 stands for no stack; entry 1 is the root. */
    if (level_at(0) == NULL || !add_chunk(0)) return false;
    new_node();
    store_node(new_node(), NA_NPROF_NO_STACK, 0, 0);
    return true;
}

static uint32_t flags_of(uint64_t exact, size_t i, bool truncated, size_t n) {
    return (i < 64 && exact >> i & 1 ? NA_NPROF_STACK_EXACT : 0) |
           (truncated && i == n - 1 ? NA_NPROF_STACK_TRUNCATED : 0);
}

uint32_t na_stacks_capture(na_rthread_t *t) {
    uintptr_t *pcs = t->pcs[!t->current];
    const uintptr_t *last = t->pcs[t->current];
    bool truncated;
    uint64_t exact;
    size_t n = na_unwind_thread(&t->unwind, pcs, NA_STACK_MAX, &exact, &truncated);
    na_nprof_header_t *h = na_rec.header;
    if (truncated) __atomic_fetch_add(&h->truncated_stacks, 1, __ATOMIC_RELAXED);
    /* Outer frames in common with the last stack keep their nodes. Frame numbers count from the
     * inside, so frame i here is frame i + (last_count - n) there. */
    size_t m = t->last_count, same = 0;
    if (exact == 0 && t->last_exact == 0 && truncated == t->last_truncated)
        while (same < n && same < m && pcs[n - 1 - same] == last[m - 1 - same])
            same++;
    if (same == n && same == m && n != 0) return t->last_site;
    uint32_t node = same == 0 ? NA_NPROF_ROOT : t->nodes[m - same];
    if (n > m) /* make room: move the nodes in common to their new numbers */
        for (size_t i = 0; i < same; i++)
            t->nodes[n - 1 - i] = t->nodes[m - 1 - i];
    else
        for (size_t i = same; i-- > 0;)
            t->nodes[n - 1 - i] = t->nodes[m - 1 - i];
    for (size_t i = n - same; i-- > 0;) {
        uint32_t next = child(node, pcs[i], flags_of(exact, i, truncated, n));
        if (next == 0) {
            __atomic_fetch_add(&h->lost_stacks, 1, __ATOMIC_RELAXED);
            t->last_count = 0;
            return NA_NPROF_ROOT;
        }
        t->nodes[i] = node = next;
    }
    t->current = !t->current;
    t->last_count = (uint32_t)n;
    t->last_exact = exact;
    t->last_truncated = truncated;
    t->last_site = node;
    return node;
}
