/* policy_lib.c - a library with sites that the rules of policy_threads.c name. Its calls go through
 * import slots, in every build. None is one in tail position. */
#include <string.h>

#include "support/alloc_api.h"
#include "support/check.h"

#define SITE __attribute__((visibility("default"), noinline)) void *

SITE policy_site_local(size_t size) {
    return check_opaque(malloc(size));
}

SITE policy_site_lines(size_t size) {
    return check_opaque(calloc(1, size));
}

SITE policy_site_long(size_t size) {
    return check_opaque(realloc(NULL, size));
}

SITE policy_site_aligned(size_t size) {
    void *block = NULL;
    return posix_memalign(&block, 128, size) == 0 ? check_opaque(block) : NULL;
}

__attribute__((noinline)) static void *by_two_ways(size_t size) {
    return check_opaque(malloc(size));
}

SITE policy_site_first_way(size_t size) {
    return check_opaque(by_two_ways(size));
}

SITE policy_site_second_way(size_t size) {
    return check_opaque(by_two_ways(size));
}

SITE policy_site_by_no_rule(size_t size) {
    return check_opaque(malloc(size));
}
