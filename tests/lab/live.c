/* live.c - a wrong program is mended while it runs: lab-patterns runs as it goes wrong, under a
 * policy that is not there yet, with a profile; numalloc-dump policy --follow writes the policy;
 * the program takes it, and its block, which was there before, is moved where it lies:
 *
 *     lab-live SOURCE PATTERN NODE [back]
 *
 * NODE is where the pattern's one user runs, so what of the block lies elsewhere is the share of
 * accesses to other nodes; asked of the kernel, page by page. It must fall below 10 % within 10
 * seconds from when there is a rule. When that is, depends on the samples that an emulated machine
 * has: it is said. Following begins when the program has run for 5 seconds. TRUTH_LIB is the
 * library, MENDED_DUMP numalloc-dump; lab-patterns lies beside this program. If there are too few
 * samples for a rule the test is skipped, and says so.
 *
 * back: then somebody else wants the block where it was, and moves it back whenever it was moved.
 * The library gives way: it moves it again at once, then after 10 seconds, then after 20. */
#include "followed.h"
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/access_source.h"

#define POLICY  "/tmp/live.policy"
#define PROFILE "/tmp/live.nprof"
#define STATS   "/tmp/live.stats"

enum {
    KIB = 1024,
    PAGES = 256,
    LOOK_MS = 100,
    MOST_MS = 60000,
    RUNS_MS = 5000,
    BAR_MS = 10000,
    BACK_MS = 16000,
    LEFT = 10
};

static char program[4096];

static pid_t start(const char *source, const char *pattern, int *in, unsigned long long *address) {
    int input[2], out[2];
    REQUIRE(pipe2(input, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        int stats = open(STATS, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (dup2(input[0], 0) < 0 || dup2(out[1], 3) < 0 || dup2(stats, 2) < 0) _exit(125);
        setenv("LD_PRELOAD", getenv("TRUTH_LIB"), 1);
        setenv("NA_TEST_LIB", getenv("TRUTH_LIB"), 1);
        setenv("NUMALLOC_POLICY", POLICY, 1);
        setenv("NUMALLOC_POLICY_MOVE", "25", 1);
        access_from(source);
        setenv("NUMALLOC_PROFILE_FILE", PROFILE, 1);
        setenv("NUMALLOC_ACCESS_COST", "100", 1);
        setenv("NUMALLOC_STATS", "1", 1);
        execl(program, program, pattern, "wrong", "0", (char *)NULL);
        _exit(125);
    }
    close(input[0]);
    close(out[1]);
    *in = input[1];
    FILE *said = fdopen(out[0], "r");
    REQUIRE(said != NULL);
    char line[128];
    *address = 0;
    while (fgets(line, sizeof line, said) != NULL && strcmp(line, "ready\n") != 0)
        if (*address == 0) (void)sscanf(line, "%llx", address);
    fclose(said);
    REQUIRE(*address != 0);
    return pid;
}

enum { WHOLE = PAGES - 1 }; /* the first and the last are the block's in part */
static void *pages[WHOLE];
static int nodes[WHOLE], status_of[WHOLE];

static void list_pages(unsigned long long address) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)(address + page - 1) / page * page;
    for (size_t i = 0; i < WHOLE; i++)
        pages[i] = (void *)(first + i * page);
}

/* Per cent of the block's pages that lie elsewhere. */
static unsigned elsewhere(pid_t pid, int node) {
    unsigned wrong = 0;
    REQUIRE(syscall(SYS_move_pages, pid, (long)WHOLE, pages, NULL, status_of, 0) == 0);
    for (size_t i = 0; i < WHOLE; i++)
        wrong += status_of[i] != node;
    return 100 * wrong / WHOLE;
}

/* Moves the block to another node whenever it lies on `node`: how often. */
static unsigned move_back(pid_t pid, int node) {
    unsigned times = 0;
    for (size_t i = 0; i < WHOLE; i++)
        nodes[i] = node == 0 ? 1 : 0;
    for (uint64_t began = lab_now_ms(); lab_now_ms() - began < BACK_MS; lab_sleep_ms(LOOK_MS)) {
        if (elsewhere(pid, node) >= LEFT) continue;
        REQUIRE(syscall(SYS_move_pages, pid, (long)WHOLE, pages, nodes, status_of, 2) >= 0);
        times++;
    }
    return times;
}

/* A rule that moved a block did something, though no call met it. */
static void check_stats(void) {
    char line[1024] = "", rules[1024] = "";
    FILE *file = fopen(STATS, "r");
    REQUIRE(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        fputs(line, stderr);
        if (strncmp(line, "policy ", 7) == 0) strcpy(rules, line);
    }
    fclose(file);
    CHECK_MSG(strstr(rules, "KiB moved where they lay") != NULL, "no word of it: %s", rules);
    CHECK_MSG(strstr(rules, "never matched") == NULL, "%s", rules);
}

int main(int argc, char **argv) {
    check_begin();
    REQUIRE(argc >= 4 && getenv("TRUTH_LIB") != NULL && getenv("MENDED_DUMP") != NULL);
    int node = atoi(argv[3]), in;
    lab_begin(4);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 32);
    REQUIRE(length > 0);
    program[length] = 0;
    strcpy(strrchr(program, '/') + 1, "lab-patterns");
    char kib[16];
    snprintf(kib, sizeof kib, "%zu", PAGES * (size_t)sysconf(_SC_PAGESIZE) / KIB);
    setenv("PATTERN_KIB", kib, 1);
    unlink(POLICY);

    unsigned long long address;
    pid_t pid = start(argv[1], argv[2], &in, &address);
    list_pages(address);
    unsigned before = elsewhere(pid, node), now = before;
    CHECK_MSG(before >= 90, "only %u %% lie elsewhere as it goes wrong", before);
    lab_sleep_ms(RUNS_MS);
    uint64_t began = lab_now_ms(), ruled = 0, mended = 0;
    pid_t follower = followed_start(pid, POLICY);
    while (mended == 0 && lab_now_ms() - began < MOST_MS) {
        lab_sleep_ms(LOOK_MS);
        if (ruled == 0 && access(POLICY, F_OK) == 0) ruled = lab_now_ms();
        now = elsewhere(pid, node);
        if (now < LEFT) mended = lab_now_ms();
    }
    kill(follower, SIGINT);
    int followed = followed_end_of(follower);
    if (mended != 0 && argc > 4) {
        unsigned times = move_back(pid, node);
        check_say("moved back %u times in %d s\n", times, BACK_MS / 1000);
        CHECK_MSG(times == 2 || times == 3, "moved back %u times", times);
    }
    close(in);
    int status = followed_end_of(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(WIFEXITED(followed) && WEXITSTATUS(followed) == 0);
    if (mended != 0) check_stats();
    check_say("%u %% elsewhere; a rule after %lu ms, below %d %% after %lu ms: %u %%\n", before,
              (unsigned long)(ruled != 0 ? ruled - began : 0), LEFT,
              (unsigned long)(mended != 0 ? mended - began : 0), now);
    if (ruled == 0) check_skip("too few samples on this machine");
    CHECK_MSG(mended != 0, "%u %% still lie elsewhere", now);
    CHECK_MSG(mended == 0 || mended - ruled <= BAR_MS, "it took %lu ms from the rule on",
              (unsigned long)(mended - ruled));
    return lab_status(check_status());
}
