/* main_exits.c - a program whose first thread ends by pthread_exit ends with its last thread, its
 * exit handlers called, whatever threads the library has of its own. */
#include "support/check.h"
#include "support/child.h"

#include <pthread.h>
#include <sys/prctl.h>

static void at_end(void) {
    free(check_opaque(malloc(100000)));
    printf("at the end\n");
}

static void *work(void *unused) {
    (void)unused;
    for (size_t size = 1; size < 1000000; size += size / 16 + 1)
        free(check_opaque(malloc(size)));
    return NULL;
}

static int inside(void) {
    pthread_t id;
    REQUIRE(atexit(at_end) == 0);
    REQUIRE(pthread_create(&id, NULL, work, NULL) == 0 && pthread_detach(id) == 0);
    work(NULL);
    pthread_exit(NULL);
}

/* A process that does not end is not ended by signals either: its thread takes none. */
static int with_me(void *context) {
    (void)context;
    return prctl(PR_SET_PDEATHSIG, SIGKILL);
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return inside();
    char file[] = "NUMALLOC_PROFILE_FILE=/tmp/numalloc-main_exits-XXXXXX";
    char *path = strchr(file, '/');
    int fd = mkstemp(path);
    REQUIRE(fd >= 0 && close(fd) == 0);
    static const char *const options[] = {
        "NUMALLOC_STATS=0",
        "NUMALLOC_BACKGROUND=1",
        "NUMALLOC_PROFILE=trace",
        "NUMALLOC_PROFILE=sites,access=watch",
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const char *const env[] = {options[i], file, NULL};
        unlink(path);
        child_result_t result;
        child_run_self(&result, "inside", NULL, env, with_me, NULL);
        CHECK_MSG(child_exited(&result, 0) && strcmp(result.out, "at the end\n") == 0,
                  "%s: status %#x, %s%s", options[i], (unsigned)result.status, result.out,
                  result.err);
    }
    unlink(path);
    return check_status();
}
