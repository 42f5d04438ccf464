/* labels.c - the labels of profiles. See labels.h. */
#include "profiler/dump/runs/labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"
#include "profiler/format/nprof.h"

/* Labels of one profile that are looked at: more than fit into any of the sources. */
#define MOST 160u

typedef struct label {
    const char *key, *value;
    size_t key_length, value_length;
} label_t;

typedef struct list {
    label_t items[MOST];
    size_t count;
} list_t;

static bool is_key(const char *key, size_t length) {
    if (length == 0 || (key[0] >= '0' && key[0] <= '9')) return false;
    for (size_t i = 0; i < length; i++) {
        char c = key[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_'))
            return false;
    }
    return true;
}

/* The first that names a key has it. */
static void add_new_label(list_t *list, const char *key, size_t key_length, const char *value,
                          size_t value_length) {
    if (value_length == 0 || list->count == MOST) return;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].key_length == key_length &&
            memcmp(list->items[i].key, key, key_length) == 0)
            return;
    list->items[list->count++] = (label_t){key, value, key_length, value_length};
}

static void add_text_label(list_t *list, const char *key, const char *value) {
    add_new_label(list, key, strlen(key), value, strlen(value));
}

bool na_labels_valid(const char *text) {
    size_t all = strlen(text);
    if (all >= NA_NPROF_LABELS) return false;
    for (const char *at = text;; at++) {
        size_t key = strcspn(at, "=,");
        if (!is_key(at, key) || at[key] != '=') return false;
        at += key + 1;
        size_t value = strcspn(at, ",");
        if (value == 0) return false;
        for (size_t i = 0; i < value; i++)
            if ((unsigned char)at[i] < ' ' || at[i] == 127) return false;
        at += value;
        if (*at == 0) return true;
    }
}

/* key=value,... that is valid. */
static void add_label_list(list_t *list, const char *text) {
    while (*text != 0) {
        size_t key = strcspn(text, "="), value = strcspn(text + key + 1, ",");
        add_new_label(list, text, key, text + key + 1, value);
        text += key + 1 + value;
        if (*text == ',') text++;
    }
}

/* names "a/b": of the last two directories of the path. */
static void add_directories(list_t *list, const char *names, const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL) return;
    const char *end = slash; /* of a directory's name */
    size_t left = strlen(names);
    while (left != 0 && end > path) {
        size_t from = left;
        while (from != 0 && names[from - 1] != '/')
            from--;
        const char *begin = end;
        while (begin > path && begin[-1] != '/')
            begin--;
        add_new_label(list, names + from, left - from, begin, (size_t)(end - begin));
        left = from == 0 ? 0 : from - 1;
        while (begin > path && begin[-1] == '/')
            begin--;
        end = begin;
    }
}

static int by_key(const void *a, const void *b) {
    const label_t *x = a, *y = b;
    size_t least = x->key_length < y->key_length ? x->key_length : y->key_length;
    int order = memcmp(x->key, y->key, least);
    if (order != 0) return order;
    return (x->key_length > y->key_length) - (x->key_length < y->key_length);
}

static bool is_named_key(const char *names, const char *key, size_t length) {
    while (*names != 0) {
        size_t n = strcspn(names, ",");
        if (n == length && memcmp(names, key, n) == 0) return true;
        names += n + (names[n] == ',');
    }
    return false;
}

void na_labels_of(const na_recorded_run_t *run, const na_options_t *options, const char *only,
                  char set[NA_LABELS]) {
    list_t list = {.count = 0};
    char rank[16] = "";
    const char *slash = strrchr(run->program, '/');
    add_label_list(&list, run->labels);
    if (options->fleet.path_labels != NULL)
        add_directories(&list, options->fleet.path_labels, run->path);
    for (size_t i = 0; i < options->fleet.labels.count; i++)
        add_label_list(&list, options->fleet.labels.items[i]);
    if (run->rank >= 0) snprintf(rank, sizeof rank, "%d", run->rank);
    add_text_label(&list, "host", run->host);
    add_text_label(&list, "job", run->job_name);
    add_text_label(&list, "rank", rank);
    add_text_label(&list, "service", slash != NULL ? slash + 1 : run->program);
    qsort(list.items, list.count, sizeof list.items[0], by_key);
    size_t used = 0;
    set[0] = 0;
    for (size_t i = 0; i < list.count; i++) {
        const label_t *l = &list.items[i];
        if (only != NULL && !is_named_key(only, l->key, l->key_length)) continue;
        if (used + l->key_length + l->value_length + 3 > NA_LABELS) continue;
        memcpy(set + used, l->key, l->key_length);
        used += l->key_length;
        set[used++] = '=';
        for (size_t c = 0; c < l->value_length; c++)
            set[used++] =
                (unsigned char)l->value[c] < ' ' || l->value[c] == 127 ? '?' : l->value[c];
        set[used++] = '\n';
        set[used] = 0;
    }
}

void na_labels_in_line(char *set) {
    size_t length = strlen(set);
    if (length != 0) set[length - 1] = 0;
    for (char *c = set; *c != 0; c++)
        if (*c == '\n') *c = ',';
}

void na_labels_read(na_reader_t *reader, const char *path, na_recorded_run_t *run) {
    static const char name[] = "NUMALLOC_PROFILE_LABELS=";
    const na_nprof_header_t *h = na_reader_header(reader);
    *run = (na_recorded_run_t){.path = path, .rank = h->mpi_rank};
    snprintf(run->host, sizeof run->host, "%s", h->host);
    snprintf(run->program, sizeof run->program, "%s", h->program);
    snprintf(run->job_name, sizeof run->job_name, "%s", h->job);
    size_t size;
    const char *text = na_reader_environment(reader, &size);
    for (size_t at = 0; text != NULL && at < size; at += strlen(text + at) + 1)
        if (strncmp(text + at, name, sizeof name - 1) == 0 && run->labels[0] == 0 &&
            na_labels_valid(text + at + sizeof name - 1))
            snprintf(run->labels, sizeof run->labels, "%s", text + at + sizeof name - 1);
}

const char *na_label_value(const char *set, const char *key, size_t key_length, size_t *length) {
    while (*set != 0) {
        size_t k = strcspn(set, "="), v = strcspn(set + k + 1, "\n");
        if (k == key_length && memcmp(set, key, k) == 0) {
            *length = v;
            return set + k + 1;
        }
        set += k + 1 + v + 1;
    }
    return NULL;
}

void na_labels_each(const char *set, void (*visit)(void *arg, const char *key, const char *value),
                    void *arg) {
    char text[NA_LABELS];
    for (size_t used = 0; set[used] != 0;) {
        size_t k = strcspn(set + used, "="), v = strcspn(set + used + k + 1, "\n");
        memcpy(text, set + used, k + 1 + v);
        text[k] = text[k + 1 + v] = 0;
        visit(arg, text, text + k + 1);
        used += k + 1 + v + 1;
    }
}

uint32_t na_label_sets_add(na_label_sets_t *sets, const char *set) {
    uint64_t hash = na_hash_text(NA_HASH_BEGIN, set);
    na_probe_t probe = na_index_probe(&sets->index, hash);
    while (na_index_next(&sets->index, &probe))
        if (strcmp(sets->items[probe.number], set) == 0) return probe.number;
    char *copy = strdup(set);
    if (copy == NULL || !NA_ARRAY_RESERVE(sets->items, sets->room, sets->count + 1u) ||
        !na_index_add(&sets->index, hash, sets->count)) {
        free(copy);
        return UINT32_MAX;
    }
    sets->items[sets->count] = copy;
    return sets->count++;
}

void na_label_sets_free(na_label_sets_t *sets) {
    for (uint32_t i = 0; i < sets->count; i++)
        free(sets->items[i]);
    free(sets->items);
    na_index_free(&sets->index);
}

/* A list of keys. */
static bool are_keys(const char *text, char divided) {
    const char by[] = {divided, 0};
    for (;; text++) {
        size_t n = strcspn(text, by);
        if (!is_key(text, n)) return false;
        text += n;
        if (*text == 0) return true;
    }
}

bool na_labels_check(const na_options_t *options) {
    for (size_t i = 0; i < options->fleet.labels.count; i++)
        if (!na_labels_valid(options->fleet.labels.items[i])) {
            na_fail("--label takes KEY=VALUE such as service=web, not: %s",
                    options->fleet.labels.items[i]);
            return false;
        }
    if (options->fleet.path_labels != NULL && !are_keys(options->fleet.path_labels, '/')) {
        na_fail("--path-labels takes names of labels divided by /, such as service/host, not: %s",
                options->fleet.path_labels);
        return false;
    }
    if (options->fleet.by != NULL && !are_keys(options->fleet.by, ',')) {
        na_fail("--by takes names of labels divided by commas, such as service,version, not: %s",
                options->fleet.by);
        return false;
    }
    return true;
}
