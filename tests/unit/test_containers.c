/* test_containers.c - the tools' growing array and index: growth, equal hashes, what fits no more.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "profiler/containers/array.h"
#include "profiler/containers/index.h"

Test(array, grows_and_keeps_what_is_in_it) {
    uint64_t *items = NULL;
    uint32_t count = 0, room = 0;
    for (; count < 10000; count++) {
        cr_assert(NA_ARRAY_RESERVE(items, room, count + 1));
        cr_assert_gt(room, count);
        items[count] = count;
    }
    for (uint32_t i = 0; i < count; i++)
        cr_assert_eq(items[i], i);
    free(items);
}

Test(array, as_much_as_wanted_at_once) {
    char *items = NULL;
    size_t room = 0;
    cr_assert(NA_ARRAY_RESERVE(items, room, 1000));
    cr_assert_geq(room, 1000);
    items[999] = 1;
    free(items);
}

Test(array, more_than_the_type_of_room_can_say) {
    char *items = NULL;
    uint8_t room = 0;
    cr_assert(NA_ARRAY_RESERVE(items, room, 100));
    uint8_t before = room;
    char *where = items;
    cr_expect_not(NA_ARRAY_RESERVE(items, room, 300));
    cr_expect_eq(room, before);
    cr_expect_eq(items, where);
    free(items);
}

Test(array, new_room_is_cleared) {
    uint32_t *items = NULL, room = 0;
    for (uint32_t number = 0; number < 10000; number += 97) {
        cr_assert(NA_ARRAY_RESERVE_ZERO(items, room, number + 1));
        cr_assert_gt(room, number);
        for (uint32_t i = 0; i < room; i++)
            cr_assert_eq(items[i], i < number && i % 97 == 0 ? i + 1 : 0);
        items[number] = number + 1;
    }
    free(items);
}

/* Unknown to the compiler, which would refuse it. */
static volatile size_t most = SIZE_MAX / 2;

Test(array, more_than_there_is) {
    uint64_t *items = NULL;
    size_t room = 0;
    cr_expect_not(NA_ARRAY_RESERVE(items, room, most));
    cr_expect_eq(room, 0);
    cr_expect_null(items);
}

/* Items are 0, 1, 2, ...; `hash` of each. Finds every one, and nothing else. */
static void fill_and_find(uint64_t (*hash)(uint32_t), uint32_t count) {
    na_index_t index = {0};
    na_probe_t none = na_index_probe(&index, hash(0));
    cr_assert_not(na_index_next(&index, &none), "the empty index has something");
    for (uint32_t i = 0; i < count; i++)
        cr_assert(na_index_add(&index, hash(i), i));
    for (uint32_t i = 0; i < count; i++) {
        na_probe_t probe = na_index_probe(&index, hash(i));
        bool found = false;
        while (na_index_next(&index, &probe))
            found |= probe.number == i;
        cr_assert(found, "%u is lost", i);
    }
    na_probe_t probe = na_index_probe(&index, hash(count) + 1);
    cr_expect_not(na_index_next(&index, &probe), "there is what was never added");
    na_index_free(&index);
}

static uint64_t mixed(uint32_t i) {
    return na_hash_number(NA_HASH_BEGIN, i);
}

static uint64_t same(uint32_t i) {
    (void)i;
    return 7;
}

Test(index, finds_all) {
    fill_and_find(mixed, 100000);
}

Test(index, equal_hashes) {
    fill_and_find(same, 1000);
}

Test(index, texts_and_numbers_have_their_own_hashes) {
    cr_expect_neq(na_hash_text(NA_HASH_BEGIN, "ab"), na_hash_text(NA_HASH_BEGIN, "ba"));
    cr_expect_neq(na_hash_number(NA_HASH_BEGIN, 1), na_hash_number(NA_HASH_BEGIN, 2));
}
