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
"$dump" events "$one" --json >"$work/events.json" || fail "numalloc-dump events --json ends with status $?"
for filter in free '^take_malloc$' no_such_name; do
    "$dump" events "$one" --csv --filter "$filter" >"$work/events.${filter//[^a-z_]/}" || fail "events --filter $filter ends with status $?"
done
"$dump" events "$one" --csv --sort size --top 7 >"$work/events.sorted" || fail "events --sort ends with status $?"
"$dump" sites "$one" --csv --wrappers none --top 0 >"$work/sites.csv" || fail "sites ends with status $?"
/usr/bin/python3 - "$work" <<'END' || fail "events --json, --filter or --sort are not as --csv"
import csv, json, sys
work = sys.argv[1]
rows = lambda name: list(csv.DictReader(open(work + "/" + name, newline="")))
every = rows("events.csv")
said = json.load(open(work + "/events.json"))
assert said["schema"] == "numalloc-dump.events" and said["row_count"] == len(said["rows"]) == len(every)
for a, b in zip(every, said["rows"]):
    number = lambda key: int(a[key], 0) if a[key] else None
    assert all(number(key) == b.get(key) for key in ("event", "thread", "address", "size", "usable", "stack", "alignment", "moved_to")), (a, b)
    assert a["kind"] == b["kind"] and float(a["us"]) == b["us"] and (a["before"] == "1") == b.get("before", False), (a, b)
# The largest seven, those that came first before others of the same size.
assert len(every) > 4 * 1024
assert rows("events.sorted") == sorted((r for r in every if r["size"]), key=lambda r: -int(r["size"]))[:7]
frees = [r for r in every if "free" in r["kind"]]
assert frees and frees == [r for r in rows("events.free") if "free" in r["kind"]]
assert rows("events.no_such_name") == []
# All allocations of the function, and the ends of just those blocks.
by_name = rows("events.take_malloc")
sites = {r["site"] for r in csv.DictReader(open(work + "/sites.csv", newline="")) if r["function"] == "take_malloc"}
assert sites and len(by_name) < len(every)
chosen = {r["event"] for r in by_name}
live, wanted = {}, set()
for r in every:
    alloc = r["size"] != ""
    if alloc and r["stack"] in sites or not alloc and live.get(r["address"]) in sites:
        wanted.add(r["event"])
    if alloc:
        live[r["address"]] = r["stack"]
    else:
        live.pop(r["address"], None)
assert wanted and wanted <= chosen, (len(wanted), len(chosen), sorted(wanted - chosen)[:5])
END
"$dump" "$one" >"$work/summary" || fail "numalloc-dump ends with status $? for a trace"
grep -q take_malloc "$work/summary" || fail "the summary of a trace does not name take_malloc"
