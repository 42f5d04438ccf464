#!/usr/bin/env bash
# access_turns.sh LIBRARY DUMP PROGRAM SOURCES - how long the turns of two threads are: `verdicts`
# and the script in docs/examples say the same, and where that is more than twice the truth,
# `verdicts` says that the source looked too seldom. Equal turns, and short ones between long ones.
# shellcheck source=tests/programs/lib.sh
source "$(dirname "$0")/lib.sh"
dump=$2 program=$3 root=$4
libs=$(dirname "$(readlink -f "$lib")")
cc -std=c17 -O1 "-I$root/include" "$root/docs/examples/turns.c" -o "$work/turns" "-L$libs" \
    -lnumalloc-profile "-Wl,-rpath,$libs" || fail "turns.c does not build"

for pace in "100 100" "19 1"; do
    read -r a b <<<"$pace"
    profile=$work/$a-$b.nprof
    truth=$(NUMALLOC_PROFILE=sites,access=watch NUMALLOC_PROFILE_FILE=$profile LD_PRELOAD=$lib \
        "$program" "$a" "$b" 4 2>"$work/err") || fail "the program: $(cat "$work/err")"
    if ! "$dump" verdicts --json "$profile" >"$work/verdicts" 2>"$work/why"; then
        ! has "never fire" <"$work/why" || skip "$(cat "$work/why")"
        fail "$(cat "$work/why")"
    fi
    "$work/turns" "$profile" >"$work/said" || fail "the script: $(cat "$work/said")"
    /usr/bin/python3 - "$work" "$truth" <<'END' || exit $?
import json, re, sys
work, truth = sys.argv[1], float(sys.argv[2]) * 1e3
measures = []
def find(value):
    if isinstance(value, dict):
        if "measure" in value and value["measure"].get("switches") and value["measure"].get("switch_ns"):
            measures.append(value["measure"])
        for part in value.values():
            find(part)
    elif isinstance(value, list):
        for part in value:
            find(part)
find(json.load(open(work + "/verdicts")))
if not measures:
    print("access_turns: skipped: no turn was seen: no watchpoints here, or too few looks")
    sys.exit(77)
most = max(measures, key=lambda m: m["switches"])
said = {int(n): int(ns) for ns, n in
        re.findall(r"avg time: (\d+) ns \((\d+) switches\)", open(work + "/said").read())}
script = said.get(int(most["switches"]))
print("access_turns: truth %.2f ms, verdicts %.2f ms, script %s ms, turns_seen %s" %
      (truth / 1e6, most["switch_ns"] / 1e6, script and round(script / 1e6, 2), most["turns_seen"]))
if script is None or abs(script - most["switch_ns"]) > 1:
    sys.exit("access_turns: FAILED: the script and verdicts differ")
if most["switch_ns"] > 2 * truth and most["turns_seen"]:
    sys.exit("access_turns: FAILED: turns were missed, and nothing says so")
END
done
