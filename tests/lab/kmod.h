/* kmod.h - what the lab's tests of the kernel module share: loading and unloading, sessions, the
 * accounts that must balance, and the kernel's own complaints.
 *
 * The environment variable NA_KMOD names numalloc_ibs.ko. The machine is thrown away afterwards. */
#ifndef NUMALLOC_TESTS_LAB_KMOD_H
#define NUMALLOC_TESTS_LAB_KMOD_H

#include "lab.h"
#include "profiler/record/sources/access_kmod.h"

#define KMOD_PAGE 4096UL

/* Loads the module, which must succeed; "" or "name=value name=value". */
void kmod_load(const char *parameters);
/* Unloads it without waiting: 0 or errno (EWOULDBLOCK: in use). */
int kmod_try_unload(void);
/* Unloads it; it must be unused within 20 seconds (a killed process is still being buried, and an
 * emulated machine may have little of its host). */
void kmod_unload(void);

/* An open device with its rings mapped. */
void kmod_session(na_kmod_t *kmod, uint32_t records, uint32_t watermark);
/* Starts a source that must start. `start` has source, period and what it needs; the rest is 0. */
void kmod_begin(na_kmod_t *kmod, struct na_ibs_start start);
/* Start's error for what must be refused. */
int kmod_refused(na_kmod_t *kmod, struct na_ibs_start start);

/* Counters of all rings, checked: each sample is in exactly one account, on each CPU, the copies in
 * the rings agree, and what is stored was drained or still lies there. */
struct na_ibs_stats kmod_balance(na_kmod_t *kmod);

static inline uint64_t kmod_count(const struct na_ibs_stats *stats, int which) {
    return stats->counter[which];
}

/* Keeps drained records: the first `room` of them. */
typedef struct kmod_log {
    struct na_ibs_record *record;
    size_t room, count;
} kmod_log_t;
kmod_log_t kmod_log_make(size_t room);
size_t kmod_log_drain(na_kmod_t *kmod, kmod_log_t *log);

/* No session and no perf event is left, within 20 seconds. */
void kmod_expect_idle(void);
/* The kernel has said nothing of a defect since it booted. */
void kmod_expect_quiet(void);

/* Pages that have no memory yet, small ones. */
unsigned char *kmod_pages(size_t pages);
struct na_ibs_range kmod_range(const void *start, size_t pages);

/* Node of the page under an address, as the kernel says. */
int kmod_page_node(const void *address);

/* The exit status of a program or child: check.h counts failures for each source file apart. */
int kmod_status(int own_status);

/* fork whose child has no business with the parent's checks. */
pid_t kmod_fork(void);
/* Waits for it: exit status, or 1000 + signal. */
int kmod_join(pid_t child);

#endif
