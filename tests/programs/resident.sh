#!/usr/bin/env bash
# resident.sh LIBNUMALLOC.SO NUMALLOC-BENCH - blocks that are written in part: what is resident is at
# most 1.10 of what the C library's malloc has, case by case (numalloc-bench partly). The exceptions
# are blocks of which one page in 256 or more is written: there the page map is seen, 8 bytes for 8
# KiB of a block. The figures are the same in each run.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
bench=$2

for call in malloc calloc; do
    for way in glibc numalloc; do
        preload=
        [ $way = glibc ] || preload=$lib
        env LD_PRELOAD="$preload" "$bench" partly --call=$call --total=256 --json >"$work/$call.$way" ||
            fail "numalloc-bench partly under $way: status $?"
    done
    /usr/bin/python3 - "$work/$call.glibc" "$work/$call.numalloc" $call <<'EOF2' || fail "$call: more is resident"
import json, sys
def cases(path):
    return {m["name"]: m["median"] for m in json.load(open(path))["metrics"] if ": " in m["name"]}
theirs, ours = cases(sys.argv[1]), cases(sys.argv[2])
assert len(theirs) == len(ours) >= 45, len(ours)
bad = 0
for name, mib in ours.items():
    size = int(name.split(":")[0])
    page_only = "first page" in name and size >= 1 << 20
    most, slack = (1.40 if page_only else 1.10), 0.5 # MiB: tables of the first use
    if mib > most * theirs[name] + slack:
        print(f"{sys.argv[3]} {name}: {mib:.1f} MiB, the C library has {theirs[name]:.1f}")
        bad = 1
print(f"{sys.argv[3]}: {len(ours)} cases, {sum(ours.values()):.0f} MiB, the C library has {sum(theirs.values()):.0f}")
sys.exit(bad)
EOF2
done
