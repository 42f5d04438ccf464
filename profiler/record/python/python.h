/* python.h - the Python frames of the calling thread, from inside malloc. CPython 3.9 to 3.13.
 *
 * What is found. A module that defines _PyEval_EvalFrameDefault and the few other symbols that are
 * needed is the interpreter: the program itself, or libpython. They are looked up in the module's
 * own symbol table when a walk or the start meets it (python_find.c); the loader is not asked.
 * Where which field lies is told by a table for each version, from 3.13 on by the interpreter's own
 * (_Py_DebugOffsets). What is of no known version, or has no GIL, is left alone.
 *
 * What is read. The calling thread's own chain of frames, from its own thread state: nobody else
 * changes it, with the GIL or without. Nothing is written, no reference is taken, no Python code
 * runs, nothing is allocated but by na_own_alloc, and the four functions of the interpreter that
 * are called return a pointer or a flag. A signal may have interrupted the interpreter where a
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
 * what these texts are, as a sum of them, or of the hashes that the interpreter keeps with most of
 * them (names, and tables that it compiled itself). So all are certain; what differs is the cost.
 *
 * What is kept. Two things, as native stacks are kept (unwind/frames.h):
 *
 *   chain   the frames of an earlier event, outermost first, each with its node. A frame of it is
 *           so still if its instruction, code and link are, and those of all frames outside of it:
 *           any of these may have changed unseen, so an event compares them to the end.
 *   tails   innermost frames that were met inside of the chain, by frame and instruction. They do
 *           not enter the chain, since most are gone when the next event comes: what differs
 *           between two events is mostly the innermost instruction, and that has been met before.
 *
 * A kept frame is read only when the frame inside of it, as it is now, leads there.
 *
 * Used by its own thread, inside the recorder. x86-64 only. */
#ifndef NUMALLOC_RECORD_PYTHON_H
#define NUMALLOC_RECORD_PYTHON_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/format/nprof_python.h"
#include "profiler/record/state/state.h"

#define NA_PY_MOST  8192u /* frames */
#define NA_PY_LEAST 64u   /* room at first */

/* Where fields lie, in bytes; see python_find.c for the tables. */
typedef struct na_py_layout {
    uint16_t version;      /* 0x030b */
    uint16_t thread_frame; /* thread state: the innermost frame, */
    uint16_t cframe_frame; /* or what leads to it: there; NONE: the frame itself */
    uint16_t thread_id;    /* pthread_self of its thread */
    uint16_t frame_size;   /* so many bytes of a frame are read */
    uint16_t frame_back, frame_code, frame_instr;
    uint16_t frame_owner; /* NONE: no frames but Python's */
    uint16_t frame_entry; /* a byte: called by native code; NONE: all are, or the frame outside says
                             it */
    uint16_t code_name, code_file, code_line, code_lines;
    uint16_t code_start;     /* the first instruction; NONE: frames hold the number of one */
    uint16_t code_traceable; /* instructions before this one are no calls yet; NONE: none are */
    uint16_t text_ascii, text_wide; /* where a str's characters begin */
    uint8_t lines;                  /* NA_NPROF_PY_LOCATIONS and so on */
    bool in_units;                  /* the number counts pairs of bytes */
    /* Of these: */
    uint16_t frame_linked; /* two words, one after the other: back, and instr or code */
    uint8_t how;           /* na_py_how_t */
} na_py_layout_t;
#define NA_PY_NONE UINT16_MAX

/* How frames tell where they are. */
typedef enum na_py_how {
    NA_PY_BY_LINKED,  /* the words that lie together are link and instruction, which is in the code
                       */
    NA_PY_BY_POINTER, /* or link and code, and the instruction elsewhere */
    NA_PY_BY_NUMBER,  /* the same, as a number */
} na_py_how_t;

/* The interpreter. */
typedef struct na_py {
    na_py_layout_t layout; /* version 0: none has been found */
    const void *(*own_state)(void);
    const void *(*current_state)(void);
    int (*is_finalizing)(void);
    const void *code_type, *text_type, *bytes_type;
    uintptr_t start, end;     /* the module */
    uintptr_t eval, eval_end; /* its evaluation function */
    const void *link_map;
    bool lasting; /* it will not be unloaded */
} na_py_t;

extern NA_NEAR na_py_t na_py;
extern NA_NEAR na_nprof_python_t *na_py_entry;  /* in the file; NULL: no room */
extern NA_NEAR _Atomic uint32_t na_py_unmapped; /* raised when the program unmaps something */

/* What code without a record is known by; all zeros: it is none of these. */
typedef struct na_py_mark {
    uintptr_t name, file, lines; /* the objects */
    uint64_t file_sum;           /* of what the file holds, */
    uint64_t sum;                /* and of what the others do, and the first line */
} na_py_mark_t;

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
    uint32_t outer, place; /* of a tail: outer_of() of the frame outside of it, and that one's place
                              in the chain, from 1; 0: there is none */
    bool entry, shim;
} na_py_frame_t;
_Static_assert(sizeof(na_py_frame_t) == 192 || sizeof(na_py_frame_t) == 128, "");

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

#define NA_PY_PAGES     128u
#define NA_PY_TAIL_BITS 6
typedef struct na_py_thread {
    _Alignas(64) na_py_frame_t *kept, *fresh; /* room for as many each */
    uint32_t count, room;
    const void *state; /* the thread's own, seen last */
    uintptr_t top;     /* what leads to the innermost frame: it could be read the last time */
    uint32_t unmapped; /* na_py_unmapped, when what follows was found */
    bool cut;          /* the outermost kept frame is not the chain's */
    uintptr_t pages[NA_PY_PAGES];
    na_py_frame_t tails[1u << NA_PY_TAIL_BITS]; /* frame 0: none */
    na_py_seen_t seen[1u << NA_PY_SEEN_BITS][NA_PY_SEEN];
} na_py_thread_t;

/* ---- python_find.c ---- */
/* A profile begins; `wanted`: Python frames are. */
void na_python_begin(bool wanted);
/* The modules that are there have been seen. */
void na_python_ready(void);
/* As na_modules_seen: a module that no walk has met before. */
void na_python_module(const na_unwind_seen_t *seen);

/* ---- python_walk.c ---- */
/* The node of the calling thread's Python frames; NA_NPROF_ROOT: it has none. */
uint32_t na_python_node(na_rthread_t *t);
/* [at, at + bytes) can be read. */
bool na_py_can_read(na_py_thread_t *p, uintptr_t at, size_t bytes);
/* The program has unmapped something. */
NA_INLINE void na_python_unmapped(void) {
    atomic_fetch_add_explicit(&na_py_unmapped, 1, memory_order_relaxed);
}

/* All zeros: the life of what does not die. */
extern const na_record_t na_py_no_record;

/* Another thread's place is taken over: nothing that was kept is of this one's chain. */
void na_python_forget(na_py_thread_t *p);

/* ---- python_code.c ---- */
void na_py_codes_begin(void);
/* Fills what frames and `seen` say of a code object. False: it is none, or there was no room. */
bool na_py_code(na_py_thread_t *p, uintptr_t code, na_py_frame_t *frame);
/* The code object that is there, and can be read, has this mark. Nothing has been unmapped since
 * the mark was made. */
bool na_py_is_marked(uintptr_t code, const na_py_mark_t *m);
/* The same of frames [end + 1, i], from the innermost on: the first whose code has not; `end`: all
 * have. */
int32_t na_py_first_unmarked(const na_py_frame_t *frames, int32_t i, int32_t end);

#endif
