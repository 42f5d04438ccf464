/* options.c - the environment: an unknown NUMALLOC_ option or a bad value is named once on stderr
 * and the program goes on; a good one prints nothing; NUMALLOC_STATS=1 prints totals at exit. */
#include "support/check.h"
#include "support/child.h"

typedef struct expectation {
    const char *env;   /* the setting */
    const char *names; /* what the one line must contain; NULL: nothing may be printed */
} expectation_t;

static const expectation_t expectations[] = {
    {"NUMALLOC_FOO=1", "NUMALLOC_FOO"},
    {"NUMALLOC_CHEKC=1", "NUMALLOC_CHECK"}, /* says what was probably meant */
    {"NUMALLOC_=1", "NUMALLOC_"},
    {"NUMALLOC_CHECK=banana", "banana"},
    {"NUMALLOC_STATS=2", "NUMALLOC_STATS"},
    {"NUMALLOC_PURGE_DELAY=-1", "NUMALLOC_PURGE_DELAY"},
    {"NUMALLOC_PURGE_DELAY=soon", "soon"},
    {"NUMALLOC_LIMIT=12Q", "12Q"},
    {"NUMALLOC_LIMIT=99999999999999999999999", "NUMALLOC_LIMIT"},
    {"NUMALLOC_REGION_SIZE=3M", "NUMALLOC_REGION_SIZE"},
    {"NUMALLOC_NUMA=everywhere", "everywhere"},
    {"NUMALLOC_HUGEPAGES=perhaps", "perhaps"},
    {"NUMALLOC_CHECK=0", NULL},
    {"NUMALLOC_CHECK=1", NULL},
    {"NUMALLOC_ABORT=1", NULL},
    {"NUMALLOC_STATS=0", NULL},
    {"NUMALLOC_PURGE_DELAY=0", NULL},
    {"NUMALLOC_PURGE_DELAY=2s", NULL},
    {"NUMALLOC_LIMIT=2G", NULL},
    {"NUMALLOC_NUMA=off", NULL},
    {"NUMALLOC_NUMA=unbound", NULL},
    {"NUMALLOC_NUMA=strict", NULL},
    {"NUMALLOC_HUGEPAGES=auto", NULL},
    {"NUMALLOC_HUGEPAGES=keep", NULL},
    {"NUMALLOC_HUGEPAGES=never", NULL},
    {"NUMALLOC_HUGEPAGES=always", NULL},
    {"NUMALLOC_BACKGROUND=1", NULL},
    {"NUMALLOC_REGION_SIZE=256M", NULL},
    {"NUMALLOC_CHECK=", NULL},
    {"NUMALLOCATOR=1", NULL},
    {"numalloc_check=banana", NULL}};

static void expect(const expectation_t *one) {
    child_result_t result;
    const char *const env[] = {one->env, NULL};
    child_run_self(&result, "work", NULL, env, NULL, NULL);
    CHECK_MSG(child_exited(&result, 0), "%s: status %#x", one->env, (unsigned)result.status);
    if (one->names == NULL) {
        CHECK_MSG(result.err[0] == '\0', "%s printed: %s", one->env, result.err);
        return;
    }
    const char *end = strchr(result.err, '\n');
    CHECK_MSG(strncmp(result.err, "numalloc: ", 10) == 0 && end != NULL && end[1] == '\0' &&
                  strstr(result.err, one->names) != NULL,
              "%s printed: %s", one->env, result.err);
}

static int work(void) {
    static void *blocks[3000];
    for (size_t i = 0; i < 3000; i++) {
        blocks[i] = malloc(i * 20 + 1);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], 1, i * 20 + 1);
    }
    for (size_t i = 0; i < 3000; i++)
        free(blocks[i]);
    return 0;
}

int main(int argc, char **argv) {
    check_begin();
    if (argc > 1 && strcmp(argv[1], "work") == 0) return work();
    if (argc > 1) {
        /* The limit of NUMALLOC_LIMIT=64M holds, and is no end of the process. */
        errno = 0;
        CHECK(malloc(check_opaque_size((size_t)100 << 20)) == NULL && errno == ENOMEM);
        void *block = malloc((size_t)20 << 20);
        CHECK(block != NULL);
        free(block);
        return check_status();
    }
    if (!check_is_ours()) check_skip("NA_TEST_LIB is not set: the options are numalloc's");
    for (size_t i = 0; i < sizeof expectations / sizeof expectations[0]; i++)
        expect(&expectations[i]);

    child_result_t result;
    const char *const stats[] = {"NUMALLOC_STATS=1", NULL};
    child_run_self(&result, "work", NULL, stats, NULL, NULL);
    CHECK_MSG(child_exited(&result, 0) && strstr(result.err, "numalloc") != NULL &&
                  strpbrk(result.err, "123456789") != NULL,
              "NUMALLOC_STATS=1 printed: %s", result.err);
    const char *const limit[] = {"NUMALLOC_LIMIT=64M", NULL};
    child_run_self(&result, "limited", NULL, limit, NULL, NULL);
    child_expect_ok(&result, "NUMALLOC_LIMIT=64M");
    return check_status();
}
