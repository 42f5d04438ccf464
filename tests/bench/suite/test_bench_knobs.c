/* test_bench_knobs.c - knobs.c: parsing and printing of knobs, and the tables of all benchmarks. */
#include "bench/benchmarks/registry.h"

#include <criterion/criterion.h>
#include <string.h>

enum { K_NUMBER, K_CHOICE, K_FLAG, K_TEXT };

static const na_knob_t table[] = {
    [K_NUMBER] = {"count", "things", NA_KNOB_NUMBER, 5, 2, 100, NULL, "how many"},
    [K_CHOICE] = {"colour", "", NA_KNOB_CHOICE, 1, 0, 0, "red|green|greenish", "which"},
    [K_FLAG] = {"loud", "", NA_KNOB_FLAG, 0, 0, 0, NULL, "whether"},
    [K_TEXT] = {"file", "", NA_KNOB_TEXT, 0, 0, 0, NULL, "where"},
};

/* Feeds all words in turn; the error of the first that is refused, or "". */
static const char *take(na_knobs_t *knobs, int argc, char **argv, bool *unknown) {
    static char error[256];
    *unknown = false;
    na_knobs_init(knobs, table, NA_COUNT(table));
    for (int i = 0; i < argc;) {
        int before = i;
        if (!na_knobs_take(knobs, argc, argv, &i, error, sizeof error, unknown)) {
            cr_assert_eq(i, before, "a refused word was taken");
            return error;
        }
        cr_assert_gt(i, before);
    }
    return "";
}

#define TAKE(knobs, unknown, ...)                                                                  \
    take(knobs, (int)NA_COUNT(((char *[]){__VA_ARGS__})), (char *[]){__VA_ARGS__}, unknown)

Test(bench_knobs, takes_every_form) {
    na_knobs_t knobs;
    bool unknown;
    na_knobs_init(&knobs, table, NA_COUNT(table));
    cr_assert_eq(knobs.value[K_NUMBER].number, 5);
    cr_assert_eq(knobs.value[K_CHOICE].number, 1);
    cr_assert_str_empty(knobs.value[K_TEXT].text);

    cr_assert_str_empty(
        TAKE(&knobs, &unknown, "--count", "7", "--colour=greenish", "--loud", "--file", "a=b"));
    cr_assert_eq(knobs.value[K_NUMBER].number, 7);
    cr_assert_eq(knobs.value[K_CHOICE].number, 2);
    cr_assert_eq(knobs.value[K_FLAG].number, 1);
    cr_assert_str_eq(knobs.value[K_TEXT].text, "a=b");

    cr_assert_str_empty(TAKE(&knobs, &unknown, "--count=2", "--count", "100", "--file="));
    cr_assert_eq(knobs.value[K_NUMBER].number, 100, "the last one counts");
}

Test(bench_knobs, refuses_bad_values_in_one_line) {
    static char *const bad[][2] = {
        {"--count", "1"},      {"--count", "101"},        {"--count", ""},
        {"--count", "-3"},     {"--count", "+3"},         {"--count", " 3"},
        {"--count", "3x"},     {"--count", "0x3"},        {"--count", "99999999999999999999999"},
        {"--colour", "blue"},  {"--colour", ""},          {"--colour", "gree"},
        {"--colour", "red|g"}, {"--colour", "green|red"},
    };
    na_knobs_t knobs;
    bool unknown;
    for (size_t i = 0; i < NA_COUNT(bad); i++) {
        const char *error = TAKE(&knobs, &unknown, bad[i][0], bad[i][1]);
        cr_assert(*error != '\0' && !unknown, "%s '%s' was taken", bad[i][0], bad[i][1]);
        cr_assert_not_null(strstr(error, bad[i][0]), "'%s' does not name the knob", error);
        cr_assert_null(strchr(error, '\n'));
    }
    cr_assert_str_eq(TAKE(&knobs, &unknown, "--count"), "--count needs a value");
    cr_assert_str_eq(TAKE(&knobs, &unknown, "--loud=1"), "--loud takes no value");
}

Test(bench_knobs, tells_unknown_words) {
    static char *const words[] = {"--cou", "--counts", "count", "--", "-", "", "--=3", "---count"};
    na_knobs_t knobs;
    bool unknown;
    for (size_t i = 0; i < NA_COUNT(words); i++) {
        const char *error = TAKE(&knobs, &unknown, words[i], "3");
        cr_assert(*error != '\0' && unknown, "'%s' was taken", words[i]);
    }
}

static const char *printed(void (*print)(const na_knobs_t *, FILE *), const na_knobs_t *knobs) {
    static char text[512];
    memset(text, 0, sizeof text);
    FILE *out = fmemopen(text, sizeof text - 1, "w");
    print(knobs, out);
    fclose(out);
    return text;
}

static void print_json(const na_knobs_t *knobs, FILE *out) {
    na_json_t json = na_json_open(out);
    json.spaced = true;
    na_json_object(&json, NULL);
    na_knobs_json(knobs, &json);
    na_json_end(&json);
}

Test(bench_knobs, prints_what_was_given) {
    na_knobs_t knobs;
    bool unknown;
    TAKE(&knobs, &unknown, "--colour", "red", "--file", "a\"b\\\n");
    cr_assert_str_eq(printed(print_json, &knobs),
                     "{\"knobs\": {\"count\": 5, \"colour\": \"red\", \"loud\": false, "
                     "\"file\": \"a\\\"b\\\\\\u000a\"}}\n");
    TAKE(&knobs, &unknown, "--loud", "--file", "x");
    cr_assert_str_eq(printed(na_knobs_line, &knobs), "count=5 colour=green loud=on file=x");
}

/* What is printed for a default must be taken as a value, in every table; a default that the
 * benchmark finds for itself (below the least value) is known once its knobs are settled. */
Test(bench_knobs, tables_of_all_benchmarks_are_sound) {
    cr_assert_gt(na_bench_count, 0);
    for (size_t b = 0; b < na_bench_count; b++) {
        const na_bench_t *bench = na_benches[b];
        na_knobs_t knobs;
        char buffer[64], word[128], error[256];
        bool unknown;
        cr_assert_eq(na_bench_find(bench->name), bench, "%s is there twice", bench->name);
        cr_assert_leq(bench->knob_count, NA_KNOBS_MAX, "%s", bench->name);
        na_knobs_init(&knobs, bench->knobs, bench->knob_count);
        na_knobs_t settled = knobs;
        /* startup's files are not beside this program: it has no such default. */
        if (bench->settle == NULL || !bench->settle(&settled, error, sizeof error)) settled = knobs;
        for (size_t k = 0; k < bench->knob_count; k++) {
            const na_knob_t *knob = &bench->knobs[k];
            cr_assert(knob->name != NULL && knob->help != NULL && knob->unit != NULL,
                      "%s: knob %zu is empty", bench->name, k);
            for (size_t other = 0; other < k; other++)
                cr_assert_str_neq(knob->name, bench->knobs[other].name, "%s", bench->name);
            if (knob->kind == NA_KNOB_FLAG || knob->kind == NA_KNOB_TEXT) continue;
            snprintf(word, sizeof word, "--%s=%s", knob->name,
                     na_knobs_value(&settled, k, buffer, sizeof buffer));
            char *argv[] = {word};
            int at = 0;
            cr_assert(na_knobs_take(&knobs, 1, argv, &at, error, sizeof error, &unknown), "%s: %s",
                      bench->name, error);
            cr_assert_eq(knobs.value[k].number, settled.value[k].number, "%s --%s", bench->name,
                         knob->name);
        }
    }
    cr_assert_null(na_bench_find("no-such-benchmark"));
}
