#!/usr/bin/env bash
# stack_instructions.sh LIBNUMALLOC.SO PROGRAM-WITHOUT-FRAME-POINTERS PROGRAM-WITH - what profiling
# every event (mode sites) adds to a pair of malloc and free at a call depth of 20, in instructions;
# and how much of it the allocation takes, from the entry on: the block, walk, comparison and counters.
#
# Callgrind counts what the program executes for 10,000 pairs after as many to warm up. The limits
# leave room for another compiler's register allocation. What the clock
# brings (points of the timeline) is not the pairs', and a slow machine sees more of it in one run than
# in the other: what is over its limit is counted again, twice at the most.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need valgrind valgrind

pairs=10000
count() { # MODE PROGRAM KIND -> instructions of one pair; which they are is in $work/out
    env NUMALLOC_PROFILE="$1" NUMALLOC_PROFILE_FILE="$work/" LD_PRELOAD="$lib" \
        valgrind --tool=callgrind --soname-synonyms=somalloc=nouserintercepts \
        --callgrind-out-file="$work/out" --toggle-collect=measured "$2" "$3" $pairs >"$work/log" 2>&1 ||
        fail "$3 under callgrind: $(tail -n 1 "$work/log")"
    echo $(($(sed -n 's/^summary: //p; s/^totals: //p' "$work/out" | head -n 1) / pairs))
}

inside() { # FUNCTION -> of the run before: instructions of one pair in the function and what it calls
    awk -v function_name="$1" -v pairs=$pairs '
        match($0, /^c?fn=\([0-9]+\)/) {
            id = substr($0, index($0, "("), RSTART + RLENGTH - index($0, "("))
            if (length($0) > RLENGTH) name[id] = substr($0, RLENGTH + 2)
            callee = name[id]
        }
        /^calls=/ { getline; if (callee == function_name) sum += $NF }
        END { printf "%d\n", sum / pairs }' "$work/out"
}

status=0
for program in "$2" "$3"; do
    while read -r kind limit alloc_limit; do
        for attempt in 1 2 3; do
            plain=$(count "" "$program" "$kind")
            added=$(($(count sites "$program" "$kind") - plain))
            [ "$added" -gt "$limit" ] || break
            echo "$test_name: $kind: $added instructions in count $attempt"
        done
        alloc=$(inside na_traced_sites_alloc)
        printf '%s: %s, %s: %d instructions more than unprofiled, at most %d; %d of them for the allocation, at most %d\n' \
            "$test_name" "$(basename "$program")" "$kind" "$added" "$limit" "$alloc" "$alloc_limit"
        if [ "$alloc" -lt 150 ] || [ "$alloc" -gt "$alloc_limit" ] || [ "$added" -gt "$limit" ]; then
            echo "$test_name: FAILED: $kind does not take the instructions that it may" >&2
            status=1
        fi
    done <<'LIMITS'
same 705 430
changing 700 430
shallow 755 450
LIMITS
done
# Where seven frames differ, too, a tail leads past them: without one it is some 1,900.
for attempt in 1 2 3; do
    added=$(($(count sites "$2" apart) - $(count "" "$2" apart)))
    [ "$added" -gt 1000 ] || break
done
printf '%s: apart: %d instructions more than unprofiled, at most 1000 (count %d)\n' "$test_name" "$added" "$attempt"
[ "$added" -le 1000 ] || status=1
exit "$status"
