/* os.h - the system, as raw calls.
 *
 * Everything the allocator and the profiler ask of the kernel goes through here and never through
 * libc wrappers: programs interpose mmap, open and getenv, and their versions may allocate. No
 * function here touches errno, allocates, or takes a lock; all are async-signal-safe. Results are
 * the kernel's: a negative errno on failure, unless said otherwise. */
#ifndef NUMALLOC_ALLOC_CORE_SYS_OS_H
#define NUMALLOC_ALLOC_CORE_SYS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"

/* Size of the system's pages, bytes: 4096 on x86-64; elsewhere na_os_init sets it, from the
 * auxiliary vector. */
extern size_t na_os_page;
/* Started set-user-id or the like (AT_SECURE): the environment is not to be trusted. Looked
 * up only where that has something for us. */
extern bool na_os_secure;

void na_os_init(void);

/* The raw system call. */
long na_syscall(long number, long a, long b, long c, long d, long e, long f);

/* Reads the environment as it was at exec, without getenv (which programs replace). NULL: unset. */
const char *na_os_getenv(const char *name);
/* The i-th string of the environment, NULL past the end. */
const char *na_os_env_at(size_t i);
/* Whether any of them begins so. */
bool na_os_env_has(const char *prefix);

/* Mappings that Linux allows a process, and a few more. */
#define NA_OS_MAPPINGS 65536u

/* --- memory. Sizes are bytes, multiples of na_os_page. NULL / false on failure. --- */

/* Readable and writable zeroed memory for tables, aligned to na_os_page. No huge pages: tables are
 * touched here and there, and the process is charged for all of a huge page. */
void *na_os_map(size_t size);
/* The same to be read only, until na_os_commit: locked memory is not made of it then. */
void *na_os_map_zeros(size_t size);
/* Zeroed memory, none of which was written to, is so from now on. */
bool na_os_keep_zeros(void *start, size_t size);
/* Address space only (PROT_NONE, not charged), aligned to `alignment` (a power of two). */
void *na_os_reserve(size_t size, size_t alignment);
/* The same of the first part of a place where `most` bytes are free: the rest is let go. */
void *na_os_reserve_part(size_t size, size_t most, size_t alignment);
/* The same at `start`, and nowhere else. 0; NA_OS_TAKEN: something is mapped there; or another
 * negative errno. */
#define NA_OS_TAKEN (-17) /* EEXIST */
long na_os_reserve_exactly(void *start, size_t size);
/* The limit on address space (RLIMIT_AS), bytes; UINT64_MAX: none. */
uint64_t na_os_space_limit(void);
/* Whether it is to be part of core files (MADV_DODUMP, MADV_DONTDUMP). A sandbox that refuses that
 * is not asked again. */
void na_os_dump(void *start, size_t size, bool on);
/* Makes part of a reservation readable and writable. */
bool na_os_commit(void *start, size_t size);
/* And unreachable again. */
bool na_os_seal(void *start, size_t size);
void na_os_unmap(void *start, size_t size);
/* Drops the contents; reads as zero afterwards, the mapping and its policy stay. */
bool na_os_purge(void *start, size_t size);
/* Grows or shrinks a whole mapping where it is. */
bool na_os_resize(void *start, size_t old_size, size_t new_size);
/* Moves the pages of a whole mapping over the reservation at `target` (replacing it). */
bool na_os_move(void *start, size_t old_size, void *target, size_t new_size);
/* Moves the pages of [start, start + size) to `target`, a mapping of the same size whose contents
 * are lost; `start` stays mapped and reads as zero. Both lie in mappings that agree in protection
 * and policy. */
typedef enum na_os_remap {
    NA_OS_REMAP_DONE,
    NA_OS_REMAP_REFUSED, /* nothing has moved; `target` may read as zero now, and has lost its
                            policy and advice where `*fresh` is true */
    NA_OS_REMAP_LOST,    /* nothing has moved, and `target` may be another thread's mapping now */
} na_os_remap_t;
na_os_remap_t na_os_remap(void *start, size_t size, void *target, bool *fresh);
/* Lets the system have what it holds of huge pages that were given back in part: it splits them
 * (madvise MADV_COLD). Contents stay. */
void na_os_split_huge(void *start, size_t size);
/* madvise(MADV_POPULATE_WRITE): gives pages memory as if they had been written to; contents stay.
 * False: the system does not know it (Linux before 5.14), or forbids it. */
bool na_os_populate(void *start, size_t size);

/* Writes to the page, and changes nothing. (The compiler may not know that it changes nothing: it
 * would leave it out.) */
NA_INLINE void na_os_touch(void *page) {
    char nothing = 0;
    __asm__("" : "+r"(nothing));
    __atomic_fetch_or((char *)page, nothing, __ATOMIC_RELAXED);
}

/* madvise(MADV_HUGEPAGE / MADV_NOHUGEPAGE). */
void na_os_hugepage(void *start, size_t size, bool on);
/* The process is to have none (prctl PR_SET_THP_DISABLE; children inherit it). */
bool na_os_refuses_huge(void);
/* Makes huge pages of what is there, now (madvise MADV_COLLAPSE, Linux 6.1): 0, or a negative
 * errno. -EBUSY: a control group cannot be charged for them. */
long na_os_collapse(void *start, size_t size);
/* The mapping is not there in forked children. */
bool na_os_keep_from_children(void *start, size_t size);
/* It is all zero in children, however they are forked. False: the kernel is older (Linux 4.14). */
bool na_os_wipe_in_children(void *start, size_t size);

/* The page holds memory (mincore). True when the kernel does not say, false in confinement. */
bool na_os_is_resident(const void *page);
/* The eight bytes at `address` can be read; any address. */
bool na_os_readable(const void *address);

/* --- NUMA. Node numbers are the system's. --- */

/* How mbind is to place memory. */
typedef enum na_bind {
    NA_BIND_PREFERRED, /* on the node; when it is full, on the nearest */
    NA_BIND_STRICT,    /* on the node only */
    NA_BIND_LOCAL,     /* where it is first touched; NUMA balancing leaves it there */
} na_bind_t;

/* mbind to one node (none for NA_BIND_LOCAL). `move`: pages that are there already go there too. */
long na_os_bind(void *start, size_t size, unsigned node, na_bind_t how, bool move);
/* mbind, pages in turn on the nodes in the set: one bit a node, `nodes` of them (at most
 * NA_OS_NODES). */
long na_os_interleave(void *start, size_t size, const uint64_t *set, unsigned nodes);
#define NA_OS_NODES 1024u /* the largest MAX_NUMNODES a kernel can be built with */
/* Policy mode of the calling task (MPOL_DEFAULT is 0), negative on failure (EPERM, ENOSYS). */
long na_os_task_policy(void);
/* The cpu this thread runs on: rseq's word where glibc registered it, else getcpu. */
unsigned na_os_cpu(void);
/* The node of that cpu, as the kernel says. */
unsigned na_os_cpu_node(void);
/* May this thread run on a cpu for which `wanted` is true? True when the kernel does not say. */
bool na_os_may_run_on(bool (*wanted)(unsigned cpu, unsigned arg), unsigned arg);

/* move_pages for `count` pages of this process, at most NA_OS_MOVE_PAGES. status[i]: node of the
 * page, or negative errno (ENOENT: no memory there yet). Negative errno for the whole. */
#define NA_OS_MOVE_PAGES 512u
long na_os_page_nodes(void *const *pages, unsigned count, int *status);
/* The same, moving them first; also those other processes map are left alone (EACCES). */
long na_os_move_pages(void *const *pages, unsigned count, unsigned node, int *status);

/* --- time --- */

/* Milliseconds of a coarse monotonic clock (resolution a few ms). */
uint64_t na_os_ms(void);
/* CLOCK_MONOTONIC in nanoseconds, without a system call where the kernel can do without. */
uint64_t na_os_ns(void);

/* --- confinement --- */

/* The program is about to forbid itself system calls. From now on the allocator makes none but
 * those that every allocator makes: what is asked of files (na_os_ask_file), of the nodes of memory
 * and of single pages is refused without asking, with EPERM. Forked children inherit that. */
void na_os_confine(void);
bool na_os_is_confined(void);

/* --- files, for /proc and /sys --- */

/* Reads at most size - 1 bytes of a file and ends them with a zero; bytes read, or negative errno.
 */
long na_os_read_file(const char *path, char *buffer, size_t size);
/* The same, of what an allocator can do without knowing. */
long na_os_ask_file(const char *path, char *buffer, size_t size);
/* The whole file, to be read; NULL: it is empty, or refused. na_os_unmap ends it. */
const void *na_os_map_file(const char *path, size_t *size);
/* Writes all of it to a descriptor, going on after EINTR and short writes. */
void na_os_write(int fd, const char *text, size_t length);
/* Notes what descriptor 2 is, which is where messages go. Called when the library is loaded; else
 * the first message does it. */
void na_os_note_stderr(void);
/* The descriptor is the file noted, by whatever number. */
bool na_os_is_stderr(int fd);
/* 2, or -1 where that is by now something of the program's that is not for messages: one that was
 * started without, or has closed it, gets the number for a file or a connection that it opens. */
int na_os_stderr(void);
/* Writes a message there. */
void na_os_say(const char *text, size_t length);

/* --- waiting and dying --- */

void na_os_futex_wait(const uint32_t *word, uint32_t expected);
/* For so long at most. */
void na_os_futex_wait_ms(const uint32_t *word, uint32_t expected, unsigned ms);
void na_os_futex_wake(const uint32_t *word, int count);
void na_os_yield(void);
_Noreturn void na_os_abort(void); /* SIGABRT to this thread, handlers of the host included */

#endif
