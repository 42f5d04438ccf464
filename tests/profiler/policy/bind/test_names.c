/* test_names.c - names.c: calls in functions of this program, found by name. Its file is opened
 * once, however many names are looked for. */
#include <criterion/criterion.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "profiler/policy/bind/names.h"

TestSuite(names, .timeout = 60);

static volatile int called;

static __attribute__((noinline, noclone)) void callee(void) {
    called++;
}

__attribute__((noinline, noclone, used)) void names_two_calls(void);
void names_two_calls(void) {
    callee();
    called++;
    callee();
    called++;
}

/* As compilers name what they take out of a function. */
__attribute__((noinline, used)) void names_part(void) __asm__("names_whole.part.0");
void names_part(void) {
    callee();
    called++;
}

typedef struct found {
    uintptr_t from, to; /* of the function */
    unsigned calls, elsewhere;
} found_t;

static void note(uintptr_t pc, void *arg) {
    found_t *f = arg;
    f->calls++;
    f->elsewhere += pc <= f->from || pc > f->to;
}

static int first_module(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    *(uintptr_t *)arg = info->dlpi_addr;
    return 1;
}

static found_t find(const na_policy_symbols_t *s, const char *name, void (*function)(void)) {
    uintptr_t base = 0, begin = (uintptr_t)function;
    dl_iterate_phdr(first_module, &base);
    found_t f = {.from = begin, .to = begin + 4096};
    na_policy_calls_in(s, name, strlen(name), base, base, begin + (1u << 24), note, &f);
    return f;
}

Test(names, calls_are_found) {
    na_policy_symbols_t s;
    na_policy_symbols_open(&s, "");
    cr_assert(s.open);
    names_two_calls();
    found_t f = find(&s, "names_two_calls", names_two_calls);
    cr_expect_geq(f.calls, 2);
    cr_expect_eq(f.elsewhere, 0);
    names_part();
    f = find(&s, "names_whole", names_part);
    cr_expect_geq(f.calls, 1, "a part is of the function");
    cr_expect_eq(f.elsewhere, 0);
    f = find(&s, "names_whole.part", names_part);
    cr_expect_geq(f.calls, 1);
    static const char *const none[] = {"names_two_call", "names_two_callss", "names_whole.par",
                                       "names", ""};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        cr_expect_eq(find(&s, none[i], names_part).calls, 0, "'%s'", none[i]);
    na_policy_symbols_close(&s);
    cr_expect(!s.open);
}

Test(names, no_file_no_symbols) {
    na_policy_symbols_t s;
    na_policy_symbols_open(&s, "/nowhere/at/all");
    cr_expect(s.open, "it is not tried again");
    cr_expect_eq(find(&s, "main", names_part).calls, 0);
    na_policy_symbols_close(&s);
}
