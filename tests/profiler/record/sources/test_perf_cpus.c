/* test_perf_cpus.c - events of whole processors (access_perf.c): each has one, or counts as
 * refused. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "profiler/record/sources/access_perf.h"

Test(perf_cpus, each_has_events_or_is_counted) {
    na_perf_plan_t plan = {.attr = {{.type = PERF_TYPE_SOFTWARE,
                                     .size = sizeof(struct perf_event_attr),
                                     .config = PERF_COUNT_SW_PAGE_FAULTS,
                                     .exclude_kernel = 1,
                                     .sample_period = 1000}},
                           .events = 1,
                           .ring_bytes = 4096,
                           .cpus = true};
    long error = 0;
    if (na_perf_try(&plan) != 0) cr_skip("events of processors are refused here");
    /* Descriptors begin at 600 (access_perf.c): one is left. */
    struct rlimit few = {601, 601};
    uint32_t cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t refused = na_perf_scan(&plan, NULL, &error);
    cr_assert_eq(na_perf_count + refused, cpus, "%u and %u", na_perf_count, refused);
    cr_assert_eq(refused, cpus > NA_PERF_TARGETS ? cpus - NA_PERF_TARGETS : 0);
    na_perf_close_all();
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    refused = na_perf_scan(&plan, NULL, &error);
    cr_assert_eq(na_perf_count, 1);
    cr_assert(cpus == 1 || (refused != 0 && error == -EMFILE), "%u, %ld", refused, error);
    na_perf_close_all();
}
