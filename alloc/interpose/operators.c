/* operators.c - finds the operators that somebody else has replaced. */
#include "alloc/interpose/operators.h"
#include "alloc/harden/hardened.h"

#include <dlfcn.h>
#include <stdatomic.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/track/track.h"
#include "alloc/interpose/loaded.h"
#include "pagemap/pagemap.h"

#ifndef NA_PREFIXED

#pragma weak dlsym

uintptr_t na_operator_limits[NA_OPERATOR_COUNT];

static na_operator_target_t targets[NA_OPERATOR_COUNT];
static _Atomic(bool) decided;
static unsigned modules_at_start; /* modules; 0: those that there are */

static const uint8_t shapes[] = {
#define X(form, symbol, shape, below) NA_##shape,
    NA_OPERATORS(X)
#undef X
};
static const uint8_t forms_below[] = {
#define X(form, symbol, shape, below) NA_OP_##below,
    NA_OPERATORS(X)
#undef X
};
static const char symbols[] =
#define X(form, symbol, shape, below) #symbol "\0"
    NA_OPERATORS(X)
#undef X
    ;

typedef struct search {
    na_operators_linked_t linked;
    na_symbol_name_t names[NA_OPERATOR_COUNT], malloc, get_new_handler, cxa_throw;
    void *replaced[NA_OPERATOR_COUNT]; /* the first definition that counts */
    void *defaults[NA_OPERATOR_COUNT]; /* the C++ runtime's */
    const char *late;                  /* the library that dlopen brought, or NULL */
    char late_name[512];
    bool passed_ours, runtime_at_start;
} search_t;

static bool is_ours(const search_t *s, void *const found[]) {
    for (unsigned op = 0; op < NA_OPERATOR_COUNT; op++)
        if (found[op] != NULL && found[op] == s->linked.ours[op]) return true;
    return false;
}

static void keep_name(search_t *s, const char *name) {
    size_t length = 0;
    while (name[length] != '\0' && length < sizeof s->late_name - 1)
        length++;
    if (name[length] != '\0') return; /* too long: the library may be closed under us */
    for (size_t i = 0; i <= length; i++)
        s->late_name[i] = name[i];
    s->late = s->late_name;
}

static bool search_module(const na_loaded_t *module, void *context) {
    search_t *s = context;
    void *found[NA_OPERATOR_COUNT];
    bool any = false;
    for (unsigned op = 0; op < NA_OPERATOR_COUNT; op++) {
        found[op] = na_loaded_function(module, &s->names[op]);
        any |= found[op] != NULL;
    }
    if (!any) return true;
    if (is_ours(s, found)) {
        s->passed_ours = true;
        return true;
    }
    bool late = modules_at_start != 0 && module->index >= modules_at_start;
    if (late && s->runtime_at_start) return false;
    bool runtime = na_loaded_function(module, &s->get_new_handler) != NULL ||
                   na_loaded_function(module, &s->cxa_throw) != NULL;
    void **to = s->replaced;
    if (s->passed_ours && runtime) {
        to = s->defaults;
        s->runtime_at_start |= !late;
    } else if (s->passed_ours && na_loaded_function(module, &s->malloc) != NULL) {
        return true;
    } else if (late) {
        keep_name(s, module->name);
    }
    for (unsigned op = 0; op < NA_OPERATOR_COUNT; op++)
        if (to[op] == NULL) to[op] = found[op];
    return true;
}

static na_operator_target_t target_of(const search_t *s, na_operator_t op) {
    na_operator_t form = op;
    while (s->replaced[form] == NULL && forms_below[form] != form)
        form = (na_operator_t)forms_below[form];
    na_operator_target_t target = {s->replaced[form], (na_operator_shape_t)shapes[form]};
    /* Only the runtime's own form can catch what the replacement throws. */
    bool nothrow = shapes[op] == NA_NEW_NT || shapes[op] == NA_NEW_NAT;
    if (nothrow && form != op && target.function != NULL && s->defaults[op] != NULL)
        target = (na_operator_target_t){s->defaults[op], (na_operator_shape_t)shapes[op]};
    return target;
}

bool na_operator_is_sized(na_operator_t op) {
    return shapes[op] == NA_DELETE_PN || shapes[op] == NA_DELETE_PNA;
}

/* With NUMALLOC_CHECK=1 a sized form always asks, so that the size is checked. */
static uintptr_t limit_of(na_operator_t op) {
    if (na_sizes_count && na_operator_is_sized(op)) return 0;
    if (na_path.is_of_form != NULL && shapes[op] > NA_NEW_NAT)
        return 0; /* alignment is checked, too */
    return shapes[op] <= NA_NEW_NAT ? NA_SMALL_MAX + 1 : NA_TAG_HOME_PAGES;
}

/* Others have its blocks, and will call its operators, when it is closed. (By name: linkers warn of
 * dlopen in static programs.) */
static void stay(const char *library) {
    if (&dlsym == NULL) return;
    void *(*open)(const char *, int);
    *(void **)&open = dlsym(RTLD_DEFAULT, "dlopen");
    if (open != NULL) open(library, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static bool is_runtime(const char *soname) {
    static const char names[][10] = {"libstdc++.", "libc++.", "libc++abi."};
    for (size_t i = 0; soname != NULL && i < sizeof names / sizeof names[0]; i++) {
        size_t at = 0;
        while (at < sizeof names[i] && names[i][at] != '\0' && soname[at] == names[i][at])
            at++;
        if (at == sizeof names[i] || names[i][at] == '\0') return true;
    }
    return false;
}

typedef struct linked_in {
    na_symbol_name_t new, malloc;
    const void *ours;
    bool found;
} linked_in_t;

static bool look_for_linked_in(const na_loaded_t *module, void *context) {
    linked_in_t *l = context;
    const void *function = na_loaded_function(module, &l->new);
    l->found = function != NULL && function != l->ours && !is_runtime(module->soname) &&
               na_loaded_function(module, &l->malloc) == NULL;
    return !l->found;
}

bool na_operators_linked_in(void) {
    na_operators_linked_t linked;
    na_operators_linked(&linked);
    linked_in_t l = {.new = na_symbol_name("_Znwm"),
                     .malloc = na_symbol_name("malloc"),
                     .ours = linked.ours[NA_OP_NEW]};
    na_loaded_visit(look_for_linked_in, &l);
    return l.found;
}

/* Threads that come here at once find the same. */
static NA_COLD void decide(void) {
    search_t s = {
        .malloc = na_symbol_name("malloc"),
        .get_new_handler = na_symbol_name("_ZSt15get_new_handlerv"),
        .cxa_throw = na_symbol_name("__cxa_throw"),
    };
    na_init();
    na_hardened_other_runtime = na_operators_linked_in;
    na_operators_linked(&s.linked);
    const char *symbol = symbols;
    for (unsigned op = 0; op < NA_OPERATOR_COUNT; op++) {
        s.names[op] = na_symbol_name(symbol);
        while (*symbol++ != '\0') {
        }
        if (s.linked.named[op] != s.linked.ours[op]) s.replaced[op] = s.linked.named[op];
    }
    na_loaded_visit(search_module, &s);
    if (s.late != NULL) stay(s.late);
    if (atomic_load_explicit(&decided, memory_order_acquire)) return;
    for (unsigned op = 0; op < NA_OPERATOR_COUNT; op++)
        targets[op] = target_of(&s, (na_operator_t)op);
    atomic_store_explicit(&decided, true, memory_order_release);
    for (unsigned op = 0; op < NA_OPERATOR_COUNT; op++)
        if (targets[op].function == NULL)
            __atomic_store_n(&na_operator_limits[op], limit_of((na_operator_t)op),
                             __ATOMIC_RELAXED);
}

const na_operator_target_t *na_operator_target(na_operator_t op) {
    if (!atomic_load_explicit(&decided, memory_order_acquire)) decide();
    return &targets[op];
}

void na_operators_before_dlopen(void) {
    if (modules_at_start == 0) modules_at_start = na_loaded_count();
}

#endif
