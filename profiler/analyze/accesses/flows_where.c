/* flows_where.c - conditions on samples. See flows_where.h. */
#include "profiler/analyze/accesses/flows_where.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/format/reader/reader_access.h"

#define MOST_CONDITIONS 32
#define MOST_TEXT       1024

typedef enum test {
    IS_REMOTE,
    IS_LOCAL,
    IS_READ,
    IS_WRITE,
    IS_DRAM,
    OF_NODE,
    OF_HOME,
    OF_CPU,
    OF_PROCESS,
    OF_THREAD,
    OF_LATENCY,
    OF_TIME,
    OF_SITE,
    OF_OBJECT,
    OF_KIND,
    OF_SOURCE,
} test_t;

static const struct word {
    const char *word;
    test_t test;
    bool value; /* something follows '=' */
} condition_words[] = {
    {"remote", IS_REMOTE, false}, {"local", IS_LOCAL, false},    {"read", IS_READ, false},
    {"write", IS_WRITE, false},   {"dram", IS_DRAM, false},      {"node", OF_NODE, true},
    {"home", OF_HOME, true},      {"cpu", OF_CPU, true},         {"process", OF_PROCESS, true},
    {"thread", OF_THREAD, true},  {"latency", OF_LATENCY, true}, {"time", OF_TIME, true},
    {"site", OF_SITE, true},      {"object", OF_OBJECT, true},   {"kind", OF_KIND, true},
    {"source", OF_SOURCE, true},
};
#define WORDS (sizeof condition_words / sizeof condition_words[0])

static const char *const flow_kind_words[NA_FLOW_KINDS] = {
    "heap", "pool", "static", "file", "anonymous", "code", "stack", "unknown",
};

typedef struct condition {
    test_t test;
    uint64_t from, to; /* both count */
    const char *name;  /* of a thread or source */
} condition_t;

/* A whole number without sign, the text's end behind it. */
static bool read_whole_number(const char *text, uint64_t *value) {
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == 0 && errno == 0;
}

static bool read_time(char *value, condition_t *c) {
    char *dash = strchr(value, '-');
    if (dash == NULL) return false;
    *dash = 0;
    uint64_t ms;
    c->from = 0;
    c->to = UINT64_MAX;
    if (value[0] != 0) {
        if (!read_whole_number(value, &ms) || ms > UINT64_MAX / 1000000) return false;
        c->from = ms * 1000000;
    }
    if (dash[1] != 0) {
        if (!read_whole_number(dash + 1, &ms) || ms > UINT64_MAX / 1000000) return false;
        c->to = ms * 1000000;
    }
    return c->from <= c->to;
}

/* One condition of `text`, which is changed. */
static bool read_condition(char *text, condition_t *c) {
    size_t length = strcspn(text, "=<>");
    char sign = text[length];
    char *value = sign == 0 ? NULL : text + length + 1;
    text[length] = 0;
    const struct word *word = NULL;
    for (size_t i = 0; i < WORDS; i++)
        if (strcmp(condition_words[i].word, text) == 0) word = &condition_words[i];
    if (word == NULL || word->value != (value != NULL)) return false;
    *c = (condition_t){.test = word->test};
    if (!word->value) return true;
    if ((sign == '=') == (word->test == OF_LATENCY)) return false;
    if (word->test == OF_TIME) return read_time(value, c);
    if (word->test == OF_KIND) {
        for (c->from = 0; c->from < NA_FLOW_KINDS; c->from++)
            if (strcmp(flow_kind_words[c->from], value) == 0) break;
        c->to = c->from;
        return c->from < NA_FLOW_KINDS;
    }
    if (!read_whole_number(value, &c->from)) {
        c->name = value;
        return (word->test == OF_THREAD || word->test == OF_SOURCE) && value[0] != 0;
    }
    c->to = c->from;
    if (sign == '>') {
        c->from++;
        c->to = UINT64_MAX;
    } else if (sign == '<') {
        if (c->to-- == 0) return false;
        c->from = 0;
    }
    return true;
}

static bool within(uint64_t value, const condition_t *c) {
    return value >= c->from && value <= c->to;
}

static bool passes_condition(const na_flows_t *set, const na_touch_t *a, const condition_t *c) {
    const na_flow_thread_t *thread = &set->threads[a->thread];
    switch (c->test) {
    case IS_REMOTE:
        return na_touch_is_remote(a);
    case IS_LOCAL:
        return na_touch_has_nodes(a) && a->from == a->home;
    case IS_READ:
        return (a->op & NA_NPROF_OP_READ) != 0;
    case IS_WRITE:
        return (a->op & NA_NPROF_OP_WRITE) != 0;
    case IS_DRAM:
        return na_touch_is_dram(a);
    case OF_NODE:
        return a->from >= 0 && within(set->nodes[a->from].kernel_id, c);
    case OF_HOME:
        return a->home >= 0 && within(set->nodes[a->home].kernel_id, c);
    case OF_CPU:
        return a->cpu != UINT16_MAX && within(a->cpu, c);
    case OF_PROCESS:
        return within((uint64_t)set->processes[a->process].pid, c);
    case OF_THREAD:
        return c->name != NULL ? strcmp(thread->name, c->name) == 0 : within(thread->tid, c);
    case OF_LATENCY:
        return a->latency >= 0 && within((uint64_t)a->latency, c);
    case OF_TIME:
        return within(a->ns, c);
    case OF_SITE:
        return within(set->objects[a->object].site, c);
    case OF_OBJECT:
        return within(a->object, c);
    case OF_KIND:
        return within((uint64_t)set->objects[a->object].kind, c);
    case OF_SOURCE:
        return c->name != NULL &&
               strcmp(na_access_source_name(set->sources[a->source].of.source), c->name) == 0;
    }
    return false;
}

bool na_flows_select(na_flows_t *set, const char *conditions, char why[NA_WHERE_WHY]) {
    char text[MOST_TEXT];
    condition_t list[MOST_CONDITIONS];
    size_t count = 0;
    if (strlen(conditions) >= sizeof text) {
        snprintf(why, NA_WHERE_WHY, "too long: at most %u characters", MOST_TEXT - 1);
        return false;
    }
    strcpy(text, conditions);
    for (char *at = text, *next; at != NULL; at = next) {
        next = strchr(at, ',');
        if (next != NULL) *next++ = 0;
        char shown[64];
        snprintf(shown, sizeof shown, "%s", at);
        if (count == MOST_CONDITIONS) {
            snprintf(why, NA_WHERE_WHY, "more than %u conditions", MOST_CONDITIONS);
            return false;
        }
        if (!read_condition(at, &list[count++])) {
            snprintf(why, NA_WHERE_WHY, "not understood: '%s'", shown);
            return false;
        }
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        bool good = true;
        for (size_t c = 0; good && c < count; c++)
            good = passes_condition(set, &set->items[i], &list[c]);
        if (good) set->items[kept++] = set->items[i];
    }
    set->count = kept;
    if (na_flows_index(set)) return true;
    snprintf(why, NA_WHERE_WHY, "out of memory");
    return false;
}
