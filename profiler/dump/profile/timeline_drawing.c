/* timeline_drawing.c - the run drawn in characters: requested memory as bars, physical memory as
 * dots. */
#include <math.h>
#include <stdio.h>

#include "profiler/dump/profile/input.h"
#include "profiler/dump/ui/text.h"

#define WIDEST 1000u

double na_view_level(const na_series_table_t *t, uint32_t row, uint64_t from_ms, uint64_t to_ms) {
    const uint64_t *values = t->values + (size_t)row * t->count;
    double most = NAN;
    uint64_t first = from_ms / t->interval_ms, end = (to_ms + t->interval_ms - 1) / t->interval_ms;
    for (uint64_t i = first; i < end && i < t->count; i++)
        if (values[i] != 0) most = fmax(most, (double)(values[i] - 1));
    if (!isnan(most)) return most;
    for (uint64_t i = first; i < t->count; i++)
        if (values[i] != 0) return NAN; /* before it was looked at */
    return (double)t->row[row].last;
}

void na_view_draw_timeline(const na_view_input_t *in, uint32_t widest, uint32_t height) {
    uint32_t count, interval;
    const na_nprof_point_t *points = na_reader_timeline(in->reader, &count, &interval);
    if (points == NULL || widest == 0 || height == 0) return;

    /* Each column shows the largest value of its points; a silent interval repeats the last. */
    double requested[WIDEST] = {0}, physical[WIDEST] = {0}, top = 0;
    if (widest > WIDEST) widest = WIDEST;
    uint32_t width = count < widest ? count : widest;
    double last_requested = 0, last_physical = 0;
    for (uint32_t i = 0; i < count; i++) {
        if ((points[i].flags & NA_NPROF_POINT_COUNTED) != 0)
            last_requested = (double)points[i].requested_max;
        if ((points[i].flags & NA_NPROF_POINT_SAMPLED) != 0)
            last_physical = (double)points[i].physical;
        uint32_t column = (uint32_t)((uint64_t)i * width / count);
        if (last_requested > requested[column]) requested[column] = last_requested;
        if (last_physical > physical[column]) physical[column] = last_physical;
        if (last_requested > top) top = last_requested;
        if (last_physical > top) top = last_physical;
    }
    if (top <= 0) return;

    printf("Memory over time   # requested   . physical (sampled, without the profiler's own)\n");
    for (uint32_t row = 0; row < height; row++) {
        char label[NA_TEXT];
        printf("%10s |", na_text_bytes(label, top * (height - row) / height));
        /* A row is filled from its middle on, and the lowest by anything at all. */
        double level = row == height - 1 ? 0 : top * (height - row - 0.5) / height;
        for (uint32_t column = 0; column < width; column++)
            putchar(requested[column] > level ? '#' : physical[column] > level ? '.' : ' ');
        putchar('\n');
    }
    char end[NA_TEXT];
    na_text_ms(end, (uint64_t)count * interval);
    printf("%10s +", "");
    for (uint32_t column = 0; column < width; column++)
        putchar('-');
    printf("\n%10s  0 %*s\n", "", width > 2 ? (int)width - 2 : 1, end);
    putchar('\n');
}
