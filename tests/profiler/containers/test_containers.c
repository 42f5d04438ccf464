/* test_containers.c - the tools' growing array and index: growth, equal hashes, what fits no more.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "profiler/containers/array.h"
#include "profiler/containers/index.h"
#include "profiler/containers/number.h"
#include "profiler/containers/quantity.h"

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

/* Long runs, also around the table's end. */
static uint64_t few(uint32_t i) {
    return (uint32_t)(i % 7 * 100 - 1);
}

Test(index, finds_all) {
    fill_and_find(mixed, 100000);
}

Test(index, equal_hashes) {
    fill_and_find(same, 1000);
}

/* Half of the items are removed, and half of these come back; all others are found, and nothing
 * else. */
static void remove_and_find(uint64_t (*hash)(uint32_t), uint32_t count) {
    na_index_t index = {0};
    for (uint32_t i = 0; i < count; i++)
        cr_assert(na_index_add(&index, hash(i), i));
    uint32_t room = index.room;
    for (uint32_t i = 0; i < count; i += 2) {
        na_probe_t probe = na_index_probe(&index, hash(i));
        while (na_index_next(&index, &probe))
            if (probe.number == i) {
                na_index_remove(&index, &probe);
                break;
            }
    }
    cr_expect_eq(index.count, count / 2);
    for (uint32_t i = 0; i < count; i += 4)
        cr_assert(na_index_add(&index, hash(i), i));
    cr_expect_eq(index.room, room, "what was removed takes room");
    for (uint32_t i = 0; i < count; i++) {
        na_probe_t probe = na_index_probe(&index, hash(i));
        uint32_t found = 0;
        while (na_index_next(&index, &probe))
            found += probe.number == i;
        cr_assert_eq(found, i % 4 != 2, "%u is there %u times", i, found);
    }
    na_index_free(&index);
}

Test(index, removed_ones_leave_no_gap) {
    remove_and_find(mixed, 100000);
    remove_and_find(same, 1000);
    remove_and_find(few, 2000);
}

Test(index, all_go_and_come_back) {
    na_index_t index = {0};
    for (unsigned round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 256; i++)
            cr_assert(na_index_add(&index, few(i), i));
        cr_expect_eq(index.room, 512);
        for (uint32_t i = 0; i < 256; i++) {
            na_probe_t probe = na_index_probe(&index, few(i));
            while (na_index_next(&index, &probe) && probe.number != i) {
            }
            cr_assert_eq(probe.number, i);
            na_index_remove(&index, &probe);
        }
        cr_expect_eq(index.count, 0);
        for (uint32_t at = 0; at < index.room; at++)
            cr_assert_eq(index.slots[at].next, 0);
    }
    na_index_free(&index);
}

Test(index, a_table_from_elsewhere) {
    static na_index_slot_t tables[3][2048];
    na_index_t index = {0};
    for (uint32_t i = 0, table = 0; i < 1000; i++) {
        uint32_t room = na_index_wants(&index);
        if (room != 0) {
            na_index_slot_t *old = table == 0 ? NULL : tables[table - 1];
            cr_assert(table < 3 && room <= 2048);
            cr_expect_eq(na_index_move(&index, tables[table++], room), old);
        }
        na_index_add_here(&index, mixed(i), i);
    }
    for (uint32_t i = 0; i < 1000; i++) {
        na_probe_t probe = na_index_probe(&index, mixed(i));
        while (na_index_next(&index, &probe) && probe.number != i) {
        }
        cr_assert_eq(probe.number, i);
    }
    index.room = UINT32_C(1) << 31;
    index.count = index.room / 2;
    cr_expect_eq(na_index_wants(&index), UINT32_MAX);
}

Test(index, texts_and_numbers_have_their_own_hashes) {
    cr_expect_neq(na_hash_text(NA_HASH_BEGIN, "ab"), na_hash_text(NA_HASH_BEGIN, "ba"));
    cr_expect_neq(na_hash_number(NA_HASH_BEGIN, 1), na_hash_number(NA_HASH_BEGIN, 2));
}

static void reads_as(const char *text, unsigned base, uint64_t number, const char *rest) {
    const char *at = text;
    cr_expect_eq(na_number_read(&at, base), number, "%s", text);
    cr_expect_str_eq(at, rest);
}

Test(number, is_read_up_to_what_is_no_digit) {
    reads_as("7f3a-80", 16, 0x7f3a, "-80");
    reads_as("7f3a-80", 10, 7, "f3a-80");
    reads_as("18446744073709551615\n", 10, UINT64_MAX, "\n");
    reads_as("ffffffffffffffff rw", 16, UINT64_MAX, " rw");
    reads_as("1ffffffffffffffff", 16, UINT64_MAX, "");
    reads_as("", 16, 0, "");
    reads_as("G", 16, 0, "G");
    reads_as("FF", 16, 0, "FF");
}

/* -1: refused. */
static double bytes_of(const char *text) {
    double bytes;
    return na_quantity_bytes(text, &bytes) ? bytes : -1;
}

static double ms_of(const char *text, double bare) {
    double ms;
    return na_quantity_ms(text, bare, &ms) ? ms : -1;
}

Test(quantity, sizes) {
    static const char *const wrong[] = {"",     "M",    "-1M", "+1",  " 1",    "1X", "1MX",
                                        "1.5.", "0x10", "inf", "nan", "1 M 1", "1Bi"};
    cr_expect_eq(bytes_of("0"), 0);
    cr_expect_eq(bytes_of("1000"), 1000);
    cr_expect_eq(bytes_of("12b"), 12);
    cr_expect_eq(bytes_of("1.5K"), 1536);
    cr_expect_eq(bytes_of("2m"), 2 << 20);
    cr_expect_eq(bytes_of("2MB"), 2 << 20);
    cr_expect_eq(bytes_of("2 MiB"), 2 << 20);
    cr_expect_eq(bytes_of("1G"), 1 << 30);
    cr_expect_eq(bytes_of("1TiB"), ldexp(1, 40));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_expect_eq(bytes_of(wrong[i]), -1, "'%s'", wrong[i]);
}

Test(quantity, times) {
    cr_expect_eq(ms_of("2", 1000), 2000);
    cr_expect_eq(ms_of("2", 0), -1);
    cr_expect_eq(ms_of("300ms", 0), 300);
    cr_expect_eq(ms_of("0.5s", 0), 500);
    cr_expect_eq(ms_of("10m", 1000), 600e3);
    cr_expect_eq(ms_of("2H", 1000), 7200e3);
    cr_expect_eq(ms_of("2x", 1000), -1);
    cr_expect_eq(ms_of("-2s", 1000), -1);
    cr_expect_eq(ms_of("s", 1000), -1);
}
