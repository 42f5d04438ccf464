/* static_link.c - a static program linked with libnumalloc.a gets its malloc from it, for its own
 * calls and for the C library's. */
#include "support/check.h"
#include "support/fill.h"

#include <pthread.h>
#include <sys/wait.h>

#include <numalloc/numalloc.h>

static void expect_ours(void *block, const char *what) {
    CHECK_MSG(block != NULL && numalloc_node_of(block) >= 0, "%s gave %p, node %d", what, block,
              numalloc_node_of(block));
}

static void *work(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument + 1;
    for (int i = 0; i < 20000; i++) {
        size_t size = fill_random_size(&random, 14);
        void *block = malloc(size);
        REQUIRE(block != NULL);
        memset(block, 1, size);
        free(block);
    }
    return malloc(100);
}

int main(void) {
    CHECK(strcmp(numalloc_version(), "") != 0);
    static const size_t sizes[] = {1, 100, 5000, 100000, 3000000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *blocks[] = {malloc(sizes[i]), calloc(1, sizes[i]), aligned_alloc(64, sizes[i]),
                          realloc(NULL, sizes[i])};
        for (size_t b = 0; b < 4; b++) {
            expect_ours(blocks[b], "an entry point");
            free(blocks[b]);
        }
    }
    char *copy = strdup("made by the C library");
    expect_ours(copy, "strdup");
    free(copy);
    char *line = NULL;
    CHECK(asprintf(&line, "%d", 12345) == 5);
    expect_ours(line, "asprintf");
    free(line);
    pthread_t ids[3];
    for (size_t i = 0; i < 3; i++)
        REQUIRE(pthread_create(&ids[i], NULL, work, (void *)i) == 0);
    for (size_t i = 0; i < 3; i++) {
        void *block = NULL;
        REQUIRE(pthread_join(ids[i], &block) == 0);
        expect_ours(block, "a thread");
        free(block);
    }
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        work(NULL);
        _exit(check_status());
    }
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(status == 0);
    numalloc_stats_t stats;
    numalloc_read_stats(&stats, sizeof stats);
    CHECK(stats.committed > 0 && stats.reserved >= stats.committed);
    return check_status();
}
