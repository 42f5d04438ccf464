/* test_policy_runs.c - site_rules.c: the shortest runs of frames that tell sites with one verdict
 * from others. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "profiler/analyze/policy/site_rules.h"

#define ALONE NA_VERDICT_ALONE
#define ANY   NA_VERDICT_ANY

static na_judged_site_t runs[4096];
static size_t count;
static na_site_rules_t rules;

/* "abc": frames, innermost first, of modules by case. */
static na_judged_site_t *site(const char *frames, double bytes, uint32_t place, uint32_t life) {
    na_judged_site_t *run = &runs[count++];
    *run = (na_judged_site_t){.bytes = bytes, .blocks = bytes, .item = (uint32_t)count};
    for (; *frames != 0 && run->depth < NA_JUDGED_FRAMES; frames++)
        run->frames[run->depth++] = (na_judged_frame_t){*frames < 'a', (uint64_t)*frames | 32};
    for (int kind = 0; kind < NA_RULE_KINDS; kind++)
        run->verdict[kind] = ANY;
    run->verdict[NA_RULE_PLACE] = place;
    run->verdict[NA_RULE_LIFE] = life;
    return run;
}

/* "ab:1.0 c:0.2 ": frames, placement, life. */
static const char *made(void) {
    static char text[65536];
    size_t used = 0;
    cr_assert(na_site_rules_make(runs, count, &rules));
    text[0] = 0;
    for (size_t i = 0; i < rules.count; i++) {
        const na_site_rule_t *rule = &rules.items[i];
        const na_judged_site_t *run = &runs[rule->first];
        for (uint32_t f = 0; f < rule->depth; f++)
            text[used++] = (char)(run->frames[f].offset ^ (run->frames[f].module != 0 ? 32 : 0));
        used += (size_t)snprintf(text + used, sizeof text - used, ":%u.%u ",
                                 rule->value[NA_RULE_PLACE], rule->value[NA_RULE_LIFE]);
    }
    return text;
}

static void is(const char *wanted) {
    const char *got = made();
    cr_assert(strcmp(got, wanted) == 0, "made '%s', expected '%s'", got, wanted);
}

/* What the allocator does: the longest rule that is the beginning of the run. */
static const na_site_rule_t *rule_of(const na_judged_site_t *run) {
    const na_site_rule_t *best = NULL;
    for (size_t i = 0; i < rules.count; i++) {
        const na_site_rule_t *rule = &rules.items[i];
        const na_judged_site_t *of = &runs[rule->first];
        bool is = rule->depth <= run->depth;
        for (uint32_t f = 0; is && f < rule->depth; f++)
            is = of->frames[f].module == run->frames[f].module &&
                 of->frames[f].offset == run->frames[f].offset;
        if (is && (best == NULL || rule->depth > best->depth)) best = rule;
    }
    return best;
}

/* Each site has what its verdict says, where that is not outvoted. */
static void check_all(void) {
    for (size_t i = 0; i < count; i++) {
        const na_site_rule_t *rule = rule_of(&runs[i]);
        for (int kind = 0; kind < NA_RULE_KINDS; kind++) {
            if (runs[i].verdict[kind] == ANY) continue;
            uint32_t got = rule == NULL ? ALONE : rule->value[kind];
            if (got == runs[i].verdict[kind]) continue;
            bool outvoted = rule != NULL && rule->agree[kind] < 1;
            cr_assert(outvoted || (got == ALONE && rules.left_out[kind] != 0),
                      "site %u, kind %d: %u instead of %u", runs[i].item, kind, got,
                      runs[i].verdict[kind]);
        }
    }
}

static void clean(void) {
    na_site_rules_free(&rules);
}

TestSuite(policy_runs, .fini = clean);

Test(policy_runs, nothing) {
    is("");
    site("ab", 1, ALONE, ALONE);
    site("cd", 1, ANY, ANY);
    is("");
}

Test(policy_runs, one_frame_is_enough) {
    site("abc", 1, 3, ANY);
    site("abd", 1, 3, ANY);
    site("bbd", 1, ALONE, ANY);
    is("a:3.0 ");
}

Test(policy_runs, as_many_as_are_needed) {
    site("wac", 1, 3, ANY); /* w: a wrapper */
    site("wad", 1, 3, ANY);
    site("wbc", 1, ALONE, ANY);
    site("wbd", 1, 4, ANY);
    site("wx", 1, ALONE, ANY);
    is("wa:3.0 wbd:4.0 ");
    check_all();
    cr_assert_eq(rules.conflicts[0].bytes, 5);
    cr_assert_eq(rules.conflicts[0].wrong_bytes, 3);
    cr_assert_eq(rules.conflicts[1].bytes, 2);
    cr_assert_eq(rules.conflicts[1].wrong_blocks, 1);
    cr_assert_eq(rules.conflicts[2].bytes, 0);
}

Test(policy_runs, modules_tell_sites_apart) {
    site("ab", 1, 3, ANY);
    site("Ab", 1, ALONE, ANY);
    is("a:3.0 ");
}

Test(policy_runs, who_has_no_say_lengthens_nothing) {
    site("wa", 1000, 3, ANY);
    site("wb", 1, ANY, ANY);
    is("w:3.0 ");
}

Test(policy_runs, a_stack_that_ends) {
    site("w", 100, 3, ANY); /* its outer frames are not known */
    site("wa", 1, ALONE, ANY);
    site("wb", 1, 5, ANY);
    is("w:3.0 wb:5.0 ");
    cr_assert_float_eq(rules.items[0].agree[NA_RULE_PLACE], 100.0 / 102, 1e-9);
    check_all();
}

Test(policy_runs, a_stack_that_ends_in_a_wrapper_of_others) {
    site("w", 1, 3, ANY);
    site("wa", 100, ALONE, ANY);
    is("");
    cr_assert_eq(rules.left_out[NA_RULE_PLACE], 1);
}

Test(policy_runs, without_frames) {
    site("", 1, 3, 1);
    is("");
    cr_assert_eq(rules.left_out[NA_RULE_PLACE], 1);
}

Test(policy_runs, eight_frames_at_most) {
    site("abcdefghi", 91, 3, ANY);
    site("abcdefghj", 9, ALONE, ANY);
    is("abcdefgh:3.0 ");
    count = 0;
    clean();
    site("abcdefghi", 89, 3, ANY);
    site("abcdefghj", 11, ALONE, ANY);
    is("");
    cr_assert_eq(rules.left_out[NA_RULE_PLACE], 1);
    cr_assert_eq(rules.conflicts[7].wrong_bytes, 11);
}

Test(policy_runs, a_longer_rule_has_what_the_shorter_one_said) {
    site("wa", 1, 3, 1);
    site("wb", 1, ALONE, 1);
    is("w:0.1 wa:3.1 ");
    check_all();
}

Test(policy_runs, each_kind_by_itself) {
    site("wa", 1, 3, ALONE);
    site("wb", 1, ALONE, 1);
    is("wa:3.0 wb:0.1 ");
    check_all();
}

/* Trees at random: each site gets its verdict, and no rule could be a frame shorter. */
Test(policy_runs, at_random) {
    uint32_t seed = 12345;
    for (int round = 0; round < 200; round++) {
        clean();
        count = 0;
        for (int i = 0; i < 120; i++) {
            char frames[NA_JUDGED_FRAMES + 1] = "";
            uint32_t depth = 1 + (seed = seed * 1664525 + 1013904223) / (1u << 29);
            for (uint32_t f = 0; f < depth; f++)
                frames[f] = (char)('a' + ((seed = seed * 1664525 + 1013904223) >> 30));
            uint32_t place = (seed = seed * 1664525 + 1013904223) >> 30;
            uint32_t life = (seed = seed * 1664525 + 1013904223) >> 31;
            site(frames, 1 + (seed >> 24 & 15), place == 3 ? ANY : place, life);
        }
        (void)made();
        check_all();
        for (size_t i = 0; i < rules.count; i++) {
            const na_site_rule_t *rule = &rules.items[i];
            cr_assert(rule->depth >= 1 && rule->depth <= runs[rule->first].depth);
            for (size_t k = rule->first; k < rule->first + rule->count; k++)
                cr_assert(memcmp(runs[k].frames, runs[rule->first].frames,
                                 rule->depth * sizeof runs[k].frames[0]) == 0);
        }
    }
}
