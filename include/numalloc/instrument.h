/* numalloc/instrument.h - between libnumalloc and libnumalloc-instrument: call stacks kept by the
 * program itself.
 *
 * Programs link libnumalloc-instrument and compile with -finstrument-functions; they need nothing
 * of this header. Thread-safe. */
#ifndef NUMALLOC_INSTRUMENT_H
#define NUMALLOC_INSTRUMENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One call that is under way. */
typedef struct numalloc_shadow_frame {
    uintptr_t call_site; /* return address, in the caller */
    uintptr_t function;  /* the function that was called */
    uintptr_t stack;     /* an address in its frame or below */
} numalloc_shadow_frame_t;

/* The calls under way of one thread, outermost first. */
typedef struct numalloc_shadow {
    const numalloc_shadow_frame_t *frames;
    uint32_t count;
    uint32_t lost; /* further calls, for which there was no room */
} numalloc_shadow_t;

/* Seen from a call with `here` in its frame, the call has ended without saying so: its frame lay at
 * or below. Far away means another stack, that of a signal handler. */
static inline int numalloc_shadow_ended(const numalloc_shadow_frame_t *call, uintptr_t here) {
    return here - call->stack < (uintptr_t)8 << 20;
}

/* `mine` gives the calling thread's calls; it is called from inside malloc and from signal
 * handlers. From now on a profile's stacks are taken from it instead of being walked. */
void numalloc_use_shadow_stacks(numalloc_shadow_t (*mine)(void));

#ifdef __cplusplus
}
#endif

#endif
