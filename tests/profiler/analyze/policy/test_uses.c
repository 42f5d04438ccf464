/* test_uses.c - use_verdicts.c: which small blocks are used, and make a group. */
#include <criterion/criterion.h>

#include "profiler/analyze/policy/use_verdicts.h"

#define MIB (1024.0 * 1024)

static na_site_use_t sites[16];
static na_uses_found_t found;

static void setup(void) {
    found = (na_uses_found_t){.items = sites};
}
TestSuite(uses, .init = setup);

/* A long-lived site of blocks of one size; returns it, for what is special. */
static na_site_use_t *site(double mib, double size, double looks, double used) {
    na_site_use_t *use = &sites[found.count++];
    *use = (na_site_use_t){.bytes = mib * MIB,
                           .smallest = size,
                           .largest = size,
                           .looks = looks,
                           .used = used,
                           .window = 0.001,
                           .may = true};
    return use;
}

static void says(na_uses_say_t wanted) {
    na_uses_judge(&found);
    cr_assert_eq(found.say, wanted, "said %d, expected %d", found.say, wanted);
    for (size_t i = 0; i < found.count && wanted != NA_USES_GROUP; i++)
        cr_assert_not(sites[i].hot);
}

Test(uses, nothing) {
    says(NA_USES_LITTLE);
    cr_assert_eq(found.bytes, 0);
}

Test(uses, used_blocks_among_idle_ones) {
    na_site_use_t *nodes = site(3, 24, 50, 0.3), *labels = site(3, 32, 50, 0);
    says(NA_USES_GROUP);
    cr_assert(nodes->hot && !labels->hot);
    cr_assert_float_eq(found.between, 0.5, 1e-9);
    cr_assert_float_eq(found.hot, 3 * MIB, 1);
    cr_assert(nodes->low > 0.15 && nodes->low < 0.3 && nodes->high > 0.3 && nodes->high < 0.5);
}

Test(uses, idle_ones_of_another_size_are_not_between) {
    site(3, 24, 50, 0.3);
    site(3, 33, 50, 0);
    says(NA_USES_DENSE);
    cr_assert_eq(found.between, 0);
}

/* Texts of 41 to 80 bytes: a third has the size of the nodes. */
Test(uses, idle_ones_of_many_sizes_are_so_in_part) {
    site(4, 72, 50, 0.2);
    na_site_use_t *texts = site(3, 80, 50, 0);
    texts->smallest = 41;
    says(NA_USES_GROUP);
    cr_assert_float_eq(found.between, 1 / 5.0, 1e-9);
}

Test(uses, what_was_not_looked_at_is_not_idle) {
    site(3, 24, 50, 0.3);
    site(3, 32, 5, 0);
    says(NA_USES_DENSE);
    cr_assert_float_eq(found.unknown, 3 * MIB, 1);
}

Test(uses, what_is_used_half_as_much_is_not_idle) {
    site(3, 24, 200, 0.3);
    na_site_use_t *other = site(3, 32, 200, 0.15);
    says(NA_USES_DENSE);
    found.count = 1;
    site(3, 24, 200, 0.01);
    na_uses_judge(&found);
    cr_assert_eq(found.say, NA_USES_GROUP);
    cr_assert_not(other->hot, "it is not certain that it is used so often");
}

Test(uses, few_looks_are_not_enough) {
    site(3, 24, NA_USE_LOOKS - 1, 1);
    site(3, 32, 50, 0);
    says(NA_USES_LITTLE);
}

Test(uses, little_fits_into_the_caches) {
    site(NA_USE_BYTES / MIB - 0.1, 24, 50, 0.5);
    site(3, 32, 50, 0);
    says(NA_USES_LITTLE);
}

Test(uses, many_calls_cost_more) {
    na_site_use_t *nodes = site(3, 24, 50, 0.5);
    site(3, 32, 50, 0);
    nodes->cost = 1.2 * NA_USE_COST;
    says(NA_USES_LITTLE);
    nodes->cost = 0.8 * NA_USE_COST;
    na_site_use_t *more = site(3, 24, 50, 0.5);
    more->cost = 0.8 * NA_USE_COST;
    says(NA_USES_COSTLY);
}

Test(uses, short_lived_ones_are_left_alone) {
    site(3, 24, 50, 0.5)->may = false;
    site(3, 32, 50, 0);
    says(NA_USES_LITTLE);
}

/* Blocks of more than a KiB count as that; nothing is read beyond the classes. */
Test(uses, any_size) {
    static const double sizes[] = {1, 16, 17, 256, 257, 288, 511, 512, 513, 1023, 1024, 1e9};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        found = (na_uses_found_t){.items = sites};
        site(3, sizes[i], 50, 0.5);
        na_site_use_t *idle = site(3, sizes[i], 50, 0);
        idle->smallest = 1;
        na_uses_judge(&found);
        cr_assert(found.between > 0.02 && found.between <= 0.5, "%g: %g", sizes[i], found.between);
    }
}
