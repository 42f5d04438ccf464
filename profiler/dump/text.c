/* text.c - figures and names, for people and in JSON. */
#include "profiler/dump/text.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

const char *na_text_bytes(char out[NA_TEXT], double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    while (fabs(bytes) >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1024;
        unit++;
    }
    int digits = unit == 0 ? 0 : fabs(bytes) < 9.995 ? 2 : fabs(bytes) < 99.95 ? 1 : 0;
    snprintf(out, NA_TEXT, "%.*f %s", digits, bytes, units[unit]);
    return out;
}

const char *na_text_count(char out[NA_TEXT], double count) {
    char plain[NA_TEXT];
    if (!(fabs(count) < 1e18)) {
        snprintf(out, NA_TEXT, "%.3g", count);
        return out;
    }
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

/* Length of the well-formed UTF-8 character at s, 0: none there. */
static size_t utf8_length(const unsigned char *s) {
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

void na_text_put(FILE *to, const char *name) {
    const unsigned char *s = (const unsigned char *)name;
    while (*s != 0) {
        size_t length = utf8_length(s);
        /* C0, DEL and C1 (U+0080..U+009F) are what a terminal obeys. */
        bool control = s[0] < 0x20 || s[0] == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0);
        if (length == 0 || control)
            putc('?', to);
        else
            fwrite(s, 1, length, to);
        s += length == 0 ? 1 : length;
    }
}

void na_json_put(FILE *to, const char *string) {
    if (string == NULL) {
        fputs("null", to);
        return;
    }
    putc('"', to);
    const unsigned char *s = (const unsigned char *)string;
    while (*s != 0) {
        size_t length = utf8_length(s);
        if (length == 0)
            fputs("\\ufffd", to);
        else if (*s == '"' || *s == '\\')
            fprintf(to, "\\%c", *s);
        else if (*s < 0x20 || *s == 0x7f)
            fprintf(to, "\\u%04x", *s);
        else
            fwrite(s, 1, length, to);
        s += length == 0 ? 1 : length;
    }
    putc('"', to);
}

void na_json_number(FILE *to, double value) {
    if (!isfinite(value))
        fputs("null", to);
    else if (value == floor(value) && fabs(value) < 9007199254740992.0)
        fprintf(to, "%.0f", value); /* exact, and never with an exponent */
    else
        fprintf(to, "%.15g", value);
}
