/* policy.c - from the file to tables: modules by build-id, functions by name, frames by .eh_frame.
 *
 * Done as a whole each time: the tables are made anew with what is loaded, from the rules as read,
 * and published if there is something new; sites keep their places, so what they gave and their
 * heaps stay.
 *
 * One thread binds at a time (`lock`). It asks the loader, whose locks others may hold who wait for
 * ours: so nobody waits for long. A child that was forked meanwhile finds the lock taken by a
 * thread that it has not: it sees that the holder is of another process, and begins anew. */
#include "alloc/policy/policy.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "alloc/api/loaded.h"
#include "alloc/api/whose.h"
#include "alloc/central/sizeclass.h"
#include "alloc/machine/topology.h"
#include "alloc/policy/bound.h"
#include "alloc/policy/frame_step.h"
#include "alloc/policy/names.h"
#include "alloc/policy/slots.h"
#include "alloc/sys/elf_note.h"
#include "alloc/sys/lock.h"
#include "alloc/sys/meta.h"
#include "alloc/sys/options.h"
#include "alloc/sys/os.h"
#include "alloc/sys/print.h"

#pragma weak dlsym

enum {
    NODES = 1 << 16, /* rules by function name have a node for each call in it */
    TABLE = 4 * NODES,
    MODULES = 256, /* that rules may lie in: of the file, or any for functions */
    FAULTS_SAID = 10,
};

typedef struct module {
    na_unwind_module_t unwind;
    uintptr_t base, text, text_end; /* the part that is code */
    uint32_t rules_module;          /* of the file; NA_POLICY_NO_MODULE: none */
    char path[512];
    void *handle;           /* keeps it loaded while it is looked at */
    bool innermost, pinned; /* innermost frames of rules lie here; any do */
} module_t;

NA_SPARSE na_policy_bound_t na_bound;
static na_lock_t lock;
static _Atomic(int) process; /* that the lock is of */

bool na_policy_enter(unsigned ms) {
    if (na_lock_is_mine(&lock)) return false; /* the loader called us while we called it */
    int pid = (int)na_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
    uint32_t held = atomic_load_explicit(&lock.word, memory_order_relaxed);
    int of = atomic_load_explicit(&process, memory_order_relaxed);
    if (of != pid && atomic_compare_exchange_strong(&process, &of, pid) && of != 0 && held != 0)
        atomic_compare_exchange_strong(&lock.word, &held, 0);
    return na_lock_for(&lock, ms);
}

void na_policy_leave(void) {
    na_unlock(&lock);
}

/* --- the file --- */

static void say_fault(void *arg, const na_policy_fault_t *fault) {
    unsigned *said = arg;
    char line[512];
    na_policy_fault_text(fault, na_bound.file, line, sizeof line);
    if ((*said)++ < FAULTS_SAID) na_warn("%s", line);
}

/* Something else might never end, or wait for ever. */
static const char *what_is_wrong_with(const char *file) {
    struct stat s;
    long status = na_syscall(SYS_newfstatat, AT_FDCWD, (long)file, (long)&s, 0, 0, 0);
    if (status == -ENOENT || status == -ENOTDIR) return "is not there";
    if (status == 0 && !S_ISREG(s.st_mode)) return "is no regular file";
    return NULL;
}

static na_policy_t *read_rules(const char *file) {
    const char *wrong = what_is_wrong_with(file);
    if (wrong != NULL) {
        na_warn("NUMALLOC_POLICY=%s %s: no policy", file, wrong);
        return NULL;
    }
    char *text = na_os_map(na_align_up(NA_POLICY_TEXT + 2, na_os_page));
    na_policy_t *rules = na_os_map(na_align_up(sizeof *rules, na_os_page));
    if (text == NULL || rules == NULL) return NULL;
    long length = na_os_read_file(file, text, NA_POLICY_TEXT + 2);
    if (length < 0) {
        na_warn("NUMALLOC_POLICY=%s cannot be read: no policy", file);
        return NULL;
    }
    unsigned said = 0;
    bool good = na_policy_read(text, (size_t)length, rules, say_fault, &said);
    if (said > FAULTS_SAID)
        na_warn("%s: %u more lines are wrong", file, (uint64_t)said - FAULTS_SAID);
    return good ? rules : NULL;
}

/* --- modules --- */

static na_build_id_t build_id_of(const na_loaded_t *module) {
    const ElfW(Phdr) *headers = module->headers;
    na_build_id_t id = {NULL, 0};
    for (unsigned i = 0; i < module->header_count && id.bytes == NULL; i++)
        if (headers[i].p_type == PT_NOTE)
            id = na_elf_build_id((const void *)(module->base + headers[i].p_vaddr),
                                 headers[i].p_memsz);
    return id;
}

static const char *file_name(const char *path) {
    const char *name = path;
    for (; *path != 0; path++)
        if (*path == '/') name = path + 1;
    return name;
}

static const char *program_path(void) {
    NA_SPARSE static char path[1024];
    if (path[0] == 0) {
        long n = na_syscall(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)path,
                            sizeof path - 1, 0, 0);
        path[n > 0 ? n : 0] = 0;
    }
    return path;
}

typedef struct visit {
    module_t *modules;
    unsigned count;
    bool is_for; /* the program is one that the file is for */
} visit_t;

/* The module of the file that this is; *other: one of its name has another build-id. */
static uint32_t rules_module_of(const na_loaded_t *loaded, const char *path, bool *other) {
    na_build_id_t id = build_id_of(loaded);
    for (uint32_t i = 0; i < na_bound.rules->module_count; i++) {
        const na_policy_module_t *m = &na_bound.rules->modules[i];
        if (!na_policy_name_is(na_bound.rules, m->name, file_name(path)) &&
            (loaded->soname == NULL || !na_policy_name_is(na_bound.rules, m->name, loaded->soname)))
            continue;
        if (m->build_id.length == id.length &&
            (id.length == 0 || memcmp(m->build_id.bytes, id.bytes, id.length) == 0)) {
            na_bound.module_states[i] = NA_POLICY_LOADED;
            return i;
        }
        if (na_bound.module_states[i] == NA_POLICY_NOT_LOADED)
            na_bound.module_states[i] = NA_POLICY_OTHER_BUILD;
        *other = true;
    }
    return NA_POLICY_NO_MODULE;
}

/* Those that rules can lie in. */
static bool look_at(const na_loaded_t *loaded, void *arg) {
    visit_t *v = arg;
    const char *path = loaded->index == 0 ? program_path() : loaded->name;
    if (loaded->index == 0) {
        na_build_id_t id = build_id_of(loaded);
        v->is_for = na_policy_is_for(na_bound.rules, file_name(path), id.bytes, id.length);
        if (!v->is_for) return false;
    }
    if (v->count >= MODULES || strlen(path) >= sizeof v->modules->path) return true;
    module_t *m = &v->modules[v->count];
    *m = (module_t){.base = loaded->base, .unwind.start = UINTPTR_MAX, .text = UINTPTR_MAX};
    const ElfW(Phdr) *headers = loaded->headers;
    for (unsigned i = 0; i < loaded->header_count; i++) {
        uintptr_t at = loaded->base + headers[i].p_vaddr, end = at + headers[i].p_memsz;
        if (headers[i].p_type == PT_GNU_EH_FRAME) m->unwind.eh_hdr = (const uint8_t *)at;
        if (headers[i].p_type != PT_LOAD) continue;
        if (at < m->unwind.start) m->unwind.start = at;
        if (end > m->unwind.end) m->unwind.end = end;
        if ((headers[i].p_flags & PF_X) == 0 || (headers[i].p_flags & PF_R) == 0) continue;
        if (at < m->text) m->text = at;
        if (end > m->text_end) m->text_end = end;
    }
    if (m->text_end == 0) return true;
    uintptr_t own = (uintptr_t)&na_policy_bind_opened;
    if (own >= m->unwind.start && own < m->unwind.end) {
        na_bound.linked_in = loaded->index == 0;
        return true;
    }
    strcpy(m->path, path);
    bool other = false;
    m->rules_module = rules_module_of(loaded, path, &other);
    na_bound.other_builds += other && m->rules_module == NA_POLICY_NO_MODULE;
    if (na_bound.by_name || m->rules_module != NA_POLICY_NO_MODULE) v->count++;
    return true;
}

typedef struct loader {
    void *(*open)(const char *file, int flags);
    int (*close)(void *handle);
} loader_t;

/* (The linker warns of a call of dlopen in static programs.) */
static loader_t find_loader(void) {
    loader_t l = {NULL, NULL};
    if (&dlsym == NULL) return l;
    *(void **)&l.open = dlsym(RTLD_DEFAULT, "dlopen");
    *(void **)&l.close = dlsym(RTLD_DEFAULT, "dlclose");
    return l;
}

/* Another thread may close what it has opened. What has gone since the visit is left out. (What a
 * handle leads to begins with what <link.h> says, in glibc as in musl.) */
static void hold(visit_t *v, loader_t loader) {
    unsigned kept = 0;
    if (loader.open == NULL || loader.close == NULL) return;
    for (unsigned i = 0; i < v->count; i++) {
        module_t *m = &v->modules[i];
        if (strcmp(m->path, program_path()) != 0) {
            m->handle = loader.open(m->path, RTLD_LAZY | RTLD_NOLOAD);
            if (m->handle == NULL) continue;
            if (((const struct link_map *)m->handle)->l_addr != m->base) {
                loader.close(m->handle);
                continue;
            }
        }
        if (kept != i) v->modules[kept] = *m;
        kept++;
    }
    v->count = kept;
}

/* What rules have frames in stays for good: they name its addresses. */
static void let_go(const visit_t *v, loader_t loader) {
    for (unsigned i = 0; i < v->count; i++) {
        const module_t *m = &v->modules[i];
        if (m->handle == NULL) continue;
        if (m->pinned) (void)loader.open(m->path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
        loader.close(m->handle);
    }
}

/* --- sites and their memory --- */

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

static bool node_is_here(unsigned id) {
    int node = na_node_dense(id);
    return node >= 0 && na_node_usable((unsigned)node);
}

static void set_name(na_policy_pool_t *pool, na_policy_name_t name, uint32_t line) {
    size_t n = 0;
    for (; n < name.length && n < sizeof pool->name - 1; n++)
        pool->name[n] = na_bound.rules->text[name.at + n];
    if (n == 0) {
        na_text_t t = {0};
        na_text_str(&t, "policy line ");
        na_text_u64(&t, line);
        n = t.length < sizeof pool->name - 1 ? t.length : sizeof pool->name - 1;
        memcpy(pool->name, t.data, n);
    }
    pool->name[n] = 0;
    pool->options.name = pool->name;
}

static void fill_pool(na_policy_pool_t *pool, const na_policy_action_t *a) {
    numalloc_heap_options_t *o = &pool->options;
    if (a->own_lines) o->flags |= NUMALLOC_HEAP_OWN_LINES;
    if (a->huge_pages) o->flags |= NUMALLOC_HEAP_HUGE_PAGES;
    pool->apart = true;
    switch ((na_policy_place_t)a->place) {
    case NA_POLICY_NODE:
    case NA_POLICY_CONSUMER:
        if (a->node == NA_POLICY_NO_NODE) break;
        o->place = NUMALLOC_HEAP_NODE;
        o->node = a->node;
        pool->missing = !node_is_here(a->node);
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
        na_bound.missing_nodes++;
        o->place = NUMALLOC_HEAP_LOCAL;
        pool->apart = false;
    }
}

/* Pools: the groups', the two lives', then one for each site that needs one alone. */
static bool make_sites(void) {
    const na_policy_t *rules = na_bound.rules;
    uint32_t shared = rules->group_count + 2;
    size_t sums = (size_t)rules->rule_count * NA_POLICY_SHARDS * sizeof(na_policy_sums_t);
    na_bound.sites = na_meta_alloc(rules->rule_count * sizeof *na_bound.sites, NA_CACHE_LINE);
    na_bound.pools =
        na_meta_alloc((rules->rule_count + shared) * sizeof *na_bound.pools, NA_CACHE_LINE);
    na_policy_sums_t *sum = na_meta_alloc(sums, NA_CACHE_LINE);
    if (na_bound.sites == NULL || na_bound.pools == NULL || sum == NULL) return false;
    na_bound.pool_count = shared;
    for (uint32_t i = 0; i < rules->rule_count; i++) {
        const na_policy_rule_t *rule = &rules->rules[i];
        const na_policy_action_t *a = &rule->action;
        na_policy_pool_t *pool;
        na_policy_name_t name = {0};
        if (a->group != NA_POLICY_NO_GROUP) {
            pool = &na_bound.pools[a->group];
            name = rules->groups[a->group].name;
        } else if (a->life != NA_POLICY_LIFE_NONE && a->place == NA_POLICY_PLACE_NONE &&
                   !a->own_lines && !a->huge_pages) {
            pool = &na_bound.pools[rules->group_count + (a->life == NA_POLICY_LIFE_LONG)];
        } else {
            pool = &na_bound.pools[na_bound.pool_count++];
        }
        if (pool->options.name == NULL) {
            fill_pool(pool, a);
            set_name(pool, name, rule->line);
        }
        na_bound.sites[i] =
            (na_policy_site_t){.pool = pool,
                               .sums = &sum[i * NA_POLICY_SHARDS],
                               .usual_most = !pool->apart && a->reserve == 0 && a->control != 1
                                                 ? NA_SMALL_MAX - NA_CACHE_LINE
                                                 : 0,
                               .line_mask = a->own_lines ? NA_CACHE_LINE - 1 : 0,
                               .reserve = a->reserve,
                               .line = rule->line,
                               .control = a->control};
    }
    return true;
}

/* --- the tree --- */

typedef struct tree {
    na_policy_live_t *live;
    /* While it is made: */
    na_policy_node_t *nodes;
    na_policy_key_t *keys; /* of each node */
    uint32_t *table;       /* of nodes, by na_policy_hash */
    uint32_t count, root_count;
    module_t *modules;
    unsigned module_count;
    /* The rule that is being added: frame `depth` of it, below `parent`. */
    const na_policy_rule_t *rule;
    uint32_t site;
    bool no_step;
} tree_t;

static module_t *module_at(tree_t *t, uintptr_t pc) {
    for (unsigned i = 0; i < t->module_count; i++)
        if (pc > t->modules[i].unwind.start && pc <= t->modules[i].unwind.end)
            return &t->modules[i];
    return NULL;
}

/* The node of the address below the parent, made if need be; 0: there is no room. */
static uint32_t node_for(tree_t *t, uintptr_t pc, uint32_t parent) {
    uint32_t at = na_policy_hash(pc, parent) & (TABLE - 1);
    for (; t->table[at] != 0; at = (at + 1) & (TABLE - 1)) {
        const na_policy_key_t *key = &t->keys[t->table[at]];
        if (key->pc == pc && key->parent == parent) return key->node;
    }
    if (t->count >= NODES) {
        na_bound.full = true;
        return 0;
    }
    t->table[at] = t->count;
    t->keys[t->count] = (na_policy_key_t){pc, parent, t->count};
    na_policy_node_t *above = &t->nodes[parent];
    if (parent != 0 && above->children == 0) {
        above->first_pc = pc;
        above->first = &t->nodes[t->count];
    }
    if (parent != 0 && above->children < 2) above->children++;
    return t->count++;
}

static void add_frame(tree_t *t, unsigned depth, uint32_t parent);

typedef struct below {
    tree_t *tree;
    unsigned depth;
    uint32_t parent;
} below_t;

static void add_at(uintptr_t pc, void *arg) {
    const below_t *b = arg;
    tree_t *t = b->tree;
    module_t *module = module_at(t, pc);
    if (module == NULL) return;
    na_policy_node_t found = {0};
    bool last = b->depth + 1u == t->rule->depth;
    if (!last && !na_policy_step(&module->unwind, pc, &found)) {
        t->no_step = true;
        return;
    }
    uint32_t node = node_for(t, pc, b->parent);
    if (node == 0) return;
    module->pinned = true;
    if (b->depth == 0) module->innermost = true;
    na_policy_node_t *n = &t->nodes[node];
    if (last) {
        n->site = &na_bound.sites[t->site];
        na_bound.sites[t->site].bound = true;
        return;
    }
    n->cfa = found.cfa;
    n->cfa_by_bp = found.cfa_by_bp;
    n->bp_at = found.bp_at;
    add_frame(t, b->depth + 1, node);
}

static void add_frame(tree_t *t, unsigned depth, uint32_t parent) {
    const na_policy_frame_t *frame = &t->rule->frames[depth];
    below_t below = {t, depth, parent};
    for (unsigned i = 0; i < t->module_count; i++) {
        module_t *m = &t->modules[i];
        if (frame->module != NA_POLICY_NO_MODULE) {
            uintptr_t pc = m->base + frame->offset;
            if (m->rules_module == frame->module && pc > m->text && pc <= m->text_end)
                add_at(pc, &below);
            continue;
        }
        na_policy_symbols_t symbols;
        na_policy_symbols_open(&symbols, m->path);
        na_policy_calls_in(&symbols, na_bound.rules->text + frame->name.at, frame->name.length,
                           m->base, m->text, m->text_end, add_at, &below);
        na_policy_symbols_close(&symbols);
    }
}

/* True: it is whole. */
static bool make_tree(tree_t *t) {
    if (t->nodes == NULL || t->keys == NULL || t->table == NULL) return false;
    t->count = t->root_count = 1;
    na_bound.not_constant = 0;
    for (uint32_t i = 0; i < na_bound.rules->rule_count; i++) {
        na_bound.sites[i].bound = false;
        t->rule = &na_bound.rules->rules[i];
        t->site = i;
        t->no_step = false;
        add_frame(t, 0, 0);
        na_bound.sites[i].no_frame = t->no_step && !na_bound.sites[i].bound;
        na_bound.not_constant += na_bound.sites[i].no_frame;
    }
    return true;
}

static bool turn_slots(const na_loaded_t *loaded, void *arg) {
    const tree_t *t = arg;
    for (unsigned i = 0; i < t->module_count; i++)
        if (t->modules[i].innermost && t->modules[i].base == loaded->base)
            na_bound.slots += na_policy_turn_slots(loaded);
    return true;
}

/* The tables were made where there is room for any; now they become as large as they are. */
static bool make_compact(tree_t *t) {
    uint32_t places = 16;
    while (places < 2 * t->count)
        places *= 2;
    size_t nodes_at = na_align_up(sizeof *t->live, NA_CACHE_LINE);
    size_t table_at = nodes_at + t->count * sizeof *t->nodes;
    char *at = na_os_map(na_align_up(table_at + places * sizeof(na_policy_key_t), na_os_page));
    if (at == NULL) return false;
    t->live = (na_policy_live_t *)at;
    na_policy_node_t *nodes = (na_policy_node_t *)(at + nodes_at);
    na_policy_key_t *table = (na_policy_key_t *)(at + table_at);
    for (uint32_t i = 0; i < t->count; i++) {
        nodes[i] = t->nodes[i];
        if (nodes[i].first != NULL) nodes[i].first = &nodes[t->nodes[i].first - t->nodes];
    }
    for (uint32_t i = 1; i < t->count; i++) {
        uint32_t to = na_policy_hash(t->keys[i].pc, t->keys[i].parent) & (places - 1);
        while (table[to].node != 0)
            to = (to + 1) & (places - 1);
        table[to] = t->keys[i];
    }
    t->live->nodes = nodes;
    t->live->table = table;
    t->live->mask = places - 1;
    return true;
}

/* Tables first, then the bytes that lead to them. */
static void publish(tree_t *t) {
    uint8_t places[NA_POLICY_FILTER] = {0};
    for (uint32_t i = 1; i < t->count; i++) {
        const na_policy_key_t *key = &t->keys[i];
        if (key->parent != 0) continue;
        uint8_t *place = &places[key->pc & (NA_POLICY_FILTER - 1)];
        bool alone = *place == 0 && t->root_count < NA_POLICY_ROOTS - 1;
        *place = (uint8_t)(alone ? t->root_count : NA_POLICY_ROOTS - 1);
        if (!alone) continue;
        const na_policy_node_t *node = &t->live->nodes[key->node];
        t->live->root_nodes[t->root_count] = node;
        t->live->roots[t->root_count++] =
            (na_policy_root_t){key->pc, node->children != 0 ? NULL : node->site};
    }
    atomic_store_explicit(&na_policy_live, t->live, memory_order_release);
    for (size_t i = 0; i < NA_POLICY_FILTER; i++)
        __atomic_store_n(&na_policy_filter[i], places[i], __ATOMIC_RELEASE);
}

/* Memory for the while. */
static void *room(size_t bytes) {
    return na_os_map(na_align_up(bytes, na_os_page));
}

static void end_room(void *at, size_t bytes) {
    if (at != NULL) na_os_unmap(at, na_align_up(bytes, na_os_page));
}

static void bind_to(visit_t *v, tree_t *t) {
    na_bound.other_builds = 0;
    memset(na_bound.module_states, NA_POLICY_NOT_LOADED, sizeof na_bound.module_states);
    na_loaded_visit(look_at, v);
    atomic_store_explicit(&na_bound.for_others, !v->is_for, memory_order_relaxed);
    if (!v->is_for) return;
    loader_t loader = find_loader();
    hold(v, loader);
    t->modules = v->modules;
    t->module_count = v->count;
    if (make_tree(t)) {
        /* Nothing that is bound goes: as many are the same ones. */
        if (t->count != na_bound.nodes && t->count > 1 && make_compact(t)) {
            publish(t);
            na_bound.nodes = t->count;
        }
        na_loaded_visit(turn_slots, t);
    }
    let_go(v, loader);
    na_bound.missing_modules = 0;
    for (uint32_t i = 0; i < na_bound.rules->module_count; i++)
        na_bound.missing_modules += na_bound.module_states[i] != NA_POLICY_LOADED;
}

static void bind(void) {
    unsigned adds = na_loaded_count();
    visit_t v = {.modules = room(MODULES * sizeof *v.modules)};
    tree_t t = {.nodes = room(NODES * sizeof *t.nodes),
                .keys = room(NODES * sizeof *t.keys),
                .table = room(TABLE * sizeof *t.table)};
    if (v.modules != NULL) bind_to(&v, &t);
    end_room(v.modules, MODULES * sizeof *v.modules);
    end_room(t.nodes, NODES * sizeof *t.nodes);
    end_room(t.keys, NODES * sizeof *t.keys);
    end_room(t.table, TABLE * sizeof *t.table);
    atomic_store_explicit(&na_bound.adds, adds, memory_order_release);
}

/* --- the interface --- */

static bool names_functions(const na_policy_t *rules) {
    for (uint32_t i = 0; i < rules->rule_count; i++)
        for (unsigned k = 0; k < rules->rules[i].depth; k++)
            if (rules->rules[i].frames[k].module == NA_POLICY_NO_MODULE) return true;
    return false;
}

void na_policy_at_load(void) {
    na_bound.file = na_option_text(NA_OPT_POLICY);
    if (na_bound.file == NULL || na_bound.file[0] == 0) return;
#ifndef __GLIBC__ /* what is loaded later is not seen there */
    na_warn("NUMALLOC_POLICY=%s ignored: there are no policies with this C library", na_bound.file);
    return;
#endif
    na_bound.not_ours = na_whose_malloc()[0] != 0;
    if (na_bound.not_ours || !na_policy_enter(0)) return;
    na_bound.rules = read_rules(na_bound.file);
    if (na_bound.rules != NULL && na_bound.rules->rule_count != 0) {
        na_bound.by_name = names_functions(na_bound.rules);
        if (make_sites()) bind();
    }
    na_policy_leave();
    if (na_bound.linked_in && !na_bound.for_others)
        na_warn(
            "NUMALLOC_POLICY=%s does not reach calls of the program itself, which the allocator "
            "is linked into; preload libnumalloc.so into one that is not",
            na_bound.file);
}

bool na_policy_is_on(void) {
    return na_bound.sites != NULL &&
           !atomic_load_explicit(&na_bound.for_others, memory_order_relaxed);
}

/* (Who binds may have looked before ours came.) */
void na_policy_bind_opened(void) {
    if (!na_policy_is_on()) return;
    for (unsigned tries = 0;
         tries < 3 &&
         atomic_load_explicit(&na_bound.adds, memory_order_acquire) != na_loaded_count();
         tries++) {
        if (!na_policy_enter(NA_POLICY_PATIENCE_MS)) return;
        if (atomic_load_explicit(&na_bound.adds, memory_order_relaxed) != na_loaded_count()) bind();
        na_policy_leave();
    }
}
