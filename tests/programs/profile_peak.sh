#!/usr/bin/env bash
# profile_peak.sh LIBNUMALLOC.SO NUMALLOC-DUMP - the peak of many threads that hold a few blocks each at
# one time: what they asked for, and what was in memory then, whose own part the profile leaves out.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dump=$2
need cc gcc

cat >"$work/peak.c" <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_barrier_t all;
static size_t bytes;
static int blocks;

static void *run(void *arg) {
    void *p[10];
    for (int i = 0; i < blocks; i++) {
        p[i] = malloc(bytes);
        memset(p[i], 1, bytes);
    }
    pthread_barrier_wait(&all);
    pthread_barrier_wait(&all);
    for (int i = 0; i < blocks; i++)
        free(p[i]);
    return arg;
}

/* peak THREADS BYTES BLOCKS: prints the resident KiB while all hold. */
int main(int count, char **words) {
    int threads = count > 3 ? atoi(words[1]) : 0;
    bytes = strtoul(words[2], NULL, 10);
    blocks = atoi(words[3]);
    pthread_t *t = malloc((size_t)threads * sizeof *t);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    pthread_barrier_init(&all, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&t[i], &small, run, NULL) != 0) return 1;
    pthread_barrier_wait(&all);
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "VmRSS:", 6) == 0) printf("%ld\n", atol(line + 6));
    fclose(status);
    pthread_barrier_wait(&all);
    for (int i = 0; i < threads; i++)
        pthread_join(t[i], NULL);
    return 0;
}
END
cc -std=gnu17 -O2 -g -pthread "$work/peak.c" -o "$work/peak" || fail "the compiler does not build peak.c"

for case in "100 60000 1" "160 60000 1" "500 5500 10" "1000 55000 1"; do
    read -r threads bytes blocks <<<"$case"
    resident=$(LD_PRELOAD=$lib "$work/peak" "$threads" "$bytes" "$blocks")
    for mode in sites sample trace; do
        rm -f "$work/p.nprof"
        NUMALLOC_PROFILE=$mode NUMALLOC_SAMPLE_INTERVAL=4K NUMALLOC_PROFILE_FILE="$work/p.nprof" LD_PRELOAD=$lib \
            "$work/peak" "$threads" "$bytes" "$blocks" >/dev/null || fail "$mode, $case: the program fails"
        "$dump" summary --json "$work/p.nprof" >"$work/p.json" || fail "$mode, $case: cannot be read"
        /usr/bin/python3 - "$work/p.json" "$threads" "$((bytes * blocks))" "$resident" "$mode" <<'END' ||
import json, sys
summary = json.load(open(sys.argv[1]))
threads, size, resident = (int(word) for word in sys.argv[2:5])
asked, peak, physical = threads * size, summary["total"]["peak_bytes"], summary["physical_at_peak"]
assert abs(peak - asked) < asked * (0.25 if sys.argv[5] == "sample" else 0.1) + (1 << 18), ("peak", peak, asked)
# Caches are other under a profile: a tenth, and 4 MiB.
assert asked * 0.95 < physical < resident * 1024 * 1.15 + (4 << 20), ("physical", physical, asked, resident)
END
            fail "$mode, $case: not the peak that it was"
    done
done
say "the peak of threads that hold few blocks each is theirs, requested and in memory"
