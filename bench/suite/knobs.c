/* knobs.c - parses, checks, explains and prints knobs from their table. */
#include "bench/suite/knobs.h"
#include "alloc/options/nearest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void na_knobs_init(na_knobs_t *knobs, const na_knob_t *table, size_t count) {
    knobs->table = table;
    knobs->count = count < NA_KNOBS_MAX ? count : NA_KNOBS_MAX;
    for (size_t i = 0; i < knobs->count; i++)
        knobs->value[i] = (na_knob_value_t){table[i].def, ""};
}

bool na_knobs_number(const char *text, uint64_t min, uint64_t max, uint64_t *out) {
    /* strtoull() alone would accept signs, blanks and a negative number as a huge one. */
    if (*text == '\0' || strspn(text, "0123456789") != strlen(text)) return false;
    errno = 0;
    unsigned long long number = strtoull(text, NULL, 10);
    if (errno != 0 || number < min || number > max) return false;
    *out = number;
    return true;
}

/* The place of `word` in "a|b|c", or -1. */
static int choice_place(const char *choices, const char *word) {
    size_t length = strlen(word);
    int place = 0;
    for (const char *at = choices;; place++) {
        size_t here = strcspn(at, "|");
        if (here == length && memcmp(at, word, here) == 0) return place;
        if (at[here] == '\0') return -1;
        at += here + 1;
    }
}

static const char *choice_word(const char *choices, uint64_t place, int *length) {
    for (; place > 0; place--)
        choices += strcspn(choices, "|") + 1;
    *length = (int)strcspn(choices, "|");
    return choices;
}

static bool set_value(const na_knob_t *knob, na_knob_value_t *value, const char *text, char *error,
                      size_t size) {
    int place;
    switch (knob->kind) {
    case NA_KNOB_NUMBER:
        if (na_knobs_number(text, knob->min, knob->max, &value->number)) return true;
        snprintf(error, size, "--%s takes a whole number from %" PRIu64 " to %" PRIu64 ", not '%s'",
                 knob->name, knob->min, knob->max, text);
        return false;
    case NA_KNOB_CHOICE:
        place = choice_place(knob->choices, text);
        if (place >= 0) {
            value->number = (uint64_t)place;
            return true;
        }
        snprintf(error, size, "--%s takes one of %s, not '%s'", knob->name, knob->choices, text);
        return false;
    case NA_KNOB_TEXT:
        value->text = text;
        return true;
    case NA_KNOB_FLAG:
        break;
    }
    snprintf(error, size, "--%s takes no value", knob->name);
    return false;
}

bool na_knobs_take(na_knobs_t *knobs, int argc, char **argv, int *at, char *error, size_t size,
                   bool *unknown) {
    const char *word = argv[*at];
    *unknown = false;
    if (strncmp(word, "--", 2) == 0) {
        const char *name = word + 2;
        size_t length = strcspn(name, "=");
        const char *joined = name[length] == '=' ? name + length + 1 : NULL;
        for (size_t i = 0; i < knobs->count; i++) {
            const na_knob_t *knob = &knobs->table[i];
            if (strlen(knob->name) != length || memcmp(knob->name, name, length) != 0) continue;
            if (knob->kind == NA_KNOB_FLAG && joined == NULL) {
                knobs->value[i].number = 1;
                *at += 1;
                return true;
            }
            const char *text = joined != NULL ? joined : *at + 1 < argc ? argv[*at + 1] : NULL;
            if (text == NULL) {
                snprintf(error, size, "--%s needs a value", knob->name);
                return false;
            }
            if (!set_value(knob, &knobs->value[i], text, error, size)) return false;
            *at += joined != NULL ? 1 : 2;
            return true;
        }
    }
    *unknown = true;
    char hint[80];
    na_nearest_t nearest = {.typed = word};
    if (strncmp(word, "--", 2) == 0) {
        nearest.typed += 2;
        nearest.length = strcspn(word + 2, "=");
    }
    for (size_t i = 0; i < knobs->count && nearest.length != 0; i++)
        na_nearest_try(&nearest, knobs->table[i].name);
    snprintf(error, size, "unknown argument '%.100s'%s", word,
             na_nearest_text(&nearest, "--", hint));
    return false;
}

const char *na_knobs_value(const na_knobs_t *knobs, size_t index, char *buffer, size_t size) {
    const na_knob_t *knob = &knobs->table[index];
    const na_knob_value_t *value = &knobs->value[index];
    if (knob->kind == NA_KNOB_TEXT) return value->text;
    if (knob->kind == NA_KNOB_CHOICE) {
        int length;
        const char *word = choice_word(knob->choices, value->number, &length);
        snprintf(buffer, size, "%.*s", length, word);
    } else if (knob->kind == NA_KNOB_FLAG) {
        snprintf(buffer, size, "%s", value->number ? "on" : "off");
    } else {
        snprintf(buffer, size, "%" PRIu64, value->number);
    }
    return buffer;
}

void na_knobs_help(const na_knob_t *table, size_t count, FILE *out) {
    na_knobs_t defaults;
    na_knobs_init(&defaults, table, count);
    for (size_t i = 0; i < defaults.count; i++) {
        const na_knob_t *knob = &table[i];
        char left[64], word[64];
        if (knob->kind == NA_KNOB_FLAG)
            snprintf(left, sizeof left, "--%s", knob->name);
        else if (knob->kind == NA_KNOB_CHOICE)
            snprintf(left, sizeof left, "--%s %s", knob->name,
                     strlen(knob->choices) <= 20 ? knob->choices : "WORD");
        else
            snprintf(left, sizeof left, "--%s %s", knob->name,
                     knob->kind == NA_KNOB_TEXT ? "TEXT" : "N");
        fprintf(out, "  %-30s %s", left, knob->help);
        const char *def = na_knobs_value(&defaults, i, word, sizeof word);
        bool found =
            knob->kind == NA_KNOB_NUMBER && (knob->def < knob->min || knob->def > knob->max);
        if (found)
            fputs(" (", out);
        else if (knob->kind != NA_KNOB_FLAG && *def != '\0')
            fprintf(out, " (default %s%s%s", def, *knob->unit ? " " : "", knob->unit);
        if (knob->kind == NA_KNOB_NUMBER && knob->max != UINT64_MAX)
            fprintf(out, "%s%" PRIu64 " to %" PRIu64, found ? "" : ", ", knob->min, knob->max);
        if (knob->kind == NA_KNOB_CHOICE && strlen(knob->choices) > 20)
            fprintf(out, "; one of %s", knob->choices);
        fputs(knob->kind != NA_KNOB_FLAG && *def != '\0' ? ")\n" : "\n", out);
    }
}

void na_knobs_line(const na_knobs_t *knobs, FILE *out) {
    char buffer[64];
    for (size_t i = 0; i < knobs->count; i++) {
        const char *text = na_knobs_value(knobs, i, buffer, sizeof buffer);
        fprintf(out, "%s%s=%s", i == 0 ? "" : " ", knobs->table[i].name, text);
    }
}

void na_knobs_json(const na_knobs_t *knobs, na_json_t *out) {
    char buffer[64];
    na_json_object(out, "knobs");
    for (size_t i = 0; i < knobs->count; i++) {
        const na_knob_t *knob = &knobs->table[i];
        if (knob->kind == NA_KNOB_NUMBER)
            na_json_u64(out, knob->name, knobs->value[i].number);
        else if (knob->kind == NA_KNOB_FLAG)
            na_json_bool(out, knob->name, knobs->value[i].number != 0);
        else
            na_json_string(out, knob->name, na_knobs_value(knobs, i, buffer, sizeof buffer));
    }
    na_json_end(out);
}
