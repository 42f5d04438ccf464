/* policy.c - when rules are read and bound: when the program starts, when dlopen has brought
 * something, and when the file was changed. */
#include "profiler/policy/policy.h"

#include <string.h>

#include "alloc/core/sys/options.h"
#include "alloc/core/sys/print.h"
#include "alloc/core/sys/thread.h"
#include "alloc/interpose/loaded.h"
#include "alloc/interpose/whose.h"
#include "profiler/policy/bind/bind.h"
#include "profiler/policy/bind/bound.h"
#include "profiler/policy/bind/policy_modules.h"
#include "profiler/policy/bind/policy_sites.h"
#include "profiler/policy/bind/policy_text.h"

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
    if (na_bound.not_ours) return;
    na_loaded_opened = na_policy_bind_opened;
    if (!na_policy_enter(0)) return;
    na_policy_modules_first();
    na_policy_reading_t *reading = na_policy_text_first(file);
    if (reading != NULL && na_policy_make_sites(reading)) {
        na_bound.reading = reading;
        if (reading->rules.rule_count != 0) na_policy_bind(true);
    } else {
        na_policy_text_drop(reading);
    }
    na_policy_leave();
    if (na_bound.linked_in && !na_bound.for_others)
        na_warn(
            "NUMALLOC_POLICY=%s does not reach calls of the program itself, which the allocator "
            "is linked into; preload libnumalloc.so.0 into one that is not",
            file);
}

bool na_policy_is_on(void) {
    return atomic_load_explicit(&na_bound.on, memory_order_acquire);
}

bool na_policy_is_named(void) {
    return na_bound.file != NULL && !na_bound.not_ours;
}

/* (Who binds may have looked before ours came.) */
bool na_policy_bind_opened(void) {
    if (!na_policy_is_on()) return false;
    for (unsigned tries = 0;
         tries < 3 &&
         atomic_load_explicit(&na_bound.adds, memory_order_acquire) != na_loaded_count();
         tries++) {
        if (!na_policy_enter_after_looks()) break;
        if (atomic_load_explicit(&na_bound.adds, memory_order_relaxed) != na_loaded_count())
            na_policy_bind(true);
        na_policy_leave();
    }
    return true;
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
        na_policy_bind(loader);
    na_policy_leave();
}
