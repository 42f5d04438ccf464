/* text.c - figures and names, for people and in JSON. */
#include "profiler/dump/ui/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "profiler/json/json.h"

/* Digits of a whole number below 2^53, ended by a zero byte, as the last of `out`: several times as
 * fast as printf, which is most of the time of writing the events of a trace. */
static char *whole(char out[24], double value) {
    uint64_t rest = (uint64_t)fabs(value);
    char *at = out + 23;
    *at = 0;
    do
        *--at = (char)('0' + rest % 10);
    while ((rest /= 10) != 0);
    if (value < 0) *--at = '-';
    return at;
}

static bool is_whole(double value) {
    return value == floor(value) && fabs(value) < 9007199254740992.0;
}

const char *na_text_bytes(char out[NA_TEXT], double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    while (fabs(bytes) >= 1023.5 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1024;
        unit++;
    }
    int digits = unit == 0 ? 0 : fabs(bytes) < 9.995 ? 2 : fabs(bytes) < 99.95 ? 1 : 0;
    snprintf(out, NA_TEXT, "%.*f %s", digits, bytes, units[unit]);
    return out;
}

const char *na_text_count(char out[NA_TEXT], double count) {
    char digits[24], plain[NA_TEXT];
    if (!(fabs(count) < 1e18)) {
        snprintf(out, NA_TEXT, "%.3g", count);
        return out;
    }
    if (is_whole(count))
        strcpy(plain, whole(digits, count));
    else
        snprintf(plain, sizeof plain, "%.0f", count);
    size_t length = strlen(plain), at = 0;
    size_t sign = plain[0] == '-';
    for (size_t i = 0; i < length; i++) {
        if (i > sign && (length - i) % 3 == 0) out[at++] = ',';
        out[at++] = plain[i];
    }
    out[at] = 0;
    return out;
}

const char *na_text_counted(char out[NA_TEXT], double count, const char *one) {
    na_text_count(out, count);
    size_t length = strlen(one);
    const char *end = length > 1 ? one + length - 2 : one;
    bool hissing = strchr("sx", one[length - 1]) != NULL || strcmp(end, "ch") == 0;
    na_text_append(out, NA_TEXT, " %s%s", one, strcmp(out, "1") == 0 ? "" : hissing ? "es" : "s");
    return out;
}

const char *na_text_ms(char out[NA_TEXT], uint64_t ms) {
    double s = (double)ms / 1000;
    if (ms < 1000)
        snprintf(out, NA_TEXT, "%u ms", (unsigned)ms);
    else if (s < 60)
        snprintf(out, NA_TEXT, "%.*f s", s < 10 ? 2 : 1, s);
    else if (s < 3600)
        snprintf(out, NA_TEXT, "%u min %02u s", (unsigned)(ms / 60000), (unsigned)(ms / 1000 % 60));
    else
        snprintf(out, NA_TEXT, "%llu h %02u min", (unsigned long long)(ms / 3600000),
                 (unsigned)(ms / 60000 % 60));
    return out;
}

void na_text_append(char *to, size_t room, const char *format, ...) {
    size_t used = strlen(to);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(to + used, room - used, format, arguments);
    va_end(arguments);
}

void na_text_put(FILE *to, const char *name) {
    const unsigned char *s = (const unsigned char *)name, *from = s; /* from on is to be written */
    while (*s != 0) {
        size_t length = na_json_utf8(s);
        /* C0, DEL and C1 (U+0080..U+009F) are what a terminal obeys. */
        bool control = s[0] < 0x20 || s[0] == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0);
        const unsigned char *next = s + (length == 0 ? 1 : length);
        if (length == 0 || control) {
            fwrite(from, 1, (size_t)(s - from), to);
            putc('?', to);
            from = next;
        }
        s = next;
    }
    fwrite(from, 1, (size_t)(s - from), to);
}
