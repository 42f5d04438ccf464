/* test_bench_compare_child.c - child.c and html.c: what compare makes of its children, well and
 * badly behaved, and of what they print; and that the HTML says it without becoming markup. */
#include "tests/support/bench_compare_make.h"

#include "bench/benchmarks/registry.h"
#include "bench/compare/child.h"
#include "bench/compare/html.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static na_comparison_t comparison;
static na_child_t child;

static void setup(void) {
    make_comparison(&comparison, 1, 2);
    comparison.timeout_s = 200;
}

static void run(const char *program) {
    na_child_run(&comparison, make_case(&comparison, program), 0, NULL, &child);
}

TestSuite(bench_compare_child, .init = setup);

Test(bench_compare_child, measures_time_and_memory) {
    uint64_t begin = na_bench_now();
    run("p=sleep 0.2; echo words on standard output");
    double around = (double)(na_bench_now() - begin) / 1e9;
    cr_assert_eq(child.outcome, NA_DONE);
    cr_assert(child.seconds >= 0.2 && child.seconds <= around, "%g", child.seconds);
    cr_assert(child.peak > 100 * 1024 && child.peak < UINT64_C(1) << 30);
}

Test(bench_compare_child, says_how_it_failed) {
    run("p=echo first >&2; printf 'the\\treason\\n' >&2; exit 3");
    cr_assert_eq(child.outcome, NA_FAILED);
    cr_assert_str_eq(child.reason, "ended with status 3: the reason");
    run("p=kill -SEGV $$");
    cr_assert_eq(child.outcome, NA_FAILED);
    cr_assert(strstr(child.reason, "signal 11") != NULL, "%s", child.reason);
    run("p=yes no 2>/dev/null | head -c 100000 >&2; exit 1"); /* more than is kept */
    cr_assert_eq(child.outcome, NA_FAILED);
    cr_assert(strstr(child.reason, "status 1: ") != NULL, "%s", child.reason);
}

/* With all that it started: the sleep would otherwise hold the stream for ten minutes. Where the
 * machine is so busy that it has not started it in time, it has twice as long. */
Test(bench_compare_child, ends_at_the_time_out, .timeout = 300) {
    char program[128], text[16] = "", mark[64] = "/tmp/na_child.XXXXXX", reason[16];
    int fd = mkstemp(mark);
    snprintf(program, sizeof program, "p=sleep 600 & echo $! >%s; sleep 600", mark);
    for (comparison.timeout_s = 1; strchr(text, '\n') == NULL; comparison.timeout_s *= 2) {
        run(program);
        cr_assert_eq(child.outcome, NA_TIMED_OUT);
        snprintf(reason, sizeof reason, "%u s", (unsigned)comparison.timeout_s);
        cr_assert(strstr(child.reason, reason) != NULL);
        cr_assert(pread(fd, text, sizeof text - 1, 0) >= 0);
    }
    for (int wait = 0; kill(atoi(text), 0) == 0; wait++) {
        cr_assert_lt(wait, 10000, "its children live on");
        usleep(10000);
    }
    unlink(mark);
}

/* A program may leave a daemon behind that holds its standard error. */
Test(bench_compare_child, does_not_wait_for_what_it_leaves_behind) {
    char program[128], text[16] = "", mark[64] = "/tmp/na_child.XXXXXX";
    int fd = mkstemp(mark);
    snprintf(program, sizeof program, "p=sleep 600 & echo $! >%s", mark);
    run(program);
    cr_assert_eq(child.outcome, NA_DONE);
    cr_assert_gt(pread(fd, text, sizeof text - 1, 0), 0);
    cr_assert_eq(kill(atoi(text), SIGKILL), 0, "it was waited for");
    unlink(mark);
}

Test(bench_compare_child, stops_when_asked) {
    na_child_catch_signals();
    run("p=kill -INT $PPID; sleep 600");
    cr_assert_eq(child.outcome, NA_STOPPED);
    cr_assert(na_child_stop());
}

Test(bench_compare_child, preloads_for_the_child_only) {
    setenv("LD_PRELOAD", "/nonexistent.so", 1);
    run("p=test -z \"$LD_PRELOAD\"");
    cr_assert_eq(child.outcome, NA_DONE, "%s", child.reason);
    snprintf(comparison.contender[0].path, sizeof comparison.contender[0].path, "/nonexistent.so");
    run("p=test \"$LD_PRELOAD\" = /nonexistent.so");
    cr_assert_eq(child.outcome, NA_FAILED, "the loader's complaint was not noticed");
    cr_assert(strstr(child.reason, "cannot be preloaded") != NULL, "%s", child.reason);
}

/* ---- What a program reports of itself -----------------------------------------------------------
 */

/* Runs it, takes what it gave and reads that back from the journal's line. */
static const na_case_t *report(const char *program) {
    static char line[8192];
    make_comparison(&comparison, 1, 2);
    run(program);
    cr_assert_eq(child.outcome, NA_DONE, "%s", child.reason);
    na_result_take(&comparison, 0, 0, 0, &child, line, sizeof line);
    na_case_t *which = &comparison.cases[0];
    if (child.outcome == NA_DONE) {
        which->metrics = 0;
        cr_assert(na_result_line(&comparison, line, NULL), "%s", line);
    }
    return which;
}

Test(bench_compare_child, takes_what_a_program_reports) {
    const na_case_t *which = report(
        "p=printf 'metric\\trequests\\tkop/s\\thigher\\theadline\\ttime\\t1.5e2\\nmetric\\tafter"
        "\\tMiB\\tlower\\tdetail\\tmemory\\t7\\n' >&3; echo 'its output'");
    cr_assert_eq(which->metrics, 4);
    cr_assert_eq(na_case_main(which), &which->metric[0]);
    cr_assert_eq(which->metric[0].value[0], 150);
    cr_assert_eq(which->metric[0].better, NA_HIGHER);
    cr_assert_eq(which->metric[1].kind, NA_MEMORY);
    cr_assert_eq(which->metric[1].rank, NA_DETAIL);
    cr_assert_str_eq(which->metric[2].name, "time");
    cr_assert_str_eq(na_case_memory(which)->name, "peak memory");
    which = report("p=echo nothing of itself");
    cr_assert_eq(which->metrics, 2);
    cr_assert_str_eq(na_case_main(which)->name, "time");
}

Test(bench_compare_child, refuses_what_is_no_report) {
    static const char *const bad[] = {
        "p=echo words >&3",
        "p=printf 'metric\\tn\\tu\\tlower\\theadline\\ttime\\t1 s\\n' >&3",
        "p=printf 'metric\\tn\\tu\\tlower\\theadline\\ttime\\tinf\\n' >&3",
        "p=printf 'metric\\tn\\tu\\tless\\theadline\\ttime\\t1\\n' >&3",
        "p=printf 'metric\\tn\\tu\\tlower\\theadline\\ttime\\t1\\t\\n' >&3",
        "p=printf 'metric\\tn\\tlongerthanthefield\\tlower\\theadline\\ttime\\t1\\n' >&3",
        "p=yes 'much of it' | head -c 1000000 >&3",
    };
    for (size_t i = 0; i < NA_COUNT(bad); i++) {
        const na_case_t *which = report(bad[i]);
        cr_assert_eq(child.outcome, NA_FAILED, "%s", bad[i]);
        cr_assert(strstr(child.reason, "file descriptor 3") != NULL, "%s", child.reason);
        cr_assert_eq(which->metrics, 0);
        cr_assert_eq(which->failure[0].count, 1);
    }
    report("p=for i in $(seq 600); do printf 'metric\\tn%s\\tu\\tlower\\tdetail\\ttime\\t1\\n' $i; "
           "done >&3");
    cr_assert_eq(child.outcome, NA_FAILED);
    cr_assert(strstr(child.reason, "more than") != NULL, "%s", child.reason);
}

/* ---- What a benchmark prints ------------------------------------------------------------------
 */

static void take(const char *text, char *line, size_t size) {
    static char copy[4096];
    snprintf(copy, sizeof copy, "%s", text);
    child = (na_child_t){.outcome = NA_DONE, .text = copy};
    na_result_take(&comparison, 0, 0, 0, &child, line, size);
}

#define METRIC "metric\tchurn\tns/obj\tlower\theadline\ttime\t12.5\n"

static void plan_churn(const char *preload) {
    char error[256];
    na_plan_bench(&comparison, na_bench_find("churn"), 1, NULL, 0, error, sizeof error);
    snprintf(comparison.contender[0].path, sizeof comparison.contender[0].path, "%s", preload);
}

Test(bench_compare_child, takes_a_report_and_reads_it_back) {
    char line[4096];
    plan_churn("/lib/x.so");
    take("malloc\t/lib/x.so\n" METRIC "metric\tpeak memory\tMiB\tlower\theadline\tmemory\t3\nend\n",
         line, sizeof line);
    cr_assert_eq(child.outcome, NA_DONE);
    cr_assert_eq(na_case_main(&comparison.cases[0])->value[0], 12.5);
    cr_assert_eq(na_case_memory(&comparison.cases[0])->kind, NA_MEMORY);
    comparison.cases[0].metrics = 0;
    cr_assert(na_result_line(&comparison, line, NULL));
    cr_assert_eq(comparison.cases[0].metrics, 2);
    cr_assert_str_eq(comparison.cases[0].metric[1].name, "peak memory");
}

Test(bench_compare_child, stores_nothing_of_a_bad_report) {
    plan_churn("/lib/x.so");
    take("malloc\t/lib/x.so\n" METRIC, NULL, 0);
    cr_assert_eq(child.outcome, NA_FAILED, "its end is missing");
    take("malloc\t/lib/libc.so.6\n" METRIC "end\n", NULL, 0);
    cr_assert_eq(child.outcome, NA_FAILED, "another malloc");
    cr_assert_eq(comparison.cases[0].metrics, 0);
    cr_assert(comparison.cases[0].failure[0].given_up, "two failures");
}

/* ---- HTML -------------------------------------------------------------------------------------
 */

static const char *written(void (*writer)(FILE *)) {
    static char text[1 << 20];
    FILE *file = fmemopen(text, sizeof text - 1, "w");
    writer(file);
    fclose(file);
    return text;
}

static void write_nasty(FILE *file) {
    na_html_text("<a href=\"x\">'&\x01\xc3\xa4", file);
}

static void write_page(FILE *file) {
    na_compare_html(&comparison, file);
}

Test(bench_compare_child, html_escapes) {
    cr_assert_str_eq(written(write_nasty),
                     "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#xfffd;\xc3\xa4");
}

Test(bench_compare_child, html_stands_alone) {
    make_comparison(&comparison, 3, 5);
    comparison.control = 1;
    make_case(&comparison, "<script>alert(1)=echo \"<b>\" && true");
    for (size_t r = 0; r < 5; r++)
        for (size_t c = 0; c < 2; c++)
            make_run(&comparison, 0, c, r, 1.0 + (double)(r + c) / 50, 10, NULL, 0);
    child = (na_child_t){.outcome = NA_TIMED_OUT, .reason = "<i>late</i>"};
    na_result_take(&comparison, 0, 2, 0, &child, NULL, 0);
    const char *page = written(write_page);
    static const char *const never[] = {
        "<script", "<b>\"", "<i>", "http:", "https:", "url(", "src=", "nan", "inf\""};
    for (size_t i = 0; i < NA_COUNT(never); i++)
        cr_assert_null(strstr(page, never[i]), "%s", never[i]);
    static const char *const always[] = {"<!DOCTYPE html>",
                                         "&lt;script&gt;alert(1)",
                                         "&lt;i&gt;late",
                                         "<svg",
                                         "prefers-color-scheme:dark",
                                         "GiB",
                                         "</html>"};
    for (size_t i = 0; i < NA_COUNT(always); i++)
        cr_assert_not_null(strstr(page, always[i]), "%s", always[i]);
}

/* One half with nothing run at all: an interrupted comparison is reported, too. */
Test(bench_compare_child, html_of_nothing) {
    plan_churn("");
    const char *page = written(write_page);
    cr_assert_not_null(strstr(page, "no result"));
    cr_assert_not_null(strstr(page, "</html>"));
}
