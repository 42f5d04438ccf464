/* policy.c - binds rules to what is loaded, when the program starts, when dlopen has brought
 * something, and when the file was changed.
 *
 * Done as a whole each time, from the rules as read; sites are found again (policy_sites.h), and
 * the tree only grows (policy_tree.h), so it may be done at any time, and twice.
 *
 * One thread at a time (`lock`). It may ask the loader, whose locks others may hold who wait for
 * ours: so nobody waits for long. A child that was forked meanwhile finds the lock taken by a
 * thread that it has not: it sees that the holder is of another process, and begins anew. */
#include "alloc/policy/policy.h"

#include <string.h>
#include <sys/syscall.h>

#include "alloc/api/loaded.h"
#include "alloc/api/whose.h"
#include "alloc/policy/bound.h"
#include "alloc/policy/frame_step.h"
#include "alloc/policy/names.h"
#include "alloc/policy/policy_modules.h"
#include "alloc/policy/policy_sites.h"
#include "alloc/policy/policy_text.h"
#include "alloc/policy/policy_tree.h"
#include "alloc/sys/lock.h"
#include "alloc/sys/options.h"
#include "alloc/sys/print.h"
#include "alloc/sys/syscall.h"
#include "alloc/sys/thread.h"

NA_SPARSE na_policy_bound_t na_bound;
static na_lock_t lock;
static _Atomic(int) process;      /* that the lock is of */
static _Atomic(bool) asks_loader; /* who has it now does */

bool na_policy_enter(unsigned ms) {
    if (na_lock_is_mine(&lock)) return false; /* the loader called us while we called it */
    int pid = (int)na_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
    uint32_t held = atomic_load_explicit(&lock.word, memory_order_relaxed);
    int of = atomic_load_explicit(&process, memory_order_relaxed);
    if (of != pid && atomic_compare_exchange_strong(&process, &of, pid) && of != 0 && held != 0)
        atomic_compare_exchange_strong(&lock.word, &held, 0);
    return ms == 0 ? na_try_lock(&lock) : na_lock_for(&lock, ms);
}

void na_policy_leave(void) {
    na_unlock(&lock);
}

/* --- the tree --- */

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

static na_policy_here_t *module_at(const na_policy_modules_t *modules, uintptr_t pc) {
    for (uint32_t i = 0; i < modules->count; i++)
        if (pc > modules->items[i].unwind.start && pc <= modules->items[i].unwind.end)
            return &modules->items[i];
    return NULL;
}

static void add_at(uintptr_t pc, void *arg) {
    const below_t *b = arg;
    na_policy_here_t *module = module_at(b->modules, pc);
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
        na_policy_symbols_t symbols;
        na_policy_symbols_open(&symbols, m->path);
        na_policy_calls_in(&symbols, na_bound.reading->rules.text + frame->name.at,
                           frame->name.length, m->loaded.base, m->text, m->text_end, add_at,
                           (void *)(uintptr_t)b);
        na_policy_symbols_close(&symbols);
    }
}

static void add_rules(const na_policy_modules_t *modules) {
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
}

/* `loader`: it may be asked. */
static void bind(bool loader) {
    na_policy_modules_t modules;
    atomic_store(&asks_loader, loader);
    unsigned adds = loader ? na_loaded_count() : 0;
    na_bound.unbound = true;
    bool is_for = na_policy_modules_take(&modules, loader);
    if (na_policy_tree_begin()) {
        if (is_for) add_rules(&modules);
        na_bound.unbound = !na_policy_tree_publish();
    }
    na_policy_tree_end();
    if (is_for) na_policy_modules_turn(&modules);
    na_policy_modules_release(&modules, loader);
    bool on = is_for && na_bound.reading->rules.rule_count != 0;
    atomic_store_explicit(&na_bound.on, on, memory_order_release);
    if (loader) atomic_store_explicit(&na_bound.adds, adds, memory_order_release);
}

/* --- the interface --- */

void na_policy_at_load(void) {
    const char *file = na_option_text(NA_OPT_POLICY);
    if (file == NULL || file[0] == 0) return;
    na_bound.file = file;
#ifndef __GLIBC__ /* what is loaded later is not seen there */
    na_warn("NUMALLOC_POLICY=%s ignored: there are no policies with this C library", file);
    na_bound.not_ours = true;
    return;
#endif
    na_bound.not_ours = na_whose_malloc()[0] != 0;
    if (na_bound.not_ours || !na_policy_enter(0)) return;
    na_policy_modules_first();
    na_policy_reading_t *reading = na_policy_text_first(file);
    if (reading != NULL && na_policy_make_sites(reading)) {
        na_bound.reading = reading;
        if (reading->rules.rule_count != 0) bind(true);
    } else {
        na_policy_text_drop(reading);
    }
    na_policy_leave();
    if (na_bound.linked_in && !na_bound.for_others)
        na_warn(
            "NUMALLOC_POLICY=%s does not reach calls of the program itself, which the allocator "
            "is linked into; preload libnumalloc.so into one that is not",
            file);
}

bool na_policy_is_on(void) {
    return atomic_load_explicit(&na_bound.on, memory_order_acquire);
}

bool na_policy_is_named(void) {
    return na_bound.file != NULL && !na_bound.not_ours;
}

/* Who does not ask the loader waits for nobody who could wait for us, and comes to an end. */
static bool enter_after_looks(void) {
    for (unsigned tries = 0; tries < 20; tries++) {
        if (na_policy_enter(NA_POLICY_PATIENCE_MS)) return true;
        if (na_lock_is_mine(&lock) || atomic_load(&asks_loader)) return false;
    }
    return false;
}

/* (Who binds may have looked before ours came.) */
void na_policy_bind_opened(void) {
    if (!na_policy_is_on()) return;
    for (unsigned tries = 0;
         tries < 3 &&
         atomic_load_explicit(&na_bound.adds, memory_order_acquire) != na_loaded_count();
         tries++) {
        if (!enter_after_looks()) return;
        if (atomic_load_explicit(&na_bound.adds, memory_order_relaxed) != na_loaded_count())
            bind(true);
        na_policy_leave();
    }
}

/* The next reading takes the place of the last one. */
static void replace(na_policy_reading_t *next) {
    if (!na_policy_make_sites(next)) {
        strcpy(na_bound.refused, "no room for more rules in this process");
        na_policy_text_drop(next);
        return;
    }
    na_policy_reading_t *last = na_bound.reading;
    na_bound.unbound = true;
    na_bound.full = false;
    na_bound.reading = next;
    na_bound.readings++;
    na_policy_text_drop(last);
}

void na_policy_look(void) {
    if (!na_policy_is_named() || !na_policy_enter(0)) return;
    na_policy_reading_t *next = na_policy_text_changed();
    if (next != NULL) replace(next);
    bool loader = na_thread_is_ours();
    if (na_bound.reading != NULL &&
        (na_bound.unbound ||
         (loader && na_policy_is_on() &&
          atomic_load_explicit(&na_bound.adds, memory_order_relaxed) != na_loaded_count())))
        bind(loader);
    na_policy_leave();
}
