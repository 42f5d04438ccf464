/* report.c - what was counted, as JSON. */
#include "bench/cores/model.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static void settle(struct thread *thread) {
    thread->counts->waiting = thread->waited;
    thread->counts->busy = thread->clock - thread->waited;
}

void report_new(struct thread *thread, bool counted) {
    settle(thread);
    *thread->before = *thread->counts;
    thread->counted = counted;
}

void report_begin(struct thread *thread) {
    if (!machine.marked) {
        memset(&machine.sum, 0, sizeof machine.sum);
        lines_forget();
    }
    machine.marked = true;
    report_new(thread, true);
}

/* All members of struct counts are of one type. */
static void add(const struct thread *thread) {
    uint64_t *sum = (uint64_t *)&machine.sum;
    const uint64_t *now = (const uint64_t *)thread->counts;
    const uint64_t *then = (const uint64_t *)thread->before;
    for (size_t i = 0; i < sizeof machine.sum / sizeof *sum; i++)
        sum[i] += now[i] - then[i];
}

void report_end(struct thread *thread, uint64_t operations) {
    settle(thread);
    thread->counts->operations += operations;
    add(thread);
    thread->counted = false;
}

/* Where files lie, so that a reader can name what is at an address. */
static void write_maps(FILE *out) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    bool first = true;
    fprintf(out, "\"maps\":[");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        uint64_t begin, end, offset;
        int at = 0;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %n", &begin, &end,
                   &offset, &at) != 3 ||
            line[at] != '/')
            continue;
        line[strcspn(line, "\n")] = '\0';
        fprintf(out, "%s\n[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",\"%s\"]", first ? "" : ",",
                begin - *machine.base, end - *machine.base, offset, line + at);
        first = false;
    }
    if (maps != NULL) fclose(maps);
    fprintf(out, "]");
}

void report_write(int status) {
    uint64_t clock = 0;
    for (int i = 0; i < machine.threads_used; i++) {
        struct thread *thread = &machine.thread[i];
        if (thread->state != GONE && thread->clock > clock) clock = thread->clock;
        if (machine.marked || thread->state == GONE) continue;
        settle(thread);
        add(thread);
    }
    const struct counts *sum = &machine.sum;
    FILE *out = fopen(machine.out, "w");
    if (out == NULL) {
        fprintf(stderr, "cores: cannot write %s\n", machine.out);
        return;
    }
    fprintf(out, "{\"status\":%d,\"cycles\":%" PRIu64 ",\"threads\":%d,\n", status, clock / CYCLE,
            machine.threads_peak);
#define NUMBER(name, value) fprintf(out, "\"" name "\":%" PRIu64 ",", value)
    NUMBER("operations", sum->operations);
    NUMBER("instructions", sum->instructions);
    NUMBER("busy", sum->busy / CYCLE);
    NUMBER("waiting", sum->waiting / CYCLE);
    NUMBER("near", sum->near);
    NUMBER("far", sum->far);
    NUMBER("l3", sum->l3);
    NUMBER("memory", sum->memory);
    NUMBER("remote", sum->remote);
    NUMBER("locked", sum->locked);
    NUMBER("faults", sum->faults);
    NUMBER("faulted", sum->faults * PAGE);
    NUMBER("dropped", sum->dropped);
    NUMBER("peak", machine.pages_peak * PAGE);
    fprintf(out, "\n\"calls\":{");
    bool first = true;
    for (int i = 0; i < CALLS_MAX; i++) {
        if (sum->calls[i] == 0) continue;
        fprintf(out, "%s\"%s\":%" PRIu64, first ? "" : ",", calls_name(i), sum->calls[i]);
        first = false;
    }
    fprintf(out, "},\n");
    lines_report(out);
    fprintf(out, ",\n");
    plugin_report(out);
    fprintf(out, ",\n");
    write_maps(out);
    fprintf(out, "}\n");
    fclose(out);
}
