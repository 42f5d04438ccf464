/* command.c - the command line of numalloc-run, from the table in options.def. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/options/nearest.h"
#include "numalloc/numalloc.h"
#include "profiler/containers/quantity.h"
#include "profiler/run/run.h"

typedef enum option_id {
#define NA_RUN_GROUP(title)
#define NA_RUN_OPTION(id, letter, name, argument, meaning) OPTION_##id,
#include "profiler/run/options.def"
#undef NA_RUN_GROUP
#undef NA_RUN_OPTION
    OPTIONS
} option_id_t;

/* A row without a name is the title of a group. */
static const struct {
    int letter;
    const char *name, *argument, *meaning;
} rows[] = {
#define NA_RUN_GROUP(title)                                {0, NULL, NULL, title},
#define NA_RUN_OPTION(id, letter, name, argument, meaning) {letter, name, argument, meaning},
#include "profiler/run/options.def"
#undef NA_RUN_GROUP
#undef NA_RUN_OPTION
};
#define ROWS (sizeof rows / sizeof rows[0])

/* What getopt gives for an option: beyond all letters. */
enum { FIRST_VALUE = 256 };

typedef struct getopt_table {
    struct option long_options[OPTIONS + 1];
    char letters[3 * OPTIONS + 3];
    int by_letter[128]; /* option_id_t */
} getopt_table_t;

static void make_option_table(getopt_table_t *table) {
    memset(table, 0, sizeof *table);
    size_t used = 0;
    int id = 0;
    table->letters[used++] = '+'; /* options end where the program begins */
    table->letters[used++] = ':';
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].name == NULL) continue;
        int takes = rows[i].argument[0] == '[' ? optional_argument
                    : rows[i].argument[0] == 0 ? no_argument
                                               : required_argument;
        table->long_options[id] = (struct option){rows[i].name, takes, NULL, FIRST_VALUE + id};
        if (rows[i].letter != 0) {
            table->by_letter[rows[i].letter] = id;
            table->letters[used++] = (char)rows[i].letter;
            for (int colons = takes; colons > 0; colons--)
                table->letters[used++] = ':';
        }
        id++;
    }
}

static void print_help(void) {
    printf("Usage: numalloc-run [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
           "       numalloc-run --start|--stop|--dump|--attach|--growth=TIME PID\n"
           "       numalloc-run --status[=PID] [--openmetrics]\n"
           "Runs a program with numalloc as its malloc. With a profile it says at the end, on "
           "standard\nerror, where the memory went.\n");
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].name == NULL) {
            printf("\n%s:\n", rows[i].meaning);
            continue;
        }
        char left[64], letter[8] = "    ";
        if (rows[i].letter != 0) snprintf(letter, sizeof letter, "-%c, ", rows[i].letter);
        snprintf(left, sizeof left, "%s--%s%s", letter, rows[i].name, rows[i].argument);
        printf("  %-22s %s\n", left, rows[i].meaning);
    }
    printf("\nOther options of the library are environment variables: NUMALLOC_LIMIT=2G "
           "numalloc-run ./app\n"
           "Exit status: the program's; 125: numalloc-run failed, 126: the program cannot be run "
           "(so),\n127: there is none. numalloc-run(1) and docs/numalloc-run.md have more.\n");
}

/* For completion: "--name", "--name=" or "--name[=]" a line. */
static void print_option_names(void) {
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].name != NULL)
            printf("--%s%s\n", rows[i].name,
                   rows[i].argument[0] == 0     ? ""
                   : rows[i].argument[0] == '[' ? "[=]"
                                                : "=");
}

static int mistake(const char *what, const char *name) {
    na_run_say("%s%s; see numalloc-run --help", what, name);
    return NA_RUN_FAILED;
}

/* `word`: "--name" or "--name=value". */
static int no_such_option(const char *word) {
    char hint[80];
    na_nearest_t nearest = {.typed = word + 2, .length = strcspn(word + 2, "=")};
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].name != NULL) na_nearest_try(&nearest, rows[i].name);
    na_nearest_text(&nearest, "--", hint);
    na_run_say("no such option, or short for several: %s%s; see numalloc-run --help", word, hint);
    return NA_RUN_FAILED;
}

/* The text goes to the library, which takes whole numbers, and "KiB" but not "Ki". */
static bool is_bytes(const char *text) {
    double bytes;
    return na_quantity_bytes(text, &bytes) && bytes < 1e15 && strpbrk(text, ". eE") == NULL &&
           (text[strlen(text) - 1] | 0x20) != 'i';
}

/* The words of NUMALLOC_ACCESS, from the library's table. */
#define CHOICE(words)     words
#define MODE(words)       NULL
#define BYTES(a, b)       NULL
#define BYTES_OR_0(a, b)  NULL
#define POWER_OF_2(a, b)  NULL
#define MS(a, b)          NULL
#define MS_OR_0(a, b)     NULL
#define NUMBER(a, b)      NULL
#define NUMBER_OR_0(a, b) NULL
#define BOOL              NULL
#define TEXT              NULL
static const char *access_words(void) {
    static const struct {
        const char *name, *words;
    } options[] = {
#define NA_OPTION(id, type, fallback, meaning) {#id, type},
#define NA_TEST_OPTION(id, type, fallback, meaning)
#include "alloc/core/sys/options.def"
#undef NA_OPTION
#undef NA_TEST_OPTION
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (strcmp(options[i].name, "ACCESS") == 0) return options[i].words;
    return "";
}

static bool is_source(const char *word) {
    size_t length = strlen(word);
    for (const char *w = access_words(); *w != 0; w += *w == '|') {
        size_t n = strcspn(w, "|");
        if (n == length && strncmp(w, word, n) == 0) return true;
        w += n;
    }
    return false;
}

/* With something else between them. */
static const char *listed_sources(char between, char out[128]) {
    snprintf(out, 128, "%s", access_words());
    for (char *c = out; *c != 0; c++)
        if (*c == '|') *c = between;
    return out;
}

static int bad_source(const char *word) {
    char words[128];
    listed_sources(' ', words);
    na_run_say("--access takes one of %s, not: %s", words, word);
    return NA_RUN_FAILED;
}

static int set_mode(na_run_command_t *c, const char *mode, const char *by) {
    if (c->mode != NULL && strcmp(c->mode, mode) != 0)
        return mistake("one of --profile, --sample and --trace, not several", "");
    c->mode = mode;
    c->by = by;
    return -1;
}

static int set_pid(na_run_command_t *c, const char *text) {
    char *end;
    long pid = strtol(text, &end, 10);
    if (*text == 0 || *end != 0 || pid <= 0 || pid > INT_MAX)
        return mistake("the number of a process is wanted, not: ", text);
    c->pid = (pid_t)pid;
    return -1;
}

static int set_request(na_run_command_t *c, na_run_request_t request) {
    if (c->request != NA_RUN_NONE)
        return mistake("one of --start, --stop, --dump, --growth, --attach and --status", "");
    c->request = request;
    return -1;
}

static int set_request_to(na_run_command_t *c, na_run_request_t request, const char *text) {
    int status = set_request(c, request);
    return status != -1 ? status : set_pid(c, text);
}

/* With fewer rounds there is no interval of 95 %. */
static int set_rounds(unsigned *rounds, const char *wrong, const char *text) {
    char *end;
    long value = strtol(text, &end, 10);
    if (*text == 0 || *end != 0 || value < 6 || value > 1000) return mistake(wrong, text);
    *rounds = (unsigned)value;
    return -1;
}

/* In ms; bare numbers are seconds. 0: it is none. */
static double parse_time(const char *text) {
    double ms;
    return na_quantity_ms(text, 1000, &ms) && ms >= 10 && ms <= 366.0 * 86400e3 ? ms : 0;
}

static int set_every(na_run_command_t *c, const char *text) {
    double ms = parse_time(text);
    /* "5m" might be meant to be ms. */
    if (!(ms > 0) || strchr("mMhH", text[strlen(text) - 1]) != NULL)
        return mistake("--dump-every takes seconds, such as 60 or 500ms, not: ", text);
    snprintf(c->every, sizeof c->every, "%.0fms", ms);
    return -1;
}

static int set_growth(na_run_command_t *c, const char *text) {
    double ms = parse_time(text);
    if (!(ms > 0) || ms > INT_MAX)
        return mistake("--growth takes a time, such as 10m or 30s, not: ", text);
    c->growth_ms = (unsigned)ms;
    return set_request(c, NA_RUN_GROWTH);
}

static int apply(na_run_command_t *c, option_id_t id, const char *argument) {
    switch (id) {
    case OPTION_PROFILE:
        return set_mode(c, "sites", "--profile");
    case OPTION_SAMPLE:
        if (argument != NULL && !is_bytes(argument))
            return mistake("--sample takes bytes, such as 64K, not: ", argument);
        c->interval = argument;
        return set_mode(c, "sample", "--sample");
    case OPTION_TRACE:
        return set_mode(c, "trace", "--trace");
    case OPTION_ACCESS:
        c->access = argument != NULL ? argument : "auto";
        return is_source(c->access) ? -1 : bad_source(c->access);
    case OPTION_PYTHON:
        c->python = true;
        break;
    case OPTION_DUMP_EVERY:
        return set_every(c, argument);
    case OPTION_LATER:
        c->later = true;
        break;
    case OPTION_CHECK:
        c->check = true;
        break;
    case OPTION_LEAKS:
        c->leaks = true;
        break;
    case OPTION_STATS:
        c->stats = true;
        break;
    case OPTION_POLICY:
        if (*argument == 0) return mistake("--policy takes a file", "");
        c->policy = argument;
        break;
    case OPTION_ROUNDS:
        return set_rounds(&c->rounds, "--rounds takes a number from 6 to 1000, not: ", argument);
    case OPTION_TUNE:
        return set_rounds(&c->tune, "--tune takes a number from 6 to 1000, not: ", argument);
    case OPTION_LIBRARY:
        c->library = argument;
        break;
    case OPTION_LIMIT:
        return na_run_read_limit(c, argument) ? -1 : NA_RUN_FAILED;
    case OPTION_BASELINE:
        if (*argument == 0) return mistake("--baseline takes a profile", "");
        c->baseline = argument;
        break;
    case OPTION_GITHUB:
        c->github = true;
        break;
    case OPTION_JUNIT:
        if (*argument == 0) return mistake("--junit takes a file", "");
        c->junit = argument;
        break;
    case OPTION_OUTPUT:
        if (*argument == 0) return mistake("--output takes a name", "");
        c->output = argument;
        break;
    case OPTION_REPORT:
        c->report = true;
        break;
    case OPTION_HTML:
        c->html = true;
        break;
    case OPTION_QUIET:
        c->quiet = true;
        break;
    case OPTION_ENVIRONMENT:
        c->environment = true;
        break;
    case OPTION_START:
        return set_request_to(c, NA_RUN_START, argument);
    case OPTION_STOP:
        return set_request_to(c, NA_RUN_STOP, argument);
    case OPTION_DUMP:
        return set_request_to(c, NA_RUN_DUMP, argument);
    case OPTION_ATTACH:
        return set_request_to(c, NA_RUN_ATTACH, argument);
    case OPTION_GROWTH:
        return set_growth(c, argument);
    case OPTION_STATUS: {
        int status = set_request(c, NA_RUN_STATUS);
        return status != -1 || argument == NULL ? status : set_pid(c, argument);
    }
    case OPTION_OPENMETRICS:
        c->openmetrics = true;
        break;
    case OPTION_HELP:
        print_help();
        return 0;
    case OPTION_VERSION:
        printf("numalloc-run %d.%d.%d\n", NUMALLOC_VERSION_MAJOR, NUMALLOC_VERSION_MINOR,
               NUMALLOC_VERSION_PATCH);
        return 0;
    case OPTIONS:
        break;
    }
    return -1;
}

static int check_request(na_run_command_t *c) {
    bool begins = c->request == NA_RUN_START || c->request == NA_RUN_GROWTH;
    if (c->request == NA_RUN_GROWTH) {
        if (c->program[0] == NULL) return mistake("--growth", " needs a PID: --growth=10m PID");
        int status = set_pid(c, *c->program++);
        if (status != -1) return status;
    }
    if (c->program[0] != NULL) return mistake("with a PID no program is run: ", c->program[0]);
    if (!begins && (c->mode != NULL || c->access != NULL || c->output != NULL))
        return mistake("a profile gets its mode and place as it begins",
                       ", by --start or --growth");
    if (c->interval != NULL)
        return mistake("--sample=", "BYTES is for programs that are started; here, --sample");
    return -1;
}

/* Limits bring a profile along. */
static int check_limits(na_run_command_t *c) {
    if (!na_run_has_limits(c))
        return c->github || c->junit != NULL
                   ? mistake(c->github ? "--github" : "--junit", " needs --limit or --baseline")
                   : -1;
    if (c->increase != NULL && c->baseline == NULL)
        return mistake("needs --baseline=FILE: --limit=", c->increase);
    if (c->request != NA_RUN_NONE || c->rounds != 0 || c->tune != 0 || c->later || c->environment)
        return mistake("limits are for a program that is run with a profile, to its end", "");
    if (c->mode != NULL || c->access != NULL || na_run_variable("NUMALLOC_PROFILE") != NULL)
        return -1;
    return set_mode(c, "sites", c->limit_count != 0 ? "--limit" : "--baseline");
}

/* The options together. */
static int check_command(na_run_command_t *c) {
    int limits = check_limits(c);
    if (limits != -1) return limits;
    bool profile = c->mode != NULL || c->access != NULL || c->later ||
                   na_run_variable("NUMALLOC_PROFILE") != NULL;
    if (c->openmetrics && c->request != NA_RUN_STATUS)
        return mistake("--openmetrics", " needs --status");
    if (c->request != NA_RUN_NONE) return check_request(c);
    if (c->rounds != 0 && c->policy == NULL) return mistake("--rounds", " needs --policy=FILE");
    if (c->rounds != 0 && (profile || c->environment))
        return mistake("--rounds goes with neither a profile nor --env", "");
    if (c->tune != 0 && (c->mode != NULL || c->later || c->environment || c->rounds != 0 ||
                         c->report || c->html || na_run_variable("NUMALLOC_PROFILE") != NULL))
        return mistake("--tune", " makes its own profile and rounds, and no page");
    if (c->program[0] == NULL && !c->environment) return mistake("no program named", "");
    if (!profile && c->tune == 0 && (c->report || c->html || c->output != NULL))
        return mistake(c->report ? "--report"
                       : c->html ? "--html"
                                 : "--output",
                       " needs a profile: --profile, --sample or --trace");
    if (!profile && c->every[0] != 0)
        return mistake("--dump-every", " needs a profile: --profile, --sample or --trace");
    if (c->quiet && (c->report || c->html))
        return mistake("--quiet goes with neither --report nor --html", "");
    return -1;
}

int na_run_read_command(na_run_command_t *c, int argc, char **argv) {
    *c = (na_run_command_t){0};
    if (argc == 2 && strcmp(argv[1], "--names") == 0) {
        print_option_names();
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--names=access") == 0) {
        char words[128];
        puts(listed_sources('\n', words));
        return 0;
    }
    getopt_table_t table;
    make_option_table(&table);
    int value;
    opterr = 0;
    while ((value = getopt_long(argc, argv, table.letters, table.long_options, NULL)) != -1) {
        const char *word = argv[optind - 1];
        if (value == ':') return mistake("an argument is missing: ", word);
        if (value == '?' && optopt != 0 && optopt < FIRST_VALUE) {
            char letter[3] = {'-', (char)optopt, 0};
            return mistake("no such option: ", letter);
        }
        if (value == '?' && optopt != 0) return mistake("takes no argument: ", word);
        if (value == '?') return no_such_option(word);
        int id = value >= FIRST_VALUE ? value - FIRST_VALUE : table.by_letter[value];
        int status = apply(c, (option_id_t)id, optarg);
        if (status != -1) return status;
    }
    c->program = argv + optind;
    return check_command(c);
}
