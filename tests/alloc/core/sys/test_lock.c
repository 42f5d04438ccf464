/* test_lock.c - waiting for a lock, and a fork in the midst of it. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/os.h"

#define ROUNDS 100000u

static na_lock_t counting;
static uint64_t count;

static void *add(void *arg) {
    for (unsigned i = 0; i < ROUNDS; i++) {
        na_lock(&counting);
        count++;
        na_unlock(&counting);
    }
    return arg;
}

Test(lock, one_at_a_time) {
    pthread_t threads[3];
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, add, NULL), 0);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(count, 3 * ROUNDS);
}

Test(lock, for_a_while) {
    na_lock(&counting);
    cr_assert_not(na_lock_for(&counting, 5));
    na_unlock(&counting);
    cr_assert(na_lock_for(&counting, 5));
    cr_assert(na_lock_is_mine(&counting));
    na_unlock(&counting);
}

/* A thread holds both; the first one waits for one, and in a handler for the other, and is then
 * interrupted by a handler that forks. */
static na_lock_t outer, inner;
static uint32_t waiting; /* the first thread's tag */
static pthread_t waits;
enum { BEGUN = -3, HELD, WAITS };
static _Atomic int status_of = BEGUN; /* then the child's */
static volatile pid_t child = -1;

static void wait_in_handler(int number) {
    (void)number;
    na_lock(&inner);
    na_unlock(&inner);
}

static void fork_in_handler(int number) {
    (void)number;
    child = fork();
    if (child == 0) {
        alarm(200);
        na_lock_after_fork_child();
        return;
    }
    int status = -1;
    while (waitpid(child, &status, 0) < 0)
        continue;
    atomic_store(&status_of, status);
}

static void wait_till_it_sleeps(void) {
    while (!na_lock_sleeps(waiting))
        na_os_yield();
    usleep(20000); /* in the kernel */
}

static void *hold(void *nested) {
    na_lock(&outer);
    na_lock(&inner);
    atomic_store(&status_of, HELD);
    while (atomic_load(&status_of) != WAITS)
        na_os_yield();
    wait_till_it_sleeps();
    if (nested != NULL) {
        pthread_kill(waits, SIGUSR1);
        usleep(20000);
        wait_till_it_sleeps();
    }
    pthread_kill(waits, SIGUSR2);
    while (atomic_load(&status_of) == WAITS)
        na_os_yield();
    na_unlock(&inner);
    na_unlock(&outer);
    return NULL;
}

static void fork_while_waiting(bool nested) {
    /* The kernel goes on waiting after such a handler. */
    struct sigaction action = {.sa_handler = wait_in_handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = fork_in_handler;
    sigaction(SIGUSR2, &action, NULL);
    waits = pthread_self();
    pthread_t holder;
    cr_assert_eq(pthread_create(&holder, NULL, hold, nested ? &holder : NULL), 0);
    while (atomic_load(&status_of) != HELD)
        na_os_yield();
    waiting = na_thread_tag();
    atomic_store(&status_of, WAITS);
    na_lock(&outer);
    if (child == 0) _exit(na_lock_is_mine(&outer) ? 0 : 1);
    na_unlock(&outer);
    pthread_join(holder, NULL);
    cr_assert_eq(atomic_load(&status_of), 0, "the child: %#x", (unsigned)atomic_load(&status_of));
}

Test(lock, fork_while_waiting, .timeout = 300) {
    fork_while_waiting(false);
}

Test(lock, fork_while_waiting_twice, .timeout = 300) {
    fork_while_waiting(true);
}
