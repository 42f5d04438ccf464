/* tree.c - nodes in the file, and the hash table that finds them.
 *
 * A large program has a million nodes and meets them in no order, so what a look-up costs is the
 * cache lines that it touches: one. The table is open-addressed, and its slots hold the whole key,
 * so that the node itself is not read. Where a node's slot is, its path says (tree.h); the paths of
 * all nodes are kept for the table's growth, and for those who do not know a parent's.
 *
 * Readers take no lock. A slot is written once: the key, then (release) the word that makes it
 * valid. Whoever does not find a node looks again under the lock and makes it there, so there is
 * never a second one. The table is replaced by one of twice the size when three quarters are full
 * (of four times, while it is small and the user has set no limit); the old one's pages are given
 * back while readers may still be in it: they find it empty, and come to the lock. */
#include "profiler/record/stacks/tree.h"

#include <stdatomic.h>

#include "profiler/record/state/state.h"

#define CHUNK_BYTES (64u << 10)
#define PER_CHUNK   ((CHUNK_BYTES - 64u) / 16u)
#define CHUNK_MAX   65536u

#define FIRST_SLOTS 2048u
#define FEW_SLOTS   (1u << 17) /* 2 MiB */

/* Ids are below 2^28, which leaves room for the two flags. */
#define ID_BITS 28
_Static_assert((uint64_t)CHUNK_MAX *PER_CHUNK <= 1u << ID_BITS, "an id and two flags in 32 bits");
_Static_assert((NA_NPROF_STACK_TRUNCATED | NA_NPROF_STACK_EXACT) >> 1 <= 3, "two flags");

typedef struct slot {
    uint64_t pc;
    _Atomic uint64_t word; /* parent:32, flags:4, id:28; 0: free */
} slot_t;

typedef struct table {
    uint32_t mask;
    slot_t *slots;
} table_t;

static struct {
    _Atomic(na_nprof_stack_t *) *chunks; /* entry 0 of each chunk */
    uint32_t **paths;                    /* of the same entries; written before the chunk */
    _Atomic(table_t *) table;
    table_t tables[20]; /* each larger than the one before */
    na_lock_t lock;     /* for what follows, and to write to all of the above */
    unsigned table_count;
    uint32_t next; /* node id; read without the lock as well */
} tree;

uint32_t na_tree_bound(void) {
    return __atomic_load_n(&tree.next, __ATOMIC_RELAXED);
}

const na_nprof_stack_t *na_tree_node(uint32_t id) {
    const na_nprof_stack_t *chunk =
        atomic_load_explicit(&tree.chunks[id / PER_CHUNK], memory_order_acquire);
    return chunk + id % PER_CHUNK;
}

static uint32_t node_path(uint32_t id) {
    return tree.paths[id / PER_CHUNK][id % PER_CHUNK];
}

NA_INLINE uint32_t flags_of_word(uint64_t word) {
    return (uint32_t)word >> ID_BITS << 1;
}

NA_INLINE uint32_t id_of_word(uint64_t word) {
    return (uint32_t)word & ((1u << ID_BITS) - 1);
}

/* The node, or 0 and where it would be. */
NA_INLINE uint32_t find(const table_t *t, uint32_t path, uint32_t parent, uint64_t pc,
                        uint32_t flags, slot_t **free_slot) {
    for (uint32_t i = path;; i++) {
        slot_t *s = &t->slots[i & t->mask];
        uint64_t word = atomic_load_explicit(&s->word, memory_order_acquire);
        if (word == 0) {
            *free_slot = s;
            return 0;
        }
        if (word >> 32 == parent && s->pc == pc && flags_of_word(word) == flags)
            return id_of_word(word);
    }
}

static void fill_slot(slot_t *s, uint32_t id, uint32_t parent, uint64_t pc, uint32_t flags) {
    s->pc = pc;
    atomic_store_explicit(&s->word, (uint64_t)parent << 32 | flags >> 1 << ID_BITS | id,
                          memory_order_release);
}

/* ---- under the lock ---- */

static bool add_chunk(uint32_t k) {
    uint64_t paths = PER_CHUNK * sizeof **tree.paths;
    if (k != 0 && !na_rec_has_room(CHUNK_BYTES + paths)) return false;
    if (tree.paths[k] == NULL && (tree.paths[k] = na_own_alloc(paths)) == NULL) return false;
    na_nprof_chunk_t *c = na_writer_chunk(NA_NPROF_STACKS, CHUNK_BYTES, sizeof(na_nprof_stack_t), 0,
                                          k, k * PER_CHUNK);
    if (c == NULL) return false;
    na_writer_publish(c);
    atomic_store_explicit(&tree.chunks[k], (na_nprof_stack_t *)(c + 1), memory_order_release);
    return true;
}

/* 0: the file cannot grow. */
static uint32_t new_node(uint32_t path, uint32_t parent, uint64_t pc, uint32_t flags) {
    uint32_t id = tree.next, k = id / PER_CHUNK;
    if (k >= CHUNK_MAX) return 0;
    na_nprof_stack_t *chunk = atomic_load_explicit(&tree.chunks[k], memory_order_relaxed);
    if (chunk == NULL) {
        if (!add_chunk(k)) return 0;
        chunk = atomic_load_explicit(&tree.chunks[k], memory_order_relaxed);
    }
    tree.paths[k][id % PER_CHUNK] = path;
    __atomic_store_n(&tree.next, id + 1, __ATOMIC_RELAXED);
    na_nprof_stack_t *n = chunk + id % PER_CHUNK;
    n->parent = parent;
    n->pc = pc;
    flags |= NA_NPROF_STACK_VALID;
    flags |= na_nprof_stack_check((na_nprof_stack_t){parent, flags, pc});
    __atomic_store_n(&n->flags, flags, __ATOMIC_RELEASE);
    __atomic_store_n(&((na_nprof_chunk_t *)chunk - 1)->count, id % PER_CHUNK + 1, __ATOMIC_RELEASE);
    return id;
}

/* Node `id` and all before it, the root excepted, go into a table of `slots`. */
static bool make_node_table(uint32_t slots) {
    uint64_t bytes = slots * sizeof(slot_t);
    if (tree.table_count == sizeof tree.tables / sizeof tree.tables[0] ||
        (tree.table_count != 0 && !na_rec_has_room(bytes)))
        return false;
    slot_t *room = na_own_alloc(bytes);
    if (room == NULL) return false;
    table_t *t = &tree.tables[tree.table_count++];
    *t = (table_t){slots - 1, room};
    for (uint32_t id = NA_NPROF_ROOT + 1; id < tree.next; id++) {
        const na_nprof_stack_t *n = na_tree_node(id);
        uint32_t flags = n->flags & (NA_NPROF_STACK_TRUNCATED | NA_NPROF_STACK_EXACT);
        slot_t *s = NULL;
        if (find(t, node_path(id), n->parent, n->pc, flags, &s) == 0)
            fill_slot(s, id, n->parent, n->pc, flags);
    }
    const table_t *old = atomic_load_explicit(&tree.table, memory_order_relaxed);
    atomic_store_explicit(&tree.table, t, memory_order_release);
    if (old != NULL) na_own_give_back(old->slots, ((uint64_t)old->mask + 1) * sizeof(slot_t));
    return true;
}

static uint32_t make_child(uint32_t path, uint32_t parent, uint64_t pc, uint32_t flags) {
    const table_t *t = atomic_load_explicit(&tree.table, memory_order_relaxed);
    slot_t *s = NULL;
    uint32_t id = find(t, path, parent, pc, flags, &s);
    if (id != 0) return id;
    /* A table that may not grow is filled further; one free slot has to remain. */
    if (tree.next > (t->mask + 1) / 4 * 3) {
        bool few = t->mask < FEW_SLOTS && na_rec.own_limit == 0;
        if (make_node_table((t->mask + 1) * (few ? 4 : 2))) {
            t = atomic_load_explicit(&tree.table, memory_order_relaxed);
            find(t, path, parent, pc, flags, &s);
        } else if (tree.next > t->mask / 16 * 15) {
            return 0;
        }
    }
    id = new_node(path, parent, pc, flags);
    if (id != 0) fill_slot(s, id, parent, pc, flags);
    return id;
}

/* ---- for all ---- */

static NA_NOINLINE uint32_t look_again(uint32_t path, uint32_t parent, uint64_t pc,
                                       uint32_t flags) {
    na_lock(&tree.lock);
    uint32_t id = make_child(path, parent, pc, flags);
    na_unlock(&tree.lock);
    return id;
}

uint32_t na_tree_child_at(uint32_t path, uint32_t parent, uint64_t pc, uint32_t flags) {
    slot_t *s;
    const table_t *t = atomic_load_explicit(&tree.table, memory_order_acquire);
    uint32_t id = find(t, path, parent, pc, flags, &s);
    return NA_LIKELY(id != 0) ? id : look_again(path, parent, pc, flags);
}

uint32_t na_tree_child(uint32_t parent, uint64_t pc, uint32_t flags) {
    return na_tree_child_at(na_tree_path(node_path(parent), pc), parent, pc, flags);
}

void na_tree_expect(uint32_t path) {
    const table_t *t = atomic_load_explicit(&tree.table, memory_order_acquire);
    __builtin_prefetch(&t->slots[path & t->mask]);
}

bool na_tree_start(void) {
    atomic_store_explicit(&tree.table, NULL, memory_order_relaxed);
    tree.table_count = 0;
    tree.next = 0;
    na_lock_reset(&tree.lock);
    tree.chunks = na_own_alloc(CHUNK_MAX * sizeof *tree.chunks);
    tree.paths = na_own_alloc(CHUNK_MAX * sizeof *tree.paths);
    /* Entry 0 stands for no stack; entry 1 is the root. */
    if (tree.chunks == NULL || tree.paths == NULL || !make_node_table(FIRST_SLOTS) || !add_chunk(0))
        return false;
    tree.next = NA_NPROF_ROOT;
    return new_node(NA_TREE_ROOT_PATH, NA_NPROF_NO_STACK, 0, 0) == NA_NPROF_ROOT;
}
