/* origins.c - blocks that a forked child has from its ancestors' profiles.
 *
 * Records (pagemap/pagemap.h) lie in the allocator's memory, which the child inherits, and say of
 * each live block which epoch it is from: so the child knows, without the parent's file, what is
 * live of each of its parent's sites. When its own profile begins (at its first event) it writes
 * that down, once, and from then on counts frees of such blocks at their site. Sites are nodes of
 * the ancestor's stacks, in the ancestor's file, which is named. Ancestors further back than
 * DEEPEST, and sites beyond MOST_SITES, count as "before profiling". */
#include "pagemap/pagemap.h"
#include "profiler/record/state/state.h"

#define DEEPEST    8u
#define MOST_SITES 65536u /* a power of two */

/* Survives a fork. The latest is last. */
static struct ancestor {
    int32_t pid;
    uint8_t epoch;
    uint64_t start_unix_ns;
    char file[480];
} ancestors[DEEPEST];
static uint32_t ancestor_count;

/* Of this process's profile; valid while `table` is not NULL. Filled before it is seen by others,
 * never changed but for free_* afterwards. */
static struct {
    na_nprof_inherited_t *entries;
    uint32_t *table; /* hash of (origin, site) -> entry + 1 */
    uint32_t mask, count, capacity;
    na_nprof_origin_t *origins;
    const na_profile_config_t *config;
} set;

void na_origins_forget(void) {
    ancestor_count = 0;
    set.table = NULL;
}

void na_origins_add(int32_t pid, uint64_t start_unix_ns, uint8_t epoch) {
    set.table = NULL; /* the parent's */
    if (ancestor_count == DEEPEST) {
        for (uint32_t i = 1; i < DEEPEST; i++)
            ancestors[i - 1] = ancestors[i];
        ancestor_count--;
    }
    struct ancestor *a = &ancestors[ancestor_count++];
    a->pid = pid;
    a->epoch = epoch;
    a->start_unix_ns = start_unix_ns;
    na_rec_copy(a->file, sizeof a->file, na_writer_name());
}

/* Origin id of an epoch, 0: none. */
static uint32_t origin_of(uint8_t epoch) {
    for (uint32_t i = ancestor_count; i-- > 0;)
        if (ancestors[i].epoch == epoch) return i + 1;
    return 0;
}

static uint32_t origin_slot(uint32_t origin, uint32_t site) {
    uint64_t h = ((uint64_t)origin << 32 | site) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t i = (uint32_t)(h >> 32) & set.mask;
    while (set.table[i] != 0 && (set.entries[set.table[i] - 1].site != site ||
                                 set.entries[set.table[i] - 1].origin != origin))
        i = (i + 1) & set.mask;
    return i;
}

typedef void (*visit_t)(uint32_t origin, const na_record_t *record, uint64_t usable);

static void each_recorded_block(const na_span_t *span, na_record_t *records, uint32_t count,
                                void *arg) {
    visit_t visit = *(visit_t *)arg;
    uint64_t usable = set.config->usable(span);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t origin = records[i].epoch == 0 ? 0 : origin_of(records[i].epoch);
        if (origin != 0 && records[i].site != NA_NPROF_NO_STACK) visit(origin, &records[i], usable);
    }
}

/* Sites are counted first, in the table alone, so that the file gets a chunk of the right size. */
static void count_site(uint32_t origin, const na_record_t *record, uint64_t usable) {
    (void)usable;
    uint32_t i = origin_slot(origin, record->site);
    if (set.table[i] != 0 || set.count == set.capacity) return;
    set.entries[set.count] = (na_nprof_inherited_t){.site = record->site, .origin = origin};
    set.table[i] = ++set.count;
}

static na_nprof_inherited_t *entry_of(uint32_t origin, uint32_t site) {
    uint32_t i = set.table[origin_slot(origin, site)];
    return i == 0 ? NULL : &set.entries[i - 1];
}

static void add_inherited_block(uint32_t origin, const na_record_t *record, uint64_t usable) {
    na_nprof_inherited_t *e = entry_of(origin, record->site);
    if (e == NULL) return;
    na_amount_t a = na_site_amount(usable - record->slack, usable);
    e->live_count += a.count;
    e->live_bytes += a.bytes;
    e->live_usable += a.usable;
    set.origins[origin - 1].blocks += a.count;
    set.origins[origin - 1].bytes += a.bytes;
}

static bool write_origins(void) {
    na_nprof_chunk_t *c = na_writer_chunk(
        NA_NPROF_ORIGINS, na_nprof_chunk_length(ancestor_count, sizeof(na_nprof_origin_t)),
        sizeof(na_nprof_origin_t), 0, 0, 1);
    if (c == NULL) return false;
    set.origins = (na_nprof_origin_t *)(c + 1);
    for (uint32_t i = 0; i < ancestor_count; i++) {
        set.origins[i].pid = ancestors[i].pid;
        set.origins[i].start_unix_ns = ancestors[i].start_unix_ns;
        na_rec_copy(set.origins[i].file, sizeof set.origins[i].file, ancestors[i].file);
    }
    c->capacity = c->count = ancestor_count;
    na_writer_publish(c);
    return true;
}

static void each_origin(visit_t visit) {
    set.config->each_records(each_recorded_block, &visit);
}

void na_origins_start(const na_profile_config_t *config) {
    set.table = NULL;
    if (ancestor_count == 0 || config->each_records == NULL || !write_origins()) return;
    set.config = config;
    set.count = 0;
    set.capacity = MOST_SITES / 2;
    set.mask = MOST_SITES - 1;
    /* Reserved, touched as far as it is used. */
    set.entries = na_own_alloc(MOST_SITES / 2 * sizeof(na_nprof_inherited_t));
    uint32_t *table = na_own_alloc(MOST_SITES * sizeof *table);
    if (set.entries == NULL || table == NULL) return;
    set.table = table;
    each_origin(count_site);
    na_nprof_chunk_t *c =
        set.count == 0 ? NULL
                       : na_writer_chunk(NA_NPROF_INHERITED,
                                         na_nprof_chunk_length(set.count, sizeof *set.entries),
                                         sizeof *set.entries, 0, 0, 0);
    if (c == NULL) {
        set.table = NULL;
        return;
    }
    na_nprof_inherited_t *in_file = (na_nprof_inherited_t *)(c + 1);
    for (uint32_t i = 0; i < set.count; i++)
        in_file[i] = set.entries[i];
    set.entries = in_file;
    each_origin(add_inherited_block);
    c->capacity = c->count = set.count;
    na_writer_publish(c);
}

bool na_origins_free(const na_record_t *record, uint64_t usable) {
    uint32_t origin = set.table == NULL ? 0 : origin_of(record->epoch);
    if (origin == 0 || record->site == NA_NPROF_NO_STACK) return false;
    na_nprof_inherited_t *e = entry_of(origin, record->site);
    if (e == NULL) return false;
    na_amount_t a = na_site_amount(usable - record->slack, usable);
    __atomic_fetch_add(&e->free_bytes, a.bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&e->free_usable, a.usable, __ATOMIC_RELAXED);
    __atomic_fetch_add(&e->free_count, a.count, __ATOMIC_RELAXED);
    return true;
}
