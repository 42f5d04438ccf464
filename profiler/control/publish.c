/* publish.c - the page of figures: opened, written, ended. */
#include "profiler/control/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "alloc/api/figures.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/path/seam.h"
#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/options.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/print.h"
#include "profiler/containers/path.h"
#include "profiler/format/status.h"

enum { LEAST_MS = 10, COST = 1000 }; /* a thousandth of the time */

_Static_assert((int)NA_FIGURES <= (int)NA_STATUS_FIGURES, "");
_Static_assert((int)NA_NODE_FIGURES <= (int)NA_STATUS_NODE_FIGURES, "");
_Static_assert(NA_MAX_NODES < NA_STATUS_NODES, "");

_Atomic(uint64_t) na_publish_next = UINT64_MAX;

static na_lock_t lock; /* guards all below */
static na_status_page_t *page;
static size_t page_size; /* by the nodes that there were when it was made */
static bool unopened;    /* there is none yet, or it is the parent's */
static uint64_t pid_namespace;
static char directory[200];
static char file[256];

static uint32_t own_pid(void) {
    return (uint32_t)na_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/* ---- the file ---- */

static void put_text(char *to, size_t size, size_t *at, const char *text) {
    while (*text != 0 && *at + 1 < size)
        to[(*at)++] = *text++;
    to[*at] = 0;
}

static void name_file(uint32_t pid) {
    char digits[12], *p = digits + sizeof digits - 1;
    size_t at = 0;
    *p = 0;
    do
        *--p = (char)('0' + pid % 10);
    while ((pid /= 10) != 0);
    put_text(file, sizeof file, &at, directory);
    put_text(file, sizeof file, &at, "/" NA_STATUS_PREFIX);
    put_text(file, sizeof file, &at, p);
    put_text(file, sizeof file, &at, NA_STATUS_SUFFIX);
}

/* Field 22 of /proc/self/stat, behind the name in brackets. */
static uint64_t born(void) {
    char text[1024];
    if (na_os_ask_file("/proc/self/stat", text, sizeof text) <= 0) return 0;
    const char *p = strrchr(text, ')');
    for (int field = 2; p != NULL && field < 22; field++)
        if ((p = strchr(p, ' ')) != NULL) p++;
    uint64_t value = 0;
    for (; p != NULL && *p >= '0' && *p <= '9'; p++)
        value = value * 10 + (uint64_t)(*p - '0');
    return value;
}

static void note_program(char *to, size_t size) {
    char path[512];
    long n = na_syscall(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)path,
                        sizeof path - 1, 0, 0);
    path[n > 0 ? na_exe_part(path, (size_t)n) : 0] = 0;
    const char *name = na_base_name(path);
    size_t length = na_name_part(name, size - 1);
    memcpy(to, name, length);
    to[length] = 0;
}

/* A file of `page_size` bytes that the system has room for. A descriptor, or a negative errno. */
static long make_file(void) {
    const long flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    long fd = na_syscall(SYS_openat, AT_FDCWD, (long)file, flags, 0644, 0, 0);
    if (fd == -EEXIST) { /* of a process that was killed and had this number */
        na_syscall(SYS_unlinkat, AT_FDCWD, (long)file, 0, 0, 0, 0);
        fd = na_syscall(SYS_openat, AT_FDCWD, (long)file, flags, 0644, 0, 0);
    }
    if (fd < 0) return fd;
    long error = na_syscall(SYS_fallocate, fd, 0, 0, (long)page_size, 0, 0);
    if (error == -EOPNOTSUPP || error == -ENOSYS) {
        static const char zeros[NA_STATUS_SIZE];
        error = 0;
        for (size_t at = 0; at < page_size && error == 0; at += sizeof zeros)
            if (na_syscall(SYS_pwrite64, fd, (long)zeros, sizeof zeros, (long)at, 0, 0) !=
                sizeof zeros)
                error = -ENOSPC;
    }
    if (error == 0) return fd;
    na_syscall(SYS_unlinkat, AT_FDCWD, (long)file, 0, 0, 0, 0);
    na_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    return error;
}

/* 0 or a negative errno: there is no page then. */
static long open_page(void) {
    if (na_os_is_confined()) return -EPERM;
    uint32_t pid = own_pid();
    name_file(pid);
    page_size = na_node_count < NA_STATUS_NODES_FEW ? NA_STATUS_SIZE : NA_STATUS_MOST;
    long fd = make_file();
    if (fd < 0) return fd;
    long start =
        na_syscall(SYS_mmap, 0, (long)page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    na_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    if (start < 0 && start > -4096) {
        na_syscall(SYS_unlinkat, AT_FDCWD, (long)file, 0, 0, 0, 0);
        return start;
    }
    page = (na_status_page_t *)start; /* NOLINT(performance-no-int-to-ptr) */
    page->version = NA_STATUS_VERSION;
    page->pid = pid;
    page->pid_namespace = pid_namespace;
    page->born = born();
    page->figures = NA_FIGURES;
    page->node_figures = NA_NODE_FIGURES;
    note_program(page->program, sizeof page->program);
    atomic_thread_fence(memory_order_release);
    memcpy(page->magic, NA_STATUS_MAGIC, sizeof page->magic);
    return 0;
}

/* ---- what it says ---- */

static void write_page(void) {
    static na_totals_t totals; /* too large for a small stack of the program's */
    uint32_t sequence = atomic_load_explicit(&page->sequence, memory_order_relaxed);
    atomic_store_explicit(&page->sequence, sequence + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    na_stats_gather(&totals);
    na_figures_of_process(&totals, page->process);
    unsigned nodes = 0, most = page_size == NA_STATUS_SIZE ? NA_STATUS_NODES_FEW : NA_STATUS_NODES;
    for (unsigned node = 0; node <= NA_NODE_ANY && nodes < most; node = na_node_next(node)) {
        na_status_node_t *to = &page->node[nodes];
        na_figures_of_node(node, to->figures);
        to->id = node == NA_NODE_ANY ? -1 : (int64_t)na_node_system_id(node);
        if (node != NA_NODE_ANY || to->figures[NA_NODE_FIGURE_active] != 0) nodes++;
    }
    page->nodes = nodes;
    page->written_ns = na_os_ns();
    atomic_store_explicit(&page->sequence, sequence + 2, memory_order_release);
}

/* The file is made here, by who lives long enough to come by. Under the lock. */
static bool is_own_page(void) {
    if (!unopened) return page != NULL && page->pid == own_pid();
    unopened = false;
    if (page != NULL) na_os_unmap(page, page_size);
    page = NULL;
    return open_page() == 0;
}

/* Processor time: what others take meanwhile is no cost of ours. */
static uint64_t thread_ns(void) {
    struct timespec t = {0};
    na_syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&t, 0, 0, 0, 0);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void na_publish(uint64_t now) {
    uint64_t next = atomic_load_explicit(&na_publish_next, memory_order_relaxed);
    if (now < next || !atomic_compare_exchange_strong(&na_publish_next, &next, now + LEAST_MS) ||
        !na_try_lock(&lock))
        return;
    uint64_t begun = thread_ns();
    if (is_own_page()) write_page();
    uint64_t cost_ms = (thread_ns() - begun) * COST / 1000000;
    if (cost_ms > LEAST_MS) atomic_store(&na_publish_next, now + cost_ms);
    na_unlock(&lock);
}

/* ---- the process ---- */

static void warn_refused(const char *named, long error) {
    na_warn("NUMALLOC_PUBLISH=%s ignored: %s", named,
            error == -ENOENT || error == -ENOTDIR  ? "no such directory; make it"
            : error == -EACCES || error == -EPERM  ? "permission denied; name a directory that the "
                                                     "process may write to"
            : error == -ENOSPC || error == -EDQUOT ? "there is no room; name a directory elsewhere"
            : error == -EROFS ? "the filesystem is read-only; name a directory "
                                "elsewhere"
                              : "the file cannot be made; name another "
                                "directory");
}

void na_publish_at_load(void) {
    const char *named = na_option_text(NA_OPT_PUBLISH);
    if (named == NULL || *named == 0 || strcmp(named, "0") == 0) return;
    const char *where = strcmp(named, "1") == 0 ? NA_STATUS_DIRECTORY : named;
    size_t at = 0;
    if (*where != '/' || strlen(where) + 2 >= sizeof directory) {
        na_warn("NUMALLOC_PUBLISH=%s ignored: 1, or the whole path of a directory, is accepted",
                named);
        return;
    }
    put_text(directory, sizeof directory, &at, where);
    struct stat st;
    if (na_syscall(SYS_newfstatat, AT_FDCWD, (long)"/proc/self/ns/pid", (long)&st, 0, 0, 0) == 0)
        pid_namespace = st.st_ino;
    static const char here[] = "/.";
    put_text(directory, sizeof directory, &at, here);
    long error = na_syscall(SYS_faccessat, AT_FDCWD, (long)directory, W_OK, 0, 0, 0);
    directory[at - (sizeof here - 1)] = 0;
    if (error != 0) {
        warn_refused(named, error);
        return;
    }
    unopened = true;
    na_path_ends = true;
    atomic_store(&na_publish_next, na_os_ms() + LEAST_MS);
}

void na_publish_at_exit(void) {
    if (atomic_exchange(&na_publish_next, UINT64_MAX) == UINT64_MAX || !na_try_lock(&lock)) return;
    if (!unopened && page != NULL && page->pid == own_pid())
        na_syscall(SYS_unlinkat, AT_FDCWD, (long)file, 0, 0, 0, 0);
    na_unlock(&lock);
}

void na_publish_after_fork_child(void) {
    na_lock_reset(&lock);
    if (page != NULL) unopened = true;
}
