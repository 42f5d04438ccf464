/* fork_raw.c - children that no fork handler knows of, as sandboxes, runtimes and crash handlers
 * make them by a system call of their own, from a program whose threads are busy in malloc: none
 * hangs or finds a broken heap, whatever the threads held that it does not have. Children that
 * share the parent's memory (vfork, and clone by its flags) are not taken for such ones.
 *
 * Arguments: [children]; 3,000 otherwise. */
#include "support/check.h"
#include "support/fill.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "support/alloc_api.h"

enum { WORKERS = 4, KEPT = 100, SHARING = 40, STACK = 1 << 18 };

typedef struct kept {
    unsigned char *at;
    size_t size;
} kept_t;

static kept_t kept[KEPT];
static int stop; /* __atomic */

/* Mostly what goes to the page heap and back; blocks of another thread now and then. */
static void *churn(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument + 1;
    static void *_Atomic handed[WORKERS];
    kept_t blocks[48] = {{NULL, 0}};
    while (__atomic_load_n(&stop, __ATOMIC_RELAXED) == 0) {
        kept_t *b = &blocks[fill_random(&random) % 48];
        if (b->at != NULL) CHECK_MSG(fill_holds(b->at, b->size, b->size), "%zu bytes", b->size);
        free(b->at);
        b->size = fill_random_size(&random, fill_random(&random) % 4 == 0 ? 19 : 13);
        b->at = malloc(b->size);
        REQUIRE(b->at != NULL);
        fill_block(b->at, b->size, b->size);
        free(__atomic_exchange_n((void **)&handed[fill_random(&random) % WORKERS], malloc(200),
                                 __ATOMIC_ACQ_REL));
    }
    for (size_t i = 0; i < 48; i++)
        free(blocks[i].at);
    return NULL;
}

static void some_work(uint64_t random, unsigned rounds) {
    kept_t own[200] = {{NULL, 0}};
    for (size_t i = 0; i < rounds * 200; i++) {
        kept_t *b = &own[fill_random(&random) % 200];
        if (b->at != NULL) CHECK_MSG(fill_holds(b->at, b->size, b->size), "%zu bytes", b->size);
        size_t size = fill_random_size(&random, i % 32 == 31 ? 20 : 12);
        if (i % 3 == 0) {
            free(b->at);
            b->at = i % 2 == 0 ? calloc(1, size) : malloc(size);
        } else {
            b->at = realloc(b->at, size);
        }
        b->size = size;
        REQUIRE(b->at != NULL);
        fill_block(b->at, b->size, b->size);
    }
    for (size_t i = 0; i < 200; i++)
        free(own[i].at);
}

static void *thread_in_child(void *argument) {
    some_work((uint64_t)(uintptr_t)argument + 3, 1);
    return NULL;
}

static pid_t fork_without_handlers(void) {
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void wait_for(pid_t pid, const char *what, size_t turn) {
    int status = -1;
    REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_MSG(status == 0, "%s of turn %zu: status %#x", what, turn, (unsigned)status);
}

/* Ends the process. `turn` says what this child does. */
__attribute__((noreturn)) static void child(size_t turn) {
    alarm(200); /* one that hangs ends by SIGALRM */
    check_failures = 0;
    pthread_t id;
    bool thread = turn % 8 == 1;
    if (thread) REQUIRE(pthread_create(&id, NULL, thread_in_child, (void *)turn) == 0);
    for (size_t i = turn % 3; i < KEPT; i += 3) {
        CHECK_MSG(fill_holds(kept[i].at, kept[i].size, i), "%zu bytes", kept[i].size);
        if (i % 2 == 0) {
            free(kept[i].at);
        } else {
            kept[i].at = realloc(kept[i].at, kept[i].size * 2);
            REQUIRE(kept[i].at != NULL);
            CHECK_MSG(fill_holds(kept[i].at, kept[i].size & ~(size_t)7, i), "%zu bytes",
                      kept[i].size);
        }
    }
    some_work(turn + 1, turn % 16 == 3 ? 40 : 2);
    if (thread) REQUIRE(pthread_join(id, NULL) == 0);
    if (turn % 16 == 2) {
        pid_t pid = turn % 32 == 2 ? fork() : fork_without_handlers();
        if (pid == 0) {
            some_work(turn + 3, 2);
            _exit(check_status());
        }
        wait_for(pid, "grandchild", turn);
    }
    _exit(check_status());
}

static int shares(void *argument) {
    some_work((uint64_t)(uintptr_t)argument, 1);
    return check_status();
}

/* While this thread waits, in its memory and under its name: threads go on with everything that is
 * theirs afterwards. */
static void share(size_t turn) {
    static unsigned char stack[STACK] __attribute__((aligned(64)));
    pid_t pid = clone(shares, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)turn);
    wait_for(pid, "child in shared memory", turn);
    some_work(turn, 1);
}

int main(int argc, char **argv) {
    check_begin();
    size_t children = argc > 1 ? strtoul(argv[1], NULL, 10) : 3000;
    REQUIRE(children > 0);
    pthread_t ids[WORKERS];
    uint64_t random = 17;
    for (size_t i = 0; i < KEPT; i++) {
        kept[i].size = fill_random_size(&random, i % 20 == 0 ? 19 : 11);
        kept[i].at = malloc(kept[i].size);
        REQUIRE(kept[i].at != NULL);
        fill_block(kept[i].at, kept[i].size, i);
    }
    for (size_t i = 0; i < WORKERS; i++)
        REQUIRE(pthread_create(&ids[i], NULL, churn, (void *)i) == 0);
    for (size_t turn = 0; turn < children; turn++) {
        pid_t pid = fork_without_handlers();
        REQUIRE(pid >= 0);
        if (pid == 0) child(turn);
        some_work(turn, 1);
        if (turn % SHARING == 0) share(turn);
        wait_for(pid, "child", turn);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_join(ids[i], NULL);
    for (size_t i = 0; i < KEPT; i++)
        CHECK_MSG(fill_holds(kept[i].at, kept[i].size, i), "%zu bytes", kept[i].size);
    return check_status();
}
