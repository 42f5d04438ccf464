/* stacks.c - from the calling thread's stack to its node in the tree.
 *
 * A stack is entered from its outermost frame inwards, less the outer frames that it has in common
 * with the thread's last stack (frames.h). In front of the tree each thread has a table of the
 * nodes that it met: small at first, larger for a thread that meets many. Nodes last as long as the
 * file, so a thread that takes over the place of another goes on with its table. */
#include "alloc/core/sys/syscall.h"
#include "profiler/record/python/python_same.h"
#include "profiler/record/stacks/tree.h"
#include "profiler/record/stacks/walk.h"
#include "profiler/record/state/state.h"
#include "profiler/record/unwind/umodules.h"

#define EDGE_BITS_STEP 3
#define EDGE_BITS_MOST 14 /* 2^14 places: 512 KiB */

#define EXPECTED 16u /* look-ups in the tree that are under way at one time */

bool na_stacks_start(void) {
    return na_tree_start();
}

static uint32_t frame_flags(uint64_t exact, size_t i, bool truncated, size_t n) {
    return (i < 64 && exact >> i & 1 ? NA_NPROF_STACK_EXACT : 0) |
           (truncated && i == n - 1 ? NA_NPROF_STACK_TRUNCATED : 0);
}

/* The thread misses often: it gets a larger table, if there is room. */
static NA_COLD void grow_edges(na_rthread_t *t) {
    t->edge_misses = 0;
    if (t->edge_bits >= EDGE_BITS_MOST) return;
    uint64_t bytes = sizeof *t->edges << (t->edge_bits + EDGE_BITS_STEP);
    na_edge_pair_t *edges = na_rec_has_room(bytes) ? na_own_alloc(bytes) : NULL;
    if (edges == NULL) return;
    t->edges = edges; /* what the old one knew will be met again */
    t->edge_bits += EDGE_BITS_STEP;
}

/* Its node; 0: no room. */
static NA_NOINLINE uint32_t unknown_edge(na_rthread_t *t, uint32_t path, uint32_t parent,
                                         uint64_t pc) {
    uint32_t node = na_tree_child_at(path, parent, pc, 0);
    if (NA_UNLIKELY(node == 0) || NA_UNLIKELY(pc >> PC_BITS != 0)) return node;
    if (NA_UNLIKELY(++t->edge_misses > 4u << t->edge_bits)) grow_edges(t);
    na_edge_pair_t *pair = edges_at(t, path);
    pair->edge[1] = pair->edge[0];
    pair->edge[0] = (na_edge_t){key_low(parent, pc), (uint64_t)(parent >> 16) << (64 - 12) |
                                                         (uint64_t)node << CELL_BITS};
    return node;
}

NA_INLINE na_edge_t *known_edge(const na_rthread_t *t, uint32_t path, uint32_t parent,
                                uint64_t pc) {
    return NA_LIKELY(pc >> PC_BITS == 0) ? near_edge(t, path, parent, pc) : NULL;
}

/* What na_tree_child says, by way of the thread's own few. *path: the parent's, then the child's.
 */
NA_INLINE uint32_t known_child(na_rthread_t *t, uint32_t *path, uint32_t parent, uint64_t pc,
                               uint32_t flags) {
    *path = na_tree_path(*path, pc);
    if (NA_UNLIKELY(flags != 0)) return na_tree_child_at(*path, parent, pc, flags);
    const na_edge_t *e = known_edge(t, *path, parent, pc);
    return NA_LIKELY(e != NULL) ? node_of(e) : unknown_edge(t, *path, parent, pc);
}

NA_INLINE void note_on(na_edge_t *e, uint32_t cell) {
    e->parent12_node28_cell24 = (e->parent12_node28_cell24 & ~(uint64_t)CELL_MASK) | cell;
}

void na_stacks_note_cell(na_rthread_t *t, uint32_t cell) {
    if (cell > CELL_MASK) return;
    if (t->stack_edge != NULL) {
        note_on(t->stack_edge, cell);
        if (t->stack_tail->node == node_of(t->stack_edge)) t->stack_tail->cell = cell;
        return;
    }
    if (t->stack_cell == NULL) return;
    *t->stack_cell = cell;
    const na_frame_t *f =
        (const na_frame_t *)((const char *)t->stack_cell - offsetof(na_frame_t, cell));
    uint32_t parent = f != t->frames.frames ? f[-1].node : NA_NPROF_ROOT;
    na_edge_t *e = known_edge(t, f->path, parent, f->pc);
    if (e != NULL) note_on(e, cell);
}

/* No room for a node: what there is of the stack, from the outside, stands for it. */
static NA_COLD uint32_t lost_stack(uint32_t outer) {
    na_rec_lose(&na_rec.header->lost_stacks, 1);
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

/* A stack that is not kept; its frames are in t->pcs. */
typedef struct whole {
    size_t count;
    uint64_t exact;
    bool truncated;
} whole_t;

static NA_NOINLINE whole_t walk_whole(na_rthread_t *t) {
    whole_t w;
    w.count = walk(t, NA_STACK_MAX, &w.exact, &w.truncated);
    return w;
}

static NA_NOINLINE uint32_t enter_whole(na_rthread_t *t, const whole_t *w) {
    if (w->truncated) __atomic_fetch_add(&na_rec.header->truncated_stacks, 1, __ATOMIC_RELAXED);
    uint32_t node = NA_NPROF_ROOT, path = NA_TREE_ROOT_PATH;
    for (size_t i = w->count; i-- > 0;) {
        uint32_t inner = known_child(t, &path, node, t->pcs[i],
                                     frame_flags(w->exact, i, w->truncated, w->count));
        if (NA_UNLIKELY(inner == 0)) return lost_stack(node);
        node = inner;
    }
    return node;
}

_Atomic(numalloc_shadow_t (*)(void)) na_stacks_shadow;
_Atomic uint32_t na_stacks_special;

void na_stacks_special_set(uint32_t what, bool on) {
    uint32_t before = on ? atomic_fetch_or(&na_stacks_special, what)
                         : atomic_fetch_and(&na_stacks_special, ~what);
    if (((before & what) != 0) == on) return;
    atomic_fetch_add_explicit(&na_umodule_generation, 1, memory_order_release);
}

NA_EXPORT void numalloc_use_shadow_stacks(numalloc_shadow_t (*mine)(void)) {
    atomic_store_explicit(&na_stacks_shadow, mine, memory_order_release);
    na_stacks_special_set(NA_STACKS_SHADOW, true);
}

/* Whether two addresses that frames of this thread lie in are of one module; *m is what was found
 * last, all 0 at first. */
static bool in_same_module(na_unwind_module_t *m, uintptr_t a, uintptr_t b) {
    if ((a < m->start || a >= m->end) && na_umodule_find(a, m) == NA_UMODULE_NONE) {
        *m = (na_unwind_module_t){0};
        return false;
    }
    return b >= m->start && b < m->end;
}

/* How many frames of the walk lie in the innermost call or inside of it: up to the one that it
 * returns to. 0: the walk does not get there. */
static size_t walk_to(na_rthread_t *t, uintptr_t call_site, uint64_t *exact, size_t *n) {
    bool truncated;
    /* Mostly the call itself calls malloc. */
    *n = walk(t, 2, exact, &truncated);
    if (*n < 2 || t->pcs[1] == call_site) return *n / 2;
    *n = walk(t, NA_STACK_MAX, exact, &truncated);
    for (size_t i = 1; i < *n; i++) {
        if (t->pcs[i] == call_site) return i;
    }
    return 0;
}

/* The calls that the program has under way, then what lies between the innermost and malloc. A call
 * is known by where it was called from, and so shows its caller. What calls something that tells
 * nothing of itself (a library's function, which calls malloc or back into the program) shows in
 * none, and is entered by its own address. */
static NA_NOINLINE uint32_t capture_shadow(na_rthread_t *t, numalloc_shadow_t calls) {
    uint64_t exact;
    uintptr_t here = (uintptr_t)&exact;
    uint32_t node = NA_NPROF_ROOT, path = NA_TREE_ROOT_PATH;
    na_unwind_module_t module = {0};
    const numalloc_shadow_frame_t *last = NULL;
    for (uint32_t i = 0; i < calls.count; i++) {
        const numalloc_shadow_frame_t *call = &calls.frames[i];
        if (numalloc_shadow_ended(call, here)) break;
        /* One that was inlined into the last has the same place on the stack, and is no frame. */
        bool inlined =
            last != NULL && call->call_site == last->call_site && call->stack == last->stack;
        uint32_t inner = node;
        if (!inlined && last != NULL && !in_same_module(&module, last->function, call->call_site))
            inner = known_child(t, &path, inner, last->function, NA_NPROF_STACK_EXACT);
        if (!inlined && inner != 0) inner = known_child(t, &path, inner, call->call_site, 0);
        if (NA_UNLIKELY(inner == 0)) return lost_stack(node);
        node = inner;
        last = call;
    }
    size_t n, own = last == NULL || calls.lost != 0 ? 0 : walk_to(t, last->call_site, &exact, &n);
    if (own == 0) {
        bool truncated;
        n = own = walk(t, 1, &exact, &truncated);
        if (n != 0 && last != NULL && calls.lost == 0 &&
            !in_same_module(&module, last->function, t->pcs[0])) {
            uint32_t inner = known_child(t, &path, node, last->function, NA_NPROF_STACK_EXACT);
            if (NA_UNLIKELY(inner == 0)) return lost_stack(node);
            node = inner;
        }
    }
    for (size_t i = own; i-- > 0;) {
        uint32_t flags = frame_flags(exact, i, false, n);
        if (i == 0 && calls.lost != 0) flags |= NA_NPROF_STACK_TRUNCATED;
        uint32_t inner = known_child(t, &path, node, t->pcs[i], flags);
        if (NA_UNLIKELY(inner == 0)) return lost_stack(node);
        node = inner;
    }
    return node;
}

/* The kept frames from the ith on, of which that one's edge is not known to the thread. False:
 * there is no room for all, and the others are not kept. */
static NA_NOINLINE bool enter_unknown(na_rthread_t *t, uint32_t i, uint32_t node) {
    na_frames_t *f = &t->frames;
    for (uint32_t j = i; j < f->count && j < i + EXPECTED; j++)
        na_tree_expect(f->frames[j].path);
    for (; i < f->count; i++) {
        na_frame_t *frame = &f->frames[i];
        const na_edge_t *e = known_edge(t, frame->path, node, frame->pc);
        frame->cell = e != NULL ? cell_of(e) : 0;
        node = e != NULL ? node_of(e) : unknown_edge(t, frame->path, node, frame->pc);
        if (NA_UNLIKELY(node == 0)) {
            f->count = i;
            return false;
        }
        frame->node = node;
    }
    return true;
}

/* The node of the kept frames, of which those from `same` on are new. */
static NA_NOINLINE uint32_t enter_kept(na_rthread_t *t, uint32_t same) {
    na_frames_t *f = &t->frames;
    uint32_t node = NA_NPROF_ROOT, path = NA_TREE_ROOT_PATH;
    if (NA_LIKELY(same != 0)) {
        node = f->frames[same - 1].node;
        path = f->frames[same - 1].path;
    }
    uint64_t pcs = 0;
    for (uint32_t i = same; i < f->count; i++) {
        na_frame_t *frame = &f->frames[i];
        pcs |= frame->pc;
        frame->path = path = na_tree_path(path, frame->pc);
        __builtin_prefetch(edges_at(t, path));
    }
    for (uint32_t i = same; i < f->count; i++) {
        na_frame_t *frame = &f->frames[i];
        const na_edge_t *e = NULL;
        if (NA_LIKELY(pcs >> PC_BITS == 0)) e = near_edge(t, frame->path, node, frame->pc);
        if (NA_UNLIKELY(e == NULL)) {
            bool all = enter_unknown(t, i, node);
            node = f->count != 0 ? f->frames[f->count - 1].node : NA_NPROF_ROOT;
            if (NA_UNLIKELY(!all)) return lost_stack(node);
            break;
        }
        frame->node = node = node_of(e);
        frame->cell = cell_of(e);
    }
    if (NA_LIKELY(f->count != 0)) t->stack_cell = &f->frames[f->count - 1].cell;
    return node;
}

uint32_t na_stacks_enter(na_rthread_t *t, uint32_t *path, uint32_t node, uint64_t pc,
                         uint32_t flags) {
    return known_child(t, path, node, pc, flags);
}

/* ---- Python ---- */

/* The same part of a stack is asked for again and again, and walks of it are usual again. */
NA_INLINE void begin_native(na_rthread_t *t) {
    t->native = true;
    t->frames.usual = t->frames.usual_native;
}

NA_INLINE void end_native(na_rthread_t *t) {
    t->frames.usual_native = t->frames.usual;
    t->frames.usual = UINT32_MAX;
    t->native = false;
}

/* The pair of two stacks, just captured; the native one itself if there is no room. */
static NA_NOINLINE na_captured_t make_pair(na_rthread_t *t, na_captured_t native, uint32_t python) {
    uint64_t pc = NA_NPROF_PY_PAIR | python;
    uint32_t path = na_tree_path(native.node, pc);
    na_edge_t *e = near_edge(t, path, native.node, pc);
    if (NA_UNLIKELY(e == NULL)) {
        if (unknown_edge(t, path, native.node, pc) == 0) {
            lost_stack(native.node);
            return native;
        }
        e = near_edge(t, path, native.node, pc);
    }
    t->stack_cell = NULL;
    t->stack_edge = e;
    t->stack_tail = t->frames.tails; /* no tail is of a pair */
    uint64_t stacks = na_py_pair_of(native.node, python);
    *na_py_pair_at(t->python, stacks) = (na_py_pair_t){stacks, node_of(e), cell_of(e)};
    return (na_captured_t){.node = node_of(e), .cell = cell_of(e)};
}

/* The pair of a native stack, just captured, and the thread's Python frames; the former itself if
 * there are none. */
static NA_NOINLINE na_captured_t with_python(na_rthread_t *t, na_captured_t native) {
    uint32_t python = na_python_node(t);
    if (NA_UNLIKELY(t->python == NULL)) t->frames.usual_native = UINT32_MAX; /* no room for it */
    if (NA_UNLIKELY(python == NA_NPROF_ROOT)) return native;
    uint64_t stacks = na_py_pair_of(native.node, python);
    const na_py_pair_t *pair = na_py_pair_at(t->python, stacks);
    if (NA_UNLIKELY(pair->stacks != stacks) || NA_UNLIKELY(pair->cell == 0))
        return make_pair(t, native, python);
    t->stack_cell = NULL; /* the native one's is not the pair's */
    t->stack_edge = NULL;
    return (na_captured_t){.node = pair->node, .cell = pair->cell};
}

static NA_NOINLINE uint32_t capture_with_python(na_rthread_t *t) {
    begin_native(t);
    na_captured_t native = na_stacks_capture_slowly(t);
    end_native(t);
    return with_python(t, native).node;
}

#ifdef NA_STACKS_CHECK
static _Atomic uint64_t kept_walks; /* stacks whose walk was by na_frames_walk */
#define NOTE_KEPT() atomic_fetch_add(&kept_walks, 1)
#else
#define NOTE_KEPT() ((void)0)
#endif

NA_INLINE uint32_t capture(na_rthread_t *t) {
    uint32_t same;
    t->stack_cell = NULL;
    t->stack_edge = NULL;
    uint32_t special = atomic_load_explicit(&na_stacks_special, memory_order_acquire);
    if (NA_UNLIKELY(special != 0)) {
        if ((special & NA_STACKS_PYTHON) != 0 && !t->native) return capture_with_python(t);
        numalloc_shadow_t (*shadow)(void) =
            atomic_load_explicit(&na_stacks_shadow, memory_order_acquire);
        if (shadow != NULL) {
            numalloc_shadow_t calls = shadow();
            if (calls.count != 0) return capture_shadow(t, calls);
        }
    }
    if (NA_UNLIKELY(!na_frames_walk(&t->frames, false, &same))) {
        whole_t w = walk_whole(t);
        bool cut = w.truncated && w.count == NA_STACK_MAX;
        if (!cut || !na_frames_walk(&t->frames, true, &same)) return enter_whole(t, &w);
    }
    NOTE_KEPT();
    return enter_kept(t, same);
}

uint32_t na_stacks_of_pc(uint64_t pc, bool exact) {
    return na_stacks_child(NA_NPROF_ROOT, pc, exact, true);
}

uint32_t na_stacks_child(uint32_t parent, uint64_t pc, bool exact, bool truncated) {
    return na_tree_child(parent, pc,
                         (truncated ? NA_NPROF_STACK_TRUNCATED : 0u) |
                             (exact ? NA_NPROF_STACK_EXACT : 0u));
}

uint32_t na_stacks_parent(uint32_t node) {
    return na_tree_node(node)->parent;
}

void na_stacks_attach(na_rthread_t *t) {
    na_frames_forget(&t->frames);
    t->native = false;
    if (t->python != NULL) na_python_attach(t->python);
    if (t->edges != NULL) return;
    t->edges = t->few_edges;
    t->edge_bits = NA_EDGE_BITS;
}

#if defined(__x86_64__)

/* Of the new frames of a usual walk, those from the ith on have no edges. The innermost is kept as
 * well, inside of `outer`. `node` is that of the one before. */
static NA_NOINLINE na_captured_t enter_unusual(na_rthread_t *t, const na_frame_fresh_t *innermost,
                                               na_frame_t *outer, uint32_t i, uint32_t node) {
    na_frames_t *f = &t->frames;
    keep_plain(f, outer + 1, innermost);
    outer[1].path = na_tree_path(outer->path, outer[1].pc);
    f->count = (uint32_t)(outer + 2 - f->frames);
    bool all = enter_unknown(t, i, node);
    node = f->count != 0 ? f->frames[f->count - 1].node : NA_NPROF_ROOT;
    if (NA_UNLIKELY(!all)) return (na_captured_t){.node = lost_stack(node)};
    t->stack_cell = &f->frames[f->count - 1].cell;
    return (na_captured_t){.node = node, .cell = *t->stack_cell};
}

/* The innermost frame, if it is a new one, is not kept: most are gone when the next event comes,
 * and one that is not is found again by a single step, or in a tail. */
static NA_NOINLINE na_captured_t capture_joined(na_rthread_t *t, na_frame_state_t s) {
    na_frames_t *f = &t->frames;
    na_frame_fresh_t steps[NA_FRAMES_OWN + NA_FRAMES_PLAIN];
    na_frame_tail_t *tail = tail_at(f, &s);
    uint32_t own, n, same;
    const na_frame_t *joined;
    if (!na_frames_begin(f, &s, steps, &own)) return na_stacks_capture_slowly(t);
    na_frame_fresh_t *fresh = steps + own;
    t->stack_cell = NULL;
    t->stack_edge = NULL;
    na_walked_t how = na_frames_join(f, s, fresh, &n, &joined, &same);
    if (NA_UNLIKELY(how == NA_WALKED)) {
        uint32_t node = enter_kept(t, same);
        return (na_captured_t){.node = node, .cell = t->stack_cell != NULL ? *t->stack_cell : 0};
    }
    if (NA_UNLIKELY(how == NA_WALKED_NOT)) return na_stacks_capture_slowly(t);
    na_frame_t *frame = f->frames + (joined - f->frames);
    uint32_t path = frame->path, node = frame->node;
    if (n == 0) {
        /* It will be a new one the next time. A tail will know it then. */
        f->count = (uint32_t)(frame - f->frames);
        t->stack_cell = &frame->cell;
        return (na_captured_t){.node = node, .cell = frame->cell};
    }
    const na_frame_fresh_t *next = fresh + n - 1;
    if (next != fresh) { /* all lines are asked for at once, then looked at */
        na_frame_t *first = frame + 1;
        do {
            keep_plain(f, ++frame, next);
            frame->path = path = na_tree_path(path, frame->pc);
            __builtin_prefetch(edges_at(t, path));
        } while (--next != fresh);
        __builtin_prefetch(edges_at(t, na_tree_path(path, fresh->s.pc)));
        for (; first <= frame; first++) {
            const na_edge_t *e = near_edge(t, first->path, node, first->pc);
            if (NA_UNLIKELY(e == NULL))
                return enter_unusual(t, fresh, frame, (uint32_t)(first - f->frames), node);
            first->node = node = node_of(e);
            first->cell = cell_of(e);
        }
    }
    f->count = (uint32_t)(frame + 1 - f->frames);
    na_edge_t *e = near_edge(t, na_tree_path(path, fresh->s.pc), node, fresh->s.pc);
    if (NA_UNLIKELY(e == NULL)) return enter_unusual(t, fresh, frame, f->count, node);
    na_frames_remember(f, tail, steps, own + n, joined, (size_t)(joined - f->frames), node_of(e),
                       cell_of(e));
    t->stack_edge = e;
    t->stack_tail = tail;
    return (na_captured_t){.node = node_of(e), .cell = cell_of(e)};
}

/* Of the tails that others have taken the places of, the one of the stack that begins so. */
NA_INLINE const na_frame_tail_t *older_of(na_rthread_t *t, const na_frame_state_t *s,
                                          bool cell_wanted) {
    const na_frame_tail_t *older = older_at(&t->frames, s->pc, s->sp);
    for (uint32_t i = 0; i < NA_FRAMES_OLDER; i++, older++)
        if (is_of(t, older, s, cell_wanted)) return older;
    return NULL;
}

/* As na_stacks_capture_inline, once its tail is looked at. */
NA_INLINE na_captured_t capture_older(na_rthread_t *t, na_frame_state_t s, bool cell_wanted) {
    const na_frame_tail_t *older = older_of(t, &s, cell_wanted);
    if (older != NULL) return (na_captured_t){.node = older->node, .cell = older->cell};
    return capture_joined(t, s);
}

NA_NOINLINE na_captured_t na_stacks_capture_again(na_rthread_t *t, na_frame_state_t s,
                                                  bool cell_wanted) {
    return capture_older(t, s, cell_wanted);
}

/* The native part of a stack that may have Python frames, where no tail is known to be of it. */
static NA_NOINLINE na_captured_t capture_native(na_rthread_t *t, const void *entered) {
    begin_native(t);
    na_captured_t native = capture_joined(t, na_frames_entered(entered));
    end_native(t);
    return native;
}

/* Something differs from earlier events, or it is not known that walks of the native part are
 * usual. */
static NA_NOINLINE na_captured_t capture_any(na_rthread_t *t, const void *entered) {
    if ((atomic_load_explicit(&na_stacks_special, memory_order_acquire) & NA_STACKS_PYTHON) == 0)
        return capture_joined(t, na_frames_entered(entered));
    return with_python(t, capture_native(t, entered));
}

static NA_NOINLINE const na_frame_tail_t *native_older(na_rthread_t *t, const na_frame_state_t *s) {
    return older_of(t, s, false);
}

/* Where both stacks are as they were at earlier events, what these came to is, too. While walks of
 * the native part are usual there is an interpreter (na_stacks_special_set sees to it), and room
 * for what is known of its frames (with_python does). */
NA_NOINLINE na_captured_t na_stacks_capture_unusual(na_rthread_t *t, const void *entered,
                                                    bool cell_wanted) {
    uint32_t generation = atomic_load_explicit(&na_umodule_generation, memory_order_acquire);
    if (NA_UNLIKELY(generation != t->frames.usual_native)) return capture_any(t, entered);
    na_frame_state_t s = na_frames_entered(entered);
    const na_frame_tail_t *tail = tail_at(&t->frames, &s);
    if (NA_UNLIKELY(!is_of(t, tail, &s, false)) && (tail = native_older(t, &s)) == NULL)
        return capture_any(t, entered);
    uintptr_t frame;
    na_py_found_t found;
    const na_py_frame_t *same = na_python_same(t, &frame, &found);
    na_captured_t native = {.node = tail->node, .cell = 0};
    if (NA_UNLIKELY(same == NULL) && frame == 0) {
        t->stack_cell = NULL;
        t->stack_edge = NULL;
        return with_python(t, native);
    }
    uint32_t python = same != NULL ? same->node : na_python_walk(t, frame, &found);
    if (NA_UNLIKELY(python == NA_NPROF_ROOT)) {
        t->stack_cell = NULL;
        t->stack_edge = NULL;
        return native;
    }
    uint64_t stacks = na_py_pair_of(native.node, python);
    const na_py_pair_t *pair = na_py_pair_at(t->python, stacks);
    if (NA_LIKELY(pair->stacks == stacks) && (NA_LIKELY(pair->cell != 0) || !cell_wanted))
        return (na_captured_t){.node = pair->node, .cell = pair->cell};
    return make_pair(t, native, python);
}

#endif

na_captured_t na_stacks_capture_slowly(na_rthread_t *t) {
    uint32_t node = na_stacks_capture(t);
    return (na_captured_t){.node = node, .cell = t->stack_cell != NULL ? *t->stack_cell : 0};
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
 *   NUMALLOC_STACKS_COUNT   if set, the number of stacks is said at the end, and of how many the
 * whole walk joined kept frames (on x86-64 most come by a shorter way) */
#include <unistd.h>

#include "alloc/core/sys/os.h"

#define CHECK_MOST 8192u /* frames compared, from the innermost */

_Atomic uint64_t na_stacks_stop_at;
static _Atomic uint64_t stacks;
static uint64_t every = 1;

static uint64_t option_number(const char *name, uint64_t otherwise) {
    const char *s = na_os_getenv(name);
    if (s == NULL || *s == 0) return otherwise;
    uint64_t v = 0;
    while (*s >= '0' && *s <= '9')
        v = v * 10 + (uint64_t)(*s++ - '0');
    return v;
}

__attribute__((constructor)) static void start_check(void) {
    every = option_number("NUMALLOC_STACKS_EVERY", 1);
    atomic_store(&na_stacks_stop_at, option_number("NUMALLOC_STACKS_STOP", 0));
}

static void write_check_text(const char *s) {
    size_t n = 0;
    while (s[n] != 0)
        n++;
    na_sys3(SYS_write, STDERR_FILENO, (long)s, (long)n);
}

static void write_check_number(uint64_t v, unsigned base) {
    char s[24];
    unsigned at = sizeof s;
    s[--at] = 0;
    do
        s[--at] = "0123456789abcdef"[v % base];
    while ((v /= base) != 0);
    write_check_text(s + at);
}

__attribute__((destructor)) static void end_check(void) {
    if (na_os_getenv("NUMALLOC_STACKS_COUNT") == NULL) return;
    write_check_text("kept: ");
    write_check_number(atomic_load(&kept_walks), 10);
    write_check_text("\nstacks: ");
    write_check_number(atomic_load(&stacks), 10);
    write_check_text("\n");
}

static NA_COLD void differs(const uintptr_t *recorded, size_t m, const uintptr_t *walked,
                            size_t n) {
    write_check_text("numalloc: a stack is not as walked; recorded, walked:\n");
    for (size_t i = 0; i < m || i < n; i++) {
        write_check_text("  ");
        write_check_number(i < m ? recorded[i] : 0, 16);
        write_check_text("  ");
        write_check_number(i < n ? walked[i] : 0, 16);
        write_check_text("\n");
    }
    __builtin_trap();
}

/* The stack of a node, innermost first; at most CHECK_MOST frames. */
static size_t unroll(uint32_t node, uintptr_t *pcs, bool *truncated) {
    size_t n = 0;
    *truncated = false;
    for (; node > NA_NPROF_ROOT && n < CHECK_MOST; node = na_tree_node(node)->parent) {
        *truncated = (na_tree_node(node)->flags & NA_NPROF_STACK_TRUNCATED) != 0;
        pcs[n++] = na_tree_node(node)->pc;
    }
    return n;
}

NA_NOINLINE void na_stacks_stop(const uintptr_t *recorded, size_t n, bool truncated);
NA_NOINLINE void na_stacks_stop(const uintptr_t *recorded, size_t n, bool truncated) {
    __asm__ volatile("" ::"r"(recorded), "r"(n), "r"((int)truncated) : "memory");
}

static NA_NOINLINE uint32_t check_kept(na_rthread_t *t, uint32_t node) {
    static NA_TLS uintptr_t recorded[CHECK_MOST], walked[CHECK_MOST];
    uint64_t nth = atomic_fetch_add(&stacks, 1) + 1;
    bool stop = nth == atomic_load(&na_stacks_stop_at);
    bool check = every != 0 && nth % every == 0;
    if (node > NA_NPROF_ROOT && na_tree_is_pair(na_tree_node(node)->pc))
        node = na_tree_node(node)->parent;
    if ((!stop && !check) || node == NA_NPROF_ROOT ||
        atomic_load_explicit(&na_stacks_shadow, memory_order_relaxed) != NULL)
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

static NA_TLS bool checked_there;

uint32_t na_stacks_capture(na_rthread_t *t) {
    checked_there = true;
    return check_kept(t, capture(t));
}

na_captured_t na_stacks_capture_from(na_rthread_t *t, const void *entered, bool cell_wanted) {
    checked_there = false;
    na_captured_t stack = na_stacks_capture_inline(t, entered, cell_wanted);
    if (!checked_there) check_kept(t, stack.node);
    return stack;
}

#endif
