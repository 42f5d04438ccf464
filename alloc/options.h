/* options.h - NUMALLOC_* environment variables: one table (options.c) holds them all.
 *
 * Read once at start-up from the environment as it was at exec; ignored when AT_SECURE. An unknown
 * name that begins with NUMALLOC_ or a bad value gives one warning line on stderr naming the
 * option, the value and what is accepted; the default stays and the program goes on. Immutable
 * afterwards. */
#ifndef NUMALLOC_ALLOC_OPTIONS_H
#define NUMALLOC_ALLOC_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum na_option_id {
    NA_OPT_STATS,           /* bool: print statistics at exit */
    NA_OPT_CHECK,           /* bool: verify every free */
    NA_OPT_ABORT,           /* bool: abort on misuse (default 1) */
    NA_OPT_LIMIT,           /* bytes with K/M/G/T suffix: heap limit, 0 none */
    NA_OPT_PURGE_DELAY,     /* ms: free pages are given back after; 0 at once */
    NA_OPT_HUGEPAGES,       /* keep|always|never: what to advise for regions */
    NA_OPT_REGION_SIZE,     /* bytes, power of two: address space reserved at a time */
    NA_OPT_BACKGROUND,      /* bool: a thread that gives memory back while the program sleeps */
    NA_OPT_CGROUPS,         /* NA_CGROUPS_*: memory limits of control groups are looked up */
    NA_OPT_DEEPBIND,        /* bool: dlopen heeds RTLD_DEEPBIND */
    NA_OPT_NUMA,            /* preferred|strict|unbound|off|balanced */
    NA_OPT_PROFILE,         /* text: sample|sites|trace, empty none; may set ACCESS as well */
    NA_OPT_PROFILE_FILE,    /* text: file name pattern */
    NA_OPT_SAMPLE_INTERVAL, /* bytes between samples, mean */
    NA_OPT_TRACE_STACKS,    /* allocations|all|none: stacks recorded */
    NA_OPT_TRACE_BUFFER,    /* bytes of a thread's event buffer */
    NA_OPT_TRACE_LEVEL,     /* 0..9: compression, 0 none */
    NA_OPT_TRACE_LOSSY,     /* bool: lose events rather than wait */
    NA_OPT_TRACE_THREAD,    /* bool: a thread of its own compresses */
    NA_OPT_TRACE_MAX,       /* bytes of events kept, the latest; 0 all */
    NA_OPT_SAMPLE_SEED,     /* number: what the draws begin from, 0: each run its own */
    NA_OPT_PROFILE_MEMORY,  /* bytes that the profiler may use for what it records, 0: no limit */
    NA_OPT_PROFILE_FREES,   /* bool: record from where blocks are freed */
    NA_OPT_ACCESS,          /* na_access_choice_t of profiler/record/record.h */
    NA_OPT_ACCESS_PERIOD,   /* events between samples, 0: the source's choice */
    NA_OPT_ACCESS_COST,     /* watch: percent of the busiest thread's time, at most */
    NA_OPT_ACCESS_STACK,    /* bytes of stack copied for a sample's call chain, 0 none */
    NA_OPT_ACCESS_FRAMES,   /* of a sample's call chain by frame pointers, 0 none */
    /* When and what to profile: control.c */
    NA_OPT_PROFILE_START,       /* now|later */
    NA_OPT_PROFILE_AFTER,       /* ms since the program began, 0 none */
    NA_OPT_PROFILE_FOR,         /* ms, 0 none */
    NA_OPT_PROFILE_DUMP_EVERY,  /* ms, 0 none */
    NA_OPT_PROFILE_DUMP_RSS,    /* bytes, 0 none */
    NA_OPT_PROFILE_DUMP_LIVE,   /* bytes, 0 none */
    NA_OPT_PROFILE_SIGNAL,      /* choice of signals, 0 none */
    NA_OPT_PROFILE_DUMP_SIGNAL, /* the same */
    NA_OPT_PROFILE_TRIGGER,     /* text: name of a file */
    NA_OPT_PROFILE_ONLY,        /* text: names of programs */
    NA_OPT_PROFILE_RANKS,       /* text: numbers */
    NA_OPT_COUNT
} na_option_id_t;

typedef enum na_cgroups { NA_CGROUPS_IGNORE, NA_CGROUPS_SPARE, NA_CGROUPS_REFUSE } na_cgroups_t;
typedef enum na_hugepages { NA_HUGE_KEEP, NA_HUGE_ALWAYS, NA_HUGE_NEVER } na_hugepages_t;
typedef enum na_profile_begin { NA_PROFILE_NOW, NA_PROFILE_LATER } na_profile_begin_t;
typedef enum na_numa_mode {
    NA_NUMA_PREFERRED,
    NA_NUMA_STRICT,
    NA_NUMA_UNBOUND,
    NA_NUMA_OFF,
    NA_NUMA_BALANCED
} na_numa_mode_t;

void na_options_init(void);

/* Value of a bool, number or choice option. */
uint64_t na_option(na_option_id_t id);
/* Value of a text option; NULL or empty when unset. */
const char *na_option_text(na_option_id_t id);

/* Of "MODE[,access[=SOURCE]]": the number of the source's word (0, off: none is named), -1: not
 * one; *length is that of the mode. */
int na_option_access(const char *mode, size_t *length);

/* One row, for docs, malloc_info and the statistics. */
typedef struct na_option_info {
    const char *name;     /* "NUMALLOC_STATS" */
    const char *unit;     /* "0|1", "bytes", "ms", "keep|always|never", "text" */
    const char *fallback; /* default as text */
    const char *meaning;
} na_option_info_t;
const na_option_info_t *na_option_info(na_option_id_t id);

#endif
