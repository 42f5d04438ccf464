/* handover.c - the ways in which threads meet inside the allocator, all at once: short threads
 * whose heaps are adopted by the next, blocks freed by threads that did not make them while their
 * makers run, sleep or are gone, remote free lists and transfer caches of every class, trims,
 * questions, and forks whose children work on. Every block is verified. The program is for
 * ThreadSanitizer above all.
 *
 * Arguments: [seconds]; 3 otherwise. */
#include "support/check.h"
#include "support/fill.h"
#include "support/proc_mem.h"

#include <pthread.h>
#include <sys/wait.h>

#include "support/alloc_api.h"

#ifdef NA_PREFIXED
int numalloc_malloc_trim(size_t keep);
#define malloc_trim numalloc_malloc_trim
#endif

#define BATCH  300 /* blocks that change hands at once: several posts, of one class or of many */
#define QUEUES 8

typedef struct batch {
    struct batch *next;
    uint64_t seed;
    size_t size[BATCH];
    unsigned char *at[BATCH];
} batch_t;

typedef struct queue {
    pthread_mutex_t lock;
    batch_t *first;
} queue_t;

static queue_t queues[QUEUES];
static long end_ms;

static bool over(void) {
    return proc_now_ms() >= end_ms;
}

static void give(queue_t *queue, batch_t *batch) {
    pthread_mutex_lock(&queue->lock);
    batch->next = queue->first;
    queue->first = batch;
    pthread_mutex_unlock(&queue->lock);
}

static batch_t *take(queue_t *queue) {
    pthread_mutex_lock(&queue->lock);
    batch_t *batch = queue->first;
    if (batch != NULL) queue->first = batch->next;
    pthread_mutex_unlock(&queue->lock);
    return batch;
}

/* Blocks of one class, or of all; owned classes (48) and pooled ones (64) alike. */
static batch_t *make(uint64_t *random) {
    batch_t *b = malloc(sizeof *b);
    REQUIRE(b != NULL);
    b->seed = fill_random(random);
    uint64_t kind = b->seed % 4;
    for (size_t i = 0; i < BATCH; i++) {
        b->size[i] = kind == 0   ? 48
                     : kind == 1 ? 64
                     : kind == 2 ? fill_random_size(random, 11)
                                 : fill_random_size(random, i % 50 == 0 ? 16 : 8);
        b->at[i] = i % 16 == 0 ? calloc(1, b->size[i]) : malloc(b->size[i]);
        REQUIRE(b->at[i] != NULL);
        fill_block(b->at[i], b->size[i], b->seed + i);
    }
    return b;
}

static void drop(batch_t *b) {
    for (size_t i = 0; i < BATCH; i++) {
        CHECK_MSG(fill_holds(b->at[i], b->size[i], b->seed + i), "%zu bytes", b->size[i]);
        free(b->at[i]);
    }
    free(b);
}

/* Lives for a few batches: what it leaves behind comes home to a heap without a thread, or to the
 * one that adopted it. */
static void *short_life(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    for (unsigned i = 0; i < 3; i++) {
        give(&queues[fill_random(&random) % QUEUES], make(&random));
        batch_t *other = take(&queues[fill_random(&random) % QUEUES]);
        if (other != NULL) drop(other);
    }
    return NULL;
}

static void *parent_of_many(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!over()) {
        pthread_t id;
        void *seed = (void *)(uintptr_t)(fill_random(&random) | 1);
        REQUIRE(pthread_create(&id, NULL, short_life, seed) == 0);
        pthread_join(id, NULL);
    }
    return NULL;
}

static void *only_makes(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!over()) {
        give(&queues[fill_random(&random) % QUEUES], make(&random));
        if (fill_random(&random) % 8 == 0) usleep(2000); /* remote frees pile up */
    }
    return NULL;
}

static void *only_frees(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!over()) {
        batch_t *b = take(&queues[fill_random(&random) % QUEUES]);
        if (b != NULL)
            drop(b);
        else
            usleep(200);
    }
    return NULL;
}

static void *trims(void *argument) {
    (void)argument;
    while (!over()) {
        malloc_trim(0);
        usleep(3000);
    }
    return NULL;
}

static void child_work(uint64_t random) {
    for (unsigned i = 0; i < 4; i++) {
        /* Queues' locks may be held by threads that are not here; their blocks are another test's
         * (fork_threads). */
        batch_t *b = make(&random);
        drop(b);
    }
    malloc_trim(0);
    _exit(check_status());
}

static void *forks(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!over()) {
        batch_t *mine = make(&random);
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            drop(mine);
            child_work(random);
        }
        drop(mine);
        int status;
        REQUIRE(waitpid(pid, &status, 0) == pid);
        CHECK_MSG(status == 0, "a child ended with %#x", (unsigned)status);
        usleep(1000);
    }
    return NULL;
}

int main(int argc, char **argv) {
    check_begin();
    long seconds = argc > 1 ? strtol(argv[1], NULL, 10) : 3;
    REQUIRE(seconds > 0);
    for (size_t i = 0; i < QUEUES; i++)
        pthread_mutex_init(&queues[i].lock, NULL);
    end_ms = proc_now_ms() + seconds * 1000;
    void *(*const work[])(void *) = {parent_of_many, parent_of_many, only_makes, only_frees,
                                     only_frees,     trims,          forks};
    enum { THREADS = sizeof work / sizeof *work };
    pthread_t ids[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&ids[i], NULL, work[i], (void *)(uintptr_t)(i + 1 + fill_seed())) ==
                0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    for (size_t i = 0; i < QUEUES; i++)
        for (batch_t *b; (b = take(&queues[i])) != NULL;)
            drop(b);
    return check_status();
}
