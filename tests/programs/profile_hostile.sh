#!/bin/bash
# profile_hostile.sh - what happens to a profile while it runs does not end the program that is
# profiled, nor gets into its files: a file cut short, few descriptors, standard streams closed,
# little address space.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"

cc -std=gnu17 -g -O1 -pthread "$test_source/hostile_load.c" -o "$work/hostile" ||
    fail "the compiler does not build hostile_load.c"
file=$work/hostile.nprof

# hostile STATUS WORD...: runs it under a profile of $mode; its stderr goes to $work/err.
hostile() {
    local expected=$1 rc=0
    shift
    rm -f "$file"
    { timeout -k 5 300 env NUMALLOC_PROFILE="$mode" NUMALLOC_PROFILE_FILE="$file" NUMALLOC_SAMPLE_INTERVAL=8K \
        NUMALLOC_TRACE_BUFFER=64K LD_PRELOAD="$lib" "$work/hostile" "$@" 2>"$work/err" || rc=$?; } 2>/dev/null
    [ "$rc" = "$expected" ] || fail "$mode: hostile_load $* ends with status $rc, not $expected: $(head -n 3 "$work/err")"
}
one_line() {
    [ "$(wc -l <"$1")" = 1 ] && grep -q "^numalloc: the profile ends here, .*$file" "$1" ||
        fail "$mode: $2: not one line that says so, but: $(cat "$1")"
}

for mode in sites trace sample; do
    for bytes in 0 5000 200000; do
        hostile 5 cut "$file" "$bytes"
        [ ! -s "$work/err" ] || one_line "$work/err" "cut to $bytes bytes"
        [ "$bytes" != 0 ] || one_line "$work/err" "cut to nothing"
        status=0
        "$dump" "$file" >"$work/out" 2>"$work/dump.err" || status=$?
        [ "$status" -le 2 ] || fail "$mode: numalloc-dump on a file cut to $bytes bytes: status $status"
        hostile 5 idle "$file" "$bytes"
    done
    # Any other SIGBUS is as without a profile.
    hostile 135 bus sent
    hostile 135 bus met
    hostile 5 bus own

    # A message goes to a log that took the place of standard error, not into data.
    rm -f "$work/data" "$work/log"
    hostile 5 data "$file" "$work/data"
    [ ! -s "$work/data" ] || fail "$mode: a message got into the program's data: $(cat "$work/data")"
    hostile 5 log "$file" "$work/log"
    one_line "$work/log" "a log as number 2"

    # Of a program without standard streams, and with few descriptors, none of the first is taken.
    for most in 40 2000; do
        rm -f "$file"
        rc=0
        (ulimit -n "$most" && NUMALLOC_PROFILE=$mode NUMALLOC_PROFILE_FILE=$file LD_PRELOAD=$lib \
            exec "$work/hostile" first "$work/data" <&- >&- 2>&-) || rc=$?
        [ "$rc" = 5 ] && [ "$(cat "$work/data")" = 0 ] ||
            fail "$mode: of $most descriptors, none open, a file gets number $(cat "$work/data") (status $rc)"
        "$dump" "$file" >"$work/out" 2>"$work/dump.err" || fail "$mode: the profile of a program with $most descriptors: $(cat "$work/dump.err")"
    done

    # Most of what address space there is belongs to the program.
    rm -f "$file"
    rc=0
    (ulimit -v 600000 && NUMALLOC_PROFILE=$mode NUMALLOC_PROFILE_FILE=$file LD_PRELOAD=$lib \
        exec /usr/bin/python3 -c 'print(len(bytearray(200 << 20)))') >"$work/out" 2>"$work/err" || rc=$?
    [ "$rc" = 0 ] && [ ! -s "$work/err" ] || fail "$mode: a third of ulimit -v is refused: $(tail -n 1 "$work/err")"
    check "$file" @closed=True
done
say "cut files, standard streams, descriptors, address space: the program goes on"
