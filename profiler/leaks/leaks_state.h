/* leaks_state.h - what the files of this folder share: one scan. */
#ifndef NUMALLOC_PROFILER_LEAKS_LEAKS_STATE_H
#define NUMALLOC_PROFILER_LEAKS_LEAKS_STATE_H

#include "alloc/core/sys/base.h"
#include "pagemap/pagemap.h"
#include "profiler/format/nprof.h"
#include "profiler/format/nprof_leaks.h"
#include "profiler/leaks/leaks.h"

/* Addresses. */
typedef struct na_leak_range {
    uintptr_t start, end;
} na_leak_range_t;

NA_INLINE bool na_leak_in(const na_leak_range_t *range, uintptr_t address) {
    return address - range->start < range->end - range->start;
}

/* Functions of a module, by address (leak_names.c). */
typedef struct na_leak_names na_leak_names_t;

/* A loaded module. */
typedef struct na_leak_module {
    na_leak_range_t all;
    uintptr_t bias;
    const char *name; /* the loader's; "": the program */
    bool ours, linker;
    na_leak_names_t *names; /* NULL: not asked for yet */
    uint32_t id;            /* as the recorder has it: it may be unloaded. 0: the loader's */
} na_leak_module_t;

/* Of a site, by the number of its stack. */
typedef struct na_leak_row {
    na_leak_sum_t of[NA_LEAK_KINDS];
    bool suppressed;
} na_leak_row_t;

/* Of the blocks of a site that are indirectly lost, those that lost blocks of `root` lead to. */
typedef struct na_leak_pair {
    uint32_t root, site;
    na_leak_sum_t sum; /* no blocks: a free place */
} na_leak_pair_t;

/* A thread, as it stands. */
typedef struct na_leak_thread {
    uintptr_t sp;           /* 0: not known */
    uintptr_t tp;           /* thread pointer; 0: not known */
    const uintptr_t *words; /* registers */
    size_t count;
} na_leak_thread_t;

typedef struct na_leak_scan {
    /* Before the threads stand still, by the calling thread. Tables are mapped with room in plenty,
     * of which little is touched. */
    na_leak_module_t *modules;
    uint32_t module_count;
    na_leak_range_t *data; /* writable data of modules */
    uint32_t data_count;
    na_leak_range_t *readable; /* mappings that can be read, in order */
    uint32_t readable_count;
    na_leak_range_t stack; /* the first thread's, [stack] */
    na_leak_range_t linker;
    int pagemap;      /* which pages have memory: /proc/self/pagemap; negative: not known */
    uintptr_t *queue; /* marked blocks, to be scanned */
    size_t queued;
    bool overflowed; /* not all had room: they are found by their marks */
    na_leak_row_t *rows;
    uint32_t row_count;    /* sites from beyond that are no site's */
    na_leak_pair_t *pairs; /* NA_LEAK_PAIRS, by hash */
    uint32_t pair_count;
    uint32_t claimer; /* the root whose blocks are being followed */
    na_leak_thread_t self;
    /* During the scan. */
    na_leak_totals_t *leaks;
    bool failed;
} na_leak_scan_t;

#define NA_LEAK_MODULES  4096u
#define NA_LEAK_DATA     8192u
#define NA_LEAK_READABLE (1u << 17)
#define NA_LEAK_QUEUE    (1u << 17)
#define NA_LEAK_PAIRS    (1u << 16) /* a power of two; half of them are used at most */

/* --- world.c --- */

/* Calls `look` while all other threads stand still, and `visit` for each of them first. */
typedef void na_leak_look_t(na_leak_scan_t *scan);
void na_leak_stop_world(na_leak_scan_t *scan, na_leak_look_t *begin, na_leak_look_t *end);

/* --- world_signals.c: by whoever scans --- */

/* `memory`: zeroed, of NA_LEAK_HELD bytes for each thread. False: there is no signal for it. */
bool na_leak_hold_begin(void *memory);
#define NA_LEAK_HELD 32u
/* A thread is to stand still. False: it was told before, or there are `most`. */
bool na_leak_hold(int32_t pid, int32_t tid, uint32_t most);
/* Until those that were told do, or some time has passed. */
void na_leak_hold_wait(void);
/* Marks what they lead to; how many stand still. */
uint32_t na_leak_hold_each(na_leak_scan_t *scan);
/* They go on. False: one has not left the memory yet. */
bool na_leak_hold_end(void);

/* --- roots.c --- */

/* The loader's modules. Not while others stand still. */
bool na_leak_list_modules(na_leak_scan_t *scan);
/* False: /proc cannot be read, or there are too many mappings. */
bool na_leak_list_mappings(na_leak_scan_t *scan);
/* Marks what modules, or a thread, lead to. */
void na_leak_scan_data(na_leak_scan_t *scan);
void na_leak_scan_thread(na_leak_scan_t *scan, const na_leak_thread_t *thread);
/* Once, from a constructor: asks the loader for sizes. */
void na_leak_ask_loader(void);
/* The end of what can be read without a gap from there on; `at`, if that cannot. */
uintptr_t na_leak_readable_to(const na_leak_scan_t *scan, uintptr_t at);

/* --- mark.c --- */

void na_leak_clear(na_leak_scan_t *scan);
/* Marks the blocks that words in [start, end) lead to, as far as that can be read. */
void na_leak_scan_range(na_leak_scan_t *scan, uintptr_t start, uintptr_t end);
void na_leak_scan_words(na_leak_scan_t *scan, const uintptr_t *words, size_t count);
/* Marks blocks that are roots themselves. */
void na_leak_scan_own_roots(na_leak_scan_t *scan);
/* Marks all that marked blocks lead to. */
void na_leak_follow(na_leak_scan_t *scan);
/* Tells the classes apart, fills rows and sums, and clears the marks. */
void na_leak_sum_up(na_leak_scan_t *scan);

/* --- leak_names.c --- */

/* That the code of a frame at `pc` lies in, also if it was unloaded since, and another is there;
 * NULL: none. After the scan. */
na_leak_module_t *na_leak_module_of(na_leak_scan_t *scan, const na_nprof_stack_t *node,
                                    uintptr_t pc);
/* The function there, and how far from its beginning; NULL: none is known. */
const char *na_leak_name(na_leak_module_t *module, uintptr_t pc, uintptr_t *offset);
void na_leak_close_names(na_leak_scan_t *scan);

/* --- leak_report.c --- */

/* A pattern of a suppression, against a name. */
bool na_leak_matches(const char *pattern, const char *text);

/* Takes suppressed sites out of the rows and sums. */
void na_leak_suppress(na_leak_scan_t *scan);
void na_leak_print(na_leak_scan_t *scan);
void na_leak_keep(const na_leak_scan_t *scan);
/* NUMALLOC_LEAKS_FILE: others make the report. True: there is a profile with what is lost. */
bool na_leak_hand_on(const na_leak_scan_t *scan);

#endif
