/* harden_threads.c - hardened, freed blocks wait in a queue of each thread; where there are many
 * threads, which free and then sleep, all queues together do not hold more than a part. Where there
 * is no memory left, what waits serves the next malloc. The program runs itself at each level. */
#include "support/check.h"
#include "support/child.h"
#include "support/proc_mem.h"

#include <pthread.h>
#include <sys/resource.h>

enum { THREADS = 64, BLOCKS = 400 };
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;

/* Blocks that are freed one after the other; a large one. */
static void work(void) {
    static void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = check_opaque(malloc(16000));
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], 1, 16000);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    size_t large = (size_t)4 << 20;
    char *block = check_opaque(malloc(large));
    REQUIRE(block != NULL);
    memset(block, 1, large);
    free(block);
}

static void *sleeper(void *unused) {
    free(check_opaque(malloc(100)));
    pthread_barrier_wait(&barrier); /* all are there */
    pthread_mutex_lock(&turn);
    work();
    pthread_mutex_unlock(&turn);
    pthread_barrier_wait(&barrier); /* all have freed */
    pthread_barrier_wait(&barrier); /* was measured */
    return unused;
}

static void measure(long most_mib) {
    static pthread_t ids[THREADS];
    long before = proc_rss_kib();
    REQUIRE(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&ids[i], NULL, sleeper, NULL) == 0);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    long grown = (proc_rss_kib() - before) / 1024;
    CHECK_MSG(grown <= most_mib, "%d threads that sleep hold %ld MiB, more than %ld", THREADS,
              grown, most_mib);
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
}

/* Blocks that there are before malloc refuses. All are freed again. */
static unsigned all_there_are(size_t size) {
    static void *blocks[8192];
    unsigned count = 0;
    while (count < sizeof blocks / sizeof blocks[0] &&
           (blocks[count] = check_opaque(malloc(size))) != NULL)
        count++;
    for (unsigned i = 0; i < count; i++)
        free(blocks[i]);
    return count;
}

static void fill_limit(size_t size) {
    struct rlimit limit = {(rlim_t)512 << 20, (rlim_t)512 << 20};
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    unsigned first = all_there_are(size), again = all_there_are(size);
    CHECK_MSG(again >= first - first / 20, "of %zu bytes there were %u blocks, and then %u", size,
              first, again);
}

int main(int argc, char **argv) {
    check_begin();
    if (argc > 2) {
        fill_limit(strtoul(argv[2], NULL, 10));
        return check_status();
    }
    if (argc > 1) {
        measure(strtol(argv[1], NULL, 10));
        return check_status();
    }
    if (!check_is_ours())
        check_skip("NA_TEST_LIB is not set: other allocators do not promise this");
    static const char *const levels[] = {"NUMALLOC_HARDEN=1", "NUMALLOC_HARDEN=2"};
    static const char *const most[] = {"60", "260"};
    for (size_t i = 0; i < 2; i++) {
        const char *const env[] = {levels[i], NULL};
        child_result_t result;
        child_run_self(&result, most[i], NULL, env, NULL, NULL);
        child_expect_ok(&result, levels[i]);
        CHECK_MSG(result.err[0] == '\0' || !child_exited(&result, 0), "%s: %s", levels[i],
                  result.err);
        static const char *const sizes[] = {"100000", "1048576", "5000000"};
        for (size_t k = 0; k < 3; k++) {
            child_run_self(&result, "limit", sizes[k], env, NULL, NULL);
            child_expect_ok(&result, levels[i]);
        }
    }
    return check_status();
}
