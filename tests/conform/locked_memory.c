/* locked_memory.c - under mlockall(MCL_CURRENT | MCL_FUTURE) all mapped memory is resident at once:
 * the process must not become as large as its reservations and tables, and where RLIMIT_MEMLOCK
 * ends it, malloc says ENOMEM and goes on. 8 MiB of it are enough for a small program. */
#include "support/check.h"
#include "support/child.h"
#include "support/fill.h"
#include "support/proc_mem.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define MIB     ((size_t)1 << 20)
#define REFUSED 99
/* Resident of a small program: what the leanest of jemalloc, mimalloc and gperftools have. */
#define MOST_KIB 17000

static void *blocks[40000];

/* What `limited` may lock, and a small program; less where the hard limit is lower. */
static size_t lockable = 64 * MIB, lockable_by_small = 8 * MIB;

/* Everything that is mapped is locked, from before the first block on. */
static int small_inside(void) {
    if (mlockall(MCL_FUTURE) != 0) return REFUSED;
    for (size_t i = 0; i < 8000; i++) {
        size_t size = i % 500 + 1;
        blocks[i] = malloc(size);
        REQUIRE(blocks[i] != NULL);
        fill_block(blocks[i], size, i);
    }
    for (size_t i = 0; i < 8000; i++)
        free(blocks[i]);
    return check_status();
}

/* `limited`: a small RLIMIT_MEMLOCK holds for what is mapped from now on, and there is no privilege
 * to pass it; otherwise all there is and will be is locked. */
static int inside(bool limited) {
    if (mlockall(limited ? MCL_FUTURE : MCL_CURRENT | MCL_FUTURE) != 0) return REFUSED;
    free(check_opaque(malloc(100)));
    if (!limited)
        CHECK_MSG(proc_rss_kib() < MOST_KIB, "%ld KiB resident at the start", proc_rss_kib());
    uint64_t random = 9;
    size_t total = 0;
    size_t count = limited ? 5000 : 40000;
    for (size_t i = 0; i < count; i++) {
        size_t size = fill_random_size(&random, i % 256 == 0 ? 18 : 9);
        blocks[i] = malloc(size);
        REQUIRE(blocks[i] != NULL);
        fill_block(blocks[i], size, i);
        total += size;
    }
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    size_t large_size = limited ? MIB : 8 * MIB;
    void *large = malloc(large_size);
    CHECK(large != NULL);
    if (large != NULL) memset(large, 1, large_size);
    free(large);
    CHECK_MSG(proc_rss_kib() < 256 * 1024, "%ld KiB resident for %zu", proc_rss_kib(),
              total / 1024);
    if (limited) {
        /* Refused, unless it lies in what was reserved before: never a crash. */
        for (int i = 0; i < 20; i++) {
            errno = 0;
            char *huge = check_opaque(malloc(256 * MIB));
            CHECK_MSG(huge != NULL || errno == ENOMEM, "errno %d", errno);
            if (huge != NULL) huge[0] = huge[256 * MIB - 1] = 1;
            free(huge);
        }
        free(check_opaque(malloc(1000)));
        large = check_opaque(malloc(MIB));
        CHECK(large != NULL);
        free(large);
    }
    return check_status();
}

static int drop(void *context) {
    const size_t *most = context;
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return -1;
    if (limit.rlim_max > *most) limit.rlim_max = *most;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return -1;
    if (geteuid() == 0 && setuid(65534) != 0) return -1;
    return 0;
}

int main(int argc, char **argv) {
    check_begin();
    if (argc > 1 && strcmp(argv[1], "small") == 0) return small_inside();
    if (argc > 1) return inside(strcmp(argv[1], "limited") == 0);
    child_result_t result;
    child_run_self(&result, "limited", NULL, NULL, drop, &lockable);
    bool refused =
        child_exited(&result, REFUSED) || child_exited(&result, 126) || child_exited(&result, 127);
    if (!refused) child_expect_ok(&result, "a small RLIMIT_MEMLOCK");
    if (!refused) {
        child_run_self(&result, "small", NULL, NULL, drop, &lockable_by_small);
        child_expect_ok(&result, "RLIMIT_MEMLOCK of 8 MiB");
    }
    child_run_self(&result, "free", NULL, NULL, NULL, NULL);
    bool refused_free = child_exited(&result, REFUSED);
    if (!refused_free) child_expect_ok(&result, "no limit");
    if (check_status() == 0 && (refused || refused_free))
        check_skip("mlockall is refused here (RLIMIT_MEMLOCK, or no privilege)");
    return check_status();
}
