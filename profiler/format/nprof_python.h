/* nprof_python.h - what a profile says of CPython: types 50 to 52, and Python frames on stacks.
 *
 * A Python frame is an entry of STACKS like any other, whose pc is no address: bit 47 is set, which
 * no address of a program has on x86-64, the only machine on which these are written. The frames of
 * a thread's Python code are a stack of their own, beside that of its native code. An event that
 * has both is at a *pair*: an entry whose parent is the native stack, and whose pc names the Python
 * one. Readers put the two together:
 *
 *   - Python frames come in groups. Each call of the interpreter's evaluation function (its ranges
 *     are in PYTHON) runs one: a frame with ENTRY, and those further in that have none.
 *   - From the outermost on, the nth native frame in those ranges is replaced by the nth group.
 *     Calls that are left over have not begun their frame, and stay.
 *   - A frame of code 0 is none. With ENTRY it is a group of its own: of a call whose frame has
 *     ended, or not begun, and which stays. Without, which only the outermost is, it says that
 *     what is outside belongs to another interpreter. Then, where the outermost is TRUNCATED, and
 *     where PYTHON is `counted` (of older profiles: in 3.11), the groups are those of the innermost
 *     calls: calls outside of them are of another interpreter or another greenlet.
 *   - If there are fewer calls than groups, outer native frames are missing (or lie where no range
 *     tells). Then the innermost belong together, and the other groups are outermost.
 *
 * Only pairs name Python stacks, and only counters, events and blocks name pairs. */
#ifndef NUMALLOC_PROFILER_FORMAT_NPROF_PYTHON_H
#define NUMALLOC_PROFILER_FORMAT_NPROF_PYTHON_H

#include <stddef.h>
#include <stdint.h>

#define NA_NPROF_PYTHON       50u
#define NA_NPROF_PYTHON_CODES 51u
#define NA_NPROF_PYTHON_TEXT  52u

/* pc of a pair: PAIR and, in the lowest 28 bits, the innermost entry of the Python stack.
 * pc of a Python frame: FRAME; bits 0 to 19 the instruction, in units of two bytes from the
 * beginning of its code (UNIT_NONE: not known; UNIT_BEFORE: before the first); bits 20 to 44 the
 * code, by its id. */
#define NA_NPROF_PY_FRAME       (UINT64_C(1) << 47)
#define NA_NPROF_PY_PAIR        (UINT64_C(3) << 46)
#define NA_NPROF_PY_ENTRY       (UINT64_C(1) << 45)
#define NA_NPROF_PY_UNIT_NONE   0xfffffu
#define NA_NPROF_PY_UNIT_BEFORE 0xffffeu
#define NA_NPROF_PY_CODES_MOST  (1u << 25)
#define NA_NPROF_PY_NODE_MASK   ((UINT64_C(1) << 28) - 1)

static inline int na_nprof_is_py(uint64_t pc) {
    return pc >> 47 == 1;
}
static inline int na_nprof_is_py_pair(uint64_t pc) {
    return pc >> 46 == 3;
}
static inline uint64_t na_nprof_py_pc(uint32_t code, uint32_t unit, int entry) {
    return NA_NPROF_PY_FRAME | (entry ? NA_NPROF_PY_ENTRY : 0) | (uint64_t)code << 20 | unit;
}
#define NA_NPROF_PY_ALL_RUN  0x030bu
#define NA_NPROF_PY_NO_FRAME (NA_NPROF_PY_FRAME | NA_NPROF_PY_ENTRY)
#define NA_NPROF_PY_OTHER    NA_NPROF_PY_FRAME
static inline uint32_t na_nprof_py_code(uint64_t pc) {
    return (uint32_t)(pc >> 20) & (NA_NPROF_PY_CODES_MOST - 1);
}
static inline uint32_t na_nprof_py_unit(uint64_t pc) {
    return (uint32_t)pc & 0xfffffu;
}

/* How a code's table of lines is written. */
#define NA_NPROF_PY_LNOTAB    1u /* 3.9: pairs of bytes, distances of instruction and line */
#define NA_NPROF_PY_LINETABLE 2u /* 3.10: the same, each pair a range; -128: no line */
#define NA_NPROF_PY_LOCATIONS 3u /* 3.11 on: the location table */

/* PYTHON, 256 bytes, one: the interpreter. The counts say what is missing on stacks. */
#define NA_NPROF_PY_RANGES          8u
#define NA_NPROF_PY_REFUSED_VERSION 1u /* where its fields lie is not known */
#define NA_NPROF_PY_REFUSED_NO_GIL  2u /* it has no GIL: threads change each other's objects */
typedef struct na_nprof_python {
    uint32_t version; /* 0x030b for 3.11; 0: does not exist; stored last */
    uint32_t range_count;
    uint64_t ranges[NA_NPROF_PY_RANGES][2]; /* of the evaluation function, [start, end) */
    uint64_t module[2];                     /* of the module that it lies in */
    uint64_t unreadable; /* frames that were no frames, where the chain was left off */
    uint64_t deep;       /* events with more frames than are kept: the outer ones are missing */
    uint64_t finalizing; /* events of threads that outlive the interpreter */
    uint64_t lost;       /* frames left out because there was no room for their code */
    uint32_t refused; /* NA_NPROF_PY_REFUSED_*; not 0: no frame was read, and nothing else holds */
    uint32_t other;   /* the code that stands for those without an entry; 0: all have one */
    uint64_t other_seen; /* times that one of those was met anew */
    uint64_t counted;    /* 1: each call of the evaluation function has a group */
    uint64_t reserved[6];
} na_nprof_python_t;
_Static_assert(sizeof(na_nprof_python_t) == 256, "");

/* PYTHON_CODES, 64 bytes; id first_id + i, from 1. What a code object was when it was first seen.
 * Two with the same name, file, first line and table are one. Texts are in UTF-8, in PYTHON_TEXT:
 * so many bytes from that word on.
 *
 * A program may make code for ever. So there are entries for so many, and fewer for code of no
 * file, whose name begins with '<'; all others are the one called NA_NPROF_PY_OTHER_NAME, whose
 * frames have UNIT_NONE. */
#define NA_NPROF_PY_CODES_KEPT      65536u
#define NA_NPROF_PY_MADE_CODES_KEPT 4096u
#define NA_NPROF_PY_OTHER_NAME      "<other code>"
typedef struct na_nprof_python_text_ref {
    uint32_t word, bytes;
} na_nprof_python_text_ref_t;

typedef struct na_nprof_python_code {
    uint32_t kind; /* NA_NPROF_PY_LNOTAB and so on; 0: does not exist; stored last */
    int32_t first_line;
    na_nprof_python_text_ref_t name, file, lines;
    uint64_t address; /* where it was, and its checksum */
    uint64_t checksum;
    uint64_t reserved[2];
} na_nprof_python_code_t;
_Static_assert(sizeof(na_nprof_python_code_t) == 64, "");

/* PYTHON_TEXT, 8 bytes: words of text; word first_id + i, from 0. A text lies in one chunk. */

#endif
