/* fork_threads.c - thousands of forks while other threads allocate: no child hangs or finds a
 * broken heap. Each child verifies and frees blocks of the parent, allocates of its own, some start
 * a thread or fork again, while the parent goes on allocating.
 *
 * Arguments: [forks]; 10,000 otherwise. */
#include "support/check.h"
#include "support/fill.h"
#include "support/proc_mem.h"

#include <pthread.h>
#include <sys/wait.h>

#include "support/alloc_api.h"

#define WORKERS 3
#define KEPT    200
#define ABREAST 3 /* children alive at once */

typedef struct kept {
    void *at;
    size_t size;
} kept_t;

static kept_t kept[KEPT];
static int stop; /* __atomic */

static void *churn(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument + 1;
    kept_t blocks[64];
    memset(blocks, 0, sizeof blocks);
    while (__atomic_load_n(&stop, __ATOMIC_RELAXED) == 0) {
        kept_t *b = &blocks[fill_random(&random) % 64];
        if (b->at != NULL) CHECK_MSG(fill_holds(b->at, b->size, b->size), "%zu bytes", b->size);
        b->size = fill_random_size(&random, fill_random(&random) % 256 == 0 ? 18 : 11);
        if (fill_random(&random) % 4 == 0) {
            b->at = realloc(b->at, b->size);
        } else {
            free(b->at);
            b->at = malloc(b->size);
        }
        REQUIRE(b->at != NULL);
        fill_block(b->at, b->size, b->size);
    }
    for (size_t i = 0; i < 64; i++)
        free(blocks[i].at);
    return NULL;
}

static void some_work(uint64_t random, size_t count) {
    kept_t own[100];
    for (size_t i = 0; i < count; i++) {
        own[i].size = fill_random_size(&random, i % 32 == 31 ? 20 : 12);
        own[i].at = i % 3 == 0 ? calloc(1, own[i].size) : malloc(own[i].size);
        REQUIRE(own[i].at != NULL);
        fill_block(own[i].at, own[i].size, i);
    }
    for (size_t i = 0; i < count; i++) {
        CHECK_MSG(fill_holds(own[i].at, own[i].size, i), "%zu bytes", own[i].size);
        free(own[i].at);
    }
}

static void *thread_in_child(void *argument) {
    some_work((uint64_t)(uintptr_t)argument + 3, 100);
    return NULL;
}

static void check_kept(void) {
    for (size_t i = 0; i < KEPT; i++)
        CHECK_MSG(fill_holds(kept[i].at, kept[i].size, i), "%zu bytes", kept[i].size);
}

/* Ends the process. `turn` says what this child does beyond the usual. */
__attribute__((noreturn)) static void child(size_t turn) {
    alarm(200); /* a deadlock ends by SIGALRM */
    if (turn % 8 == 0) check_kept();
    for (size_t i = turn % 7; i < KEPT; i += 7) {
        CHECK_MSG(fill_holds(kept[i].at, kept[i].size, i), "%zu bytes", kept[i].size);
        if (i % 2 == 0) {
            free(kept[i].at);
        } else {
            void *moved = realloc(kept[i].at, kept[i].size * 2);
            REQUIRE(moved != NULL);
            CHECK_MSG(fill_holds(moved, kept[i].size & ~(size_t)7, i), "%zu bytes", kept[i].size);
        }
    }
    some_work(turn + 1, 40);
    if (turn % 16 == 1) {
        pthread_t id;
        REQUIRE(pthread_create(&id, NULL, thread_in_child, (void *)turn) == 0);
        some_work(turn + 2, 40);
        REQUIRE(pthread_join(id, NULL) == 0);
    }
    if (turn % 64 == 2) {
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            some_work(turn + 3, 40);
            _exit(check_status());
        }
        int status = 0;
        REQUIRE(waitpid(pid, &status, 0) == pid);
        CHECK_MSG(status == 0, "grandchild of fork %zu: status %#x", turn, (unsigned)status);
    }
    if (turn % 32 == 3) exit(check_status()); /* with its exit handlers */
    _exit(check_status());
}

static void reap(void) {
    int status = 0;
    pid_t pid = wait(&status);
    REQUIRE(pid > 0);
    CHECK_MSG(status == 0, "child %ld: status %#x", (long)pid, (unsigned)status);
}

int main(int argc, char **argv) {
    check_begin();
    size_t forks = argc > 1 ? strtoul(argv[1], NULL, 10) : 10000;
    REQUIRE(forks > 0);
    pthread_t ids[WORKERS];
    uint64_t random = 17;
    for (size_t i = 0; i < KEPT; i++) {
        kept[i].size = fill_random_size(&random, i % 50 == 0 ? 19 : 11);
        kept[i].at = malloc(kept[i].size);
        REQUIRE(kept[i].at != NULL);
        fill_block(kept[i].at, kept[i].size, i);
    }
    for (size_t i = 0; i < WORKERS; i++)
        REQUIRE(pthread_create(&ids[i], NULL, churn, (void *)i) == 0);
    size_t alive = 0;
    for (size_t turn = 0; turn < forks; turn++) {
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) child(turn);
        some_work(turn, 10);
        if (++alive == ABREAST) {
            reap();
            alive--;
        }
    }
    while (alive-- > 0)
        reap();
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_join(ids[i], NULL);
    check_kept();
    return check_status();
}
