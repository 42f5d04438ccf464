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
    if ((top & 7) != 0 || (NA_UNLIKELY(p->pages[(top >> PAGE_BITS) % NA_PY_PAGES] !=
                                       (top + l->cframe_frame) >> PAGE_BITS) &&
                           !na_py_can_read(p, top + l->cframe_frame, 8))) {
        count(&na_py_entry->unreadable);
        return 0;
    }
    return word_at(top + l->cframe_frame);
}

/* ---- frames ---- */

NA_INLINE uintptr_t instr_of(uintptr_t frame) {
    uintptr_t at = frame + na_py.layout.frame_instr;
    return na_py.layout.code_start == NA_PY_NONE ? (uintptr_t) * (const uint32_t *)at : word_at(at);
}

/* Whose frames hold pointers to instructions: these lie in the code, and tell that, too. */
NA_INLINE bool has_pointers(const na_py_layout_t *l) {
    return l->code_start != NA_PY_NONE;
}

/* As it is now, a kept frame is as it was. It can be read: something leads there. */
NA_INLINE bool is_same(na_py_thread_t *p, const na_py_frame_t *k, const bool pointers,
                       size_t back_at, size_t instr_at, size_t code_at) {
    uintptr_t differs = (word_at(k->frame + back_at) ^ k->back) |
                        (k->life->words[0] ^ k->born.words[0]) |
                        (k->life->words[1] ^ k->born.words[1]);
    if (pointers)
        differs |= word_at(k->frame + instr_at) ^ k->instr;
    else
        differs |= (*(const uint32_t *)(k->frame + instr_at) ^ k->instr) |
                   (word_at(k->frame + code_at) ^ k->code);
    if (NA_UNLIKELY(differs != 0)) return false;
    return NA_LIKELY(k->checksum == 0) || na_py_checksum(p, k->code) == k->checksum;
}

/* From the kept frame at `i` outwards, the first that is not as it was; -1: all are. */
NA_INLINE int32_t first_changed(na_py_thread_t *p, int32_t i) {
    const na_py_layout_t l = na_py.layout;
    const na_py_frame_t *kept = p->kept;
    if (has_pointers(&l))
        while (i >= 0 && is_same(p, &kept[i], true, l.frame_back, l.frame_instr, l.frame_code))
            i--;
    else
        while (i >= 0 && is_same(p, &kept[i], false, l.frame_back, l.frame_instr, l.frame_code))
            i--;
    return i;
}

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
    f->life = &na_py_no_record;
    f->born = na_py_no_record;
    f->checksum = 0;
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

/* The new frames, innermost first, follow the kept ones [0, base). */
static uint32_t enter(na_rthread_t *t, uint32_t base, uint32_t n) {
    na_py_thread_t *p = t->python;
    uint32_t node = NA_NPROF_ROOT, path = ROOT_PATH;
    if (base != 0) {
        node = p->kept[base - 1].node;
        path = p->kept[base - 1].path;
    }
    for (; n != 0; n--) {
        na_py_frame_t *f = &p->kept[base];
        *f = p->fresh[n - 1];
        if (f->id != 0) {
            bool entry =
                na_py.layout.frame_owner != NA_PY_NONE && na_py.layout.frame_entry == NA_PY_NONE
                    ? base == 0 || f[-1].shim
                    : f->entry;
            uint32_t flags = base == 0 && p->cut ? NA_NPROF_STACK_TRUNCATED : 0;
            uint32_t inner =
                na_stacks_enter(t, &path, node, na_nprof_py_pc(f->id, f->unit, entry), flags);
            if (NA_UNLIKELY(inner == 0)) break; /* no room: what is outside stands for it */
            node = inner;
        }
        f->node = node;
        f->path = path;
        base++;
    }
    p->count = base;
    return node;
}

static NA_COLD void forget(na_py_thread_t *p, uint32_t unmapped) {
    p->unmapped = unmapped;
    p->count = 0;
    for (uint32_t i = 0; i < NA_PY_PAGES; i++)
        p->pages[i] = 0;
}

uint32_t na_python_node(na_rthread_t *t) {
    na_py_thread_t *p = t->python;
    if (NA_UNLIKELY(p == NULL) && (p = make(t)) == NULL) return NA_NPROF_ROOT;
    uint32_t unmapped = atomic_load_explicit(&na_py_unmapped, memory_order_relaxed);
    if (NA_UNLIKELY(p->unmapped != unmapped)) forget(p, unmapped);
    uintptr_t frame = innermost(p);
    if (frame == 0) return NA_NPROF_ROOT;
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
    if (n == 0) {
        p->count = (uint32_t)base;
        return base != 0 ? p->kept[base - 1].node : NA_NPROF_ROOT;
    }
    return enter(t, (uint32_t)base, n);
deep:
    /* The innermost of them. Nothing is kept: it would be compared in vain. */
    count(&na_py_entry->deep);
    p->cut = true;
    uint32_t node = enter(t, 0, n);
    p->count = 0;
    return node;
}
