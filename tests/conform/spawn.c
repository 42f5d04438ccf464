/* spawn.c - vfork, posix_spawn, system and popen from a process whose threads allocate. */
#include "support/check.h"
#include "support/child.h"
#include "support/fill.h"

#include <pthread.h>
#include <spawn.h>

#include "support/alloc_api.h"

extern char **environ;

static int stop; /* __atomic */

static void *churn(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument + 1;
    void *blocks[32] = {NULL};
    while (__atomic_load_n(&stop, __ATOMIC_RELAXED) == 0) {
        size_t i = (size_t)(fill_random(&random) % 32);
        free(blocks[i]);
        blocks[i] = malloc(fill_random_size(&random, 13));
        REQUIRE(blocks[i] != NULL);
    }
    for (size_t i = 0; i < 32; i++)
        free(blocks[i]);
    return NULL;
}

static void expect_seven(pid_t pid) {
    int status = 0;
    REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %#x", (unsigned)status);
}

int main(int argc, char **argv) {
    check_begin();
    if (argc > 1) {
        void *block = malloc(1000);
        free(block);
        return argv[1][0] == 'x' && block != NULL ? 7 : 1;
    }
    pthread_t ids[2];
    char *self = child_self();
    char *const arguments[] = {self, (char[]){"x"}, NULL};
    for (size_t i = 0; i < 2; i++)
        REQUIRE(pthread_create(&ids[i], NULL, churn, (void *)i) == 0);
    for (int i = 0; i < 200; i++) {
        void *before = malloc(500);
        pid_t pid = vfork();
        if (pid == 0) {
            execv(self, arguments);
            _exit(127);
        }
        free(before);
        expect_seven(pid);
        pid_t spawned = -1;
        CHECK(posix_spawn(&spawned, self, NULL, NULL, arguments, environ) == 0);
        expect_seven(spawned);
    }
    for (int i = 0; i < 20; i++) {
        CHECK(system("exit 5") == 5 << 8);
        FILE *pipe_ = popen("echo hello", "r");
        REQUIRE(pipe_ != NULL);
        char line[16] = "";
        CHECK(fgets(line, sizeof line, pipe_) != NULL && strcmp(line, "hello\n") == 0);
        CHECK(pclose(pipe_) == 0);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < 2; i++)
        pthread_join(ids[i], NULL);
    return check_status();
}
