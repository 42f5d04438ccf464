/* labels.h - what a profile is labelled with among many: service, version, host, job, rank and
 * whatever its user added.
 *
 * Where a label comes from, the first that has it:
 *   1. NUMALLOC_PROFILE_LABELS of the process, which its profile has recorded
 *   2. --path-labels: names of the directories that the file lies in
 *   3. --label
 *   4. the profile's header: host, job, rank; service is the program's name without directories
 *
 * A set of labels is a text of lines "key=value\n" in the order of keys: equal sets are equal
 * texts. Values have no control characters. */
#ifndef NUMALLOC_PROFILER_DUMP_RUNS_LABELS_H
#define NUMALLOC_PROFILER_DUMP_RUNS_LABELS_H

#include "profiler/containers/index.h"
#include "profiler/dump/runs/runs.h"
#include "profiler/dump/ui/command_line.h"
#include "profiler/format/reader/reader.h"

/* Bytes of a set, at most; what does not fit is left out. */
#define NA_LABELS 2048u

/* The set of one profile. `only`: names of labels divided by commas; NULL: all. */
void na_labels_of(const na_recorded_run_t *run, const na_options_t *options, const char *only,
                  char set[NA_LABELS]);

/* As people see a set: "key=value,key=value". */
void na_labels_in_line(char *set);

/* What labels are made of, from a profile that is open; the rest of *run is zero. */
void na_labels_read(na_reader_t *reader, const char *path, na_recorded_run_t *run);

/* The value of a label in a set, and its length; NULL: not there. */
const char *na_label_value(const char *set, const char *key, size_t key_length, size_t *length);

/* Calls visit for every label of a set; strings end with a zero. */
void na_labels_each(const char *set, void (*visit)(void *arg, const char *key, const char *value),
                    void *arg);

/* Different sets, numbered in the order of their coming. */
typedef struct na_label_sets {
    char **items;
    uint32_t count, room;
    na_index_t index;
} na_label_sets_t;

/* The number of a set, which is copied if it is new. UINT32_MAX: out of memory. */
uint32_t na_label_sets_add(na_label_sets_t *sets, const char *set);
void na_label_sets_free(na_label_sets_t *sets);

/* Are --label, --path-labels and --by as they should be? False: said why. */
bool na_labels_check(const na_options_t *options);

/* Is it key=value,...? As the recorder sees it. */
bool na_labels_valid(const char *text);

#endif
