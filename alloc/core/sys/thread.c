/* thread.c - how many threads there are; the library's own ones. */
#include "alloc/core/sys/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/sys/os.h"
#include "alloc/core/sys/syscall.h"

typedef void *run_t(void *);

na_threads_t na_threads;
_Atomic uint32_t na_thread_own;

/* Their thread pointers; a place is free where it is 0. One that finds none is taken for the
 * program's. */
static _Atomic uintptr_t ours[8];
#define OURS (sizeof ours / sizeof ours[0])
static _Atomic uint32_t our_tids[OURS];

static uintptr_t me(void) {
    return (uintptr_t)pthread_self();
}

bool na_thread_is_among_ours(void) {
    for (unsigned i = 0; i < OURS; i++)
        if (atomic_load_explicit(&ours[i], memory_order_relaxed) == me()) return true;
    return false;
}

bool na_thread_tid_is_ours(uint32_t tid) {
    for (unsigned i = 0; i < OURS; i++)
        if (atomic_load_explicit(&our_tids[i], memory_order_relaxed) == tid) return tid != 0;
    return false;
}

static void *run_ours(void *run) {
    run_t *function;
    *(void **)&function = run;
    unsigned place = 0;
    for (uintptr_t none = 0; place < OURS; place++, none = 0)
        if (atomic_compare_exchange_strong(&ours[place], &none, me())) break;
    if (place < OURS) atomic_store(&our_tids[place], (uint32_t)na_sys0(SYS_gettid));
    void *result = function(NULL);
    if (place < OURS) atomic_store(&our_tids[place], 0);
    if (place < OURS) atomic_store(&ours[place], 0);
    atomic_fetch_sub(&na_thread_own, 1);
    return result;
}

bool na_thread_start(run_t *run) {
    /* Of a thread's own doing: blocked, they would end the process. (SIGSYS: a system call that a
     * sandbox answers by its handler. SIGTRAP: profiler/record/sources/watch.) And the two that the
     * C library keeps for itself. The kernel is asked: each of the C library's functions is one
     * more for the loader to find in every process. */
    uint64_t all = ~(1ull << (SIGBUS - 1) | 1ull << (SIGSYS - 1) | 1ull << (SIGTRAP - 1) |
                     3ull << 31),
             old = 0;
    na_sys4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&old, sizeof all);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 128 * 1024);
    pthread_t thread;
    atomic_fetch_add(&na_thread_own, 1);
    bool runs = pthread_create(&thread, &attributes, run_ours, *(void **)&run) == 0;
    if (!runs) atomic_fetch_sub(&na_thread_own, 1);
    pthread_attr_destroy(&attributes);
    na_sys4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&old, 0, sizeof old);
    return runs;
}

void na_thread_after_fork_child(void) {
    atomic_store(&na_thread_own, 0);
    for (unsigned i = 0; i < OURS; i++) {
        atomic_store(&our_tids[i], 0);
        atomic_store(&ours[i], 0);
    }
}

/* The first thread stays as a zombie, and in the count, until the process ends. */
bool na_thread_is_left_alone(void) {
    char text[512];
    if (na_os_ask_file("/proc/self/stat", text, sizeof text) <= 0) return false;
    const char *p = NULL; /* the program's name may contain anything: from the last ')' */
    for (const char *at = text; *at != 0; at++)
        if (*at == ')') p = at;
    if (p == NULL || p[1] != ' ' || p[2] != 'Z') return false;
    for (unsigned field = 2; field < 20 && *p != 0; p++)
        field += *p == ' ';
    uint32_t threads = 0;
    for (; *p >= '0' && *p <= '9'; p++)
        threads = threads * 10 + (uint32_t)(*p - '0');
    return threads <= 1 + atomic_load(&na_thread_own);
}
