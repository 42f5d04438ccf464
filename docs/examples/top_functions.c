/* top_functions.c - the functions that hold most memory at the peak, by libnumalloc-profile:
 *
 *     cc top_functions.c $(pkg-config --cflags --libs numalloc-profile) -o top_functions
 *     ./top_functions app.nprof 10
 *
 * A site belongs to the innermost frame that is no part of the runtime. */
#include <numalloc/profile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const char *function; /* the profile's */
    double bytes;
} entry_t;

static const char *owner(numalloc_profile_t *p, size_t site) {
    numalloc_profile_frame_t frame;
    const char *innermost = "(no stack)";
    for (size_t i = 0; numalloc_profile_frames(p, site, i, &frame, sizeof frame, 1) > 0; i++) {
        if (!frame.runtime) return frame.function;
        if (i == 0) innermost = frame.function;
    }
    return innermost;
}

static int by_function(const void *a, const void *b) {
    return strcmp(((const entry_t *)a)->function, ((const entry_t *)b)->function);
}

static int by_bytes(const void *a, const void *b) {
    double x = ((const entry_t *)a)->bytes, y = ((const entry_t *)b)->bytes;
    return (x < y) - (x > y);
}

int main(int argc, char **argv) {
    char why[256];
    if (argc < 2) {
        fprintf(stderr, "usage: top_functions PROFILE [ROWS]\n");
        return 2;
    }
    numalloc_profile_t *p = numalloc_profile_open(argv[1], why, sizeof why);
    if (p == NULL) {
        fprintf(stderr, "top_functions: %s\n", why);
        return 2;
    }
    int peak = numalloc_profile_metric(p, "peak_bytes");
    size_t sites = numalloc_profile_sites(p), count = 0;
    entry_t *entries = calloc(sites + 1, sizeof *entries);
    if (entries == NULL) return 2;
    for (size_t i = 0; i < sites; i++)
        entries[i] = (entry_t){owner(p, i), numalloc_profile_site(p, i, peak)};
    qsort(entries, sites, sizeof *entries, by_function);
    for (size_t i = 0; i < sites; i++) {
        if (count > 0 && strcmp(entries[count - 1].function, entries[i].function) == 0)
            entries[count - 1].bytes += entries[i].bytes;
        else
            entries[count++] = entries[i];
    }
    qsort(entries, count, sizeof *entries, by_bytes);

    size_t rows = argc > 2 ? strtoul(argv[2], NULL, 10) : 10;
    printf("%15.0f  all\n", numalloc_profile_total(p, peak));
    for (size_t i = 0; i < count && i < rows; i++)
        printf("%15.0f  %s\n", entries[i].bytes, entries[i].function);
    for (size_t i = 0; numalloc_profile_damage(p, i, why, sizeof why) == 0; i++)
        fprintf(stderr, "top_functions: incomplete: %s\n", why);
    free(entries);
    numalloc_profile_close(p);
    return 0;
}
