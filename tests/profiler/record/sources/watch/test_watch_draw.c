/* test_watch_draw.c - access_watch_draw.c: are words drawn with the probability that their weight
 * goes by? A heap of four spans is drawn from many times; what each word's draws weigh, by the
 * inverse of the probability that they say, must come to one a draw, whatever way they were drawn
 * in, and whatever was learnt. */
#include <math.h>

#include <criterion/criterion.h>

#include "pagemap/pagemap.h"
#include "profiler/format/nprof.h"
#include "profiler/record/sources/watch/access_watch_draw.h"
#include "profiler/record/sources/watch/access_watch_sites.h"
#include "tests/support/own_memory.h"
#include "tests/support/sanitized.h"

TestSuite(watch_draw, .timeout = 300);

_Atomic(uint8_t) na_profile_epoch = 7;

/* ---- the heap ---- */

#define FAR (UINT64_C(1) << 40) /* from span to span */
enum { SPANS = 4, MOST = 64 };

static struct {
    uint8_t cls;
    uint16_t capacity;
    uint64_t bytes; /* of a block */
    uint32_t live;
    uint32_t site[2]; /* of blocks, in turn */
} heap[SPANS] = {
    {1, 64, 64, 1, {4, 4}},   /* one small block, and much that is free */
    {2, 16, 256, 16, {5, 6}}, /* full, of two sites */
    {2, 16, 256, 7, {5, 7}},
    {0, 1, 8192, 1, {8, 8}}, /* a large one */
};
static na_span_t spans[SPANS];
static na_record_t records[SPANS][MOST];

static void each_records(void (*visit)(const na_span_t *, na_record_t *, uint32_t, void *),
                         void *arg) {
    for (int i = 0; i < SPANS; i++)
        visit(&spans[i], records[i], heap[i].capacity, arg);
}

static uint64_t usable(const na_span_t *span) {
    return heap[span - spans].bytes;
}

static const na_profile_config_t config = {.each_records = each_records, .usable = usable};

static void make_heap(void) {
    for (uint32_t i = 0; i < SPANS; i++) {
        spans[i] = (na_span_t){
            .start = FAR * (i + 1), .cls = heap[i].cls, .capacity = heap[i].capacity, .pages = 1};
        for (uint32_t b = 0; b < heap[i].live; b++) {
            records[i][b].site = heap[i].site[b % 2];
            records[i][b].epoch = na_profile_epoch;
        }
        /* Of an earlier profile, and of a block without a site: nothing is known of these. */
        if (i != 0) continue;
        records[0][10].site = 9;
        records[0][10].epoch = (uint8_t)(na_profile_epoch - 1);
        records[0][11].epoch = na_profile_epoch;
    }
}

static uint32_t span_of(uintptr_t address) {
    uint32_t i = (uint32_t)(address / FAR) - 1;
    cr_assert_lt(i, SPANS);
    cr_assert_lt(address - spans[i].start, heap[i].bytes * heap[i].capacity);
    return i;
}

/* ---- */

Test(watch_draw, weights) {
    enum { LOOKS = SANITIZED ? 200 : 2000, EACH = 200 };
    const double most = SANITIZED ? 0.2 : 0.05;
    make_heap();
    cr_assert(na_draw_start(1));
    double sum[SPANS] = {0}, squares[SPANS] = {0}, first = 0, first_squares = 0;
    uint32_t met = 0;
    for (uint32_t look = 0; look < LOOKS; look++) {
        cr_assert_eq(na_draw_look(&config), SPANS);
        cr_assert_eq(na_site_blocks(), 5);
        for (uint32_t k = 0; k < EACH; k++) {
            na_draw_t draw;
            cr_assert(na_draw(&draw));
            cr_assert_lt(draw.slot, NA_DRAW_SLOTS);
            uint32_t i = span_of(draw.address);
            sum[i] += draw.inverse;
            squares[i] += draw.inverse * draw.inverse;
            bool hot = i == 0 && draw.address - spans[0].start < 64;
            if (hot) {
                met++;
                first += draw.inverse;
                first_squares += draw.inverse * draw.inverse;
            }
            /* The small block's words have accesses, and some of the large one's. */
            bool used = hot || (i == 3 && draw.address % 64 == 0);
            na_draw_learn(&draw, used ? 1e-6 : 0);
        }
    }
    double draws = (double)LOOKS * EACH;
    for (uint32_t i = 0; i < SPANS; i++) {
        double words = (double)(heap[i].bytes * heap[i].capacity / 8);
        double error = sqrt(squares[i]) / draws;
        cr_expect(fabs(sum[i] / draws - words) < 4 * error, "span %u: %.1f words of %.0f, +- %.1f",
                  i, sum[i] / draws, words, error);
        cr_expect(error < most * words, "span %u: +- %.1f of %.0f", i, error, words);
    }
    double error = sqrt(first_squares) / draws;
    cr_expect(fabs(first / draws - 8) < 4 * error, "%.2f words of 8, +- %.2f", first / draws,
              error);
    cr_expect(met > draws / 50, "met %u times", met);
}

/* A block of 64 bytes in a heap of gigabytes: met in a few draws, for it is
 * the only one of its site. */
Test(watch_draw, a_small_block_in_a_large_heap) {
    make_heap();
    heap[3].bytes = UINT64_C(4) << 30;
    cr_assert(na_draw_start(2));
    cr_assert_eq(na_draw_look(&config), SPANS);
    uint32_t met = 0;
    double sum = 0, squares = 0;
    for (uint32_t k = 0; k < 1000; k++) {
        na_draw_t draw;
        cr_assert(na_draw(&draw));
        if (span_of(draw.address) != 0 || draw.address - spans[0].start >= 64) continue;
        met++;
        sum += draw.inverse;
        squares += draw.inverse * draw.inverse;
        na_draw_learn(&draw, 1e-6);
    }
    /* Soon, and then often, as it is known; what comes first does not outweigh all others. */
    cr_expect(met > 300, "met %u times", met);
    cr_expect(sum * sum / squares > 10, "worth %.1f draws", sum * sum / squares);
}
