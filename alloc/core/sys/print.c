/* print.c - the formatting of print.h. */
#include "alloc/core/sys/print.h"

#include <stdarg.h>

#include "alloc/core/sys/os.h"

static void put(na_text_t *t, char c) {
    if (t->length < sizeof t->data) t->data[t->length++] = c;
}

/* Decimal digits of value, most significant first; how many there are. */
static unsigned decimal(char digits[20], uint64_t value) {
    unsigned n = 1;
    for (uint64_t rest = value / 10; rest != 0; rest /= 10)
        n++;
    for (unsigned i = n; i-- > 0; value /= 10)
        digits[i] = (char)('0' + value % 10);
    return n;
}

void na_text_str(na_text_t *t, const char *s) {
    for (; *s != 0; s++)
        put(t, *s);
}

void na_text_u64(na_text_t *t, uint64_t value) {
    na_text_u64_pad(t, value, 0);
}

void na_text_u64_pad(na_text_t *t, uint64_t value, unsigned width) {
    char digits[20];
    unsigned n = decimal(digits, value);
    for (unsigned i = n; i < width; i++)
        put(t, ' ');
    for (unsigned i = 0; i < n; i++)
        put(t, digits[i]);
}

void na_text_hex(na_text_t *t, uint64_t value) {
    unsigned shift = 60;
    while (shift > 0 && value >> shift == 0)
        shift -= 4;
    na_text_str(t, "0x");
    for (;; shift -= 4) {
        put(t, "0123456789abcdef"[value >> shift & 15]);
        if (shift == 0) return;
    }
}

void na_text_bytes(na_text_t *t, uint64_t value) {
    static const char units[][4] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned unit = 0;
    while (unit < 6 && value >> (10 * (unit + 1)) != 0)
        unit++;
    na_text_u64(t, value >> (10 * unit));
    if (unit > 0) { /* two decimals, rounded down: never more than there is */
        uint64_t hundredths = (value >> (10 * (unit - 1)) & 1023) * 100 / 1024;
        put(t, '.');
        put(t, (char)('0' + hundredths / 10));
        put(t, (char)('0' + hundredths % 10));
    }
    put(t, ' ');
    na_text_str(t, units[unit]);
}

void na_text_end(na_text_t *t, int fd) {
    na_os_write(fd, t->data, t->length);
    t->length = 0;
}

void na_warn(const char *format, ...) {
    na_text_t t;
    t.length = 0;
    na_text_str(&t, "numalloc: ");
    va_list args;
    va_start(args, format);
    for (; *format != 0; format++) {
        if (*format != '%') {
            put(&t, *format);
            continue;
        }
        switch (*++format) {
        case 's': {
            /* What the user wrote may hold anything; a warning is one line all the same. */
            const char *s = va_arg(args, const char *);
            for (s = s != NULL ? s : "(null)"; *s != 0; s++)
                put(&t, (unsigned char)*s < 32 || *s == 127 ? '?' : *s);
            break;
        }
        case 'u':
            na_text_u64(&t, va_arg(args, uint64_t));
            break;
        case 'x':
            na_text_hex(&t, va_arg(args, uint64_t));
            break;
        case 'b':
            na_text_bytes(&t, va_arg(args, uint64_t));
            break;
        default: /* "%%", or a lone % at the end */
            put(&t, '%');
            if (*format == 0) format--;
        }
    }
    va_end(args);
    if (t.length == sizeof t.data) t.length--;
    put(&t, '\n');
    na_os_say(t.data, t.length);
}
