/* resolve_instructions.c - samples' addresses resolved to blocks, to have that counted.
 *
 *   resolve_instructions small COUNT    addresses in 1,000 blocks of some twenty size classes
 *   resolve_instructions large COUNT    in 50 blocks of 1 MiB
 *   resolve_instructions edges          addresses and times that are of no living block
 *
 * Everything is the library's own (with prefixed entry points): a profile is recorded, so that the
 * blocks have real records, and na_access_resolve is called as the sources of samples call it.
 * Each answer is looked at. NUMALLOC_PROFILE_FILE says where the profile goes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/core/malloc/api.h"
#include "alloc/record/lookup.h"
#include "numalloc/numalloc.h"
#include "pagemap/pagemap.h"
#include "profiler/record/access/access_priv.h"

enum { SMALL = 1000, LARGE = 50 };

typedef struct known {
    uintptr_t base;
    uint64_t bytes, moment; /* of a sample after its birth */
    na_record_t record;
} known_t;

static known_t known[SMALL];

/* Not into main: callgrind collects while it is on the stack. */
__attribute__((noinline)) static bool is_right(const na_resolved_t *found, const known_t *k) {
    return found->target == NA_NPROF_TARGET_HEAP && found->life.base == k->base &&
           found->life.usable >= k->bytes &&
           memcmp(&found->life.record, &k->record, sizeof k->record) == 0;
}

/* 1: it is known what lives there. */
static int learn(known_t *k, void *block, uint64_t bytes) {
    na_found_t found;
    na_lookup(block, &found);
    if (found.kind != NA_LOOKUP_BLOCK) return 0;
    *k = (known_t){.base = (uintptr_t)block,
                   .bytes = bytes,
                   .moment = found.record.words[1] + (UINT64_C(100) << NA_RECORD_BIRTH_SHIFT),
                   .record = found.record};
    return 1;
}

static uint8_t target_at(uintptr_t address, uint64_t moment) {
    na_resolved_t found;
    na_access_resolve(address, moment, &found);
    return found.target;
}

static int wrong(const char *what) {
    fprintf(stderr, "resolve_instructions: %s\n", what);
    return 1;
}

/* What is no living block is not taken for one. */
static int edges(void) {
    known_t k, later;
    na_resolved_t found;
    int failed = 0;
    for (size_t size = 16; size <= 32768; size += 16) {
        void *block = NA_FN(malloc)(size);
        if (!learn(&k, block, size)) return wrong("a block has no record");
        const na_span_t *span = na_span_of(block);
        uintptr_t end = span->start + span->each * span->capacity;
        for (uintptr_t at = end; at < span->start + span->pages * UINT64_C(8192); at += 8)
            if (target_at(at, k.moment) == NA_NPROF_TARGET_HEAP)
                failed |= wrong("the end of a span was taken for a block");
        na_access_resolve(k.base + span->each - 1, k.moment, &found);
        if (!is_right(&found, &k)) failed |= wrong("a block's last byte");
        uint64_t before = k.record.words[1] - (UINT64_C(100) << NA_RECORD_BIRTH_SHIFT);
        if (target_at(k.base, before) != NA_NPROF_TARGET_UNRESOLVED)
            failed |= wrong("a block before it was there");
        NA_FN(free)(block);
        if (target_at(k.base, k.moment) != NA_NPROF_TARGET_UNRESOLVED)
            failed |= wrong("a block after its end");
        void *next = NA_FN(malloc)(size);
        if (next != block || !learn(&later, next, size)) return wrong("no block in its place");
        /* When the next one came late enough for the moment between: clocks may differ a little. */
        if (later.record.birth > k.record.birth + 100 + NA_RESOLVE_SLACK &&
            target_at(k.base, k.moment) != NA_NPROF_TARGET_UNRESOLVED)
            failed |= wrong("a block was taken for the next in its place");
        na_access_resolve(later.base, later.moment, &found);
        if (!is_right(&found, &later)) failed |= wrong("the next block in its place");
        if (size % 5 != 0) NA_FN(free)(next);
    }
    uint64_t huge = UINT64_C(64) << 20;
    if (!learn(&k, NA_FN(malloc)(huge), huge)) return wrong("a huge block has no record");
    for (uint64_t at = 0; at < huge; at += 4096) {
        na_access_resolve(k.base + at, k.moment, &found);
        if (!is_right(&found, &k)) failed |= wrong("inside of a huge block");
    }
    uintptr_t foreign[] = {0, 4096, (uintptr_t)&k, (uintptr_t)wrong, UINTPTR_MAX};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (target_at(foreign[i], k.moment) != NA_NPROF_TARGET_UNKNOWN)
            failed |= wrong("what is not of the heap");
    return failed;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    bool large = strcmp(what, "large") == 0;
    long count = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    if (strcmp(what, "edges") != 0 && (count <= 0 || (!large && strcmp(what, "small") != 0))) {
        fprintf(stderr, "usage: resolve_instructions small|large COUNT\n"
                        "       resolve_instructions edges\n");
        return 2;
    }
    if (numalloc_record_start(NUMALLOC_MODE_SITES, NULL) != 0) {
        perror("resolve_instructions: no profile");
        return 1;
    }
    static const na_profile_config_t config = {.find = na_lookup};
    na_access_config = &config;
    if (what[0] == 'e') return na_deaths_start() ? edges() : wrong("no memory");
    unsigned blocks = large ? LARGE : SMALL;
    for (unsigned i = 0; i < blocks; i++) {
        uint64_t bytes = large ? UINT64_C(1) << 20 : 16 + i * 7 % 2000;
        if (!learn(&known[i], NA_FN(malloc)(bytes), bytes)) return wrong("a block has no record");
    }
    long failed = 0;
    for (long i = 0; i < count; i++) {
        const known_t *k = &known[(unsigned long)i * 7 % blocks];
        na_resolved_t found;
        na_access_resolve(k->base + (uint64_t)i * 8 % k->bytes, k->moment, &found);
        failed += !is_right(&found, k);
    }
    if (failed != 0) fprintf(stderr, "resolve_instructions: %ld wrong answers\n", failed);
    return failed != 0;
}
