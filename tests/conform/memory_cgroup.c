/* memory_cgroup.c - in a memory cgroup of 256 MiB a program that never holds more than 150 MiB is
 * not killed, in whatever sizes it holds them one after the other: memory freed in one size
 * serves the next. Needs the right to make a memory cgroup (root; version 1 or 2). */
#include "support/check.h"
#include "support/child.h"
#include "support/fill.h"
#include "support/memory_group.h"

#define LIMIT "268435456"
#define HELD  ((size_t)150 << 20)

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
    if (!memory_group_make(LIMIT)) check_skip("no memory cgroup can be made here (needs root)");
    child_result_t result;
    child_run_self(&result, "inside", NULL, NULL, memory_group_enter, NULL);
    memory_group_remove();
    if (child_exited(&result, 126)) check_skip("the memory cgroup cannot be entered");
    child_expect_ok(&result, "memory cgroup of 256 MiB (signal 9: out of memory)");
    return check_status();
}
