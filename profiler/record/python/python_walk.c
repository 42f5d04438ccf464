/* python_walk.c - the chain of frames, compared with the one kept. See python.h. */
#include <errno.h>
#include <sys/syscall.h>

#include "alloc/sys/syscall.h"
#include "alloc/sys/thread.h"
#include "profiler/record/python/python.h"
#include "profiler/record/unwind/umodules.h"

#define PAGE_BITS       12
#define ADDRESSES       (UINT64_C(1) << 47)
#define LOOK_BACK       32 /* kept frames looked at for one that may be the same */
#define STALE_MOST      8  /* kept frames further in than the chain is now */
#define OWNER_SHIM      3  /* and above: of the C stack, which marks where native code called */
#define OWNER_GENERATOR 1
#define ROOT_PATH       0u /* the root's (tree.h) */

const na_record_t na_py_no_record;

NA_INLINE uintptr_t word_at(uintptr_t at) {
    return *(const uintptr_t *)at;
}

static NA_COLD void count(uint64_t *counter) {
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- what can be read ---- */

/* The kernel copies the mask before it finds that there is no such request. */
static NA_COLD bool ask_kernel(uintptr_t page) {
    return na_sys4(SYS_rt_sigprocmask, -1, (long)(page << PAGE_BITS), 0, 8) == -EINVAL;
}

bool na_py_can_read(na_py_thread_t *p, uintptr_t at, size_t bytes) {
    if (at < 4096 || at >= ADDRESSES || bytes > ADDRESSES - at) return false;
    for (uintptr_t page = at >> PAGE_BITS; page <= (at + bytes - 1) >> PAGE_BITS; page++) {
        uintptr_t *known = &p->pages[page % NA_PY_PAGES];
        if (NA_LIKELY(*known == page)) continue;
        if (!ask_kernel(page)) return false;
        *known = page;
    }
    return true;
}

/* ---- whose chain ---- */

/* The state of the thread that has the GIL, where that is this thread's: of a second interpreter,
 * which the thread's own key does not tell. It may be another's, who ends at this moment. */
static NA_NOINLINE bool is_mine(na_py_thread_t *p, const void *state) {
    uintptr_t at = (uintptr_t)state + na_py.layout.thread_id;
    return na_py_can_read(p, at, 8) && word_at(at) == na_thread_pointer();
}

static const void *thread_state(na_py_thread_t *p) {
    const void *current = na_py.current_state();
    if (na_py.layout.version >= 0x030c && NA_LIKELY(current != NULL)) return current;
    /* A state is of one thread as long as it is there; this one is there, it has the GIL. */
    if (NA_LIKELY(current != NULL && current == p->state) &&
        NA_LIKELY(word_at((uintptr_t)current + na_py.layout.thread_id) == na_thread_pointer()))
        return current;
    const void *own = na_py.own_state();
    p->state = own;
    if (NA_LIKELY(own == current)) return own;
    if (current != NULL && is_mine(p, current)) return current;
    if (own != NULL && na_py.is_finalizing()) {
        count(&na_py_entry->finalizing);
        return NULL;
    }
    return own;
}

/* The interpreter may be unloaded, but not while one of its frames is below. */
static bool is_loaded(void) {
    na_unwind_module_t m;
    return na_umodule_find(na_py.eval, &m) >= NA_UMODULE_KNOWN && m.start == na_py.start &&
           m.link_map == na_py.link_map;
}

/* The innermost frame, 0: none. */
static uintptr_t innermost(na_py_thread_t *p) {
    const na_py_layout_t *l = &na_py.layout;
    if (NA_UNLIKELY(!na_py.lasting) && !is_loaded()) return 0;
    const void *state = thread_state(p);
    if (state == NULL) return 0;
    uintptr_t top = word_at((uintptr_t)state + l->thread_frame);
    if (l->cframe_frame == NA_PY_NONE || top == 0) return top;
    if (NA_UNLIKELY(p->top != top)) {
        if ((top & 7) != 0 || !na_py_can_read(p, top + l->cframe_frame, 8)) {
            count(&na_py_entry->unreadable);
            return 0;
        }
        p->top = top;
    }
    return word_at(top + l->cframe_frame);
}

NA_INLINE uintptr_t instr_of(uintptr_t frame) {
    uintptr_t at = frame + na_py.layout.frame_instr;
    return na_py.layout.code_start == NA_PY_NONE ? (uintptr_t) * (const uint32_t *)at : word_at(at);
}

/* ---- is what was kept still so? ---- */

typedef int words_t
    __attribute__((vector_size(16), aligned(8), may_alias)); /* two words, in halves */

/* Both pairs of words are as they were. */
NA_INLINE bool are_same(uintptr_t a, const void *a_was, const void *b, const void *b_was) {
    words_t same = (*(const words_t *)a == *(const words_t *)a_was) &
                   (*(const words_t *)b == *(const words_t *)b_was);
#if defined(__x86_64__)
    typedef char bytes_t __attribute__((vector_size(16)));
    return __builtin_ia32_pmovmskb128((bytes_t)same) == 0xffff;
#else
    return (same[0] & same[1] & same[2] & same[3]) != 0;
#endif
}

/* As it is now, a kept frame is as it was, but for its mark. It can be read: something leads
 * there. */
NA_INLINE bool is_same(const na_py_frame_t *k, const na_py_how_t by, size_t linked_at,
                       size_t instr_at) {
    if (NA_UNLIKELY(!are_same(k->frame + linked_at, k->linked, k->life, &k->born))) return false;
    if (by == NA_PY_BY_POINTER) return NA_LIKELY(word_at(k->frame + instr_at) == k->instr);
    if (by == NA_PY_BY_NUMBER)
        return NA_LIKELY(*(const uint32_t *)(k->frame + instr_at) == k->instr);
    return true;
}

/* From the kept frame at `i` outwards, the first that is not as it was; -1: all are. */
NA_INLINE int32_t first_changed_by(const na_py_frame_t *kept, int32_t i, const na_py_how_t by) {
    const size_t linked_at = na_py.layout.frame_linked, instr_at = na_py.layout.frame_instr;
    const na_py_frame_t *k = kept + i;
    while (k >= kept && is_same(k, by, linked_at, instr_at))
        k--;
    int32_t end = (int32_t)(k - kept);
    return NA_LIKELY(kept[i].marks == 0) ? end : na_py_first_unmarked(kept, i, end);
}

NA_INLINE int32_t first_changed(const na_py_thread_t *p, int32_t i) {
    switch (na_py.layout.how) {
    case NA_PY_BY_LINKED:
        return first_changed_by(p->kept, i, NA_PY_BY_LINKED);
    case NA_PY_BY_POINTER:
        return first_changed_by(p->kept, i, NA_PY_BY_POINTER);
    default:
        return first_changed_by(p->kept, i, NA_PY_BY_NUMBER);
    }
}

/* ---- frames ---- */

static void set_unit(na_py_frame_t *f) {
    const na_py_layout_t *l = &na_py.layout;
    int64_t unit = l->code_start == NA_PY_NONE
                       ? (l->in_units ? (int32_t)f->instr : (int32_t)f->instr >> 1)
                       : (int64_t)(f->instr - f->code - l->code_start) >> 1;
    f->unit = unit < 0                                   ? NA_NPROF_PY_UNIT_BEFORE
              : unit >= (int64_t)NA_NPROF_PY_UNIT_BEFORE ? NA_NPROF_PY_UNIT_NONE
                                                         : (uint32_t)unit;
}

/* Reads a frame. False: it is none. */
static bool read_frame(na_py_thread_t *p, uintptr_t frame, na_py_frame_t *f) {
    const na_py_layout_t *l = &na_py.layout;
    if ((frame & 7) != 0 || !na_py_can_read(p, frame, l->frame_size)) return false;
    f->frame = frame;
    f->back = word_at(frame + l->frame_back);
    f->code = word_at(frame + l->frame_code);
    f->instr = instr_of(frame);
    f->linked[0] = word_at(frame + l->frame_linked);
    f->linked[1] = word_at(frame + l->frame_linked + 8);
    f->life = &na_py_no_record;
    f->born = na_py_no_record;
    f->mark = (na_py_mark_t){.name = 0};
    f->id = 0;
    f->shim = false;
    f->entry = l->frame_entry == NA_PY_NONE || *(const uint8_t *)(frame + l->frame_entry) != 0;
    if (l->frame_owner != NA_PY_NONE) {
        uint8_t owner = *(const uint8_t *)(frame + l->frame_owner);
        if (owner >= OWNER_SHIM) {
            f->shim = true;
            return owner <= OWNER_SHIM + 1;
        }
        /* Its arguments are being set up: it is not a call yet. */
        if (owner != OWNER_GENERATOR) {
            if (!na_py_can_read(p, f->code, l->code_start)) return false;
            int32_t first = *(const int32_t *)(f->code + l->code_traceable);
            if ((intptr_t)(f->instr - f->code - l->code_start) < 2 * (intptr_t)first) return true;
        }
    }
    if (!na_py_code(p, f->code, f)) return false;
    set_unit(f);
    return true;
}

static NA_COLD bool grow(na_py_thread_t *p, uint32_t fresh) {
    uint32_t room = p->room * 4;
    if (room > NA_PY_MOST) return false;
    uint64_t bytes = 2 * (uint64_t)room * sizeof *p->kept;
    na_py_frame_t *frames = na_rec_has_room(bytes) ? na_own_alloc(bytes, bytes) : NULL;
    if (frames == NULL) return false;
    for (uint32_t i = 0; i < p->count; i++)
        frames[i] = p->kept[i];
    for (uint32_t i = 0; i < fresh; i++)
        frames[room + i] = p->fresh[i];
    p->kept = frames;
    p->fresh = frames + room;
    p->room = room;
    return true;
}

static NA_COLD na_py_thread_t *make(na_rthread_t *t) {
    uint64_t frames = 2 * (uint64_t)NA_PY_LEAST * sizeof(na_py_frame_t);
    uint64_t bytes = sizeof(na_py_thread_t) + frames;
    if (!na_rec_has_room(bytes)) return NULL;
    na_py_thread_t *p = na_own_alloc(bytes, bytes);
    if (p == NULL) return NULL;
    p->kept = (na_py_frame_t *)(p + 1);
    p->fresh = p->kept + NA_PY_LEAST;
    p->room = NA_PY_LEAST;
    return t->python = p;
}

/* What a frame's node says of the frame inside of it, and that it is called by native code. */
NA_INLINE uint32_t outer_of(const na_py_frame_t *outer) {
    return outer->node << 1 | outer->shim;
}

/* Gives a frame its node, inside of `outer`, the outermost if that is NULL. False: no room. */
static bool name(na_rthread_t *t, const na_py_frame_t *outer, na_py_frame_t *f) {
    uint32_t node = outer != NULL ? outer->node : NA_NPROF_ROOT;
    f->path = outer != NULL ? outer->path : ROOT_PATH;
    f->marks = (outer != NULL ? outer->marks : 0) + (f->mark.name != 0);
    f->node = node;
    if (f->id == 0) return true;
    bool by_shims =
        na_py.layout.frame_owner != NA_PY_NONE && na_py.layout.frame_entry == NA_PY_NONE;
    bool entry = by_shims ? outer == NULL || outer->shim : f->entry;
    uint32_t flags = outer == NULL && t->python->cut ? NA_NPROF_STACK_TRUNCATED : 0;
    f->node = na_stacks_enter(t, &f->path, node, na_nprof_py_pc(f->id, f->unit, entry), flags);
    return f->node != 0;
}

/* Innermost frames have a place by frame and instruction. */
NA_INLINE na_py_frame_t *tail_at(na_py_thread_t *p, uintptr_t frame, uintptr_t instr) {
    uint64_t hash = (frame ^ instr << 7) * UINT64_C(0x9e3779b97f4a7c15);
    return &p->tails[hash >> (64 - NA_PY_TAIL_BITS)];
}

/* Makes the tail that lies inside of the kept frames [0, base). (Of one whose code has not begun
 * nothing is known but its node.) */
static void remember(na_py_thread_t *p, const na_py_frame_t *f, uint32_t base) {
    if (f->id == 0 && !f->shim) return;
    na_py_frame_t *tail = tail_at(p, f->frame, f->instr);
    *tail = *f;
    tail->place = base;
    tail->outer = base != 0 ? outer_of(&p->kept[base - 1]) : 0;
}

/* The new frames, innermost first, lie inside of the kept ones [0, base). All but the innermost are
 * kept, too; where that is the only one, what was kept further in may be met again. */
static uint32_t enter(na_rthread_t *t, uint32_t base, uint32_t n) {
    na_py_thread_t *p = t->python;
    if (n > 1 || p->count > base + STALE_MOST) p->count = base;
    for (; n > 1; n--) {
        na_py_frame_t *outer = base != 0 ? &p->kept[base - 1] : NULL, *f = &p->kept[base];
        *f = p->fresh[n - 1];
        /* No room: what is outside stands for it. */
        if (NA_UNLIKELY(!name(t, outer, f))) return outer != NULL ? outer->node : NA_NPROF_ROOT;
        p->count = ++base;
    }
    const na_py_frame_t *outer = base != 0 ? &p->kept[base - 1] : NULL;
    if (NA_UNLIKELY(!name(t, outer, p->fresh))) return outer != NULL ? outer->node : NA_NPROF_ROOT;
    remember(p, p->fresh, base);
    return p->fresh->node;
}

void na_python_forget(na_py_thread_t *p) {
    p->count = 0;
    for (uint32_t i = 0; i < 1u << NA_PY_TAIL_BITS; i++)
        p->tails[i].frame = 0;
}

static NA_COLD void forget_pages(na_py_thread_t *p, uint32_t unmapped) {
    p->unmapped = unmapped;
    p->top = 0;
    na_python_forget(p);
    for (uint32_t i = 0; i < NA_PY_PAGES; i++)
        p->pages[i] = 0;
}

/* The chain from `frame` outwards, none of which has to be known. */
static NA_NOINLINE uint32_t walk(na_rthread_t *t, uintptr_t frame) {
    na_py_thread_t *p = t->python;
    uint32_t n = 0;
    int32_t last = (int32_t)p->count - 1, base = 0;
    bool cut = false;
    for (;;) {
        int32_t i = last, least = last - LOOK_BACK;
        while (i >= 0 && i > least && p->kept[i].frame != frame)
            i--;
        if (i >= 0 && NA_LIKELY(p->kept[i].frame == frame)) {
            int32_t at = first_changed(p, i);
            if (at < 0) {
                base = i + 1;
                break;
            }
            /* That one has changed; those inside of it have not, but for their nodes. */
            for (; i > at; i--) {
                if (NA_UNLIKELY(n == p->room) && !grow(p, n)) goto deep;
                p->fresh[n++] = p->kept[i];
            }
            frame = p->kept[at].frame;
            last = at - 1;
        }
        if (NA_UNLIKELY(n == p->room) && !grow(p, n)) goto deep;
        if (NA_UNLIKELY(!read_frame(p, frame, &p->fresh[n]))) {
            count(&na_py_entry->unreadable);
            cut = true;
            break;
        }
        frame = p->fresh[n++].back;
        if (frame == 0) break;
    }
    while (NA_UNLIKELY((uint32_t)base + n > p->room))
        if (!grow(p, n)) goto deep;
    if (base == 0) p->cut = cut;
    if (n != 0) return enter(t, (uint32_t)base, n);
    if (base == 0) return NA_NPROF_ROOT;
    remember(p, &p->kept[base - 1], (uint32_t)base - 1);
    return p->kept[base - 1].node;
deep:
    /* The innermost of them. Nothing is kept: it would be compared in vain. */
    count(&na_py_entry->deep);
    p->cut = true;
    uint32_t node = enter(t, 0, n);
    na_python_forget(p);
    return node;
}

/* The innermost frame was met before, where it is now: inside of the kept chain. */
NA_INLINE bool is_tail(na_py_thread_t *p, const na_py_frame_t *tail, uintptr_t frame) {
    const na_py_layout_t *l = &na_py.layout;
    if (NA_UNLIKELY(tail->frame != frame) ||
        NA_UNLIKELY(!is_same(tail, (na_py_how_t)l->how, l->frame_linked, l->frame_instr)))
        return false;
    if (tail->mark.name != 0 && !na_py_is_marked(tail->code, &tail->mark)) return false;
    if (tail->place == 0) return tail->back == 0;
    if (NA_UNLIKELY(tail->place > p->count)) return false;
    const na_py_frame_t *outer = &p->kept[tail->place - 1];
    return NA_LIKELY(outer->frame == tail->back) && NA_LIKELY(outer_of(outer) == tail->outer) &&
           NA_LIKELY(first_changed(p, (int32_t)tail->place - 1) < 0);
}

uint32_t na_python_node(na_rthread_t *t) {
    na_py_thread_t *p = t->python;
    if (NA_UNLIKELY(p == NULL) && (p = make(t)) == NULL) return NA_NPROF_ROOT;
    uint32_t unmapped = atomic_load_explicit(&na_py_unmapped, memory_order_relaxed);
    if (NA_UNLIKELY(p->unmapped != unmapped)) forget_pages(p, unmapped);
    uintptr_t frame = innermost(p);
    if (frame == 0) return NA_NPROF_ROOT;
    uintptr_t page = (frame + na_py.layout.frame_instr) >> PAGE_BITS;
    if (NA_LIKELY(p->pages[page % NA_PY_PAGES] == page) && NA_LIKELY((frame & 7) == 0)) {
        const na_py_frame_t *tail = tail_at(p, frame, instr_of(frame));
        if (NA_LIKELY(is_tail(p, tail, frame))) return tail->node;
    }
    return walk(t, frame);
}
