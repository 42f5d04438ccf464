/* print.h - formatting without stdio, for messages from inside malloc.
 *
 * A na_text_t is a buffer on the caller's stack, which sets length to 0 before the first use; what
 * does not fit is cut. No allocation, no locale, async-signal-safe. */
#ifndef NUMALLOC_ALLOC_CORE_SYS_PRINT_H
#define NUMALLOC_ALLOC_CORE_SYS_PRINT_H

#include <stddef.h>
#include <stdint.h>

typedef struct na_text {
    size_t length;
    char data[1024];
} na_text_t;

void na_text_str(na_text_t *t, const char *s);
void na_text_u64(na_text_t *t, uint64_t value);
/* Right-aligned in `width` columns, wider when the text is. */
void na_text_u64_pad(na_text_t *t, uint64_t value, unsigned width);
void na_text_hex(na_text_t *t, uint64_t value); /* 0x... */
/* "1.50 MiB", rounded down; below 1 KiB "512 B" */
void na_text_bytes(na_text_t *t, uint64_t value);
void na_text_end(na_text_t *t, int fd); /* writes it and empties the buffer */

/* "numalloc: " + message + "\n" on stderr in one write; printf-like with %s %u (uint64_t) %x (hex
 * uint64_t) %b (bytes, human) %% only. Always one line: control characters of a %s become '?'. */
void na_warn(const char *format, ...);

#endif
