/* stress.c - threads that allocate, resize and free in a common pool, so that most blocks are freed
 * by another thread than made them; sizes from 1 byte to 1 MiB; every block is filled with a
 * pattern of its own, which is verified before it is freed: what was handed out twice, overlapped
 * or moved wrongly does not verify.
 *
 * Arguments: [seconds [threads]]; 4 seconds and 4 threads otherwise. */
#include "support/check.h"
#include "support/fill.h"
#include "support/proc_mem.h"

#include <pthread.h>

#include "support/alloc_api.h"

#define SLOTS 2048

typedef struct block {
    void *at;
    size_t size;
    uint64_t seed;
} block_t;

typedef struct slot {
    pthread_mutex_t lock; /* guards block; held for the exchange only */
    block_t block;
} slot_t;

static slot_t slots[SLOTS];
static long end_ms;

static block_t make(uint64_t *random) {
    block_t b;
    uint64_t r = fill_random(random);
    b.size = fill_random_size(random, r % 64 == 0 ? 20 : r % 8 == 0 ? 14 : 9);
    b.seed = fill_random(random);
    if (r >> 60 == 0) {
        b.at = memalign((size_t)16 << (r >> 50) % 9, b.size);
    } else if (r >> 61 == 1) {
        b.at = calloc(1, b.size);
        REQUIRE(b.at != NULL);
        CHECK_MSG(fill_is_zero(b.at, b.size), "calloc(%zu)", b.size);
    } else {
        b.at = malloc(b.size);
    }
    REQUIRE(b.at != NULL);
    fill_block(b.at, b.size, b.seed);
    return b;
}

static void verify(const block_t *b) {
    CHECK_MSG(fill_holds(b->at, b->size, b->seed), "%zu bytes at %p", b->size, b->at);
}

static void resize(block_t *b, uint64_t *random) {
    size_t size = fill_random_size(random, 15);
    void *moved = realloc(b->at, size);
    REQUIRE(moved != NULL);
    size_t kept = (size < b->size ? size : b->size) & ~(size_t)7;
    CHECK_MSG(fill_holds(moved, kept, b->seed), "realloc %zu -> %zu", b->size, size);
    b->at = moved;
    b->size = size;
    fill_block(moved, size, b->seed);
}

static void *work(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument * 7919 + 1 + fill_seed();
    block_t held = {0};
    for (unsigned turn = 0; turn % 64 != 0 || proc_now_ms() < end_ms; turn++) {
        uint64_t r = fill_random(&random);
        if (held.at == NULL) {
            held = make(&random);
        } else if (r % 8 == 0) {
            verify(&held);
            resize(&held, &random);
        }
        slot_t *slot = &slots[(r >> 32) % SLOTS];
        pthread_mutex_lock(&slot->lock);
        block_t other = slot->block;
        slot->block = held;
        pthread_mutex_unlock(&slot->lock);
        held = other;
        if (held.at != NULL && r >> 63 == 0) {
            verify(&held);
            free(held.at);
            held.at = NULL;
        }
    }
    if (held.at != NULL) {
        verify(&held);
        free(held.at);
    }
    return NULL;
}

int main(int argc, char **argv) {
    check_begin();
    long seconds = argc > 1 ? strtol(argv[1], NULL, 10) : 4;
    long threads = argc > 2 ? strtol(argv[2], NULL, 10) : 4;
    pthread_t ids[64];
    REQUIRE(seconds > 0 && threads > 0 && threads <= 64);
    for (size_t i = 0; i < SLOTS; i++)
        pthread_mutex_init(&slots[i].lock, NULL);
    /* In rounds: thread exits and adoptions of what they leave are a part of the stress. */
    for (long round = 0; round < 4; round++) {
        end_ms = proc_now_ms() + seconds * 250;
        for (long i = 0; i < threads; i++)
            REQUIRE(pthread_create(&ids[i], NULL, work, (void *)(round * 64 + i + 1)) == 0);
        for (long i = 0; i < threads; i++)
            pthread_join(ids[i], NULL);
    }
    for (size_t i = 0; i < SLOTS; i++)
        if (slots[i].block.at != NULL) {
            verify(&slots[i].block);
            free(slots[i].block.at);
        }
    return check_status();
}
