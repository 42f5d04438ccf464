/* tune_rules.h - the text of a policy, with some of its rules left out. What numalloc-dump policy
 * writes is understood here, and so is a policy by hand: a line that begins with "site" is a rule,
 * and the comments before it are its own. */
#ifndef NUMALLOC_PROFILER_RUN_TUNE_RULES_H
#define NUMALLOC_PROFILER_RUN_TUNE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct na_tune_rule {
    size_t at, length; /* of its line, in the text; without the newline */
    unsigned number;   /* line of the file, from 1 */
    double cost;       /* instructions in all, by its comment "costs up to ..."; 0: none */
    bool left_out;
    bool proven;   /* measured: it does what it is for */
    char why[160]; /* of one that is left out */
} na_tune_rule_t;

typedef struct na_tune_rules {
    char *text;
    size_t length;
    na_tune_rule_t *items;
    size_t count, left; /* left: that are not left out */
} na_tune_rules_t;

/* False: it could not be read; errno says why. Free in both cases. */
bool na_tune_read(na_tune_rules_t *rules, const char *path);
void na_tune_free(na_tune_rules_t *rules);

/* Writes the text, what is left out as comments. `head`: lines to stand after the first one, each
 * begins with '#' and ends with a newline. `but`: an index of one rule more that is left out, or
 * SIZE_MAX. False: errno says why. */
bool na_tune_write(const na_tune_rules_t *rules, const char *path, const char *head, size_t but);

/* The rule to do without next: the most costly one where `by_cost`, else the last one of the file,
 * since numalloc-dump writes those first that gain most; of these one that is proven only where all
 * are. SIZE_MAX: none is left. */

size_t na_tune_next(const na_tune_rules_t *rules, bool by_cost);

/* Are all that are left proven? */
bool na_tune_all_proven(const na_tune_rules_t *rules);

#endif
