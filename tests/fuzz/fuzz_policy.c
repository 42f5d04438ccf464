/* fuzz_policy.c - libFuzzer target: any bytes as a policy. Whatever is in it, nothing beyond the
 * text is read, all numbers and indices of the result are within their limits, and each fault has a
 * line that fits on a screen. */
#include <stdlib.h>
#include <string.h>

#include "profiler/policy/rules/rules.h"

static const char *text_begin, *text_end;

static void must(bool good) {
    if (!good) abort();
}

static void report(void *arg, const na_policy_fault_t *fault) {
    ++*(uint32_t *)arg;
    char line[256];
    na_policy_fault_text(fault, "file", line, sizeof line);
    must(strncmp(line, "file:", 5) == 0 && strchr(line, '\n') == NULL);
    if (fault->word != NULL)
        must(fault->word >= text_begin && fault->word + fault->word_length <= text_end);
}

static void check_name(const na_policy_t *p, na_policy_name_t name) {
    must(name.at <= p->length && name.length <= p->length - name.at);
}

static void check_action(const na_policy_t *p, const na_policy_action_t *a) {
    must(a->place < NA_POLICY_PLACES && a->life <= NA_POLICY_LIFE_LONG);
    must(a->group == NA_POLICY_NO_GROUP || a->group < p->group_count);
    must(a->node == NA_POLICY_NO_NODE || a->node < NA_POLICY_NODES_MOST);
    must(a->place != NA_POLICY_NODE || a->node != NA_POLICY_NO_NODE);
    must(a->control != 1 && a->control <= 1024 && a->reserve <= NA_POLICY_RESERVE);
    uint64_t any = 0;
    for (unsigned i = 0; i < NA_POLICY_NODES_MOST / 64; i++)
        any |= a->nodes[i];
    must((a->place == NA_POLICY_NODES) == (any != 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static na_policy_t p;          /* what the last input left is still there */
    char *text = malloc(size + 1); /* of its own size, so that reading past the end is seen */
    if (text == NULL) return 0;
    char *begin = text + 1; /* and no zero follows it */
    memcpy(begin, data, size);
    text_begin = begin;
    text_end = begin + size;
    uint32_t faults = 0;
    bool good = na_policy_read(begin, size, &p, report, &faults);
    must(p.faults == faults && (good || faults == 1));
    must(p.program_count <= NA_POLICY_PROGRAMS && p.module_count <= NA_POLICY_MODULES &&
         p.group_count <= NA_POLICY_GROUPS && p.rule_count <= NA_POLICY_SITES);
    must(good || p.rule_count == 0);
    for (uint32_t i = 0; i < p.program_count; i++) {
        check_name(&p, p.programs[i].name);
        must(p.programs[i].build_id.length <= NA_POLICY_BUILD_ID);
    }
    for (uint32_t i = 0; i < p.module_count; i++) {
        check_name(&p, p.modules[i].alias);
        check_name(&p, p.modules[i].name);
        must(p.modules[i].build_id.length <= NA_POLICY_BUILD_ID);
    }
    for (uint32_t i = 0; i < p.group_count; i++) {
        check_name(&p, p.groups[i].name);
        must(p.groups[i].action.group == NA_POLICY_NO_GROUP && p.groups[i].action.reserve == 0);
        check_action(&p, &p.groups[i].action);
    }
    for (uint32_t i = 0; i < p.rule_count; i++) {
        const na_policy_rule_t *r = &p.rules[i];
        must(r->depth >= 1 && r->depth <= NA_POLICY_FRAMES && r->line >= 1);
        for (unsigned f = 0; f < r->depth; f++) {
            check_name(&p, r->frames[f].name);
            must(r->frames[f].module == NA_POLICY_NO_MODULE
                     ? r->frames[f].name.length != 0
                     : r->frames[f].module < p.module_count && r->frames[f].name.length == 0);
        }
        check_action(&p, &r->action);
    }
    (void)na_policy_is_for(&p, "a", data, size < 20 ? size : 20);
    free(text);
    return 0;
}
