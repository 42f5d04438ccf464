/* test_path.c - the tables of the seam: who stands in front, and the round of the layers. */
#include <criterion/criterion.h>

#include "alloc/core/path/seam.h"

static void born_behind(void *block, size_t asked, na_entry_t entry) {
    (void)block, (void)asked, (void)entry;
}

static void born_in_front(void *block, size_t asked, na_entry_t entry) {
    (void)block, (void)asked, (void)entry;
}

static bool spare_behind(void) {
    return true;
}

Test(path, what_one_in_front_has_not_is_left_to_who_is_behind) {
    na_path_front(&(na_path_t){.born = born_behind, .spare = spare_behind, .room = 1});
    na_path_front(&(na_path_t){.born = born_in_front, .apart = 1});
    cr_assert(na_path.born == born_in_front && na_path.spare == spare_behind);
    cr_assert(na_path.room == 1 && na_path.apart == 1);
    cr_assert(na_path_spare());
}

static char rounds[16];
static unsigned round_count;

static unsigned take_3(void) {
    rounds[round_count++] = 'a';
    return 3;
}

static unsigned take_5(void) {
    rounds[round_count++] = 'b';
    return 5;
}

static void give_3(bool child, unsigned taken) {
    cr_assert(!child && taken == 3);
    rounds[round_count++] = 'A';
}

static void give_5(bool child, unsigned taken) {
    cr_assert(!child && taken == 5);
    rounds[round_count++] = 'B';
}

static uint64_t forget_10(struct na_tcache *tcache) {
    (void)tcache;
    return 10;
}

static uint64_t forget_4(struct na_tcache *tcache) {
    (void)tcache;
    return 4;
}

Test(path, layers_are_told_in_their_order_and_each_what_it_took) {
    static na_layer_t first = {.before_fork = take_3, .after_fork = give_3, .forget = forget_10};
    static na_layer_t silent;
    static na_layer_t last = {.before_fork = take_5, .after_fork = give_5, .forget = forget_4};
    na_layer_add(&first);
    na_layer_add(&silent);
    na_layer_add(&last);
    na_layers_after_fork(false, na_layers_before_fork());
    cr_assert_str_eq(rounds, "abAB");
    cr_assert_eq(na_layers_forget(NULL), 14);
    na_layers_flush(NULL);
}
