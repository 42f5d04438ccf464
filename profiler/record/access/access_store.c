/* access_store.c - from raw samples to the file: the thread, the block that was there at the time,
 * the mapping, the page's node. Samples wait in a batch, so that pages' nodes are asked for many at
 * a time. */
#include "alloc/core/machine/topology.h"
#include "profiler/record/access/access_pools.h"
#include "profiler/record/access/access_priv.h"
#include "profiler/record/events/probes.h"
#include "profiler/record/unwind/unwind.h"

#define BATCH        NA_OS_MOVE_PAGES
#define OBJECT_SLOTS (1u << 12) /* of the first table; it doubles */
/* A node that was asked for after the access: in the batch only. */
#define HOME_WAS_ASKED 0x4000
#define TICK_EVERY     UINT64_C(1000000000)
#define LOOKED_AT      8192u /* slots of objects a tick: a fraction of a millisecond */

na_lock_t na_access_store_lock;

typedef struct object_slot {
    uintptr_t base;
    uint64_t birth; /* ages */
    na_nprof_access_object_t *entry;
    uint32_t id; /* 0: free */
    uint32_t
        pool; /* id; 0: a heap block, which may begin where and when its first pool block does */
} object_slot_t;

static struct {
    na_access_raw_t *batch;
    uint32_t waiting;
    uint32_t serial;
    void **pages;
    int *status;
    object_slot_t *objects;
    uint32_t object_mask, object_count;
    uint32_t looked_at; /* the slot after the last that find_ended looked at */
    uint64_t maps_read, ticked;
    bool homes_refused, maps_fresh;
    na_access_table_t sources, nodes, objects_table, windows, samples, probes;
} sample_store;

#define TABLE(t, entry, bytes)                                                                     \
    (na_access_table_t) {                                                                          \
        .type = (t), .size = sizeof(entry), .next_id = 1, .chunk_bytes = (bytes)                   \
    }

static void write_nodes(void) {
    sample_store.nodes.next_id = 0;
    for (unsigned i = 0; i < na_node_count; i++) {
        na_nprof_access_node_t *n = na_access_table_next(&sample_store.nodes);
        if (n == NULL) return;
        na_node_facts(i, n);
        na_access_table_commit(&sample_store.nodes);
    }
}

void na_access_store_init(void) {
    __builtin_memset(&sample_store, 0, sizeof sample_store);
    na_lock_reset(&na_access_store_lock);
    sample_store.sources = TABLE(NA_NPROF_ACCESS_SOURCES, na_nprof_access_source_t, 8u << 10);
    sample_store.nodes = TABLE(NA_NPROF_ACCESS_NODES, na_nprof_access_node_t, 8u << 10);
    sample_store.objects_table =
        TABLE(NA_NPROF_ACCESS_OBJECTS, na_nprof_access_object_t, 64u << 10);
    sample_store.windows = TABLE(NA_NPROF_ACCESS_WINDOWS, na_nprof_access_window_t, 64u << 10);
    sample_store.samples = TABLE(NA_NPROF_ACCESS_SAMPLES, na_nprof_access_sample_t, 256u << 10);
    sample_store.probes = TABLE(NA_NPROF_ACCESS_PROBES, na_nprof_access_probe_t, 32u << 10);
}

static bool make_room_for_sample(void) {
    sample_store.batch = na_own_alloc(BATCH * sizeof *sample_store.batch);
    sample_store.pages = na_own_alloc(BATCH * sizeof *sample_store.pages);
    sample_store.status = na_own_alloc(BATCH * sizeof *sample_store.status);
    sample_store.object_mask = OBJECT_SLOTS - 1;
    sample_store.objects = na_own_alloc(OBJECT_SLOTS * sizeof *sample_store.objects);
    return sample_store.batch != NULL && sample_store.pages != NULL &&
           sample_store.status != NULL && sample_store.objects != NULL && na_deaths_start() &&
           na_athreads_start() && na_amaps_start();
}

bool na_access_store_start(void) {
    na_lock(&na_access_store_lock);
    bool made = make_room_for_sample();
    if (made) {
        na_access_clock_start();
        write_nodes();
        sample_store.maps_read = sample_store.ticked = na_access_mono();
        na_amaps_read(sample_store.maps_read);
    }
    na_unlock(&na_access_store_lock);
    return made;
}

na_nprof_access_source_t *na_access_store_source(const na_access_source_t *source) {
    na_nprof_access_source_t *e = na_access_table_next(&sample_store.sources);
    if (e == NULL) return NULL;
    e->source = source->kind;
    e->flags = source->flags | NA_NPROF_ACCESS_VALID;
    e->unit = source->unit;
    e->end_ns = NA_NPROF_NS_STILL;
    na_access_table_commit(&sample_store.sources);
    na_nprof_open(e, sizeof *e);
    return e;
}

void na_access_store_sources(bool change) {
    na_nprof_chunk_t *c = sample_store.sources.chunk; /* they are few */
    na_nprof_access_source_t *e = (na_nprof_access_source_t *)(c + 1);
    for (uint32_t i = 0; c != NULL && i < c->count; i++) {
        if (change)
            na_nprof_open(&e[i], sizeof *e);
        else
            na_nprof_seal(&e[i], sizeof *e);
    }
}

/* ---- objects ---- */

static object_slot_t *object_slot(object_slot_t *slots, uint32_t mask, uintptr_t base,
                                  uint64_t birth, uint32_t pool) {
    uint64_t h = ((uint64_t)base >> 4 ^ birth << 20 ^ pool) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint64_t i = h >> 32;; i++) {
        object_slot_t *slot = &slots[i & mask];
        if (slot->id == 0 || (slot->base == base && slot->birth == birth && slot->pool == pool))
            return slot;
    }
}

static bool grow_objects(void) {
    uint32_t mask = sample_store.object_mask * 2 + 1;
    uint64_t bytes = ((uint64_t)mask + 1) * sizeof *sample_store.objects;
    object_slot_t *slots = na_rec_has_room(bytes) ? na_own_alloc(bytes) : NULL;
    if (slots == NULL) return false;
    for (uint32_t i = 0; i <= sample_store.object_mask; i++)
        if (sample_store.objects[i].id != 0)
            *object_slot(slots, mask, sample_store.objects[i].base, sample_store.objects[i].birth,
                         sample_store.objects[i].pool) = sample_store.objects[i];
    sample_store.objects = slots;
    sample_store.object_mask = mask;
    return true;
}

/* At the latest. */
static void ended_by(const object_slot_t *slot, uint64_t since_ns) {
    if (since_ns >= slot->entry->death_ns) return;
    na_nprof_open(slot->entry, sizeof *slot->entry);
    __atomic_store_n(&slot->entry->death_ns, since_ns, __ATOMIC_RELAXED);
    na_nprof_seal(slot->entry, sizeof *slot->entry);
}

/* `pool`: 0, it is a heap block. Returns 0: no room, or its record was being filled. */
static uint32_t object_of(const na_life_t *life, uint32_t pool) {
    if (life->record.site == NA_NPROF_NO_STACK) return 0;
    object_slot_t *slot = object_slot(sample_store.objects, sample_store.object_mask, life->base,
                                      life->record.birth, pool);
    if (slot->id == 0) {
        if (sample_store.object_count * 2 > sample_store.object_mask) {
            if (!grow_objects()) return 0;
            slot = object_slot(sample_store.objects, sample_store.object_mask, life->base,
                               life->record.birth, pool);
        }
        na_nprof_access_object_t *e = na_access_table_next(&sample_store.objects_table);
        if (e == NULL) return 0;
        const na_record_t *r = &life->record;
        e->kind = pool != 0 ? NA_NPROF_OBJECT_POOL : NA_NPROF_OBJECT_HEAP;
        e->pool = pool;
        e->site = r->site;
        e->base = life->base;
        e->size = life->usable - r->slack;
        e->birth_ns = na_access_since(na_access_mono_of(life->record.birth));
        e->death_ns = NA_NPROF_NS_STILL;
        if (na_access_config->policy_ruled != NULL && pool == 0)
            e->ruled = na_access_config->policy_ruled((const void *)life->base);
        e->thread = r->thread <= NA_NPROF_THREADS_OWN ? r->thread : 0;
        e->node = r->node < na_node_count ? (int16_t)r->node : NA_NPROF_NO_NODE;
        if (na_node_many && r->node == NA_NODE_ANY) e->flags |= NA_NPROF_OBJECT_OWN_POLICY;
        *slot = (object_slot_t){life->base, life->record.birth, e,
                                na_access_table_commit(&sample_store.objects_table), pool};
        sample_store.object_count++;
    }
    if (life->death != NA_LIFE_LASTS)
        ended_by(slot, na_access_since(na_access_mono_of(life->death)));
    return slot->id;
}

/* Ends what has ended unseen, as most blocks do where only the watched ones are kept: of `most`
 * slots, from where the last call stopped. */
static void find_ended(uint32_t most) {
    na_found_t found;
    uint64_t now = na_access_since(na_access_mono());
    if (na_access_config->find == NULL) return;
    for (; most > 0; most--) {
        const object_slot_t *slot =
            &sample_store.objects[sample_store.looked_at++ & sample_store.object_mask];
        if (slot->id == 0 || slot->pool != 0 || slot->entry->death_ns != NA_NPROF_NS_STILL)
            continue;
        na_access_config->find((const void *)slot->base, &found);
        if (found.kind != NA_LOOKUP_BLOCK || found.base != slot->base ||
            found.record.epoch != na_profile_epoch || found.record.birth != slot->birth)
            ended_by(slot, now);
    }
}

/* A block of a pool, where one was there at the time: it lies inside of what was resolved, and
 * ended with it at the latest (a pool may give its memory back without a word). Returns the pool's
 * id. */
static uint32_t resolve_pool(uintptr_t address, uint64_t moment, na_resolved_t *resolved) {
    if (!na_pool_blocks_wanted) return 0;
    na_pool_search_t search = {.address = address,
                               .ages = moment >> NA_RECORD_BIRTH_SHIFT & NA_RECORD_TIME_MASK,
                               .off = NA_RESOLVE_SLACK};
    if (!na_pools_find(&search)) {
        if (search.forgotten) resolved->target = NA_NPROF_TARGET_UNRESOLVED;
        return 0;
    }
    if (resolved->target == NA_NPROF_TARGET_HEAP &&
        na_life_off(&resolved->life, search.life.record.birth) > NA_RESOLVE_SLACK)
        return 0;
    resolved->target = NA_NPROF_TARGET_POOL;
    resolved->life = search.life;
    return search.pool;
}

uint32_t na_access_store_object_at(uintptr_t address, uint64_t mono_ns) {
    na_resolved_t resolved;
    uint64_t moment = na_access_moment_of(mono_ns);
    na_access_resolve(address, moment, &resolved);
    uint32_t pool = resolve_pool(address, moment, &resolved);
    return pool != 0 || resolved.target == NA_NPROF_TARGET_HEAP ? object_of(&resolved.life, pool)
                                                                : 0;
}

/* ---- windows ---- */

na_nprof_access_window_t *na_access_store_window(uint32_t *id) {
    *id = sample_store.windows.next_id;
    return na_access_table_next(&sample_store.windows);
}

void na_access_store_window_done(void) {
    na_access_table_commit(&sample_store.windows);
}

na_nprof_access_probe_t *na_access_store_probe(void) {
    return na_access_table_next(&sample_store.probes);
}

void na_access_store_probe_done(void) {
    na_access_table_commit(&sample_store.probes);
}

/* ---- samples ---- */

static bool has_start(const char *text, const char *with) {
    while (*with != 0)
        if (*text++ != *with++) return false;
    return true;
}

static uint8_t access_target(const na_nprof_access_mapping_t *m) {
    if ((m->flags & NA_NPROF_MAPPING_STACK) != 0) return NA_NPROF_TARGET_STACK;
    if ((m->flags & NA_NPROF_MAPPING_EXECUTE) != 0 && m->path[0] == '/')
        return NA_NPROF_TARGET_CODE;
    if (has_start(m->path, "[vdso]") || has_start(m->path, "[vvar") ||
        has_start(m->path, "[vsyscall]"))
        return NA_NPROF_TARGET_KERNEL;
    if ((m->flags & NA_NPROF_MAPPING_ELF) != 0) return NA_NPROF_TARGET_DATA;
    if (m->inode == 0) return NA_NPROF_TARGET_ANONYMOUS;
    return NA_NPROF_TARGET_FILE;
}

static void place_sample(na_nprof_access_sample_t *sample, uint64_t mono_ns) {
    uintptr_t address = sample->address;
    const na_nprof_access_mapping_t *m = na_amaps_find(address, &sample->mapping);
    if (m == NULL && mono_ns > sample_store.maps_read && !sample_store.maps_fresh) {
        sample_store.maps_fresh = true; /* once a batch is enough */
        sample_store.maps_read = na_access_mono();
        na_amaps_read(sample_store.maps_read);
        m = na_amaps_find(address, &sample->mapping);
    }
    if (m != NULL) sample->target = access_target(m);
}

/* The library's own tables, and variables, unless the program was linked with them. */
static bool is_own(uintptr_t address) {
    return na_writer_is_own(address) ||
           address - na_unwind_skip_lo < na_unwind_skip_hi - na_unwind_skip_lo;
}

static int16_t node_of_cpu(uint16_t cpu) {
    unsigned node = cpu != UINT16_MAX ? na_node_of_cpu(cpu) : NA_NODE_ANY;
    return node != NA_NODE_ANY ? (int16_t)node : NA_NPROF_NO_NODE;
}

static void store(const na_access_raw_t *raw, int16_t home, bool later) {
    if (is_own(raw->address)) {
        na_access_entry->filtered++;
        return;
    }
    na_nprof_access_sample_t *sample = na_access_table_next(&sample_store.samples);
    if (sample == NULL) {
        na_access_entry->lost++;
        return;
    }
    uint64_t since = na_access_since(raw->mono_ns);
    *sample = (na_nprof_access_sample_t){
        .ns = since,
        .ip = raw->ip,
        .address = raw->address,
        .weight = raw->weight,
        .serial = ++sample_store.serial,
        .stack = raw->stack != 0 ? raw->stack
                 : raw->ip != 0  ? na_stacks_of_pc(raw->ip, raw->exact_ip)
                                 : 0,
        .window = raw->window,
        .latency = raw->latency,
        .cpu = raw->cpu,
        .cpu_node = node_of_cpu(raw->cpu),
        .home_node = home,
        .source = raw->source != 0 ? raw->source : na_access_entry_id,
        .op = raw->op,
        .level = raw->level,
        .width = raw->width,
        .flags = (uint8_t)(raw->flags | (later ? NA_NPROF_SAMPLE_HOME_LATER : 0)),
    };
    sample->thread = na_athreads_id(raw->tid, since);
    na_athreads_seen(sample->thread, since);
    na_resolved_t resolved = {.target = NA_NPROF_TARGET_UNKNOWN};
    uint32_t pool = 0;
    if (na_access_config->find != NULL) {
        uint64_t moment = na_access_moment_of(raw->mono_ns);
        na_access_resolve(raw->address, moment, &resolved);
        if (resolved.target == NA_NPROF_TARGET_UNRESOLVED && raw->caught &&
            na_life_off(&raw->life, moment >> NA_RECORD_BIRTH_SHIFT & NA_RECORD_TIME_MASK) <
                NA_RESOLVE_SLACK)
            resolved = (na_resolved_t){.target = NA_NPROF_TARGET_HEAP, .life = raw->life};
        if (resolved.target == NA_NPROF_TARGET_HEAP && raw->window != 0 && na_rec.sampling) {
            /* Only blocks that were drawn are watched: each stands for some more. */
            const na_life_t *l = &resolved.life;
            na_amount_t amount = na_site_amount(l->usable - l->record.slack, l->usable);
            sample->weight *= (double)amount.count / NA_COUNT_SCALE;
        }
        pool = resolve_pool(raw->address, moment, &resolved);
    }
    sample->target = resolved.target;
    if (pool != 0 || resolved.target == NA_NPROF_TARGET_HEAP) {
        sample->object = object_of(&resolved.life, pool);
        if (sample->object == 0) sample->target = NA_NPROF_TARGET_UNRESOLVED;
        if (pool == 0 && na_probe_is_heard())
            na_probe_access(&resolved.life.record, raw->address, resolved.life.usable,
                            sample->thread);
    } else if (resolved.target == NA_NPROF_TARGET_UNKNOWN) {
        place_sample(sample, raw->mono_ns);
    }
    if (sample->target == NA_NPROF_TARGET_UNRESOLVED) na_access_entry->unresolved++;
    if (raw->level == NA_NPROF_LEVEL_LOCAL_DRAM || raw->level == NA_NPROF_LEVEL_REMOTE_DRAM ||
        raw->level == NA_NPROF_LEVEL_DRAM)
        na_access_entry->dram++;
    na_access_entry->stored++;
    na_access_table_commit(&sample_store.samples);
}

/* Nodes of the pages of the batch, where the source did not say. */
static void ask_homes(void) {
    uint32_t asked = 0;
    if (na_node_count == 1 || sample_store.homes_refused) return;
    for (uint32_t i = 0; i < sample_store.waiting; i++)
        if (sample_store.batch[i].home == NA_NPROF_NO_NODE)
            sample_store.pages[asked++] =
                (void *)(uintptr_t)(sample_store.batch[i].address & ~(uint64_t)(na_os_page - 1));
    if (asked == 0) return;
    long error = na_os_page_nodes(sample_store.pages, asked, sample_store.status);
    if (error < 0) {
        sample_store.homes_refused =
            true; /* as in containers: every further answer would be the same */
        return;
    }
    na_access_entry->homes_asked += asked;
    for (uint32_t i = 0, at = 0; i < sample_store.waiting; i++) {
        if (sample_store.batch[i].home != NA_NPROF_NO_NODE) continue;
        int node =
            sample_store.status[at] >= 0 ? na_node_dense((unsigned)sample_store.status[at]) : -1;
        at++;
        if (node < 0)
            na_access_entry->homes_unknown++;
        else
            sample_store.batch[i].home = (int16_t)(node | HOME_WAS_ASKED);
    }
}

void na_access_store_flush(void) {
    if (sample_store.waiting == 0) return;
    na_lock(&na_access_store_lock);
    na_access_clock_tick();
    sample_store.maps_fresh = false;
    ask_homes();
    for (uint32_t i = 0; i < sample_store.waiting; i++) {
        const na_access_raw_t *raw = &sample_store.batch[i];
        int16_t home = raw->home;
        bool later = home > 0 && (home & HOME_WAS_ASKED) != 0;
        if (later) home = (int16_t)(home & ~HOME_WAS_ASKED);
        if (home == NA_NPROF_NO_NODE && na_node_count == 1) home = 0;
        store(raw, home, later);
    }
    sample_store.waiting = 0;
    na_unlock(&na_access_store_lock);
}

/* The highest address that a program can have (five levels of page tables). */
#define HIGHEST (UINT64_C(1) << 56)

void na_access_store_sample(const na_access_raw_t *raw) {
    if (raw->address < na_os_page || raw->address >= HIGHEST) {
        na_access_entry->impossible++;
        return;
    }
    sample_store.batch[sample_store.waiting++] = *raw;
    if (sample_store.waiting == BATCH) na_access_store_flush();
}

void na_access_store_tick(uint64_t mono_ns) {
    if (mono_ns < sample_store.ticked + TICK_EVERY) return;
    na_lock(&na_access_store_lock);
    na_access_clock_tick();
    sample_store.ticked = sample_store.maps_read = mono_ns;
    na_athreads_tick();
    na_amaps_read(mono_ns);
    find_ended(LOOKED_AT);
    na_unlock(&na_access_store_lock);
}

void na_access_store_stop(void) {
    na_access_store_flush();
    na_lock(&na_access_store_lock);
    na_access_clock_tick();
    na_athreads_tick();
    find_ended(sample_store.object_mask + 1);
    __atomic_store_n(&na_access_entry->end_ns, na_access_since(na_access_mono()), __ATOMIC_RELAXED);
    na_unlock(&na_access_store_lock);
}
