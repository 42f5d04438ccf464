/* resolve_instructions.c - samples' addresses resolved to blocks, to have that counted.
 *
 *   resolve_instructions small COUNT    addresses in 1,000 blocks of some twenty size classes
 *   resolve_instructions large COUNT    in 50 blocks of 1 MiB
 *
 * Everything is the library's own (with prefixed entry points): a profile is recorded, so that the
 * blocks have real records, and na_access_resolve is called as the sources of samples call it.
 * Each answer is looked at. NUMALLOC_PROFILE_FILE says where the profile goes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/api.h"
#include "alloc/lookup.h"
#include "numalloc/numalloc.h"
#include "profiler/record/access_priv.h"

enum { SMALL = 1000, LARGE = 50 };

typedef struct known {
    uintptr_t base;
    uint64_t birth, bytes;
} known_t;

static known_t known[SMALL];

/* Not into main: callgrind collects while it is on the stack. */
__attribute__((noinline)) static bool is_right(const na_resolved_t *found, const known_t *k) {
    return found->target == NA_NPROF_TARGET_HEAP && found->life.base == k->base &&
           found->life.usable >= k->bytes;
}

int main(int argc, char **argv) {
    bool large = argc > 1 && strcmp(argv[1], "large") == 0;
    long count = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    if (count <= 0 || (!large && strcmp(argv[1], "small") != 0)) {
        fprintf(stderr, "usage: resolve_instructions small|large COUNT\n");
        return 2;
    }
    if (numalloc_profile_start("sites", NULL) != 0) {
        perror("resolve_instructions: no profile");
        return 1;
    }
    unsigned blocks = large ? LARGE : SMALL;
    static const na_profile_config_t config = {.find = na_lookup};
    na_access_config = &config;
    for (unsigned i = 0; i < blocks; i++) {
        known[i].bytes = large ? UINT64_C(1) << 20 : 16 + i * 7 % 2000;
        known[i].base = (uintptr_t)NA_FN(malloc)(known[i].bytes);
        na_found_t found;
        na_lookup((const void *)known[i].base, &found);
        if (found.kind != NA_LOOKUP_BLOCK) {
            fprintf(stderr, "resolve_instructions: block %u has no record\n", i);
            return 1;
        }
        known[i].birth = na_record_birth(&found.record);
    }
    long wrong = 0;
    for (long i = 0; i < count; i++) {
        const known_t *k = &known[(unsigned long)i * 7 % blocks];
        na_resolved_t found;
        na_access_resolve(k->base + (uint64_t)i * 8 % k->bytes, k->birth + 100, &found);
        wrong += !is_right(&found, k);
    }
    if (wrong != 0) fprintf(stderr, "resolve_instructions: %ld wrong answers\n", wrong);
    return wrong != 0;
}
