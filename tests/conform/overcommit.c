/* overcommit.c - with vm.overcommit_memory=2 every writable byte of address space is charged: a
 * small program must not be charged for much more than it holds, must start, and must get ENOMEM
 * and go on where the limit is met.
 *
 * The setting is the whole machine's. It is changed for a second at most, needs root, is restored
 * by a guardian process even if this one is killed, and is left alone when NA_TEST_NO_SYSCTL is
 * set, or other programs would meet the limit. What a process is charged for is checked without the
 * setting as well. */
#include "support/check.h"
#include "support/child.h"
#include "support/fill.h"

#define SETTING  "/proc/sys/vm/overcommit_memory"
#define MIB      ((size_t)1 << 20)
#define ROOM_KIB (2048L * 1024)

static bool put(char value) {
    int fd = open(SETTING, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool done = write(fd, &value, 1) == 1;
    close(fd);
    return done;
}

static char get(void) {
    char value = '?';
    int fd = open(SETTING, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return value;
    if (read(fd, &value, 1) != 1) value = '?';
    close(fd);
    return value;
}

/* KiB that all programs together may still be charged for under the setting: at the limit each fork
 * fails, ours and that of a compiler beside this. */
static long room_kib(void) {
    FILE *file = fopen("/proc/meminfo", "r");
    if (file == NULL) return 0;
    char line[256];
    long most = 0, charged = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        sscanf(line, "CommitLimit: %ld", &most);
        sscanf(line, "Committed_AS: %ld", &charged);
    }
    fclose(file);
    return most - charged;
}

/* KiB of this process's mappings that the kernel charges (flag "ac" in smaps). */
static long charged_kib(void) {
    FILE *maps = fopen("/proc/self/smaps", "r");
    if (maps == NULL) check_skip("no /proc/self/smaps");
    char line[512];
    long size = 0;
    long sum = 0;
    while (fgets(line, sizeof line, maps) != NULL) {
        if (strncmp(line, "Size:", 5) == 0) size = strtol(line + 5, NULL, 10);
        if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " ac") != NULL) sum += size;
    }
    fclose(maps);
    return sum;
}

static int inside(bool expect_enomem) {
    enum { BLOCKS = 4000 };
    static void *blocks[BLOCKS];
    uint64_t random = 3;
    size_t live = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = fill_random_size(&random, 13);
        blocks[i] = malloc(size);
        REQUIRE(blocks[i] != NULL);
        fill_block(blocks[i], size, i);
        live += size;
    }
    long charged = charged_kib();
    CHECK_MSG(charged < (long)(live / 1024) + 64 * 1024, "%ld KiB are charged for %zu KiB", charged,
              live / 1024);
    /* More than any machine's commit limit under the setting. */
    errno = 0;
    void *huge = check_opaque(malloc(check_opaque_size((size_t)1 << 45)));
    if (expect_enomem) CHECK_MSG(huge == NULL && errno == ENOMEM, "%p, errno %d", huge, errno);
    free(huge);
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    for (size_t size = MIB; size <= 64 * MIB; size *= 2) {
        char *block = malloc(size);
        CHECK_MSG(block != NULL, "%zu bytes", size);
        if (block != NULL) block[0] = block[size - 1] = 1;
        free(block);
    }
    return check_status();
}

/* Waits until the other end of the pipe is closed, by whatever end of its owner; then restores. */
static void guard(int pipe_end, char value) {
    char byte;
    setsid();
    while (read(pipe_end, &byte, 1) < 0 && errno == EINTR)
        ;
    put(value);
    _exit(0);
}

int main(int argc, char **argv) {
    check_begin();
    if (argc > 1) return inside(strcmp(argv[1], "strict") == 0);
    child_result_t result;
    child_run_self(&result, "as it is", NULL, NULL, NULL, NULL);
    child_expect_ok(&result, "as the machine is set");
    if (check_status() != 0) return 1;

    if (room_kib() < ROOM_KIB) check_skip("other programs have nearly all that may be charged");
    char before = get();
    if (getenv("NA_TEST_NO_SYSCTL") != NULL) check_skip("NA_TEST_NO_SYSCTL is set");
    if (before == '?' || before == '2' || !put(before))
        check_skip("vm.overcommit_memory cannot be set here (needs root)");
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    pid_t guardian = fork();
    REQUIRE(guardian >= 0);
    if (guardian == 0) {
        close(ends[1]);
        guard(ends[0], before);
    }
    close(ends[0]);
    bool set = put('2');
    if (set) child_run_self(&result, "strict", NULL, NULL, NULL, NULL);
    close(ends[1]);
    REQUIRE(waitpid(guardian, NULL, 0) == guardian);
    CHECK(get() == before);
    if (!set) check_skip("vm.overcommit_memory=2 is refused here");
    child_expect_ok(&result, "vm.overcommit_memory=2");
    return check_status();
}
