/* memory_cgroup.c - in a memory cgroup of 256 MiB a program that never holds more than 150 MiB is
 * not killed, in whatever sizes it holds them one after the other: memory freed in one size
 * serves the next. Needs the right to make a memory cgroup (root; version 1 or 2). */
#include "support/check.h"
#include "support/child.h"
#include "support/fill.h"

#include <sys/stat.h>

#define LIMIT "268435456"
#define HELD  ((size_t)150 << 20)

static char group[256]; /* the directory of our cgroup */

static bool put(const char *file, const char *text) {
    char path[320];
    snprintf(path, sizeof path, "%s/%s", group, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool done = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return done;
}

/* Makes the group and sets its limit. */
static bool make_group(void) {
    static const char *const roots[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(group, sizeof group, "%s/numalloc-test-%ld", roots[i], (long)getpid());
        if (mkdir(group, 0755) != 0) continue;
        if (put("memory.limit_in_bytes", LIMIT) || put("memory.max", LIMIT)) {
            /* No way out by swapping, where there is swap. */
            if (!put("memory.memsw.limit_in_bytes", LIMIT)) put("memory.swap.max", "0");
            return true;
        }
        rmdir(group);
    }
    return false;
}

static int enter(void *context) {
    (void)context;
    char pid[32];
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    return put("cgroup.procs", pid) ? 0 : -1;
}

static void *table[HELD / 64];

static void hold(unsigned bits, size_t least, uint64_t seed) {
    uint64_t random = seed;
    size_t sum = 0;
    size_t count = 0;
    while (sum < HELD && count < sizeof table / sizeof table[0]) {
        size_t size = fill_random_size(&random, bits);
        if (size < least) size = least;
        if (size > HELD - sum) size = HELD - sum;
        table[count] = malloc(size);
        REQUIRE(table[count] != NULL);
        memset(table[count], 1, size);
        sum += size;
        count++;
    }
    for (size_t i = 0; i < count; i++)
        free(table[i]);
}

static int inside(void) {
    for (uint64_t round = 1; round <= 3; round++) {
        hold(10, 200, round);
        hold(13, 2000, round);
        hold(16, 20000, round);
        hold(20, 300000, round);
        hold(25, 2000000, round);
    }
    return check_status();
}

int main(int argc, char **argv) {
    check_begin();
    (void)argv;
    if (argc > 1) return inside();
    if (!make_group()) check_skip("no memory cgroup can be made here (needs root)");
    child_result_t result;
    child_run_self(&result, "inside", NULL, NULL, enter, NULL);
    rmdir(group);
    if (child_exited(&result, 126)) check_skip("the memory cgroup cannot be entered");
    child_expect_ok(&result, "memory cgroup of 256 MiB (signal 9: out of memory)");
    return check_status();
}
