/* test_print.c - formatting without stdio. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "alloc/core/sys/print.h"

/* What na_text_* wrote, as a string; empties the text. */
static const char *taken(na_text_t *t) {
    static char line[sizeof t->data + 1];
    memcpy(line, t->data, t->length);
    line[t->length] = 0;
    t->length = 0;
    return line;
}

static na_text_t t;

Test(print, numbers) {
    na_text_u64(&t, 0);
    na_text_str(&t, ",");
    na_text_u64(&t, UINT64_MAX);
    cr_assert_str_eq(taken(&t), "0,18446744073709551615");
    na_text_hex(&t, 0);
    na_text_hex(&t, 0x1f0);
    na_text_hex(&t, UINT64_MAX);
    cr_assert_str_eq(taken(&t), "0x00x1f00xffffffffffffffff");
}

Test(print, columns) {
    na_text_u64_pad(&t, 42, 5);
    na_text_str(&t, "|");
    na_text_u64_pad(&t, 123456, 5);
    cr_assert_str_eq(taken(&t), "   42|123456");
}

Test(print, bytes) {
    const struct {
        uint64_t value;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.00 KiB"},
        {1536, "1.50 KiB"},
        {1048575, "1023.99 KiB"},
        {1048576, "1.00 MiB"},
        {(uint64_t)5 << 40, "5.00 TiB"},
        {UINT64_MAX, "15.99 EiB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        na_text_bytes(&t, cases[i].value);
        cr_assert_str_eq(taken(&t), cases[i].text);
    }
}

Test(print, what_does_not_fit_is_cut) {
    for (int i = 0; i < 1000; i++)
        na_text_str(&t, "0123456789");
    na_text_u64(&t, 7);
    cr_assert_eq(t.length, sizeof t.data);
    cr_assert_eq(t.data[sizeof t.data - 1], '3', "1024 characters end in the digit of place 1023");
}

/* Everything that na_text_end or na_warn writes to `fd` until the function returns. */
static const char *written(int fd, void (*act)(void)) {
    static char line[4096];
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    int saved = dup(fd);
    dup2(ends[1], fd);
    close(ends[1]);
    errno = 77;
    act();
    cr_expect_eq(errno, 77, "errno is the program's");
    dup2(saved, fd);
    close(saved);
    ssize_t n = read(ends[0], line, sizeof line - 1); /* one write, one read */
    cr_assert_geq(n, 0);
    line[n] = 0;
    close(ends[0]);
    return line;
}

static void end(void) {
    na_text_str(&t, "hello\n");
    na_text_end(&t, 1);
}

Test(print, end_writes_and_empties) {
    cr_assert_str_eq(written(1, end), "hello\n");
    cr_assert_eq(t.length, 0);
}

static void warn_all(void) {
    na_warn("%s has %u of %x, %b, 100%%", "it", (uint64_t)12, (uint64_t)0xab, (uint64_t)2048);
}

static void warn_hostile(void) {
    na_warn("a %s b", "x\ny\033[1m\tz");
}

static void warn_null(void) {
    na_warn("%s", (const char *)NULL);
}

static void warn_lone_percent(void) {
    na_warn("end %");
}

static void warn_long(void) {
    static char name[3000];
    memset(name, 'n', sizeof name - 1);
    na_warn("%s", name);
}

Test(print, warn) {
    cr_assert_str_eq(written(2, warn_all), "numalloc: it has 12 of 0xab, 2.00 KiB, 100%\n");
    cr_assert_str_eq(written(2, warn_hostile), "numalloc: a x?y?[1m?z b\n");
    cr_assert_str_eq(written(2, warn_null), "numalloc: (null)\n");
    cr_assert_str_eq(written(2, warn_lone_percent), "numalloc: end %\n");
    const char *line = written(2, warn_long);
    cr_assert_eq(strlen(line), sizeof t.data);
    cr_assert_eq(strchr(line, '\n'), line + sizeof t.data - 1, "one line, ended");
}
