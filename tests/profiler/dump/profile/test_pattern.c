/* test_pattern.c - patterns of leaks: pieces, asterisks, ends. */
#include <criterion/criterion.h>

#include "profiler/dump/profile/pattern.h"

static const struct {
    const char *pattern, *text;
    bool matches;
} cases[] = {
    {"malloc", "xmalloc_or_die", true},
    {"malloc", "mallo", false},
    {"^malloc", "malloc_usable", true},
    {"^malloc", "xmalloc", false},
    {"malloc$", "xmalloc", true},
    {"malloc$", "malloc_x", false},
    {"malloc$", "malloc malloc", true},
    {"^malloc$", "malloc", true},
    {"^malloc$", "mallocmalloc", false},
    {"a*c", "xxabbbcxx", true},
    {"a*c", "c before a", false},
    {"a*b*c", "a c b c", true},
    {"a*b*c", "a c b", false},
    {"^a*c$", "abcabc", true},
    {"^a*c$", "abcab", false},
    {"a*c$", "abcxc", true},
    {"ab*b$", "ab", false}, /* the pieces must not overlap */
    {"^ab*bc$", "abc", false},
    {"^ab*bc$", "abbc", true},
    {"*", "anything", true},
    {"*", "", true},
    {"", "anything", true},
    {"x", "", false},
    {"**a**", "bab", true},
    {"libfoo.so*", "/usr/lib/libfoo.so.1", true},
};

Test(pattern, cases) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(na_suppression_matches(cases[i].pattern, cases[i].text), cases[i].matches,
                     "'%s' in '%s'", cases[i].pattern, cases[i].text);
}
