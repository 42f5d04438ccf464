/* test_options.c - the table of options, the reader of the environment, and docs/options.md.
 *
 * Linked with the few sources it needs and not with the library, which reads the environment itself
 * before main. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/core/sys/os.h"
#include "alloc/options/options_read.h"

static char warnings[16384];

/* Reads the options from an environment of just these strings (NULL ends them), and what that
 * prints on stderr into `warnings`. */
static void init(char **strings) {
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    int saved = dup(2);
    char **own = environ;
    dup2(ends[1], 2);
    close(ends[1]);
    environ = strings;
    na_options_init();
    environ = own;
    dup2(saved, 2);
    close(saved);
    size_t length = 0;
    for (ssize_t n; (n = read(ends[0], warnings + length, sizeof warnings - 1 - length)) > 0;)
        length += (size_t)n;
    warnings[length] = 0;
    close(ends[0]);
}

#define INIT(...) init((char *[]){__VA_ARGS__, NULL})

static void expect_quiet(void) {
    cr_assert_str_empty(warnings, "%s", warnings);
}

/* One line, that holds each of the three. */
static void expect_warning(const char *a, const char *b, const char *c) {
    cr_assert_eq(strncmp(warnings, "numalloc: ", 10), 0, "%s", warnings);
    cr_assert_eq(strchr(warnings, '\n'), warnings + strlen(warnings) - 1, "%s", warnings);
    cr_assert(strstr(warnings, a) && strstr(warnings, b) && strstr(warnings, c), "%s", warnings);
}

Test(options, defaults) {
    INIT("HOME=/", "NUMALLOCATOR=x", "numalloc_stats=1");
    expect_quiet();
    cr_assert_eq(na_option(NA_OPT_STATS), 0);
    cr_assert_eq(na_option(NA_OPT_CHECK), 0);
    cr_assert_eq(na_option(NA_OPT_ABORT), 1);
    cr_assert_eq(na_option(NA_OPT_LIMIT), 0);
    cr_assert_eq(na_option(NA_OPT_PURGE_DELAY), 500);
    cr_assert_eq(na_option(NA_OPT_HUGEPAGES), NA_HUGE_AUTO);
    cr_assert_eq(na_option(NA_OPT_REGION_SIZE), 1u << 30);
    cr_assert_eq(na_option(NA_OPT_BACKGROUND), 0);
    cr_assert_eq(na_option(NA_OPT_NUMA), NA_NUMA_PREFERRED);
    cr_assert_null(na_option_text(NA_OPT_PROFILE));
    cr_assert_null(na_option_text(NA_OPT_PROFILE_FILE));
    cr_assert_eq(na_option(NA_OPT_SAMPLE_INTERVAL), 512u << 10);
}

Test(options, empty_environment) {
    init(NULL);
    expect_quiet();
    cr_assert_eq(na_option(NA_OPT_PURGE_DELAY), 500);
}

Test(options, empty_value_is_the_default) {
    INIT("NUMALLOC_ABORT=", "NUMALLOC_PROFILE=", "NUMALLOC_NUMA=", "NUMALLOC_LIMIT=");
    expect_quiet();
    cr_assert_eq(na_option(NA_OPT_ABORT), 1);
    cr_assert_eq(na_option(NA_OPT_NUMA), NA_NUMA_PREFERRED);
    cr_assert_null(na_option_text(NA_OPT_PROFILE));
}

Test(options, bools) {
    const char *const on[] = {"1", "on", "yes", "true", "True", "ON"};
    const char *const off[] = {"0", "off", "no", "false", "No"};
    char string[64];
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
        snprintf(string, sizeof string, "NUMALLOC_STATS=%s", on[i]);
        INIT(string);
        expect_quiet();
        cr_assert_eq(na_option(NA_OPT_STATS), 1, "%s", string);
    }
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        snprintf(string, sizeof string, "NUMALLOC_ABORT=%s", off[i]);
        INIT(string);
        expect_quiet();
        cr_assert_eq(na_option(NA_OPT_ABORT), 0, "%s", string);
    }
    INIT("NUMALLOC_STATS=2");
    expect_warning("NUMALLOC_STATS=2", "0 or 1", "default is 0");
    cr_assert_eq(na_option(NA_OPT_STATS), 0);
}

Test(options, bytes) {
    const struct {
        const char *string;
        uint64_t value;
    } good[] = {
        {"NUMALLOC_LIMIT=0", 0},
        {"NUMALLOC_LIMIT=1048576", 1 << 20},
        {"NUMALLOC_LIMIT=2048k", 2 << 20},
        {"NUMALLOC_LIMIT=2048KiB", 2 << 20},
        {"NUMALLOC_LIMIT=3M", 3 << 20},
        {"NUMALLOC_LIMIT=3mb", 3 << 20},
        {"NUMALLOC_LIMIT=5G", (uint64_t)5 << 30},
        {"NUMALLOC_LIMIT=7TiB", (uint64_t)7 << 40},
        {"NUMALLOC_LIMIT=2097152B", 2 << 20},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        INIT((char *)(uintptr_t)good[i].string);
        expect_quiet();
        cr_assert_eq(na_option(NA_OPT_LIMIT), good[i].value, "%s", good[i].string);
    }
    const char *const bad[] = {
        "NUMALLOC_LIMIT=1",
        "NUMALLOC_LIMIT=-5M",
        "NUMALLOC_LIMIT=M",
        "NUMALLOC_LIMIT=1.5G",
        "NUMALLOC_LIMIT=5 G",
        "NUMALLOC_LIMIT=5GX",
        "NUMALLOC_LIMIT=0x10000",
        "NUMALLOC_LIMIT=5i",
        "NUMALLOC_LIMIT=99999999999999999999",
        "NUMALLOC_LIMIT=18446744073709551615K",
        "NUMALLOC_LIMIT=9000T",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        INIT((char *)(uintptr_t)bad[i]);
        expect_warning(bad[i], "0 or 1.00 MiB to", "512M");
        cr_assert_eq(na_option(NA_OPT_LIMIT), 0, "%s", bad[i]);
    }
}

Test(options, region_size_is_a_power_of_two) {
    INIT("NUMALLOC_REGION_SIZE=256M");
    expect_quiet();
    cr_assert_eq(na_option(NA_OPT_REGION_SIZE), 256u << 20);
    const char *const bad[] = {"NUMALLOC_REGION_SIZE=300M", "NUMALLOC_REGION_SIZE=64M",
                               "NUMALLOC_REGION_SIZE=0", "NUMALLOC_REGION_SIZE=1T"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        INIT((char *)(uintptr_t)bad[i]);
        expect_warning(bad[i], "power of two", "128.00 MiB to 64.00 GiB");
        cr_assert_eq(na_option(NA_OPT_REGION_SIZE), 1u << 30);
    }
}

Test(options, milliseconds) {
    INIT("NUMALLOC_PURGE_DELAY=0");
    cr_assert_eq(na_option(NA_OPT_PURGE_DELAY), 0);
    INIT("NUMALLOC_PURGE_DELAY=20ms");
    cr_assert_eq(na_option(NA_OPT_PURGE_DELAY), 20);
    INIT("NUMALLOC_PURGE_DELAY=3s");
    expect_quiet();
    cr_assert_eq(na_option(NA_OPT_PURGE_DELAY), 3000);
    INIT("NUMALLOC_PURGE_DELAY=3min");
    expect_warning("NUMALLOC_PURGE_DELAY=3min", "milliseconds", "500");
    cr_assert_eq(na_option(NA_OPT_PURGE_DELAY), 500);
    INIT("NUMALLOC_PURGE_DELAY=18446744073709551615s");
    expect_warning("NUMALLOC_PURGE_DELAY", "milliseconds", "86400000");
}

Test(options, choices) {
    INIT("NUMALLOC_NUMA=strict", "NUMALLOC_HUGEPAGES=Never");
    expect_quiet();
    cr_assert_eq(na_option(NA_OPT_NUMA), NA_NUMA_STRICT);
    cr_assert_eq(na_option(NA_OPT_HUGEPAGES), NA_HUGE_NEVER);
    INIT("NUMALLOC_HUGEPAGES=keep");
    expect_quiet();
    cr_assert_eq(na_option(NA_OPT_HUGEPAGES), NA_HUGE_KEEP);
    INIT("NUMALLOC_NUMA=unbound", "NUMALLOC_HUGEPAGES=always");
    cr_assert_eq(na_option(NA_OPT_NUMA), NA_NUMA_UNBOUND);
    cr_assert_eq(na_option(NA_OPT_HUGEPAGES), NA_HUGE_ALWAYS);
    INIT("NUMALLOC_NUMA=off");
    expect_quiet();
    cr_assert_eq(na_option(NA_OPT_NUMA), NA_NUMA_OFF);
    const char *const bad[] = {"NUMALLOC_NUMA=stric", "NUMALLOC_NUMA=strictly",
                               "NUMALLOC_NUMA=strict|unbound", "NUMALLOC_NUMA=|"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        INIT((char *)(uintptr_t)bad[i]);
        expect_warning(bad[i], "preferred|strict|unbound|off is accepted", "default");
        cr_assert_eq(na_option(NA_OPT_NUMA), NA_NUMA_PREFERRED);
    }
}

Test(options, profile) {
    INIT("NUMALLOC_PROFILE=sample", "NUMALLOC_PROFILE_FILE=/tmp/%p.nprof",
         "NUMALLOC_SAMPLE_INTERVAL=0");
    expect_quiet();
    cr_assert_str_eq(na_option_text(NA_OPT_PROFILE), "sample");
    cr_assert_str_eq(na_option_text(NA_OPT_PROFILE_FILE), "/tmp/%p.nprof");
    cr_assert_eq(na_option(NA_OPT_SAMPLE_INTERVAL), 0);
    INIT("NUMALLOC_PROFILE=SITES");
    expect_quiet();
    cr_assert_str_eq(na_option_text(NA_OPT_PROFILE), "sites");
    INIT("NUMALLOC_PROFILE=off");
    expect_quiet();
    cr_assert_null(na_option_text(NA_OPT_PROFILE));
    INIT("NUMALLOC_PROFILE=off,access=fault");
    expect_quiet();
    cr_assert_null(na_option_text(NA_OPT_PROFILE));
    cr_assert_eq(na_option(NA_OPT_ACCESS), 0);
    INIT("NUMALLOC_PROFILE=sites,access=SPE");
    cr_assert_eq(na_option(NA_OPT_ACCESS), 5, "spe");
    INIT("NUMALLOC_PROFILE=sites,access");
    cr_assert_str_eq(na_option_text(NA_OPT_PROFILE), "sites");
    cr_assert_eq(na_option(NA_OPT_ACCESS), 1, "auto");
    INIT("NUMALLOC_PROFILE=Trace,Access=Watch", "NUMALLOC_ACCESS_PERIOD=5000");
    expect_quiet();
    cr_assert_str_eq(na_option_text(NA_OPT_PROFILE), "trace");
    cr_assert_eq(na_option(NA_OPT_ACCESS), 6, "watch");
    cr_assert_eq(na_option(NA_OPT_ACCESS_PERIOD), 5000);
    cr_assert_eq(na_option(NA_OPT_ACCESS_COST), 3);
    static const char *const wrong[] = {"NUMALLOC_PROFILE=sites,access=magic",
                                        "NUMALLOC_PROFILE=sites,acces", "NUMALLOC_PROFILE=sites,",
                                        "NUMALLOC_PROFILE=sites,access="};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        INIT((char *)wrong[i]);
        expect_warning(wrong[i], "[,access[=off|auto|", "none");
        cr_assert_null(na_option_text(NA_OPT_PROFILE));
        cr_assert_eq(na_option(NA_OPT_ACCESS), 0);
    }
    INIT("NUMALLOC_PROFILE=everything");
    expect_warning("NUMALLOC_PROFILE=everything", "sample|sites", "none");
    cr_assert_null(na_option_text(NA_OPT_PROFILE));
}

Test(options, settings_of_a_profile) {
    uint64_t numbers[NA_OPT_ALL] = {0};
    cr_assert(
        na_option_settings("access=watch,Trace_Max=2M,PYTHON=yes,sample_interval=0", numbers));
    cr_assert_eq(numbers[NA_OPT_ACCESS], 6);
    cr_assert_eq(numbers[NA_OPT_TRACE_MAX], 2 << 20);
    cr_assert_eq(numbers[NA_OPT_PYTHON], 1);
    cr_assert(na_option_settings("access", numbers));
    cr_assert_eq(numbers[NA_OPT_ACCESS], 1, "auto");
    static const char *const wrong[] = {
        "",
        ",",
        "access=watch,",
        ",access",
        "python",
        "python=",
        "=1",
        "acces=watch",
        "access_=1",
        "stats=1",
        "profile=sites",
        "profile_file=x",
        "trace_max=1",
        "access=watch=1",
        "trace_max=11111111111111111111111111111111111111111111111111111111111111111111"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_assert_not(na_option_settings(wrong[i], numbers), "%s", wrong[i]);
    INIT("NUMALLOC_PROFILE=sites,python=1,access=numa,profile_frees=1");
    expect_quiet();
    cr_assert_str_eq(na_option_text(NA_OPT_PROFILE), "sites");
    cr_assert_eq(na_option(NA_OPT_PYTHON), 1);
    cr_assert_eq(na_option(NA_OPT_ACCESS), 7);
    cr_assert_eq(na_option(NA_OPT_PROFILE_FREES), 1);
    INIT("NUMALLOC_PROFILE=sites,python=1,access=magic");
    expect_warning("access=magic", "[,OPTION=VALUE]...", "none");
    cr_assert_eq(na_option(NA_OPT_PYTHON), 0);
}

Test(options, text_survives_the_environment) {
    char string[] = "NUMALLOC_PROFILE_FILE=name";
    INIT(string);
    memset(string, 'x', sizeof string - 1); /* as programs that set their title do */
    cr_assert_str_eq(na_option_text(NA_OPT_PROFILE_FILE), "name");
}

Test(options, too_long_text) {
    static char string[5000] = "NUMALLOC_PROFILE_FILE=";
    memset(string + strlen(string), 'f', sizeof string - strlen(string) - 1);
    INIT(string);
    expect_warning("NUMALLOC_PROFILE_FILE=fff", "...", "4096 characters");
    cr_assert_null(na_option_text(NA_OPT_PROFILE_FILE));
}

Test(options, unknown_names) {
    INIT("NUMALLOC_STAT=1");
    expect_warning("NUMALLOC_STAT ", "did you mean NUMALLOC_STATS?", "");
    INIT("NUMALLOC_PURGE_DEALY=1");
    expect_warning("NUMALLOC_PURGE_DEALY", "did you mean NUMALLOC_PURGE_DELAY?", "");
    INIT("NUMALLOC_ELSEWHERE=a.file");
    expect_warning("NUMALLOC_ELSEWHERE", "unknown", "docs/options.md");
    INIT("NUMALLOC_=1");
    expect_warning("unknown", "docs/options.md", "");
    INIT("NUMALLOC_X"); /* not even a value */
    expect_warning("NUMALLOC_X", "docs/options.md", "");
    INIT("NUMALLOC_STATS"); /* likewise: getenv would not find it */
    expect_warning("NUMALLOC_STATS", "unknown", "");
    INIT("NUMALLOC_AN_OPTION_WITH_A_NAME_THAT_IS_MUCH_LONGER_THAN_ANY_THAT_EXISTS_OR_EVER_WILL=1");
    expect_warning("NUMALLOC_AN_OPTION", "...", "docs/options.md");
}

Test(options, a_warning_is_one_line) {
    INIT("NUMALLOC_STATS=yes\nnumalloc: all is well");
    expect_warning("NUMALLOC_STATS=yes?numalloc", "0 or 1", "");
}

Test(options, every_mistake_warns_once) {
    INIT("NUMALLOC_STATS=7", "NUMALLOC_STATS=8", "NUMALLOC_LIMIT=x", "NUMALLOC_CHECK=1");
    unsigned lines = 0;
    for (const char *c = warnings; *c != 0; c++)
        lines += *c == '\n';
    cr_assert_eq(lines, 2, "%s", warnings);
    cr_assert_eq(na_option(NA_OPT_CHECK), 1, "the good ones still count");
}

Test(options, first_of_two_counts) {
    INIT("NUMALLOC_PURGE_DELAY=1", "NUMALLOC_PURGE_DELAY=2");
    expect_quiet();
    cr_assert_eq(na_option(NA_OPT_PURGE_DELAY), 1);
}

Test(options, secure_programs_ignore_all) {
    na_os_secure = true;
    INIT("NUMALLOC_STATS=1", "NUMALLOC_PROFILE=sites", "NUMALLOC_PROFILE_FILE=/etc/passwd",
         "NUMALLOC_BAD=1");
    na_os_secure = false;
    expect_quiet();
    cr_assert_eq(na_option(NA_OPT_STATS), 0);
    cr_assert_null(na_option_text(NA_OPT_PROFILE));
    cr_assert_null(na_option_text(NA_OPT_PROFILE_FILE));
}

/* Zero, where it means that something is switched off, also if it is not the default. */
Test(options, zero) {
    INIT("NUMALLOC_ACCESS_STACK=0", "NUMALLOC_SAMPLE_INTERVAL=0", "NUMALLOC_PROFILE_DUMP_EVERY=0");
    expect_quiet();
    cr_assert_eq(na_option(NA_OPT_ACCESS_STACK), 0);
    INIT("NUMALLOC_ACCESS_STACK=255");
    expect_warning("NUMALLOC_ACCESS_STACK=255", "0 or 256 B to 8.00 KiB", "1K");
    cr_assert_eq(na_option(NA_OPT_ACCESS_STACK), 1024);
    INIT("NUMALLOC_ACCESS_COST=0");
    expect_warning("NUMALLOC_ACCESS_COST=0", "a number from 1 to 100", "3");
}

/* Sources of accesses that are made for tests are no words of the option, and nobody is told of the
 * one that has them. */
Test(options, sources_for_tests) {
    INIT("NUMALLOC_ACCESS=kmod-sim");
    expect_warning("NUMALLOC_ACCESS=kmod-sim", "numa|fault is accepted", "off");
    INIT("NUMALLOC_PROFILE=sites,access=kmod-fault");
    expect_warning("kmod-fault", "numa|fault]] is accepted", "none");
    INIT("NUMALLOC_TEST_ACCES=kmod-sim");
    expect_warning("NUMALLOC_TEST_ACCES ", "see docs/options.md", "");
    INIT("NUMALLOC_TEST_ACCESS=kmod-sim");
    expect_quiet();
    cr_assert_eq(na_option(NA_OPT_TEST_ACCESS), 2);
    cr_assert_eq(na_option(NA_OPT_ACCESS), 0);
}

/* The rows of options.def as they are written there: words, is it in bytes. */
#define BOOL                    NULL, false
#define CHOICE(words)           words, false
#define MODE(words)             words, false
#define BYTES(least, most)      NULL, true
#define BYTES_OR_0(least, most) NULL, true
#define POWER_OF_2(least, most) NULL, true
#define MS(least, most)         NULL, false
#define MS_OR_0(least, most)    NULL, false
#define NUMBER(least, most)     NULL, false
#define TEXT                    NULL, false
#define NONE                    -1
static const struct {
    const char *name, *words;
    bool bytes;
    int64_t fallback;
    const char *meaning;
} rows[NA_OPT_ALL] = {
#define NA_OPTION(id, type, fallback, meaning)                                                     \
    [NA_OPT_##id] = {"NUMALLOC_" #id, type, fallback, meaning},
#define NA_TEST_OPTION NA_OPTION
#include "alloc/core/sys/options.def"
};

/* The default as a user would write it, "" for none. */
static const char *fallback_of(na_option_id_t id) {
    static char text[64];
    int64_t value = rows[id].fallback;
    text[0] = 0;
    if (value < 0) return text;
    if (rows[id].words != NULL) {
        const char *word = rows[id].words;
        for (; value > 0; value--)
            word = strchr(word, '|') + 1;
        snprintf(text, sizeof text, "%.*s", (int)strcspn(word, "|"), word);
        return text;
    }
    unsigned unit = 0;
    for (; rows[id].bytes && value != 0 && value % 1024 == 0; unit++)
        value /= 1024;
    snprintf(text, sizeof text, "%lld%.1s", (long long)value, &"\0KMGT"[unit]);
    return text;
}

/* Every default in the table is one that the option itself accepts, and names are unique. */
Test(options, table) {
    char string[128];
    for (na_option_id_t id = 0; id < NA_OPT_ALL; id++) {
        const char *name = na_option_name(id);
        cr_assert_str_eq(name, rows[id].name);
        INIT("X=");
        uint64_t value = na_option(id);
        snprintf(string, sizeof string, "%s=%s", name, fallback_of(id));
        INIT(string);
        expect_quiet();
        cr_assert_eq(na_option(id), value, "%s", string);
        if (rows[id].fallback >= 0) {
            cr_assert_eq(value, (uint64_t)rows[id].fallback, "%s", string);
            char wrong[128], told[128];
            snprintf(wrong, sizeof wrong, "%s=?", name);
            snprintf(told, sizeof told, "the default is %s\n", fallback_of(id));
            INIT(wrong);
            expect_warning(wrong, "is accepted", told);
        }
        for (na_option_id_t other = 0; other < id; other++)
            cr_assert_str_neq(name, na_option_name(other));
    }
}

static const char *read_document(void) {
    static char content[65536];
    FILE *f = fopen(OPTIONS_DOCUMENT, "r");
    cr_assert_not_null(f, OPTIONS_DOCUMENT);
    content[fread(content, 1, sizeof content - 1, f)] = 0;
    fclose(f);
    return content;
}

/* docs/options.md has a row for each option, with its words, its default and its meaning, and no
 * other. (What makes it, and its ranges: scripts/docs.py, and the test lint.docs.) */
Test(options, documented) {
    const char *document = read_document();
    unsigned documented = 0;
    for (const char *at = document; (at = strstr(at, "\n| `NUMALLOC_")) != NULL; at++)
        documented++;
    cr_assert_eq(documented, NA_OPT_COUNT);
    cr_assert_null(strstr(document, "NUMALLOC_TEST"));
    for (na_option_id_t id = 0; id < NA_OPT_COUNT; id++) {
        char begin[128], end[512], words[128] = "";
        snprintf(begin, sizeof begin, "\n| `%s` | ", rows[id].name);
        const char *row = strstr(document, begin);
        cr_assert_not_null(row, "docs/options.md lacks %s", rows[id].name);
        row += strlen(begin);
        snprintf(end, sizeof end, " | %s | %s |\n",
                 rows[id].fallback >= 0 ? fallback_of(id) : "none", rows[id].meaning);
        const char *rest = strstr(row, end);
        cr_assert(rest != NULL && rest < strchr(row, '\n'), "docs/options.md: not%s%s", begin, end);
        cr_assert_str_not_empty(rows[id].meaning);
        if (rows[id].words == NULL || id == NA_OPT_TRACE_LEVEL) continue;
        for (const char *c = rows[id].words; *c != 0; c++) /* a bar would end the cell */
            snprintf(words + strlen(words), sizeof words - strlen(words), *c == '|' ? ", " : "%c",
                     *c);
        cr_assert(strlen(words) == (size_t)(rest - row) && strncmp(row, words, strlen(words)) == 0,
                  "docs/options.md: %s accepts %s", rows[id].name, words);
    }
}
