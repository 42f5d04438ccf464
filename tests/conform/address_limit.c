/* address_limit.c - under RLIMIT_AS, set before the program starts: it starts; malloc gets most of
 * what the limit leaves, then says ENOMEM; realloc's failure leaves the block alone; after frees
 * the process goes on, in all sizes and threads. */
#include "support/all_memory.h"
#include "support/check.h"
#include "support/child.h"
#include "support/fill.h"
#include "support/proc_mem.h"

#include <pthread.h>
#include <sys/resource.h>

#define MIB ((size_t)1 << 20)

static void *in_thread(void *argument) {
    (void)argument;
    for (size_t size = 16; size <= 4 * MIB; size *= 4) {
        char *block = malloc(size);
        CHECK_MSG(block != NULL, "%zu bytes", size);
        if (block != NULL) block[0] = block[size - 1] = 1;
        free(block);
    }
    return NULL;
}

/* `limit`: of address space, bytes. */
static int inside(size_t limit) {
    size_t virtual_ = (size_t)proc_status_kib("VmSize:") * 1024;
    size_t room = limit > virtual_ ? limit - virtual_ : 0;
    static const size_t sizes[] = {64, 1000, 9000, 40000, 300000, MIB, 20 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i] * 8 > limit) continue;
        char *kept = malloc(3000);
        CHECK(kept != NULL);
        if (kept != NULL) fill_block(kept, 3000, 8);
        size_t total;
        node_t *list = take_all(sizes[i], &total);
        CHECK_MSG(total >= limit / 2, "%zu of %zu (%zu in use at the start) in blocks of %zu",
                  total, limit, limit - room, sizes[i]);
        errno = 0;
        CHECK(calloc(check_opaque_size(limit), 1) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(aligned_alloc(4096, check_opaque_size(limit)) == NULL && errno == ENOMEM);
        void *block = NULL;
        CHECK(posix_memalign(&block, 4096, check_opaque_size(limit)) == ENOMEM);
        if (kept != NULL) {
            errno = 0;
            CHECK(realloc(check_opaque(kept), check_opaque_size(limit)) == NULL && errno == ENOMEM);
            CHECK(fill_holds(kept, 3000, 8));
        }
        give_all(list);
        free(kept);
        /* The process goes on: the same again, in blocks of another size, from freed memory. */
        size_t again;
        size_t other = sizes[(i + 3) % (sizeof sizes / sizeof sizes[0])];
        if (other * 8 > limit) other = 5000;
        list = take_all(other, &again);
        CHECK_MSG(again >= total / 2, "only %zu in blocks of %zu after %zu in blocks of %zu", again,
                  other, total, sizes[i]);
        give_all(list);
        in_thread(NULL);
    }
    return check_status();
}

static int set_limit(void *context) {
    struct rlimit limit = {*(const size_t *)context, *(const size_t *)context};
    return setrlimit(RLIMIT_AS, &limit);
}

int main(int argc, char **argv) {
    check_begin();
    if (argc > 1) {
        size_t limit = strtoul(argv[1], NULL, 10);
        return inside(limit);
    }
    static const size_t limits[] = {96 * MIB, 200 * MIB, 400 * MIB};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        char text[32];
        snprintf(text, sizeof text, "%zu", limits[i]);
        child_result_t result;
        child_run_self(&result, text, NULL, NULL, set_limit, (void *)(uintptr_t)&limits[i]);
        child_expect_ok(&result, text);
    }
    /* Set from within, after the library has reserved what it likes. */
    size_t total;
    node_t *list;
    struct rlimit limit;
    REQUIRE(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = (size_t)proc_status_kib("VmSize:") * 1024 + 64 * MIB;
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    list = take_all(200 * MIB, &total);
    give_all(list);
    pthread_t id;
    REQUIRE(pthread_create(&id, NULL, in_thread, NULL) == 0);
    pthread_join(id, NULL);
    in_thread(NULL);
    return check_status();
}
