/* reader_python.h - CPython in a profile (nprof_python.h): its code objects, and how its frames are
 * put into the stacks that everybody sees.
 *
 * With Python frames the tree of na_reader_stacks is not the file's: pairs have become stacks of
 * one kind, and all ids, of sites, events and objects, are those of the new tree. */
#ifndef NUMALLOC_PROFILER_FORMAT_READER_READER_PYTHON_H
#define NUMALLOC_PROFILER_FORMAT_READER_READER_PYTHON_H

#include "profiler/format/nprof_python.h"
#include "profiler/format/reader/reader.h"

typedef enum na_python_frames {
    NA_PYTHON_LEAVES, /* Python frames, and the native ones inside of the innermost: the default */
    NA_PYTHON_ONLY,   /* Python frames; stacks without are as they are */
    NA_PYTHON_NATIVE, /* none: as if there were no interpreter */
    NA_PYTHON_BOTH,   /* all, but for the interpreter's evaluation function, which Python frames
                         stand for; else frames of the import system inside of other code are left
                         out */
} na_python_frames_t;

/* Before a table is read. */
void na_reader_python_frames(na_reader_t *reader, na_python_frames_t which);

/* What is known of the interpreter. NULL: no CPython, or Python frames were not asked for. */
const na_nprof_python_t *na_reader_python(na_reader_t *reader);

/* What is known of an interpreter whose frames were not read, though they were asked for; NULL:
 * there is none, or another's were. */
const na_nprof_python_t *na_reader_python_refused(na_reader_t *reader);

/* The code of a Python frame's pc. Texts end with a NUL that does not count; they may hold others.
 * False: the file does not have it. */
typedef struct na_python_code {
    const char *name, *file;
    uint32_t first_line, line; /* 0: not known */
} na_python_code_t;
bool na_reader_python_at(na_reader_t *reader, uint64_t pc, na_python_code_t *code);

/* The id in the tree of na_reader_stacks, of one in the file; what the reader returns has such
 * already, but for INHERITED entries, which are of another file. One that does not exist: neither.
 */
uint32_t na_reader_stack_id(na_reader_t *reader, uint32_t id);

/* Of a tree with Python frames: the flag of a native frame that lies inside of a Python one (only
 * with NA_PYTHON_LEAVES). No file has it. */
#define NA_READER_BELOW_PYTHON 8u

#endif
