#!/usr/bin/env bash
# policy_lines.sh LIBNUMALLOC.SO NUMALLOC_DUMP POLICY_COUNTERS - false sharing between blocks, the whole
# circle: counters that one thread allocates and two count in. What watchpoints see of that becomes a rule,
# under it no two counters have a line in common, and --compare says that it helped. At full scale also
# how fast that is, beside counters padded by hand.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dump=$2 counters=$3
[ "$(nproc)" -ge 2 ] || skip "one processor: no two threads count at a time"
"$counters" probe || skip "watchpoints do not fire here"
cd "$work"

# Looks that met a thread are what it takes; how long that takes depends on what else runs here.
watched() { # FILE SECONDS VARIABLE=VALUE...
    local file=$1 seconds=$2
    shift 2
    rm -f "$file"
    env "$@" NUMALLOC_PROFILE=sites,access=watch NUMALLOC_ACCESS_COST=20 NUMALLOC_ACCESS_PERIOD=5000 \
        "NUMALLOC_PROFILE_FILE=$file" LD_PRELOAD="$lib" "$counters" 16 "$seconds" >out 2>errors || fail "$(cat errors)"
}
for seconds in 3 8 20 60; do
    watched before.nprof "$seconds" A=1
    has -E '^[1-9][0-9]* shared$' out || fail "no line is shared without a policy: $(cat out)"
    "$dump" policy before.nprof --only lines -o counters.policy || fail "no policy: status $?"
    if has '^site .* : lines=own$' counters.policy; then break; fi
done
has '^site .* : lines=own$' counters.policy ||
    fail "no rule in $seconds s: $(cat counters.policy; "$dump" verdicts before.nprof --top 2 || true)"
has '^# 1\. new_counter ' counters.policy || fail "another site: $(grep '^# 1' counters.policy)"
say "in $seconds s: $(grep '^site' counters.policy)"

NUMALLOC_POLICY=$work/counters.policy NUMALLOC_STATS=1 LD_PRELOAD=$lib "$counters" 16 0.1 >out 2>errors || fail "$(cat errors)"
has '^0 shared$' out || fail "lines are shared under the policy: $(cat out)"
has 'counters.policy: 1 rules; 16 blocks' errors || fail "the rule meant no counters: $(grep '^policy' errors)"

# Did it help? It takes as many looks again.
for again in "$seconds" $((seconds + 8)) $((seconds + 20)) $((seconds + 60)); do
    watched after.nprof "$again" "NUMALLOC_POLICY=$work/counters.policy"
    rc=0
    "$dump" policy --compare before.nprof after.nprof >compared || rc=$?
    if [ "$rc" = 0 ]; then break; fi
done
[ "$rc" = 0 ] || fail "--compare: status $rc: $(cat compared)"
has -E '^keep .*lines shared .* %  +0\.0 % ' compared || fail "--compare: $(cat compared)"
has '^1 of 1 rule to keep$' compared || fail "--compare: $(cat compared)"
sed -n 2,3p compared
"$dump" policy --compare --json counters.policy before.nprof after.nprof >compared.json
python3 - compared.json <<'EOF' || fail "JSON: $(cat compared.json)"
import json, sys
row, = json.load(open(sys.argv[1]))["rows"]
assert row["verdict"] == "keep" and row["measure"] == "lines shared", row
assert row["after"] == 0 and row["change_low"] <= row["change_high"] < 0 < row["before_samples"], row
EOF

[ "$TEST_SCALE" = full ] || exit 0
# Medians of seven in turn, two counters.
for _ in 1 2 3 4 5 6 7; do
    LD_PRELOAD=$lib "$counters" 2 1 2>>plain.speed >/dev/null
    LD_PRELOAD=$lib "$counters" 2 1 padded 2>>padded.speed >/dev/null
    LD_PRELOAD=$lib NUMALLOC_POLICY=$work/counters.policy "$counters" 2 1 2>>ruled.speed >/dev/null
done
middle() { sort -n "$1" | sed -n '4s/ .*//p'; }
say "million counts a second: $(middle plain.speed) without, $(middle ruled.speed) under the policy, $(middle padded.speed) padded by hand"
awk -v a="$(middle ruled.speed)" -v b="$(middle padded.speed)" 'BEGIN { exit !(a >= 0.95 * b) }' || fail "slower than padded by hand"
