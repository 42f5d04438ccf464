/* figures.c - figures by name: each is there, counts what the program did, and says the same as the
 * structures and the JSON; what may change does, and nothing else. */
#include "support/check.h"

#include "support/alloc_api.h"

#include "numalloc/numalloc.h"

enum { BLOCKS = 1000, SIZE = 48, LARGE = 1 << 20 };

static uint64_t get(const char *name) {
    uint64_t value = 0;
    size_t size = sizeof value;
    CHECK(numalloc_get(name, &value, &size) == 0 && size == sizeof value);
    return value;
}

static int error_of(int result) {
    return result == 0 ? 0 : errno;
}

static void every_name_is_there(void) {
    size_t count = 0;
    const char *name, *meaning = NULL;
    for (; (name = numalloc_figure(count, &meaning)) != NULL; count++) {
        char real[64];
        CHECK(meaning != NULL && *meaning != 0);
        if (strncmp(name, "node.N.", 7) == 0)
            snprintf(real, sizeof real, "node.0.%s", name + 7);
        else if (strncmp(name, "class.SIZE.", 11) == 0)
            snprintf(real, sizeof real, "class.%d.%s", SIZE, name + 11);
        else
            snprintf(real, sizeof real, "%s", name);
        get(real);
    }
    CHECK(count > 20);
}

static void counts_are_exact(void) {
    static void *blocks[BLOCKS];
    uint64_t live = get("allocated"), made = get("allocations"), freed = get("frees");
    uint64_t of_class = get("class.48.allocations");
    for (int i = 0; i < BLOCKS; i++)
        CHECK((blocks[i] = malloc(SIZE)) != NULL);
    void *large = malloc(LARGE);
    CHECK(get("allocations") - made == BLOCKS + 1);
    CHECK(get("class.48.allocations") - of_class == BLOCKS);
    CHECK(get("allocated") - live >= BLOCKS * SIZE + LARGE);
    CHECK(get("allocated") - live <= BLOCKS * SIZE + LARGE + (64 << 10));
    CHECK(get("large") >= LARGE && get("large_allocations") >= 1);
    CHECK(get("active") >= get("allocated"));
    CHECK(get("node.0.allocated") == get("allocated"));
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    free(large);
    CHECK(get("frees") - freed == BLOCKS + 1);
    CHECK(get("allocated") == live);
}

static void names_that_are_none(void) {
    static const char *const none[] = {"",
                                       "alloc",
                                       "allocated ",
                                       "node.N.allocated",
                                       "node.99999.allocated",
                                       "node.99999999999999999999.allocated",
                                       "node.0",
                                       "node.0.",
                                       "node.0.bound",
                                       "class.47.frees",
                                       "class.SIZE.frees",
                                       "option.",
                                       "option.purge",
                                       "option.purge_delay_",
                                       "option.numa"};
    uint64_t value = 7;
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        size_t size = sizeof value;
        CHECK(error_of(numalloc_get(none[i], &value, &size)) == ENOENT);
        CHECK(error_of(numalloc_set(none[i], &value, sizeof value)) == ENOENT);
    }
    size_t size = 4;
    CHECK(error_of(numalloc_get("allocated", &value, &size)) == EINVAL);
    CHECK(size == 8 && value == 7);
    CHECK(numalloc_get("allocated", NULL, &size) == 0 && size == 8);
    CHECK(error_of(numalloc_get("allocated", &value, NULL)) == EINVAL);
    CHECK(error_of(numalloc_get(NULL, &value, &size)) == EINVAL);
}

static void what_may_change(void) {
    uint64_t value = 25;
    CHECK(numalloc_set("option.purge_delay", &value, sizeof value) == 0);
    CHECK(get("option.purge_delay") == 25);
    value = UINT64_MAX;
    CHECK(error_of(numalloc_set("option.purge_delay", &value, sizeof value)) == EINVAL);
    CHECK(error_of(numalloc_set("option.purge_delay", &value, 4)) == EINVAL);
    CHECK(error_of(numalloc_set("option.purge_delay", NULL, sizeof value)) == EINVAL);
    value = 1;
    CHECK(error_of(numalloc_set("allocated", &value, sizeof value)) == EPERM);
    value = 1 << 30; /* nothing was counted so far */
    CHECK(error_of(numalloc_set("option.limit", &value, sizeof value)) == EPERM);
    CHECK(get("option.purge_delay") == 25);
}

/* With a delay of 0, what becomes free has no memory. */
static void purge_delay_holds(void) {
    enum { COUNT = 64, BYTES = 256 << 10 };
    static char *blocks[COUNT];
    uint64_t value = 0;
    CHECK(numalloc_set("option.purge_delay", &value, sizeof value) == 0);
    for (int i = 0; i < COUNT; i++)
        memset(blocks[i] = malloc(BYTES), 1, BYTES);
    for (int i = 0; i < COUNT; i++)
        free(blocks[i]);
    CHECK(get("dirty") + get("large") < COUNT * (uint64_t)BYTES / 4);
}

/* Whole, cut off, and as `get` has it. */
static void json_is_whole(void) {
    static char whole[1 << 16], part[1 << 16];
    char wanted[64];
    size_t length = numalloc_stats_json(whole, sizeof whole);
    CHECK(length == strlen(whole) && length < sizeof whole);
    CHECK(numalloc_stats_json(NULL, 0) >= length / 2);
    CHECK(whole[0] == '{' && whole[length - 1] == '}');
    int depth = 0;
    for (size_t i = 0; i < length; i++) {
        depth += (whole[i] == '{' || whole[i] == '[') - (whole[i] == '}' || whole[i] == ']');
        CHECK(depth > 0 || i == length - 1);
    }
    CHECK(depth == 0);
    snprintf(wanted, sizeof wanted, "\"allocations\":%llu,",
             (unsigned long long)get("allocations"));
    CHECK(strstr(whole, wanted) != NULL);
    for (size_t size = 1; size < 100; size++) {
        memset(part, 'x', sizeof part);
        numalloc_stats_json(part, size);
        CHECK(strlen(part) == size - 1 && part[size] == 'x');
    }
}

int main(void) {
    check_begin();
    every_name_is_there();
    counts_are_exact();
    names_that_are_none();
    what_may_change();
    purge_delay_holds();
    json_is_whole();
    return check_status();
}
