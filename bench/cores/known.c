/* known.c - programs whose moves are known, for tests/bench/cores.sh: numalloc-cores-known WHAT
 *
 *   private    two threads that each write a line of their own, 1,000 times: no line moves
 *   pingpong   two threads that add to one word in turn, 1,000 times each. Each waits, without
 * reading it, until the other has added: by a wait of the kernel. So each addition moves the line
 *   shared     two threads that read one line that nobody writes: no line moves but the first time
 *   child      each of two threads starts one that adds 1,000 times, and waits for its end: what it
 *              did counts
 *
 * An operation is an addition or a read. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MARK = 500, MARK_BEGIN = 1, MARK_END = 2, TIMES = 1000 };

static struct line { _Alignas(4096) _Atomic(uint32_t) word; } own[2], common, turn[2];
static pthread_barrier_t barrier;
static char what;

/* A futex is a word that the kernel reads: here in no cache. */
static void wait_for_turn(unsigned me) {
    syscall(SYS_futex, &turn[me].word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void pass_turn(unsigned me) {
    while (syscall(SYS_futex, &turn[1 - me].word, FUTEX_WAKE, 1, NULL, NULL, 0) == 0)
        ;
}

static void run(unsigned me, unsigned times) {
    for (unsigned i = 0; i < times; i++) {
        if (what == 'i' && (me != 0 || i != 0)) wait_for_turn(me);
        if (what == 's')
            (void)atomic_load(&common.word);
        else
            atomic_fetch_add(what == 'i' ? &common.word : &own[me].word, 1);
        if (what == 'i' && (me == 0 || i + 1 != times)) pass_turn(me);
    }
}

static void *run_as_child(void *arg) {
    run((unsigned)(uintptr_t)arg, TIMES);
    return NULL;
}

static void run_child(void *arg) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_as_child, arg) != 0) _exit(1);
    pthread_join(thread, NULL);
}

static void *work(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg;
    run(me, 2);
    pthread_barrier_wait(&barrier);
    syscall(MARK, MARK_BEGIN);
    if (what == 'c')
        run_child(arg);
    else
        run(me, TIMES);
    syscall(MARK, MARK_END, TIMES);
    pthread_barrier_wait(&barrier);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread[2];
    what = argc == 2 ? argv[1][argv[1][0] == 'p'] : 0; /* r, i, s, c */
    if (what != 'r' && what != 'i' && what != 's' && what != 'c') return 2;
    pthread_barrier_init(&barrier, NULL, 2);
    for (uintptr_t i = 0; i < 2; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)i) != 0) return 1;
    for (unsigned i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
