/* test_json.c - numalloc-dump's JSON: every kind of value, what is escaped, and that what would be
 * no JSON ends the program instead of being written. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/json/json.h"

static char *text;
static size_t size;

static na_json_t begin(void) {
    return na_json_open(open_memstream(&text, &size));
}

/* What was written is `wanted`. */
static void is(na_json_t *json, const char *wanted) {
    fclose(json->to);
    cr_expect_str_eq(text, wanted);
    free(text);
}

Test(json, values) {
    na_json_t json = begin();
    na_json_object(&json, NULL);
    na_json_string(&json, "text", "plain");
    na_json_string(&json, "none", NULL);
    na_json_u64(&json, "most", UINT64_MAX);
    na_json_u64(&json, "zero", 0);
    na_json_i64(&json, "least", INT64_MIN);
    na_json_bool(&json, "yes", true);
    na_json_null(&json, "null");
    na_json_number(&json, "whole", 1e15);
    na_json_number(&json, "part", 0.25);
    na_json_number(&json, "nan", NAN);
    na_json_real(&json, "short", 2.0 / 3, "%.3f");
    na_json_real(&json, "infinite", INFINITY, "%.3f");
    na_json_text(&json, "made", "%d \"%s\"", 7, "x");
    na_json_end(&json);
    is(&json,
       "{\"text\":\"plain\",\"none\":null,\"most\":18446744073709551615,\"zero\":0,"
       "\"least\":-9223372036854775808,\"yes\":true,\"null\":null,\"whole\":1000000000000000,"
       "\"part\":0.25,\"nan\":null,\"short\":0.667,\"infinite\":null,"
       "\"made\":\"7 \\\"x\\\"\"}\n");
}

Test(json, nesting) {
    na_json_t json = begin();
    na_json_object(&json, NULL);
    na_json_array(&json, "empty");
    na_json_end(&json);
    na_json_array(&json, "rows");
    for (int i = 0; i < 2; i++) {
        na_json_line(&json);
        na_json_object(&json, NULL);
        na_json_key(&json, "list");
        na_json_array(&json, NULL);
        na_json_u64(&json, NULL, 1);
        na_json_array(&json, NULL);
        na_json_end(&json);
        na_json_u64(&json, NULL, 2);
        na_json_end(&json);
        na_json_end(&json);
    }
    na_json_end(&json);
    NA_JSON_STRINGS(&json, "words", "a", "b");
    na_json_end(&json);
    is(&json, "{\"empty\":[],\"rows\":[\n{\"list\":[1,[],2]},\n{\"list\":[1,[],2]}],"
              "\"words\":[\"a\",\"b\"]}\n");
}

Test(json, strings_and_names_are_escaped) {
    na_json_t json = begin();
    na_json_object(&json, NULL);
    na_json_string(&json, "a\"b", "\\ \n \x7f \xc3\xa9 \xff");
    na_json_end(&json);
    is(&json, "{\"a\\\"b\":\"\\\\ \\u000a \\u007f \xc3\xa9 \\ufffd\"}\n");
}

Test(json, deep) {
    na_json_t json = begin();
    for (unsigned i = 0; i < NA_JSON_DEPTH - 1; i++)
        na_json_array(&json, NULL);
    for (unsigned i = 0; i < NA_JSON_DEPTH - 1; i++)
        na_json_end(&json);
    fclose(json.to);
    cr_expect_eq(size, 2 * (NA_JSON_DEPTH - 1) + 1);
    free(text);
}

Test(json, too_deep, .signal = SIGABRT) {
    na_json_t json = begin();
    for (unsigned i = 0; i < NA_JSON_DEPTH; i++)
        na_json_array(&json, NULL);
}

Test(json, member_without_a_name, .signal = SIGABRT) {
    na_json_t json = begin();
    na_json_object(&json, NULL);
    na_json_u64(&json, NULL, 1);
}

Test(json, name_in_an_array, .signal = SIGABRT) {
    na_json_t json = begin();
    na_json_array(&json, NULL);
    na_json_u64(&json, "x", 1);
}

Test(json, two_names, .signal = SIGABRT) {
    na_json_t json = begin();
    na_json_object(&json, NULL);
    na_json_key(&json, "x");
    na_json_u64(&json, "y", 1);
}

Test(json, name_without_a_value, .signal = SIGABRT) {
    na_json_t json = begin();
    na_json_object(&json, NULL);
    na_json_key(&json, "x");
    na_json_end(&json);
}

Test(json, two_documents, .signal = SIGABRT) {
    na_json_t json = begin();
    na_json_u64(&json, NULL, 1);
    na_json_u64(&json, NULL, 2);
}

Test(json, end_too_many, .signal = SIGABRT) {
    na_json_t json = begin();
    na_json_end(&json);
}
