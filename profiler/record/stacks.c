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
#include "numalloc/instrument.h"
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
        na_nprof_chunk_t *c = NULL;
        if (k == 0 || na_rec_has_room(CHUNK_BYTES))
            c = na_writer_chunk(NA_NPROF_STACKS, CHUNK_BYTES, sizeof(na_nprof_stack_t), 0, k,
                                k * PER_CHUNK);
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
        t = i == 0 || na_rec_has_room(bytes) ? na_own_alloc(bytes, bytes) : NULL;
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
    na_edge_t *e = t->edges[h >> (64 - NA_EDGE_BITS)];
    if (NA_LIKELY(e[0].pc == pc && e[0].parent == parent && flags == 0)) return e[0].node;
    if (NA_LIKELY(e[1].pc == pc && e[1].parent == parent && flags == 0)) return e[1].node;
    uint32_t node = child(parent, pc, flags);
    if (node != 0 && flags == 0) {
        e[1] = e[0];
        e[0] = (na_edge_t){pc, parent, node};
    }
    return node;
}

/* No room for a node: what there is of the stack, from the outside, stands for it. */
static NA_COLD uint32_t lost(uint32_t outer) {
    __atomic_fetch_add(&na_rec.header->lost_stacks, 1, __ATOMIC_RELAXED);
    return outer;
}

/* The stack as seen from na_stacks_capture's caller, by a function that na_stacks_capture called.
 * In a program that holds this code itself no frames are left out but theirs two. */
NA_INLINE size_t walk(na_rthread_t *t, size_t max, uint64_t *exact, bool *truncated) {
    size_t theirs = na_unwind_skip_hi == 0 ? 2 : 0;
    size_t n = na_unwind_thread(&t->frames.stack, t->pcs, max + theirs, exact, truncated);
    if (theirs == 0) return n;
    *exact >>= theirs;
    if (n <= theirs) return 0;
    for (size_t i = theirs; i < n; i++)
        t->pcs[i - theirs] = t->pcs[i];
    return n - theirs;
}

/* A stack that is not kept. */
static NA_NOINLINE uint32_t capture_whole(na_rthread_t *t) {
    bool truncated;
    uint64_t exact;
    size_t n = walk(t, NA_STACK_MAX, &exact, &truncated);
    if (truncated) __atomic_fetch_add(&na_rec.header->truncated_stacks, 1, __ATOMIC_RELAXED);
    uint32_t node = NA_NPROF_ROOT;
    for (size_t i = n; i-- > 0;) {
        uint32_t inner = known_child(t, node, t->pcs[i], flags_of(exact, i, truncated, n));
        if (NA_UNLIKELY(inner == 0)) return lost(node);
        node = inner;
    }
    return node;
}

/* Who keeps the calls of each thread, where the program does it itself. */
static _Atomic(numalloc_shadow_t (*)(void)) shadow_of_thread;

NA_EXPORT void numalloc_use_shadow_stacks(numalloc_shadow_t (*mine)(void)) {
    atomic_store_explicit(&shadow_of_thread, mine, memory_order_release);
}

/* The caller of malloc, then the calls that the program has under way. */
static NA_NOINLINE uint32_t capture_shadow(na_rthread_t *t, numalloc_shadow_t calls) {
    bool truncated;
    uint64_t exact;
    uintptr_t here = (uintptr_t)&exact;
    uint32_t node = NA_NPROF_ROOT;
    for (uint32_t i = 0; i < calls.count; i++) {
        if (numalloc_shadow_ended(&calls.frames[i], here)) break;
        uint32_t inner = known_child(t, node, calls.frames[i].call_site, 0);
        if (NA_UNLIKELY(inner == 0)) return lost(node);
        node = inner;
    }
    if (walk(t, 1, &exact, &truncated) == 0) return node;
    uint32_t flags = calls.lost != 0 ? NA_NPROF_STACK_TRUNCATED : 0;
    uint32_t inner = known_child(t, node, t->pcs[0], flags);
    return inner != 0 ? inner : lost(node);
}

NA_INLINE uint32_t capture(na_rthread_t *t) {
    uint32_t same;
    na_frames_t *f = &t->frames;
    numalloc_shadow_t (*shadow)(void) =
        atomic_load_explicit(&shadow_of_thread, memory_order_acquire);
    if (NA_UNLIKELY(shadow != NULL)) {
        numalloc_shadow_t calls = shadow();
        if (calls.count != 0) return capture_shadow(t, calls);
    }
    if (NA_UNLIKELY(!na_frames_walk(f, &same))) return capture_whole(t);
    uint32_t node = same != 0 ? f->frames[same - 1].node : NA_NPROF_ROOT;
    for (uint32_t i = same; i < f->count; i++) {
        uint32_t inner = known_child(t, node, f->frames[i].pc, 0);
        if (NA_UNLIKELY(inner == 0)) {
            f->count = i;
            return lost(node);
        }
        f->frames[i].node = node = inner;
    }
    return node;
}

uint32_t na_stacks_parent(uint32_t node) {
    return node_at(node)->parent;
}

void na_stacks_forget(na_rthread_t *t) {
    na_frames_forget(&t->frames);
    for (unsigned i = 0; i < NA_EDGES; i++)
        t->edges[i][0] = t->edges[i][1] = (na_edge_t){0, 0, 0};
}

#ifndef NA_STACKS_CHECK

uint32_t na_stacks_capture(na_rthread_t *t) {
    uint32_t node = capture(t);
    __asm__("" : "+r"(node)); /* no tail call: what walks counts on this frame */
    return node;
}

#else

/* A library made for tests. It holds stacks, as they are in the tree, against the walk that keeps
 * nothing and caches no rule, and dies where they differ:
 *   NUMALLOC_STACKS_EVERY   at every so many stacks; 0: at none; 1 is the default
 *   NUMALLOC_STACKS_STOP    at this stack na_stacks_stop is called, where a debugger may have its
 *                           say; it may set na_stacks_stop_at to a later one
 *   NUMALLOC_STACKS_COUNT   if set, the number of stacks is said at the end */
#include <unistd.h>

#include "alloc/os.h"

#define CHECK_MOST 8192u /* frames compared, from the innermost */

_Atomic uint64_t na_stacks_stop_at;
static _Atomic uint64_t stacks;
static uint64_t every = 1;

static uint64_t number(const char *name, uint64_t otherwise) {
    const char *s = na_os_getenv(name);
    if (s == NULL || *s == 0) return otherwise;
    uint64_t v = 0;
    while (*s >= '0' && *s <= '9')
        v = v * 10 + (uint64_t)(*s++ - '0');
    return v;
}

__attribute__((constructor)) static void start_check(void) {
    every = number("NUMALLOC_STACKS_EVERY", 1);
    atomic_store(&na_stacks_stop_at, number("NUMALLOC_STACKS_STOP", 0));
}

static void put(const char *s) {
    size_t n = 0;
    while (s[n] != 0)
        n++;
    na_sys3(SYS_write, STDERR_FILENO, (long)s, (long)n);
}

static void put_number(uint64_t v, unsigned base) {
    char s[24];
    unsigned at = sizeof s;
    s[--at] = 0;
    do
        s[--at] = "0123456789abcdef"[v % base];
    while ((v /= base) != 0);
    put(s + at);
}

__attribute__((destructor)) static void end_check(void) {
    if (na_os_getenv("NUMALLOC_STACKS_COUNT") == NULL) return;
    put("stacks: ");
    put_number(atomic_load(&stacks), 10);
    put("\n");
}

static NA_COLD void differs(const uintptr_t *recorded, size_t m, const uintptr_t *walked,
                            size_t n) {
    put("numalloc: a stack is not as walked; recorded, walked:\n");
    for (size_t i = 0; i < m || i < n; i++) {
        put("  ");
        put_number(i < m ? recorded[i] : 0, 16);
        put("  ");
        put_number(i < n ? walked[i] : 0, 16);
        put("\n");
    }
    __builtin_trap();
}

/* The stack of a node, innermost first; at most CHECK_MOST frames. */
static size_t unroll(uint32_t node, uintptr_t *pcs, bool *truncated) {
    size_t n = 0;
    *truncated = false;
    for (; node > NA_NPROF_ROOT && n < CHECK_MOST; node = node_at(node)->parent) {
        *truncated = (node_at(node)->flags & NA_NPROF_STACK_TRUNCATED) != 0;
        pcs[n++] = node_at(node)->pc;
    }
    return n;
}

NA_NOINLINE void na_stacks_stop(const uintptr_t *recorded, size_t n, bool truncated);
NA_NOINLINE void na_stacks_stop(const uintptr_t *recorded, size_t n, bool truncated) {
    __asm__ volatile("" ::"r"(recorded), "r"(n), "r"((int)truncated) : "memory");
}

uint32_t na_stacks_capture(na_rthread_t *t) {
    static NA_TLS uintptr_t recorded[CHECK_MOST], walked[CHECK_MOST];
    uint32_t node = capture(t);
    uint64_t nth = atomic_fetch_add(&stacks, 1) + 1;
    bool stop = nth == atomic_load(&na_stacks_stop_at);
    bool check = every != 0 && nth % every == 0;
    if ((!stop && !check) || node == NA_NPROF_ROOT ||
        atomic_load_explicit(&shadow_of_thread, memory_order_relaxed) != NULL)
        return node;
    bool recorded_cut, walked_cut;
    size_t m = unroll(node, recorded, &recorded_cut);
    size_t n = na_unwind_exact(&t->frames.stack, walked, CHECK_MOST, NULL, &walked_cut);
    /* What is not kept is cut at NA_STACK_MAX frames, and says so. */
    bool equal = m == n || (recorded_cut && m == NA_STACK_MAX && n > m);
    for (size_t i = 0; i < m && i < n; i++)
        equal = equal && recorded[i] == walked[i];
    if (!equal || (m == n && m < CHECK_MOST && recorded_cut != walked_cut))
        differs(recorded, m, walked, n);
    if (stop) na_stacks_stop(recorded, m, recorded_cut);
    return node;
}

#endif
