/* command_line.c - reads the command line by one table of options. See command_line.h. */
#include "profiler/dump/ui/command_line.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/ui/progress.h"
#include "profiler/dump/ui/text.h"

typedef enum option_id {
    OPT_SORT = 256,
    OPT_TOP,
    OPT_FILTER,
    OPT_JSON,
    OPT_CSV,
    OPT_FUNCTIONS,
    OPT_SITES,
    OPT_STACKS,
    OPT_WRAPPERS,
    OPT_SKIP,
    OPT_ADDRESSES,
    OPT_ADDRESS,
    OPT_ERRORS,
    OPT_METRIC,
    OPT_DEPTH,
    OPT_MIN,
    OPT_SUPPRESSIONS,
    OPT_NO_BUILTIN,
    OPT_FAIL_IF,
    OPT_BASELINE,
    OPT_INCREASE,
    OPT_WIDTH,
    OPT_HEIGHT,
    OPT_CONTEXT,
    OPT_SOURCE_PATH,
    OPT_TIME,
    OPT_SINCE,
    OPT_MODULES,
    OPT_LINES,
    OPT_WHERE,
    OPT_INSTANCES,
    OPT_ACCESS,
    OPT_RETENTION,
    OPT_ITERATIONS,
    OPT_INTERVAL,
    OPT_LABEL,
    OPT_PATH_LABELS,
    OPT_BY,
    OPT_LEAKS,
    OPT_ONLY,
    OPT_MIN_GAIN,
    OPT_NEAR,
    OPT_EXPLAIN,
    OPT_CHECK,
    OPT_COMPARE,
    OPT_FOLLOW,
    OPT_PYTHON,
    OPT_NATIVE,
    OPT_CACHE,
    OPT_OUTPUT,
    OPT_HELP,
    OPT_VERSION,
    OPT_NAMES,
    OPT_KEYS,
} option_id_t;

#define TAKEN_BY_ALL 0

/* Help lines are divided by '\n'. NULL: not shown. */
static const struct row {
    const char *name;
    option_id_t id;
    uint64_t takes;
    const char *value, *help;
} option_rows[] = {
    {"sort", OPT_SORT, NA_TAKES_SORT, "KEY",
     "order of rows, most first, by one of the view's keys (numalloc-dump help\n"
     "VIEW); peak: bytes live at the peak, live: bytes still live, total: bytes\n"
     "ever requested, count: allocations"},
    {"top", OPT_TOP, NA_TAKES_TOP, "N", "rows of a table, default 20; 0: all"},
    {"filter", OPT_FILTER, NA_TAKES_FILTER, "REGEX",
     "only rows with a name (function, file, module, ...) that matches this\n"
     "extended regular expression"},
    {"json", OPT_JSON, NA_TAKES_JSON, NULL, "write JSON"},
    {"csv", OPT_CSV, NA_TAKES_CSV, NULL, "write comma-separated values, a line of names first"},
    {"functions", OPT_FUNCTIONS, NA_TAKES_FUNCTIONS, NULL, "show functions (default)"},
    {"sites", OPT_SITES, NA_TAKES_SITES, NULL,
     "show sites, one for each distinct call stack, instead of functions"},
    {"stacks", OPT_STACKS, NA_TAKES_STACKS, NULL, "show sites, each with its whole call stack"},
    {"wrappers", OPT_WRAPPERS, NA_TAKES_WRAPPERS, "W",
     "auto (default): a function that only passes allocations on, such as\n"
     "xmalloc, is not where memory comes from; its caller is. These are\n"
     "functions with alloc, strdup or new in their names that two or more\n"
     "others call, and that call the allocator (or each other) in at least\n"
     "nine in ten of their places on stacks. none: only the C and C++\n"
     "runtime is passed over"},
    {"skip", OPT_SKIP, NA_TAKES_WRAPPERS, "REGEX",
     "pass over functions whose name matches this extended regular\n"
     "expression, too; may be given more than once"},
    {"addresses", OPT_ADDRESSES, NA_TAKES_ADDRESSES, NULL,
     "text: each function without symbols by its address,\n"
     "instead of one row, or one node of a tree, for those of a library"},
    {"address", OPT_ADDRESS, NA_TAKES_ADDRESS, "ADDRESS",
     "what is known of this address (hexadecimal): of a fault that was not\n"
     "reported, from a core file or the kernel's log"},
    {"errors", OPT_ERRORS, NA_TAKES_ERRORS, "FILE",
     "mark the memory errors in this file, or in the files of this directory\n"
     "(NUMALLOC_GUARD_FILE); may be given more than once"},
    {"metric", OPT_METRIC, NA_TAKES_METRIC, "M",
     "the figure to write: peak (default), live, total or count"},
    {"depth", OPT_DEPTH, NA_TAKES_DEPTH, "N", "levels of the tree, default 16"},
    {"min", OPT_MIN, NA_TAKES_MIN, "PERCENT",
     "fold what is less than this share of all into \"other\", default 1"},
    {"suppressions", OPT_SUPPRESSIONS, NA_TAKES_SUPPRESSIONS, "FILE",
     "leaks not to show, as LeakSanitizer reads them: lines leak:PATTERN; may\n"
     "be given more than once"},
    {"no-builtin", OPT_NO_BUILTIN, NA_TAKES_SUPPRESSIONS, NULL,
     "do without the built-in suppressions of what the C library keeps"},
    {"fail-if", OPT_FAIL_IF, NA_TAKES_FAIL_IF, "TEST",
     "exit status 1 if FIGURE OP VALUE holds, such as 'peak>200M' or 'leaks>0';\n"
     "may be given more than once"},
    {"baseline", OPT_BASELINE, NA_TAKES_BASELINE, "OLD", "the profile to compare with"},
    {"fail-on-increase", OPT_INCREASE, NA_TAKES_INCREASE, "LIMIT",
     "fail if peak, live or total grew by more than this over the baseline: 5%\n"
     "or 10M; or for one figure: peak=5%"},
    {"width", OPT_WIDTH, NA_TAKES_SIZE, "N", "columns of a drawing"},
    {"height", OPT_HEIGHT, NA_TAKES_SIZE, "N", "rows of a drawing"},
    {"context", OPT_CONTEXT, NA_TAKES_SOURCE, "N",
     "lines of source shown around each line with figures, default 2"},
    {"source-path", OPT_SOURCE_PATH, NA_TAKES_SOURCE_PATH, "FROM=TO",
     "look for source files named FROM... at TO...; may be given more than once"},
    {"time", OPT_TIME, NA_TAKES_TIME, "WHEN",
     "the moment to show: peak (default), end, a time since the start (1.5s,\n"
     "300ms, 40%), #N (after event N), or @NAME (the program's first marker of\n"
     "that name)"},
    {"since", OPT_SINCE, NA_TAKES_TIME, "WHEN",
     "compare with this earlier moment: what was live then, and what of it, or\n"
     "newer, still is"},
    {"modules", OPT_MODULES, NA_TAKES_MODULES, NULL, "sums by module, instead of variables"},
    {"lines", OPT_LINES, NA_TAKES_LINES, NULL, "lines of source, instead of functions"},
    {"where", OPT_WHERE, NA_TAKES_WHERE, "CONDITIONS",
     "only accesses that fulfil all of these, separated by commas: remote,\n"
     "local, read, write, dram, node=N (of the thread), home=N (of the memory),\n"
     "cpu=N, process=PID, thread=TID or NAME, latency>N, latency<N (cycles),\n"
     "time=FROM-TO (ms), site=N, object=N, source=NAME, kind=heap (pool, static,\n"
     "file, anonymous, code, stack, unknown)"},
    {"instances", OPT_INSTANCES, NA_TAKES_INSTANCES, NULL,
     "every object by itself, not put together by where it comes from"},
    {"access", OPT_ACCESS, NA_TAKES_ACCESS, NULL, "what was accessed, not what was allocated"},
    {"retention", OPT_RETENTION, NA_TAKES_RETENTION, NULL,
     "sites by the memory that their live blocks keep, instead of size classes"},
    {"iterations", OPT_ITERATIONS, NA_TAKES_LIVE, "N",
     "look N times; otherwise once, or on a terminal until the process ends"},
    {"interval", OPT_INTERVAL, NA_TAKES_LIVE, "SECONDS", "time from look to look, default 2"},
    {"label", OPT_LABEL, NA_TAKES_LABELS, "KEY=VALUE",
     "a label of profiles that have not recorded it (NUMALLOC_PROFILE_LABELS),\n"
     "such as service=web; may be given more than once"},
    {"path-labels", OPT_PATH_LABELS, NA_TAKES_LABELS, "NAMES",
     "labels from directories: with service/host the file web/node7/a.nprof is\n"
     "of service web and host node7, unless it has recorded something else"},
    {"by", OPT_BY, NA_TAKES_BY, "LABELS",
     "put processes together that have these labels in common, such as\n"
     "service,version"},
    {"leaks", OPT_LEAKS, NA_TAKES_LEAKS, NULL,
     "sites that grow steadily over the dumps of each process"},
    {"only", OPT_ONLY, NA_TAKES_POLICY, "KIND",
     "rules of this kind: place, lines, life, reserve or group"},
    {"min-gain", OPT_MIN_GAIN, NA_TAKES_POLICY, "PERCENT",
     "what a rule must gain at least, default 1: of all accesses (place), of the\n"
     "run (lines, reserve), of the process's memory (life, group)"},
    {"near", OPT_NEAR, NA_TAKES_POLICY, "SIZE",
     "rules for near and far memory: the blocks with most accesses per byte get\n"
     "place=near up to this many bytes (500M, 2G), or this share of the heap's peak\n"
     "(30%), the others place=far; from profiles with accesses"},
    {"explain", OPT_EXPLAIN, NA_TAKES_POLICY, NULL,
     "say also why there is no rule, and how many frames sites needed"},
    {"check", OPT_CHECK, NA_TAKES_POLICY, NULL,
     "read the policy that is named first: which of its rules the program, or the\n"
     "profiles, that are named next can obey"},
    {"compare", OPT_COMPARE, NA_TAKES_POLICY, NULL,
     "did the rules help? Two profiles: the run before, and the run under the\n"
     "policy; status 1: not all rules are to be kept"},
    {"follow", OPT_FOLLOW, NA_TAKES_POLICY, NULL,
     "of a process that runs (PID), or a profile that grows: again and again, until\n"
     "it ends; -o FILE is written anew when rules come or change"},
    {"python", OPT_PYTHON, TAKEN_BY_ALL, NULL,
     "of stacks with Python frames, show these alone; with --native, all frames\n"
     "as they called each other (default: Python frames, and the native ones\n"
     "that the innermost of them called)"},
    {"native", OPT_NATIVE, TAKEN_BY_ALL, NULL, "show stacks without Python frames"},
    {"symbol-cache", OPT_CACHE, TAKEN_BY_ALL, "SIZE",
     "off, or how large the files may become that keep symbols from one call to\n"
     "the next, in ~/.cache/numalloc; default 256M"},
    {"output", OPT_OUTPUT, TAKEN_BY_ALL, "FILE",
     "write to FILE (also -o), which appears whole or not at all"},
    {"help", OPT_HELP, TAKEN_BY_ALL, NULL, "this text"},
    {"version", OPT_VERSION, TAKEN_BY_ALL, NULL, "the version"},
    {"names", OPT_NAMES, TAKEN_BY_ALL, NULL, NULL},
    {"keys", OPT_KEYS, TAKEN_BY_ALL, NULL, NULL},
};
#define ROWS (sizeof option_rows / sizeof option_rows[0])

na_status_t na_fail(const char *format, ...) {
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    na_progress_end();
    fputs("numalloc-dump: ", stderr);
    na_text_put(stderr, text);
    fputc('\n', stderr);
    return NA_STATUS_NOTHING;
}

static bool read_regex(regex_t *regex, const char *option, const char *text) {
    int wrong = regcomp(regex, text, REG_EXTENDED | REG_NOSUB);
    if (wrong == 0) return true;
    char why[128];
    regerror(wrong, regex, why, sizeof why);
    na_fail("--%s takes a regular expression (%s), not: %s; see numalloc-dump --help", option, why,
            text);
    return false;
}

static bool read_option_number(const char *option, const char *text, uint64_t most,
                               uint64_t *value) {
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != 0 || errno != 0) {
        na_fail("--%s takes a number, not: %s; see numalloc-dump --help", option, text);
        return false;
    }
    *value = number < most ? number : most;
    return true;
}

static bool read_cache_size(const char *text, uint64_t *value) {
    static const char units[] = "KMGT";
    if (strcmp(text, "off") == 0) {
        *value = 0;
        return true;
    }
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    const char *unit = *end == 0 ? NULL : strchr(units, *end & ~0x20);
    unsigned shift = unit == NULL ? 0 : (unsigned)(unit - units + 1) * 10;
    if (text[0] < '0' || text[0] > '9' || (*end != 0 && (unit == NULL || end[1] != 0)) ||
        errno != 0 || number > UINT64_MAX >> shift) {
        na_fail("--symbol-cache takes a size such as 256M, or off, not: %s", text);
        return false;
    }
    *value = (uint64_t)number << shift;
    return true;
}

static bool read_percentage(const char *option, const char *text, double *share) {
    char *end;
    double percent = strtod(text, &end);
    if (end == text || (*end != 0 && strcmp(end, "%") != 0) || !(percent >= 0 && percent <= 100)) {
        na_fail("--%s takes a percentage, 0 to 100, not: %s", option, text);
        return false;
    }
    *share = percent / 100;
    return true;
}

/* "500M", "1.5G", "30%". */
static bool read_near(const char *text, na_options_t *o) {
    static const char units[] = "KMGT";
    char *end;
    double value = strtod(text, &end);
    bool good = text[0] >= '0' && text[0] <= '9' && text[1] != 'x' && text[1] != 'X' && value > 0;
    o->near = true;
    if (good && strcmp(end, "%") == 0 && value <= 100) {
        o->near_share = value / 100;
        return true;
    }
    const char *unit = *end == 0 ? NULL : strchr(units, toupper((unsigned char)*end));
    if (unit != NULL) end++;
    if (!good || *end != 0 || value > 1e15) {
        na_fail("--near takes a size such as 500M or 2G, or a share of the peak such as 30%%, not: "
                "%s",
                text);
        return false;
    }
    o->near_bytes = unit == NULL ? value : value * (double)(UINT64_C(1024) << 10 * (unit - units));
    return true;
}

static bool add_repeated(const char **list, size_t *count, const char *option, const char *value) {
    if (*count == NA_MAX_REPEATED) {
        na_fail("more than %d times --%s", NA_MAX_REPEATED, option);
        return false;
    }
    list[(*count)++] = value;
    return true;
}

static bool take_option(na_command_line_t *line, const struct row *row, const char *value) {
    na_options_t *o = &line->options;
    uint64_t number = 0;
    switch (row->id) {
    case OPT_SORT:
        o->sort = value;
        return true;
    case OPT_TOP:
        if (!read_option_number(row->name, value, SIZE_MAX, &number)) return false;
        o->top = number == 0 ? SIZE_MAX : (size_t)number;
        o->top_given = true;
        return true;
    case OPT_FILTER:
        if (o->filtered) regfree(&o->filter);
        o->filtered = false;
        return o->filtered = read_regex(&o->filter, row->name, value);
    case OPT_JSON:
        o->format = NA_FORMAT_JSON;
        return true;
    case OPT_CSV:
        o->format = NA_FORMAT_CSV;
        return true;
    case OPT_FUNCTIONS:
        o->functions = true;
        return true;
    case OPT_ADDRESSES:
        o->addresses = true;
        return true;
    case OPT_PYTHON:
        o->python = true;
        return true;
    case OPT_NATIVE:
        o->native = true;
        return true;
    case OPT_SITES:
        o->sites = true;
        return true;
    case OPT_STACKS:
        o->stacks = o->sites = true;
        return true;
    case OPT_WRAPPERS:
        if (strcmp(value, "auto") != 0 && strcmp(value, "none") != 0) {
            na_fail("--wrappers takes auto or none, not: %s; see numalloc-dump --help", value);
            return false;
        }
        o->automatic_wrappers = value[0] == 'a';
        return true;
    case OPT_SKIP:
        if (o->skip_count == NA_MAX_REPEATED) {
            na_fail("too many --skip; join them with |, as in --skip 'a|b'");
            return false;
        }
        if (!read_regex(&o->skip[o->skip_count], row->name, value)) return false;
        o->skip_count++;
        return true;
    case OPT_ADDRESS: {
        char *end;
        errno = 0;
        if (strtoull(value, &end, 16) == 0 || *end != 0 || errno != 0) {
            na_fail("--address takes a hexadecimal address, not: %s", value);
            return false;
        }
        o->address = value;
        return true;
    }
    case OPT_ERRORS:
        return add_repeated(o->errors, &o->error_count, row->name, value);
    case OPT_METRIC:
        o->metric = value;
        return true;
    case OPT_DEPTH:
        if (!read_option_number(row->name, value, 1024, &number)) return false;
        o->depth = number == 0 ? 1024 : (uint32_t)number;
        return true;
    case OPT_MIN:
        return read_percentage(row->name, value, &o->min_share);
    case OPT_MIN_GAIN:
        return read_percentage(row->name, value, &o->min_gain);
    case OPT_NEAR:
        return read_near(value, o);
    case OPT_ONLY:
        o->only = value;
        return true;
    case OPT_EXPLAIN:
        o->explain = true;
        return true;
    case OPT_CHECK:
        o->check = true;
        return true;
    case OPT_COMPARE:
        o->compare = true;
        return true;
    case OPT_FOLLOW:
        o->follow = true;
        return true;
    case OPT_SUPPRESSIONS:
        return add_repeated(o->suppressions, &o->suppression_count, row->name, value);
    case OPT_NO_BUILTIN:
        o->no_builtin = true;
        return true;
    case OPT_FAIL_IF:
        return add_repeated(o->fail_if, &o->fail_if_count, row->name, value);
    case OPT_BASELINE:
        o->baseline = value;
        return true;
    case OPT_INCREASE:
        o->increase = value;
        return true;
    case OPT_WIDTH:
        if (!read_option_number(row->name, value, 1000, &number)) return false;
        o->width = (uint32_t)number;
        return true;
    case OPT_HEIGHT:
        if (!read_option_number(row->name, value, 1000, &number)) return false;
        o->height = (uint32_t)number;
        return true;
    case OPT_CONTEXT:
        if (!read_option_number(row->name, value, 1000000, &number)) return false;
        o->context = (uint32_t)number;
        return true;
    case OPT_SOURCE_PATH:
        if (strchr(value, '=') == NULL) {
            na_fail("--source-path takes FROM=TO, not: %s", value);
            return false;
        }
        return add_repeated(o->source_path, &o->source_path_count, row->name, value);
    case OPT_TIME:
        o->time = value;
        return true;
    case OPT_SINCE:
        o->since = value;
        return true;
    case OPT_MODULES:
        o->modules = true;
        return true;
    case OPT_LINES:
        o->lines = true;
        return true;
    case OPT_WHERE:
        o->where = value;
        return true;
    case OPT_INSTANCES:
        o->instances = true;
        return true;
    case OPT_ACCESS:
        o->access = true;
        return true;
    case OPT_RETENTION:
        o->retention = true;
        return true;
    case OPT_ITERATIONS:
        return read_option_number(row->name, value, UINT64_MAX, &o->iterations);
    case OPT_INTERVAL: {
        char *end;
        o->interval_s = strtod(value, &end);
        if (end != value && *end == 0 && o->interval_s > 0 && o->interval_s <= 86400) return true;
        na_fail("--interval takes seconds, more than 0 and up to 86400, not: %s", value);
        return false;
    }
    case OPT_LABEL:
        return add_repeated(o->labels, &o->label_count, row->name, value);
    case OPT_PATH_LABELS:
        o->path_labels = value;
        return true;
    case OPT_BY:
        o->by = value;
        return true;
    case OPT_LEAKS:
        o->leaks = true;
        return true;
    case OPT_CACHE:
        return read_cache_size(value, &o->symbol_cache);
    case OPT_OUTPUT:
        o->output = value;
        return true;
    case OPT_HELP:
        line->help = true;
        return true;
    case OPT_VERSION:
        line->version = true;
        return true;
    case OPT_NAMES:
        o->names = true;
        return true;
    case OPT_KEYS:
        o->keys = true;
        return true;
    }
    return false;
}

bool na_options_read(na_command_line_t *line, int argc, char **argv) {
    memset(line, 0, sizeof *line);
    line->options.top = 20;
    line->options.automatic_wrappers = true;
    line->options.min_share = 0.01;
    line->options.min_gain = 0.01;
    line->options.context = 2;
    line->options.symbol_cache = UINT64_C(256) << 20;
    line->words = calloc((size_t)argc + 1, sizeof *line->words);
    if (line->words == NULL) {
        na_fail("out of memory");
        return false;
    }
    struct option options[ROWS + 1];
    memset(options, 0, sizeof options);
    for (size_t i = 0; i < ROWS; i++) {
        options[i].name = option_rows[i].name;
        options[i].has_arg = option_rows[i].value == NULL ? no_argument : required_argument;
        options[i].val = (int)option_rows[i].id;
    }
    opterr = 0;
    optind = 1;
    /* "-": words come in order, as option 1, so that a view's name may stand before its options. */
    for (int id; (id = getopt_long(argc, argv, "-ho:", options, NULL)) != -1;) {
        if (id == 1) {
            line->words[line->word_count++] = optarg;
            continue;
        }
        if (id == 'h') id = OPT_HELP;
        if (id == 'o') id = OPT_OUTPUT;
        const struct row *row = NULL;
        for (size_t i = 0; i < ROWS; i++)
            if ((int)option_rows[i].id == id) row = &option_rows[i];
        if (row == NULL) {
            na_fail("unknown option, or its value is missing: %s; see numalloc-dump --help",
                    argv[optind - 1]);
            return false;
        }
        if (!take_option(line, row, optarg)) return false;
        line->given |= UINT64_C(1) << (row - option_rows);
    }
    while (optind < argc)
        line->words[line->word_count++] = argv[optind++]; /* after "--" */
    return true;
}

void na_options_free(na_command_line_t *line) {
    na_options_t *o = &line->options;
    if (o->filtered) regfree(&o->filter);
    for (size_t i = 0; i < o->skip_count; i++)
        regfree(&o->skip[i]);
    free(line->words);
}

const char *na_options_unwanted(const na_command_line_t *line, uint64_t takes) {
    for (size_t i = 0; i < ROWS; i++) {
        bool given = (line->given >> i & 1) != 0;
        if (given && option_rows[i].takes != TAKEN_BY_ALL && (option_rows[i].takes & takes) == 0)
            return option_rows[i].name;
    }
    return NULL;
}

uint64_t na_options_given(const na_command_line_t *line) {
    uint64_t takes = 0;
    for (size_t i = 0; i < ROWS; i++)
        if ((line->given >> i & 1) != 0) takes |= option_rows[i].takes;
    return takes;
}

uint64_t na_options_takes(const char *name) {
    size_t i = 0;
    while (strcmp(option_rows[i].name, name) != 0)
        i++;
    return option_rows[i].takes;
}

void na_options_each(uint64_t takes, void (*visit)(void *arg, const char *name), void *arg) {
    for (size_t i = 0; i < ROWS; i++)
        if ((option_rows[i].takes & takes) != 0) visit(arg, option_rows[i].name);
}

const char *na_options_name(uint64_t takes) {
    size_t i = 0;
    while (i + 1 < ROWS && (option_rows[i].takes & takes) == 0)
        i++;
    return option_rows[i].name;
}

void na_options_help(uint64_t takes, bool names) {
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *row = &option_rows[i];
        if (row->help == NULL || (row->takes != TAKEN_BY_ALL && (row->takes & takes) == 0))
            continue;
        if (names) {
            printf("--%s%s\n", row->name, row->value == NULL ? "" : "=");
            continue;
        }
        char head[64];
        snprintf(head, sizeof head, "--%s%s%s", row->name, row->value == NULL ? "" : " ",
                 row->value == NULL ? "" : row->value);
        const char *text = row->help;
        if (strlen(head) > 18) {
            printf("  %s\n", head);
            head[0] = 0;
        }
        while (*text != 0) {
            size_t length = strcspn(text, "\n");
            printf("  %-18s %.*s\n", head, (int)length, text);
            text += length + (text[length] == '\n');
            head[0] = 0;
        }
    }
}
