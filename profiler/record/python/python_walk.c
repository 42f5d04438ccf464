/* python_walk.c - the chain of frames, compared with the one kept. See python.h. */
#include <errno.h>
#include <sys/syscall.h>

#include "alloc/core/sys/syscall.h"
#include "profiler/record/python/python_same.h"
#include "profiler/record/unwind/umodules.h"

#define ADDRESSES  (UINT64_C(1) << 47)
#define STALE_MOST 8          /* kept frames further in than the chain is now */
#define ROOT_PATH  0u         /* the root's (tree.h) */
#define UNNAMED    UINT32_MAX /* of a new frame's `outer`: it has no node yet, inside of any */

const na_record_t na_py_no_record;

static NA_COLD void count_one(uint64_t *counter) {
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- what can be read ---- */

/* The kernel copies the mask before it finds that there is no such request. */
static NA_COLD bool ask_kernel_for_page(uintptr_t page) {
    return na_sys4(SYS_rt_sigprocmask, -1, (long)(page << NA_PY_PAGE_BITS), 0, 8) == -EINVAL;
}

/* It lies in one page that is known to be readable. */
NA_INLINE bool is_known(const na_py_thread_t *p, uintptr_t at, size_t bytes) {
    uintptr_t page = at >> NA_PY_PAGE_BITS;
    return NA_LIKELY(p->pages[page % NA_PY_PAGES] == page) &&
           NA_LIKELY((at + bytes - 1) >> NA_PY_PAGE_BITS == page);
}

bool na_py_can_read(na_py_thread_t *p, uintptr_t at, size_t bytes) {
    if (at < 4096 || at >= ADDRESSES || bytes > ADDRESSES - at) return false;
    for (uintptr_t page = at >> NA_PY_PAGE_BITS; page <= (at + bytes - 1) >> NA_PY_PAGE_BITS;
         page++) {
        uintptr_t *known = &p->pages[page % NA_PY_PAGES];
        if (NA_LIKELY(*known == page)) continue;
        if (!ask_kernel_for_page(page)) return false;
        *known = page;
    }
    return true;
}

/* ---- whose chain ---- */

/* The state of whoever has the GIL, up to 3.11, is not the one that the thread's own key tells: it
 * is another thread's, who may end at this moment, or this one's, of a second interpreter. Which
 * thread made it says nothing of who runs it. What it leads to does: it lies on the stack of the
 * thread that runs it (before 3.11 there is no such thing). */
static NA_NOINLINE bool is_mine(const na_rthread_t *t, const void *state) {
    const na_py_layout_t *l = &na_py.layout;
    uintptr_t at = (uintptr_t)state + l->thread_frame;
    return l->cframe_frame != NA_PY_NONE && na_py_can_read(t->python, at, 8) &&
           na_py_is_on_stack(t, na_py_word(at) + l->cframe_frame);
}

/* The same before 3.11, where it cannot be told whether it is. */
static NA_NOINLINE bool may_be_mine(na_py_thread_t *p, const void *state) {
    uintptr_t at = (uintptr_t)state + na_py.layout.thread_id;
    return na_py.layout.cframe_frame == NA_PY_NONE && na_py_can_read(p, at, 8) &&
           na_py_word(at) == na_thread_pointer();
}

/* From 3.12 on a thread knows the state that it runs now, not those that wait for this one. */
static void see_interpreter(na_py_thread_t *p, const void *state) {
    const void *interpreter =
        (const void *)na_py_word((uintptr_t)state + na_py.layout.thread_interp);
    p->other = interpreter != na_py.main_interpreter();
}

static const void *interpreter_thread(const na_rthread_t *t) {
    na_py_thread_t *p = t->python;
    const void *current = na_py.current_state();
    if (NA_LIKELY(na_py_is_own(p, current))) return current;
    p->other = false;
    if (na_py.layout.version >= 0x030c && NA_LIKELY(current != NULL)) {
        if (na_py.lasting) p->state = current;
        see_interpreter(p, current);
        return current;
    }
    const void *own = na_py.own_state();
    if (own != NULL && na_py.lasting) p->state = own;
    if (NA_LIKELY(own == current)) return own;
    if (current != NULL && is_mine(t, current)) {
        p->other = true;
        p->state = (const void *)(uintptr_t)NA_PY_NOWHERE; /* whose `other` is another */
        return current;
    }
    if (current != NULL && may_be_mine(p, current)) {
        count_one(&na_py_entry->unreadable);
        return NULL;
    }
    if (own != NULL && na_py.is_finalizing()) {
        count_one(&na_py_entry->finalizing);
        return NULL;
    }
    if (own != NULL && na_py.layout.version >= 0x030c) see_interpreter(p, own);
    return own;
}

/* The interpreter may be unloaded, but not while one of its frames is below. */
static bool is_loaded(void) {
    na_unwind_module_t m;
    return na_umodule_find(na_py.parts[0][0], &m) >= NA_UMODULE_KNOWN && m.start == na_py.start &&
           m.link_map == na_py.link_map;
}

/* The innermost frame, 0: none. */
static uintptr_t innermost_frame(const na_rthread_t *t) {
    const na_py_layout_t *l = &na_py.layout;
    if (NA_UNLIKELY(!na_py.lasting) && !is_loaded()) return 0;
    const void *state = interpreter_thread(t);
    if (state == NULL) return 0;
    uintptr_t top = na_py_word((uintptr_t)state + l->thread_frame);
    if (l->cframe_frame == NA_PY_NONE || top == 0) return top;
    top += l->cframe_frame;
    if (NA_UNLIKELY(!na_py_is_on_stack(t, top)) &&
        ((top & 7) != 0 || !na_py_can_read(t->python, top, 8))) {
        count_one(&na_py_entry->unreadable);
        return 0;
    }
    return na_py_word(top);
}

/* Where in the chain a frame with this address was kept last: what is found there has to be looked
 * at. One that is not found is read anew. */
NA_INLINE uint16_t *place_of(na_py_thread_t *p, uintptr_t frame) {
    return &p->places[frame * UINT64_C(0x9e3779b97f4a7c15) >> (64 - NA_PY_PLACE_BITS)];
}

/* Its place in the chain, if that is not beyond `last`; -1: there is none. */
NA_INLINE int32_t find_kept(na_py_thread_t *p, uintptr_t frame, int32_t last) {
    int32_t i = *place_of(p, frame);
    return i <= last && p->kept[i].frame == frame ? i : -1;
}

/* *to becomes what *from is. Most have no mark, which is half of a frame. */
NA_INLINE void copy_frame(na_py_frame_t *to, const na_py_frame_t *from) {
    if (from->mark.name != 0) {
        *to = *from;
        return;
    }
    enum { MARK = offsetof(na_py_frame_t, mark), REST = offsetof(na_py_frame_t, marks) };
    __builtin_memcpy(to, from, MARK);
    to->mark.name = 0;
    __builtin_memcpy((char *)to + REST, (const char *)from + REST, sizeof *to - REST);
}

/* From the kept frame at `i` outwards, the first that is not as it was; -1: all are. */
static int32_t first_changed(const na_py_thread_t *p, int32_t i) {
    const na_py_frame_t *kept = p->kept, *k = kept + i;
    switch (na_py.layout.how) {
    case NA_PY_BY_LINKED:
        k = na_py_changed(k, NA_PY_BY_LINKED);
        break;
    case NA_PY_BY_POINTER:
        k = na_py_changed(k, NA_PY_BY_POINTER);
        break;
    default:
        k = na_py_changed(k, NA_PY_BY_NUMBER);
    }
    int32_t end = (int32_t)(k - kept);
    return NA_LIKELY(p->kept[i].marks == 0) ? end : na_py_first_unmarked(p->kept, i, end);
}

/* ---- frames ---- */

static void set_unit(na_py_frame_t *f) {
    const na_py_layout_t *l = &na_py.layout;
    int64_t unit = l->code_start == NA_PY_NONE
                       ? (l->in_units ? (int32_t)f->instr : (int32_t)f->instr >> 1)
                       : (int64_t)(f->instr - f->code - l->code_start) >> 1;
    f->unit = f->id == na_py_entry->other                ? NA_NPROF_PY_UNIT_NONE
              : unit < 0                                 ? NA_NPROF_PY_UNIT_BEFORE
              : unit >= (int64_t)NA_NPROF_PY_UNIT_BEFORE ? NA_NPROF_PY_UNIT_NONE
                                                         : (uint32_t)unit;
}

/* Reads a frame. False: it is none. */
static bool read_python_frame(na_py_thread_t *p, uintptr_t frame, na_py_frame_t *f) {
    const na_py_layout_t *l = &na_py.layout;
    if ((frame & 7) != 0 ||
        (!is_known(p, frame, l->frame_size) && !na_py_can_read(p, frame, l->frame_size)))
        return false;
    f->frame = frame;
    f->back = na_py_word(frame + l->frame_back);
    f->code = na_py_word(frame + l->frame_code) & ~(uintptr_t)l->code_tags;
    f->instr = na_py_instr(frame, (na_py_how_t)l->how);
    f->linked[0] = na_py_word(frame + l->frame_linked);
    f->linked[1] = na_py_word(frame + l->frame_linked + 8);
    f->life = &na_py_no_record;
    f->born = na_py_no_record;
    f->mark.name = 0;
    f->id = 0;
    f->unit = 0;
    f->outer = UNNAMED;
    f->met = NULL;
    f->shim = false;
    f->entry = l->frame_entry == NA_PY_NONE || *(const uint8_t *)(frame + l->frame_entry) != 0;
    if (l->frame_owner != NA_PY_NONE) {
        uint8_t owner = *(const uint8_t *)(frame + l->frame_owner);
        if (owner >= NA_PY_OWNER_SHIM) {
            f->shim = true;
            return owner <= NA_PY_OWNER_SHIM + 1;
        }
        /* Its arguments are being set up: it is not a call yet. */
        if (owner != NA_PY_OWNER_GENERATOR) {
            if (!is_known(p, f->code, l->code_start) && !na_py_can_read(p, f->code, l->code_start))
                return false;
            int32_t first = *(const int32_t *)(f->code + l->code_traceable);
            if ((intptr_t)(f->instr - f->code - l->code_start) < 2 * (intptr_t)first) return true;
        }
    }
    if (!na_py_code(p, f->code, f)) return false;
    set_unit(f);
    return true;
}

/* The code of a tail is as it was. */
NA_INLINE bool has_code(const na_py_frame_t *met) {
    return met->mark.name != 0 ? na_py_first_unmarked(met, 0, -1) == -1 : na_py_is_alive(met);
}

/* The tail of a frame that was met before, and is as it was; NULL: it has to be read. */
NA_INLINE na_py_frame_t *met_before(na_py_thread_t *p, uintptr_t frame) {
    const na_py_layout_t *l = &na_py.layout;
    const na_py_how_t how = (na_py_how_t)l->how;
    if ((frame & 7) != 0 || NA_UNLIKELY(!is_known(p, frame, l->frame_size))) return NULL;
    uintptr_t instr = na_py_instr(frame, how);
    na_py_frame_t *met = na_py_tails_at(p, frame, instr);
    if (met->frame != frame || met->instr != instr) {
        met++;
        if (met->frame != frame || met->instr != instr) return NULL;
    }
    if (!na_py_is_linked(met, how, l->frame_linked, l->frame_instr)) return NULL;
    return has_code(met) ? met : NULL;
}

/* The frames' room begins here. */
static void set_room(na_py_thread_t *p, na_py_frame_t *frames, uint32_t room) {
    *frames = (na_py_frame_t){.frame = (uintptr_t)&frames->born - na_py.layout.frame_linked,
                              .life = &na_py_no_record,
                              .linked = {UINTPTR_MAX, UINTPTR_MAX}};
    p->kept = frames + 1;
    p->fresh = p->kept + room;
    p->room = room;
}

static uint64_t kept_bytes(uint32_t room) {
    return (1 + 2 * (uint64_t)room) * sizeof(na_py_frame_t);
}

static NA_COLD bool grow_kept(na_py_thread_t *p, uint32_t fresh) {
    uint32_t room = p->room * 4;
    if (room > NA_PY_MOST) return false;
    uint64_t bytes = kept_bytes(room);
    na_py_frame_t *frames = na_rec_has_room(bytes) ? na_own_alloc(bytes) : NULL;
    if (frames == NULL) return false;
    const na_py_frame_t *kept = p->kept, *new = p->fresh;
    set_room(p, frames, room);
    for (uint32_t i = 0; i < p->count; i++)
        p->kept[i] = kept[i];
    for (uint32_t i = 0; i < fresh; i++)
        p->fresh[i] = new[i];
    return true;
}

static void forget_frames(na_py_thread_t *p) {
    p->count = 0;
    for (uint32_t i = 0; i < sizeof p->used / sizeof p->used[0]; i++) {
        for (uint64_t sets = p->used[i]; sets != 0; sets &= sets - 1) {
            na_py_frame_t *tails = p->tails[i * 64 + (uint32_t)__builtin_ctzll(sets)];
            tails[0].frame = tails[1].frame = 0;
        }
        p->used[i] = 0;
    }
}

void na_python_attach(na_py_thread_t *p) {
    p->named = false;
    forget_frames(p);
}

static NA_COLD void forget_pages(na_py_thread_t *p, uint32_t unmapped) {
    p->unmapped = unmapped;
    p->state = (const void *)(uintptr_t)NA_PY_NOWHERE;
    p->readable = NA_PY_NOWHERE;
    forget_frames(p);
    for (uint32_t i = 1; i < NA_PY_PAGES; i++)
        p->pages[i] = 0;
    p->pages[0] = NA_PY_NOWHERE;
}

static NA_COLD na_py_thread_t *make_thread(na_rthread_t *t) {
    uint64_t bytes = sizeof(na_py_thread_t) + kept_bytes(NA_PY_LEAST);
    if (!na_rec_has_room(bytes)) return NULL;
    na_py_thread_t *p = na_own_alloc(bytes);
    if (p == NULL) return NULL;
    set_room(p, (na_py_frame_t *)(p + 1), NA_PY_LEAST);
    forget_pages(p, atomic_load_explicit(&na_py_unmapped, memory_order_relaxed));
    return t->python = p;
}

/* The call of the evaluation function that `outer` marks runs no frame: what is inside of it is
 * another's. (In 3.15 each chain begins with a mark of none.) */
static bool is_chain_ended(const na_py_frame_t *outer) {
    return outer->shim && (outer->back != 0 || na_py.layout.version < 0x030f);
}

/* Gives a frame its node, inside of `outer`, the outermost if that is NULL. False: no room. */
static bool name_frame(na_rthread_t *t, const na_py_frame_t *outer, na_py_frame_t *f) {
    uint32_t node = outer != NULL ? outer->node : NA_NPROF_ROOT;
    f->marks = (outer != NULL ? outer->marks : 0) + (f->mark.name != 0);
    if (outer != NULL && NA_LIKELY(f->outer == outer->as_outer)) return true; /* it has it still */
    f->path = outer != NULL ? outer->path : ROOT_PATH;
    if (NA_UNLIKELY(outer == NULL) && t->python->other)
        node = na_stacks_enter(t, &f->path, node, NA_NPROF_PY_OTHER, 0);
    if (f->shim && outer != NULL && NA_UNLIKELY(is_chain_ended(outer)))
        node = na_stacks_enter(t, &f->path, node, NA_NPROF_PY_NO_FRAME, 0);
    if (NA_UNLIKELY(node == 0)) return false;
    f->node = node;
    f->as_outer = node << 1 | f->shim;
    bool by_shims =
        na_py.layout.frame_owner != NA_PY_NONE && na_py.layout.frame_entry == NA_PY_NONE;
    bool entry = by_shims ? outer == NULL || outer->shim : f->entry;
    if (f->shim || (f->id == 0 && !entry)) return true; /* code 0 with ENTRY: NO_FRAME */
    uint32_t flags = outer == NULL && t->python->cut ? NA_NPROF_STACK_TRUNCATED : 0;
    f->node = na_stacks_enter(t, &f->path, node, na_nprof_py_pc(f->id, f->unit, entry), flags);
    f->as_outer = f->node << 1; /* a shim has no id */
    return f->node != 0;
}

/* The tail lies inside of `outer`, which has this place in the chain, from 1; NULL, 0: it is the
 * outermost. */
NA_INLINE void set_outer(na_py_frame_t *tail, const na_py_frame_t *outer, uint32_t place) {
    tail->place = place;
    tail->outer = outer != NULL ? outer->as_outer : 0; /* no frame has that */
}

/* Makes the tail that lies inside of the kept frames [0, base). (Of one whose code has not begun
 * nothing is known but its node. What shows no frame at all makes no pair.) */
static void remember_frame(na_py_thread_t *p, const na_py_frame_t *f, uint32_t base) {
    if ((f->id == 0 && !f->shim) || f->node == NA_NPROF_ROOT) return;
    na_py_frame_t *tails = na_py_tails_at(p, f->frame, f->instr), *tail = tails;
    while (tail < tails + 2 && (tail->frame != f->frame || tail->instr != f->instr))
        tail++;
    if (tail == tails + 2) tail = tails + p->replaced++ % 2;
    size_t set = (size_t)(tails - p->tails[0]) / 2;
    p->used[set / 64] |= UINT64_C(1) << set % 64;
    copy_frame(tail, f);
    set_outer(tail, base != 0 ? &p->kept[base - 1] : NULL, base);
}

/* The node of the innermost frame, which lies inside of the kept ones [0, base). Groups are counted
 * from the innermost call on: one that runs no frame has to be there. */
static uint32_t innermost_node(na_rthread_t *t, const na_py_frame_t *f, uint32_t base) {
    if (f->shim && is_chain_ended(f)) {
        uint32_t path = f->path;
        return na_stacks_enter(t, &path, f->node, NA_NPROF_PY_NO_FRAME, 0);
    }
    remember_frame(t->python, f, base);
    return f->node;
}

/* The innermost frame is `f`, new, inside of the kept ones [0, base). */
static uint32_t enter_innermost(na_rthread_t *t, na_py_frame_t *f, uint32_t base) {
    na_py_frame_t *outer = base != 0 ? &t->python->kept[base - 1] : NULL, *tail = f->met;
    if (NA_LIKELY(tail != NULL)) {
        if (NA_LIKELY(!tail->shim)) {
            if (NA_UNLIKELY(!name_frame(t, outer, tail))) {
                tail->frame = 0; /* it has lost its node */
                return outer != NULL ? outer->node : NA_NPROF_ROOT;
            }
            set_outer(tail, outer, base);
            return tail->node;
        }
        copy_frame(f, tail);
    }
    if (NA_UNLIKELY(!name_frame(t, outer, f))) return outer != NULL ? outer->node : NA_NPROF_ROOT;
    return innermost_node(t, f, base);
}

/* The new frames, innermost first, lie inside of the kept ones [0, base). All but the innermost are
 * kept, too; where that is the only one, what was kept further in may be met again. */
static uint32_t enter_frames(na_rthread_t *t, uint32_t base, uint32_t n) {
    na_py_thread_t *p = t->python;
    if (n > 1 || p->count > base + STALE_MOST) p->count = base;
    uint32_t read = 0, i = n;
    while (i > 1) {
        na_py_frame_t *outer = base != 0 ? &p->kept[base - 1] : NULL, *f = &p->kept[base];
        na_py_frame_t *new = &p->fresh[--i], *tail = new->met;
        copy_frame(f, tail != NULL ? tail : new);
        *place_of(p, f->frame) = (uint16_t)base;
        /* No room: what is outside stands for it. */
        bool named = outer != NULL && f->outer == outer->as_outer;
        if (NA_UNLIKELY(!name_frame(t, outer, f)))
            return outer != NULL ? outer->node : NA_NPROF_ROOT;
        if (tail == NULL) {
            read = i;
        } else if (!named) {
            tail->node = f->node;
            tail->path = f->path;
            tail->as_outer = f->as_outer;
            set_outer(tail, outer, base);
        }
        p->count = ++base;
    }
    uint32_t node = enter_innermost(t, p->fresh, base);
    if (NA_UNLIKELY(!p->named)) na_py_name_thread(t, base);
    /* Those that were read become tails, in the places of others. */
    for (i = n; read != 0 && i-- > read;)
        if (p->fresh[i].met == NULL) remember_frame(p, &p->kept[base - i], base - i);
    return node;
}

uint32_t na_python_walk(na_rthread_t *t, uintptr_t frame, const na_py_found_t *found) {
    na_py_thread_t *p = t->python;
    uint32_t n = 0;
    int32_t last = (int32_t)p->count - 1, base = 0;
    na_py_frame_t *met = found->met != NULL && has_code(found->met) ? found->met : NULL;
    bool cut = false, sought = found->met != NULL;
    for (;;) {
        int32_t i = find_kept(p, frame, last);
        if (i >= 0) {
            int32_t at = (uint32_t)i + 1 == found->place ? found->changed : first_changed(p, i);
            if (at < 0) {
                base = i + 1;
                break;
            }
            /* That one has changed; those inside of it have not, but for their nodes. */
            sought = false;
            for (; i > at; i--) {
                if (NA_UNLIKELY(n == p->room) && !grow_kept(p, n)) goto deep;
                copy_frame(&p->fresh[n], &p->kept[i]);
                p->fresh[n].met = NULL;
                p->fresh[n++].outer = UNNAMED;
            }
            frame = p->kept[at].frame;
            last = at - 1;
        }
        if (NA_UNLIKELY(n == p->room) && !grow_kept(p, n)) goto deep;
        if (!sought) met = met_before(p, frame);
        sought = false;
        na_py_frame_t *new = &p->fresh[n];
        if (met != NULL) {
            new->met = met;
            frame = met->back;
        } else if (NA_LIKELY(read_python_frame(p, frame, new))) {
            frame = new->back;
        } else {
            count_one(&na_py_entry->unreadable);
            cut = true;
            break;
        }
        n++;
        if (frame == 0) break;
    }
    while (NA_UNLIKELY((uint32_t)base + n > p->room))
        if (!grow_kept(p, n)) goto deep;
    if (base == 0) p->cut = cut;
    if (n != 0) return enter_frames(t, (uint32_t)base, n);
    if (base == 0) return NA_NPROF_ROOT;
    return innermost_node(t, &p->kept[base - 1], (uint32_t)base - 1);
deep:
    /* The innermost of them. Nothing is kept: it would be compared in vain. */
    count_one(&na_py_entry->deep);
    p->cut = true;
    uint32_t node = enter_frames(t, 0, n);
    forget_frames(p);
    return node;
}

uint32_t na_python_node(na_rthread_t *t) {
    na_py_thread_t *p = t->python;
    if (NA_UNLIKELY(p == NULL) && (p = make_thread(t)) == NULL) return NA_NPROF_ROOT;
    uint32_t unmapped = atomic_load_explicit(&na_py_unmapped, memory_order_relaxed);
    if (NA_UNLIKELY(p->unmapped != unmapped)) forget_pages(p, unmapped);
    uintptr_t frame = innermost_frame(t);
    if (frame == 0) return NA_NPROF_ROOT;
    na_py_found_t found = {.met = NULL};
    if (NA_LIKELY(na_py_is_readable(p, frame))) {
        const na_py_frame_t *tail = na_py_tail(p, frame, &found);
        if (NA_LIKELY(tail != NULL)) return tail->node;
    }
    return na_python_walk(t, frame, &found);
}
