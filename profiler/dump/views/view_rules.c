/* view_rules.c - what the rules of a policy did: blocks, their memory, and where accesses were
 * sampled, how many of them were local, beside the same of the control. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/table.h"
#include "profiler/dump/ui/text.h"
#include "profiler/format/nprof_policy.h"
#include "profiler/format/reader/reader_access.h"

/* Of one heap, or its control: accesses by weight, in the unit of one source. */
typedef struct accesses {
    double local, all;
    uint64_t samples;
} accesses_t;

enum { HEAPS = NA_NPROF_POLICY_HEAPS + 1 };

typedef struct rules {
    const na_view_input_t *in;
    na_table_t *table;
    na_nprof_policy_t policy;
    accesses_t *heaps[2]; /* of rules, and their controls; by heap */
} rules_t;

/* The source with most samples counts. */
static uint32_t main_source(const na_access_t *access) {
    uint32_t best = 0;
    uint64_t *samples = calloc((size_t)access->source_count + 1, sizeof *samples);
    if (samples == NULL) return 0;
    for (size_t i = 0; i < access->sample_count; i++)
        samples[access->samples[i].source]++;
    for (uint32_t i = 0; i < access->source_count; i++)
        if (samples[i] > samples[best]) best = i;
    free(samples);
    return best;
}

static bool sum_rule_accesses(na_view_input_t *in, rules_t *rules) {
    na_access_t access;
    if (!na_access_load(in->reader, &access)) return false;
    uint32_t source = main_source(&access);
    for (size_t i = 0; i < access.sample_count; i++) {
        const na_nprof_access_sample_t *s = &access.samples[i];
        if (s->source != source || s->object == 0 || s->cpu_node < 0 || s->home_node < 0) continue;
        uint32_t ruled = access.objects[s->object].ruled;
        uint32_t heap = ruled & ~NA_NPROF_RULED_CONTROL;
        if (heap == 0 || heap >= HEAPS) continue;
        accesses_t *to = &rules->heaps[(ruled & NA_NPROF_RULED_CONTROL) != 0][heap];
        to->samples++;
        to->all += s->weight;
        if (s->cpu_node == s->home_node) to->local += s->weight;
    }
    na_access_free(&access);
    return true;
}

enum {
    LINE,
    BLOCKS,
    BYTES,
    CONTROL_BLOCKS,
    CONTROL_BYTES,
    LIVE,
    IN_SPANS,
    CONTROL_LIVE,
    CONTROL_IN_SPANS,
    LOCAL,
    CONTROL_LOCAL,
    SAMPLES,
    CONTROL_SAMPLES,
    FAILED,
    HEAP,
    NODE,
    STATE,
    TEXT
};

static const na_column_t rule_columns[] = {
    {"line", "line", NA_KIND_NUMBER, NULL},
    {"blocks", "blocks", NA_KIND_COUNT, "count"},
    {"bytes", "bytes", NA_KIND_BYTES, "total"},
    {"control_blocks", "control", NA_KIND_COUNT, NULL},
    {"control_bytes", NULL, NA_KIND_BYTES, NULL},
    {"heap_live_bytes", "live", NA_KIND_BYTES, "live"},
    {"heap_span_bytes", "in spans", NA_KIND_BYTES, NULL},
    {"control_live_bytes", NULL, NA_KIND_BYTES, NULL},
    {"control_span_bytes", NULL, NA_KIND_BYTES, NULL},
    {"local_share", "local", NA_KIND_SHARE, NULL},
    {"control_local_share", "of control", NA_KIND_SHARE, NULL},
    {"samples", "samples", NA_KIND_COUNT, NULL},
    {"control_samples", NULL, NA_KIND_COUNT, NULL},
    {"failed_blocks", NULL, NA_KIND_COUNT, NULL},
    {"heap", "heap", NA_KIND_NUMBER, NULL},
    {"node", "node", NA_KIND_NUMBER, NULL},
    {"state", "state", NA_KIND_TEXT, NULL},
    {"rule", "rule", NA_KIND_TEXT, NULL},
};
static const na_columns_t rules_table = NA_COLUMNS(rule_columns);

/* The first that holds explains the others. */
static const char *rule_state(const na_nprof_rule_t *r) {
    if ((r->flags & NA_NPROF_RULE_NO_NODE) != 0) return "node not here";
    bool moved = (r->flags & NA_NPROF_RULE_MOVED) != 0;
    if ((r->flags & NA_NPROF_RULE_BOUND) != 0)
        return r->blocks != 0 ? "applied" : moved ? "blocks moved" : "never matched";
    if ((r->flags & NA_NPROF_RULE_BUILD) != 0) return "another build";
    if ((r->flags & NA_NPROF_RULE_NO_MODULE) != 0) return "module not loaded";
    if ((r->flags & NA_NPROF_RULE_NO_FRAME) != 0) return "frames cannot be followed";
    return "no such call";
}

static void put_rule_accesses(na_table_t *table, const accesses_t *a, size_t share,
                              size_t samples) {
    if (a->samples == 0 || !(a->all > 0)) return;
    na_table_number(table, share, a->local / a->all);
    na_table_number(table, samples, (double)a->samples);
}

static void add_rule_row(void *arg, uint32_t id, const void *entry) {
    rules_t *rules = arg;
    const na_nprof_rule_t *r = entry;
    na_table_t *t = rules->table;
    na_table_row(t, id);
    na_table_number(t, LINE, r->line);
    na_table_number(t, BLOCKS, (double)r->blocks);
    na_table_number(t, BYTES, (double)r->bytes);
    if (r->control != 0) {
        na_table_number(t, CONTROL_BLOCKS, (double)r->control_blocks);
        na_table_number(t, CONTROL_BYTES, (double)r->control_bytes);
    }
    na_table_number(t, FAILED, (double)r->failed);
    if (r->heap != 0) {
        na_table_number(t, HEAP, r->heap);
        na_table_number(t, LIVE, (double)r->live);
        na_table_number(t, IN_SPANS, (double)r->in_spans);
        if (r->control != 0) {
            na_table_number(t, CONTROL_LIVE, (double)r->control_live);
            na_table_number(t, CONTROL_IN_SPANS, (double)r->control_in_spans);
        }
        if (r->heap < HEAPS) {
            put_rule_accesses(t, &rules->heaps[0][r->heap], LOCAL, SAMPLES);
            put_rule_accesses(t, &rules->heaps[1][r->heap], CONTROL_LOCAL, CONTROL_SAMPLES);
        }
    }
    if (r->node >= 0) na_table_number(t, NODE, r->node);
    na_table_text(t, STATE, rule_state(r));
    na_table_text(t, TEXT, r->text);
}

static const char *empty_of(const na_nprof_policy_t *p) {
    switch (p->state) {
    case 0:
        return "No policy: NUMALLOC_POLICY was not set";
    case NA_NPROF_POLICY_FOR_OTHERS:
        return "No rule was applied: the policy is for other programs, or another build of this "
               "one";
    case NA_NPROF_POLICY_NOT_OURS:
        return "No rule was applied: the program calls another malloc";
    case NA_NPROF_POLICY_UNREADABLE:
        return "No rule was applied: the policy could not be read";
    default:
        return "The policy has no rules";
    }
}

static void put_policy(const na_nprof_policy_t *p) {
    if (p->state == 0) return;
    printf("policy       %s: %u rules, %u bound", p->file, p->rules, p->bound);
    if (p->faults != 0) printf(", %u lines left out", p->faults);
    putchar('\n');
    bool refused = (p->flags & NA_NPROF_POLICY_REFUSED) != 0;
    if (p->readings != 0)
        printf("changed      read again %u time%s%s\n", p->readings, p->readings == 1 ? "" : "s",
               refused ? "; the file has changed since and was not taken" : "");
    else if (refused)
        puts("changed      the file has changed and was not taken");
    if (p->modules != 0) {
        printf("modules      %u", p->modules);
        if (p->other_builds != 0) printf(", %u of another build", p->other_builds);
        if (p->missing_modules > p->other_builds)
            printf(", %u not loaded", p->missing_modules - p->other_builds);
        putchar('\n');
    }
    if ((p->flags & NA_NPROF_POLICY_FULL) != 0)
        puts("not all      functions in the rules make more calls than there is room for");
    if ((p->flags & NA_NPROF_POLICY_LINKED_IN) != 0)
        puts(
            "not all      the allocator is linked into the program, whose own calls are not ruled");
    putchar('\n');
}

static na_status_t show_rules(na_view_input_t *in) {
    rules_t rules = {.in = in, .table = na_table_open(&rules_table)};
    for (int i = 0; i < 2; i++)
        rules.heaps[i] = calloc(HEAPS, sizeof *rules.heaps[i]);
    na_status_t status = NA_STATUS_MEMORY;
    if (rules.table != NULL && rules.heaps[0] != NULL && rules.heaps[1] != NULL &&
        sum_rule_accesses(in, &rules)) {
        na_reader_policy(in->reader, &rules.policy);
        na_reader_control(in->reader, NA_NPROF_POLICY_RULES, add_rule_row, &rules);
        if (in->options->table.format == NA_FORMAT_TEXT) put_policy(&rules.policy);
        const na_table_print_t print = {
            .view = "rules",
            .title = "Rules of the policy (%s); live, in spans: of the heap, which several may "
                     "share; local: accesses from the block's node, and the same of control",
            .all = true,
            .empty = empty_of(&rules.policy),
        };
        status = na_table_write(rules.table, in->options, &print);
    }
    na_table_close(rules.table);
    free(rules.heaps[0]);
    free(rules.heaps[1]);
    return status;
}

const na_view_t na_view_row_rules = {
    .name = "rules",
    .words = "FILE",
    .help = "what each rule of the policy (NUMALLOC_POLICY) did, beside its control",
    .more = "Blocks and bytes are all that a rule meant, the control's included.\n"
            "Of a process that runs or was killed: what it said about a second before.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_FACTS,
    .takes = NA_TAKES_TABLE,
    .tables = {{&rules_table, 0}},
    .show = show_rules,
};
