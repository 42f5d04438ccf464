/* sandbox_late.c - programs that put themselves into a sandbox long after their start, as browsers
 * do. Plain and under each mode of profile:
 *
 * - A process cloned by a system call of its own, so that no fork handler runs in it, works, also
 * where a thread that it starts is the first to allocate.
 * - Where a sandbox refuses what the allocator and its recorder can do without, and says so each
 * time at a cost, they get by, and do not ask for the same over and over: no more often with many
 * threads than with few. */
#include "support/check.h"
#include "support/fill.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "profiler/format/nprof.h"

enum { THREADS = 24, BLOCKS = 400, MOST_REFUSALS = 40, NUMBERS = 512 };

static void *work(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument + 1;
    void *blocks[BLOCKS] = {NULL};
    for (int i = 0; i < 4 * BLOCKS; i++) {
        size_t at = fill_random(&random) % BLOCKS;
        free(blocks[at]);
        size_t size = fill_random_size(&random, 16);
        blocks[at] = malloc(size);
        REQUIRE(blocks[at] != NULL);
        memset(blocks[at], 1, size);
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    void *mapped = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED && munmap(mapped, 1 << 16) == 0);
    return NULL;
}

/* Threads one after the other, so that each is a new one to the recorder; then all at once. */
static void threads(void) {
    pthread_t ids[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&ids[i], NULL, work, (void *)i) == 0 &&
                pthread_join(ids[i], NULL) == 0);
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&ids[i], NULL, work, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(ids[i], NULL) == 0);
}

static void wait_for(pid_t pid, const char *what) {
    int status = -1;
    REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_MSG(status == 0, "%s ends with %#x", what, (unsigned)status);
}

/* The C library's thread cache has a stack for it, so that the thread's own call is the first. */
static void cloned(bool thread_first) {
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        alarm(200);
        pthread_t id;
        if (thread_first) {
            REQUIRE(pthread_create(&id, NULL, work, NULL) == 0);
            REQUIRE(pthread_join(id, NULL) == 0);
        }
        work(NULL);
        threads();
        exit(check_status());
    }
    wait_for(pid, thread_first ? "a clone whose thread comes first" : "a clone");
}

static unsigned refusals[NUMBERS]; /* __atomic */

static void refuse(int number, siginfo_t *info, void *context) {
    (void)number;
    ucontext_t *c = context;
    if (info->si_syscall >= 0 && info->si_syscall < NUMBERS)
        __atomic_add_fetch(&refusals[info->si_syscall], 1, __ATOMIC_RELAXED);
#if defined(__x86_64__)
    c->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
#elif defined(__aarch64__)
    c->uc_mcontext.regs[0] = (unsigned long long)-ENOSYS;
#endif
}

#define REFUSE(number)                                                                             \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)

/* What a browser's content process is refused. Of madvise, all but what gives memory back. */
static bool enter_sandbox(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSE(SYS_mincore),
        REFUSE(SYS_prlimit64),
        REFUSE(SYS_openat),
        REFUSE(SYS_fallocate),
        REFUSE(SYS_ftruncate),
        REFUSE(SYS_mbind),
        REFUSE(SYS_move_pages),
        REFUSE(SYS_membarrier),
        REFUSE(SYS_perf_event_open),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_GET_NAME, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_DONTNEED, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_FREE, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    struct sigaction action = {.sa_sigaction = refuse, .sa_flags = SA_SIGINFO | SA_NODEFER};
    return sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

static void few_refusals(const char *who) {
    for (long i = 0; i < NUMBERS; i++)
        CHECK_MSG(refusals[i] <= MOST_REFUSALS, "%s: system call %ld asked for %u times", who, i,
                  refusals[i]);
}

/* Of the profiles in NA_TEST_FILES, which are removed: those of other processes are complete. */
static unsigned take_files(void) {
    const char *directory = getenv("NA_TEST_FILES");
    DIR *all = directory != NULL ? opendir(directory) : NULL;
    unsigned found = 0;
    char path[512];
    for (struct dirent *e; all != NULL && (e = readdir(all)) != NULL;) {
        if (strstr(e->d_name, ".nprof") == NULL) continue;
        snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
        int fd = open(path, O_RDONLY);
        na_nprof_header_t header;
        REQUIRE(fd >= 0 && read(fd, &header, sizeof header) == (ssize_t)sizeof header);
        close(fd);
        unlink(path);
        if (header.pid == getpid()) continue;
        CHECK_MSG(header.magic == NA_NPROF_MAGIC && header.state == NA_NPROF_CLOSED, "%s", path);
        found++;
    }
    if (all != NULL) closedir(all);
    return found;
}

int main(void) {
    check_begin();
    threads();
    take_files();
    cloned(false);
    cloned(true);
    if (getenv("NA_TEST_FILES") != NULL) CHECK(take_files() == 2);
    if (!enter_sandbox()) check_skip("no seccomp filter can be set here");
    threads();
    few_refusals("the process");
    memset(refusals, 0, sizeof refusals);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(200);
        threads();
        few_refusals("a forked child");
        exit(check_status());
    }
    wait_for(pid, "a forked child in the sandbox");
    cloned(true);
    return check_status();
}
