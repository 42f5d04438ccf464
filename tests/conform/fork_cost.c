/* fork_cost.c - a child's page faults: what fork's handlers touch it has to copy, or to map, though
 * it may be about to exec. No more than MOST beyond a child of _Fork, which runs no handlers.
 *
 * Medians of ROUNDS children each, so that what the first one has alone does not count. */
#include "support/check.h"

#include <sys/resource.h>
#include <sys/wait.h>

enum { ROUNDS = 21, MOST = 24 };

extern pid_t _Fork(void) __attribute__((weak)); /* glibc 2.34 */

static int by_size(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

static long faults_of_child(pid_t (*fork_by)(void)) {
    static long faults[ROUNDS];
    for (unsigned i = 0; i < ROUNDS; i++) {
        pid_t child = fork_by();
        if (child == 0) _exit(0);
        CHECK(child > 0);
        int status;
        struct rusage usage;
        CHECK(wait4(child, &status, 0, &usage) == child);
        CHECK(status == 0);
        faults[i] = usage.ru_minflt;
    }
    qsort(faults, ROUNDS, sizeof faults[0], by_size);
    return faults[ROUNDS / 2];
}

int main(void) {
    check_begin();
    if (_Fork == NULL) check_skip("the C library has no fork without handlers");
    free(malloc(100));
    long without = faults_of_child(_Fork), with = faults_of_child(fork);
    check_say("fork_cost: %ld page faults in a child, %ld without handlers\n", with, without);
    CHECK_MSG(with <= without + MOST, "%ld page faults in a child, %ld without handlers", with,
              without);
    return check_status();
}
