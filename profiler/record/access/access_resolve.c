/* access_resolve.c - from a sample's address and time to the block that was there then.
 *
 * Nearly all samples are on blocks that still live, and for these the way is short: page map, span,
 * index of the block, record. Nothing on it is tested that the last comparison finds as well: it
 * asks whether the record is of this profile, and of a life that began before the sample.
 *
 * - A span that has no records leads to a record of no life; so do the last bytes of a span that
 *   are no block's; the index is masked to the array's length.
 * - A span, its records or the block may end meanwhile, and others come in their place. Then the
 *   record is blank, or of a life that began after the call did (na_record_publish), while samples
 *   are from before (na_access_moment_of).
 * What is left (ended blocks, no blocks, clocks that differ) goes the long way. */
#include "pagemap/pagemap.h"
#include "profiler/record/access/access_priv.h"

#define SLACK NA_RESOLVE_SLACK

#define AGES(moment) ((moment) >> NA_RECORD_BIRTH_SHIFT & NA_RECORD_TIME_MASK)

static NA_NOINLINE void resolve_slowly(uintptr_t address, uint64_t moment, na_resolved_t *to) {
    na_found_t found;
    uint64_t ages = AGES(moment), off = SLACK;
    na_access_config->find((const void *)address, &found);
    to->target = NA_NPROF_TARGET_UNKNOWN;
    if (found.kind == NA_LOOKUP_FOREIGN) return;
    if (found.kind == NA_LOOKUP_BLOCK) {
        to->life = (na_life_t){.base = found.base,
                               .usable = found.usable,
                               .death = NA_LIFE_LASTS,
                               .record = found.record};
        if (found.record.epoch != na_profile_epoch) {
            to->target = NA_NPROF_TARGET_UNRECORDED;
            return;
        }
        if (found.record.site != NA_NPROF_NO_STACK && found.record.birth != NA_RECORD_UNBORN) {
            off = na_life_off(&to->life, ages);
            to->target = NA_NPROF_TARGET_HEAP;
            if (off == 0) return;
            if (off > SLACK) off = SLACK;
        }
    }
    /* The block there now is too young: another was there, or the clocks differ. */
    na_life_t life;
    uintptr_t base = found.kind == NA_LOOKUP_FREE ? 0 : found.base;
    const na_life_t *now = to->target == NA_NPROF_TARGET_HEAP ? &to->life : NULL;
    if (na_deaths_find(address, base, ages, off, &life) ||
        (base != 0 && off == SLACK && na_deaths_around(base, now, ages, &life))) {
        to->target = NA_NPROF_TARGET_HEAP;
        to->life = life;
    } else if (off == SLACK) {
        to->target =
            found.kind == NA_LOOKUP_PLAIN ? NA_NPROF_TARGET_UNRECORDED : NA_NPROF_TARGET_UNRESOLVED;
    }
}

#define READ(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)

NA_RACY static inline bool resolve_fast(uintptr_t address, uint64_t moment, na_resolved_t *to) {
    if (NA_UNLIKELY(address >> NA_SPAN_LEAF_SHIFT >= NA_SPAN_ROOT_ENTRIES)) return false;
    const na_span_leaf_t *leaf = na_span_leaf_of(address);
    const na_span_t *span = leaf->span[na_page_in_span_leaf(address)];
    if (NA_UNLIKELY(span == NULL)) {
        span = leaf->huge[na_hugepage_in_span_leaf(address)];
        if (NA_UNLIKELY(span == NULL)) return false;
    }
    /* All of this before the records: if it is of a later span, so are they. (Plain reads: an
     * atomic one is an instruction by itself.) */
    uintptr_t start = span->start;
    uint64_t index = (address - start) * span->reciprocal >> 40, each = span->each;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    const na_record_t *records = atomic_load_explicit(&span->registry, memory_order_acquire);
    index &= na_span_records_mask(records);
    uint64_t first = READ(&records[index].words[0]);
    uint64_t life = READ(&records[index].words[1]);
    /* Of another epoch, or later: the difference has high bits. */
    if (NA_UNLIKELY((moment - life) >> (NA_RECORD_EPOCH_SHIFT - 1) != 0)) return false;
    to->target = NA_NPROF_TARGET_HEAP;
    to->life.base = start + index * each;
    to->life.usable = each;
    to->life.death = NA_LIFE_LASTS;
    to->life.record.words[0] = first;
    to->life.record.words[1] = life;
    return true;
}

NA_RACY void na_access_resolve(uintptr_t address, uint64_t moment, na_resolved_t *to) {
    if (NA_UNLIKELY(!resolve_fast(address, moment, to))) resolve_slowly(address, moment, to);
}

bool na_access_resolve_living(uintptr_t address, uint64_t moment, na_resolved_t *to) {
    return resolve_fast(address, moment, to);
}
