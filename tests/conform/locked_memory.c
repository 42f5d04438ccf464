/* locked_memory.c - under mlockall(MCL_CURRENT | MCL_FUTURE) all mapped memory is resident at once:
 * the process must not become as large as its reservations, and where RLIMIT_MEMLOCK ends it,
 * malloc says ENOMEM and goes on. */
#include "support/check.h"
#include "support/child.h"
#include "support/fill.h"
#include "support/proc_mem.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define MIB     ((size_t)1 << 20)
#define REFUSED 99

static void *blocks[40000];

/* What `limited` may lock; less where the hard limit is lower. */
#define LOCKABLE (64 * MIB)

/* `limited`: a small RLIMIT_MEMLOCK holds for what is mapped from now on, and there is no privilege
 * to pass it; otherwise all there is and will be is locked. */
static int inside(bool limited) {
    if (mlockall(limited ? MCL_FUTURE : MCL_CURRENT | MCL_FUTURE) != 0) return REFUSED;
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
    (void)context;
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return -1;
    if (limit.rlim_max > LOCKABLE) limit.rlim_max = LOCKABLE;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return -1;
    if (geteuid() == 0 && setuid(65534) != 0) return -1;
    return 0;
}

int main(int argc, char **argv) {
    check_begin();
    if (argc > 1) return inside(strcmp(argv[1], "limited") == 0);
    child_result_t result;
    child_run_self(&result, "limited", NULL, NULL, drop, NULL);
    bool refused =
        child_exited(&result, REFUSED) || child_exited(&result, 126) || child_exited(&result, 127);
    if (!refused) child_expect_ok(&result, "a small RLIMIT_MEMLOCK");
    child_run_self(&result, "free", NULL, NULL, NULL, NULL);
    bool refused_free = child_exited(&result, REFUSED);
    if (!refused_free) child_expect_ok(&result, "no limit");
    if (check_status() == 0 && (refused || refused_free))
        check_skip("mlockall is refused here (RLIMIT_MEMLOCK, or no privilege)");
    return check_status();
}
