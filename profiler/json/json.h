/* json.h - writes a JSON document as it goes: commas, escapes and brackets are its business.
 *
 * Every function takes the member's name: NULL in an array, for the document itself, and after
 * na_json_key. What would make the document invalid (a name in an array, none in an object, an end
 * too many) is a fault of the caller and ends the program. */
#ifndef NUMALLOC_PROFILER_JSON_JSON_H
#define NUMALLOC_PROFILER_JSON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* How deep objects and arrays may lie in each other. */
#define NA_JSON_DEPTH 8192u

typedef struct na_json {
    FILE *to;
    unsigned depth;
    bool any, line, named; /* a comma comes first; a new line comes first; the name was written */
    bool spaced; /* for people: blanks behind commas and colons, and lines as far in as they are
                    deep */
    uint8_t object[NA_JSON_DEPTH / 8]; /* a bit for each level: it is an object */
} na_json_t;

/* Begins a document on `to`. When its outermost object or array ends, so does the line. */
static inline na_json_t na_json_open(FILE *to) {
    return (na_json_t){.to = to};
}

void na_json_object(na_json_t *json, const char *name);
void na_json_array(na_json_t *json, const char *name);
void na_json_end(na_json_t *json); /* of the innermost one */

/* The name of the value that follows, where it is not known yet what kind that is. */
void na_json_key(na_json_t *json, const char *name);

/* The next value, or the end, begins on a new line. */
void na_json_line(na_json_t *json);

/* Broken UTF-8 becomes U+FFFD. NULL: null. */
void na_json_string(na_json_t *json, const char *name, const char *value);
void na_json_u64(na_json_t *json, const char *name, uint64_t value);
void na_json_i64(na_json_t *json, const char *name, int64_t value);
void na_json_bool(na_json_t *json, const char *name, bool value);
void na_json_null(na_json_t *json, const char *name);

/* Whole numbers exactly, others to 15 digits; null if it is none or infinite. */
void na_json_number(na_json_t *json, const char *name, double value);
void na_json_put_number(FILE *to, double value); /* bare, as CSV has it as well */
/* By a format for one double. */
__attribute__((format(printf, 4, 0))) void na_json_real(na_json_t *json, const char *name,
                                                        double value, const char *format);
/* An array of strings. */
void na_json_strings(na_json_t *json, const char *name, const char *const *values, size_t count);
#define NA_JSON_STRINGS(json, name, ...)                                                           \
    na_json_strings(json, name, (const char *const[]){__VA_ARGS__},                                \
                    sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))
/* A string that is put together. */
__attribute__((format(printf, 3, 4))) void na_json_text(na_json_t *json, const char *name,
                                                        const char *format, ...);

/* Length of the well-formed UTF-8 character at s, 0: none there. */
size_t na_json_utf8(const unsigned char *s);

#endif
