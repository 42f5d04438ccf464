#!/bin/bash
# leaks_run.sh - leaks as users meet them: lines and statuses, numalloc-run --leaks, suppressions, children, the call, the
# trigger, and the profile's view.
# usage: leaks_run.sh LIBRARY NUMALLOC_DUMP NUMALLOC_RUN LEAK_CASES LEAK_DEMAND
set -euo pipefail
. "$(dirname "$0")/../programs/lib.sh"
dump=$2 run=$3 cases=$4 demand=$5
with() { # NAME=VALUE... PROGRAM ARGUMENT...; sets `status`
    status=0
    env LD_PRELOAD="$lib" "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
}
lost() { grep -c 'bytes\? in .* are lost' "$work/err" || true; }

with NUMALLOC_LEAKS=1 "$cases" plain
[[ $status -eq 0 && $(lost) -eq 1 ]] || fail "three lost blocks: status $status, $(cat "$work/err")"
has '^numalloc: 120 bytes in 3 blocks lost, allocated at:$' <"$work/err" || fail "no site: $(cat "$work/err")"
has '#2  0x[0-9a-f]* plain+0x[0-9a-f]* (.*+0x[0-9a-f]*)$' <"$work/err" || fail "no function: $(cat "$work/err")"
with NUMALLOC_LEAKS=1 NUMALLOC_LEAKS_EXIT=9 "$cases" plain
[[ $status -eq 9 ]] || fail "NUMALLOC_LEAKS_EXIT=9 ends with $status"
with NUMALLOC_LEAKS=1 NUMALLOC_LEAKS_EXIT=9 "$cases" in_static
[[ $status -eq 0 && ! -s $work/err ]] || fail "nothing is lost, and status $status, $(cat "$work/err")"
with NUMALLOC_LEAKS=1 NUMALLOC_LEAKS_EXIT=9 "$demand" output
[[ $status -eq 9 && $(cat "$work/out") == "kept in a buffer" ]] || fail "status $status, and output $(cat "$work/out")"
with NUMALLOC_LEAKS=1 "$demand" output
[[ $status -eq 3 ]] || fail "the program's status is $status"
[[ -z $(cd "$work" && ls ./*.nprof 2>/dev/null) ]] || fail "it left files behind"
say "lines, silence and statuses"

printf '# a comment\nleak:no such function\n  leak:^plain$\n' >"$work/list"
with NUMALLOC_LEAKS=1 NUMALLOC_LEAKS_EXIT=9 NUMALLOC_LEAKS_SUPPRESSIONS="$work/list" "$cases" plain
[[ $status -eq 0 && ! -s $work/err ]] || fail "a suppressed function: status $status, $(cat "$work/err")"
with NUMALLOC_LEAKS=1 NUMALLOC_LEAKS_EXIT=9 NUMALLOC_LEAKS_SUPPRESSIONS="$work/list" "$cases" sizes
[[ $status -eq 9 ]] || fail "another function is suppressed"
printf 'leak:leak_ca*es$\n' >"$work/list"
with NUMALLOC_LEAKS=1 NUMALLOC_LEAKS_EXIT=9 NUMALLOC_LEAKS_SUPPRESSIONS="$work/list" "$cases" sizes
[[ $status -eq 0 ]] || fail "a suppressed module: status $status"
printf 'nonsense\n' >"$work/list"
with NUMALLOC_LEAKS=1 NUMALLOC_LEAKS_SUPPRESSIONS="$work/list" "$cases" sizes
has 'lines left out' <"$work/err" || fail "no word of a wrong line: $(cat "$work/err")"
with NUMALLOC_LEAKS=1 NUMALLOC_LEAKS_SUPPRESSIONS="$work/none" "$cases" sizes
has 'cannot be read' <"$work/err" || fail "no word of a missing list: $(cat "$work/err")"
say "suppressions, as LeakSanitizer has them"

status=0
"$run" --library "$lib" --leaks "$cases" plain >"$work/out" 2>"$work/err" || status=$?
[[ $status -eq 86 ]] || fail "numalloc-run --leaks ends with $status: $(cat "$work/err")"
has '1 process has lost blocks' <"$work/err" || fail "$(cat "$work/err")"
"$run" --library "$lib" --leaks "$cases" linked >"$work/out" 2>"$work/err" || fail "numalloc-run --leaks finds something: $(cat "$work/err")"
[[ ! -s $work/err ]] || fail "not silent: $(cat "$work/err")"
status=0
"$run" --library "$lib" --leaks -q sh -c "$cases plain; $cases linked; exit 5" >"$work/out" 2>"$work/err" || status=$?
[[ $status -eq 86 ]] || fail "a process below: status $status: $(cat "$work/err")"
status=0
"$run" --library "$lib" --leaks --check "$cases" nothing >"$work/out" 2>"$work/err" || status=$?
[[ $status -eq 0 ]] || fail "--leaks --check ends with $status: $(cat "$work/err")"
say "numalloc-run --leaks"

with NUMALLOC_LEAKS=1 "$demand" children
[[ $(lost) -eq 1 ]] || fail "the child spoke: $(cat "$work/err")"
with NUMALLOC_LEAKS=children "$demand" children
[[ $(lost) -eq 2 ]] || fail "the child did not speak: $(cat "$work/err")"
has '^numalloc: 100 bytes in 2 blocks are lost, .*; 30 bytes in 1 block suppressed' <"$work/err" ||
    fail "the child reports its parent's: $(cat "$work/err")"
with NUMALLOC_LEAKS=1 "$demand" heap
has '^numalloc: 500 bytes in 5 blocks are lost, 0 bytes in 0 blocks indirectly' <"$work/err" || fail "a heap: $(cat "$work/err")"
with NUMALLOC_LEAKS=1 "$demand" call 20
[[ $status -eq 0 && $(cat "$work/out") == "done" ]] || fail "numalloc_scan_leaks: status $status, $(cat "$work/err")"
with "$demand" without
[[ $status -eq 0 ]] || fail "numalloc_scan_leaks without the option: $(cat "$work/err")"
say "children, heaps, and the call while threads work"

touch "$work/requests" "$work/go"
env LD_PRELOAD="$lib" NUMALLOC_LEAKS=1 NUMALLOC_PROFILE_TRIGGER="$work/requests" "$demand" trigger "$work/go" >"$work/out" 2>"$work/err" &
pid=$!
at_end+=("kill $pid 2>/dev/null")
sleep 0.3
echo leaks >"$work/requests"
await 'has "are lost" <"$work/err"'
rm "$work/go"
wait $pid || fail "the program ended with $?"
has '^numalloc: 70 bytes in 1 block are lost' <"$work/err" || fail "by a trigger: $(cat "$work/err")"
say "a request by the trigger file"

with NUMALLOC_LEAKS=1 NUMALLOC_PROFILE=sample NUMALLOC_PROFILE_FILE="$work/p.nprof" "$cases" list_cut
"$dump" leaks --json "$work/p.nprof" >"$work/json" || fail "numalloc-dump leaks ends with $?"
/usr/bin/python3 - "$work/json" <<'END' || fail "JSON: $(cat "$work/json")"
import json, sys
d = json.load(open(sys.argv[1]))
rows = [r for r in d["rows"] if r["lost_blocks"]]
assert len(rows) == 1, rows
r = rows[0]
assert (r["kind"], r["lost_blocks"], r["lost_bytes"]) == ("lost", 1, 48), r
assert (r["indirect_blocks"], r["indirect_bytes"], r["reachable_blocks"]) == (4, 192, 5), r
assert r["function"] == "filled" and r["file"].endswith("leak_cases.c"), r
END
"$dump" leaks "$work/p.nprof" >"$work/text"
has '48 B  in        1 blocks  lost' <"$work/text" || fail "text: $(cat "$work/text")"
say "numalloc-dump leaks"
