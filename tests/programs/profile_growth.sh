#!/bin/bash
# profile_growth.sh - containers that grow by allocating, copying and freeing, in C++ and in Fortran,
# without any call of realloc: both modes that see every event count each step, and warn.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
need g++ g++ gfortran gfortran

g++ -g -O1 "$test_source/growth.cpp" -o "$work/vector" || fail "g++ does not build growth.cpp"
gfortran -g -O1 "$test_source/growth.f90" -o "$work/array" || fail "gfortran does not build growth.f90"

# expect PROGRAM STEPS COPIED PLACE: in each mode one site has so many steps and bytes, and the warning
# names the place. COPIED: bytes of the blocks freed.
expect() {
    local mode file
    "$work/$1" >"$work/plain"
    for mode in sites trace; do
        file=$work/$1.$mode.nprof
        # The warning is of time that could be saved: a hundredth of a run that has its processor. One that had
        # to wait for it says nothing.
        for _ in {1..300}; do
            rm -f "$file"
            began=${EPOCHREALTIME/./}
            NUMALLOC_PROFILE=$mode NUMALLOC_PROFILE_FILE=$file LD_PRELOAD=$lib "$work/$1" >"$work/out" || fail "$1: status $?"
            [ $((${EPOCHREALTIME/./} - began)) -gt 2200000 ] || break
        done
        cmp -s "$work/plain" "$work/out" || fail "$1: another result under $mode"
        "$dump" realloc --csv --top 0 "$file" >"$work/csv" || fail "$1: realloc ends with status $?"
        "$dump" warnings "$file" >"$work/warnings" || fail "$1: warnings end with status $?"
        /usr/bin/python3 - "$work/csv" "$2" "$3" <<'END' || fail "$1, $mode: steps are not as the program made them: $(cat "$work/csv")"
import csv, sys
name, steps, copied = sys.argv[1:]
rows = [r for r in csv.DictReader(open(name)) if float(r["growth_count"]) > 0]
assert len(rows) == 1, rows
assert int(rows[0]["growth_count"]) == int(steps), rows
assert int(rows[0]["growth_copied"]) == int(copied), rows
assert int(rows[0]["reallocs"]) == 0, rows
END
        grep -q '^ *growth' "$work/warnings" || fail "$1, $mode: no warning: $(cat "$work/warnings")"
        grep -A6 '^ *growth' "$work/warnings" | has "$4" || fail "$1, $mode: the warning does not name $4: $(cat "$work/warnings")"
    done
    say "$1: $2 steps, $3 bytes copied, in both modes, with a warning"
}

# A vector doubles: 1, 2, 4 ... 2^23 elements are copied into the next.
expect vector 24 $((8 * ((1 << 24) - 1))) growth.cpp
# An array: the first is of another site, so that 14 of 15 steps are known by their site.
expect array 14 $((800000 * (2 + 15) * 14 / 2)) growth.f90
