/* command_line.h - the command line of numalloc-dump: one table of options, of which each view
 * takes some. */
#ifndef NUMALLOC_PROFILER_DUMP_UI_COMMAND_LINE_H
#define NUMALLOC_PROFILER_DUMP_UI_COMMAND_LINE_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit status of the program, and what a view returns. */
typedef enum na_status {
    NA_STATUS_WHOLE = 0,
    NA_STATUS_PARTIAL = 1, /* shown, but the file is damaged; or a check failed */
    NA_STATUS_NOTHING = 2, /* nothing shown; the view has said why in one line */
    NA_STATUS_MEMORY = 3,  /* not an exit status: main says it */
} na_status_t;

typedef enum na_format { NA_FORMAT_TEXT, NA_FORMAT_JSON, NA_FORMAT_CSV } na_format_t;

/* One bit for each option; a view lists those that it takes. */
typedef enum na_option_bit {
    NA_TAKES_SORT = 1 << 0,
    NA_TAKES_TOP = 1 << 1,
    NA_TAKES_FILTER = 1 << 2,
    NA_TAKES_JSON = 1 << 3,
    NA_TAKES_CSV = 1 << 4,
    NA_TAKES_STACKS = 1 << 5,
    NA_TAKES_SITES = 1 << 6,
    NA_TAKES_FUNCTIONS = 1 << 7,
    NA_TAKES_WRAPPERS = 1 << 8, /* --wrappers and --skip */
    NA_TAKES_METRIC = 1 << 9,
    NA_TAKES_DEPTH = 1 << 10,
    NA_TAKES_MIN = 1 << 11,
    NA_TAKES_SUPPRESSIONS = 1 << 12,
    NA_TAKES_FAIL_IF = 1 << 13,
    NA_TAKES_SIZE = 1 << 14,   /* --width, --height */
    NA_TAKES_SOURCE = 1 << 15, /* --context */
    NA_TAKES_TIME = 1 << 16,   /* --time, --since */
    NA_TAKES_MODULES = 1 << 17,
    NA_TAKES_RETENTION = 1 << 24,
    NA_TAKES_LIVE = 1 << 25, /* --iterations, --interval */
    NA_TAKES_BASELINE = 1 << 18,
    NA_TAKES_WHERE = 1 << 19,
    NA_TAKES_INSTANCES = 1 << 20,
    NA_TAKES_ACCESS = 1 << 21,
    NA_TAKES_SOURCE_PATH = 1 << 22,
    NA_TAKES_LABELS = 1 << 23, /* --label, --path-labels */
    NA_TAKES_BY = 1 << 26,
    NA_TAKES_LEAKS = 1 << 27,
    NA_TAKES_ADDRESSES = 1 << 28,
    NA_TAKES_INCREASE = 1 << 29, /* --fail-on-increase */
    /* --only, --min-gain, --near, --explain, --check, --compare, --follow */
    NA_TAKES_POLICY = 1 << 30,
} na_option_bit_t;
#define NA_TAKES_ADDRESS (UINT64_C(1) << 31)
#define NA_TAKES_ERRORS  (UINT64_C(1) << 32)
#define NA_TAKES_LINES   (UINT64_C(1) << 33)

#define NA_TAKES_TABLE                                                                             \
    (NA_TAKES_SORT | NA_TAKES_TOP | NA_TAKES_FILTER | NA_TAKES_JSON | NA_TAKES_CSV)

#define NA_MAX_REPEATED 32 /* of --skip, --fail-if, --suppressions, ... each */

typedef struct na_options {
    na_format_t format;
    const char *output; /* NULL: standard output */
    const char *sort;   /* NULL: the view's own order */
    size_t top;         /* SIZE_MAX: all */
    bool top_given;
    bool filtered;
    regex_t filter;
    bool stacks, sites, functions;
    bool automatic_wrappers;
    bool addresses; /* a row for each function without symbols */
    regex_t skip[NA_MAX_REPEATED];
    size_t skip_count;
    const char *metric; /* NULL: peak */
    uint32_t depth;     /* 0: not given */
    double min_share;   /* a fraction */
    const char *suppressions[NA_MAX_REPEATED];
    size_t suppression_count;
    bool no_builtin;
    const char *fail_if[NA_MAX_REPEATED];
    size_t fail_if_count;
    const char *baseline;
    const char *increase;   /* of --fail-on-increase */
    uint32_t width, height; /* characters; 0: not given */
    uint32_t context;       /* lines around a line of source */
    const char *source_path[NA_MAX_REPEATED];
    size_t source_path_count;
    const char *time, *since; /* moments; NULL: not given */
    bool modules, lines;
    const char *where; /* conditions on accesses; NULL: all */
    bool instances, access;
    bool retention;
    uint64_t iterations;   /* 0: not given */
    double interval_s;     /* 0: not given */
    bool python, native;   /* frames shown: these, or with both, all */
    uint64_t symbol_cache; /* bytes, 0: off */
    const char *labels[NA_MAX_REPEATED];
    size_t label_count;
    const char *path_labels, *by; /* NULL: not given */
    bool leaks;
    bool explain, check, compare, follow; /* of a policy */
    const char *only;                     /* kind of rules; NULL: all */
    double min_gain;                      /* a fraction */
    bool near;                            /* --near: tiers of memory; */
    double near_bytes, near_share;        /* one of them, the other 0; share: of the peak */
    bool names, keys;    /* help, for completion: bare names of options; keys of --sort */
    const char *address; /* of a fault; NULL: not given */
    const char *errors[NA_MAX_REPEATED]; /* files of errors, and directories */
    size_t error_count;
    const char *const *error_files; /* those that they mean (main.c) */
    size_t error_file_count;
} na_options_t;

/* Reads options from argv[1..]; files and words go to files[0 .. *file_count) in order (room for
 * argc). `takes`: bits of the options that are allowed. False: said why in one line on stderr.
 * help and version are set if asked for. */
typedef struct na_command_line {
    na_options_t options;
    const char **words;
    size_t word_count;
    uint64_t given; /* bits of the options that were used */
    bool help, version;
} na_command_line_t;

/* False: wrong usage, which was said in one line on stderr. Free with na_options_free. */
bool na_options_read(na_command_line_t *line, int argc, char **argv);
void na_options_free(na_command_line_t *line);

/* The name of an option that was given and is not among `takes`; NULL: all are. */
const char *na_options_unwanted(const na_command_line_t *line, uint64_t takes);

/* The bits of the options that were given. */
uint64_t na_options_given(const na_command_line_t *line);

/* Bits of an option. */
uint64_t na_options_takes(const char *name);

/* Names of the options among `takes`, without --; and the first of them. */
void na_options_each(uint64_t takes, void (*visit)(void *arg, const char *name), void *arg);
const char *na_options_name(uint64_t takes);

/* Prints the options among `takes`, with their help, or (names) one "--name" a line. */
void na_options_help(uint64_t takes, bool names);

/* One line on stderr, "numalloc-dump: ..."; names in it are made printable. Returns
 * NA_STATUS_NOTHING. */
__attribute__((format(printf, 1, 2))) na_status_t na_fail(const char *format, ...);

#endif
