/* access_judge.h - reads the profiles of access_make.h back, and judges them. */
#ifndef NUMALLOC_TESTS_SUPPORT_ACCESS_JUDGE_H
#define NUMALLOC_TESTS_SUPPORT_ACCESS_JUDGE_H

#include <criterion/criterion.h>

#include "profiler/analyze/accesses/flows.h"
#include "profiler/analyze/accesses/verdict.h"
#include "tests/support/access_make.h"

/* The same, read back. */
static inline na_reader_t *made_reader(made_t *m) {
    na_make_t f;
    made_file(m, &f);
    char why[256] = "";
    na_reader_t *r = na_reader_open_fd(na_make_fd(&f, f.size), "made", why, sizeof why);
    free(f.bytes);
    cr_assert_not_null(r, "%s", why);
    return r;
}

typedef struct judged {
    na_reader_t *reader;
    na_flows_t flows;
    na_verdicts_t verdicts;
} judged_t;

static inline void made_judge(made_t *m, judged_t *j) {
    j->reader = made_reader(m);
    cr_assert(na_flows_read(&j->reader, 1, &j->flows));
    cr_assert_eq(na_reader_issue_count(j->reader), 0);
    cr_assert(na_verdicts_make(&j->flows, &j->verdicts));
}

static inline void judged_free(judged_t *j) {
    na_verdicts_free(&j->verdicts);
    na_flows_free(&j->flows);
    na_reader_close(j->reader);
}

/* The id of a window that is a round by itself. */
__attribute__((unused)) static uint32_t made_round(made_t *m) {
    if ((m->window_count & (m->window_count - 1)) == 0) {
        uint32_t room = m->window_count == 0 ? 1 : m->window_count * 2;
        m->windows = reallocarray(m->windows, room, sizeof *m->windows);
        cr_assert_not_null(m->windows);
    }
    m->windows[m->window_count] = (na_nprof_access_window_t){
        .start_ns = m->ns, .watched_ns = MADE_MS, .length = 8, .round = m->window_count + 1};
    return ++m->window_count;
}

#endif
