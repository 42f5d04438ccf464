/* instrument.c - keeps the calls under way of each thread, as the compiler's instrumentation
 * reports them, and tells the profiler where they are.
 *
 * The compiler calls __cyg_profile_func_enter and _exit around every function that it instruments.
 * Exceptions run the exits of the functions that they leave. longjmp does not: what it left is
 * dropped when a function is entered at or above its place on the stack, or when an instrumented
 * function further out ends. Until then it is shown as under way.
 *
 * A thread has one list. Signal handlers push on top of it and take away what they pushed. Of
 * coroutines only the calls of the one that runs now are certain.
 *
 * Nothing here allocates from malloc: a list is mapped at a thread's first call, mostly untouched,
 * and unmapped when the thread ends. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#include "numalloc/instrument.h"

#define NOT_INSTRUMENTED __attribute__((no_instrument_function))
#define EXPORTED         __attribute__((visibility("default"))) NOT_INSTRUMENTED

#define FRAMES_MAX (1u << 16)
#define BYTES      (FRAMES_MAX * sizeof(numalloc_shadow_frame_t))

/* Without libnumalloc in the process (nothing preloaded), the calls are kept for nobody. */
extern void numalloc_use_shadow_stacks(numalloc_shadow_t (*mine)(void)) __attribute__((weak));

static _Thread_local struct {
    numalloc_shadow_frame_t *frames;
    uint32_t count, lost;
    bool unable, ended;
} calls;

static pthread_key_t at_thread_end;
static _Atomic bool stacks_wanted; /* the profiler has been told */

NOT_INSTRUMENTED static numalloc_shadow_t mine(void) {
    return (numalloc_shadow_t){calls.frames, calls.count, calls.lost};
}

NOT_INSTRUMENTED static void thread_ends(void *frames) {
    calls.count = 0;
    calls.ended = true; /* destructors that come later are not followed */
    calls.frames = NULL;
    munmap(frames, BYTES);
}

__attribute__((constructor(101))) NOT_INSTRUMENTED static void tell_profiler(void) {
    if (numalloc_use_shadow_stacks == NULL || pthread_key_create(&at_thread_end, thread_ends) != 0)
        return;
    numalloc_use_shadow_stacks(mine);
    atomic_store_explicit(&stacks_wanted, true, memory_order_release);
}

__attribute__((noinline)) NOT_INSTRUMENTED static bool begin_thread(void) {
    if (calls.unable || calls.ended) return false;
    calls.unable = true; /* while the key is set, malloc may be called, which asks for the calls */
    void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED) return false;
    if (pthread_setspecific(at_thread_end, p) != 0) {
        munmap(p, BYTES);
        return false;
    }
    calls.frames = p;
    calls.unable = false;
    return true;
}

/* A function that was inlined reports itself from the frame of that around it, which goes on. */
NOT_INSTRUMENTED static bool is_around(const numalloc_shadow_frame_t *call, uintptr_t function,
                                       uintptr_t call_site, uintptr_t here) {
    return call->stack == here && call->call_site == call_site && call->function != function;
}

EXPORTED void __cyg_profile_func_enter(void *function, void *call_site);
EXPORTED void __cyg_profile_func_exit(void *function, void *call_site);

EXPORTED void __cyg_profile_func_enter(void *function, void *call_site) {
    if (!atomic_load_explicit(&stacks_wanted, memory_order_relaxed)) return;
    if (calls.frames == NULL && !begin_thread()) return;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    /* What lies at or below this call's place has ended without saying so. */
    uint32_t n = calls.count;
    while (n != 0 && calls.lost == 0 && numalloc_shadow_ended(&calls.frames[n - 1], here) &&
           !is_around(&calls.frames[n - 1], (uintptr_t)function, (uintptr_t)call_site, here))
        n--;
    if (n == FRAMES_MAX) {
        calls.lost++;
        return;
    }
    /* A signal handler that comes in between writes over what is not counted yet. */
    calls.frames[n] = (numalloc_shadow_frame_t){(uintptr_t)call_site, (uintptr_t)function, here};
    atomic_signal_fence(memory_order_release);
    calls.count = n + 1;
}

EXPORTED void __cyg_profile_func_exit(void *function, void *call_site) {
    (void)call_site;
    if (calls.lost != 0) {
        calls.lost--;
        return;
    }
    /* The nearest call of the function; those above it have ended without saying so. */
    for (uint32_t n = calls.count; n-- > 0;) {
        if (calls.frames[n].function != (uintptr_t)function) continue;
        calls.count = n;
        return;
    }
}
