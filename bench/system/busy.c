/* busy.c - whether other programs used the processors while something was measured. */
#include "bench/system/busy.h"

#include "bench/system/base.h"
#include "bench/system/process.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define OTHERS_MAX 0.2 /* of one processor */

static double seconds_of(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

na_busy_t na_busy_begin(void) {
    na_busy_t now = {.clock = (double)na_bench_now() / 1e9};
    static const int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    for (size_t i = 0; i < NA_COUNT(whose); i++) {
        struct rusage usage;
        if (getrusage(whose[i], &usage) == 0)
            now.own += seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    }
    /* user, nice, system, (idle, waiting for devices,) interrupts, the same, stolen */
    unsigned long long t[8];
    char text[256];
    na_system_file("/proc/stat", text, sizeof text);
    if (sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
               &t[4], &t[5], &t[6], &t[7]) == 8)
        now.all = (double)(t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) / (double)sysconf(_SC_CLK_TCK);
    return now;
}

bool na_busy_others(const na_busy_t *begin, char *out, size_t size) {
    na_busy_t now = na_busy_begin();
    double clock = now.clock - begin->clock;
    double others = (now.all - begin->all) - (now.own - begin->own);
    if (clock < 1 || now.all == 0 || others / clock < OTHERS_MAX) return false;
    (void)snprintf(out, size,
                   "others used %.1f processors meanwhile: measure again on an idle machine",
                   others / clock);
    return true;
}
