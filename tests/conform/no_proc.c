/* no_proc.c - the library starts and works where /proc and /sys are empty, and where the NUMA calls
 * are refused (EPERM, as in containers; ENOSYS), which is no reason to print anything. */
#include "support/check.h"
#include "support/child.h"
#include "support/fill.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void *work(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument + 1;
    void *blocks[64] = {NULL};
    for (int i = 0; i < 30000; i++) {
        size_t at = (size_t)(fill_random(&random) % 64);
        free(blocks[at]);
        size_t size = fill_random_size(&random, i % 200 == 0 ? 21 : 12);
        blocks[at] = malloc(size);
        REQUIRE(blocks[at] != NULL);
        memset(blocks[at], 1, size);
    }
    for (size_t i = 0; i < 64; i++)
        free(blocks[i]);
    return NULL;
}

static int inside(void) {
    pthread_t ids[3];
    for (size_t i = 0; i < 3; i++)
        REQUIRE(pthread_create(&ids[i], NULL, work, (void *)i) == 0);
    for (size_t i = 0; i < 3; i++)
        pthread_join(ids[i], NULL);
    return check_status();
}

/* The exit status that says that the kernel does not let us. */
#define REFUSED 99

static int hide(void *context) {
    (void)context;
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) _exit(REFUSED);
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/proc", "tmpfs", 0, NULL) != 0 ||
        mount("tmpfs", "/sys", "tmpfs", 0, NULL) != 0)
        _exit(REFUSED);
    return access("/proc/self", F_OK) == 0 || access("/sys/devices", F_OK) == 0 ? -1 : 0;
}

#define DENY(call)                                                                                 \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), BPF_STMT(BPF_RET | BPF_K, refuse)

/* Refuses the NUMA calls with the errno at *context. */
static int deny(void *context) {
    unsigned refuse = SECCOMP_RET_ERRNO | (*(const unsigned *)context & SECCOMP_RET_DATA);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        DENY(SYS_mbind),
        DENY(SYS_set_mempolicy),
        DENY(SYS_get_mempolicy),
        DENY(SYS_move_pages),
        DENY(SYS_migrate_pages),
        DENY(SYS_perf_event_open),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(REFUSED);
    return 0;
}

/* No standard descriptors: what the library opens must not take their places for good. */
static int close_all(void *context) {
    (void)context;
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    return 0;
}

static bool attempt(const char *what, child_setup_t *setup, void *context) {
    child_result_t result;
    child_run_self(&result, "inside", NULL, NULL, setup, context);
    if (child_exited(&result, REFUSED)) return false;
    child_expect_ok(&result, what);
    CHECK_MSG(result.err[0] == '\0', "%s: printed %s", what, result.err);
    return true;
}

int main(int argc, char **argv) {
    check_begin();
    (void)argv;
    if (argc > 1) return inside();
    unsigned eperm = EPERM;
    unsigned enosys = ENOSYS;
    attempt("descriptors 0 and 1 closed", close_all, NULL);
    bool filtered = attempt("NUMA calls give EPERM", deny, &eperm) &&
                    attempt("NUMA calls give ENOSYS", deny, &enosys);
    bool hidden = attempt("/proc and /sys empty", hide, NULL);
    if (check_status() == 0 && !(filtered && hidden))
        check_skip(hidden ? "no seccomp filter can be set here"
                          : "no mount namespace can be made here (root or user namespaces)");
    return check_status();
}
