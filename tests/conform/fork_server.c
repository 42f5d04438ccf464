/* fork_server.c - a preforking server: each child starts its threads at once, and all of them
 * allocate in the same moment, or a few microseconds apart. None crashes or stands still; and under
 * a profile, each child's file is whole and says that it knows of all of its threads.
 *
 *     fork_server [CHILDREN [THREADS]]
 *
 * The parent had as many threads before: so those of the child have their stacks from the C
 * library's cache, without a call of malloc, and theirs are the child's first events. With
 * NA_TEST_FILES=DIRECTORY the children's profiles are DIRECTORY/PID.nprof. */
#include "support/check.h"
#include "support/fill.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#include "profiler/format/nprof.h"
#include "support/alloc_api.h"

#define ABREAST     4 /* children alive at once */
#define THREADS_MAX 64

static unsigned threads = 8;
static double apart;     /* seconds between the first events of two threads */
static unsigned arrived; /* __atomic */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *serve(void *argument) {
    __atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < threads)
        sched_yield();
    for (double until = now() + (double)(uintptr_t)argument * apart; now() < until;)
        sched_yield();
    uint64_t random = (uint64_t)(uintptr_t)argument + 1;
    void *kept[16] = {NULL};
    size_t sizes[16] = {0};
    for (unsigned i = 0; i < 100; i++) {
        unsigned at = (unsigned)(fill_random(&random) % 16);
        if (kept[at] != NULL)
            CHECK_MSG(fill_holds(kept[at], sizes[at], at), "%zu bytes", sizes[at]);
        free(kept[at]);
        sizes[at] = fill_random_size(&random, 13);
        kept[at] = malloc(sizes[at]);
        REQUIRE(kept[at] != NULL);
        fill_block(kept[at], sizes[at], at);
    }
    for (unsigned i = 0; i < 16; i++)
        free(kept[i]);
    return NULL;
}

/* Beginning a profile takes this child a few milliseconds: the recorder's mappings are made one
 * after the other, each with MADV_DONTFORK, which takes long here (and does nothing). Where that
 * cannot be had, chance has to do. */
static void take_time(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    ucontext_t *c = context;
    syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = 200000}, NULL);
#if defined(__x86_64__)
    c->uc_mcontext.gregs[REG_RAX] = 0;
#elif defined(__aarch64__)
    c->uc_mcontext.regs[0] = 0;
#endif
}

static void slow_down(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_DONTFORK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    struct sigaction action = {.sa_sigaction = take_time, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static void start_all(void) {
    pthread_t ids[THREADS_MAX];
    __atomic_store_n(&arrived, 0, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < threads; i++)
        REQUIRE(pthread_create(&ids[i], NULL, serve, (void *)(uintptr_t)i) == 0);
    for (unsigned i = 0; i < threads; i++)
        REQUIRE(pthread_join(ids[i], NULL) == 0);
}

static void check_file(pid_t pid) {
    const char *directory = getenv("NA_TEST_FILES");
    if (directory == NULL) return;
    char path[512];
    snprintf(path, sizeof path, "%s/%ld.nprof", directory, (long)pid);
    int fd = open(path, O_RDONLY);
    CHECK_MSG(fd >= 0, "%s: %s", path, strerror(errno));
    if (fd < 0) return;
    na_nprof_header_t header;
    CHECK(read(fd, &header, sizeof header) == (ssize_t)sizeof header);
    CHECK_MSG(header.magic == NA_NPROF_MAGIC, "%s is not a profile", path);
    CHECK_MSG(header.state == NA_NPROF_CLOSED, "%s: not closed", path);
    CHECK_MSG(header.inherited_pid == getpid(), "%s: child of %d", path, (int)header.inherited_pid);
    CHECK_MSG(header.lost_events == 0, "%s: events lost", path);
    close(fd);
    unlink(path);
}

static void reap(void) {
    int status = 0;
    pid_t pid = wait(&status);
    REQUIRE(pid > 0);
    CHECK_MSG(status == 0, "child %ld: status %#x", (long)pid, (unsigned)status);
    if (status == 0) check_file(pid);
}

int main(int argc, char **argv) {
    check_begin();
    unsigned children = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100;
    if (argc > 2) threads = (unsigned)strtoul(argv[2], NULL, 10);
    REQUIRE(children != 0 && threads != 0 && threads <= THREADS_MAX);
    start_all();
    unsigned alive = 0;
    for (unsigned i = 0; i < children; i++) {
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            alarm(200); /* a deadlock ends by SIGALRM */
            apart = i % 4 * 100e-6;
            if (i % 4 == 3) slow_down();
            start_all();
            exit(check_status());
        }
        if (++alive == ABREAST) {
            reap();
            alive--;
        }
    }
    for (; alive != 0; alive--)
        reap();
    return check_status();
}
