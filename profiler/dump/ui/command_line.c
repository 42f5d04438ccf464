/* command_line.c - reads the command line by one table of options. See command_line.h. */
#include "profiler/dump/ui/command_line.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/options/nearest.h"
#include "profiler/containers/quantity.h"
#include "profiler/dump/ui/progress.h"
#include "profiler/dump/ui/text.h"

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

/* ---- types ---- */

typedef struct option_row option_row_t;

/* Puts the value at `at`, a member of the row's type; false: wrong, which was said. */
typedef bool option_reader_t(const option_row_t *row, const char *value, void *at);

struct option_row {
    const char *name;
    option_reader_t *read;
    double of; /* of the type: the most, or the value */
    size_t offset;
    na_option_set_t set;
    const char *argument, *help; /* "": none; the help of one that is not shown */
};

static bool refuse_value(const option_row_t *row, const char *takes, const char *value) {
    na_fail("--%s takes %s, not: %s", row->name, takes, value);
    return false;
}

static bool read_flag(const option_row_t *row, const char *value, void *at) {
    bool *to = at;
    (void)row, (void)value;
    return *to = true;
}

static bool read_is(const option_row_t *row, const char *value, void *at) {
    unsigned *to = at;
    (void)value;
    *to = (unsigned)row->of;
    return true;
}

static bool read_word(const option_row_t *row, const char *value, void *at) {
    const char **to = at;
    (void)row;
    *to = value;
    return true;
}

static bool read_choice(const option_row_t *row, const char *value, void *at) {
    unsigned *to = at;
    size_t length = strlen(value);
    *to = 0;
    for (const char *word = row->argument;; word++, ++*to) {
        size_t n = strcspn(word, "|");
        if (n == length && strncmp(word, value, n) == 0) return true;
        word += n;
        if (*word == 0) break;
    }
    char words[128];
    size_t used = 0;
    for (const char *c = row->argument; *c != 0 && used + 5 < sizeof words; c++)
        used += (size_t)sprintf(words + used, *c == '|' ? " or " : "%c", *c);
    na_fail("--%s takes %s, not: %s; see numalloc-dump --help", row->name, words, value);
    return false;
}

static bool read_whole(const option_row_t *row, const char *value, uint64_t *number) {
    char *end;
    errno = 0;
    *number = strtoull(value, &end, 10);
    if (value[0] >= '0' && value[0] <= '9' && *end == 0 && errno == 0) return true;
    na_fail("--%s takes a number, not: %s; see numalloc-dump --help", row->name, value);
    return false;
}

static bool read_number(const option_row_t *row, const char *value, void *at) {
    uint32_t *to = at;
    uint64_t number;
    if (!read_whole(row, value, &number)) return false;
    *to = (double)number < row->of ? (uint32_t)number : (uint32_t)row->of;
    return true;
}

static bool read_rows(const option_row_t *row, const char *value, void *at) {
    size_t *to = at;
    uint64_t number;
    if (!read_whole(row, value, &number)) return false;
    *to = number == 0 ? SIZE_MAX : (size_t)number;
    return true;
}

static bool read_percent(const option_row_t *row, const char *value, void *at) {
    double *to = at;
    const char *end;
    if (!na_quantity_number(value, to, &end) || (*end != 0 && strcmp(end, "%") != 0) || *to > 100)
        return refuse_value(row, "a percentage, 0 to 100", value);
    *to /= 100;
    return true;
}

static bool read_seconds(const option_row_t *row, const char *value, void *at) {
    double *to = at;
    if (na_quantity_ms(value, 1000, to) && *to > 0 && (*to /= 1000) <= row->of) return true;
    char takes[64];
    snprintf(takes, sizeof takes, "seconds, more than 0 and up to %.0f", row->of);
    return refuse_value(row, takes, value);
}

static bool read_bytes_or_off(const option_row_t *row, const char *value, void *at) {
    uint64_t *to = at;
    double bytes = 0;
    if (strcmp(value, "off") != 0 && (!na_quantity_bytes(value, &bytes) || bytes > 1e18))
        return refuse_value(row, "a size such as 256M, or off", value);
    *to = (uint64_t)bytes;
    return true;
}

static bool read_bytes_or_share(const option_row_t *row, const char *value, void *at) {
    na_option_amount_t *to = at;
    const char *end;
    double number;
    *to = (na_option_amount_t){.given = true};
    if (na_quantity_number(value, &number, &end) && strcmp(end, "%") == 0) {
        to->share = number / 100;
        if (number > 0 && number <= 100) return true;
    } else if (strchr(value, ' ') == NULL && na_quantity_bytes(value, &to->bytes) &&
               to->bytes > 0 && to->bytes < 1e18) {
        return true;
    }
    return refuse_value(row, "a size such as 500M or 2G, or a share of the peak such as 30%",
                        value);
}

static bool read_address(const option_row_t *row, const char *value, void *at) {
    const char **to = at;
    char *end;
    errno = 0;
    if (strtoull(value, &end, 16) == 0 || *end != 0 || errno != 0)
        return refuse_value(row, "a hexadecimal address", value);
    *to = value;
    return true;
}

static bool compile_regex(const option_row_t *row, const char *value, regex_t *to) {
    int wrong = regcomp(to, value, REG_EXTENDED | REG_NOSUB);
    if (wrong == 0) return true;
    char why[128];
    regerror(wrong, to, why, sizeof why);
    na_fail("--%s takes a regular expression (%s), not: %s; see numalloc-dump --help", row->name,
            why, value);
    return false;
}

static bool read_regex(const option_row_t *row, const char *value, void *at) {
    na_option_regex_t *to = at;
    if (to->given) regfree(&to->regex);
    return to->given = compile_regex(row, value, &to->regex);
}

static bool too_many(const option_row_t *row) {
    na_fail("more than %d times --%s", NA_MAX_REPEATED, row->name);
    return false;
}

static bool read_regexes(const option_row_t *row, const char *value, void *at) {
    na_option_regexes_t *to = at;
    if (to->count == NA_MAX_REPEATED) return too_many(row);
    if (!compile_regex(row, value, &to->items[to->count])) return false;
    to->count++;
    return true;
}

static bool read_words(const option_row_t *row, const char *value, void *at) {
    na_option_words_t *to = at;
    if (to->count == NA_MAX_REPEATED) return too_many(row);
    to->items[to->count++] = value;
    return true;
}

static bool read_pairs(const option_row_t *row, const char *value, void *at) {
    return strchr(value, '=') != NULL ? read_words(row, value, at)
                                      : refuse_value(row, row->argument, value);
}

/* ---- the table ---- */

/* Of each type the reader, what it has in parentheses, and the type of the member. */
#define FLAG           read_flag, 0, bool
#define IS(value)      read_is, value, unsigned
#define CHOICE         read_choice, 0, unsigned
#define WORD           read_word, 0, const char *
#define NUMBER(most)   read_number, most, uint32_t
#define ROWS           read_rows, 0, size_t
#define PERCENT        read_percent, 0, double
#define SECONDS(most)  read_seconds, most, double
#define BYTES_OR_OFF   read_bytes_or_off, 0, uint64_t
#define BYTES_OR_SHARE read_bytes_or_share, 0, na_option_amount_t
#define HEX            read_address, 0, const char *
#define REGEX          read_regex, 0, na_option_regex_t
#define REGEXES        read_regexes, 0, na_option_regexes_t
#define WORDS          read_words, 0, na_option_words_t
#define PAIRS          read_pairs, 0, na_option_words_t

/* No match: the member is of another type.
 * NOLINTBEGIN(bugprone-macro-parentheses): a type takes none. */
#define OFFSET(member, type)                                                                       \
    (offsetof(na_options_t, member) + 0 * sizeof _Generic(&((na_options_t *)0)->member, type * : 0))
/* NOLINTEND(bugprone-macro-parentheses) */
#define ROW(name, member, set, argument, help, reader, of, type)                                   \
    {name, reader, of, OFFSET(member, type), NA_SET_##set, argument, help},
#define NA_DUMP_GROUP(title)
#define NA_DUMP_OPTION(name, type, member, set, argument, help)                                    \
    ROW(name, member, set, argument, help, type)
static const option_row_t option_rows[] = {
#include "profiler/dump/ui/options.def"
};
#define OPTIONS (sizeof option_rows / sizeof option_rows[0])

static bool is_taken(const option_row_t *row, uint64_t takes) {
    return ((takes | NA_TAKES(EVERY)) >> row->set & 1) != 0;
}

/* One that is there was written without its value, or with one that it does not take. */
static void refuse_option(const char *word) {
    char hint[80];
    na_nearest_t nearest = {.typed = word};
    if (strncmp(word, "--", 2) == 0) {
        nearest.typed += 2;
        nearest.length = strcspn(word + 2, "=");
    }
    for (size_t i = 0; i < OPTIONS && nearest.length != 0; i++)
        na_nearest_try(&nearest, option_rows[i].name);
    if (nearest.word != NULL && nearest.mistakes == 0) nearest.word = NULL;
    na_fail("unknown option, or its value is missing: %s%s; see numalloc-dump --help", word,
            na_nearest_text(&nearest, "--", hint));
}

/* What getopt gives for the first row: beyond all letters. */
enum { FIRST_ROW = 256 };

static int row_of_letter(int letter) {
    const char *name = letter == 'h' ? "help" : letter == 'o' ? "output" : NULL;
    for (size_t i = 0; name != NULL && i < OPTIONS; i++)
        if (strcmp(option_rows[i].name, name) == 0) return FIRST_ROW + (int)i;
    return letter;
}

bool na_options_read(na_command_line_t *line, int argc, char **argv) {
    na_options_t *o = &line->options;
    memset(line, 0, sizeof *line);
    o->table.top = 20;
    o->drawing.depth = 16;
    o->drawing.min_share = 0.01;
    o->policy.min_gain = 0.01;
    o->policy.min_chance = 0.8;
    o->source.context = 2;
    o->frames.symbol_cache = UINT64_C(256) << 20;
    line->words = calloc((size_t)argc + 1, sizeof *line->words);
    if (line->words == NULL) {
        na_fail("out of memory");
        return false;
    }
    struct option options[OPTIONS + 1];
    memset(options, 0, sizeof options);
    for (size_t i = 0; i < OPTIONS; i++) {
        options[i].name = option_rows[i].name;
        options[i].has_arg = option_rows[i].argument[0] == 0 ? no_argument : required_argument;
        options[i].val = FIRST_ROW + (int)i;
    }
    opterr = 0;
    optind = 1;
    /* "-": words come in order, as option 1, so that a view's name may stand before its options. */
    for (int id; (id = getopt_long(argc, argv, "-ho:", options, NULL)) != -1;) {
        if (id == 1) {
            line->words[line->word_count++] = optarg;
            continue;
        }
        id = row_of_letter(id);
        if (id < FIRST_ROW) {
            refuse_option(argv[optind - 1]);
            return false;
        }
        const option_row_t *row = &option_rows[id - FIRST_ROW];
        if (!row->read(row, optarg, (char *)o + row->offset)) return false;
        o->given |= UINT64_C(1) << row->set;
    }
    if (o->frames.stacks) o->frames.sites = true;
    while (optind < argc)
        line->words[line->word_count++] = argv[optind++]; /* after "--" */
    return true;
}

void na_options_free(na_command_line_t *line) {
    na_options_t *o = &line->options;
    if (o->table.filter.given) regfree(&o->table.filter.regex);
    for (size_t i = 0; i < o->frames.skip.count; i++)
        regfree(&o->frames.skip.items[i]);
    free(line->words);
}

const char *na_options_unwanted(uint64_t given, uint64_t takes, uint64_t *set) {
    for (size_t i = 0; i < OPTIONS; i++) {
        *set = UINT64_C(1) << option_rows[i].set;
        if ((given & *set) != 0 && !is_taken(&option_rows[i], takes)) return option_rows[i].name;
    }
    return NULL;
}

void na_options_each(uint64_t takes, void (*visit)(void *arg, const char *name), void *arg) {
    for (size_t i = 0; i < OPTIONS; i++)
        if ((takes >> option_rows[i].set & 1) != 0) visit(arg, option_rows[i].name);
}

const char *na_options_name(uint64_t takes) {
    size_t i = 0;
    while (i + 1 < OPTIONS && (takes >> option_rows[i].set & 1) == 0)
        i++;
    return option_rows[i].name;
}

void na_options_help(uint64_t takes, bool names) {
    for (size_t i = 0; i < OPTIONS; i++) {
        const option_row_t *row = &option_rows[i];
        bool has_argument = row->argument[0] != 0;
        if (row->help[0] == 0 || !is_taken(row, takes)) continue;
        if (names) {
            printf("--%s%s\n", row->name, has_argument ? "=" : "");
            continue;
        }
        char head[64];
        snprintf(head, sizeof head, "--%s%s%s", row->name, has_argument ? " " : "", row->argument);
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
