/* canaries.c - blocks between canaries: those that were drawn and are not guarded.
 *
 * They lie in the pool, behind the pages of the guarded ones in the same range of addresses, which
 * is accessible all the time:
 *
 *   slot    | canary, 16 bytes or more | block | canary, 16 bytes or more |   whole cells of 64
 * bytes freed   | the pattern, everywhere                                     |
 *
 * The canaries are looked at when the block is freed or reallocated, and when the process ends. A
 * freed slot keeps the pattern until its cells are wanted again, or the process ends: then all of
 * it is looked at. Cells are given out in the order of addresses, round and round, and those of
 * live blocks are passed by. So a freed one waits for as long as it can.
 *
 * The pool begins small and doubles where live blocks have half of it: what lies beside the
 * program's own bytes is never more than these, or NA_CANARY_CELLS_FIRST.
 *
 * A record is in use until its slot is wanted again; the records are those behind
 * NA_GUARD_RECORDS. All under the lock, but for na_canary_record_at. */
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "profiler/guard/guard_state.h"

#define CELL            NA_CANARY_CELL
#define NO_CELL         UINT32_MAX
#define LIVE_PASSED     64u /* live blocks that one search passes by */
#define PATTERN_PERIODS 4u  /* 64 bytes each; longer than a canary and where it begins */

static uint16_t cell_owner[NA_CANARY_CELLS];     /* cell -> its record's number + 1; 0: none */
static uint16_t free_numbers[NA_CANARY_RECORDS]; /* of records below `numbers` */
static uint32_t free_count;
static uint32_t head; /* cell where the next slot is looked for */
static uint32_t live_cells;
static unsigned char canary_pattern[PATTERN_PERIODS * CELL];

bool na_canary_make(void) {
    for (size_t i = 0; i < sizeof canary_pattern; i++)
        canary_pattern[i] = na_guard_pattern(i);
    long r =
        na_syscall(SYS_mmap, (long)na_guards.pool, NA_CANARY_CELLS * CELL, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (r == (long)na_guards.pool) na_guards.pool_cells = NA_CANARY_CELLS_FIRST;
    return na_guards.pool_cells != 0;
}

/* --- slots --- */

static na_gf_record_t *numbered_record(uint32_t number) {
    return &na_guards.t->records[NA_GUARD_RECORDS + number];
}

static uint32_t record_number(const na_gf_record_t *record) {
    return (uint32_t)(record - na_guards.t->records) - NA_GUARD_RECORDS;
}

na_guard_slot_t na_canary_slot(const na_gf_record_t *record) {
    return (na_guard_slot_t){
        na_align_down(record->address - 1, CELL),
        na_align_up(record->address + record->size + NA_CANARY_LEAST, CELL),
    };
}

static uint32_t area_cell(uintptr_t address) {
    return (uint32_t)((address - na_guards.pool) / CELL);
}

static uint32_t first_cell(const na_gf_record_t *record) {
    return area_cell(na_canary_slot(record).start);
}

static uint32_t end_cell(const na_gf_record_t *record) {
    return area_cell(na_canary_slot(record).end);
}

static na_gf_record_t *cell_record(uint32_t cell) {
    uint16_t number = __atomic_load_n(&cell_owner[cell], __ATOMIC_RELAXED);
    return number != 0 ? numbered_record(number - 1u) : NULL;
}

static void set_owner(const na_gf_record_t *record, uint32_t value) {
    for (uint32_t cell = first_cell(record); cell < end_cell(record); cell++)
        __atomic_store_n(&cell_owner[cell], (uint16_t)value, __ATOMIC_RELAXED);
}

na_gf_record_t *na_canary_record_at(uintptr_t address) {
    uint32_t cell = area_cell(address);
    if (cell >= NA_CANARY_CELLS) return NULL;
    na_gf_record_t *record = cell_record(cell);
    if (record == NULL || record->state == NA_GF_NEVER) return NULL;
    na_guard_slot_t slot = na_canary_slot(record);
    return address - slot.start < slot.end - slot.start ? record : NULL;
}

/* --- the pattern --- */

bool na_canary_is_intact(const void *from, size_t bytes) {
    size_t shift = (uintptr_t)from % CELL;
    if (shift + bytes > sizeof canary_pattern) return false; /* the caller looks by itself */
    return memcmp(from, canary_pattern + shift, bytes) == 0;
}

static void paint_bytes(uintptr_t from, uintptr_t to) {
    while (from < to) {
        size_t shift = from % CELL, bytes = CELL - shift < to - from ? CELL - shift : to - from;
        memcpy((void *)from, canary_pattern + shift, bytes);
        from += bytes;
    }
}

/* The first and the last byte of a freed slot that is not as it was left. False: there is none. */
static bool find_written(na_guard_slot_t slot, uintptr_t *first, uintptr_t *last) {
    bool found = false;
    for (uintptr_t cell = slot.start; cell < slot.end; cell += CELL) {
        if (memcmp((const void *)cell, canary_pattern, CELL) == 0) continue;
        for (unsigned i = 0; i < CELL; i++) {
            if (((const unsigned char *)cell)[i] == canary_pattern[i]) continue;
            if (!found) *first = cell + i;
            *last = cell + i;
            found = true;
        }
    }
    return found;
}

bool na_canary_check_freed(const na_gf_record_t *record) {
    uintptr_t first, last;
    na_guard_slot_t slot = na_canary_slot(record);
    if (record->state != NA_GF_FREED || !find_written(slot, &first, &last)) return true;
    na_guard_site_hit(record);
    na_guard_report(&(na_guard_fault_t){.kind = NA_GF_WRITTEN_FREED,
                                        .access = NA_GF_WRITE,
                                        .address = first,
                                        .distance = (int64_t)(last - first + 1),
                                        .record = record});
    paint_bytes(slot.start, slot.end);
    return false;
}

/* --- giving out --- */

/* A freed block's slot is wanted. */
static void retire(na_gf_record_t *record) {
    if (!na_canary_check_freed(record)) na_guards.found_late = true;
    set_owner(record, 0);
    __atomic_store_n(&record->state, NA_GF_NEVER, __ATOMIC_RELAXED);
    na_guard_put_record(record);
    free_numbers[free_count++] = (uint16_t)record_number(record);
}

/* The first live block in these cells. */
static const na_gf_record_t *live_in(uint32_t cell, uint32_t count) {
    for (uint32_t at = cell; at < cell + count;) {
        const na_gf_record_t *r = cell_record(at);
        if (r != NULL && na_guard_is_live(r)) return r;
        at = r != NULL ? end_cell(r) : at + 1;
    }
    return NULL;
}

static bool free_cells(uint32_t count) {
    while ((live_cells + count) * 2 > na_guards.pool_cells) {
        if (na_guards.pool_cells == NA_CANARY_CELLS) return false;
        na_guards.pool_cells *= 2;
    }
    return true;
}

static uint32_t find_cells(uint32_t count) {
    bool again = false;
    for (unsigned passed = 0; passed < LIVE_PASSED;) {
        if (head + count > na_guards.pool_cells) {
            if (again) break;
            again = true;
            head = 0;
            continue;
        }
        const na_gf_record_t *in_the_way = live_in(head, count);
        if (in_the_way == NULL) return head;
        head = end_cell(in_the_way);
        passed++;
    }
    return NO_CELL;
}

static na_gf_record_t *new_record(void) {
    if (free_count != 0) return numbered_record(free_numbers[--free_count]);
    if (na_guards.pool_records == NA_CANARY_RECORDS) return NULL;
    return numbered_record(na_guards.pool_records++);
}

na_gf_record_t *na_canary_take(size_t size, size_t alignment) {
    if (na_guards.pool_cells == 0 || alignment > CELL) return NULL;
    size_t before = alignment > NA_CANARY_LEAST ? alignment : NA_CANARY_LEAST;
    uint32_t count = (uint32_t)(na_align_up(before + size + NA_CANARY_LEAST, CELL) / CELL);
    if (!free_cells(count)) return NULL;
    uint32_t cell = find_cells(count);
    if (cell == NO_CELL) return NULL;
    for (uint32_t at = cell; at < cell + count;) {
        na_gf_record_t *freed = cell_record(at);
        at = freed != NULL ? end_cell(freed) : at + 1;
        if (freed != NULL) retire(freed);
    }
    na_gf_record_t *record = new_record();
    if (record == NULL) return NULL;
    *record = (na_gf_record_t){
        .address = na_guards.pool + (uintptr_t)cell * CELL + before,
        .size = (uint32_t)size,
        .alloc_ms = na_guard_now(),
        .state = NA_GF_LIVE,
        .flags = NA_GF_CANARIES,
    };
    na_guard_slot_t slot = na_canary_slot(record);
    paint_bytes(slot.start, record->address);
    paint_bytes(record->address + size, slot.end);
    set_owner(record, record_number(record) + 1);
    head = cell + count;
    live_cells += count;
    na_guards.pool_blocks++;
    return record;
}

void na_canary_give(na_gf_record_t *record) {
    na_guard_slot_t slot = na_canary_slot(record);
    live_cells -= (uint32_t)((slot.end - slot.start) / CELL);
    na_guards.pool_blocks--;
    paint_bytes(slot.start, slot.end);
    __atomic_store_n(&record->state, NA_GF_FREED, __ATOMIC_RELEASE);
}

na_gf_record_t *na_canary_record(uint32_t number) {
    return numbered_record(number);
}
