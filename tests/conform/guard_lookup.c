/* guard_lookup.c - guarded blocks and those between canaries are found by their addresses, with
 * what the profile keeps of them, as accesses are put down to blocks. Linked with the static
 * library, whose lookup it calls; NUMALLOC_GUARD_EACH=1, and a profile of mode sample of every
 * block. */
#include "support/check.h"

#include <malloc.h>

#include "alloc/record/lookup.h"

static unsigned guarded, with_canaries;

static void look(size_t size) {
    char *block = check_opaque(malloc(size));
    REQUIRE(block != NULL && malloc_usable_size(block) == size);
    bool at_page =
        (uintptr_t)block % 4096 == 0 || ((uintptr_t)block + size + 15) / 16 * 16 % 4096 == 0;
    guarded += at_page;
    with_canaries += !at_page;
    na_found_t found = {0};
    for (size_t at = 0; at < size; at += size - 1) {
        na_lookup(block + at, &found);
        CHECK(found.kind == NA_LOOKUP_BLOCK && found.base == (uintptr_t)block);
        CHECK(found.usable - found.record.slack == size && found.record.site != 0);
    }
    na_lookup(block - 1, &found);
    CHECK(found.kind == NA_LOOKUP_FREE || at_page);
    na_lookup(block + size, &found);
    CHECK(found.kind == NA_LOOKUP_FREE);
    if (with_canaries == 0 || with_canaries > 50) return; /* it takes a page's place for good */
    free(block);
    na_lookup(check_opaque(block), &found);
    CHECK(found.kind == NA_LOOKUP_FREE);
}

int main(void) {
    check_begin();
    for (unsigned i = 0; i < 150; i++)
        look(77);
    CHECK(guarded > 40 && with_canaries > 50);
    return check_status();
}
