/* syscalls.c - system calls: what they answer and what they cost.
 *
 * Waiting, time, processors, memory policy and chance are answered here; all else by QEMU and the
 * machine below, in no time but what the model says. A call that would wait for a file is asked
 * again until it would not. */
#include "bench/cores/model.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Marks of the loads: `syscall(MARK, MARK_BEGIN)`, `syscall(MARK, MARK_END, operations)`, and
 * MARK_IDLE of a thread that spins until a partner is ready: a while that is not work. */
enum { MARK = 500, MARK_BEGIN = 1, MARK_END = 2, MARK_IDLE = 3, IDLE = 200 };

static const int64_t epoch = INT64_C(1700000000), up = 1000, second = 1000000000;

const char *calls_name(int number) {
#define NAME(name) [SYS_##name] = #name
    static const char *const names[CALLS_MAX] = {
        NAME(read),
        NAME(write),
        NAME(open),
        NAME(openat),
        NAME(close),
        NAME(stat),
        NAME(fstat),
        NAME(newfstatat),
        NAME(poll),
        NAME(lseek),
        NAME(mmap),
        NAME(mprotect),
        NAME(munmap),
        NAME(brk),
        NAME(rt_sigaction),
        NAME(rt_sigprocmask),
        NAME(ioctl),
        NAME(pread64),
        NAME(readv),
        NAME(writev),
        NAME(access),
        NAME(pipe2),
        NAME(sched_yield),
        NAME(mremap),
        NAME(madvise),
        NAME(nanosleep),
        NAME(clock_nanosleep),
        NAME(getpid),
        NAME(socketpair),
        NAME(clone),
        NAME(clone3),
        NAME(exit),
        NAME(prctl),
        NAME(arch_prctl),
        NAME(gettid),
        NAME(futex),
        NAME(sched_setaffinity),
        NAME(sched_getaffinity),
        NAME(set_tid_address),
        NAME(set_robust_list),
        NAME(prlimit64),
        NAME(getrandom),
        NAME(rseq),
        NAME(membarrier),
        NAME(mbind),
        NAME(set_mempolicy),
        NAME(get_mempolicy),
        NAME(move_pages),
        NAME(mincore),
        NAME(getrusage),
        NAME(epoll_wait),
        NAME(epoll_ctl),
        NAME(accept4),
        NAME(recvfrom),
        NAME(sendto),
    };
#undef NAME
    static char other[16];
    if (names[number] != NULL) return names[number];
    snprintf(other, sizeof other, "call-%d", number);
    return other;
}

static uint64_t units(const struct timespec *time) {
    if (time->tv_sec > 1000000000) return NEVER;
    return ((uint64_t)time->tv_sec * (uint64_t)second + (uint64_t)time->tv_nsec) * UNITS_PER_NS;
}

static void show(struct timespec *time, int64_t seconds, uint64_t clock) {
    int64_t ns = (int64_t)(clock / UNITS_PER_NS);
    time->tv_sec = seconds + ns / second;
    time->tv_nsec = ns % second;
}

static bool is_real(int64_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

/* The time of one of the program's clocks, as a thread's clock has it. */
static uint64_t until(const struct timespec *time, bool real) {
    struct timespec rest = *time;
    rest.tv_sec -= real ? epoch : up;
    return rest.tv_sec < 0 ? 0 : units(&rest);
}

static int64_t futex(struct thread *thread, const int64_t *args) {
    uint64_t word = (uint64_t)args[0];
    int operation = (int)args[1] & FUTEX_CMD_MASK;
    const uint32_t *value = in_qemu(word);
    const struct timespec *time = args[3] == 0 ? NULL : in_qemu((uint64_t)args[3]);
    uint64_t deadline = NEVER;
    uint32_t bits = UINT32_MAX;
    switch (operation) {
    case FUTEX_WAIT_BITSET:
        bits = (uint32_t)args[5];
        if (time != NULL) deadline = until(time, args[1] & FUTEX_CLOCK_REALTIME);
        break;
    case FUTEX_WAIT:
        if (time != NULL) deadline = thread->clock + units(time);
        break;
    case FUTEX_WAKE_BITSET:
        bits = (uint32_t)args[5]; /* fall through */
    case FUTEX_WAKE:
        return turns_wake(thread, word, bits, (int)args[2]);
    case FUTEX_CMP_REQUEUE:
        if (*value != (uint32_t)args[5]) return -EAGAIN; /* fall through */
    case FUTEX_REQUEUE: {
        int woken = turns_wake(thread, word, bits, (int)args[2]);
        turns_requeue(word, (uint64_t)args[4], (int)args[3]);
        return woken;
    }
    default:
        return -ENOSYS;
    }
    if (*value != (uint32_t)args[2]) return -EAGAIN;
    turns_spend(thread, cost.sleep);
    turns_wait(thread, word, bits, deadline);
    return thread->timed_out ? -ETIMEDOUT : 0;
}

/* The kernel's lock of the process's mappings: who changes them has it alone. */
static uint64_t mappings_free;

static void change_mappings(struct thread *thread, int64_t cycles) {
    turns_until(thread, mappings_free, true);
    lines_kernel(thread);
    turns_spend(thread, cycles);
    mappings_free = thread->clock;
}

static int64_t given_back(uint64_t pages) {
    int ready = 0;
    for (int i = 0; i < machine.threads_used; i++)
        ready += machine.thread[i].state == READY;
    return (int64_t)pages * cost.drop + (pages > 0 && ready > 1 ? cost.shootdown : 0);
}

/* Whether the call would wait for this file; a regular file never does. */
static bool would_wait(int number, const int64_t *args) {
    struct pollfd file = {(int)args[0], POLLIN, 0};
    switch (number) {
    case SYS_write:
    case SYS_writev:
    case SYS_sendto:
        file.events = POLLOUT;
        break;
    case SYS_read:
    case SYS_readv:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
        break;
    case SYS_poll:
        return poll(in_qemu((uint64_t)args[0]), (nfds_t)args[1], 0) == 0;
    default:
        return false;
    }
    return poll(&file, 1, 0) == 0;
}

static void ask(struct thread *thread, int number, int64_t *args) {
    uint64_t deadline = NEVER;
    int64_t *timeout = number == SYS_poll ? &args[2] : &args[3];
    bool timed = number == SYS_poll || number == SYS_epoll_wait || number == SYS_epoll_pwait;
    if (timed && (int)*timeout >= 0)
        deadline = thread->clock + (uint64_t)(int)*timeout * 1000000 * UNITS_PER_NS;
    while (would_wait(number, args) && thread->clock < deadline) {
        bool others = false;
        for (int i = 0; i < machine.threads_used; i++)
            others |= i != thread->index && machine.thread[i].state == READY;
        if (!others) usleep(1000); /* it waits for who is not in this machine */
        thread->state = ASKING;
        turns_until(thread, thread->clock + (uint64_t)cost.ask * CYCLE, true);
        thread->state = READY;
    }
    if (timed) *timeout = 0;
}

static uint64_t nodes_at(int64_t address, int64_t most) {
    if (address == 0 || most <= 0) return 0;
    uint64_t mask = *(const uint64_t *)in_qemu((uint64_t)address);
    return most > 63 ? mask : mask & ((UINT64_C(1) << most) - 1);
}

enum { MODE_MASK = 0xff, F_NODE = 1, F_ADDR = 2, F_ALLOWED = 4, MF_MOVE = 6 };

static int64_t get_policy(const struct thread *thread, const int64_t *args) {
    int *mode = args[0] == 0 ? NULL : in_qemu((uint64_t)args[0]);
    uint64_t *nodes = args[1] == 0 ? NULL : in_qemu((uint64_t)args[1]);
    if (nodes != NULL) memset(nodes, 0, ((size_t)args[2] + 63) / 64 * 8);
    if (args[4] & F_ALLOWED) {
        if (nodes != NULL) *nodes = (UINT64_C(1) << machine.nodes) - 1;
    } else if ((args[4] & (F_NODE | F_ADDR)) == (F_NODE | F_ADDR)) {
        int home = lines_home((uint64_t)args[3]);
        if (mode != NULL) *mode = home < 0 ? node_of(thread->cpu) : home;
    } else {
        if (mode != NULL) *mode = args[4] & F_ADDR ? 0 : thread->policy;
        if (nodes != NULL) *nodes = args[4] & F_ADDR ? 0 : thread->policy_nodes;
    }
    return 0;
}

static int64_t move_pages(const int64_t *args) {
    const uint64_t *page = in_qemu((uint64_t)args[2]);
    const int *node = args[3] == 0 ? NULL : in_qemu((uint64_t)args[3]);
    int *status = in_qemu((uint64_t)args[4]);
    for (int64_t i = 0; i < args[1]; i++) {
        if (node != NULL) lines_migrate(page[i], node[i]);
        int home = lines_home(page[i]);
        status[i] = home < 0 ? -ENOENT : home;
    }
    return 0;
}

/* Processors: which it may use, which it is on. */
static int64_t affinity(struct thread *thread, int number, const int64_t *args) {
    size_t size = (size_t)args[1], have = sizeof thread->allowed;
    struct thread *of = thread;
    if (args[0] >= 1000 && args[0] - 1000 < machine.threads_used)
        of = &machine.thread[args[0] - 1000];
    uint8_t *mask = in_qemu((uint64_t)args[2]);
    if (number == SYS_sched_getaffinity) {
        size_t need = ((size_t)machine.cpus + 63) / 64 * 8;
        if (size < need) return -EINVAL;
        memset(mask, 0, size < have ? size : have);
        memcpy(mask, of->allowed, need);
        return (int64_t)(size < have ? size : have);
    }
    uint64_t allowed[CPUS_MAX / 64] = {0}, any = 0;
    memcpy(allowed, mask, size < have ? size : have);
    for (int cpu = 0; cpu < CPUS_MAX; cpu++)
        if (cpu >= machine.cpus) allowed[cpu / 64] &= ~(UINT64_C(1) << (cpu % 64));
    for (int i = 0; i < CPUS_MAX / 64; i++)
        any |= allowed[i];
    if (any == 0) return -EINVAL;
    memcpy(of->allowed, allowed, have);
    if (!(of->allowed[of->cpu / 64] >> (of->cpu % 64) & 1)) turns_place(of);
    return 0;
}

static int64_t usage(const struct thread *thread, struct rusage *out) {
    memset(out, 0, sizeof *out);
    struct timespec time;
    show(&time, 0, thread->clock);
    out->ru_utime = (struct timeval){time.tv_sec, time.tv_nsec / 1000};
    out->ru_maxrss = (long)(machine.pages_peak * PAGE / 1024);
    return 0;
}

/* What the vDSO answers without the kernel. */
static bool in_vdso(struct thread *thread, int number, const int64_t *args, int64_t *answer) {
    int64_t real = epoch;
    *answer = 0;
    switch (number) {
    case SYS_clock_gettime:
        if (args[0] == CLOCK_PROCESS_CPUTIME_ID || args[0] == CLOCK_THREAD_CPUTIME_ID)
            show(in_qemu((uint64_t)args[1]), 0, thread->clock - thread->waited);
        else
            show(in_qemu((uint64_t)args[1]), is_real(args[0]) ? real : up, thread->clock);
        break;
    case SYS_gettimeofday: {
        struct timespec time;
        show(&time, real, thread->clock);
        struct timeval *out = in_qemu((uint64_t)args[0]);
        if (args[0] != 0) *out = (struct timeval){time.tv_sec, time.tv_nsec / 1000};
        break;
    }
    case SYS_time: {
        struct timespec time;
        show(&time, real, thread->clock);
        *answer = time.tv_sec;
        if (args[0] != 0) *(int64_t *)in_qemu((uint64_t)args[0]) = time.tv_sec;
        break;
    }
    case SYS_getcpu:
        if (args[0] != 0) *(unsigned *)in_qemu((uint64_t)args[0]) = (unsigned)thread->cpu;
        if (args[1] != 0) *(unsigned *)in_qemu((uint64_t)args[1]) = (unsigned)node_of(thread->cpu);
        break;
    default:
        return false;
    }
    turns_spend(thread, cost.vdso);
    return true;
}

static int64_t sleep_until(struct thread *thread, uint64_t deadline) {
    turns_spend(thread, cost.sleep);
    if (deadline > thread->clock) turns_wait(thread, 0, 0, deadline);
    return 0;
}

static int64_t chance(uint8_t *out, size_t size) {
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)(i * 37 + 11);
    return (int64_t)size;
}

/* What is answered here; false: by QEMU. */
static bool answered(struct thread *thread, int number, int64_t *args, int64_t *answer) {
    const struct timespec *time;
    switch (number) {
    case SYS_futex:
        *answer = futex(thread, args);
        return true;
    case SYS_sched_yield:
        *answer = sleep_until(thread, thread->clock + CYCLE);
        return true;
    case SYS_nanosleep:
        *answer = sleep_until(thread, thread->clock + units(in_qemu((uint64_t)args[0])));
        return true;
    case SYS_clock_nanosleep:
        time = in_qemu((uint64_t)args[2]);
        *answer = sleep_until(thread, args[1] & TIMER_ABSTIME ? until(time, is_real(args[0]))
                                                              : thread->clock + units(time));
        return true;
    case SYS_gettid:
        *answer = 1000 + thread->index;
        return true;
    case SYS_getpid:
        *answer = 1000;
        return true;
    case SYS_sched_getaffinity:
    case SYS_sched_setaffinity:
        *answer = affinity(thread, number, args);
        return true;
    case SYS_getrandom:
        *answer = chance(in_qemu((uint64_t)args[0]), (size_t)args[1]);
        return true;
    case SYS_getrusage:
        *answer = usage(thread, in_qemu((uint64_t)args[1]));
        return true;
    case SYS_membarrier:
        turns_spend(thread, cost.shootdown);
        *answer = args[0] == 0 ? 0x1f : 0;
        return true;
    case SYS_rseq: { /* struct rseq: cpu_id_start, cpu_id; at 20 node_id */
        uint32_t *area = in_qemu((uint64_t)args[0]);
        area[0] = area[1] = (uint32_t)thread->cpu;
        if (args[1] > 20) area[5] = (uint32_t)node_of(thread->cpu);
        *answer = 0;
        return true;
    }
    case SYS_mbind:
        change_mappings(thread, cost.mapping / 2);
        lines_policy((uint64_t)args[0], (uint64_t)args[1], (int)args[2] & MODE_MASK,
                     nodes_at(args[3], args[4]));
        *answer = 0;
        return true;
    case SYS_set_mempolicy:
        thread->policy = (int)args[0] & MODE_MASK;
        thread->policy_nodes = nodes_at(args[1], args[2]);
        *answer = 0;
        return true;
    case SYS_get_mempolicy:
        *answer = get_policy(thread, args);
        return true;
    case SYS_move_pages:
        *answer = move_pages(args);
        return true;
    case SYS_clone3:
        *answer = -ENOSYS;
        return true;
    case MARK:
        if (args[0] == MARK_BEGIN)
            report_begin(thread);
        else if (args[0] == MARK_IDLE)
            turns_until(thread, thread->clock + IDLE * CYCLE, true);
        else if (args[0] == MARK_END)
            report_end(thread, (uint64_t)args[1]);
        *answer = 0;
        return true;
    default:
        return false;
    }
}

bool calls_before(int index, int number, int64_t *args, int64_t *answer) {
    struct thread *thread = &machine.thread[index];
    if (thread->stores > thread->clock) thread->clock = thread->stores;
    if (in_vdso(thread, number, args, answer)) return true;
    if (number != MARK) {
        if (number >= 0 && number < CALLS_MAX) thread->counts->calls[number]++;
        turns_spend(thread, cost.call);
    }
    if (answered(thread, number, args, answer)) return true;
    switch (number) {
    case SYS_exit_group:
        report_write((int)args[0]);
        fflush(NULL);
        _exit((int)args[0]);
    case SYS_munmap:
        change_mappings(thread, cost.mapping +
                                    given_back(lines_drop((uint64_t)args[0], (uint64_t)args[1])));
        break;
    case SYS_mmap:
    case SYS_mprotect:
    case SYS_mremap:
    case SYS_brk:
        change_mappings(thread, cost.mapping);
        break;
    case SYS_madvise:
        turns_until(thread, mappings_free, true);
        lines_kernel(thread);
        if (args[2] == MADV_DONTNEED || args[2] == MADV_FREE)
            turns_spend(thread, given_back(lines_drop((uint64_t)args[0], (uint64_t)args[1])));
        break;
    case SYS_clone:
        change_mappings(thread, cost.clone);
        break;
    default:
        ask(thread, number, args);
    }
    return false;
}

void calls_after(int index, int number, const int64_t *args, int64_t answer) {
    struct thread *thread = &machine.thread[index];
    if (number == SYS_mremap && answer > 0 && answer != args[0])
        lines_move((uint64_t)args[0], (uint64_t)answer, (uint64_t)args[1]);
    if (number == SYS_mremap && answer == args[0] && args[2] < args[1])
        lines_drop((uint64_t)(args[0] + args[2]), (uint64_t)(args[1] - args[2]));
    if (number == SYS_mmap && answer > 0) lines_drop((uint64_t)answer, (uint64_t)args[1]);
    if (thread->clock > machine.limit) turns_pass(thread);
}
