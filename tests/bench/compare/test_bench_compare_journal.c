/* test_bench_compare_journal.c - journal.c: the journal of compare: whatever is in the file, each
 * run is taken once or runs again, and what does not belong is refused. */
#include "tests/support/bench_compare_make.h"

#include "bench/compare/journal.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>
#include <utime.h>

static char *arguments[] = {(char *)(uintptr_t) "--program", (char *)(uintptr_t) "p=true"};

static na_comparison_t comparison;
static char path[64], library[64], error[512];

static void plan(size_t rounds) {
    make_comparison(&comparison, 2, rounds);
    snprintf(comparison.contender[1].path, sizeof comparison.contender[1].path, "%s", library);
    make_case(&comparison, "p=true");
    make_case(&comparison, "q=true");
}

static void setup(void) {
    snprintf(path, sizeof path, "/tmp/na_journal.XXXXXX");
    snprintf(library, sizeof library, "/tmp/na_library.XXXXXX");
    close(mkstemp(path));
    close(mkstemp(library));
    unlink(path);
    plan(3);
}

static void teardown(void) {
    unlink(path);
    unlink(library);
}

/* Two finished runs and one failure in round 0. */
static void write_journal(void) {
    na_journal_t journal;
    char line[4096];
    cr_assert(na_journal_begin(&journal, path, &comparison, 2, arguments, error, sizeof error),
              "%s", error);
    cr_assert_not(journal.resumed);
    comparison.cases[1].word[0] = "--x=1"; /* as if the budget had given it */
    comparison.cases[1].words = 1;
    na_journal_plan(&journal, &comparison);
    make_run(&comparison, 0, 0, 0, 1.25, 3.5, line, sizeof line);
    na_journal_add(&journal, line);
    make_run(&comparison, 0, 1, 0, 2.5, 7, line, sizeof line);
    na_journal_add(&journal, line);
    na_child_t child = {.outcome = NA_FAILED, .reason = "ended by signal 11"};
    na_result_take(&comparison, 1, 0, 0, &child, line, sizeof line);
    na_journal_add(&journal, line);
    na_journal_end(&journal, true);
    cr_assert_eq(access(path, F_OK), 0, "a named journal stays");
}

static void append(const char *text) {
    FILE *file = fopen(path, "a");
    fputs(text, file);
    fclose(file);
}

static long length_of(void) {
    FILE *file = fopen(path, "r");
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    fclose(file);
    return length;
}

static bool resume(na_journal_t *journal, size_t rounds) {
    plan(rounds);
    return na_journal_begin(journal, path, &comparison, 2, arguments, error, sizeof error);
}

static void check_taken(const na_journal_t *journal) {
    const na_case_t *p = &comparison.cases[0], *q = &comparison.cases[1];
    cr_assert(journal->resumed);
    cr_assert(na_journal_has(journal, &comparison, 0, 0, 0));
    cr_assert(na_journal_has(journal, &comparison, 0, 0, 1));
    cr_assert(na_journal_has(journal, &comparison, 0, 1, 0));
    cr_assert_not(na_journal_has(journal, &comparison, 0, 1, 1));
    cr_assert_not(na_journal_has(journal, &comparison, 1, 0, 0));
    cr_assert_eq(p->metrics, 2);
    cr_assert_eq(na_case_main(p)->value[0], 1.25);
    cr_assert_eq(na_case_main(p)->value[3], 2.5); /* contender 1, of 3 rounds */
    cr_assert_eq(na_case_memory(p)->value[3], 7);
    cr_assert(isnan(na_case_main(p)->value[1]));
    cr_assert(q->failure[0].count == 1 && strcmp(q->failure[0].reason, "ended by signal 11") == 0);
    cr_assert(q->words == 1 && strcmp(q->word[0], "--x=1") == 0);
    cr_assert_eq(comparison.rounds_done, 1);
}

TestSuite(bench_compare_journal, .init = setup, .fini = teardown);

Test(bench_compare_journal, resumes_what_was_written) {
    na_journal_t journal;
    write_journal();
    const char *words[8];
    size_t count;
    cr_assert(na_journal_words(path, words, &count, 8, error, sizeof error));
    cr_assert(count == 2 && strcmp(words[1], "p=true") == 0);
    cr_assert(resume(&journal, 3), "%s", error);
    check_taken(&journal);
    na_journal_end(&journal, true);
}

/* Cut anywhere in its last line, that line is dropped, and what is written next is whole. */
Test(bench_compare_journal, drops_a_cut_last_line) {
    na_journal_t journal;
    write_journal();
    long whole = length_of();
    append("run\t0\t1\t1\tok\t\ttime\ts\tlower\theadline\ttime\t9.5");
    cr_assert(resume(&journal, 3), "%s", error);
    check_taken(&journal);
    cr_assert_eq(length_of(), whole);
    char line[4096];
    make_run(&comparison, 1, 1, 0, 9.25, 1, line, sizeof line);
    na_journal_add(&journal, line);
    na_journal_end(&journal, true);
    cr_assert(resume(&journal, 3), "%s", error);
    cr_assert(na_journal_has(&journal, &comparison, 0, 1, 1));
    cr_assert_eq(na_case_main(&comparison.cases[1])->value[3], 9.25);
}

Test(bench_compare_journal, refuses_damage_and_other_plans) {
    na_journal_t journal;
    write_journal();
    cr_assert_not(resume(&journal, 4), "another number of rounds");
    struct utimbuf times = {1000, 1000};
    utime(library, &times);
    cr_assert_not(resume(&journal, 3), "another build of the library");
    cr_assert(strstr(error, "another build") != NULL, "%s", error);
}

Test(bench_compare_journal, refuses_lines_that_cannot_be) {
    static const char *const bad[] = {
        "run\t3\t0\t0\tok\t\ta\tb\tlower\theadline\ttime\t1\n",  /* a round too many */
        "run\t0\t2\t0\tok\t\ta\tb\tlower\theadline\ttime\t1\n",  /* a case too many */
        "run\t0\t0\t2\tok\t\ta\tb\tlower\theadline\ttime\t1\n",  /* a contender too many */
        "run\t-1\t0\t0\tok\t\ta\tb\tlower\theadline\ttime\t1\n", /* no number */
        "run\t0\t0\t0\tok\t\ta\tb\tlower\theadline\ttime\n",     /* half a metric */
        "run\t0\t0\t0\tperhaps\t\n",
        "run\n",
        "hello\n",
        "\n",
    };
    na_journal_t journal;
    for (size_t i = 0; i < NA_COUNT(bad); i++) {
        unlink(path);
        plan(3);
        write_journal();
        append(bad[i]);
        append("run\t1\t0\t0\tfailed\tx\n");
        cr_assert_not(resume(&journal, 3), "line %zu was taken", i);
        cr_assert(strstr(error, "damaged") != NULL, "%s", error);
    }
}

/* Whatever prefix of the file a crash has left, a resume works, or begins anew. */
Test(bench_compare_journal, every_prefix_can_be_resumed) {
    write_journal();
    long whole = length_of();
    static char text[8192], kept[64];
    FILE *file = fopen(path, "r");
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    cr_assert_eq((long)length, whole);
    snprintf(kept, sizeof kept, "%s", path);
    for (size_t cut = 0; cut < length; cut++) {
        na_journal_t journal;
        bool first_line = memchr(text, '\n', cut) != NULL;
        file = fopen(kept, "w");
        fwrite(text, 1, cut, file);
        fclose(file);
        bool good = resume(&journal, 3);
        cr_assert(good == (cut == 0 || first_line), "cut at %zu: %s", cut, error);
        if (good) na_journal_end(&journal, true);
    }
}

Test(bench_compare_journal, refuses_files_of_others) {
    const char *words[8];
    size_t count;
    append("my diary\n");
    cr_assert_not(na_journal_words(path, words, &count, 8, error, sizeof error));
    cr_assert_not(na_journal_words("/", words, &count, 8, error, sizeof error));
    unlink(path);
    cr_assert(na_journal_words(path, words, &count, 8, error, sizeof error));
    cr_assert_eq(count, 0);
    na_journal_t journal;
    char *tab[] = {(char *)(uintptr_t) "a\tb"};
    cr_assert_not(na_journal_begin(&journal, path, &comparison, 1, tab, error, sizeof error));
}
