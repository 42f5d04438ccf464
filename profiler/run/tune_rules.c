/* tune_rules.c - see tune_rules.h. */
#include "profiler/run/tune_rules.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST ((size_t)1 << 20) /* of a policy's text (profiler/policy/rules/rules.h) */

/* "922,500" */
static double grouped_number(const char *text) {
    double value = 0;
    for (; (*text >= '0' && *text <= '9') || *text == ','; text++)
        if (*text != ',') value = 10 * value + (*text - '0');
    return value;
}

/* "#   costs up to 75 instructions in each of 922,500 calls ..." */
static double written_cost(const char *line, size_t length) {
    static const char costs[] = " costs up to ", each[] = " instructions in each of ";
    const char *first = memmem(line, length, costs, sizeof costs - 1);
    const char *then = memmem(line, length, each, sizeof each - 1);
    if (first == NULL || then == NULL) return 0;
    return grouped_number(first + sizeof costs - 1) * grouped_number(then + sizeof each - 1);
}

static bool is_rule(const char *line, size_t length) {
    return length > 5 && memcmp(line, "site", 4) == 0 && (line[4] == ' ' || line[4] == '\t');
}

static bool find_rules(na_tune_rules_t *r) {
    double cost = 0;
    size_t room = 0;
    unsigned number = 1;
    for (size_t at = 0; at < r->length; number++) {
        const char *line = r->text + at;
        const char *end = memchr(line, '\n', r->length - at);
        size_t length = end == NULL ? r->length - at : (size_t)(end - line);
        if (is_rule(line, length)) {
            if (r->count == room) {
                room = 2 * room + 16;
                na_tune_rule_t *more = reallocarray(r->items, room, sizeof *more);
                if (more == NULL) return false;
                r->items = more;
            }
            r->items[r->count++] =
                (na_tune_rule_t){.at = at, .length = length, .number = number, .cost = cost};
            cost = 0;
        } else if (*line == '#' && written_cost(line, length) > 0) {
            cost = written_cost(line, length);
        } else if (*line != '#') {
            cost = 0;
        }
        at += length + 1;
    }
    r->left = r->count;
    return true;
}

bool na_tune_read(na_tune_rules_t *r, const char *path) {
    *r = (na_tune_rules_t){.text = malloc(MOST + 1)};
    FILE *file = r->text == NULL ? NULL : fopen(path, "re");
    if (file == NULL) return false;
    r->length = fread(r->text, 1, MOST + 1, file);
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed || r->length > MOST) {
        errno = failed ? EIO : EFBIG;
        return false;
    }
    r->text[r->length] = 0;
    return find_rules(r);
}

void na_tune_free(na_tune_rules_t *r) {
    free(r->text);
    free(r->items);
    *r = (na_tune_rules_t){0};
}

bool na_tune_write(const na_tune_rules_t *r, const char *path, const char *head, size_t but) {
    FILE *file = fopen(path, "we");
    if (file == NULL) return false;
    const char *end = memchr(r->text, '\n', r->length);
    size_t at = end == NULL ? r->length : (size_t)(end - r->text) + 1;
    fwrite(r->text, 1, at, file);
    if (end == NULL) fputc('\n', file);
    fputs(head, file);
    for (size_t i = 0; i < r->count; i++) {
        const na_tune_rule_t *rule = &r->items[i];
        if (!rule->left_out && i != but) continue;
        fwrite(r->text + at, 1, rule->at - at, file);
        fprintf(file, "# left out: %s\n# ", rule->why);
        at = rule->at;
    }
    fwrite(r->text + at, 1, r->length - at, file);
    bool good = ferror(file) == 0;
    if (fclose(file) != 0 || !good) {
        if (errno == 0) errno = EIO;
        return false;
    }
    return true;
}

size_t na_tune_next(const na_tune_rules_t *r, bool by_cost) {
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < r->count; i++) {
        const na_tune_rule_t *rule = &r->items[i];
        const na_tune_rule_t *than = best == SIZE_MAX ? rule : &r->items[best];
        if (!rule->left_out && (by_cost ? rule->cost >= than->cost : !rule->proven || than->proven))
            best = i;
    }
    return best;
}

bool na_tune_all_proven(const na_tune_rules_t *r) {
    for (size_t i = 0; i < r->count; i++)
        if (!r->items[i].left_out && !r->items[i].proven) return false;
    return true;
}
