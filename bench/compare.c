/* compare.c - runs one benchmark under a set of allocators in alternating rounds.
 *
 * In each round every allocator runs once, in a process of its own; the order is rotated from round
 * to round, so that none always follows the same neighbour or meets the machine in the same state.
 * What is compared is the median of each process; ratios are taken within a round. */
#include "compare.h"
#include "process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { O_ALLOCATOR, O_ROUNDS, O_BASE, O_TIMEOUT, O_DETAILS, O_JSON, O_COUNT };

static const na_knob_t options_table[O_COUNT] = {
    [O_ALLOCATOR] = {"allocator", "", NA_KNOB_TEXT, 0, 0, 0, NULL,
                     "NAME=PATH, or NAME of one found by itself; may be given several times"},
    [O_ROUNDS] = {"rounds", "rounds", NA_KNOB_NUMBER, 5, 1, NA_ROUNDS_MAX, NULL,
                  "how often each allocator runs"},
    [O_BASE] = {"base", "", NA_KNOB_TEXT, 0, 0, 0, NULL,
                "the allocator held against the others; without it, the first"},
    [O_TIMEOUT] = {"timeout", "s", NA_KNOB_NUMBER, 120, 1, 86400, NULL,
                   "the longest that one run may take"},
    [O_DETAILS] = {"details", "", NA_KNOB_FLAG, 0, 0, 0, NULL, "print the details too"},
    [O_JSON] = {"json", "", NA_KNOB_FLAG, 0, 0, 0, NULL, "print everything as JSON"},
};

/* The allocators that need no path. `file` NULL: none is preloaded. */
static const struct known {
    const char *name, *file;
    bool ours; /* lies beside this program */
} known[] = {
    {"numalloc", "libnumalloc.so", true},
    {"glibc", NULL, false},
    {"jemalloc", "libjemalloc.so.2", false},
    {"mimalloc", "libmimalloc.so.2", false},
    {"tcmalloc", "libtcmalloc_minimal.so.4", false},
};

static bool find_known(const struct known *which, char *out, size_t size) {
    static const char *const places[] = {NA_BENCH_SYSTEM_LIBDIR, "/usr/lib64", "/usr/lib",
                                         "/usr/local/lib"};
    char path[1024], full[4096];
    *out = '\0';
    if (which->file == NULL) return true;
    if (which->ours) return na_beside_program(which->file, out, size);
    for (size_t i = 0; i < NA_COUNT(places); i++) {
        snprintf(path, sizeof path, "%s/%s", places[i], which->file);
        if (access(path, R_OK) == 0 && realpath(path, full) != NULL && strlen(full) < size) {
            memcpy(out, full, strlen(full) + 1);
            return true;
        }
    }
    return false;
}

static bool add_contender(na_comparison_t *comparison, const char *name, size_t length,
                          const char *path, char *error, size_t size) {
    if (comparison->contenders == NA_CONTENDERS_MAX) {
        snprintf(error, size, "more than %d allocators", NA_CONTENDERS_MAX);
        return false;
    }
    na_contender_t *contender = &comparison->contender[comparison->contenders];
    if (length == 0 || length >= sizeof contender->name || strlen(path) >= sizeof contender->path) {
        snprintf(error, size, "--allocator takes NAME or NAME=PATH, a name of 1 to %zu characters",
                 sizeof contender->name - 1);
        return false;
    }
    memcpy(contender->name, name, length);
    contender->name[length] = '\0';
    for (size_t i = 0; i < comparison->contenders; i++) {
        if (strcmp(comparison->contender[i].name, contender->name) == 0) {
            snprintf(error, size, "the allocator '%s' is given twice", contender->name);
            return false;
        }
    }
    memcpy(contender->path, path, strlen(path) + 1);
    comparison->contenders++;
    return true;
}

/* "jemalloc", or "mine=/path/to/lib.so". */
static bool take_allocator(na_comparison_t *comparison, const char *text, char *error,
                           size_t size) {
    char path[4096];
    size_t length = strcspn(text, "=");
    if (text[length] == '=') {
        const char *file = text + length + 1;
        if (realpath(file, path) == NULL || access(path, R_OK) != 0) {
            snprintf(error, size, "cannot read the allocator '%s': %s", file, strerror(errno));
            return false;
        }
        if (strpbrk(path, " :") != NULL) {
            snprintf(error, size, "'%.400s' has a blank or a colon, which LD_PRELOAD cannot take",
                     path);
            return false;
        }
        return add_contender(comparison, text, length, path, error, size);
    }
    for (size_t i = 0; i < NA_COUNT(known); i++) {
        if (strcmp(known[i].name, text) != 0) continue;
        if (!find_known(&known[i], path, sizeof path)) {
            snprintf(error, size, "%s is not there; give its path, --allocator %s=PATH",
                     known[i].file, text);
            return false;
        }
        return add_contender(comparison, text, length, path, error, size);
    }
    snprintf(error, size, "no allocator is known as '%s'; give its path, --allocator %s=PATH", text,
             text);
    return false;
}

static void help(void) {
    puts("numalloc-bench compare BENCHMARK [knobs of the benchmark] [options]\n\n"
         "Runs the benchmark under several allocators in alternating rounds. Without --allocator:\n"
         "all of these that are found.\n");
    for (size_t i = 0; i < NA_COUNT(known); i++) {
        char path[1024];
        bool found = find_known(&known[i], path, sizeof path);
        printf("  %-10s %s\n", known[i].name,
               !found                  ? "(not found)"
               : known[i].file == NULL ? "nothing preloaded: the C library's malloc"
                                       : path);
    }
    puts("\nOptions:");
    na_knobs_help(options_table, O_COUNT, stdout);
}

static int usage_error(const char *error) {
    fprintf(stderr, "numalloc-bench: compare: %s; see numalloc-bench compare --help\n", error);
    return 2;
}

static bool choose_base(na_comparison_t *comparison, const char *name, char *error, size_t size) {
    comparison->base = 0;
    if (*name == '\0') return true;
    for (size_t i = 0; i < comparison->contenders; i++) {
        if (strcmp(comparison->contender[i].name, name) == 0) {
            comparison->base = i;
            return true;
        }
    }
    snprintf(error, size, "--base takes one of the allocators compared, not '%s'", name);
    return false;
}

static void run_rounds(na_comparison_t *comparison) {
    size_t contenders = comparison->contenders, total = contenders * comparison->rounds;
    for (size_t round = 0; round < comparison->rounds; round++) {
        for (size_t i = 0; i < contenders; i++) {
            na_bench_progress("compare: run", round * contenders + i, total);
            na_compare_run(comparison, (i + round) % contenders, round);
        }
    }
    na_bench_progress("compare: run", total, total);
}

int na_compare(int argc, char **argv) {
    static na_comparison_t comparison;
    na_knobs_t knobs, options;
    char error[512] = "name the benchmark to compare";
    bool unknown;
    if (argc > 0 && strcmp(argv[0], "--help") == 0) {
        help();
        return 0;
    }
    if (argc == 0) return usage_error(error);
    const na_bench_t *bench = na_bench_find(argv[0]);
    if (bench == NULL) {
        snprintf(error, sizeof error, "there is no benchmark '%.64s'", argv[0]);
        return usage_error(error);
    }
    comparison.bench = bench;
    comparison.knobs = &knobs;
    comparison.passed = na_bench_map(((size_t)argc + 1) * sizeof(char *));
    na_knobs_init(&knobs, bench->knobs, bench->knob_count);
    na_knobs_init(&options, options_table, O_COUNT);
    for (int i = 1; i < argc;) {
        int first = i;
        if (strcmp(argv[i], "--help") == 0) {
            help();
            return 0;
        }
        if (na_knobs_take(&knobs, argc, argv, &i, error, sizeof error, &unknown)) {
            for (int passed = first; passed < i; passed++)
                comparison.passed[comparison.passed_count++] = argv[passed];
            continue;
        }
        if (!unknown || !na_knobs_take(&options, argc, argv, &i, error, sizeof error, &unknown))
            return usage_error(error);
        const char *allocator = options.value[O_ALLOCATOR].text;
        if (*allocator != '\0' && !take_allocator(&comparison, allocator, error, sizeof error))
            return usage_error(error);
        options.value[O_ALLOCATOR].text = ""; /* taken; the next one is another */
    }
    if (bench->settle != NULL && !bench->settle(&knobs, error, sizeof error))
        return usage_error(error);
    if (comparison.contenders == 0) {
        for (size_t i = 0; i < NA_COUNT(known); i++) {
            char path[1024];
            if (find_known(&known[i], path, sizeof path))
                add_contender(&comparison, known[i].name, strlen(known[i].name), path, error,
                              sizeof error);
        }
    }
    if (!choose_base(&comparison, options.value[O_BASE].text, error, sizeof error))
        return usage_error(error);
    comparison.rounds = (size_t)options.value[O_ROUNDS].number;
    comparison.timeout_s = options.value[O_TIMEOUT].number;

    run_rounds(&comparison);
    if (options.value[O_JSON].number)
        na_compare_json(&comparison, stdout);
    else
        na_compare_table(&comparison, options.value[O_DETAILS].number != 0, stdout);
    if (fflush(stdout) != 0) na_bench_fail("cannot write the result to standard output");
    return 0;
}
