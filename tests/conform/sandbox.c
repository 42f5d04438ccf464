/* sandbox.c - in a sandbox that kills at any system call but those which docs/options.md names, a
 * program goes on allocating: threads, growth to hundreds of megabytes, large blocks that are
 * resized, memory given back. Where opening files is refused with an errno, too, without
 * NUMALLOC_CGROUPS=0. */
#include "support/check.h"
#include "support/child.h"
#include "support/fill.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { THREADS = 4, BLOCKS = 3000, REFUSED = 99 };

static pthread_barrier_t started, begin;

/* Up to 100 MiB a thread, most of it freed again, twice. */
static void *work(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument + 1;
    static _Thread_local void *blocks[BLOCKS];
    pthread_barrier_wait(&started);
    pthread_barrier_wait(&begin);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            size_t size = fill_random_size(&random, i % 100 == 0 ? 22 : 16);
            blocks[i] = malloc(size);
            REQUIRE(blocks[i] != NULL);
            memset(blocks[i], 1, size);
            if (i % 50 == 0) blocks[i] = realloc(blocks[i], 2 * size);
            REQUIRE(blocks[i] != NULL);
        }
        for (size_t i = 0; i < BLOCKS; i++)
            free(blocks[i]);
    }
    return NULL;
}

/* Kills at every call but the allocator's, the C library's for threads, and those that end. */
static void lock_up(unsigned of_files) {
    static const unsigned allowed[] = {
        SYS_mmap,  SYS_mprotect,    SYS_madvise,        SYS_munmap,       SYS_mremap,
        SYS_futex, SYS_sched_yield, SYS_clock_gettime, /* the allocator's */
        SYS_exit,  SYS_exit_group,  SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_write,
    };
    static const unsigned files[] = {SYS_openat, SYS_read, SYS_close};
    struct sock_filter filter[64];
    unsigned short n = 0;
    filter[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, files[i], 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, of_files);
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {.len = n, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        _exit(REFUSED);
}

static int inside(bool may_open) {
    pthread_t ids[THREADS];
    REQUIRE(pthread_barrier_init(&started, NULL, THREADS + 1) == 0 &&
            pthread_barrier_init(&begin, NULL, THREADS + 1) == 0);
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&ids[i], NULL, work, (void *)i) == 0);
    free(malloc(1));
    pthread_barrier_wait(&started);
    lock_up(may_open ? SECCOMP_RET_ERRNO | EACCES : SECCOMP_RET_KILL_PROCESS);
    pthread_barrier_wait(&begin);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    _exit(check_status());
}

int main(int argc, char **argv) {
    check_begin();
    if (argc > 1) return inside(strcmp(argv[1], "refused") == 0);
    if (access("/sys/devices/system/node/node1", F_OK) == 0)
        check_skip("several nodes, which need more calls");
    static const char *const no_groups[] = {"NUMALLOC_CGROUPS=0", NULL};
    child_result_t result;
    child_run_self(&result, "killed", NULL, no_groups, NULL, NULL);
    if (child_exited(&result, REFUSED)) check_skip("no seccomp filter can be set here");
    child_expect_ok(&result, "files are a reason to be killed");
    child_run_self(&result, "refused", NULL, NULL, NULL, NULL);
    child_expect_ok(&result, "files are refused");
    return check_status();
}
