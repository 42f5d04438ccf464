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
 * Of any other, name, file, first line and table are compared whole by a checksum. So both parts
 * are certain; what differs is what they cost.
 *
 * What is kept. The chain of the thread's last event, outermost first, each with its node. An event
 * goes along the chain from the innermost frame and compares frame, instruction, code and link with
 * those kept; it has to come to the end (frames further out may have changed unseen), but what is
 * equal costs a few loads, and only from the outermost change inwards are nodes looked up again.
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
} na_py_layout_t;
#define NA_PY_NONE UINT16_MAX

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

/* A frame of the chain. What is compared at each event comes first, in one line. */
typedef struct na_py_frame {
    _Alignas(64) uintptr_t frame;
    uintptr_t back, instr, code; /* as read */
    const na_record_t *life;     /* of the code: that of its block; all zeros, and so is `born`, if
                                    it has none, or there is none */
    na_record_t born;
    uint64_t checksum; /* of code without a life; 0: there is nothing to compare */
    uint32_t id;       /* 0: the frame does not show */
    uint32_t unit;
    uint32_t node, path; /* of it and all outside of it */
    bool entry, shim;
} na_py_frame_t;

/* Code that the thread met of late, in sets by address, the one met last first. */
#define NA_PY_SEEN_BITS 8
#define NA_PY_SEEN      4u
typedef struct na_py_seen {
    uintptr_t code;
    const na_record_t *life; /* NULL: none */
    na_record_t born;
    uint64_t checksum;
    uint32_t id;
} na_py_seen_t;

#define NA_PY_PAGES 128u
typedef struct na_py_thread {
    _Alignas(64) na_py_frame_t *kept, *fresh; /* room for as many each */
    uint32_t count, room;
    const void *state; /* the thread's own, seen last */
    uint32_t unmapped; /* na_py_unmapped, when what follows was found */
    bool cut;          /* the outermost kept frame is not the chain's */
    uintptr_t pages[NA_PY_PAGES];
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

/* ---- python_code.c ---- */
void na_py_codes_begin(void);
/* Fills what frames and `seen` say of a code object. False: it is none, or there was no room. */
bool na_py_code(na_py_thread_t *p, uintptr_t code, na_py_frame_t *frame);
/* The checksum of a code object that is there, 0: it is none. */
uint64_t na_py_checksum(na_py_thread_t *p, uintptr_t code);

#endif
