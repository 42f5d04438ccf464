#!/usr/bin/env bash
# cores.sh - the instrument of `numalloc-bench cores`: moves that are known, to the last one; the same
# seed gives the same bytes; the machine is the one that was asked for. Nothing here depends on time.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
place=${NUMALLOC_CORES:-$root/build/cores}
cores=$root/bench/cores/cores.py
"$root/bench/cores/build.sh" --there || {
    echo "skipped: the emulator is not built: bench/cores/build.sh"
    exit 77
}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

fail() {
    echo "cores: $*" >&2
    exit 1
}
known() { # WHAT PLACE -> the raw figures
    "$cores" --run --raw --threads 2 --nodes 2 --cpus 8 --place "$2" --allocators glibc -- "$place/known" "$1"
}
# Prints what the line that moves most has of: moved, far.
moves() {
    python3 -c 'import json, sys
lines = json.load(sys.stdin)["lines"]
print(*(lines[0]["moved"], lines[0]["far"]) if lines else (0, 0))'
}

[[ $(known pingpong pack | moves) == "2000 0" ]] || fail "2,000 additions in turn on one node: $(known pingpong pack | moves)"
[[ $(known pingpong spread | moves) == "2000 2000" ]] || fail "on two nodes: $(known pingpong spread | moves)"
# Only the line by which they begin together moves.
for what in private shared; do
    read -r moved far < <(known "$what" spread | moves)
    ((moved <= 4)) || fail "$what: a line moved $moved times"
done

# What a thread's children do is its own: an addition is a locked instruction.
locked=$(known child pack | python3 -c 'import json, sys; print(json.load(sys.stdin)["locked"])')
((locked >= 2000 && locked < 3000)) || fail "children that add 2,000 times: $locked locked instructions"

load() { # SEED -> the figures of a load with many threads
    "$cores" --run --raw --threads 16 --nodes 4 --seed "$1" --allocators glibc -- "$place/load" handoff 16 100
}
load 1 >"$out/1"
load 1 >"$out/again"
load 2 >"$out/2"
cmp -s "$out/1" "$out/again" || fail "the same seed gave other figures"
cmp -s "$out/1" "$out/2" && fail "another seed gave the same figures"

# Costs of this machine are costs that the model knows, and both machines run the load.
"$cores" --here --loads churn --allocators glibc >"$out/here" || fail "--here: $(cat "$out/here")"
[[ $(grep -c '^churn .* 1\.00 *1\.00$' "$out/here") == 2 ]] || fail "--here: $(cat "$out/here")"

# What a program learns of the machine.
learns() { # COMMAND... -> what it prints, before the figures
    "$cores" --run --threads 1 --nodes 4 --cpus 24 --allocators glibc -- "$@" >"$out/learnt"
    sed -n 1p "$out/learnt"
}
[[ $(learns nproc) == 24 ]] || fail "nproc does not say 24"
[[ $(learns cat /sys/devices/system/node/node3/cpulist) == 18-23 ]] ||
    fail "the last node's processors are not 18 to 23"
