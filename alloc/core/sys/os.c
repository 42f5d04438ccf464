/* os.c - the kernel's services as raw system calls; see os.h for the rules. */
#include "alloc/core/sys/os.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "alloc/core/sys/base.h"

size_t na_os_page = 4096;
bool na_os_secure;

/* Set by libc before any library's constructor; NULL in a first allocation that comes even earlier,
 * which then sees an empty environment. */
extern char **environ;

/* glibc 2.35 and later register a struct rseq for every thread, at this offset from the thread
 * pointer; the size is 0 where the kernel refused. Weak: other C libraries lack them. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

#if defined(__x86_64__)

long na_syscall(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static char *thread_pointer(void) {
    char *pointer;
    __asm__("movq %%fs:0, %0" : "=r"(pointer));
    return pointer;
}

#elif defined(__aarch64__)

long na_syscall(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}

static char *thread_pointer(void) {
    char *pointer;
    __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
    return pointer;
}

#else
#error "numalloc makes its system calls itself, and knows how on x86-64 and aarch64 only"
#endif

static bool failed(long result) {
    return result < 0 && result >= -4095;
}

void na_os_init(void) {
    /* Not asked for without need: each part of libc that a start looks at is 64 KiB resident. */
#ifndef __x86_64__
    unsigned long page = getauxval(AT_PAGESZ);
    if (page != 0) na_os_page = page;
#endif
    if (na_os_env_has("NUMALLOC_")) na_os_secure = getauxval(AT_SECURE) != 0;
}

/* --- confinement --- */

static _Atomic(bool) confined;

void na_os_confine(void) {
    atomic_store_explicit(&confined, true, memory_order_relaxed);
}

bool na_os_is_confined(void) {
    return atomic_load_explicit(&confined, memory_order_relaxed);
}

/* A call that another allocator would not make. */
static long optional(long number, long a, long b, long c, long d, long e, long f) {
    return na_os_is_confined() ? -EPERM : na_syscall(number, a, b, c, d, e, f);
}

/* --- environment --- */

const char *na_os_env_at(size_t i) {
    if (environ == NULL) return NULL;
    for (size_t k = 0; k < i; k++)
        if (environ[k] == NULL) return NULL;
    return environ[i];
}

bool na_os_env_has(const char *prefix) {
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        size_t i = 0;
        while (prefix[i] != 0 && (*entry)[i] == prefix[i])
            i++;
        if (prefix[i] == 0) return true;
    }
    return false;
}

const char *na_os_getenv(const char *name) {
    if (environ == NULL) return NULL;
    for (char **entry = environ; *entry != NULL; entry++) {
        const char *have = *entry;
        const char *want = name;
        while (*want != 0 && *have == *want) {
            have++;
            want++;
        }
        if (*want == 0 && *have == '=') return have + 1;
    }
    return NULL;
}

/* --- memory --- */

/* ThreadSanitizer does not see what the kernel orders: the unmapping of addresses comes before the
 * mapping that gets them. Its own mmap forgets what was in memory there, whoever unmapped it (the C
 * library the stack of a thread that is gone), and its own munmap, whoever is to map it (the loader
 * a library); the count orders what our tables say of addresses.
 */
#ifdef __SANITIZE_THREAD__
static _Atomic(uint32_t) na_os_unmappings;

static long map_pages(void *hint, size_t size, int protection, int flags, int fd) {
    int saved = errno;
    void *start = mmap(hint, size, protection, flags, fd, 0);
    long result = start == MAP_FAILED ? -errno : (long)start;
    errno = saved;
    (void)atomic_load_explicit(&na_os_unmappings, memory_order_acquire);
    return result;
}

void na_os_unmap(void *start, size_t size) {
    int saved = errno;
    atomic_fetch_add_explicit(&na_os_unmappings, 1, memory_order_release);
    (void)munmap(start, size);
    errno = saved;
}
#else
static long map_pages(void *hint, size_t size, int protection, int flags, int fd) {
    return na_syscall(SYS_mmap, (long)hint, (long)size, protection, flags, fd, 0);
}

void na_os_unmap(void *start, size_t size) {
    (void)na_syscall(SYS_munmap, (long)start, (long)size, 0, 0, 0, 0);
}
#endif

static void *map_memory(size_t size, int protection, int flags) {
    long result = map_pages(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1);
    return failed(result) ? NULL : (void *)result;
}

static void *map_tables(size_t size, int protection) {
    void *start = map_memory(size, protection, 0);
    if (start != NULL) na_os_hugepage(start, size, false);
    return start;
}

void *na_os_map(size_t size) {
    return map_tables(size, PROT_READ | PROT_WRITE);
}

void *na_os_map_zeros(size_t size) {
    return map_tables(size, PROT_READ);
}

bool na_os_keep_zeros(void *start, size_t size) {
    return na_syscall(SYS_mprotect, (long)start, (long)size, PROT_READ, 0, 0, 0) == 0;
}

void *na_os_reserve_part(size_t size, size_t most, size_t alignment) {
    /* mmap aligns to the page only, so ask for more and give the two ends back. */
    size_t slack = alignment > na_os_page ? alignment - na_os_page : 0;
    if (most > SIZE_MAX - slack) return NULL;
    char *raw = map_memory(most + slack, PROT_NONE, MAP_NORESERVE);
    if (raw == NULL) return NULL;
    char *start = (char *)na_align_up((uintptr_t)raw, alignment);
    size_t before = (size_t)(start - raw), behind = most + slack - before - size;
    if (before != 0) na_os_unmap(raw, before);
    if (behind != 0) na_os_unmap(start + size, behind);
    return start;
}

void *na_os_reserve(size_t size, size_t alignment) {
    return na_os_reserve_part(size, size, alignment);
}

long na_os_reserve_exactly(void *start, size_t size) {
    enum { FIXED_NOREPLACE = 0x100000 }; /* newer than some C libraries' headers */
    long result = map_pages(start, size, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | FIXED_NOREPLACE, -1);
    if (failed(result)) return result;
    if (result == (long)start) return 0;
    na_os_unmap((void *)result, size); /* a kernel that takes no notice of the flag */
    return NA_OS_TAKEN;
}

uint64_t na_os_space_limit(void) {
    enum { ADDRESS_SPACE = 9 }; /* RLIMIT_AS */
    uint64_t limit[2] = {UINT64_MAX, UINT64_MAX};
    (void)na_syscall(SYS_prlimit64, 0, ADDRESS_SPACE, 0, (long)limit, 0, 0);
    return limit[0];
}

void na_os_dump(void *start, size_t size, bool on) {
    static _Atomic(bool) refused;
    if (atomic_load_explicit(&refused, memory_order_relaxed)) return;
    long result =
        na_syscall(SYS_madvise, (long)start, (long)size, on ? MADV_DODUMP : MADV_DONTDUMP, 0, 0, 0);
    if (NA_UNLIKELY(result == -ENOSYS || result == -EPERM || result == -EACCES))
        atomic_store_explicit(&refused, true, memory_order_relaxed);
}

bool na_os_commit(void *start, size_t size) {
    return na_syscall(SYS_mprotect, (long)start, (long)size, PROT_READ | PROT_WRITE, 0, 0, 0) == 0;
}

bool na_os_seal(void *start, size_t size) {
    return na_syscall(SYS_mprotect, (long)start, (long)size, PROT_NONE, 0, 0, 0) == 0;
}

bool na_os_purge(void *start, size_t size) {
    return na_syscall(SYS_madvise, (long)start, (long)size, MADV_DONTNEED, 0, 0, 0) == 0;
}

bool na_os_resize(void *start, size_t old_size, size_t new_size) {
    return !failed(na_syscall(SYS_mremap, (long)start, (long)old_size, (long)new_size, 0, 0, 0));
}

bool na_os_move(void *start, size_t old_size, void *target, size_t new_size) {
    return !failed(na_syscall(SYS_mremap, (long)start, (long)old_size, (long)new_size,
                              MREMAP_MAYMOVE | MREMAP_FIXED, (long)target, 0));
}

/* The kernel unmaps the target before it looks at all that may be wrong with the source, so after a
 * failure there may be a hole, which any thread's next mmap may fill: it is closed at once. */
na_os_remap_t na_os_remap(void *start, size_t size, void *target, bool *fresh) {
    enum { DONTUNMAP = 4, FIXED_NOREPLACE = 0x100000 }; /* newer than some C libraries' headers */
    *fresh = false;
    long result = na_syscall(SYS_mremap, (long)start, (long)size, (long)size,
                             MREMAP_MAYMOVE | MREMAP_FIXED | DONTUNMAP, (long)target, 0);
    if (!failed(result)) return NA_OS_REMAP_DONE;
    long plug = map_pages(target, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | FIXED_NOREPLACE, -1);
    if (plug == (long)target) {
        *fresh = true;
        return NA_OS_REMAP_REFUSED;
    }
    /* A kernel that takes no notice of the flag found it mapped, and has put it elsewhere. */
    if (!failed(plug)) na_os_unmap((void *)plug, size);
    /* Kernels and sandboxes that do not know the call, or the flag, say so before they begin. */
    bool unknown = result == -EINVAL || result == -ENOSYS || result == -EPERM;
    return unknown ? NA_OS_REMAP_REFUSED : NA_OS_REMAP_LOST;
}

void na_os_hugepage(void *start, size_t size, bool on) {
    /* EINVAL where the kernel has no transparent huge pages: then there is nothing to advise. */
    (void)na_syscall(SYS_madvise, (long)start, (long)size, on ? MADV_HUGEPAGE : MADV_NOHUGEPAGE, 0,
                     0, 0);
}

bool na_os_refuses_huge(void) {
    enum { GET_THP_DISABLE = 42 }; /* PR_GET_THP_DISABLE */
    return na_syscall(SYS_prctl, GET_THP_DISABLE, 0, 0, 0, 0, 0) > 0;
}

bool na_os_populate(void *start, size_t size) {
    enum { POPULATE_WRITE = 23 }; /* newer than some C libraries' headers */
    long result = na_syscall(SYS_madvise, (long)start, (long)size, POPULATE_WRITE, 0, 0, 0);
    return result != -EINVAL && result != -ENOSYS && result != -EPERM && result != -EACCES;
}

bool na_os_is_resident(const void *page) {
    unsigned char present = !na_os_is_confined();
    (void)optional(SYS_mincore, (long)page, (long)na_os_page, (long)&present, 0, 0, 0);
    return present & 1;
}

long na_os_collapse(void *start, size_t size) {
    enum { COLLAPSE = 25 }; /* newer than some C libraries' headers */
    return na_syscall(SYS_madvise, (long)start, (long)size, COLLAPSE, 0, 0, 0);
}

bool na_os_keep_from_children(void *start, size_t size) {
    return na_syscall(SYS_madvise, (long)start, (long)size, MADV_DONTFORK, 0, 0, 0) == 0;
}

bool na_os_wipe_in_children(void *start, size_t size) {
    enum { WIPEONFORK = 18 }; /* newer than some C libraries' headers */
    return na_syscall(SYS_madvise, (long)start, (long)size, WIPEONFORK, 0, 0, 0) == 0;
}

void na_os_split_huge(void *start, size_t size) {
#ifndef MADV_COLD
#define MADV_COLD 20
#endif
    (void)na_syscall(SYS_madvise, (long)start, (long)size, MADV_COLD, 0, 0, 0);
}

/* The kernel reads the signal set before it looks at `how`, which names no operation here. */
bool na_os_readable(const void *address) {
    enum { NO_OPERATION = -1, SET_BYTES = 8 };
    return na_syscall(SYS_rt_sigprocmask, NO_OPERATION, (long)address, 0, SET_BYTES, 0, 0) !=
           -EFAULT;
}

/* --- NUMA --- */

#define WORD_BITS (8u * (unsigned)sizeof(unsigned long))

/* The bits beside the mode in a policy: static and relative nodes, NUMA balancing. */
#define POLICY_FLAGS 0xe000

/* Static: the nodes are meant as named, and not renumbered when a cpuset changes. The kernel takes
 * one off the number of bits before it reads the mask. */
static long bind_set(void *start, size_t size, long mode, const unsigned long *mask, long flags) {
    return optional(SYS_mbind, (long)start, (long)size, mode, (long)mask, NA_OS_NODES + 1, flags);
}

long na_os_bind(void *start, size_t size, unsigned node, na_bind_t how, bool move) {
    unsigned long mask[NA_OS_NODES / WORD_BITS] = {0};
    if (node >= NA_OS_NODES) return -EINVAL;
    mask[node / WORD_BITS] = 1ul << (node % WORD_BITS);
    long flags = move ? MPOL_MF_MOVE : 0;
    if (how == NA_BIND_LOCAL)
        return optional(SYS_mbind, (long)start, (long)size, MPOL_PREFERRED, 0, 0, flags);
    long mode = how == NA_BIND_STRICT ? MPOL_BIND : MPOL_PREFERRED;
    long result = bind_set(start, size, mode | MPOL_F_STATIC_NODES, mask, flags);
    if (result == -EINVAL) /* kernels and sandboxes that know no flags */
        result = bind_set(start, size, mode, mask, flags);
    return result;
}

long na_os_interleave(void *start, size_t size, const uint64_t *set, unsigned nodes) {
    unsigned long mask[NA_OS_NODES / WORD_BITS] = {0};
    if (nodes > NA_OS_NODES) return -EINVAL;
    for (unsigned node = 0; node < nodes; node++)
        if (set[node / 64] >> (node % 64) & 1) mask[node / WORD_BITS] |= 1ul << (node % WORD_BITS);
    long result = bind_set(start, size, MPOL_INTERLEAVE | MPOL_F_STATIC_NODES, mask, 0);
    if (result == -EINVAL) result = bind_set(start, size, MPOL_INTERLEAVE, mask, 0);
    return result;
}

long na_os_task_policy(void) {
    int mode = MPOL_DEFAULT;
    long result = optional(SYS_get_mempolicy, (long)&mode, 0, 0, 0, 0, 0);
    return result < 0 ? result : (mode & ~POLICY_FLAGS);
}

long na_os_page_nodes(void *const *pages, unsigned count, int *status) {
    return na_syscall(SYS_move_pages, 0, (long)count, (long)pages, 0, (long)status, 0);
}

long na_os_move_pages(void *const *pages, unsigned count, unsigned node, int *status) {
    int nodes[NA_OS_MOVE_PAGES];
    if (count > NA_OS_MOVE_PAGES) return -EINVAL;
    for (unsigned i = 0; i < count; i++)
        nodes[i] = (int)node;
    return na_syscall(SYS_move_pages, 0, (long)count, (long)pages, (long)nodes, (long)status,
                      MPOL_MF_MOVE);
}

bool na_os_may_run_on(bool (*wanted)(unsigned cpu, unsigned arg), unsigned arg) {
    enum { CPUS = 8192 };
    uint64_t set[CPUS / 64];
    long bytes = optional(SYS_sched_getaffinity, 0, sizeof set, (long)set, 0, 0, 0);
    if (bytes <= 0) return true;
    for (unsigned cpu = 0; cpu < (unsigned)bytes * 8; cpu++)
        if ((set[cpu / 64] >> (cpu % 64) & 1) && wanted(cpu, arg)) return true;
    return false;
}

unsigned na_os_cpu_node(void) {
    unsigned cpu = 0, node = 0;
    (void)optional(SYS_getcpu, (long)&cpu, (long)&node, 0, 0, 0, 0);
    return node;
}

unsigned na_os_cpu(void) {
    if (&__rseq_size != NULL && &__rseq_offset != NULL && __rseq_size != 0) {
        /* struct rseq: cpu_id_start at 0, cpu_id at 4; negative while the thread is unregistered.
         * The kernel rewrites it whenever the thread moves. */
        int32_t cpu = *(const volatile int32_t *)(thread_pointer() + __rseq_offset + 4);
        if (cpu >= 0) return (unsigned)cpu;
    }
    int saved = errno;
    int cpu = sched_getcpu();
    errno = saved;
    return cpu >= 0 ? (unsigned)cpu : 0;
}

/* --- files --- */

const void *na_os_map_file(const char *path, size_t *size) {
    long fd = na_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (fd < 0) return NULL;
    long bytes = na_syscall(SYS_lseek, fd, 0, 2 /* SEEK_END */, 0, 0, 0);
    long at = bytes > 0 ? map_pages(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, (int)fd) : -1;
    na_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    if (at < 0 && at > -4096) return NULL;
    *size = (size_t)bytes;
    return (const void *)at;
}

long na_os_read_file(const char *path, char *buffer, size_t size) {
    if (size == 0) return -EINVAL;
    buffer[0] = 0;
    long fd;
    do {
        fd = na_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    } while (fd == -EINTR);
    if (fd < 0) return fd;
    size_t got = 0;
    long result = 0;
    while (got < size - 1) {
        result = na_syscall(SYS_read, fd, (long)(buffer + got), (long)(size - 1 - got), 0, 0, 0);
        if (result == -EINTR) continue;
        if (result <= 0) break;
        got += (size_t)result;
    }
    (void)na_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    buffer[got] = 0;
    return result < 0 ? result : (long)got;
}

long na_os_ask_file(const char *path, char *buffer, size_t size) {
    return na_os_is_confined() ? -EPERM : na_os_read_file(path, buffer, size);
}

void na_os_write(int fd, const char *text, size_t length) {
    while (length > 0) {
        long result = na_syscall(SYS_write, fd, (long)text, (long)length, 0, 0, 0);
        if (result == -EINTR) continue;
        if (result <= 0) /* closed, full or not ready: a message is not worth waiting for */
            return;
        text += result;
        length -= (size_t)result;
    }
}

/* --- messages --- */

static struct {
    uint64_t dev, ino; /* ino 0: it was closed */
    bool known;
} at_start;

void na_os_note_stderr(void) {
    struct stat st;
    long result = na_syscall(SYS_fstat, STDERR_FILENO, (long)&st, 0, 0, 0, 0);
    at_start.dev = result == 0 ? st.st_dev : 0;
    at_start.ino = result == 0 ? st.st_ino : 0;
    at_start.known = result == 0 || result == -EBADF;
}

static bool is_same_file(const struct stat *st) {
    return at_start.ino != 0 && st->st_dev == at_start.dev && st->st_ino == at_start.ino;
}

bool na_os_is_stderr(int fd) {
    struct stat st;
    return na_syscall(SYS_fstat, fd, (long)&st, 0, 0, 0, 0) == 0 && is_same_file(&st);
}

/* Another file than at the start is a log, as daemons and freopen put there, if it can only be
 * written; data is read as well. Where there was none at the start, programs get the number by
 * accident: only a terminal, and what is appended to, is surely meant for text. */
int na_os_stderr(void) {
    struct stat st;
    if (!at_start.known) na_os_note_stderr();
    long result = na_syscall(SYS_fstat, STDERR_FILENO, (long)&st, 0, 0, 0, 0);
    if (result == -EBADF) return -1;
    if (result != 0 || !at_start.known) return STDERR_FILENO; /* the system does not say */
    bool closed = at_start.ino == 0, fits = S_ISCHR(st.st_mode) || is_same_file(&st);
    if (S_ISFIFO(st.st_mode)) fits = fits || !closed;
    if (S_ISREG(st.st_mode) && !fits) {
        long flags = na_syscall(SYS_fcntl, STDERR_FILENO, F_GETFL, 0, 0, 0, 0);
        fits =
            flags >= 0 && ((flags & O_APPEND) != 0 || (!closed && (flags & O_ACCMODE) == O_WRONLY));
    }
    return fits ? STDERR_FILENO : -1;
}

void na_os_say(const char *text, size_t length) {
    int fd = na_os_stderr();
    if (fd >= 0) na_os_write(fd, text, length);
}

/* --- waiting and dying --- */

void na_os_futex_wait(const uint32_t *word, uint32_t expected) {
    (void)na_syscall(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, (long)expected, 0, 0, 0);
}

NA_COLD void na_os_futex_wait_ms(const uint32_t *word, uint32_t expected, unsigned ms) {
    struct timespec most = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    (void)na_syscall(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, (long)expected, (long)&most, 0, 0);
}

void na_os_futex_wake(const uint32_t *word, int count) {
    (void)na_syscall(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, count, 0, 0, 0);
}

void na_os_yield(void) {
    (void)na_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

static void raise_abort(void) {
    uint64_t set = 1ull << (SIGABRT - 1);
    (void)na_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&set, 0, sizeof set, 0, 0);
    long pid = na_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
    long tid = na_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
    (void)na_syscall(SYS_tgkill, pid, tid, SIGABRT, 0, 0, 0);
}

_Noreturn void na_os_abort(void) {
    raise_abort();
    /* The host ignores the signal, or its handler came back. The kernel's struct sigaction is at
     * most four words, and all zeros are the default action on every architecture. */
    static const uint64_t fallback[4];
    (void)na_syscall(SYS_rt_sigaction, SIGABRT, (long)fallback, 0, sizeof(uint64_t), 0, 0);
    raise_abort();
    /* Still here: process 1 of a container is not killed by signals without a handler. */
    for (;;)
        (void)na_syscall(SYS_exit_group, 128 + SIGABRT, 0, 0, 0, 0, 0);
}

/* --- time ---
 *
 * The system's clocks are read where the kernel maps the code for it into every process (its vDSO),
 * without a system call.
 *
 * Not by libc's clock_gettime: programs and preloaded libraries replace it (libfaketime), and
 * theirs allocate, which would come back here with our locks held; or stand still, and we would
 * wait for ever. Where the kernel maps no such code or its symbols are not as expected, the clocks
 * are read by system call. */

#if defined(__aarch64__)
#define SYMBOL "__kernel_clock_gettime"
#else
#define SYMBOL "__vdso_clock_gettime"
#endif

typedef int clock_call_t(clockid_t id, struct timespec *t);

static int by_system_call(clockid_t id, struct timespec *t) {
    return (int)na_syscall(SYS_clock_gettime, id, (long)t, 0, 0, 0, 0);
}

static bool is_symbol(const char *name) {
    const char *want = SYMBOL;
    while (*name == *want && *want != 0)
        name++, want++;
    return *name == *want;
}

/* Names begin where the table of symbols ends: so every linker has laid them out. Were it
 * otherwise, nothing would be found. */
static clock_call_t *find_symbol(const ElfW(Dyn) * dynamic, uintptr_t bias) {
    const ElfW(Sym) *symbol = NULL;
    const char *names = NULL;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        uintptr_t at = bias + dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_SYMTAB) symbol = (const ElfW(Sym) *)at;
        if (dynamic->d_tag == DT_STRTAB) names = (const char *)at;
    }
    if (symbol == NULL || names == NULL) return NULL;
    for (; (uintptr_t)(symbol + 1) <= (uintptr_t)names; symbol++) {
        if (symbol->st_shndx != SHN_UNDEF && is_symbol(names + symbol->st_name))
            return (clock_call_t *)(bias + symbol->st_value);
    }
    return NULL;
}

static clock_call_t *find_clock(void) {
    uintptr_t image = getauxval(AT_SYSINFO_EHDR), bias = 0;
    if (image == 0) return NULL;
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)image;
    const ElfW(Phdr) *part = (const ElfW(Phdr) *)(image + header->e_phoff);
    const ElfW(Dyn) *dynamic = NULL;
    bool loaded = false;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (part[i].p_type == PT_LOAD && !loaded) {
            bias = image + part[i].p_offset - part[i].p_vaddr;
            loaded = true;
        }
        if (part[i].p_type == PT_DYNAMIC) dynamic = (const ElfW(Dyn) *)(image + part[i].p_offset);
    }
    return loaded && dynamic != NULL ? find_symbol(dynamic, bias) : NULL;
}

/* Threads that come here at once find the same. */
static NA_COLD clock_call_t *choose(_Atomic(clock_call_t *) *chosen) {
    clock_call_t *call = find_clock();
    if (call == NULL) call = by_system_call;
    atomic_store_explicit(chosen, call, memory_order_relaxed);
    return call;
}

static void read_clock(clockid_t id, struct timespec *t) {
    static _Atomic(clock_call_t *) chosen;
    clock_call_t *call = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (NA_UNLIKELY(call == NULL)) call = choose(&chosen);
    if (NA_UNLIKELY(call(id, t) != 0)) *t = (struct timespec){0, 0};
}

uint64_t na_os_ms(void) {
    struct timespec t;
    read_clock(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t na_os_ns(void) {
    struct timespec t;
    read_clock(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}
