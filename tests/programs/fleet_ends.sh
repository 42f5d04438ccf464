#!/bin/bash
# fleet_ends.sh LIBRARY NUMALLOC_DUMP - what grows over dumps is found however the process ended: its own
# profile, written after destructors or by none, is no point of the judgement. Too few dumps are no evidence.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
cc -std=gnu17 -g -O1 -Wall -Wextra "$test_source/fleet_ends.c" -o "$work/ends" || fail "the compiler does not build fleet_ends.c"

record() { # DIR MODE HOW DUMPS
    mkdir -p "$work/$1"
    NUMALLOC_PROFILE=$2 NUMALLOC_SAMPLE_INTERVAL=0 NUMALLOC_PROFILE_FILE=$work/$1 LD_PRELOAD=$lib "$work/ends" "$3" "$4" || [ "$3" = kill ]
    [ "$(find "$work/$1" -name '*.nprof.*' | wc -l)" -ge "$4" ] || fail "$1: no $4 dumps"
}
judge() { # STATUS DIR ARGUMENTS...
    local status=$1 dir=$2 rc=0
    shift 2
    "$dump" aggregate --leaks "$@" "$work/$dir" >"$work/out" 2>"$work/err" || rc=$?
    [ "$rc" = "$status" ] || fail "aggregate --leaks $* of $dir: status $rc, $(cat "$work/out" "$work/err")"
}
for mode in sites trace sample; do
    for how in return _exit term kill exec; do
        [ "$mode" = sites ] || [ "$how" = return ] || [ "$how" = kill ] || continue
        record "$mode.$how" "$mode" "$how" 7
        judge 1 "$mode.$how" --fail-if 'growing>0'
        grep -q '^failed: growing > 0: sites that grow steadily is 2$' "$work/out" || fail "$mode, $how: $(cat "$work/out")"
        judge 0 "$mode.$how" --json
        # The cache is freed in the end but where the process was killed; what is lost is there still.
        /usr/bin/python3 - "$work/out" "$how" <<'END' || fail "$mode, $how: $(cat "$work/out")"
import json, sys
rows = {r["function"]: r for r in json.load(open(sys.argv[1]))["rows"]}
assert set(rows) == {"cache_here", "lost_here"}, rows
assert (rows["cache_here"]["live_bytes"], rows["lost_here"]["live_bytes"]) == (700000, 350000), rows
freed = sys.argv[2] in ("return", "_exit", "term")
assert rows["cache_here"]["last_bytes"] == (0 if freed else 700000), rows
assert rows["lost_here"]["last_bytes"] == 350000, rows
END
    done
done
say "growth is found after return, _exit, SIGTERM, SIGKILL and exec"
record steady sites steady 7
judge 0 steady --fail-if 'growing>0'
grep -q '^Nothing grows steadily' "$work/out" || fail "steady: $(cat "$work/out")"

# Four dumps and the process's own profile are not five dumps; nor is the same dump twice.
record few sites return 4
for file in "$work"/few/*.nprof.[123]; do cp "$file" "$file.again"; done
for format in "" --json; do
    judge 2 few --fail-if 'growing>0' $format
    grep -q '^numalloc-dump: too few dumps' "$work/err" && [ ! -s "$work/out" ] || fail "too few dumps: $(cat "$work/out" "$work/err")"
done
# Beside others, that is said.
cp "$work"/few/*.nprof.? "$work/steady"
judge 0 steady --fail-if 'growing>0'
grep -q '^1 process not judged: too few dumps\.$' "$work/out" || fail "one of two has too few dumps: $(cat "$work/out")"
judge 0 steady --fail-if 'growing>0' --json
grep -q '^1 process not judged: too few dumps\.$' "$work/err" || fail "one of two has too few dumps: $(cat "$work/err")"
say "too few dumps are no evidence, and said"
