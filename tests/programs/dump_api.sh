#!/bin/bash
# dump_api.sh - libnumalloc-profile: the examples of docs/ build against the shared and the static
# library with every warning on, and say what numalloc-dump says; wrong arguments do no harm.
# Usage: dump_api.sh LIBRARY NUMALLOC_DUMP SOURCE_ROOT.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
root=$3
libs=$(dirname "$dump")
[ -r "$libs/libnumalloc-profile.so" ] && [ -r "$libs/libnumalloc-profile.a" ] || fail "no libnumalloc-profile in $libs"

# What a program that is linked with the static library has to name.
read -ra private <<<"$(sed -n 's/^Libs.private: *//p' "$libs/numalloc-profile.pc")"

flags=(-std=c17 -O1 -g -Wall -Wextra -Wconversion -Werror "-I$root/include")
for example in top_functions ranks turns; do
    cc "${flags[@]}" "$root/docs/examples/$example.c" -o "$work/$example" "-L$libs" -lnumalloc-profile "-Wl,-rpath,$libs" ||
        fail "$example.c does not build"
    cc "${flags[@]}" "$root/docs/examples/$example.c" -o "$work/$example.static" "$libs/libnumalloc-profile.a" "${private[@]}" -pthread ||
        fail "$example.c does not build with the static library"
done
# Nothing but the API is exported (and the version, which is no code or data).
nm -D --defined-only "$libs/libnumalloc-profile.so" | awk '$2 != "A" { print $3 }' | grep -v '^numalloc_profile_' >"$work/other" || true
[ ! -s "$work/other" ] || fail "libnumalloc-profile.so exports $(head -n 3 "$work/other")"
# C++ programs can include the header.
echo '#include <numalloc/profile.h>' | c++ -x c++ -std=c++17 -Wall -Wextra -Werror "-I$root/include" -fsyntax-only - || fail "profile.h is no C++"

profiled sites "$work/load.nprof" sites
"$dump" functions --csv --wrappers none --top 0 "$work/load.nprof" >"$work/functions.csv"
for variant in "" .static; do
    "$work/top_functions$variant" "$work/load.nprof" 3 >"$work/out" 2>"$work/err" || fail "top_functions$variant ends with status $?: $(cat "$work/err")"
    [ ! -s "$work/err" ] || fail "top_functions$variant says $(cat "$work/err")"
    /usr/bin/python3 - "$work" <<'END' || fail "top_functions$variant and numalloc-dump differ"
import csv, sys
work = sys.argv[1]
rows = [r for r in csv.DictReader(open(work + "/functions.csv", newline="")) if int(r["sites"])]
expected = sorted(((int(r["peak_bytes"]), r["function"]) for r in rows), reverse=True)
lines = [line.split(None, 1) for line in open(work + "/out").read().splitlines()]
actual = [(int(n), f) for n, f in lines]
assert actual[0] == (sum(n for n, f in expected), "all"), actual
assert actual[1:] == expected[:3], (actual, expected)
END
done
say "top_functions: shared and static, as numalloc-dump has it"

profiled sites "$work/r0.nprof" sites OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2
profiled sites "$work/r1.nprof" threads OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2
"$dump" aggregate --csv --sort rank "$work/r0.nprof" "$work/r1.nprof" >"$work/ranks.csv"
"$work/ranks" "$work/r0.nprof" "$work/r1.nprof" >"$work/out"
/usr/bin/python3 - "$work" <<'END' || fail "ranks and numalloc-dump aggregate differ"
import csv, sys
work = sys.argv[1]
rows = list(csv.DictReader(open(work + "/ranks.csv", newline="")))
expected = sorted((int(r["rank"]), int(r["pid"]), int(r["peak_bytes"])) for r in rows)
lines = open(work + "/out").read().splitlines()[1:]
assert sorted(tuple(map(int, line.split()[:3])) for line in lines) == expected, (lines, expected)
END
rc=0
"$work/ranks" "$work/nothing" >/dev/null 2>"$work/err" || rc=$?
[ "$rc" = 1 ] && grep -q "nothing" "$work/err" || fail "an absent file: status $rc, $(cat "$work/err")"
say "ranks: as numalloc-dump aggregate has it"

cat >"$work/wrong.c" <<'END'
#include <assert.h>
#include <math.h>
#include <numalloc/profile.h>
#include <stdint.h>
#include <string.h>
int main(int argc, char **argv) {
    char why[256];
    assert(argc == 2 && numalloc_profile_open("/nonexistent", why, sizeof why) == NULL && strstr(why, "nonexistent"));
    numalloc_profile_t *p = numalloc_profile_open(argv[1], why, sizeof why);
    assert(p != NULL);
    numalloc_profile_frame_t f[64];
    numalloc_profile_module_t m;
    numalloc_profile_thread_t t;
    numalloc_profile_point_t point;
    size_t sites = numalloc_profile_sites(p);
    int peak = numalloc_profile_metric(p, "peak_bytes");
    assert(sites > 0 && peak >= 0 && numalloc_profile_metric(p, "nothing") == -1);
    assert(isnan(numalloc_profile_site(p, sites, peak)) && isnan(numalloc_profile_site(p, 0, -1)));
    assert(isnan(numalloc_profile_total(p, 1 << 20)) && numalloc_profile_site_stack(p, sites) == 0);
    assert(numalloc_profile_metric_name(p, -1, NULL) == NULL);
    assert(numalloc_profile_frames(p, sites, 0, f, sizeof f[0], 64) == 0);
    size_t depth = numalloc_profile_frames(p, 0, 0, f, sizeof f[0], 64);
    assert(depth > 1 && depth < 64 && numalloc_profile_frames(p, 0, depth, f, sizeof f[0], 64) == 0);
    /* A structure of an older version is filled as far as it goes. */
    struct { const char *function; char guard[sizeof f[0]]; } shorter;
    memset(&shorter, 7, sizeof shorter);
    assert(numalloc_profile_frames(p, 0, 0, (numalloc_profile_frame_t *)&shorter, sizeof shorter.function, 1) == depth);
    assert(strcmp(shorter.function, f[0].function) == 0 && shorter.guard[0] == 7);
    assert(numalloc_profile_module(p, 0, &m, sizeof m) == -1 && numalloc_profile_module(p, UINT32_MAX, &m, sizeof m) == -1);
    assert(numalloc_profile_modules(p) > 1 && numalloc_profile_module(p, 1, &m, sizeof m) == 0 && m.path[0] == '/');
    assert(numalloc_profile_thread(p, 0, &t, sizeof t) == -1 && numalloc_profile_thread(p, 1, &t, sizeof t) == 0);
    assert(numalloc_profile_point(p, numalloc_profile_points(p, NULL), &point, sizeof point) == -1);
    assert(numalloc_profile_environment(p, 0) != NULL && numalloc_profile_environment(p, 1000) == NULL);
    assert(numalloc_profile_damage(p, 0, why, sizeof why) == -1);
    numalloc_profile_event_t event;
    assert(numalloc_profile_events_next(p, &event, sizeof event) == 0);
    double sum = 0;
    for (size_t i = 0; i < sites; i++) sum += numalloc_profile_site(p, i, peak);
    assert(sum == numalloc_profile_total(p, peak));
    numalloc_profile_close(p);
    numalloc_profile_close(NULL);
    return 0;
}
END
cc -std=c17 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all "-I$root/include" "$work/wrong.c" -o "$work/wrong" \
    "$libs/libnumalloc-profile.a" "${private[@]}" -pthread || fail "the test of wrong arguments does not build"
"$work/wrong" "$work/load.nprof" >"$work/out" 2>&1 || fail "wrong arguments: $(grep -E 'assert|ERROR|error' "$work/out" | head -n 3)"
say "indices out of range, short structures: as the header says"

# Different profiles are independent: four threads open, read and close theirs at the same time.
cat >"$work/threads.c" <<'END'
#include <numalloc/profile.h>
#include <pthread.h>
#include <stdio.h>
static char **files;
static double sums[4];
static void *read_it(void *arg) {
    int n = (int)(long)arg;
    for (int round = 0; round < 5; round++) {
        char why[512];
        numalloc_profile_t *p = numalloc_profile_open(files[n % 2], why, sizeof why);
        if (p == NULL) return "cannot open";
        double sum = 0;
        numalloc_profile_frame_t f[64];
        for (size_t i = 0; i < numalloc_profile_sites(p); i++) {
            sum += numalloc_profile_site(p, i, numalloc_profile_metric(p, "peak_bytes"));
            sum += (double)numalloc_profile_frames(p, i, 0, f, sizeof f[0], 64) + (double)f[0].function[0];
        }
        numalloc_profile_close(p);
        if (round != 0 && sum != sums[n]) return "another sum";
        sums[n] = sum;
    }
    return NULL;
}
int main(int argc, char **argv) {
    if (argc != 3) return 2;
    files = argv + 1;
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, read_it, (void *)i) != 0) return 3;
    for (int i = 0; i < 4; i++) {
        void *why;
        pthread_join(threads[i], &why);
        if (why != NULL) return puts(why), 1;
    }
    return sums[0] != sums[2] || sums[1] != sums[3] || !(sums[0] > 0);
}
END
cc -std=c17 -O1 -g "-I$root/include" "$work/threads.c" -o "$work/threads" "-L$libs" -lnumalloc-profile "-Wl,-rpath,$libs" -pthread ||
    fail "the test of threads does not build"
"$work/threads" "$work/r0.nprof" "$work/r1.nprof" || fail "profiles in four threads: status $?"
say "four threads, each with a profile of its own"

# A trace that asks for more memory than its size explains is refused in one line.
! "$work/top_functions" "$root/tests/fuzz/corpus/bombs/bomb_blocks" 3 >"$work/out" 2>"$work/err" || fail "bomb_blocks is shown"
grep -q 'bomb_blocks: asks for more memory than a file of its size can need' "$work/err" || fail "bomb_blocks: $(cat "$work/err")"
rc=0
"$dump" "$root/tests/fuzz/corpus/bombs/bomb_blocks" >"$work/out" 2>"$work/err" || rc=$?
[ "$rc" = 2 ] && [ ! -s "$work/out" ] && [ "$(wc -l <"$work/err")" = 1 ] && grep -q 'asks for more memory.*record it again' "$work/err" ||
    fail "numalloc-dump of bomb_blocks: status $rc, $(cat "$work/err")"
say "a trace that inflates too far: $(cut -d: -f3- "$work/err")"

# The events of a trace, twice: as many, with the same bytes, as the program's sites have.
profiled trace "$work/load.trace" sites
cat >"$work/events.c" <<'END'
#include <numalloc/profile.h>
#include <stdio.h>
int main(int argc, char **argv) {
    char why[256];
    numalloc_profile_t *p = argc == 2 ? numalloc_profile_open(argv[1], why, sizeof why) : NULL;
    if (p == NULL) return 2;
    for (int round = 0; round < 2; round++) {
        numalloc_profile_event_t e;
        unsigned long long allocs = 0, bytes = 0, last = 0, disorder = 0;
        if (round == 1 && numalloc_profile_events_rewind(p) != 0) return 3;
        while (numalloc_profile_events_next(p, &e, sizeof e) == 1) {
            allocs += e.allocates != 0;
            bytes += e.size;
            disorder += e.ns < last;
            last = e.ns;
        }
        printf("%llu %llu %llu\n", allocs, bytes, disorder);
    }
    printf("%.0f %.0f 0\n", numalloc_profile_total(p, numalloc_profile_metric(p, "allocations")),
           numalloc_profile_total(p, numalloc_profile_metric(p, "total_bytes")));
    numalloc_profile_close(p);
    return 0;
}
END
cc "${flags[@]}" "$work/events.c" -o "$work/events" "-L$libs" -lnumalloc-profile "-Wl,-rpath,$libs" || fail "the reader of events does not build"
"$work/events" "$work/load.trace" >"$work/out" || fail "the reader of events ends with status $?"
[ "$(sort -u "$work/out" | wc -l)" = 1 ] && [ "$(wc -l <"$work/out")" = 3 ] || fail "events do not add up: $(cat "$work/out")"
say "events: $(head -n 1 "$work/out" | cut -d' ' -f1) allocations, the same twice and in the sites"
