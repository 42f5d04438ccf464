#!/bin/bash
# profile_trace.sh LIBRARY NUMALLOC_DUMP LOAD CHECK - the trace of a program whose every allocation is
# known by construction is that, event by event and figure by figure: with one thread, with several,
# with a forked child; however it is compressed.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
dump=$2 load=$3 check=$4

trace() { # ROLE NAME [NAME=VALUE...]
    local role=$1 name=$2
    shift 2
    env NUMALLOC_PROFILE=trace NUMALLOC_PROFILE_FILE="$work/$name.%p.nprof" "$@" LD_PRELOAD="$lib" \
        "$load" "$role" "$work/$name.log" 2>"$work/err" || fail "$role ends with status $?"
    [ ! -s "$work/err" ] || fail "unexpected on stderr of $role: $(head -n 3 "$work/err")"
}

expect() { # NAME: one profile, and it is the log
    local file
    file=$(compgen -G "$work/$1.*.nprof") || fail "no profile of $1"
    "$check" "$file" "$work/$1.log" >"$work/check.out" 2>&1 || fail "$1: $(tail -n 1 "$work/check.out")"
    say "$1: $(cat "$work/check.out")"
}

trace one one
expect one
trace one level0 NUMALLOC_TRACE_LEVEL=0
expect level0
trace one alone NUMALLOC_TRACE_THREAD=0 NUMALLOC_TRACE_BUFFER=64K NUMALLOC_TRACE_LEVEL=9
expect alone
trace one frees NUMALLOC_TRACE_STACKS=all
expect frees
trace threads threads
expect threads
trace threads threads64 NUMALLOC_TRACE_BUFFER=64K
expect threads64

# Two files; which is the child's, the header says.
trace fork fork
found=0
for file in "$work"/fork.*.nprof; do
    for log in "$work/fork.log" "$work/fork.log.child"; do
        if "$check" "$file" "$log" >"$work/check.out" 2>"$work/check.err"; then
            say "fork, ${log##*.}: $(cat "$work/check.out")"
            found=$((found + 1))
        fi
    done
done
[ "$found" = 2 ] || fail "fork: $found of 2 traces are as the program was: $(cat "$work/check.err")"

# The text view streams the same events; the summary is made by replay.
one=$(compgen -G "$work/one.*.nprof")
"$dump" events "$one" --csv >"$work/events.csv" || fail "numalloc-dump events ends with status $?"
events=$(sed -n 's/ events.*//p' <<<"$("$check" "$one" "$work/one.log")")
[ "$(($(wc -l <"$work/events.csv") - 1))" = "$events" ] || fail "events --csv does not have $events rows"
"$dump" "$one" >"$work/summary" || fail "numalloc-dump ends with status $? for a trace"
grep -q take_malloc "$work/summary" || fail "the summary of a trace does not name take_malloc"
