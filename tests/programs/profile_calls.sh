#!/bin/bash
# profile_calls.sh LIBRARY NUMALLOC_DUMP - how long the calls of each thread took, by entry point
# (modes sites and trace): counts are exact, as many were timed as should be drawn, and the estimates
# are what a program that times its calls itself finds, less what the profiler adds to them.
#
# Nothing here asks how long anything took: estimates are held against the program's own figures of
# the same calls in the same run, and against each other.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"

cc -std=gnu17 -O1 -fno-builtin -pthread "$test_source/profile_calls.c" -o "$work/calls" ||
    fail "the compiler does not build profile_calls.c"

# Runs the program, and holds its profile against it. Status 3: what was drawn may have been interrupted.
once() {
    local mode=$1 format
    rm -f "$work/$mode.nprof" # the library would not write over it, but beside it
    NUMALLOC_PROFILE=$mode NUMALLOC_PROFILE_FILE="$work/$mode.nprof" LD_PRELOAD="$lib" "$work/calls" \
        >"$work/$mode.own" || fail "profile_calls fails under NUMALLOC_PROFILE=$mode"
    for format in json csv; do
        "$dump" threads "$work/$mode.nprof" --top 0 --$format >"$work/$mode.$format" ||
            fail "numalloc-dump threads --$format ends with status $?"
    done
    "$dump" threads "$work/$mode.nprof" --top 0 >"$work/$mode.txt" || fail "numalloc-dump threads fails"
    "$dump" html "$work/$mode.nprof" -o "$work/$mode.html" >"$work/html.out" 2>&1 ||
        fail "numalloc-dump html fails: $(head -n 3 "$work/html.out")"
    "$dump" json "$work/$mode.nprof" >"$work/$mode.whole" || fail "numalloc-dump json fails"
    /usr/bin/python3 "$test_source/profile_calls.py" "$work/$mode"
}

# On a machine that does other things as well a run may be disturbed; an estimate that is wrong is wrong each time.
for mode in sites trace; do
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        status=0
        once "$mode" || status=$?
        [ "$status" = 3 ] || break
    done
    [ "$status" = 0 ] || fail "mode $mode: not as the program was"
    say "mode $mode: calls and time by entry point are as the program's own"
done
