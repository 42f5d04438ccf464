/* later_limit.c - RLIMIT_AS set while the program runs, by itself (as judges, sandboxes and
 * Python's resource.setrlimit do) or from outside: threads, mappings and libraries go on, and
 * malloc gives within a twentieth of what the C library's gives under the same limit. With an
 * argument under a profile of that mode, which takes some tables. */
#include "support/check.h"
#include "support/child.h"
#include "support/proc_mem.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define MIB ((size_t)1 << 20)

typedef struct node {
    struct node *next;
} node_t;

/* At most so many. */
static size_t take(size_t size, size_t most) {
    node_t *list = NULL, *next;
    size_t count = 0;
    while (count < most && (next = malloc(size)) != NULL) {
        next->next = list;
        list = next;
        count++;
    }
    for (; list != NULL; list = next) {
        next = list->next;
        free(list);
    }
    return count;
}

static size_t take_all(size_t size) {
    return take(size, SIZE_MAX);
}

static void *in_thread(void *argument) {
    void *block = malloc((size_t)(uintptr_t)argument);
    CHECK(block != NULL);
    free(block);
    return NULL;
}

/* Before there is a limit: a process that has used some memory. */
static void use(size_t bytes) {
    enum { MOST = 4096 };
    static void *blocks[MOST];
    size_t n = 0;
    for (size_t got = 0; got < bytes && n < MOST; got += MIB / 8)
        CHECK((blocks[n++] = calloc(1, MIB / 8)) != NULL);
    while (n > 0)
        free(blocks[--n]);
}

static void set_limit(bool outside, size_t bytes) {
    struct rlimit limit = {bytes, RLIM_INFINITY};
    if (!outside) {
        REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
        return;
    }
    pid_t self = getpid(), other = fork();
    REQUIRE(other >= 0);
    if (other == 0) _exit(prlimit(self, RLIMIT_AS, &limit, NULL) == 0 ? 0 : 1);
    int status;
    REQUIRE(waitpid(other, &status, 0) == other && status == 0);
}

/* inside|outside, MiB used before, MiB of the limit: the others go on; how many blocks there are,
 * on stdout. */
static int inside(char **argv) {
    use(strtoul(argv[2], NULL, 10) * MIB);
    set_limit(strcmp(argv[1], "outside") == 0, strtoul(argv[3], NULL, 10) * MIB);
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    /* One after the other: the C library's malloc reserves much for each of several at a time. */
    for (size_t i = 0; i < 8; i++) {
        pthread_t id;
        REQUIRE(pthread_create(&id, NULL, in_thread, (void *)(uintptr_t)(100 << i)) == 0);
        pthread_join(id, NULL);
    }
    void *library = dlopen("libresolv.so.2", RTLD_NOW);
    CHECK_MSG(library != NULL, "%s", dlerror());
    size_t large = take_all(10 * MIB), first = take_all(MIB), again = take_all(MIB);
    CHECK(take(5000, 20000) > 0);
    CHECK_MSG(again >= first - first / 50, "%zu blocks, then %zu", first, again);
    printf("%zu %zu\n", first, large);
    return check_status();
}

static int without_library(void *context) {
    (void)context;
    unsetenv("LD_PRELOAD");
    unsetenv("NA_TEST_LIB");
    return 0;
}

static void compare(const char *mode, const char *where, const char *used, const char *limit) {
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    REQUIRE(length > 0);
    self[length] = 0;
    char *argv[] = {self, (char *)(uintptr_t)where, (char *)(uintptr_t)used,
                    (char *)(uintptr_t)limit, NULL};
    static child_result_t ours, theirs;
    char profile[64], file[] = "NUMALLOC_PROFILE_FILE=/tmp/numalloc-limit-XXXXXX";
    char *path = strchr(file, '=') + 1;
    const char *const env[] = {profile, file, NULL};
    snprintf(profile, sizeof profile, "NUMALLOC_PROFILE=%s", mode);
    if (*mode != 0) {
        int fd = mkstemp(path);
        REQUIRE(fd >= 0);
        close(fd);
        unlink(path);
    }
    child_run(&ours, argv, *mode != 0 ? env : NULL, NULL, NULL);
    child_expect_ok(&ours, where);
    if (*mode != 0) CHECK_MSG(unlink(path) == 0, "%s was not written", path);
    child_run(&theirs, argv, NULL, without_library, NULL);
    child_expect_ok(&theirs, "the C library's malloc");
    size_t have[2] = {0, 0}, want[2] = {0, 0};
    sscanf(ours.out, "%zu %zu", &have[0], &have[1]);
    sscanf(theirs.out, "%zu %zu", &want[0], &want[1]);
    size_t tables = *mode != 0 ? strtoul(limit, NULL, 10) / 20 : 0;
    for (unsigned i = 0; i < 2; i++) /* a large one may lie across two steps of growth */
        CHECK_MSG(have[i] + want[i] / 20 + i + tables / (i == 0 ? 1 : 10) >= want[i] && want[i] > 4,
                  "%s, after %s of %s MiB: %zu blocks of %s MiB, of the C library %zu", where, used,
                  limit, have[i], i == 0 ? "1" : "10", want[i]);
}

int main(int argc, char **argv) {
    check_begin();
    if (argc > 3) return inside(argv);
    const char *mode = argc > 1 ? argv[1] : "";
    static const char *const cases[][2] = {{"0", "512"}, {"300", "512"}, {"0", "2000"}};
    for (size_t i = 0; i < 3; i++) {
        compare(mode, "inside", cases[i][0], cases[i][1]);
        compare(mode, "outside", cases[i][0], cases[i][1]);
    }
    return check_status();
}
