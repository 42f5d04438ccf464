/* secure.c - a set-user-id program takes no options from the environment of the less trusted user
 * who runs it (AT_SECURE). The program is linked with libnumalloc.a; its copy, owned by root and
 * set user id, is run as another user. Needs root and a file system without nosuid. */
#include "support/check.h"
#include "support/child.h"

#include <sys/auxv.h>
#include <sys/stat.h>

#define NOBODY 65534

static int inside(void) {
    free(check_opaque(malloc(1000)));
    printf("secure %lu\n", getauxval(AT_SECURE));
    return 0;
}

static void copy(const char *from, const char *to) {
    char data[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    REQUIRE(in >= 0 && out >= 0);
    ssize_t n;
    while ((n = read(in, data, sizeof data)) > 0)
        REQUIRE(write(out, data, (size_t)n) == n);
    close(in);
    REQUIRE(fchmod(out, 04755) == 0 && close(out) == 0);
}

static int become_nobody(void *context) {
    (void)context;
    return setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0 ? 0
                                                                                            : -1;
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return inside();
    const char *const env[] = {"NUMALLOC_STATS=1", "NUMALLOC_FOO=1", "NUMALLOC_POLICY=/nonexistent",
                               NULL};
    child_result_t result;
    child_run_self(&result, "inside", NULL, env, NULL, NULL);
    /* The control: without privilege the options do count. */
    CHECK_MSG(child_exited(&result, 0) && strstr(result.out, "secure 0") != NULL &&
                  strstr(result.err, "NUMALLOC_FOO") != NULL &&
                  strstr(result.err, "NUMALLOC_POLICY") != NULL && strlen(result.err) > 100,
              "unprivileged: status %#x, %s%s", (unsigned)result.status, result.out, result.err);
    if (geteuid() != 0) check_skip("a set-user-id copy can be made by root only");

    char directory[] = "/tmp/numalloc-secure-XXXXXX";
    REQUIRE(mkdtemp(directory) != NULL && chmod(directory, 0755) == 0);
    char path[64];
    snprintf(path, sizeof path, "%s/program", directory);
    copy(child_self(), path);
    char *const arguments[] = {path, (char[]){"inside"}, NULL};
    child_run(&result, arguments, env, become_nobody, NULL);
    unlink(path);
    rmdir(directory);
    if (strstr(result.out, "secure 0") != NULL) check_skip("/tmp ignores the set-user-id bit");
    CHECK_MSG(child_exited(&result, 0) && strstr(result.out, "secure 1") != NULL &&
                  result.err[0] == '\0',
              "set-user-id: status %#x, %s%s", (unsigned)result.status, result.out, result.err);
    return check_status();
}
