/* command_line.h - the command line of numalloc-dump: one table of options (options.def), of which
 * each view takes some. */
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

/* Options that views take together. */
typedef enum na_option_set {
    NA_SET_EVERY, /* taken by all views */
    NA_SET_SORT,
    NA_SET_TOP,
    NA_SET_FILTER,
    NA_SET_JSON,
    NA_SET_CSV,
    NA_SET_STACKS,
    NA_SET_SITES,
    NA_SET_FUNCTIONS,
    NA_SET_WRAPPERS,
    NA_SET_ADDRESSES,
    NA_SET_LINES,
    NA_SET_MODULES,
    NA_SET_RETENTION,
    NA_SET_METRIC,
    NA_SET_DEPTH,
    NA_SET_MIN,
    NA_SET_SIZE,
    NA_SET_SOURCE,
    NA_SET_SOURCE_PATH,
    NA_SET_TIME,
    NA_SET_FAIL_IF,
    NA_SET_BASELINE,
    NA_SET_CHANGES,
    NA_SET_INCREASE,
    NA_SET_SUPPRESSIONS,
    NA_SET_WHERE,
    NA_SET_INSTANCES,
    NA_SET_ACCESS,
    NA_SET_LIVE,
    NA_SET_LABELS,
    NA_SET_BY,
    NA_SET_LEAKS,
    NA_SET_ADDRESS,
    NA_SET_ERRORS,
    NA_SET_POLICY,
} na_option_set_t;
#define NA_TAKES(set) (UINT64_C(1) << NA_SET_##set)

#define NA_TAKES_TABLE                                                                             \
    (NA_TAKES(SORT) | NA_TAKES(TOP) | NA_TAKES(FILTER) | NA_TAKES(JSON) | NA_TAKES(CSV))

#define NA_MAX_REPEATED 32 /* of --skip, --fail-if, --suppressions, ... each */

typedef struct na_option_words {
    const char *items[NA_MAX_REPEATED];
    size_t count;
} na_option_words_t;

typedef struct na_option_regexes {
    regex_t items[NA_MAX_REPEATED];
    size_t count;
} na_option_regexes_t;

typedef struct na_option_regex {
    bool given;
    regex_t regex;
} na_option_regex_t;

typedef struct na_option_amount {
    bool given;
    double bytes, share; /* one of them, the other 0 */
} na_option_amount_t;

/* Grouped by the views that read them. Texts are NULL, numbers 0 where nothing else is said and the
 * option was not given. */
typedef struct na_options {
    uint64_t given;     /* sets of the options that were used */
    const char *output; /* NULL: standard output */
    struct {
        const char *sort; /* NULL: the view's own order */
        size_t top;       /* default 20; SIZE_MAX: all */
        na_option_regex_t filter;
        unsigned format; /* na_format_t */
    } table;
    struct {
        bool stacks, sites, functions; /* stacks: sites, too */
        bool addresses;                /* a row for each function without symbols */
        bool python, native;           /* frames shown: these, or with both, all */
        unsigned wrappers;             /* 0: automatic, 1: none */
        na_option_regexes_t skip;
        uint64_t symbol_cache; /* bytes, 0: off */
        const char *sysroot;   /* NULL: none */
    } frames;
    struct {
        bool modules, lines, retention;
    } rows;
    struct {
        const char *metric; /* NULL: peak */
        uint32_t depth;     /* default 16; 0: all */
        double min_share;
        uint32_t width, height; /* characters */
    } drawing;
    struct {
        uint32_t context; /* lines around a line of source */
        na_option_words_t paths;
    } source;
    struct {
        const char *time, *since;
    } moment;
    struct {
        na_option_words_t fail_if;
        const char *baseline;
        const char *const *older; /* what --baseline stands for, where --changes is taken, too */
        size_t older_count;
        bool changes;
        const char *increase; /* of --fail-on-increase */
        unsigned format;      /* na_check_format_t */
    } check;
    struct {
        na_option_words_t suppressions;
        bool no_builtin;
    } leaks;
    struct {
        const char *where; /* conditions; NULL: all */
        bool instances, shown;
    } accesses;
    struct {
        uint32_t iterations;
        double interval_s;
    } live;
    struct {
        na_option_words_t labels;
        const char *path_labels, *by;
        bool leaks;
    } fleet;
    struct {
        const char *address;      /* of a fault */
        na_option_words_t named;  /* files of errors, and directories */
        const char *const *files; /* those that they mean (main.c) */
        size_t file_count;
    } errors;
    struct {
        bool explain, check, compare, follow;
        const char *only; /* kind of rules; NULL: all */
        double min_gain, min_chance;
        na_option_amount_t near; /* tiers of memory; the share is of the peak */
    } policy;
    struct {
        bool asked, version;
        bool names, keys; /* for completion: bare names of options; keys of --sort */
    } help;
} na_options_t;

/* --top, --filter, ...: was it given? */
static inline bool na_option_given(const na_options_t *options, na_option_set_t set) {
    return (options->given >> set & 1) != 0;
}

typedef struct na_command_line {
    na_options_t options;
    const char **words; /* what is no option, in order */
    size_t word_count;
} na_command_line_t;

/* False: wrong usage, which was said in one line on stderr. Free with na_options_free. */
bool na_options_read(na_command_line_t *line, int argc, char **argv);
void na_options_free(na_command_line_t *line);

/* The name of an option of `given` that is not among `takes`, and its set; NULL: all are. */
const char *na_options_unwanted(uint64_t given, uint64_t takes, uint64_t *set);

/* Names of the options among `takes`, without --; and the first of them. */
void na_options_each(uint64_t takes, void (*visit)(void *arg, const char *name), void *arg);
const char *na_options_name(uint64_t takes);

/* Prints the options among `takes`, with their help, or (names) one "--name" or "--name=" a
 * line. */
void na_options_help(uint64_t takes, bool names);

/* One line on stderr, "numalloc-dump: ..."; names in it are made printable. Returns
 * NA_STATUS_NOTHING. */
__attribute__((format(printf, 1, 2))) na_status_t na_fail(const char *format, ...);

#endif
