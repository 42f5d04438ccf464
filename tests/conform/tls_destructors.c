/* tls_destructors.c - threads that allocate and free in the destructors of their pthread keys, in
 * several rounds and after the library's own clean-up may have run, lose nothing and crash nothing.
 */
#include "support/check.h"
#include "support/fill.h"
#include "support/proc_mem.h"

#include <pthread.h>

#include "support/alloc_api.h"

#define KEYS    8
#define THREADS 2000
#define WARM_UP 200

typedef struct value {
    size_t key;
    int rounds; /* times that the destructor sets the key again */
    void *block;
    size_t size;
} value_t;

static pthread_key_t keys[KEYS];
static int destroyed; /* __atomic */

static value_t *make(size_t key, int rounds) {
    value_t *v = malloc(sizeof *v);
    REQUIRE(v != NULL);
    v->key = key;
    v->rounds = rounds;
    v->size = 50 + key * 300 + (key == 7 ? 200000 : 0);
    v->block = malloc(v->size);
    REQUIRE(v->block != NULL);
    fill_block(v->block, v->size, key);
    return v;
}

static void destroy(void *argument) {
    value_t *v = argument;
    __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED);
    CHECK_MSG(fill_holds(v->block, v->size, v->key), "key %zu", v->key);
    v->block = realloc(v->block, v->size * 2);
    REQUIRE(v->block != NULL);
    CHECK_MSG(fill_holds(v->block, v->size & ~(size_t)7, v->key), "key %zu", v->key);
    if (v->rounds > 0) pthread_setspecific(keys[v->key], make(v->key, v->rounds - 1));
    free(v->block);
    free(v);
    for (size_t i = 1; i < 20; i++)
        free(check_opaque(calloc(i, 40)));
}

static void *work(void *argument) {
    size_t turn = (size_t)(uintptr_t)argument;
    /* Some threads meet malloc for the first time in a destructor. */
    for (size_t k = 0; k < KEYS; k++)
        pthread_setspecific(keys[k], make(k, (int)((turn + k) % 3)));
    return NULL;
}

static void first_in_destructor(void *argument) {
    (void)argument;
    void *block = malloc(333);
    REQUIRE(block != NULL);
    memset(block, 1, 333);
    free(block);
}

static pthread_key_t late_key;

static void *idle(void *argument) {
    pthread_setspecific(late_key, argument);
    return NULL;
}

int main(void) {
    check_begin();
    long start = 0;
    for (size_t k = 0; k < KEYS; k++)
        REQUIRE(pthread_key_create(&keys[k], destroy) == 0);
    REQUIRE(pthread_key_create(&late_key, first_in_destructor) == 0);
    int expected = 0;
    for (size_t t = 0; t < THREADS; t++) {
        pthread_t id;
        REQUIRE(pthread_create(&id, NULL, work, (void *)t) == 0);
        REQUIRE(pthread_join(id, NULL) == 0);
        for (size_t k = 0; k < KEYS; k++)
            expected += 1 + (int)((t + k) % 3);
        REQUIRE(pthread_create(&id, NULL, idle, &start) == 0);
        REQUIRE(pthread_join(id, NULL) == 0);
        if (t == WARM_UP) start = proc_rss_kib();
    }
    CHECK_MSG(destroyed == expected, "%d destructors ran, not %d", destroyed, expected);
    long grown = proc_rss_kib() - start;
    CHECK_MSG(grown < 16 * 1024, "resident memory grew by %ld KiB", grown);
    return check_status();
}
