/* errno_rules.c - free keeps errno, whatever it has to do; failure sets it to ENOMEM (limits.c). */
#include "support/check.h"
#include "support/fill.h"

#include "support/alloc_api.h"

#define SLOTS 512

int main(void) {
    check_begin();
    static void *slots[SLOTS];
    uint64_t random = 1;
    errno = 4321;
    free(check_opaque(NULL));
    CHECK(errno == 4321);
    for (int i = 0; i < 200000; i++) {
        size_t at = (size_t)(fill_random(&random) % SLOTS);
        errno = 4321;
        free(slots[at]);
        CHECK_MSG(errno == 4321, "free set errno to %d", errno);
        size_t size = fill_random_size(&random, i % 64 == 0 ? 23 : 14);
        slots[at] = malloc(size);
        REQUIRE(slots[at] != NULL);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        errno = 4321;
        free(slots[i]);
        CHECK_MSG(errno == 4321, "free set errno to %d", errno);
    }
    /* Dedicated mappings, given back to the system. */
    for (size_t size = (size_t)1 << 20; size <= ((size_t)256 << 20); size *= 2) {
        void *block = malloc(size);
        REQUIRE(block != NULL);
        errno = 4321;
        free(block);
        CHECK_MSG(errno == 4321, "free of %zu bytes set errno to %d", size, errno);
    }
    return check_status();
}
