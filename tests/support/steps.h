/* steps.h - one thread stepped through instruction by instruction, and another that does all it has
 * to do between two of them: an order of events that chance would take days to meet. x86-64.
 *
 * The stepped thread is any that calls steps_through: the trap flag makes the kernel send it
 * SIGTRAP after each instruction, and the handler acts where it was told to. What it does there it
 * lets the other thread do, since the stepped one may be inside the allocator. If the other has to
 * wait for a lock that the stepped one holds, the stepped one goes on after STEPS_PATIENCE_US, and
 * the other does as soon as it has the lock. steps_wait_other waits for its end. */
#ifndef NUMALLOC_TESTS_SUPPORT_STEPS_H
#define NUMALLOC_TESTS_SUPPORT_STEPS_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <ucontext.h>

enum { STEPS_PATIENCE_US = 500, STEPS_TRAP_FLAG = 0x100 };

/* What is to be done before which instruction; in this order, a last one without `act`. */
typedef struct steps_stop {
    uint64_t at;
    void (*act)(void);
} steps_stop_t;

/* --- the stepped thread --- */

static const steps_stop_t *steps_next;
static uint64_t steps_done;

static void steps_trapped(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    for (; steps_next->act != NULL && steps_next->at == steps_done; steps_next++)
        steps_next->act();
    steps_done++;
    if (steps_next->act == NULL) /* the rest at full speed */
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)STEPS_TRAP_FLAG;
}

static inline bool steps_catch(void) {
    struct sigaction action = {.sa_sigaction = steps_trapped, .sa_flags = SA_SIGINFO};
    return sigaction(SIGTRAP, &action, NULL) == 0;
}

/* From here on, until steps_end or the last stop. (128: the red zone stays as it is.) */
static inline __attribute__((always_inline)) void steps_begin(const steps_stop_t *stops) {
    steps_next = stops;
    steps_done = 0;
    __asm__ volatile("sub $128, %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::
                         : "memory", "cc");
}

static inline __attribute__((always_inline)) void steps_end(void) {
    __asm__ volatile(
        "sub $128, %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::
            : "memory", "cc");
}

/* The instructions that were stepped through. */
__attribute__((unused)) static uint64_t steps_through(void (*act)(void),
                                                      const steps_stop_t *stops) {
    steps_begin(stops);
    act();
    steps_end();
    return steps_done;
}

static inline void steps_nothing(void) {}

/* Steps through all, and stops nowhere. */
__attribute__((unused)) static const steps_stop_t steps_never[] = {{UINT64_MAX, steps_nothing},
                                                                   {0, NULL}};

/* --- the other thread, which does one thing at a time --- */

static void (*_Atomic steps_wanted)(void);
static _Atomic(bool) steps_over;

static void *steps_serve(void *unused) {
    (void)unused;
    while (!atomic_load(&steps_over)) {
        void (*act)(void) = atomic_load(&steps_wanted);
        if (act == NULL) {
            sched_yield();
            continue;
        }
        act();
        atomic_store(&steps_wanted, NULL);
    }
    return NULL;
}

static inline pthread_t steps_begin_other(void) {
    pthread_t thread;
    atomic_store(&steps_over, false);
    return pthread_create(&thread, NULL, steps_serve, NULL) == 0 ? thread : 0;
}

__attribute__((unused)) static void steps_end_other(pthread_t thread) {
    atomic_store(&steps_over, true);
    pthread_join(thread, NULL);
}

static inline void steps_wait_other(void) {
    while (atomic_load(&steps_wanted) != NULL)
        sched_yield();
}

static bool steps_waited_long(const struct timespec *from) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - from->tv_sec) * 1000000 + (now.tv_nsec - from->tv_nsec) / 1000 >
           STEPS_PATIENCE_US;
}

/* Between two instructions of the stepped thread; nothing, if the other still has to wait. */
__attribute__((unused)) static void steps_let_other(void (*act)(void)) {
    if (atomic_load(&steps_wanted) != NULL) return;
    struct timespec from;
    clock_gettime(CLOCK_MONOTONIC, &from);
    atomic_store(&steps_wanted, act);
    while (atomic_load(&steps_wanted) != NULL && !steps_waited_long(&from))
        sched_yield();
}

/* Outside. */
__attribute__((unused)) static void steps_have_other(void (*act)(void)) {
    steps_wait_other();
    atomic_store(&steps_wanted, act);
    steps_wait_other();
}

#endif
