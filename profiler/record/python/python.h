/* python.h - the Python frames of the calling thread, from inside malloc. CPython 3.9 to 3.15.
 *
 * What is found. A module that defines _PyEval_EvalFrameDefault and the few other symbols that are
 * needed is the interpreter: the program itself, or libpython. They are looked up in the module's
 * own symbol table when a walk or the start meets it (python_find.c); the loader is not asked.
 * Where which field lies is told by a table for each version, or by the interpreter itself
 * (python_layouts.h). An interpreter of no known version, or without a GIL, is left alone.
 *
 * What is read. The calling thread's own chain of frames, from its own thread state: nobody else
 * changes it, with the GIL or without. Where there are several interpreters, the state is that of
 * the one that the thread runs. Up to 3.11 only who has the GIL is known, and which thread made a
 * state: 3.11's is this thread's if it leads to the thread's own stack, an earlier version's is
 * left alone if it may be another thread's. Nothing is written, no reference is taken, no Python
 * code runs, nothing is allocated but by na_own_alloc, and the four functions of the interpreter
 * that are called return a pointer or a flag. A signal may have interrupted the interpreter where a
 * frame is half linked, so nothing is believed:
 *
 *   pages     before something is read that the thread has not read before, the kernel is asked
 *             whether the page can be (rt_sigprocmask with no valid request reads it, or fails).
 *             Pages so found are remembered until the program unmaps anything.
 *   objects   code, names and tables are read if their types are what they should be and their
 *             counts of references are not 0.
 *   chains    end at NA_PY_MOST frames.
 *   the end   of a thread that has no GIL, nothing is read once the interpreter is finalizing:
 *             its state may be gone.
 * What fails this is left out, with what is outside of it, and counted in the file.
 *
 * Which code it is. Code objects die, and others take their places. Those that are part of the
 * interpreter (the frozen modules') do not. One with a record of its own
 * (it came from malloc in this profile) is the one that it was if its record is of the same life.
 * Any other is known by a *mark*: where its name, file and table of lines are, its first line, and
 * what these texts are: the hashes that the interpreter keeps with most of them (names, and tables
 * that it compiled itself), or else a copy of all that they hold. So all are certain; what differs
 * is the cost.
 *
 * What is kept. Two things, as native stacks are kept (unwind/frames.h):
 *
 *   chain   the frames of an earlier event, outermost first, each with its node. A frame of it is
 *           so still if its instruction, code and link are, and those of all frames outside of it:
 *           any of these may have changed unseen, so an event compares them to the end.
 *   tails   frames that were met inside of the chain, by frame and instruction. The innermost do
 *           not enter the chain, since most are gone when the next event comes: what differs
 *           between two events is mostly the innermost instruction, and that has been met before.
 *           Where the chain has to be walked, a frame that is here as it was needs not be read,
 *           and has its node if it lies inside of the same ones.
 *   pairs   what a native stack and a Python one came to (stacks.c), with the thread's cell of it.
 *
 * Where the chain has to be walked, a small table (`places`) says where in what was kept a frame
 * may be. It is only a guess: what is found there is compared as any other. What the event has
 * found out by then is not looked for again (na_py_found_t). A new frame that is a tail is not
 * copied into `fresh`: the chain takes it from there, and the tail is told of its new node. No
 * frame that was read takes the place of a tail before all new frames have their nodes.
 *
 * A kept frame is read only when the frame inside of it, as it is now, leads there. Where nothing
 * has changed, as at nearly every event, what is done is in python_same.h.
 *
 * Used by its own thread, inside the recorder. x86-64 only. */
#ifndef NUMALLOC_PROFILER_RECORD_PYTHON_PYTHON_H
#define NUMALLOC_PROFILER_RECORD_PYTHON_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/format/nprof_python.h"
#include "profiler/record/python/python_layouts.h"
#include "profiler/record/state/state.h"
#include "profiler/record/unwind/cfi.h"

#define NA_PY_MOST  8192u /* frames */
#define NA_PY_LEAST 64u   /* room at first */

/* The interpreter. */
typedef struct na_py {
    na_py_layout_t layout; /* version 0: none has been found */
    uint32_t refused;      /* NA_NPROF_PY_REFUSED_*: it is told of in the file, and that is all */
    const void *(*own_state)(void);
    const void *(*current_state)(void);
    int (*is_finalizing)(void);
    const void *(*main_interpreter)(void);
    const void *code_type, *text_type, *bytes_type;
    uintptr_t start, end;                   /* the module */
    uintptr_t parts[NA_NPROF_PY_RANGES][2]; /* its evaluation function, [begin, end) each; the first
                                               is where it is called */
    uint32_t part_count;
    const void *link_map;
    bool lasting; /* it will not be unloaded */
} na_py_t;

extern NA_NEAR na_py_t na_py;
extern NA_NEAR na_nprof_python_t *na_py_entry;  /* in the file; NULL: no room */
extern NA_NEAR _Atomic uint32_t na_py_unmapped; /* raised when the program unmaps something */

/* What code without a record is known by; name 0: it is none of these. A text is known by its head:
 * length and hash. Where it has no hash there is a copy of what it holds, as long as the profile.
 */
typedef struct na_py_mark {
    _Alignas(16) uintptr_t name; /* the objects; so they lie in the code, too */
    uintptr_t lines;
    uint64_t name_head[2], lines_head[2], file_head[2];
    uintptr_t file;
    uint64_t file_sum; /* of what it holds */
    const uint8_t *name_copy, *lines_copy, *file_copy;
    uint32_t name_bytes, lines_bytes, file_bytes;
    int32_t first_line;
    /* Of a str that was copied: width and such, and where its characters begin. */
    uint8_t name_form, file_form, name_at, file_at;
    uint8_t copied; /* NA_PY_COPIED_* */
} na_py_mark_t;
_Static_assert(offsetof(na_py_mark_t, lines) == 8 && offsetof(na_py_mark_t, name_head) == 16 &&
                   offsetof(na_py_mark_t, file_head) == 48,
               "compared by sixteen bytes");
#define NA_PY_COPIED_NAME  1u
#define NA_PY_COPIED_LINES 2u
#define NA_PY_COPIED_FILE  4u
#define NA_PY_COPIED_FORMS 8u /* the forms of those of them that are a str have to be compared */

/* A frame. What is compared at each event comes first, in one line. */
typedef struct na_py_frame {
    _Alignas(64) uintptr_t frame;
    const na_record_t *life; /* of the code: that of its block; all zeros, and so is `born`, if
                                it has none, or there is none */
    _Alignas(16) uintptr_t linked[2]; /* two words of it that lie together, `back` one of them */
    na_record_t born;
    uintptr_t instr;
    uint32_t node, path; /* of it and all outside of it */
    uintptr_t back, code;
    na_py_mark_t mark;
    uint32_t marks; /* so many of the chain have marks: of this frame and those outwards */
    uint32_t id;    /* 0: the frame does not show */
    uint32_t unit;
    uint32_t as_outer; /* what a tail inside of it is told of it: node, and shim */
    /* Of a tail: the same of the frame outside of it, and that one's place in the chain, from 1; 0:
     * there is none. (`outer` of a new frame: UINT32_MAX, or that of the tail it is a copy of.) */
    uint32_t outer, place;
    bool entry, shim;
    /* Of a new frame: the tail that it is, as which it has been met before; nothing but `frame` and
     * `back` is set then. NULL: it was read, and is none. */
    struct na_py_frame *met;
} na_py_frame_t;
_Static_assert(sizeof(na_py_frame_t) == 256, "places are found by shifting");

/* Code that the thread met of late, in sets by address, the one met last first. */
#define NA_PY_SEEN_BITS 8
#define NA_PY_SEEN      4u
typedef struct na_py_seen {
    uintptr_t code;
    const na_record_t *life; /* NULL: none */
    na_record_t born;
    na_py_mark_t mark;
    uint64_t checksum;
    uint32_t id;
    uint32_t unmapped; /* na_py_unmapped, when the mark's objects were there */
} na_py_seen_t;

/* A native stack and a Python one, and what they came to: a node of the tree, and the thread's
 * cell of it, 0: not known. Node 0: none. */
typedef struct na_py_pair {
    uint64_t stacks; /* na_py_pair_of */
    uint32_t node, cell;
} na_py_pair_t;

/* What an event has found out of the innermost frame before it walks, all of it certain until the
 * walk changes what is kept. */
typedef struct na_py_found {
    na_py_frame_t *met; /* its tail: that its code is as it was is not said; NULL: it has none */
    uint32_t place;     /* kept frames [0, place) were looked at, from the innermost on, */
    int32_t changed;    /* and this is the first that is not as it was. place 0: none were */
} na_py_found_t;

#define NA_PY_PAGES      1024u
#define NA_PY_PLACE_BITS 9
#define NA_PY_TAIL_BITS  9
#define NA_PY_PAIR_BITS  12
#define NA_PY_NOWHERE    1u /* no address of anything, and of no page that has its place at [0] */
typedef struct na_py_thread {
    /* Room for as many each. The one in front of the kept ones is never as it was: comparisons
     * need not ask where they end. */
    _Alignas(64) na_py_frame_t *kept, *fresh;
    uint32_t count, room;
    const void *state; /* the thread's own, seen last; NOWHERE: none was */
    uint32_t unmapped; /* na_py_unmapped, when what follows was found */
    uint32_t replaced; /* so many tails */
    bool cut;          /* the outermost kept frame is not the chain's */
    bool named;        /* its name was asked for */
    bool
        other; /* `state`, or the one asked for last, is of another interpreter than the main one */
    uintptr_t readable;           /* the innermost frame met last; NOWHERE: none */
    uintptr_t pages[NA_PY_PAGES]; /* that can be read, by their lowest bits; 0, at [0] NOWHERE: none
                                   */
    uint16_t places[1u << NA_PY_PLACE_BITS];       /* in `kept`, by frame: where to look for it */
    uint64_t used[(1u << NA_PY_TAIL_BITS) / 64];   /* a bit for each set that has tails */
    na_py_frame_t tails[1u << NA_PY_TAIL_BITS][2]; /* frame 0: none */
    na_py_pair_t pairs[1u << NA_PY_PAIR_BITS];
    na_py_seen_t seen[1u << NA_PY_SEEN_BITS][NA_PY_SEEN];
} na_py_thread_t;

/* ---- python_find.c ---- */
/* A profile begins; `wanted`: Python frames are. */
void na_python_begin(bool wanted);
/* The modules that are there have been seen. */
void na_python_ready(void);
/* As na_modules_seen: a module that no walk has met before. */
void na_python_module(const na_unwind_seen_t *seen);

/* ---- python_parts.c ---- */
/* Of the function [begin, end), in *m, whose text can be read: at most so many other parts of it;
 * how many there are. Takes some microseconds for each 10 KiB of code. */
uint32_t na_py_parts(const na_unwind_module_t *m, uintptr_t begin, uintptr_t end,
                     uintptr_t parts[][2], uint32_t most);

/* ---- python_walk.c ---- */
/* The node of the calling thread's Python frames; NA_NPROF_ROOT: it has none. */
uint32_t na_python_node(na_rthread_t *t);
/* The same of those from `frame` outwards, the innermost one that na_python_same found nothing for
 * at this event but what is in *found. */
uint32_t na_python_walk(na_rthread_t *t, uintptr_t frame, const na_py_found_t *found);
/* [at, at + bytes) can be read. */
bool na_py_can_read(na_py_thread_t *p, uintptr_t at, size_t bytes);
/* The program has unmapped something. */
NA_INLINE void na_python_unmapped(void) {
    atomic_fetch_add_explicit(&na_py_unmapped, 1, memory_order_relaxed);
}

/* All zeros: the life of what does not die. */
extern const na_record_t na_py_no_record;

/* Another thread's place is taken over: nothing that was kept is of this one's chain. (Pairs are
 * the place's.) */
void na_python_attach(na_py_thread_t *p);

/* ---- python_name.c ---- */
/* The calling thread's name for the system becomes what threading.Thread has, once, unless it was
 * changed since its first event. Frames [0, count) that are kept are those of this event. */
NA_COLD void na_py_name_thread(na_rthread_t *t, uint32_t count);

/* ---- python_code.c ---- */
void na_py_codes_begin(void);
/* The text of the str that is there, in UTF-8: as many of the first characters as fit, or, if
 * `last`, of the last, and a zero. False: it is none. */
bool na_py_text(na_py_thread_t *p, uintptr_t at, char *to, uint32_t size, bool last);
/* Fills what frames and `seen` say of a code object. False: it is none, or there was no room. */
bool na_py_code(na_py_thread_t *p, uintptr_t code, na_py_frame_t *frame);
/* Of frames [end + 1, i], from the innermost on, the first whose code has not its mark any more;
 * `end`: all have. They have been found to be as they were but for that, and nothing has been
 * unmapped since they were read. */
int32_t na_py_first_unmarked(const na_py_frame_t *frames, int32_t i, int32_t end);
/* The innermost frame, but for its code as it was, has that still, and frames [0, n) of the chain
 * outside of it are as they were, with theirs. */
bool na_py_all_same(const na_py_frame_t *innermost, const na_py_frame_t *kept, uint32_t n);

#endif
