/* stackmem.c - how much of a thread's stack is in memory: looked at by the thread itself, with
 * mincore, at its events, at most twice a second, and when it ends.
 *
 * The top is known without asking anybody: of a thread made by the C library its control block,
 * which lies above its stack; of the first thread the name of the program, which the kernel put
 * there. Pages between the top and the stack pointer are counted as they are, pages below it down
 * to the first that is not there. A signal or coroutine stack is not between the two: nothing is
 * counted. So the figure is a lower bound, taken at points in time. */
#include <sys/auxv.h>

#include "alloc/core/sys/syscall.h"
#include "profiler/record/state/state.h"

#define EVERY_MS   500u
#define LARGEST    ((uintptr_t)1 << 30)
#define STEP       512u /* pages of one question */
#define MOST_CALLS 64u

/* Resident pages from `from` upwards, `pages` of them; `whole`: none is missing. */
static uint64_t resident_from(uintptr_t from, uint64_t pages, bool *whole) {
    static _Atomic bool refused;
    unsigned char there[STEP];
    uint64_t found = 0;
    *whole = false;
    for (uint64_t done = 0; done < pages;) {
        uint64_t n = pages - done < STEP ? pages - done : STEP;
        if (na_sys_optional(&refused, SYS_mincore, (long)(from + done * na_os_page),
                            (long)(n * na_os_page), (long)there) != 0)
            return 0; /* not mapped throughout: no stack */
        for (uint64_t i = 0; i < n; i++)
            found += there[i] & 1;
        done += n;
    }
    *whole = found == pages;
    return found;
}

void na_stackmem_look(na_rthread_t *t, uint64_t ms, bool at_once) {
    if (!at_once && (t->stack_looked_ms != 0 && ms < t->stack_looked_ms + EVERY_MS)) return;
    t->stack_looked_ms = ms + 1;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), top = na_thread_pointer();
    if (here >= top) top = getauxval(AT_EXECFN);
    if (here >= top || top - here > LARGEST) return;
    uintptr_t page = here & ~(uintptr_t)(na_os_page - 1);
    bool whole;
    uint64_t pages = resident_from(page, (top - page) / na_os_page + 1, &whole);
    if (pages == 0) return;
    /* Further down, in steps that double: what was used deeper before is still there. */
    uint64_t below = 0, step = 1;
    for (unsigned calls = 0; step != 0 && calls < MOST_CALLS; calls++) {
        if (page < (below + step) * na_os_page) break;
        uint64_t found = resident_from(page - (below + step) * na_os_page, step, &whole);
        if (whole) {
            below += found;
            if (step < STEP) step *= 2;
        } else {
            step /= 2;
        }
    }
    uint64_t bytes = (pages + below) * na_os_page;
    if (bytes > t->entry->stack_resident) {
        na_nprof_thread_open(t->entry);
        t->entry->stack_resident = bytes;
        t->entry->stack_ms = ms;
        na_nprof_thread_seal(t->entry);
    }
}
