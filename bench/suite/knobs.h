/* knobs.h - the adjustment knobs: each benchmark declares its own in ONE table, and everything that
 * is said of them (parsing, --help, validation, the header line, the JSON) is made from it. */
#ifndef NUMALLOC_BENCH_SUITE_KNOBS_H
#define NUMALLOC_BENCH_SUITE_KNOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "profiler/json/json.h"

typedef enum na_knob_kind {
    NA_KNOB_NUMBER, /* --name N, min <= N <= max */
    NA_KNOB_CHOICE, /* --name WORD, one of `choices`; the value is its place in the list */
    NA_KNOB_FLAG,   /* --name; 1 when given */
    NA_KNOB_TEXT,   /* --name TEXT */
} na_knob_kind_t;

typedef struct na_knob {
    const char *name;
    const char *unit; /* of a number, for --help; "" where there is none */
    na_knob_kind_t kind;
    /* Of a choice, def is the place of the default. A number's def outside min .. max means that
     * the benchmark finds a value of its own (settle) unless the user gives one. */
    uint64_t def, min, max;
    const char *choices; /* "a|b|c" */
    const char *help;
} na_knob_t;

#define NA_KNOBS_MAX 24

typedef struct na_knob_value {
    uint64_t number;  /* of a number, a choice (its place) or a flag */
    const char *text; /* of a text: never NULL, points into argv or to "" */
} na_knob_value_t;

typedef struct na_knobs {
    const na_knob_t *table;
    size_t count;
    na_knob_value_t value[NA_KNOBS_MAX];
} na_knobs_t;

/* Knobs that several benchmarks declare in the same words. */
#define NA_KNOB_THREADS                                                                            \
    {                                                                                              \
        "threads", "threads", NA_KNOB_NUMBER, 0, 1, 1024, NULL,                                    \
            "worker threads; without it, one for each CPU that this process may use"               \
    }
#define NA_KNOB_SEED                                                                               \
    {                                                                                              \
        "seed", "", NA_KNOB_NUMBER, 1, 0, UINT64_MAX, NULL,                                        \
            "seed of all random choices: the same seed gives the same requests"                    \
    }
#define NA_KNOB_REPETITIONS(def)                                                                   \
    {                                                                                              \
        "repetitions", "times", NA_KNOB_NUMBER, def, 1, 1000, NULL,                                \
            "measured repetitions; their median is the result"                                     \
    }
#define NA_KNOB_WARMUP(def)                                                                        \
    {                                                                                              \
        "warmup", "times", NA_KNOB_NUMBER, def, 0, 100, NULL,                                      \
            "repetitions before that which are not measured"                                       \
    }
#define NA_KNOB_PIN                                                                                \
    {                                                                                              \
        "pin", "", NA_KNOB_CHOICE, 0, 0, 0, "auto|on|off",                                         \
            "bind each thread to a CPU; auto: when there are enough CPUs"                          \
    }
#define NA_KNOB_TOUCH                                                                              \
    { "touch", "", NA_KNOB_CHOICE, 1, 0, 0, "off|on", "write the first byte of every new block" }
#define NA_KNOB_MIN(def)                                                                           \
    { "min", "bytes", NA_KNOB_NUMBER, def, 1, UINT64_C(1) << 30, NULL, "smallest object size" }
#define NA_KNOB_MAX(def)                                                                           \
    { "max", "bytes", NA_KNOB_NUMBER, def, 1, UINT64_C(1) << 30, NULL, "largest object size" }
#define NA_KNOB_STEP(def)                                                                          \
    {                                                                                              \
        "step", "bytes", NA_KNOB_NUMBER, def, 1, UINT64_C(1) << 30, NULL,                          \
            "object size increment: sizes are min, min+step, ... up to max"                        \
    }
#define NA_KNOB_DISTRIBUTION                                                                       \
    {                                                                                              \
        "distribution", "", NA_KNOB_CHOICE, 0, 0, 0, NA_DISTRIBUTION_CHOICES,                      \
            "object size distribution; fisher: F(4,10), many small and few large"                  \
    }

/* All values at their defaults. */
void na_knobs_init(na_knobs_t *knobs, const na_knob_t *table, size_t count);

/* Takes one knob from argv[*at] (`--name value`, `--name=value`, `--flag`) and moves *at past it.
 * Returns false with one line in `error` for an unknown knob or a bad value; *at is unchanged then.
 * Only `*unknown` set tells the caller that it may try the word elsewhere. */
bool na_knobs_take(na_knobs_t *knobs, int argc, char **argv, int *at, char *error, size_t size,
                   bool *unknown);

/* A whole decimal number in min .. max; false otherwise. */
bool na_knobs_number(const char *text, uint64_t min, uint64_t max, uint64_t *out);

void na_knobs_help(const na_knob_t *table, size_t count, FILE *out);

/* The value as the user would write it, in `buffer` (returned) or a text of its own. */
const char *na_knobs_value(const na_knobs_t *knobs, size_t index, char *buffer, size_t size);

/* "threads=2 spots=10000 ...", without a newline. */
void na_knobs_line(const na_knobs_t *knobs, FILE *out);

/* "knobs": {"threads": 2, "distribution": "uniform", ...} */
void na_knobs_json(const na_knobs_t *knobs, na_json_t *out);

#endif
