/* bind.c - see bind.h. */
#include "profiler/policy/bind/bind.h"

#include "alloc/interpose/loaded.h"
#include "profiler/policy/bind/bound.h"
#include "profiler/policy/bind/frame_step.h"
#include "profiler/policy/bind/names.h"
#include "profiler/policy/bind/policy_modules.h"
#include "profiler/policy/bind/policy_tree.h"

/* The rule that is being added: frame `depth` of it, below `parent`; its innermost is `root`. */
typedef struct below {
    const na_policy_modules_t *modules;
    const na_policy_rule_t *rule;
    na_policy_site_t *site;
    unsigned depth;
    uint32_t parent, root;
    bool *no_step;
} below_t;

static void add_frame(const below_t *below);

/* Of the modules of the binding that is under way, those in which names were looked for. */
static NA_SPARSE na_policy_symbols_t opened[NA_POLICY_KNOWN];

static na_policy_here_t *bound_module_at(const na_policy_modules_t *modules, uintptr_t pc) {
    for (uint32_t i = 0; i < modules->count; i++)
        if (pc > modules->items[i].unwind.start && pc <= modules->items[i].unwind.end)
            return &modules->items[i];
    return NULL;
}

static void add_at(uintptr_t pc, void *arg) {
    const below_t *b = arg;
    na_policy_here_t *module = bound_module_at(b->modules, pc);
    if (module == NULL) return;
    na_policy_node_t step = {.cfa = 0};
    bool last = b->depth + 1u == b->rule->depth;
    if (!last && !na_policy_step(&module->unwind, pc, &step)) {
        *b->no_step = true;
        return;
    }
    uint32_t node = na_policy_tree_node(pc, b->parent);
    if (node == 0) return;
    module->named = true;
    if (b->depth == 0) module->innermost = true;
    uint32_t root = b->depth == 0 ? node : b->root;
    if (last) {
        na_policy_tree_rule(node, root, b->site);
        b->site->bound = true;
        return;
    }
    na_policy_tree_step(node, &step);
    below_t next = *b;
    next.depth++;
    next.parent = node;
    next.root = root;
    add_frame(&next);
}

static void add_frame(const below_t *b) {
    const na_policy_frame_t *frame = &b->rule->frames[b->depth];
    for (uint32_t i = 0; i < b->modules->count; i++) {
        const na_policy_here_t *m = &b->modules->items[i];
        if (frame->module != NA_POLICY_NO_MODULE) {
            uintptr_t pc = m->loaded.base + frame->offset;
            if (m->rules_module == frame->module && pc > m->text && pc <= m->text_end)
                add_at(pc, (void *)(uintptr_t)b);
            continue;
        }
        if (!opened[i].open) na_policy_symbols_open(&opened[i], m->path);
        na_policy_calls_in(&opened[i], na_bound.reading->rules.text + frame->name.at,
                           frame->name.length, m->loaded.base, m->text, m->text_end, add_at,
                           (void *)(uintptr_t)b);
    }
}

static void add_module_rules(const na_policy_modules_t *modules) {
    na_policy_reading_t *r = na_bound.reading;
    r->not_constant = 0;
    for (uint32_t i = 0; i < r->rules.rule_count; i++) {
        bool no_step = false;
        na_policy_site_t *site = r->sites[i];
        site->bound = false;
        below_t below = {
            .modules = modules, .rule = &r->rules.rules[i], .site = site, .no_step = &no_step};
        add_frame(&below);
        site->no_frame = no_step && !site->bound;
        r->not_constant += site->no_frame;
    }
    for (uint32_t i = 0; i < modules->count; i++)
        if (opened[i].open) na_policy_symbols_close(&opened[i]);
}

void na_policy_bind(bool loader) {
    na_policy_modules_t modules;
    atomic_store(&na_bound.asks_loader, loader);
    unsigned adds = loader ? na_loaded_count() : 0;
    na_bound.unbound = true;
    bool is_for = na_policy_modules_take(&modules, loader);
    if (na_policy_tree_begin()) {
        if (is_for) add_module_rules(&modules);
        na_bound.unbound = !na_policy_tree_publish();
    }
    na_policy_tree_end();
    if (is_for) na_policy_modules_turn(&modules);
    na_policy_modules_release(&modules, loader);
    bool on = is_for && na_bound.reading->rules.rule_count != 0;
    atomic_store_explicit(&na_bound.on, on, memory_order_release);
    if (loader) atomic_store_explicit(&na_bound.adds, adds, memory_order_release);
}
