/* resident.c - resident memory by node over time, on machines with several nodes.
 *
 * A thread of the recorder's own reads /proc/self/numa_maps: the kernel walks the page tables for
 * it, which takes milliseconds for each gigabyte, so it is no work for a thread of the program. It
 * rests fifty times as long as a reading took of a processor, and READ_EVERY_MS at least: it takes
 * no more than a fiftieth of one. The shorter of the last two readings counts: where processors are
 * virtual, one that was taken away for a second in the midst of a reading comes out as a second of
 * work, and a minute without a reading would follow. The recorder's own mappings are left out.
 *
 * The last reading is made when the profile ends, unless the one before took long. None in a forked
 * child, in which no thread is started. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <time.h>

#include "alloc/core/machine/topology.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/thread.h"
#include "profiler/record/events/rthreads.h"
#include "profiler/record/events/series.h"

#define READ_EVERY_MS 20u
#define REST          50u /* times what a reading took */
#define QUICK_MS      20u /* of a reading that the end of the program waits for */

static _Atomic uint32_t is_sampling, sampling_ends; /* futex words */
static bool resident_wanted;
static uint64_t took_us[2]; /* of a processor: the last reading, and the one before */
static int64_t resident_levels[NA_NPROF_MAX_NODES];

/* ---- parsing, a character at a time: a line has no bound (N0= to N1023=, a file's name) ---- */

typedef enum where { ADDRESS, WORD, PAGES, PAGE_SIZE, REST_OF_WORD } where_t;

typedef struct parser {
    where_t where;
    uint64_t number;
    bool own;                           /* the mapping is the recorder's */
    unsigned matched;                   /* characters of page_size */
    unsigned node;                      /* dense; NA_NPROF_MAX_NODES: of none that is known */
    uint64_t pages[NA_NPROF_MAX_NODES]; /* of this line */
    uint64_t bytes[NA_NPROF_MAX_NODES]; /* of all lines */
} parser_t;

#define AFTER_N UINT32_MAX /* of `matched` */
static const char page_size[] = "kernelpagesize_kB=";

static int digit_value(char c, int base) {
    int v = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : base;
    return v < base ? v : -1;
}

static void end_maps_line(parser_t *p) {
    for (unsigned n = 0; n < NA_NPROF_MAX_NODES; n++)
        p->pages[n] = 0;
    p->where = ADDRESS;
    p->number = 0;
}

static void end_word(parser_t *p) {
    if (p->where == ADDRESS) {
        p->own = na_writer_is_own(p->number);
    } else if (p->where == PAGES && p->node < NA_NPROF_MAX_NODES) {
        p->pages[p->node] += p->number;
    } else if (p->where == PAGE_SIZE && !p->own) {
        for (unsigned n = 0; n < NA_NPROF_MAX_NODES; n++)
            p->bytes[n] += p->pages[n] * (p->number << 10);
    }
    p->where = WORD;
    p->matched = 0;
    p->number = 0;
}

/* Inside of a word of which it is not yet known what it says: N<node>=, kernelpagesize_kB=. */
static void begin_word(parser_t *p, char c) {
    if (p->matched == AFTER_N) {
        if (digit_value(c, 10) >= 0) {
            p->number = p->number * 10 + (uint64_t)digit_value(c, 10);
        } else if (c == '=') {
            int dense = p->number <= UINT16_MAX ? na_node_dense((unsigned)p->number) : -1;
            p->node = dense >= 0 ? (unsigned)dense : NA_NPROF_MAX_NODES;
            p->number = 0;
            p->where = PAGES;
        } else {
            p->where = REST_OF_WORD;
        }
    } else if (c == page_size[p->matched]) {
        if (page_size[++p->matched] == 0) p->where = PAGE_SIZE;
    } else if (p->matched == 0 && c == 'N') {
        p->matched = AFTER_N;
    } else {
        p->where = REST_OF_WORD;
    }
}

static void take_char(parser_t *p, char c) {
    int v;
    if (c == ' ' || c == '\n') {
        end_word(p);
        if (c == '\n') end_maps_line(p);
    } else if (p->where == WORD) {
        begin_word(p, c);
    } else if (p->where == ADDRESS) {
        if ((v = digit_value(c, 16)) >= 0) p->number = p->number << 4 | (uint64_t)v;
    } else if (p->where != REST_OF_WORD) {
        if ((v = digit_value(c, 10)) >= 0) p->number = p->number * 10 + (uint64_t)v;
    }
}

/* ---- one reading ---- */

static void note_level(const parser_t *p, uint64_t ms) {
    for (uint32_t n = 0; n < na_rec.header->node_count; n++) {
        int64_t now = (int64_t)p->bytes[n];
        if (now == resident_levels[n]) continue;
        na_series_level(NA_NPROF_SERIES_RESIDENT,
                        &(na_level_change_t){n, n, resident_levels[n], now}, ms);
        resident_levels[n] = now;
    }
}

/* False: it cannot be read, now or ever. `last`: to its end even when the profile ends. */
static bool read_numa_maps(bool last) {
    static parser_t p;
    static char text[32 << 10];
    long fd = na_sys4(SYS_openat, AT_FDCWD, (long)"/proc/self/numa_maps", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return false;
    uint64_t from = na_rec_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    long got;
    __builtin_memset(&p, 0, sizeof p);
    while ((got = na_sys3(SYS_read, fd, (long)text, sizeof text)) > 0 || got == -EINTR) {
        for (long i = 0; i < got; i++)
            take_char(&p, text[i]);
        if (!last && atomic_load(&sampling_ends) != 0) break;
    }
    na_sys1(SYS_close, fd);
    took_us[1] = took_us[0];
    took_us[0] = (na_rec_clock_ns(CLOCK_THREAD_CPUTIME_ID) - from) / 1000;
    if (got == 0) note_level(&p, na_rec_ms());
    return true;
}

/* ---- the thread ---- */

static bool sleep_or_end(uint64_t ms) {
    struct timespec limit = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    if (atomic_load(&sampling_ends) == 0)
        na_sys6(SYS_futex, (long)&sampling_ends, FUTEX_WAIT_PRIVATE, 0, (long)&limit, 0, 0);
    return atomic_load(&sampling_ends) == 0;
}

static uint64_t cost_us(void) {
    return took_us[0] < took_us[1] ? took_us[0] : took_us[1];
}

static void *resident_main(void *unused) {
    (void)unused;
    na_rthread_inside = na_rthread_own = true;
    bool can = true;
    do
        can = read_numa_maps(false);
    while (can && sleep_or_end(READ_EVERY_MS + cost_us() * REST / 1000) &&
           !na_rthread_left_alone());
    if (can && cost_us() <= QUICK_MS * 1000) read_numa_maps(true);
    atomic_store(&is_sampling, 0); /* nothing of the profile is touched any more */
    na_os_futex_wake((const uint32_t *)&is_sampling, INT32_MAX);
    return NULL;
}

void na_resident_start(bool wanted_now) {
    resident_wanted = wanted_now && na_rec.many_nodes && !na_rec.sampling;
    atomic_store(&is_sampling, 0); /* a forked child has none */
    atomic_store(&sampling_ends, 0);
    took_us[0] = took_us[1] = 0;
    __builtin_memset(resident_levels, 0, sizeof resident_levels);
}

void na_resident_thread(void) {
    if (!resident_wanted || atomic_load(&is_sampling) != 0) return;
    resident_wanted = false;
    bool inside = na_rthread_inside, own = na_rthread_own;
    na_rthread_inside = na_rthread_own = true;
    atomic_store(&is_sampling, 1);
    if (!na_thread_start(resident_main)) atomic_store(&is_sampling, 0);
    na_rthread_inside = inside;
    na_rthread_own = own;
}

void na_resident_finish(void) {
    atomic_store(&sampling_ends, 1);
    na_os_futex_wake((const uint32_t *)&sampling_ends, INT32_MAX);
    while (atomic_load(&is_sampling) != 0)
        na_os_futex_wait((const uint32_t *)&is_sampling, 1);
}
