/* fork_joins.c - a library's fork handler waits for a thread that allocates until it ends. It
 * registered that handler before the constructor of a preloaded library ran, so it would come after
 * the allocator's own, which stops all threads. */
#include "support/check.h"
#include "support/child.h"
#include "support/fill.h"

#include "conform/fork_joins.h"

#define FORKS 20

static int inside(void) {
    for (int i = 0; i < FORKS; i++) {
        fork_joins_start();
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            for (size_t size = 1; size < 300000; size += size / 3 + 1)
                free(check_opaque(malloc(size)));
            _exit(0);
        }
        int status;
        REQUIRE(waitpid(pid, &status, 0) == pid);
        CHECK_MSG(status == 0, "child %d: %#x", i, (unsigned)status);
    }
    CHECK(__atomic_load_n(&fork_joins_ended, __ATOMIC_ACQUIRE) == FORKS);
    return check_status();
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return inside();
    child_result_t result; /* one that waits for ever is ended by its alarm */
    child_run_self(&result, "inside", NULL, NULL, NULL, NULL);
    child_expect_ok(&result, "fork");
    return check_status();
}
