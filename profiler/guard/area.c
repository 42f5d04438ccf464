/* area.c - slots between inaccessible pages, and the records of the blocks in them. */
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "profiler/guard/guard_state.h"

/* Page 0 of the area and the page behind each slot are never accessible. */

static uintptr_t page_address(uint32_t page) {
    return na_guard_area + (uintptr_t)page * na_os_page;
}

static uint32_t area_page(uintptr_t address) {
    return (uint32_t)((address - na_guard_area) / na_os_page);
}

uint32_t na_guard_slot_pages(size_t size) {
    return (uint32_t)((size + na_os_page - 1) / na_os_page);
}

static uint32_t first_page(const na_gf_record_t *record) {
    return area_page(record->address);
}

static uint32_t pages_of(const na_gf_record_t *record) {
    return na_guard_slot_pages(record->size);
}

/* --- the system --- */

/* New pages in place of what is there. */
static bool map_anew(uint32_t page, uint32_t count, bool accessible) {
    uintptr_t at = page_address(page);
    size_t bytes = (size_t)count * na_os_page;
    long r = na_syscall(
        SYS_mmap, (long)at, (long)bytes, accessible ? PROT_READ | PROT_WRITE : PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | (accessible ? 0 : MAP_NORESERVE), -1, 0);
    if (r != (long)at) return false;
    if (!accessible) na_os_dump((void *)at, bytes, false);
    return true;
}

/* Where addresses are limited, a sixteenth of the limit at most. Behind the pages lies the pool
 * (canaries.c), and a page that is not accessible. */
bool na_guard_area_make(void) {
    size_t bytes = NA_GUARD_AREA, more = NA_CANARY_CELLS * NA_CANARY_CELL + na_os_page;
    uint64_t limit = na_os_space_limit();
    while (bytes >= NA_GUARD_AREA_LEAST && (limit != UINT64_MAX && bytes > limit / 16))
        bytes /= 2;
    void *area = NULL;
    for (; bytes >= NA_GUARD_AREA_LEAST; bytes /= 2)
        if ((area = na_os_reserve(bytes + more, (size_t)2 << 20)) != NULL) break;
    if (area == NULL) return false;
    na_os_dump(area, bytes + more, false);
    na_guards.pages = (uint32_t)(bytes / na_os_page);
    na_guards.owner = na_os_map(na_align_up(na_guards.pages * sizeof(uint16_t), na_os_page));
    if (na_guards.owner == NULL) {
        na_os_unmap(area, bytes + more);
        return false;
    }
    na_guards.head = 1;
    na_guards.pool = (uintptr_t)area + bytes;
    na_canary_make();
    na_guard_area = (uintptr_t)area;
    na_guard_bytes = bytes + more;
    return true;
}

/* --- slots --- */

static na_gf_record_t *page_record(uint32_t page) {
    uint16_t owner = __atomic_load_n(&na_guards.owner[page], __ATOMIC_ACQUIRE);
    return owner != 0 ? &na_guards.t->records[owner - 1] : NULL;
}

static bool covers(const na_gf_record_t *record, uint32_t page) {
    uint32_t first = first_page(record);
    return record->state != NA_GF_NEVER && page >= first && page <= first + pages_of(record);
}

na_gf_record_t *na_guard_record_at(uintptr_t address) {
    if (address >= na_guards.pool) return na_canary_record_at(address);
    uint32_t page = area_page(address);
    na_gf_record_t *record = page_record(page);
    return record != NULL && covers(record, page) ? record : NULL;
}

/* First of `count` pages and one behind them that no live block has; 0: none. */
static uint32_t find_pages(uint32_t count) {
    uint32_t page = na_guards.head;
    bool again = false;
    for (uint32_t passed = 0; passed <= 2 * (NA_GUARD_LIVE + NA_GUARD_LARGE_BLOCKS); passed++) {
        if (page + count + 1 > na_guards.pages) {
            if (again) return 0;
            again = true;
            page = 1;
        }
        const na_gf_record_t *in_the_way = NULL;
        for (uint32_t i = 0; i <= count && in_the_way == NULL; i++) {
            const na_gf_record_t *r = page_record(page + i);
            if (r != NULL && na_guard_is_live(r) && covers(r, page + i)) in_the_way = r;
        }
        if (in_the_way == NULL) return page;
        page = first_page(in_the_way) + pages_of(in_the_way) + 1;
    }
    return 0;
}

/* The oldest record that is not a live block's. (There are more records than live blocks.) */
static uint16_t next_record(void) {
    for (;;) {
        uint32_t i = na_guards.next_record;
        na_guards.next_record = i + 1 < NA_GUARD_RECORDS ? i + 1 : 0;
        if (!na_guard_is_live(&na_guards.t->records[i])) return (uint16_t)i;
    }
}

/* Pages that an error had opened, and that are about to get another owner. */
static void close_opened(uint32_t page, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        na_gf_record_t *r = page_record(page + i);
        if (r == NULL || (r->flags & NA_GF_OPENED) == 0 || na_guard_is_live(r) ||
            !covers(r, page + i))
            continue;
        for (uint32_t own = first_page(r); own <= first_page(r) + pages_of(r); own++)
            if (page_record(own) == r) map_anew(own, 1, false);
        r->flags &= (uint8_t)~NA_GF_OPENED;
    }
}

static void paint_record(const na_gf_record_t *record);

static bool has_room(size_t size, uint32_t count) {
    if (na_guard_is_large(size))
        return na_guards.large_pages + count <= NA_GUARD_LARGE_LIVE &&
               na_guards.large_blocks < NA_GUARD_LARGE_BLOCKS;
    return na_guards.live_pages + count <= NA_GUARD_LIVE &&
           na_guards.live_blocks - na_guards.large_blocks < NA_GUARD_LIVE;
}

static void count_live_pages(const na_gf_record_t *record, int by) {
    uint32_t pages = pages_of(record) * (uint32_t)by;
    if (na_guard_is_large(record->size)) {
        na_guards.large_pages += pages;
        na_guards.large_blocks += (uint32_t)by;
    } else {
        na_guards.live_pages += pages;
    }
}

na_gf_record_t *na_guard_area_take(size_t size, size_t alignment) {
    uint32_t count = na_guard_slot_pages(size);
    if (!has_room(size, count)) return NULL;
    uint32_t page = find_pages(count);
    if (page == 0) return NULL;
    close_opened(page, count + 1);
    if (!map_anew(page, count, true)) return NULL;
    uint16_t place = next_record();
    na_gf_record_t *record = &na_guards.t->records[place];
    uintptr_t start = page_address(page), end = start + (uintptr_t)count * na_os_page;
    bool at_end = (na_guard_random() & 3) != 0;
    *record = (na_gf_record_t){
        .address = at_end ? na_align_down(end - size, alignment) : start,
        .size = (uint32_t)size,
        .alloc_ms = na_guard_now(),
        .state = NA_GF_LIVE,
    };
    /* A thread that runs into the slot meanwhile finds this record in it, or the one before. */
    for (uint32_t i = 0; i <= count; i++)
        __atomic_store_n(&na_guards.owner[page + i], (uint16_t)(place + 1), __ATOMIC_RELEASE);
    na_guards.head = page + count + 1;
    count_live_pages(record, 1);
    na_guards.live[na_guards.live_blocks++] = place;
    paint_record(record);
    return record;
}

void na_guard_area_give(na_gf_record_t *record) {
    uint16_t place = (uint16_t)(record - na_guards.t->records);
    for (uint32_t i = 0; i < na_guards.live_blocks; i++) {
        if (na_guards.live[i] != place) continue;
        na_guards.live[i] = na_guards.live[--na_guards.live_blocks];
        count_live_pages(record, -1);
        break;
    }
    uint32_t page = first_page(record), count = pages_of(record);
    if ((record->flags & NA_GF_OPENED) != 0) { /* beyond one of its ends */
        page--;
        count += 2;
        record->flags &= (uint8_t)~NA_GF_OPENED;
    }
    /* Refused (the process has as many mappings as it may): the memory at least is given back. */
    if (!map_anew(page, count, false)) na_os_purge((void *)page_address(page), count * na_os_page);
    __atomic_store_n(&record->state, NA_GF_FREED, __ATOMIC_RELEASE);
}

/* --- the pattern --- */

typedef struct slack {
    unsigned char *before, *behind; /* the block begins, and ends, here */
    size_t before_bytes, behind_bytes;
} slack_t;

static slack_t slack_of(const na_gf_record_t *record) {
    if (na_guard_has_canaries(record)) {
        na_guard_slot_t slot = na_canary_slot(record);
        return (slack_t){(unsigned char *)record->address,
                         (unsigned char *)record->address + record->size,
                         record->address - slot.start, slot.end - record->address - record->size};
    }
    uint32_t page = first_page(record);
    uintptr_t start = page_address(page), end = page_address(page + pages_of(record));
    size_t before = record->address - start, behind = end - record->address - record->size;
    return (slack_t){
        .before = (unsigned char *)record->address,
        .behind = (unsigned char *)record->address + record->size,
        .before_bytes = before < NA_GUARD_CANARY ? before : NA_GUARD_CANARY,
        .behind_bytes = behind < NA_GUARD_CANARY ? behind : NA_GUARD_CANARY,
    };
}

static unsigned char pattern_at(const void *address) {
    return na_guard_pattern((uintptr_t)address);
}

static void paint_record(const na_gf_record_t *record) {
    slack_t s = slack_of(record);
    for (size_t i = 1; i <= s.before_bytes; i++)
        s.before[-(ptrdiff_t)i] = pattern_at(s.before - i);
    for (size_t i = 0; i < s.behind_bytes; i++)
        s.behind[i] = pattern_at(s.behind + i);
}

int32_t na_guard_damage(const na_gf_record_t *record) {
    slack_t s = slack_of(record);
    if (na_canary_is_intact(s.behind, s.behind_bytes) &&
        na_canary_is_intact(s.before - s.before_bytes, s.before_bytes))
        return 0;
    for (size_t i = s.behind_bytes; i > 0; i--)
        if (s.behind[i - 1] != pattern_at(s.behind + i - 1)) return (int32_t)i;
    for (size_t i = s.before_bytes; i > 0; i--)
        if (s.before[-(ptrdiff_t)i] != pattern_at(s.before - i)) return -(int32_t)i;
    return 0;
}

/* --- errors --- */

bool na_guard_is_protected(const na_gf_record_t *record, uintptr_t address) {
    if (na_guard_has_canaries(record)) return false;
    uint32_t page = area_page(address), first = first_page(record);
    return !na_guard_is_live(record) || page < first || page >= first + pages_of(record);
}

bool na_guard_area_open(na_gf_record_t *record, uintptr_t address) {
    record->flags |= NA_GF_OPENED;
    uintptr_t at = na_align_down(address, na_os_page);
    return na_syscall(SYS_mprotect, (long)at, (long)na_os_page, PROT_READ | PROT_WRITE, 0, 0, 0) ==
           0;
}
