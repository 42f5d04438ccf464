/* realloc_storm.c - threads that do little else than realloc, from bytes to megabytes and back,
 * handing blocks on to each other; contents are verified at every step.
 *
 * Arguments: [seconds]; 4 otherwise. */
#include "support/check.h"
#include "support/fill.h"
#include "support/proc_mem.h"

#include <pthread.h>

#include "support/alloc_api.h"

#define THREADS 4
#define BLOCKS  48
#define SHARED  64

typedef struct block {
    void *at;
    size_t size;
    uint64_t seed;
} block_t;

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static block_t shared[SHARED];
static long end_ms;

static size_t next_size(uint64_t *random, size_t now) {
    uint64_t r = fill_random(random);
    switch (r % 8) {
    case 0:
        return now + 1;
    case 1:
        return now + now / 2 + 1;
    case 2:
        return now / 2 + 1;
    case 3:
        return now < 4096 ? now + 16 : now - 4000;
    case 4:
        return r % 512 < 8 ? fill_random_size(random, 22) : fill_random_size(random, 12);
    case 5:
        return now + 4096;
    default:
        return fill_random_size(random, 16);
    }
}

static void step(block_t *b, uint64_t *random) {
    size_t size = next_size(random, b->size);
    if (size > ((size_t)6 << 20)) size = 100;
    void *moved = realloc(b->at, size);
    REQUIRE(moved != NULL);
    size_t kept = (size < b->size ? size : b->size) & ~(size_t)7;
    CHECK_MSG(fill_holds(moved, kept, b->seed), "%zu -> %zu at %p", b->size, size, moved);
    b->at = moved;
    b->size = size;
    b->seed = fill_random(random);
    fill_block(moved, size, b->seed);
}

static void *work(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument + 100 + fill_seed();
    block_t blocks[BLOCKS];
    memset(blocks, 0, sizeof blocks);
    for (unsigned turn = 0; turn % 64 != 0 || proc_now_ms() < end_ms; turn++) {
        block_t *b = &blocks[fill_random(&random) % BLOCKS];
        step(b, &random);
        if (turn % 16 == 0) {
            block_t *s = &shared[fill_random(&random) % SHARED];
            pthread_mutex_lock(&shared_lock);
            block_t other = *s;
            *s = *b;
            *b = other;
            pthread_mutex_unlock(&shared_lock);
        }
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i].at);
    return NULL;
}

int main(int argc, char **argv) {
    check_begin();
    pthread_t ids[THREADS];
    long seconds = argc > 1 ? strtol(argv[1], NULL, 10) : 4;
    REQUIRE(seconds > 0);
    end_ms = proc_now_ms() + seconds * 1000;
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&ids[i], NULL, work, (void *)(i + 1)) == 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    for (size_t i = 0; i < SHARED; i++)
        free(shared[i].at);
    return check_status();
}
