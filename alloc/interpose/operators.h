/* operators.h - which of C++'s allocation operators a program has replaced.
 *
 * A program, or a library, may bring some forms of operator new and delete and leave the others to
 * the C++ runtime, whose default of each form calls the form below it ([new.delete]): sized delete
 * calls delete, delete[] calls delete, a nothrow form the one that throws. Ours do the work
 * themselves, so they have to step aside where a form below is somebody else's. So has a form that
 * was replaced in a library behind ours in the loader's order, which ours hides.
 *
 * What counts: the definitions of all modules, in the loader's order, but for the runtime's own
 * defaults and for those of another malloc behind ours, which ours replaces as it replaces that
 * malloc. Modules are looked at when the first operator is called, so a program without C++ pays
 * nothing. Libraries that are opened later change nothing: behind the runtime the loader would not
 * find theirs either. Where no runtime was there at the start (a program in C that opens libraries
 * in C++), those that are there at the first call count, and the one that is called is kept.
 *
 * It costs nothing where nothing is replaced: each form compares its argument once in any case (is
 * the size a small one, can this be an address), and a form that has to ask first finds a limit of
 * 0 there. So do sized forms of delete with NUMALLOC_CHECK=1, which checks the size. */
#ifndef NUMALLOC_ALLOC_INTERPOSE_OPERATORS_H
#define NUMALLOC_ALLOC_INTERPOSE_OPERATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"

/* Arguments: n size, t nothrow, a alignment, p block. */
typedef enum na_operator_shape {
    NA_NEW_N,
    NA_NEW_NT,
    NA_NEW_NA,
    NA_NEW_NAT,
    NA_DELETE_P,
    NA_DELETE_PN,
    NA_DELETE_PT,
    NA_DELETE_PA,
    NA_DELETE_PNA,
    NA_DELETE_PAT,
} na_operator_shape_t;

/* X(form, symbol, shape, the form below: itself if there is none). The common ones first: their
 * limits share a cache line. */
#define NA_OPERATORS(X)                                                                            \
    X(NEW, _Znwm, NEW_N, NEW)                                                                      \
    X(DELETE_SIZED, _ZdlPvm, DELETE_PN, DELETE)                                                    \
    X(DELETE, _ZdlPv, DELETE_P, DELETE)                                                            \
    X(NEW_ARRAY, _Znam, NEW_N, NEW)                                                                \
    X(DELETE_ARRAY, _ZdaPv, DELETE_P, DELETE)                                                      \
    X(DELETE_ARRAY_SIZED, _ZdaPvm, DELETE_PN, DELETE_ARRAY)                                        \
    X(NEW_NOTHROW, _ZnwmRKSt9nothrow_t, NEW_NT, NEW)                                               \
    X(NEW_ARRAY_NOTHROW, _ZnamRKSt9nothrow_t, NEW_NT, NEW_ARRAY)                                   \
    X(NEW_ALIGNED, _ZnwmSt11align_val_t, NEW_NA, NEW_ALIGNED)                                      \
    X(NEW_ARRAY_ALIGNED, _ZnamSt11align_val_t, NEW_NA, NEW_ALIGNED)                                \
    X(NEW_ALIGNED_NOTHROW, _ZnwmSt11align_val_tRKSt9nothrow_t, NEW_NAT, NEW_ALIGNED)               \
    X(NEW_ARRAY_ALIGNED_NOTHROW, _ZnamSt11align_val_tRKSt9nothrow_t, NEW_NAT, NEW_ARRAY_ALIGNED)   \
    X(DELETE_NOTHROW, _ZdlPvRKSt9nothrow_t, DELETE_PT, DELETE)                                     \
    X(DELETE_ARRAY_NOTHROW, _ZdaPvRKSt9nothrow_t, DELETE_PT, DELETE_ARRAY)                         \
    X(DELETE_ALIGNED, _ZdlPvSt11align_val_t, DELETE_PA, DELETE_ALIGNED)                            \
    X(DELETE_ARRAY_ALIGNED, _ZdaPvSt11align_val_t, DELETE_PA, DELETE_ALIGNED)                      \
    X(DELETE_SIZED_ALIGNED, _ZdlPvmSt11align_val_t, DELETE_PNA, DELETE_ALIGNED)                    \
    X(DELETE_ARRAY_SIZED_ALIGNED, _ZdaPvmSt11align_val_t, DELETE_PNA, DELETE_ARRAY_ALIGNED)        \
    X(DELETE_ALIGNED_NOTHROW, _ZdlPvSt11align_val_tRKSt9nothrow_t, DELETE_PAT, DELETE_ALIGNED)     \
    X(DELETE_ARRAY_ALIGNED_NOTHROW, _ZdaPvSt11align_val_tRKSt9nothrow_t, DELETE_PAT,               \
      DELETE_ARRAY_ALIGNED)

typedef enum na_operator {
#define X(form, symbol, shape, below) NA_OP_##form,
    NA_OPERATORS(X)
#undef X
        NA_OPERATOR_COUNT
} na_operator_t;

/* A form of new may work on its own for sizes below its limit, a form of delete for blocks whose
 * na_home_page is below. 0: na_operator_target says what is to be done. */
extern NA_NEAR uintptr_t na_operator_limits[NA_OPERATOR_COUNT];

typedef struct na_operator_target {
    void *function; /* NULL: ours, the caller itself */
    na_operator_shape_t shape;
} na_operator_target_t;

/* What a call of the form has to call. Looks at the modules if nobody has yet: no lock of ours may
 * be held. */
NA_COLD const na_operator_target_t *na_operator_target(na_operator_t op);

/* A library that is loaded now brings operators of its own, and neither is the C++ runtime nor has
 * a malloc: a runtime was linked into it, whose new calls malloc, and its calls may be bound to
 * that one (-Bsymbolic; LLVM's as rustc has it). Nothing of ours may be locked. */
NA_COLD bool na_operators_linked_in(void);

/* The form names the block's size. */
bool na_operator_is_sized(na_operator_t op);

/* Before the program opens its first library: how many modules there are until then. */
void na_operators_before_dlopen(void);

/* entry_cxx.c: our functions, and what the linker has made of their names in this module, which is
 * not the same where a static program has its own. */
typedef struct na_operators_linked {
    void *ours[NA_OPERATOR_COUNT], *named[NA_OPERATOR_COUNT];
} na_operators_linked_t;
void na_operators_linked(na_operators_linked_t *to);

#endif
