/* fork_entries.c - threads are busy with every entry of the library while several others fork. Each
 * child works with all of the entries, on what it inherited and on its own; some start threads,
 * fork again, end with their exit handlers. Every child ends, well: whoever hangs is ended by
 * SIGALRM. Under any option of the library, and all together (CMakeLists.txt).
 *
 * Arguments: [forks [seconds that a child may take]]; 10,000 and 60 otherwise. */
#include "support/check.h"
#include "support/fill.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "numalloc/numalloc.h"

enum { FORKERS = 3, KEPT = 40, ROUNDS = 3 };

static int stop;          /* __atomic */
static unsigned patience; /* seconds */
static numalloc_heap_t *shared_heap;

/* --- what there is to do; each leaves nothing behind --- */

typedef void work_t(uint64_t *random);

static void verify(void *block, size_t size) {
    CHECK_MSG(fill_holds(block, size, size), "%zu bytes", size);
}

static void *filled(void *block, size_t size) {
    REQUIRE(block != NULL);
    fill_block(block, size, size);
    return block;
}

static void use_malloc(uint64_t *random) {
    void *at[16];
    size_t size[16];
    for (unsigned i = 0; i < 16; i++) {
        size[i] = fill_random_size(random, i == 0 ? 19 : 12);
        at[i] = i % 3 == 0 ? calloc(1, size[i]) : malloc(size[i]);
        if (i % 3 == 0) CHECK(at[i] != NULL && fill_is_zero(at[i], size[i]));
        filled(at[i], size[i]);
    }
    for (unsigned i = 0; i < 16; i += 2) {
        size_t more = fill_random_size(random, 13), held = more < size[i] ? more : size[i];
        at[i] = realloc(at[i], more);
        REQUIRE(at[i] != NULL);
        CHECK(fill_holds(at[i], held & ~(size_t)7, size[i]));
        filled(at[i], size[i] = more);
    }
    for (unsigned i = 0; i < 16; i++) {
        verify(at[i], size[i]);
        free(at[i]);
    }
    free(malloc(0));
}

static void use_aligned(uint64_t *random) {
    size_t size = fill_random_size(random, 13), alignment = (size_t)16 << fill_random(random) % 10;
    void *at[6] = {aligned_alloc(alignment, size),
                   memalign(alignment, size),
                   valloc(size),
                   pvalloc(size),
                   reallocarray(NULL, 1, size),
                   NULL};
    REQUIRE(posix_memalign(&at[5], alignment, size) == 0);
    for (unsigned i = 0; i < 6; i++) {
        filled(at[i], size);
        CHECK(malloc_usable_size(at[i]) >= size);
    }
    for (unsigned i = 0; i < 6; i++) {
        verify(at[i], size);
        free(at[i]);
    }
}

static void use_heaps(uint64_t *random) {
    numalloc_heap_t *own = numalloc_heap_create(NULL);
    for (unsigned i = 0; i < 8; i++) {
        numalloc_heap_t *heap = i % 2 == 0 && own != NULL ? own : shared_heap;
        size_t size = fill_random_size(random, 13);
        void *at = filled(numalloc_heap_malloc(heap, size), size);
        void *other = filled(numalloc_heap_aligned(heap, 64, size), size);
        at = numalloc_heap_realloc(heap, at, size + 500);
        CHECK(at != NULL && fill_holds(at, size & ~(size_t)7, size));
        verify(other, size);
        free(at);
        free(other);
    }
    numalloc_heap_stats_t stats;
    numalloc_heap_read_stats(shared_heap, &stats, sizeof stats);
    if (own == NULL) return;
    numalloc_heap_trim(own);
    numalloc_heap_destroy(own);
}

static void use_statistics(uint64_t *random) {
    numalloc_stats_t stats;
    numalloc_read_stats(&stats, sizeof stats);
    struct mallinfo2 info = mallinfo2();
    CHECK(info.uordblks <= info.arena + info.hblkhd);
    FILE *to = fopen("/dev/null", "w");
    if (to != NULL) {
        malloc_info(0, to);
        fclose(to);
    }
    if (fill_random(random) % 4 == 0) malloc_trim(0);
    if (fill_random(random) % 4 == 0) numalloc_trim(1 << 20);
}

static void use_nodes(uint64_t *random) {
    size_t size = fill_random_size(random, 16);
    int nodes[8] = {0}, count = numalloc_nodes(nodes, 8);
    REQUIRE(count > 0);
    void *at[] = {numalloc_alloc_onnode(size, nodes[0]), numalloc_alloc_local(size),
                  numalloc_alloc_interleaved(size, NULL, 0)};
    for (unsigned i = 0; i < 3; i++) {
        filled(at[i], size);
        CHECK(numalloc_node_of(at[i]) >= -1);
        verify(at[i], size);
        free(at[i]);
    }
    numalloc_replicas_t *copies = numalloc_replicate(&size, sizeof size);
    REQUIRE(copies != NULL);
    CHECK(*(const size_t *)numalloc_replica(copies) == size);
    numalloc_free_replicas(copies);
}

static void on_signal(int number) {
    (void)number;
    _exit(3);
}

static void use_system(uint64_t *random) {
    size_t size = (size_t)65536 << fill_random(random) % 4;
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(at != MAP_FAILED);
    at[size - 1] = 1;
    at = mremap(at, size, size * 2, MREMAP_MAYMOVE);
    REQUIRE(at != MAP_FAILED);
    munmap(at, size * 2);
    signal(SIGBUS, on_signal);
    struct sigaction action = {.sa_handler = on_signal}, before;
    sigaction(SIGSEGV, &action, &before);
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0) setrlimit(RLIMIT_AS, &limit);
}

static void use_profile(uint64_t *random) {
    numalloc_record_marker("here");
    numalloc_pool_t *pool = numalloc_pool_create("pool");
    char *memory = malloc(4096);
    REQUIRE(memory != NULL);
    if (pool != NULL) {
        numalloc_pool_alloc(pool, memory + 64, 100);
        numalloc_pool_free(pool, memory + 64);
        numalloc_pool_destroy(pool);
    }
    free(memory);
    (void)numalloc_record_is_running();
    if (fill_random(random) % 64 == 0) {
        numalloc_leaks_t leaks;
        (void)numalloc_scan_leaks(&leaks, sizeof leaks, 0);
    }
}

static void *short_life(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument + 5;
    use_malloc(&random);
    return malloc(100);
}

static void use_threads(uint64_t *random) {
    pthread_t id;
    void *left = NULL;
    REQUIRE(pthread_create(&id, NULL, short_life, (void *)(uintptr_t)fill_random(random)) == 0);
    REQUIRE(pthread_join(id, &left) == 0);
    free(left);
}

static work_t *const works[] = {use_malloc, use_aligned, use_heaps,   use_statistics,
                                use_nodes,  use_system,  use_profile, use_threads};
#define WORKS (sizeof works / sizeof works[0])

/* --- children --- */

static void *kept[KEPT]; /* of KEPT sizes, never freed by the parent */
static size_t kept_size(size_t i) {
    return 16 + i * i * 20;
}

/* A program that does nothing, without fork handlers. */
static void spawn(void) {
    char *argv[] = {(char *)(uintptr_t) "true", NULL};
    pid_t pid = 0;
    int status = 0;
    if (posix_spawn(&pid, "/bin/true", NULL, NULL, argv, argv + 1) == 0)
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void work_in_child(uint64_t *random, size_t turn, bool threads) {
    for (size_t i = 0; i < WORKS; i++) {
        work_t *work = works[(turn + i) % WORKS];
        if (threads || work != use_threads) work(random);
    }
}

static void fork_again(uint64_t *random, size_t turn) {
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        alarm(patience);
        work_in_child(random, turn + 1, true);
        if (turn % 32 == 2) exit(check_status());
        _exit(check_status());
    }
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_MSG(status == 0, "grandchild of fork %zu: status %#x", turn, (unsigned)status);
}

__attribute__((noreturn)) static void child(size_t turn) {
    alarm(patience);
    uint64_t random = turn + 9;
    for (size_t i = turn % 5; i < KEPT; i += 5) {
        verify(kept[i], kept_size(i));
        free(kept[i]);
    }
    work_in_child(&random, turn, turn % 8 == 1);
    if (turn % 16 == 2) fork_again(&random, turn);
    if (turn % 64 == 3) spawn();
    if (turn % 8 == 4) exit(check_status());
    _exit(check_status());
}

/* --- the parent's threads --- */

static void *busy(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument * 77 + 1;
    while (__atomic_load_n(&stop, __ATOMIC_RELAXED) == 0)
        works[(uintptr_t)argument](&random);
    return NULL;
}

static size_t forks;
static size_t turns; /* __atomic */

static void *forker(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    for (size_t turn; (turn = __atomic_fetch_add(&turns, 1, __ATOMIC_RELAXED)) < forks;) {
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) child(turn);
        use_malloc(&random);
        int status = 0;
        REQUIRE(waitpid(pid, &status, 0) == pid);
        CHECK_MSG(status == 0, "child %zu: status %#x", turn, (unsigned)status);
    }
    return NULL;
}

int main(int argc, char **argv) {
    check_begin();
    forks = argc > 1 ? strtoul(argv[1], NULL, 10) : 10000;
    patience = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 200;
    REQUIRE(forks > 0 && patience > 0);
    for (size_t i = 0; i < KEPT; i++)
        kept[i] = filled(malloc(kept_size(i)), kept_size(i));
    shared_heap = numalloc_heap_create(NULL);
    REQUIRE(shared_heap != NULL);
    pthread_t busy_ids[WORKS], forker_ids[FORKERS];
    for (size_t i = 0; i < WORKS; i++)
        REQUIRE(pthread_create(&busy_ids[i], NULL, busy, (void *)i) == 0);
    for (size_t i = 0; i < FORKERS; i++)
        REQUIRE(pthread_create(&forker_ids[i], NULL, forker, (void *)i) == 0);
    for (size_t i = 0; i < FORKERS; i++)
        pthread_join(forker_ids[i], NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < WORKS; i++)
        pthread_join(busy_ids[i], NULL);
    for (size_t i = 0; i < KEPT; i++) {
        verify(kept[i], kept_size(i));
        free(kept[i]);
    }
    return check_status();
}
