#!/usr/bin/env bash
# bench_replay.sh NUMALLOC NUMALLOC-BENCH NUMALLOC-DUMP PROGRAM - `numalloc-bench replay`: what is played
# is what the trace has, and a file that cannot be played is refused in one line.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
bench=$(readlink -f "$2") dump=$(readlink -f "$3") program=$(readlink -f "$4")
need python3 python3
cd "$work"

# trace NAME COMMAND...
trace() {
    NUMALLOC_PROFILE=trace NUMALLOC_PROFILE_FILE="$1.nprof" LD_PRELOAD="$lib" "${@:2}" >/dev/null 2>"$work/err" ||
        fail "cannot record ${*:2}: $(cat "$work/err")"
}
# played NAME [PRELOADED]: what a replay says of it, into NAME.tsv.
played() {
    LD_PRELOAD=${2:-} "$bench" replay "$1.nprof" --repetitions 1 --tsv >"$1.tsv" 2>"$work/err" ||
        fail "cannot play $1: $(cat "$work/err")"
}

trace threads "$program" threads 2000
trace realloc "$program" realloc 4000
trace handoff "$bench" handoff --threads 4 --objects 2000 --repetitions 1 --warmup 0
trace turnover "$bench" turnover --threads 2 --repetitions 1 --warmup 0
trace python env PYTHONMALLOC=malloc /usr/bin/python3 -c 'import json; json.loads(json.dumps([[i, str(i)] for i in range(3000)]))'
for name in threads realloc handoff turnover python; do
    played "$name" "$lib"
    cp "$name.tsv" "$name.preloaded.tsv"
    played "$name"
    "$dump" summary --json "$name.nprof" >"$name.json"
done
# A replay recorded and played again.
trace again "$bench" replay --inside realloc.nprof
played again

python3 - <<'END' || fail "what is played is not what the trace has"
import json


def tsv(name):
    with open(name, encoding="utf-8") as file:
        return {f[1]: float(f[-1]) for f in (line.rstrip("\n").split("\t") for line in file) if f[0] == "metric"}


for name in "threads", "realloc", "handoff", "turnover", "python":
    have = tsv(name + ".tsv")
    with open(name + ".json", encoding="utf-8") as file:
        true = json.load(file)["total"]
    # A realloc is an allocation and a free, for the profile.
    made = have["calls: allocations"] + have["calls: reallocs"]
    freed = have["calls: frees"] + have["calls: reallocs"]
    # Of two threads that pass an address on within a tick the trace may have the order wrong.
    wrong = have["frees of unknown blocks"] + have["frees that were added"]
    assert wrong <= (10 if have["blocks handed over"] > 1000 else 0), (name, have)
    assert made == true["allocations"], (name, made, true)
    assert abs(freed - true["frees"]) <= wrong, (name, freed, true)
    assert abs(have["live at the end"] - true["live_bytes"]) <= wrong * 4096, (name, have, true)
    # Threads' events are one order in the trace; the profile's peak sees a realloc's two blocks at once.
    assert abs(have["peak live"] - true["peak_bytes"]) <= true["peak_bytes"] / 20 + 65536, (name, have, true)
    assert min(have[what] for what in ("peak memory", "replay", "player alone")) > 0, (name, have)
    same = tsv(name + ".preloaded.tsv")
    for what in "calls", "threads", "blocks handed over", "peak live", "fingerprint":
        assert have[what] == same[what], (name, what, have, same)
assert tsv("threads.tsv")["threads"] == 9
assert tsv("handoff.tsv")["blocks handed over"] > 3000, tsv("handoff.tsv")
assert tsv("turnover.tsv")["threads"] > 10, tsv("turnover.tsv")

first, again = tsv("realloc.tsv"), tsv("again.tsv")
assert again["calls: reallocs"] == first["calls: reallocs"], (first, again)
for what in "calls: allocations", "calls: frees":
    assert 0 <= again[what] - first[what] <= 20, (what, first, again)  # the player's own
assert 0 <= again["peak live"] - first["peak live"] <= 8192, (first, again)
END
say "calls, threads, hand-overs and live bytes are those of the trace, and of a trace of the replay"

# Made-up traces: the same calls each time and under each allocator, all that they say of threads is so.
"$bench" replay shape:list >"$work/shapes" || fail "shape:list"
shapes=$(sed -n 's/^shape:\([a-z]*\) .*/\1/p' "$work/shapes")
[ "$(wc -w <<<"$shapes")" = "$(wc -l <"$work/shapes")" ] || fail "shape:list: $(cat "$work/shapes")"
for name in $shapes; do
    for under in "$lib" '' ''; do
        LD_PRELOAD=$under "$bench" replay "shape:$name" --repetitions 1 --tsv >"$name.tsv" 2>"$work/err" ||
            fail "cannot play shape:$name: $(cat "$work/err")"
        awk -F '\t' '$1 == "metric" && $2 ~ /^(calls|threads|blocks|peak live|live at|fingerprint)/ { print $2, $NF }' "$name.tsv"
        echo
    done | awk -v RS= '{ text[NR] = $0 } END { exit !(NR == 3 && text[1] == text[2] && text[2] == text[3] && text[1] ~ /fingerprint [1-9]/) }' ||
        fail "shape:$name is not the same each time"
done
# shellcheck disable=SC2086 # names, one word each
python3 - $shapes <<'END' || fail "the shapes are not what they are said to be"
import sys


def tsv(name):
    with open(name, encoding="utf-8") as file:
        return {f[1]: float(f[-1]) for f in (line.rstrip("\n").split("\t") for line in file) if f[0] == "metric"}


all_of = {name: tsv(name + ".tsv") for name in sys.argv[1:]}
assert {"compiler", "interpreter", "store", "server", "media"} <= set(all_of), all_of.keys()
for name, have in all_of.items():
    assert have["frees of unknown blocks"] == have["frees that were added"] == 0, (name, have)
    assert have["calls: allocations"] - have["calls: frees"] > 0, (name, have)
    assert (have["blocks handed over"] > 0) == (have["threads"] > 1), (name, have)
assert len({have["fingerprint"] for have in all_of.values()}) == len(all_of), "two shapes are one"
assert all_of["server"]["threads"] == 7 and all_of["server"]["blocks handed over"] > 50000, all_of["server"]
END
say "made-up traces: the same calls each time"

# refused STATUS WORD COMMAND...
refused() {
    local rc=0
    "${@:3}" >/dev/null 2>"$work/err" || rc=$?
    [ "$rc" = "$1" ] || fail "status $rc, not $1: ${*:3}"
    [ "$(wc -l <"$work/err")" = 1 ] || fail "not one line: $(cat "$work/err")"
    grep -q -- "$2" "$work/err" || fail "'$2' is not in: $(cat "$work/err")"
}
NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=sites.nprof LD_PRELOAD="$lib" "$program" single 100
refused 2 "no shape 'none'" "$bench" replay shape:none
refused 2 "no shape ''" "$bench" replay shape:
refused 2 "no shape 'none'" "$bench" compare --replay shape:none
refused 2 'name a trace' "$bench" replay
refused 2 'cannot read' "$bench" replay none.nprof
refused 2 'not a regular file' "$bench" replay /dev/zero
refused 1 'not a numalloc profile' "$bench" replay "$program"
refused 1 'needs a trace' "$bench" replay sites.nprof
refused 2 'needs a trace' "$bench" compare --replay sites.nprof
head -c 200000 threads.nprof >cut.nprof
refused 1 'cut short' "$bench" replay cut.nprof

# Damage: refused or played, never a crash. Of traces, and of the programs made of them.
bad() { # FILE: as it is
    local rc=0
    timeout 300 "$bench" replay "$1" --inside >/dev/null 2>"$work/err" || rc=$?
    case $rc in
    0) ;;
    1) [ "$(wc -l <"$work/err")" = 1 ] || fail "$1: not one line: $(cat "$work/err")" ;;
    *) fail "$1: status $rc: $(cat "$work/err")" ;;
    esac
}
"$(dirname "$bench")/numalloc-bench-compile" threads.nprof 3 100 3<>made.program || fail "cannot make a program"
bad made.program
[ ! -s "$work/err" ] || fail "a program as it was made is refused: $(cat "$work/err")"
python3 - <<'END'
import random

random.seed(1)
for name in "threads.nprof", "made.program":
    with open(name, "rb") as file:
        whole = file.read()
    for i in range(12):
        damaged = bytearray(whole)
        for _ in range(1 << i % 6):
            damaged[random.randrange(min(len(whole), 4096 if i % 2 else len(whole)))] = random.randrange(256)
        with open(f"damaged-{i}.{name}", "wb") as file:
            file.write(damaged)
END
for file in damaged-*; do bad "$file"; done
say "what cannot be played is refused in one line, and damage ends nothing"

"$bench" compare --replay realloc.nprof python=python.nprof shape:store --allocators "glibc,mine=$lib" --rounds 2 --control off \
    >"$work/out" 2>"$work/err" || fail "compare: $(cat "$work/err")"
has '^python  *ns/event' <"$work/out" || fail "compare has no row 'python': $(cat "$work/out")"
has '^realloc  *MiB' <"$work/out" || fail "compare has no memory of 'realloc'"
has '^shape:store  *ns/event' <"$work/out" || fail "compare has no row 'shape:store'"
say "compare --replay"
