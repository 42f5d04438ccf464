/* guard_state.h - what the files of this folder share. Guarded by the lock, unless said otherwise.
 */
#ifndef NUMALLOC_PROFILER_GUARD_GUARD_STATE_H
#define NUMALLOC_PROFILER_GUARD_GUARD_STATE_H

#include <stdatomic.h>

#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/os.h"
#include "alloc/guard/guarded.h"
#include "profiler/format/guard_file.h"
#include "profiler/guard/guards.h"

#define NA_GUARD_AREA       ((size_t)64 << 20) /* addresses; less where they are limited */
#define NA_GUARD_AREA_LEAST ((size_t)2 << 20)
#define NA_GUARD_RECORDS    5120u
#define NA_GUARD_NODES      6144u /* of a half */
#define NA_GUARD_SITES      1024u /* a power of two */
#define NA_GUARD_MODULES    256u
#define NA_GUARD_ERRORS     32u
#define NA_GUARD_LIVE       80u /* pages of live blocks, at most */
/* Of blocks that are larger than NA_GUARD_SMALL, for which the program has pages in any case: live
 * pages, live blocks, and blocks a second. */
#define NA_GUARD_LARGE_LIVE   512u
#define NA_GUARD_LARGE_BLOCKS 16u
#define NA_GUARD_LARGE_RATE   5u
#define NA_GUARD_CANARY       64u
#define NA_GUARD_RATE         300u /* blocks guarded a second, where NUMALLOC_GUARD_EACH is not set */
#define NA_GUARD_LEARNS       2500u /* code addresses a second whose rule the unwinder may learn */
#define NA_GUARD_KNOWN        256u  /* sites of NUMALLOC_GUARD_SITES */

/* Blocks between canaries (canaries.c). */
#define NA_CANARY_CELL        64u
#define NA_CANARY_CELLS       16384u /* addresses of 1 MiB; a power of two */
#define NA_CANARY_CELLS_FIRST 1024u  /* used of them at first */
#define NA_CANARY_RECORDS     4096u
#define NA_CANARY_LEAST       16u
#define NA_CANARY_RATE        1000u /* a second, besides those that there was a turn for */

typedef enum na_guard_mode { NA_GUARD_OFF, NA_GUARD_ON, NA_GUARD_RECOVER } na_guard_mode_t;

/* All that is in a file, in one mapping. */
typedef struct na_guard_tables {
    na_gf_head_t head;
    na_gf_module_t modules[NA_GUARD_MODULES];
    na_gf_node_t nodes[2][NA_GUARD_NODES];
    na_gf_site_t sites[NA_GUARD_SITES];
    na_gf_record_t records[NA_GUARD_RECORDS + NA_CANARY_RECORDS];
    na_gf_error_t errors[NA_GUARD_ERRORS];
} na_guard_tables_t;

typedef struct na_guards {
    na_lock_t lock;
    na_guard_mode_t mode;
    bool registered;       /* with the allocator */
    na_guard_tables_t *t;  /* constant once there */
    na_record_t *profiled; /* a record's place -> the profiler's; touched in mode sample only */
    bool has_profiled;     /* there was a profile when a block was taken: they may not be zero */
    uint16_t *owner;       /* page of the area -> record + 1 that had it last; 0: none */
    uint16_t *site;        /* a record's place -> its site's */
    uint32_t pages;        /* of the area, without the pool */
    uintptr_t pool;        /* where canaries.c has its blocks: behind those pages, constant */
    uint32_t pool_cells;   /* of it that are used; 0: none */
    uint32_t pool_records; /* that were ever used */
    uint32_t pool_blocks;  /* live */
    bool found_late;       /* an error, while a block was taken: to be told when the lock is free */
    uint32_t head;         /* page where the next slot is looked for */
    uint32_t next_record;
    uint32_t live_pages, large_pages, large_blocks; /* live_pages: of blocks that are not large */
    uint32_t live_blocks;                           /* of all */
    uint16_t live[NA_GUARD_LIVE + NA_GUARD_LARGE_BLOCKS]; /* records of live blocks */
    _Atomic(bool) left; /* there may be blocks whose free is left to the holder of the lock */
    bool is_lost;       /* forked in the middle of somebody's change: only what is live is known */
    uint64_t start_ms, start_unix_ns;
    uint64_t random;
    /* choose.c */
    uint64_t each; /* NUMALLOC_GUARD_EACH, 0: by the rate */
} na_guards_t;
extern na_guards_t na_guards;

NA_INLINE uint32_t na_guard_now(void) {
    return (uint32_t)(na_os_ms() - na_guards.start_ms);
}
uint32_t na_guard_thread(void);
uint64_t na_guard_random(void);

/* --- guard_stacks.c --- */

typedef struct na_guard_stack {
    uint32_t count;
    bool truncated;
    uintptr_t pc[NA_GF_FRAMES];
} na_guard_stack_t;

/* Of the calling thread, this library's own frames left out. Without the lock; in a section or
 * where no profile can begin. */
void na_guard_capture(na_guard_stack_t *stack);
uint64_t na_guard_stack_hash(const na_guard_stack_t *stack);
/* Keeps it; 0: no room. */
uint32_t na_guard_keep_stack(const na_guard_stack_t *stack);
/* Innermost first; 0: it is no longer known. Without the lock, too. */
uint32_t na_guard_read_stack(uint32_t stack, uint64_t *pcs, uint32_t most);
/* Of a code address; NULL: none that is known. Without the lock, too. */
const na_gf_module_t *na_guard_module_of(uint64_t pc);
/* The module of this address is known from now on. The calling thread runs in it, or returns there.
 */
void na_guard_meet_module(uintptr_t pc);

/* --- choose.c --- */

void na_guard_choose_begin(void);
/* What may be afforded now for a block that was drawn: nothing, canaries, or pages of its own as
 * well. Without the lock. */
typedef enum na_guard_may { NA_GUARD_NOTHING, NA_GUARD_CANARIES, NA_GUARD_PAGES } na_guard_may_t;
na_guard_may_t na_guard_may(size_t size);
/* A walk met so many code addresses whose rule had to be learnt. Without the lock. */
void na_guard_learnt(uint32_t addresses);
/* The block was not guarded in the end. */
void na_guard_not_taken(na_guard_may_t may, size_t size);
/* The site of a stack, from which a block of a class of `usable` bytes was drawn: counted; NULL:
 * there is no room for it. */
na_gf_site_t *na_guard_site_drawn(const na_guard_stack_t *stack, double chance, size_t usable);
/* A block of the site is to be guarded. */
bool na_guard_choose(na_gf_site_t *site, na_guard_may_t may, size_t size);
/* The record is of a block of that site; its block was freed; an error was found in it. A live
 * block's site stays where it is. */
void na_guard_site_guarded(na_gf_site_t *site, const na_gf_record_t *record);
void na_guard_site_freed(const na_gf_record_t *record);
void na_guard_site_hit(const na_gf_record_t *record);

/* --- known_sites.c --- */

/* NUMALLOC_GUARD_SITES is read. Once, before a block is drawn. */
void na_guard_known_read(void);
/* Its files have an error of this site. */
bool na_guard_is_known(const na_guard_stack_t *stack);

/* --- area.c --- */

typedef struct na_guard_slot {
    uintptr_t start, end;
} na_guard_slot_t;

NA_INLINE bool na_guard_is_large(size_t size) {
    return size > NA_GUARD_SMALL;
}

NA_INLINE bool na_guard_has_canaries(const na_gf_record_t *record) {
    return (record->flags & NA_GF_CANARIES) != 0;
}

/* Neither zero, nor text, nor the same in neighbours; all bytes are in the upper half, so that they
 * are no addresses either. Periodic in 64 bytes. */
NA_INLINE unsigned char na_guard_pattern(uintptr_t address) {
    return (unsigned char)(0xa5 ^ (address & 0x3f));
}

bool na_guard_area_make(void);
/* A slot for a block, accessible, its record live; NULL: no room. */
na_gf_record_t *na_guard_area_take(size_t size, size_t alignment);
/* The block is gone, its pages inaccessible. */
void na_guard_area_give(na_gf_record_t *record);
uint32_t na_guard_slot_pages(size_t size);
/* The record whose slot, or the page behind it, has this address; NULL: none is known. Without the
 * lock it may be another's by now. */
na_gf_record_t *na_guard_record_at(uintptr_t address);
/* Bytes of the pattern that are changed behind (> 0) or before (< 0) the block: how far away the
 * furthest of them is. 0: none. */
int32_t na_guard_damage(const na_gf_record_t *record);
/* Makes the page of an address, which is the record's or beside it, accessible. */
bool na_guard_area_open(na_gf_record_t *record, uintptr_t address);
bool na_guard_is_protected(const na_gf_record_t *record, uintptr_t address);

/* --- canaries.c --- */

/* na_guards.pool is set. False: the system refuses; then there are none. */
bool na_canary_make(void);
/* As na_guard_area_take and give. A freed block that makes room may have been written to: that is
 * reported, and na_guards.found_late set. */
na_gf_record_t *na_canary_take(size_t size, size_t alignment);
void na_canary_give(na_gf_record_t *record);
na_gf_record_t *na_canary_record_at(uintptr_t address);
na_guard_slot_t na_canary_slot(const na_gf_record_t *record);
/* Below na_guards.pool_records. */
na_gf_record_t *na_canary_record(uint32_t number);
/* So many bytes have the pattern. False: no, or they are too many to say. */
bool na_canary_is_intact(const void *from, size_t bytes);
/* False: the block is freed, and was written to, which has been reported. */
bool na_canary_check_freed(const na_gf_record_t *record);

/* --- guard_report.c --- */

typedef struct na_guard_fault {
    na_gf_kind_t kind;
    uint32_t access;
    uintptr_t address;
    int64_t distance;
    const na_gf_record_t *record; /* NULL: none */
    const void *context;          /* ucontext_t of the access; NULL: the caller's own stack */
    const na_guard_stack_t *here; /* instead */
} na_guard_fault_t;
/* Says it, and keeps it. Takes no lock that others hold for long. */
void na_guard_report(const na_guard_fault_t *fault);

/* --- guard_file.c --- */

/* The tables, their head filled but for the area; the file, if one is named. NULL: no memory. */
na_guard_tables_t *na_guard_file_map(void);
/* A part of the tables has changed: it is to be in the file, if one is named. In the handler, too.
 */
extern na_guard_tables_t *na_guard_in_file; /* the file's mapping; NULL: none */
void na_guard_write(const void *part, size_t bytes);
NA_INLINE void na_guard_file_put(const void *part, size_t bytes) {
    if (NA_UNLIKELY(na_guard_in_file != NULL)) na_guard_write(part, bytes);
}
NA_INLINE void na_guard_put_record(const na_gf_record_t *record) {
    na_guard_file_put(record, sizeof *record);
}
/* The numbers of the head. */
NA_INLINE void na_guard_put_counts(void) {
    const na_gf_head_t *head = &na_guards.t->head;
    na_guard_file_put(&head->turns,
                      offsetof(na_gf_head_t, program) - offsetof(na_gf_head_t, turns));
}
/* All that the tables hold is in the file. In the handler, too. False: it could not be written. */
bool na_guard_file_keep(void);
/* Empty: there is none. */
const char *na_guard_file_name(void);
/* The process is a child whose fork ran no handlers, and na_guard_file_after_fork has not been
 * called in it. */
bool na_guard_file_is_parents(void);
void na_guard_file_after_fork(void);
/* guards.c: all of the head but the area. */
void na_guard_head_begin(na_gf_head_t *head);
/* guards.c: the process is a child; its ids, its file. */
void na_guard_is_child(void);

/* --- handler.c --- */
bool na_guard_handler_install(void);
/* False: what the program set may be in the middle of a change. */
bool na_guard_handler_before_fork(void);
void na_guard_handler_after_fork(bool child, bool taken);

/* --- what nobody else holds in a child --- */
void na_guard_report_after_fork(void);
void na_guard_stacks_after_fork(void);

/* Lock-free. */
static inline bool na_guard_is_live(const na_gf_record_t *record) {
    uint8_t state = __atomic_load_n(&record->state, __ATOMIC_RELAXED);
    return state == NA_GF_LIVE || state == NA_GF_LEAVING || state == NA_GF_LEFT;
}

#endif
