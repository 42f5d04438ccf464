/* sandbox.c - in a sandbox that kills at any system call but those which docs/options.md names, a
 * program goes on allocating: threads, growth to hundreds of megabytes, large blocks that are
 * resized, memory given back; its first block, too; to the end of its memory cgroup, where it is
 * told ENOMEM. So also where opening files is refused with an errno, or the filter came unnoticed
 * and NUMALLOC_CGROUPS=0. */
#include "support/check.h"
#include "support/child.h"
#include "support/fill.h"
#include "support/memory_group.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { THREADS = 4, BLOCKS = 3000, REFUSED = 99, LIMIT_MIB = 64, BLOCK = 20000 };

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

/* Kills at every call but the allocator's, the C library's for threads, and those that end.
 * `noticed`: the allocator has seen it coming. */
static void lock_up(unsigned of_files, bool noticed) {
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
    long no_new = noticed ? prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                          : syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (no_new != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        _exit(REFUSED);
}

static void work_inside(unsigned of_files, bool noticed) {
    pthread_t ids[THREADS];
    REQUIRE(pthread_barrier_init(&started, NULL, THREADS + 1) == 0 &&
            pthread_barrier_init(&begin, NULL, THREADS + 1) == 0);
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&ids[i], NULL, work, (void *)i) == 0);
    free(check_opaque(malloc(1)));
    pthread_barrier_wait(&started);
    lock_up(of_files, noticed);
    pthread_barrier_wait(&begin);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
}

/* Up to the limit, three times; the process is alone in its group. */
static void fill_group(void) {
    enum { MOST = LIMIT_MIB * (1 << 20) / BLOCK };
    static void *blocks[MOST];
    lock_up(SECCOMP_RET_KILL_PROCESS, true);
    for (int round = 0; round < 3; round++) {
        size_t count = 0;
        errno = 0;
        while (count < MOST && (blocks[count] = malloc(BLOCK)) != NULL)
            memset(blocks[count++], 1, BLOCK);
        CHECK_MSG(count < MOST && errno == ENOMEM, "%zu blocks, errno %d", count, errno);
        CHECK_MSG(round > 0 || count > MOST / 2, "%zu blocks of %d", count, BLOCK);
        while (count > 0)
            free(blocks[--count]);
        /* The kernel has back a little later what was given to it. */
        while ((blocks[0] = malloc(BLOCK)) == NULL)
            sched_yield();
        free(blocks[0]);
    }
}

static int inside(const char *how) {
    if (strcmp(how, "first") == 0) {
        lock_up(SECCOMP_RET_KILL_PROCESS, true);
        free(check_opaque(malloc(100)));
    } else if (strcmp(how, "limit") == 0) {
        fill_group();
    } else {
        work_inside(strcmp(how, "refused") == 0 ? SECCOMP_RET_ERRNO | EACCES
                                                : SECCOMP_RET_KILL_PROCESS,
                    strcmp(how, "unnoticed") != 0);
    }
    _exit(check_status());
}

static bool can_be_asked(void) {
    enum { HUGE = 2 << 20, COLLAPSE = 25 };
    char *area = aligned_alloc(HUGE, HUGE);
    REQUIRE(area != NULL);
    area[0] = 1;
    (void)madvise(area, HUGE, MADV_HUGEPAGE);
    bool can = madvise(area, HUGE, COLLAPSE) == 0;
    free(area);
    return can;
}

static void limit(void) {
    char bytes[16];
    snprintf(bytes, sizeof bytes, "%d", LIMIT_MIB << 20);
    if (!can_be_asked() || !memory_group_make(bytes)) {
        check_say("sandbox: not at a limit: no group can be made, or no kernel asked\n");
        return;
    }
    child_result_t result;
    child_run_self(&result, "limit", NULL, NULL, memory_group_enter, NULL);
    memory_group_remove();
    if (!child_exited(&result, 126)) child_expect_ok(&result, "at a limit (9: out of memory)");
}

int main(int argc, char **argv) {
    check_begin();
    if (argc > 1) return inside(argv[1]);
    if (access("/sys/devices/system/node/node1", F_OK) == 0)
        check_skip("several nodes, which need more calls");
    static const char *const no_groups[] = {"NUMALLOC_CGROUPS=0", NULL};
    child_result_t result;
    child_run_self(&result, "unnoticed", NULL, no_groups, NULL, NULL);
    if (child_exited(&result, REFUSED)) check_skip("no seccomp filter can be set here");
    child_expect_ok(&result, "a filter that came unnoticed, and no groups");
    child_run_self(&result, "killed", NULL, NULL, NULL, NULL);
    child_expect_ok(&result, "files are a reason to be killed");
    child_run_self(&result, "first", NULL, NULL, NULL, NULL);
    child_expect_ok(&result, "the first block");
    child_run_self(&result, "refused", NULL, NULL, NULL, NULL);
    child_expect_ok(&result, "files are refused");
    limit();
    return check_status();
}
