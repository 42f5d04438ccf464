/* ranks.c - the high-water marks of all processes of a job, a line each, and their timelines' last
 * points, by libnumalloc-profile:
 *
 *     cc ranks.c $(pkg-config --cflags --libs numalloc-profile) -o ranks
 *     ./ranks job/app.0.nprof job/app.1.nprof */
#include <math.h>
#include <numalloc/profile.h>
#include <stdio.h>

/* The largest resident size that was sampled; not a number: none was. */
static double resident(numalloc_profile_t *p) {
    double most = NAN;
    size_t points = numalloc_profile_points(p, NULL);
    for (size_t i = 0; i < points; i++) {
        numalloc_profile_point_t point;
        if (numalloc_profile_point(p, i, &point, sizeof point) != 0) break;
        if (isnan(most) || point.physical > most) most = point.physical;
    }
    return most;
}

int main(int argc, char **argv) {
    int status = 0;
    printf("  rank      pid            peak  resident  program\n");
    for (int i = 1; i < argc; i++) {
        char why[256];
        numalloc_profile_t *p = numalloc_profile_open(argv[i], why, sizeof why);
        if (p == NULL) {
            fprintf(stderr, "ranks: %s\n", why);
            status = 1;
            continue;
        }
        numalloc_profile_header_t h;
        numalloc_profile_header(p, &h, sizeof h);
        double peak = numalloc_profile_total(p, numalloc_profile_metric(p, "peak_bytes"));
        printf("%6d %8d %15.0f %9.0f  %s\n", h.rank, h.pid, peak, resident(p), h.program);
        numalloc_profile_close(p);
    }
    return status;
}
