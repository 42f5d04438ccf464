/* stacks.c - the tree of call stacks, shared by all threads, in the file.
 *
 * A node is (parent, frame); a stack is entered from its outermost frame inwards, one step in a
 * hash table a frame, less the outer frames that it has in common with the thread's last stack
 * (frames.h). In front of the shared table each thread has a small one of its own.
 *
 * The hash is a chain of tables, each eight times the one before, of 64-byte buckets; a bucket that
 * is full sends its overflow to the next table. Slots are filled in order by compare-and-swap and
 * never emptied, so two threads that enter the same node meet at the same slot, and a reader needs
 * no lock: {check of the key:32, node:32}. */
#include "profiler/record/state.h"
#include "profiler/record/sys.h"

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

/* child, by way of the thread's own few. */
NA_INLINE uint32_t known_child(na_rthread_t *t, uint32_t parent, uint64_t pc, uint32_t flags) {
    uint64_t h = (pc ^ parent) * UINT64_C(0x9e3779b97f4a7c15);
    na_edge_t *e = &t->edges[h >> (64 - NA_EDGE_BITS)];
    if (NA_LIKELY(e->pc == pc && e->parent == parent && flags == 0)) return e->node;
    uint32_t node = child(parent, pc, flags);
    if (node != 0 && flags == 0) *e = (na_edge_t){pc, parent, node};
    return node;
}

static NA_COLD uint32_t lost(void) {
    __atomic_fetch_add(&na_rec.header->lost_stacks, 1, __ATOMIC_RELAXED);
    return NA_NPROF_ROOT;
}

/* A stack that is not kept. */
static NA_NOINLINE uint32_t capture_whole(na_rthread_t *t) {
    bool truncated;
    uint64_t exact;
    size_t n = na_unwind_thread(&t->frames.stack, t->pcs, NA_STACK_MAX, &exact, &truncated);
    if (truncated) __atomic_fetch_add(&na_rec.header->truncated_stacks, 1, __ATOMIC_RELAXED);
    uint32_t node = NA_NPROF_ROOT;
    for (size_t i = n; i-- > 0;) {
        node = known_child(t, node, t->pcs[i], flags_of(exact, i, truncated, n));
        if (NA_UNLIKELY(node == 0)) return lost();
    }
    return node;
}

NA_INLINE uint32_t capture(na_rthread_t *t) {
    uint32_t same;
    na_frames_t *f = &t->frames;
    if (NA_UNLIKELY(!na_frames_walk(f, &same))) return capture_whole(t);
    uint32_t node = same != 0 ? f->frames[same - 1].node : NA_NPROF_ROOT;
    for (uint32_t i = same; i < f->count; i++) {
        node = known_child(t, node, f->frames[i].pc, 0);
        if (NA_UNLIKELY(node == 0)) {
            f->count = i;
            return lost();
        }
        f->frames[i].node = node;
    }
    return node;
}

void na_stacks_forget(na_rthread_t *t) {
    na_frames_forget(&t->frames);
    for (unsigned i = 0; i < NA_EDGES; i++)
        t->edges[i] = (na_edge_t){0, 0, 0};
}

#ifndef NA_STACKS_CHECK

uint32_t na_stacks_capture(na_rthread_t *t) {
    return capture(t);
}

#else

/* A library made for tests holds every stack against the walk that keeps nothing. */
#include <unistd.h>

#define CHECK_MOST 8192u /* frames compared, from the innermost */

static void put(const char *s) {
    size_t n = 0;
    while (s[n] != 0)
        n++;
    na_sys3(SYS_write, STDERR_FILENO, (long)s, (long)n);
}

static void put_hex(uint64_t v) {
    char s[20];
    unsigned at = sizeof s;
    s[--at] = 0;
    do
        s[--at] = "0123456789abcdef"[v & 15];
    while ((v >>= 4) != 0);
    put(s + at);
}

static NA_COLD void differs(uint32_t node, const uintptr_t *pcs, size_t n) {
    put("numalloc: a kept stack is wrong; kept, walked:\n");
    for (size_t i = 0; node > NA_NPROF_ROOT || i < n; i++) {
        put("  ");
        put_hex(node > NA_NPROF_ROOT ? node_at(node)->pc : 0);
        put("  ");
        put_hex(i < n ? pcs[i] : 0);
        put("\n");
        if (node > NA_NPROF_ROOT) node = node_at(node)->parent;
    }
    __builtin_trap();
}

uint32_t na_stacks_capture(na_rthread_t *t) {
    uint32_t node = capture(t), at = node;
    static NA_TLS uintptr_t pcs[CHECK_MOST];
    bool truncated;
    size_t n = na_unwind_exact(&t->frames.stack, pcs, CHECK_MOST, NULL, &truncated);
    if (node == NA_NPROF_ROOT) return node; /* lost, and counted */
    for (size_t i = 0; i < n; i++) {
        bool cut = (node_at(at)->flags & NA_NPROF_STACK_TRUNCATED) != 0;
        if (at == NA_NPROF_ROOT || node_at(at)->pc != pcs[i]) differs(node, pcs, n);
        at = node_at(at)->parent;
        if (cut && at == NA_NPROF_ROOT && (n > i + 1 || truncated)) return node;
    }
    if (at != NA_NPROF_ROOT && n < CHECK_MOST) differs(node, pcs, n);
    return node;
}

#endif
