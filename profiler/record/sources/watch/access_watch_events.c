/* access_watch_events.c - see access_watch_events.h. */
#include "profiler/record/sources/watch/access_watch_events.h"

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>

#include "profiler/record/sources/watch/access_watch_scout.h"

void na_watch_events(uintptr_t word, na_perf_plan_t *all, na_perf_plan_t *registers) {
    const struct perf_event_attr any = {
        .type = PERF_TYPE_SOFTWARE,
        .size = PERF_ATTR_SIZE_VER5,
        .config = PERF_COUNT_SW_DUMMY,
        .sample_period = 1,
        .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
                       PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU,
        .disabled = 1,
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .watermark = 1,
        .wakeup_watermark = UINT32_MAX,
        .use_clockid = 1,
        .clockid = 1, /* CLOCK_MONOTONIC */
        .sample_id_all = 1,
    };
    *all = (na_perf_plan_t){.events = NA_WATCH_CLOCK + 1,
                            .group = NA_WATCH_FIRST + NA_WATCH_REGISTERS};
    *registers = (na_perf_plan_t){.events = NA_WATCH_REGISTERS};
    all->attr[NA_WATCH_LEADER] = all->attr[NA_WATCH_CLOCK] = any;
    all->attr[NA_WATCH_LEADER].context_switch = 1;
    for (uint32_t k = 0; k < NA_WATCH_REGISTERS; k++) {
        struct perf_event_attr *attr = &registers->attr[k];
        *attr = any;
        attr->type = PERF_TYPE_BREAKPOINT;
        attr->config = 0;
        attr->bp_type = k % NA_WATCH_EACH == 0 ? HW_BREAKPOINT_W : HW_BREAKPOINT_RW;
        attr->bp_addr = word;
        attr->bp_len = HW_BREAKPOINT_LEN_8;
        all->attr[NA_WATCH_FIRST + k] = *attr;
    }
    na_scout_ask(&all->attr[NA_WATCH_CLOCK]);
}
