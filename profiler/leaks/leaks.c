/* leaks.c - a scan from beginning to end, and the end of the process. */
#include "profiler/leaks/leaks.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/options.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/print.h"
#include "alloc/core/sys/syscall.h"
#include "profiler/leaks/leaks_state.h"
#include "profiler/record/stacks/tree.h"
#include "profiler/record/state/state.h"

#pragma weak dlsym

enum { LEAKS_CHILDREN = 2 }; /* the option's word */

bool na_leaks_on;
static na_lock_t scanning;
static int32_t pid; /* of the process that the option was read in */
static void (*exit_handler)(void);
static void (*exit_of)(int); /* the C library's */

uint32_t (*na_leaks_ruled)(const void *block);

static uintptr_t ends_from;

static NA_NOINLINE void call_handler(void *unused) {
    (void)unused;
    ends_from = na_leaks_here();
    exit_handler();
    __asm__ volatile(""); /* not a jump, which would give the frame up */
}

/* With no library's handle: then it is called when all that was registered later was, the
 * destructors of all modules among it. */
bool na_leaks_at_load(void (*at_exit)(void)) {
    pid = (int32_t)na_sys0(SYS_getpid);
    na_leak_ask_loader();
    if (&dlsym == NULL) return false;
    int (*atexit_of)(void (*)(void *), void *, void *) = NULL;
    *(void **)&atexit_of = dlsym(RTLD_DEFAULT, "__cxa_atexit");
    *(void **)&exit_of = dlsym(RTLD_DEFAULT, "exit");
    exit_handler = at_exit;
    return atexit_of != NULL && atexit_of(call_handler, NULL, NULL) == 0;
}

/* --- a scan --- */

static void begin_scan(na_leak_scan_t *scan) {
    static const char path[] = "/proc/self/pagemap";
    if (!na_leak_list_mappings(scan)) return;
    scan->pagemap =
        (int)na_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    na_leak_clear(scan);
    na_leak_scan_data(scan);
    na_leak_scan_own_roots(scan);
    na_leak_scan_thread(scan, &scan->self);
    scan->leaks->threads++;
}

static void end_scan(na_leak_scan_t *scan) {
    if (scan->failed || scan->readable_count == 0) return;
    na_leak_follow(scan);
    na_leak_sum_up(scan);
    if (scan->pagemap >= 0) na_sys1(SYS_close, scan->pagemap);
}

/* Tables in one mapping, of which what is used is touched. */
static bool make_tables(na_leak_scan_t *scan, uint8_t **memory, size_t *bytes) {
    scan->row_count = na_rec_is_open() ? na_tree_bound() : 0;
    if (scan->row_count == 0) scan->row_count = 1; /* for blocks of no site */
    struct {
        void **to;
        size_t bytes;
    } parts[] = {
        {(void **)&scan->modules, NA_LEAK_MODULES * sizeof *scan->modules},
        {(void **)&scan->data, NA_LEAK_DATA * sizeof *scan->data},
        {(void **)&scan->readable, NA_LEAK_READABLE * sizeof *scan->readable},
        {(void **)&scan->queue, NA_LEAK_QUEUE * sizeof *scan->queue},
        {(void **)&scan->rows, scan->row_count * sizeof *scan->rows},
        {(void **)&scan->pairs, NA_LEAK_PAIRS * sizeof *scan->pairs},
    };
    *bytes = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        *bytes += na_align_up(parts[i].bytes, na_os_page);
    long at = na_sys6(SYS_mmap, 0, (long)*bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at <= 0) return false;
    *memory = (uint8_t *)at;
    na_os_hugepage(*memory, *bytes, false);
    uint8_t *next = *memory;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        *parts[i].to = next;
        next += na_align_up(parts[i].bytes, na_os_page);
    }
    return true;
}

static NA_NOINLINE int scan_with(na_leak_scan_t *scan, na_leak_report_t report) {
    if (!na_leak_list_modules(scan)) {
        na_warn("no scan for leaks: the loader does not list its modules");
        return ENOTSUP;
    }
    na_leak_stop_world(scan, begin_scan, end_scan);
    if (scan->readable_count == 0) {
        na_warn("no scan for leaks: /proc is not there");
        return ENOTSUP;
    }
    if (scan->failed) {
        na_warn("the scan for leaks failed: something it looked at could not be read, or the "
                "process has too many mappings");
        return ECANCELED;
    }
    na_leak_suppress(scan);
    if (report == NA_LEAK_NOTHING) return 0;
    na_leak_keep(scan);
    if (report == NA_LEAK_LAST && na_leak_hand_on(scan)) return 0;
    na_leak_print(scan);
    return 0;
}

int na_leaks_scan(na_leak_totals_t *leaks, na_leak_report_t report, uintptr_t from) {
    *leaks = (na_leak_totals_t){0};
    na_leak_scan_t scan = {.leaks = leaks};
    uint8_t *memory;
    size_t bytes;
    if (!na_leaks_on) return ENOTSUP;
    scan.self = (na_leak_thread_t){.sp = from, .tp = na_thread_pointer()};
    na_lock(&scanning);
    int error = make_tables(&scan, &memory, &bytes) ? 0 : ENOMEM;
    if (error == 0) {
        error = scan_with(&scan, report);
        na_leak_close_names(&scan);
        na_os_unmap(memory, bytes);
    } else {
        na_warn("no scan for leaks: not enough memory");
    }
    na_unlock(&scanning);
    return error;
}

/* --- the process --- */

void na_leaks_after_fork_child(void) {
    na_lock_reset(&scanning);
}

bool na_leaks_at_exit(void) {
    na_leak_totals_t leaks;
    if (!na_leaks_on) return false;
    bool child = (int32_t)na_sys0(SYS_getpid) != pid;
    if (child && na_option(NA_OPT_LEAKS) != LEAKS_CHILDREN) return false;
    if (na_leaks_scan(&leaks, NA_LEAK_LAST, ends_from) != 0) return false;
    return leaks.of[NA_LEAK_LOST].blocks + leaks.of[NA_LEAK_INDIRECT].blocks != 0;
}

/* Called again from a handler, exit goes on with what is left of its work: that is to write out
 * what streams hold. */
void na_leaks_exit(void) {
    if (exit_of != NULL) exit_of((int)na_option(NA_OPT_LEAKS_EXIT));
}
