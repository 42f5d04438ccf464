#!/usr/bin/env bash
# instructions.sh LIBNUMALLOC.SO PROGRAM CLOCK - the hot paths cost no more instructions than they did.
#
# Callgrind counts what the program executes for 100,000 pairs after as many to warm up: the loop, the
# call through the PLT, and the share of slow paths included. The counts repeat exactly.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
lib=$1 program=$2 clock=$3
need valgrind valgrind

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

count() { # KIND[:SIZE] -> instructions of 100,000 pairs
    local kind=${1%%:*} size=${1#"${1%%:*}"}
    LD_PRELOAD=$lib:$clock CLOCK_SLOWER=50 valgrind --tool=callgrind --soname-synonyms=somalloc=nouserintercepts \
        --callgrind-out-file="$directory/out" --toggle-collect=measured \
        "$program" again "$kind" ${size:+"${size#:}"} 100000 >"$directory/log" 2>&1 ||
        fail "$1 under callgrind: $(tail -n 1 "$directory/log")"
    sed -n 's/^summary: //p; s/^totals: //p' "$directory/out" | head -n 1
}

# Slow paths look at the clock, and what was not used for a second goes back. CLOCK is still_clock.c:
# it goes by the program's processor time, slowed down as callgrind slows the program, so that a busy
# machine has as many pairs in a second as an idle one.
status=0
while read -r kind limit; do
    count "$kind" >"$directory/plain.$kind"
    tenths=$(($(<"$directory/plain.$kind") / 10000))
    printf '%s: %-13s %d.%d instructions, at most %d\n' "$test_name" "$kind" \
        $((tenths / 10)) $((tenths % 10)) "$limit"
    if [ "$tenths" -gt $((limit * 10)) ]; then
        echo "$test_name: FAILED: $kind takes more instructions than it may" >&2
        status=1
    fi
done <<'LIMITS'
single 48
batch 53
mixed 69
realloc 103
new 48
new-array 48
ring:30000 123
stack:30000 285
wave:8000 238
ring:100000 87
stack:100000 87
stack:200000 87
wave:100000 2150
heap:64 150
LIMITS

# Under a policy: what more a call takes whose module has rules but no rule means it; one that one
# frame decides; and one that three do. (Lines of their own: the blocks are malloc's, so the rest is
# what it was.)
more() { # KIND LIMIT RULE
    local plain policy
    [ -e "$directory/plain.$1" ] || count "$1" >"$directory/plain.$1"
    plain=$(<"$directory/plain.$1")
    printf 'numalloc policy 1\nprogram any\nsite %s : lines=own, control=1/8\n' "$3" >"$directory/policy"
    export NUMALLOC_POLICY=$directory/policy
    policy=$(count "$1")
    unset NUMALLOC_POLICY
    local tenths=$(((policy - plain) / 10000))
    printf '%s: policy, %-22s %d.%d instructions more, at most %d\n' "$test_name" "$3" \
        $((tenths / 10)) $((tenths % 10)) "$2"
    [ "$tenths" -gt 0 ] || fail "the policy '$3' does nothing"
    if [ "$tenths" -gt $(($2 * 10)) ]; then
        echo "$test_name: FAILED: a call under the policy '$3' takes more instructions than it may" >&2
        status=1
    fi
}
if [ "$(uname -m)" = x86_64 ]; then
    more single 8 batch
    more single 40 single
    more deep 120 'inner < middle < deep'
fi
exit "$status"
