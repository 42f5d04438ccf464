/* main.c - the driver: reads the command line, runs a benchmark, prints its result.
 *
 * Exit status: 0 done, 1 a benchmark failed, 2 the command line was wrong. */
#include "bench/benchmarks/registry.h"
#include "bench/compare/compare.h"
#include "bench/suite/report.h"
#include "bench/system/busy.h"
#include "bench/system/process.h"
#include "numalloc/numalloc.h"

#include <string.h>
#include <unistd.h>

typedef enum output { OUTPUT_TABLE, OUTPUT_JSON, OUTPUT_TSV } output_t;

static void list_benchmarks(FILE *out) {
    for (size_t i = 0; i < na_bench_count; i++)
        fprintf(out, "  %-12s %s\n", na_benches[i]->name, na_benches[i]->summary);
}

static void main_help(void) {
    puts("numalloc-bench measures the malloc that it is run with.\n\n"
         "  numalloc-bench list                     the benchmarks\n"
         "  numalloc-bench BENCHMARK [knobs]        run one\n"
         "  numalloc-bench BENCHMARK --help         its knobs\n"
         "  numalloc-bench compare [options]        run all under several allocators\n"
         "  numalloc-bench compare BENCHMARK [...]  run one under several allocators\n"
         "  numalloc-bench replay FILE.nprof        play back what a program did\n"
         "  numalloc-bench cores [options]          on an emulated machine of many processors\n"
         "  numalloc-bench --version                the version\n\n"
         "It links no allocator: LD_PRELOAD=libnumalloc.so.0 numalloc-bench churn\n\n"
         "Benchmarks:");
    list_benchmarks(stdout);
}

static void bench_help(const na_bench_t *bench) {
    printf("numalloc-bench %s: %s\n\nKnobs:\n", bench->name, bench->summary);
    na_knobs_help(bench->knobs, bench->knob_count, stdout);
    puts("\nOutput:\n"
         "  --details                      print the details too\n"
         "  --json                         print everything as JSON, samples included\n"
         "  --tsv                          print medians as tab-separated lines");
}

static int bench_usage_error(const char *bench, const char *error) {
    fprintf(stderr, "numalloc-bench: %s; see numalloc-bench %s%s--help\n", error, bench,
            *bench ? " " : "");
    return 2;
}

/* A word without dashes, of a benchmark that takes one. */
static bool take_operand(const na_bench_t *bench, na_knobs_t *knobs, const char *word) {
    if (bench->operand == NULL || word[0] == '-') return false;
    for (size_t i = 0; i < bench->knob_count; i++) {
        if (strcmp(bench->knobs[i].name, bench->operand) != 0) continue;
        if (*knobs->value[i].text != '\0') return false;
        knobs->value[i].text = word;
        return true;
    }
    return false;
}

static int run_benchmark(const na_bench_t *bench, int argc, char **argv) {
    na_knobs_t knobs;
    char error[256];
    output_t output = OUTPUT_TABLE;
    bool details = false, unknown;
    na_knobs_init(&knobs, bench->knobs, bench->knob_count);
    for (int i = 0; i < argc;) {
        if (strcmp(argv[i], "--help") == 0) {
            bench_help(bench);
            return 0;
        }
        if (na_knobs_take(&knobs, argc, argv, &i, error, sizeof error, &unknown)) continue;
        if (!unknown) return bench_usage_error(bench->name, error);
        if (strcmp(argv[i], "--json") == 0)
            output = OUTPUT_JSON;
        else if (strcmp(argv[i], "--tsv") == 0)
            output = OUTPUT_TSV;
        else if (strcmp(argv[i], "--details") == 0)
            details = true;
        else if (!take_operand(bench, &knobs, argv[i]))
            return bench_usage_error(bench->name, error);
        i++;
    }
    if (bench->settle != NULL && !bench->settle(&knobs, error, sizeof error))
        return bench_usage_error(bench->name, error);

    if (output == OUTPUT_TSV) /* read by `compare`, which shows a line of its own */
        na_bench_progress_off();
    static na_result_t result;
    static na_allocator_id_t allocator;
    na_allocator_identify(&allocator);
    na_report_t report = {bench, &knobs, &allocator, &result};
    if (output == OUTPUT_TABLE) {
        na_report_header(&report, stdout);
        fflush(stdout);
    }
    na_memory_t before = na_memory_read();
    na_busy_t others = na_busy_begin();
    bench->run(&knobs, &result);
    char busy[160];
    if (output != OUTPUT_TSV && na_busy_others(&others, busy, sizeof busy))
        fprintf(stderr, "numalloc-bench: %s: %s\n", bench->name, busy);
    if (bench->memory) {
        na_memory_t after = na_memory_read();
        double mib = 1024.0 * 1024.0;
        na_metric_add(na_result_metric(&result, "peak memory", "MiB", NA_LOWER, NA_HEADLINE, 1),
                      (double)after.peak / mib);
        na_metric_add(na_result_metric(&result, "final memory", "MiB", NA_LOWER, NA_HEADLINE, 1),
                      (double)after.now / mib);
        na_metric_add(na_result_metric(&result, "memory at start", "MiB", NA_LOWER, NA_DETAIL, 1),
                      (double)before.now / mib);
    }
    if (output == OUTPUT_JSON)
        na_report_json(&report, stdout);
    else if (output == OUTPUT_TSV)
        na_report_tsv(&report, stdout);
    else
        na_report_table(&report, details, stdout);
    if (fflush(stdout) != 0) na_bench_fail("cannot write the result to standard output");
    return 0;
}

/* The emulator is built in the source tree, which a build folder lies in. */
static int run_cores(char **argv) {
    char path[4096];
    if (na_beside_program("../../bench/cores/cores.py", path, sizeof path)) execv(path, argv);
    fputs("numalloc-bench: 'cores' runs in a build folder of the source tree\n", stderr);
    return 1;
}

int main(int argc, char **argv) {
    /* A buffer of our own: that of stdio would come from the allocator under test. */
    static char buffer[16384];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    if (argc < 2) return bench_usage_error("", "name a benchmark, or 'list', or 'compare'");
    const char *command = argv[1];
    if (strcmp(command, "--help") == 0 || strcmp(command, "help") == 0) {
        main_help();
        return 0;
    }
    if (strcmp(command, "--version") == 0) {
        printf("numalloc-bench %d.%d.%d\n", NUMALLOC_VERSION_MAJOR, NUMALLOC_VERSION_MINOR,
               NUMALLOC_VERSION_PATCH);
        return 0;
    }
    if (strcmp(command, "list") == 0) {
        if (argc > 2) return bench_usage_error("", "'list' takes no arguments");
        list_benchmarks(stdout);
        return 0;
    }
    if (strcmp(command, "cores") == 0) return run_cores(argv + 1);
    if (strcmp(command, "compare") == 0) return na_compare(argc - 2, argv + 2);
    const na_bench_t *bench = na_bench_find(command);
    if (bench == NULL) {
        char error[256];
        if (command[0] == '-')
            snprintf(error, sizeof error, "unknown argument '%.64s'", command);
        else
            na_bench_none(command, error, sizeof error);
        fprintf(stderr, "numalloc-bench: %s; see numalloc-bench list\n", error);
        return 2;
    }
    return run_benchmark(bench, argc - 2, argv + 2);
}
