/* api_pool.c - numalloc_pool_* and markers: passed on to the profiler, if there is one. */
#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/sys/lock.h"
#include "alloc/core/thread/attach.h"
#include "alloc/record/recording.h"
#include "numalloc/numalloc.h"

/* Pools outlive profiles, so their names are kept here. A slot is used again after its pool. */
struct numalloc_pool {
    struct numalloc_pool *next; /* destroyed before; guarded by the lock */
    char name[96];
};

NA_SPARSE static struct numalloc_pool pools[NA_POOLS];
static na_lock_t pool_lock;
static uint32_t pools_used;
static struct numalloc_pool *destroyed;

static void tell_listener(numalloc_pool_t *pool, na_pool_event_t event, const void *block,
                          size_t size) {
    if (na_hooks == NULL) return;
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache == NULL) return;
    const na_hooks_t *hooks = na_section_enter(&tcache->track);
    if (hooks != NULL && hooks->on_pool != NULL)
        hooks->on_pool(&tcache->track.profile, event, (uint32_t)(pool - pools), pool->name, block,
                       size);
    na_section_leave(&tcache->track);
    na_tcache_leave(tcache);
}

numalloc_pool_t *numalloc_pool_create(const char *name) {
    na_lock(&pool_lock);
    struct numalloc_pool *pool = destroyed;
    if (pool != NULL)
        destroyed = pool->next;
    else if (pools_used < NA_POOLS)
        pool = &pools[pools_used++];
    na_unlock(&pool_lock);
    if (pool == NULL) return NULL;
    size_t i = 0;
    for (; name != NULL && name[i] != 0 && i < sizeof pool->name - 1; i++)
        pool->name[i] = name[i];
    pool->name[i] = 0;
    return pool;
}

void numalloc_pool_alloc(numalloc_pool_t *pool, const void *block, size_t size) {
    if (pool != NULL && block != NULL) tell_listener(pool, NA_POOL_ALLOC, block, size);
}

void numalloc_pool_free(numalloc_pool_t *pool, const void *block) {
    if (pool != NULL && block != NULL) tell_listener(pool, NA_POOL_FREE, block, 0);
}

void numalloc_pool_destroy(numalloc_pool_t *pool) {
    if (pool == NULL) return;
    tell_listener(pool, NA_POOL_DESTROY, NULL, 0);
    na_lock(&pool_lock);
    pool->next = destroyed;
    destroyed = pool;
    na_unlock(&pool_lock);
}

void na_pools_after_fork_child(void) {
    na_lock_reset(&pool_lock);
}

void numalloc_record_marker(const char *name) {
    if (na_hooks == NULL || name == NULL) return;
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache == NULL) return;
    const na_hooks_t *hooks = na_section_enter(&tcache->track);
    if (hooks != NULL && hooks->on_marker != NULL) hooks->on_marker(&tcache->track.profile, name);
    na_section_leave(&tcache->track);
    na_tcache_leave(tcache);
}
