/* python_layouts.h - where CPython's fields lie, for each version whose frames are read.
 *
 * Up to 3.12 a table says it; 3.13 and later say most of it themselves, in what they keep for
 * debuggers at the beginning of _PyRuntime. The test programs.python_layouts holds both against the
 * headers of the versions that are on its machine. Other versions, and interpreters without the
 * GIL, have none. */
#ifndef NUMALLOC_PROFILER_RECORD_PYTHON_PYTHON_LAYOUTS_H
#define NUMALLOC_PROFILER_RECORD_PYTHON_PYTHON_LAYOUTS_H

#include <stdbool.h>
#include <stdint.h>

/* Of frames, state and code, in bytes but for code_tags. */
typedef struct na_py_layout {
    uint16_t version;       /* 0x030b */
    uint16_t thread_frame;  /* thread state: the innermost frame, */
    uint16_t cframe_frame;  /* or what leads to it: there; NONE: the frame itself */
    uint16_t thread_id;     /* pthread_self of its thread */
    uint16_t thread_interp; /* its interpreter; NONE: not needed */
    uint16_t frame_size;    /* so many bytes of a frame are read */
    uint16_t frame_back, frame_code, frame_instr;
    uint16_t frame_owner; /* NONE: no frames but Python's */
    uint16_t frame_entry; /* a byte: called by native code; NONE: all are, or the frame outside says
                             it */
    uint16_t code_tags;   /* bits of a frame's code that are no part of the address */
    uint16_t code_name, code_file, code_line, code_lines; /* lines: right behind the name */
    uint16_t code_start;     /* the first instruction; NONE: frames hold the number of one */
    uint16_t code_traceable; /* instructions before this one are no calls yet; NONE: none are */
    uint16_t text_ascii, text_wide; /* where a str's characters begin */
    uint16_t frame_locals;          /* a frame's first argument, and */
    uint16_t type_keys; /* a class's table of its objects' attributes; NONE: threads' names are not
                           read */
    uint8_t lines;      /* NA_NPROF_PY_LOCATIONS and so on */
    bool in_units;      /* the number counts pairs of bytes */
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

/* What all versions have in common. */
#define NA_PY_OWNER_GENERATOR 1u
#define NA_PY_OWNER_SHIM      3u /* and above: of the C stack, which marks where native code called */
#define NA_PY_REFERENCES_AT                                                                        \
    0u /* an object: the lower half of this word is not 0 while it lives                           \
        */
#define NA_PY_TYPE_AT        8u
#define NA_PY_LENGTH_AT      16u /* a str, bytes */
#define NA_PY_HASH_AT        24u /* the same */
#define NA_PY_NO_HASH        UINT64_MAX
#define NA_PY_STATE_AT       32u /* a str: four bytes, of which */
#define NA_PY_STATE_WIDTH(s) ((s) >> 2 & 7)
#define NA_PY_STATE_COMPACT  (1u << 5)
#define NA_PY_STATE_ASCII    (1u << 6)
#define NA_PY_STATE_FORM     0x7cu /* all these */
#define NA_PY_BYTES_AT       32u   /* bytes: what they hold */
/* From 3.11 to 3.13: a class, a table of attributes. */
#define NA_PY_FLAGS_AT      168u
#define NA_PY_FLAG_DICT     (1u << 4) /* attributes are where na_py_name_thread looks */
#define NA_PY_FLAG_HEAP     (1u << 9) /* the class is made by a program: it has `type_keys` */
#define NA_PY_KEYS_LOG_AT   9u        /* a byte: the table's index has as many bytes, log2 */
#define NA_PY_KEYS_KIND_AT  10u       /* a byte */
#define NA_PY_KEYS_SPLIT    2u        /* values lie apart */
#define NA_PY_KEYS_USED_AT  24u
#define NA_PY_KEYS_INDEX_AT 32u
#define NA_PY_KEYS_ENTRY    16u /* bytes; the first word is the name */
/* Where an object's values are: behind a word in front of it, up to 3.12; 3.13: behind its head. */
#define NA_PY_VALUES_3_11  32u
#define NA_PY_VALUES_3_12  24u /* less 1, or a dict */
#define NA_PY_VALUES_3_13  16u /* a head, of which this byte says that they are in use: */
#define NA_PY_VALUES_VALID 3u
#define NA_PY_VALUES_HEAD  8u

/* Whether frames of this version (0x030b) are read, and then how: 0, or why not:
 * NA_NPROF_PY_REFUSED_*. `debug`: the beginning of _PyRuntime, `words` of eight bytes; only 3.13
 * and later need it. */
uint32_t na_py_layout_of(uint16_t version, const uint64_t *debug, uint64_t words,
                         na_py_layout_t *l);

#endif
