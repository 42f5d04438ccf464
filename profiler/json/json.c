/* json.c - JSON as a stream. See json.h. */
#include "profiler/json/json.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

__attribute__((noreturn, cold)) static void misused(const char *what) {
    fprintf(stderr, "%s: fault in the JSON that it writes: %s\n", program_invocation_short_name,
            what);
    abort();
}

size_t na_json_utf8(const unsigned char *s) {
    if (s[0] < 0x80) return 1;
    size_t length = s[0] >= 0xc2 && s[0] <= 0xdf   ? 2
                    : s[0] >= 0xe0 && s[0] <= 0xef ? 3
                    : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                                   : 0;
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) /* also the end of the string */
            return 0;
    }
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return length;
}

static void put_json_string(FILE *to, const char *string) {
    putc_unlocked('"', to);
    const unsigned char *s = (const unsigned char *)string,
                        *from = s; /* from on is to be written */
    while (*s != 0) {
        if (*s >= 0x20 && *s < 0x7f && *s != '"' && *s != '\\') {
            s++;
            continue;
        }
        size_t length = na_json_utf8(s);
        const unsigned char *next = s + (length == 0 ? 1 : length);
        if (length == 0 || *s == '"' || *s == '\\' || *s < 0x20 || *s == 0x7f) {
            fwrite_unlocked(from, 1, (size_t)(s - from), to);
            from = next;
            if (length == 0)
                fputs_unlocked("\\ufffd", to);
            else if (*s == '"' || *s == '\\')
                fprintf(to, "\\%c", *s);
            else
                fprintf(to, "\\u%04x", *s);
        }
        s = next;
    }
    fwrite_unlocked(from, 1, (size_t)(s - from), to);
    putc_unlocked('"', to);
}

static bool in_object(const na_json_t *json) {
    return json->depth != 0 && (json->object[json->depth / 8] >> json->depth % 8 & 1) != 0;
}

/* The new line that was asked for, of something that lies so deep. */
static bool begin_json_line(na_json_t *json, unsigned depth) {
    if (!json->line) return false;
    fprintf(json->to, "\n%*s", json->spaced ? (int)depth : 0, "");
    json->line = false;
    return true;
}

/* What comes before a value in an array, or before a name. */
static void separate(na_json_t *json) {
    if (json->depth == 0 && json->any) misused("two documents");
    if (json->any) putc_unlocked(',', json->to);
    if (!begin_json_line(json, json->depth) && json->any && json->spaced)
        putc_unlocked(' ', json->to);
    json->any = true;
}

void na_json_key(na_json_t *json, const char *name) {
    if (!in_object(json) || json->named) misused("a name where none belongs");
    separate(json);
    put_json_string(json->to, name);
    putc_unlocked(':', json->to);
    if (json->spaced) putc_unlocked(' ', json->to);
    json->named = true;
}

static void begin_value(na_json_t *json, const char *name) {
    if (name != NULL) na_json_key(json, name);
    if (in_object(json) != json->named) misused("a member without a name");
    if (!json->named) separate(json);
    json->named = false;
}

static void enter_value(na_json_t *json, const char *name, bool object) {
    begin_value(json, name);
    if (++json->depth == NA_JSON_DEPTH) misused("too deep");
    putc_unlocked(object ? '{' : '[', json->to);
    uint8_t *bits = &json->object[json->depth / 8], bit = (uint8_t)(1u << json->depth % 8);
    *bits = (uint8_t)(object ? *bits | bit : *bits & ~bit);
    json->any = false;
}

void na_json_object(na_json_t *json, const char *name) {
    enter_value(json, name, true);
}

void na_json_array(na_json_t *json, const char *name) {
    enter_value(json, name, false);
}

void na_json_end(na_json_t *json) {
    if (json->depth == 0 || json->named) misused("an end where none belongs");
    begin_json_line(json, json->depth - 1);
    putc_unlocked(in_object(json) ? '}' : ']', json->to);
    json->depth--;
    json->any = true; /* in the one around it: this */
    if (json->depth == 0) putc_unlocked('\n', json->to);
}

void na_json_line(na_json_t *json) {
    json->line = true;
}

void na_json_string(na_json_t *json, const char *name, const char *value) {
    begin_value(json, name);
    if (value == NULL)
        fputs_unlocked("null", json->to);
    else
        put_json_string(json->to, value);
}

/* Digits from behind: printf would take most of a document's time. */
static void put_digits(FILE *to, uint64_t value) {
    char digits[20], *at = digits + sizeof digits;
    do
        *--at = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    fwrite_unlocked(at, 1, (size_t)(digits + sizeof digits - at), to);
}

void na_json_u64(na_json_t *json, const char *name, uint64_t value) {
    begin_value(json, name);
    put_digits(json->to, value);
}

void na_json_i64(na_json_t *json, const char *name, int64_t value) {
    begin_value(json, name);
    if (value < 0) putc_unlocked('-', json->to);
    put_digits(json->to, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void na_json_bool(na_json_t *json, const char *name, bool value) {
    begin_value(json, name);
    fputs_unlocked(value ? "true" : "false", json->to);
}

void na_json_null(na_json_t *json, const char *name) {
    begin_value(json, name);
    fputs_unlocked("null", json->to);
}

void na_json_put_number(FILE *to, double value) {
    if (!isfinite(value)) {
        fputs_unlocked("null", to);
    } else if (value == floor(value) && fabs(value) < 9007199254740992.0) {
        if (value < 0) putc_unlocked('-', to);
        put_digits(to, (uint64_t)fabs(value)); /* exact, and never with an exponent */
    } else {
        fprintf(to, "%.15g", value);
    }
}

void na_json_number(na_json_t *json, const char *name, double value) {
    begin_value(json, name);
    na_json_put_number(json->to, value);
}

void na_json_real(na_json_t *json, const char *name, double value, const char *format) {
    begin_value(json, name);
    char digits[64];
    if (isfinite(value)) {
        snprintf(digits, sizeof digits, format, value);
        fputs_unlocked(digits, json->to);
    } else {
        fputs_unlocked("null", json->to);
    }
}

void na_json_text(na_json_t *json, const char *name, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    na_json_string(json, name, text);
}

void na_json_strings(na_json_t *json, const char *name, const char *const *values, size_t count) {
    na_json_array(json, name);
    for (size_t i = 0; i < count; i++)
        na_json_string(json, NULL, values[i]);
    na_json_end(json);
}
