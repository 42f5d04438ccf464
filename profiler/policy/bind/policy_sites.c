/* policy_sites.c - see policy_sites.h. */
#include "profiler/policy/bind/policy_sites.h"

#include <string.h>

#include "alloc/core/central/block.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/print.h"
#include "alloc/core/sys/reserve.h"

enum {
    BUCKETS = 256,
    /* Names of functions are part of a file of NA_POLICY_TEXT. */
    KEY = NA_POLICY_FRAMES * (4096 + NA_POLICY_BUILD_ID + 32) + sizeof(na_policy_action_t),
};

static NA_SPARSE na_policy_site_t *sites[BUCKETS]; /* by hash */
static uint32_t site_count;
static _Atomic(na_policy_pool_t *) rule_pools;

const na_policy_pool_t *na_policy_pools(void) {
    return atomic_load_explicit(&rule_pools, memory_order_acquire);
}

/* --- keys --- */

typedef struct key {
    char *text;
    size_t length, room;
    bool cut; /* it is longer */
} key_t;

static void add(key_t *key, const void *bytes, size_t count) {
    if (count > key->room - key->length) {
        key->cut = true;
        return;
    }
    memcpy(key->text + key->length, bytes, count);
    key->length += count;
}

static void add_number(key_t *key, uint64_t number) {
    add(key, &number, sizeof number);
}

static void add_name(key_t *key, const na_policy_t *rules, na_policy_name_t name) {
    add_number(key, name.length);
    add(key, rules->text + name.at, name.length);
}

/* (One by one: there may be anything between fields.) */
static void add_action(key_t *key, const na_policy_action_t *a) {
    add_number(key, (uint64_t)a->place << 32 | (uint64_t)a->life << 16 |
                        (uint64_t)a->own_lines << 1 | (uint64_t)a->huge_pages);
    add_number(key, (uint64_t)a->node << 16 | a->control);
    add_number(key, a->reserve);
    add(key, a->nodes, sizeof a->nodes);
}

static void add_frames(key_t *key, const na_policy_t *rules, const na_policy_rule_t *rule) {
    add_number(key, rule->depth);
    for (unsigned k = 0; k < rule->depth; k++) {
        const na_policy_frame_t *frame = &rule->frames[k];
        bool by_name = frame->module == NA_POLICY_NO_MODULE;
        add_number(key, by_name);
        if (by_name) {
            add_name(key, rules, frame->name);
            continue;
        }
        const na_policy_module_t *module = &rules->modules[frame->module];
        add_name(key, rules, module->name);
        add_number(key, module->build_id.length);
        add(key, module->build_id.bytes, module->build_id.length);
        add_number(key, frame->offset);
    }
}

static uint64_t hash_of(const key_t *key) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < key->length; i++)
        hash = (hash ^ (unsigned char)key->text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static bool is_rule_key(const key_t *key, const char *text, size_t length) {
    return key->length == length && memcmp(key->text, text, length) == 0;
}

static const char *keep(const key_t *key) {
    char *kept = na_meta_alloc(key->length, sizeof(uint64_t));
    if (kept != NULL) memcpy(kept, key->text, key->length);
    return kept;
}

/* --- memory --- */

/* Dense lists of the nodes of a set that this machine can use. */
static bool read_nodes(na_policy_pool_t *pool, const na_policy_action_t *a) {
    size_t most = sizeof pool->nodes / sizeof pool->nodes[0], count = 0;
    for (unsigned id = 0; id < 8 * sizeof a->nodes; id++) {
        if ((a->nodes[id / 64] >> (id % 64) & 1) == 0) continue;
        int node = na_node_dense(id);
        if (node < 0 || !na_node_usable((unsigned)node) || count == most) return false;
        pool->nodes[count++] = (int)id;
    }
    pool->options.nodes = pool->nodes;
    pool->options.node_count = count;
    return count != 0;
}

static bool rule_node_is_here(unsigned id) {
    int node = na_node_dense(id);
    return node >= 0 && na_node_usable((unsigned)node);
}

/* The group's; else the line where it was read first. */
static void set_name(na_policy_pool_t *pool, const char *name, size_t length, uint32_t line) {
    na_text_t t = {0};
    if (length == 0) {
        na_text_str(&t, "policy line ");
        na_text_u64(&t, line);
        name = t.data;
        length = t.length;
    }
    size_t n = length < sizeof pool->name - 1 ? length : sizeof pool->name - 1;
    memcpy(pool->name, name, n);
    pool->name[n] = 0;
    pool->options.name = pool->name;
}

static void fill_pool(na_policy_pool_t *pool, const na_policy_action_t *a) {
    numalloc_heap_options_t *o = &pool->options;
    if (a->own_lines) o->flags |= NUMALLOC_HEAP_OWN_LINES;
    if (a->huge_pages) o->flags |= NUMALLOC_HEAP_HUGE_PAGES;
    pool->apart = true;
    pool->place = a->place;
    switch ((na_policy_place_t)a->place) {
    case NA_POLICY_NODE:
    case NA_POLICY_CONSUMER:
        o->place = NUMALLOC_HEAP_CONSUMER;
        if (a->node == NA_POLICY_NO_NODE) break;
        o->place = NUMALLOC_HEAP_NODE;
        o->node = a->node;
        pool->missing = !rule_node_is_here(a->node);
        break;
    case NA_POLICY_NODES:
        o->place = NUMALLOC_HEAP_INTERLEAVED;
        pool->missing = !read_nodes(pool, a);
        break;
    case NA_POLICY_INTERLEAVE:
        o->place = NUMALLOC_HEAP_INTERLEAVED;
        break;
    case NA_POLICY_FIRST_TOUCH:
    case NA_POLICY_FOLLOW:
        o->place = NUMALLOC_HEAP_FIRST_TOUCH;
        break;
    case NA_POLICY_NEAR:
        o->place = NUMALLOC_HEAP_NEAR;
        break;
    case NA_POLICY_FAR:
        o->place = NUMALLOC_HEAP_FAR;
        break;
    default:
        /* Nothing but lines, or a size to grow to: malloc has that. */
        pool->apart = a->group != NA_POLICY_NO_GROUP || a->huge_pages || a->life != 0 ||
                      a->place == NA_POLICY_LOCAL;
        break;
    }
    if (pool->missing) {
        o->place = NUMALLOC_HEAP_LOCAL;
        pool->apart = false;
    }
}

/* Of a group or a life, or of one site alone (whose key it is then). NULL: no memory. */
static na_policy_pool_t *pool_for(key_t *key, const na_policy_t *rules,
                                  const na_policy_rule_t *rule) {
    const na_policy_action_t *a = &rule->action;
    bool grouped = a->group != NA_POLICY_NO_GROUP;
    bool by_life = !grouped && a->life != NA_POLICY_LIFE_NONE && a->place == NA_POLICY_PLACE_NONE &&
                   !a->own_lines && !a->huge_pages;
    const na_policy_group_t *group = grouped ? &rules->groups[a->group] : NULL;
    if (grouped || by_life) {
        key->length = 0;
        add_number(key, grouped ? 1 : 2);
        if (grouped) {
            add_name(key, rules, group->name);
            na_policy_action_t all = group->action;
            all.reserve = 0; /* of each site for itself, */
            all.control = 0;
            add_action(key, &all);
        } else {
            add_number(key, a->life);
        }
        uint64_t hash = hash_of(key);
        for (na_policy_pool_t *p = atomic_load_explicit(&rule_pools, memory_order_relaxed);
             p != NULL; p = p->next)
            if (p->hash == hash && p->key != NULL && is_rule_key(key, p->key, p->key_length))
                return p;
    }
    na_policy_pool_t *pool = na_meta_alloc(sizeof *pool, NA_CACHE_LINE);
    if (pool == NULL) return NULL;
    if (grouped || by_life) {
        pool->hash = hash_of(key);
        pool->key = keep(key);
        pool->key_length = key->length;
        if (pool->key == NULL) return NULL;
    }
    fill_pool(pool, a);
    set_name(pool, grouped ? rules->text + group->name.at : NULL, grouped ? group->name.length : 0,
             rule->line);
    na_policy_pool_t *last = atomic_load_explicit(&rule_pools, memory_order_relaxed);
    pool->next = last;
    pool->number = last != NULL ? last->number + 1 : 1;
    atomic_store_explicit(&rule_pools, pool, memory_order_release);
    return pool;
}

/* --- sites --- */

static na_policy_site_t *site_for(key_t *key, const na_policy_t *rules,
                                  const na_policy_rule_t *rule) {
    const na_policy_action_t *a = &rule->action;
    key->length = 0;
    add_frames(key, rules, rule);
    add_action(key, a);
    if (a->group != NA_POLICY_NO_GROUP) add_name(key, rules, rules->groups[a->group].name);
    if (key->cut) return NULL;
    uint64_t hash = hash_of(key);
    na_policy_site_t **bucket = &sites[hash % BUCKETS];
    for (na_policy_site_t *s = *bucket; s != NULL; s = s->next)
        if (s->hash == hash && is_rule_key(key, s->key, s->key_length)) return s;
    if (site_count >= NA_POLICY_SITES_EVER) return NULL;
    na_policy_site_t *site = na_meta_alloc(sizeof *site, NA_CACHE_LINE);
    na_policy_sums_t *sums = na_meta_alloc(NA_POLICY_SHARDS * sizeof *sums, NA_CACHE_LINE);
    const char *kept = keep(key);
    size_t kept_length = key->length;
    if (site == NULL || sums == NULL || kept == NULL) return NULL;
    na_policy_pool_t *pool = pool_for(key, rules, rule);
    if (pool == NULL) return NULL;
    site->pool = pool;
    site->sums = sums;
    site->usual_most =
        !pool->apart && a->reserve == 0 && a->control != 1 ? NA_SMALL_MAX - NA_CACHE_LINE : 0;
    site->line_mask = a->own_lines ? NA_CACHE_LINE - 1 : 0;
    site->reserve = a->reserve;
    site->control = a->control;
    site->hash = hash;
    site->key = kept;
    site->key_length = kept_length;
    site->next = *bucket;
    *bucket = site;
    site_count++;
    return site;
}

bool na_policy_make_sites(na_policy_reading_t *reading) {
    const na_policy_t *rules = &reading->rules;
    size_t room = na_align_up(KEY, na_os_page);
    key_t key = {.text = na_os_map(room), .room = room};
    bool made = key.text != NULL;
    for (uint32_t i = 0; made && i < rules->rule_count; i++) {
        reading->sites[i] = site_for(&key, rules, &rules->rules[i]);
        made = reading->sites[i] != NULL;
    }
    /* Only now: they may be those of the reading that goes on if this one is refused. */
    for (uint32_t i = 0; made && i < rules->rule_count; i++)
        reading->sites[i]->line = rules->rules[i].line;
    if (key.text != NULL) na_os_unmap(key.text, room);
    return made;
}
