/* guards.c - begins; takes and gives; fork; the end. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "profiler/guard/guards.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "alloc/core/sys/options.h"
#include "alloc/core/sys/print.h"
#include "alloc/core/thread/switch.h"
#include "alloc/core/track/misuse.h"
#include "alloc/core/track/track.h"
#include "profiler/containers/path.h"
#include "profiler/guard/guard_state.h"
#include "profiler/record/unwind/unwind.h"

na_guards_t na_guards;

uint32_t na_guard_thread(void) {
    return (uint32_t)na_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

/* --- the lock --- */

static void finish_left(void);

/* False: the holder is the calling thread, in what a signal handler interrupted; or one that forks,
 * which may wait for a lock of the C library that the calling thread has; or one that is not here.
 */
static bool enter_guards(void) {
    enum { PATIENCE_MS = 2 };
    return !na_guards.is_lost &&
           (na_try_lock(&na_guards.lock) ||
            (!na_lock_is_mine(&na_guards.lock) && na_lock_for(&na_guards.lock, PATIENCE_MS)));
}

static void leave_guards(void) {
    if (atomic_load(&na_guards.left)) finish_left();
    na_guard_put_counts();
    na_unlock(&na_guards.lock);
}

/* An error was reported that no fault has come of. */
static void end_if_wanted(void) {
    if (na_option(NA_OPT_ABORT) && na_guards.mode != NA_GUARD_RECOVER) na_os_abort();
}

/* --- taking --- */

/* A block on pages of its own, else between canaries. Under the lock. */
static na_gf_record_t *place_guarded(na_gf_site_t *site, size_t size, size_t alignment,
                                     na_guard_may_t may) {
    na_gf_record_t *r = NULL;
    if (na_guard_choose(site, may, size)) {
        r = na_guard_area_take(size, alignment);
        if (r == NULL) na_guards.t->head.no_room++;
    }
    return r == NULL && !na_guard_is_large(size) ? na_canary_take(size, alignment) : r;
}

static void *take_guarded(size_t size, size_t usable, double chance, na_entry_t entry,
                          na_record_t **record) {
    size_t alignment = (size_t)1 << na_entry_align_log2(entry);
    if (alignment < 16) alignment = 16;
    if (size == 0 || !na_guard_wants(size) || alignment > na_os_page || na_guard_bytes == 0 ||
        na_guards.is_lost || na_lock_is_mine(&na_guards.lock))
        return NULL;
    na_guard_may_t may = na_guard_may(size);
    if (may == NA_GUARD_NOTHING) return NULL;
    na_guard_stack_t stack;
    na_guard_capture(&stack);
    uint32_t thread = na_guard_thread();
    if (!na_try_lock(&na_guards.lock)) {
        na_guard_not_taken(may, size);
        return NULL;
    }
    void *block = NULL;
    bool guarded = false;
    na_gf_site_t *site = na_guard_site_drawn(&stack, chance, usable);
    na_gf_record_t *r = site != NULL ? place_guarded(site, size, alignment, may) : NULL;
    if (r != NULL) {
        guarded = !na_guard_has_canaries(r);
        r->alloc_stack = site->stack;
        r->alloc_thread = thread;
        r->entry = (uint8_t)na_entry_kind(entry);
        na_guard_site_guarded(site, r);
        na_guard_put_record(r);
        block = (void *)(uintptr_t)r->address;
        *record = &na_guards.profiled[r - na_guards.t->records];
        if (na_hooks != NULL) na_guards.has_profiled = true;
        if (na_guards.has_profiled) (*record)->words[0] = (*record)->words[1] = 0;
    }
    bool found = na_guards.found_late;
    na_guards.found_late = false;
    leave_guards();
    if (!guarded) na_guard_not_taken(may, size);
    if (found) end_if_wanted();
    return block;
}

/* --- giving back --- */

static na_gf_record_t *live_at(const void *block) {
    na_gf_record_t *r = na_guard_record_at((uintptr_t)block);
    return r != NULL && r->address == (uintptr_t)block &&
                   __atomic_load_n(&r->state, __ATOMIC_ACQUIRE) == NA_GF_LIVE
               ? r
               : NULL;
}

/* What lies around the block was looked at before. */
static void release_guarded(na_gf_record_t *r) {
    r->free_ms = na_guard_now();
    if (na_guard_has_canaries(r))
        na_canary_give(r);
    else
        na_guard_area_give(r);
    na_guard_site_freed(r);
    na_guard_put_record(r);
}

/* Blocks that were freed while the lock could not be had. */
static void finish_left(void) {
    atomic_store(&na_guards.left, false); /* first: what is left meanwhile says so again */
    uint32_t i = 0;
    while (i < na_guards.live_blocks) {
        na_gf_record_t *r = &na_guards.t->records[na_guards.live[i]];
        if (__atomic_load_n(&r->state, __ATOMIC_ACQUIRE) == NA_GF_LEFT)
            release_guarded(r); /* another one takes its place */
        else
            i++;
    }
    for (i = 0; i < na_guards.pool_records; i++) {
        na_gf_record_t *r = na_canary_record(i);
        if (__atomic_load_n(&r->state, __ATOMIC_ACQUIRE) == NA_GF_LEFT) release_guarded(r);
    }
}

/* Not touched any more afterwards. */
static void leave_to_holder(na_gf_record_t *r) {
    __atomic_store_n(&r->state, NA_GF_LEFT, __ATOMIC_RELEASE);
    atomic_store(&na_guards.left, true);
}

static void report_damage(const na_gf_record_t *r, int32_t damage, const na_guard_stack_t *here) {
    na_guard_site_hit(r);
    na_guard_report(&(na_guard_fault_t){
        .kind = damage > 0 ? NA_GF_OVERWRITTEN : NA_GF_UNDERWRITTEN,
        .access = NA_GF_WRITE,
        .address = (uintptr_t)r->address + (damage > 0 ? r->size + (uint32_t)damage - 1 : 0) +
                   (damage < 0 ? (uintptr_t)(intptr_t)damage : 0),
        .distance = damage > 0 ? damage : -damage,
        .record = r,
        .here = here,
    });
}

static void bad_free(const void *block, const na_guard_stack_t *here) {
    const na_gf_record_t *r = na_guard_record_at((uintptr_t)block);
    na_gf_kind_t kind = NA_GF_WILD;
    int64_t distance = 0;
    if (r != NULL) {
        distance = (int64_t)((uintptr_t)block - (uintptr_t)r->address);
        kind = r->state == NA_GF_LIVE ? NA_GF_INTERIOR_FREE : NA_GF_DOUBLE_FREE;
    }
    na_guard_report(&(na_guard_fault_t){.kind = kind,
                                        .address = (uintptr_t)block,
                                        .distance = distance,
                                        .record = r,
                                        .here = here});
    end_if_wanted();
}

static bool free_guarded(void *block, na_release_t how) {
    na_guard_stack_t stack;
    na_guard_capture(&stack);
    uint32_t thread = na_guard_thread();
    bool entered = enter_guards();
    na_gf_record_t *r = live_at(block);
    uint8_t live = NA_GF_LIVE;
    if (r == NULL || !__atomic_compare_exchange_n(&r->state, &live, NA_GF_LEAVING, false,
                                                  __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        if (entered) leave_guards();
        bad_free(block, &stack);
        return false;
    }
    /* From here on the block is this thread's: its pages stay as they are until it says so. */
    r->free_thread = thread;
    r->release = (uint8_t)how;
    if (entered) r->free_stack = na_guard_keep_stack(&stack);
    int32_t damage = na_guard_damage(r);
    if (damage != 0) report_damage(r, damage, &stack);
    if (entered) {
        release_guarded(r);
        leave_guards();
    } else {
        leave_to_holder(r);
    }
    if (damage != 0) end_if_wanted();
    return true;
}

static size_t guarded_size(const void *block) {
    const na_gf_record_t *r = live_at(block);
    return r != NULL ? r->size : SIZE_MAX;
}

static na_record_t *guarded_record(const void *block) {
    const na_gf_record_t *r = live_at(block);
    return r != NULL ? &na_guards.profiled[r - na_guards.t->records] : NULL;
}

static void not_live(const void *block) {
    na_guard_stack_t stack;
    na_guard_capture(&stack);
    const na_gf_record_t *r = na_guard_record_at((uintptr_t)block);
    na_gf_kind_t kind = r == NULL                ? NA_GF_WILD
                        : r->state == NA_GF_LIVE ? NA_GF_INTERIOR_FREE
                                                 : NA_GF_REALLOC_FREED;
    na_guard_report(&(na_guard_fault_t){
        .kind = kind,
        .address = (uintptr_t)block,
        .distance = r != NULL ? (int64_t)((uintptr_t)block - (uintptr_t)r->address) : 0,
        .record = r,
        .here = &stack});
    end_if_wanted();
}

static bool find_guarded(const void *address, na_guard_found_t *found) {
    const na_gf_record_t *r = na_guard_record_at((uintptr_t)address);
    if (r == NULL || __atomic_load_n(&r->state, __ATOMIC_ACQUIRE) != NA_GF_LIVE) return false;
    found->block = r->address;
    found->size = r->size;
    found->record = &na_guards.profiled[r - na_guards.t->records];
    return (uintptr_t)address - found->block < found->size;
}

/* --- fork --- */

/* What before_guards_fork found and took. */
enum { FORK_ACTIONS = 1, FORK_TABLES = 2, FORK_MINE = 4 };

/* Others may be in the middle of a change only if they hold one of the two locks for a second. */
static unsigned before_guards_fork(void) {
    enum { LONG_MS = 1000 };
    unsigned taken = na_guard_handler_before_fork() ? FORK_ACTIONS : 0;
    if (na_guards.is_lost || na_lock_is_mine(&na_guards.lock)) return taken | FORK_MINE;
    return na_lock_for(&na_guards.lock, LONG_MS) ? taken | FORK_TABLES : taken;
}

void na_guard_is_child(void) {
    na_guard_file_after_fork();
    na_gf_head_t *head = &na_guards.t->head;
    head->parent = head->pid;
    head->pid = (uint32_t)na_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/* The child has the parent's blocks and tables as they were; it is another process to the system.
 */
static void after_guards_fork(bool child, unsigned taken) {
    if (child) {
        na_guard_is_child();
        na_guard_report_after_fork();
        na_guard_stacks_after_fork();
        if (na_hooks == NULL) na_unwind_after_fork();
        if ((taken & (FORK_TABLES | FORK_MINE)) == 0) na_guards.is_lost = true;
    }
    na_guard_handler_after_fork(child, (taken & FORK_ACTIONS) != 0);
    if ((taken & FORK_TABLES) != 0) leave_guards();
}

static na_guard_t door; /* filled as it is wanted: the loader would write a table for all */

/* --- beginning --- */

/* Of a path that is longer the end: the name is there. */
static void program_name(char *to, size_t size) {
    NA_SPARSE static char path[4096];
    struct stat st;
    long n = na_syscall(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)path,
                        sizeof path - 1, 0, 0);
    size_t length = n > 0 ? (size_t)n : 0, part = na_exe_part(path, length);
    path[length] = 0;
    if (part != length && na_syscall(SYS_newfstatat, AT_FDCWD, (long)path, (long)&st, 0, 0, 0) != 0)
        path[length = part] = 0;
    size_t from = length < size ? 0 : length - size + 1;
    memcpy(to, path + from, length - from + 1);
}

void na_guard_head_begin(na_gf_head_t *head) {
    memcpy(head->magic, NA_GF_MAGIC, sizeof head->magic);
    head->version = NA_GF_VERSION;
    head->bytes = sizeof *head;
    head->pid = (uint32_t)na_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
    head->page = (uint32_t)na_os_page;
    head->start_unix_ns = na_guards.start_unix_ns;
    head->recovers = na_guards.mode == NA_GUARD_RECOVER;
    program_name(head->program, sizeof head->program);
    const na_gf_section_t parts[NA_GF_PARTS] = {
        [NA_GF_MODULES] = {offsetof(na_guard_tables_t, modules), sizeof(na_gf_module_t),
                           NA_GUARD_MODULES},
        [NA_GF_NODES] = {offsetof(na_guard_tables_t, nodes), sizeof(na_gf_node_t),
                         2 * NA_GUARD_NODES},
        [NA_GF_SITES] = {offsetof(na_guard_tables_t, sites), sizeof(na_gf_site_t), NA_GUARD_SITES},
        [NA_GF_RECORDS] = {offsetof(na_guard_tables_t, records), sizeof(na_gf_record_t),
                           NA_GUARD_RECORDS + NA_CANARY_RECORDS},
        [NA_GF_ERRORS] = {offsetof(na_guard_tables_t, errors), sizeof(na_gf_error_t),
                          NA_GUARD_ERRORS},
    };
    memcpy(head->parts, parts, sizeof parts);
}

static bool begin_guards(void) {
    struct timespec now = {0};
    na_syscall(SYS_clock_gettime, CLOCK_REALTIME, (long)&now, 0, 0, 0, 0);
    na_guards.start_unix_ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    na_guards.start_ms = na_os_ms();
    na_guard_choose_begin();
    uint64_t seed = na_option(NA_OPT_SAMPLE_SEED);
    na_guards.random =
        (seed != 0 ? seed : na_guards.start_unix_ns) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    na_guards.t = na_guard_file_map();
    const size_t records = NA_GUARD_RECORDS + NA_CANARY_RECORDS;
    na_guards.profiled = na_os_map(na_align_up(records * sizeof(na_record_t), na_os_page));
    na_guards.site = na_os_map(na_align_up(records * sizeof(uint16_t), na_os_page));
    if (na_guards.t == NULL || na_guards.profiled == NULL || na_guards.site == NULL ||
        !na_guard_area_make())
        return false;
    na_guards.t->head.area = na_guard_area;
    na_guards.t->head.area_bytes = na_guard_bytes;
    na_guard_file_put(&na_guards.t->head, sizeof na_guards.t->head);
    na_guard_known_read();
    return true;
}

void na_guard_at_load(void) {
    na_guards.mode = (na_guard_mode_t)na_option(NA_OPT_GUARD);
    if (na_guards.mode == NA_GUARD_OFF) return;
    if (na_option(NA_OPT_HARDEN) != 0) {
        na_warn("NUMALLOC_GUARD ignored: NUMALLOC_HARDEN looks at every block; set one of them");
        na_guards.mode = NA_GUARD_OFF;
        return;
    }
    if (!begin_guards()) {
        na_warn("NUMALLOC_GUARD=1 ignored: the system refuses the address space; raise the limit "
                "(ulimit -v)");
        return;
    }
    if (na_hooks == NULL) na_unwind_init(NULL, true);
    door = (na_guard_t){take_guarded,       free_guarded,      guarded_size,
                        guarded_record,     find_guarded,      not_live,
                        before_guards_fork, after_guards_fork, na_guard_sigaction};
    na_guard_begin(&door);
    na_guard_handler_install();
    na_switch_idle_samples(NA_SAMPLE_EACH);
}

/* --- the end --- */

static void check_at_exit(const na_gf_record_t *r) {
    int32_t damage = r->state == NA_GF_LIVE ? na_guard_damage(r) : 0;
    if (damage != 0) report_damage(r, damage, NULL);
    if (na_guard_has_canaries(r)) na_canary_check_freed(r);
}

void na_guard_at_exit(void) {
    if (na_guard == NULL || !enter_guards()) return;
    for (uint32_t i = 0; i < na_guards.live_blocks; i++) {
        const na_gf_record_t *r = &na_guards.t->records[na_guards.live[i]];
        check_at_exit(r);
    }
    for (uint32_t i = 0; i < na_guards.pool_records; i++)
        check_at_exit(na_canary_record(i));
    leave_guards();
}

void na_guard_print(int fd) {
    if (na_guards.mode == NA_GUARD_OFF) return;
    na_text_t t = {0};
    if (na_guard == NULL) {
        na_text_str(&t, "guards: none, for want of address space\n");
    } else {
        const na_gf_head_t *head = &na_guards.t->head;
        na_text_str(&t, "guards: ");
        na_text_u64(&t, head->guarded);
        na_text_str(&t, " blocks, ");
        na_text_u64(&t, na_guards.live_blocks);
        na_text_str(&t, " live; between canaries ");
        na_text_u64(&t, head->canaries);
        na_text_str(&t, ", ");
        na_text_u64(&t, na_guards.pool_blocks);
        na_text_str(&t, " live; drawn ");
        na_text_u64(&t, head->drawn);
        na_text_str(&t, ", one in ");
        na_text_u64(&t, (uint64_t)(na_sampler_each(na_sample_step) + 0.5));
        na_text_str(&t, " now; passed over ");
        na_text_u64(&t, head->passed_over);
        na_text_str(&t, ", no room for ");
        na_text_u64(&t, head->no_room);
        na_text_str(&t, "; area ");
        na_text_bytes(&t, na_guard_bytes);
        na_text_str(&t, ", errors ");
        na_text_u64(&t, head->errors);
        na_text_str(&t, "\n");
    }
    na_text_end(&t, fd);
}
