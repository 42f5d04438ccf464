/* above.c - what numalloc has besides its core: the profiler, policies, guarded blocks, scans for
 * leaks. */
#include <stddef.h>

#include "alloc/api/process.h"
#include "alloc/core/central/block.h"
#include "alloc/harden/hardened.h"
#include "alloc/limits/limits.h"
#include "alloc/options/options_read.h"
#include "alloc/record/recording.h"
#include "profiler/control/control.h"
#include "profiler/control/publish.h"
#include "profiler/guard/guards.h"
#include "profiler/leaks/leaks.h"
#include "profiler/policy/policy.h"
#include "profiler/policy/policy_move.h"
#include "profiler/policy/policy_report.h"

static bool leaks_lost; /* blocks are, which leaves only a status to set */

static void init_profiler(void) {
    na_leaks_on = na_option(NA_OPT_LEAKS) != 0;
    if (na_leaks_on) {
        na_sizeclass_spare();
        na_record_each();
    }
    na_control_init();
}

/* The last of all exit handlers: so the C library's exit goes on from here with that status. */
static void at_last(void) {
    na_process_end();
    if (leaks_lost && na_option(NA_OPT_LEAKS_EXIT) != 0) na_leaks_exit();
}

static void at_load(void) {
    na_control_at_load();
    na_policy_at_load();
    if (na_policy_is_named()) na_control_note_policy();
    na_policy_move_at_load();
    na_guard_at_load();
    na_publish_at_load();
    if (na_leaks_on) na_process_ends_later = na_leaks_at_load(at_last);
}

static void at_exit(na_tcache_t *tcache) {
    na_guard_at_exit();
    na_publish_at_exit();
    if (tcache != NULL) leaks_lost = na_control_at_exit(tcache);
}

static void print_profiler(int fd) {
    na_policy_print(fd);
    na_guard_print(fd);
}

static const na_above_t first = {.options = na_options_init, .init = na_limits_init};
static const na_above_t profiler = {
    .init = init_profiler, .at_load = at_load, .at_exit = at_exit, .print = print_profiler};

const na_above_t *const na_above[] = {
    &first, &na_recording_above, &na_hardened_above, &na_process_above, &profiler, NULL};
