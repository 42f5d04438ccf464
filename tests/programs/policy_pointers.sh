#!/usr/bin/env bash
# policy_pointers.sh LIBNUMALLOC.SO NUMALLOC_DUMP POLICY_POINTERS POLICY_COUNTERS - blocks that are used, apart
# from those that lie between them: of programs that go from block to block the profile says which sites
# these are, and under the policy their blocks lie in fewer pages. Programs that would lose get no rule. At
# full scale also how fast that is, beside a program of Debian's.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dump=$2 pointers=$3 counters=$4
"$counters" probe || skip "watchpoints do not fire here"
cd "$work"
# A busy machine uses each node less often a second. What is timed is larger than a cache.
nodes=32000
if [ "$TEST_SCALE" = full ]; then nodes=60000; fi

run() { # PROGRAM [TIMES]: with what sizes, and how; TIMES as many lookups
    case $1 in
    tree) set -- "$pointers" tree 100000 $((2000000 * ${2:-1})) ;;
    map) set -- "$pointers" map "$nodes" $((2000000 * ${2:-1})) ;;
    cache) set -- "$pointers" cache 50000 3000000 ;;
    hospital) set -- "$pointers" hospital 6 600 ;;
    span) set -- "$pointers" span 60000 300000 ;;
    tsort) set -- tsort pairs ;;
    esac
    exec "$@"
}

# How long it takes until there are enough looks depends on what else runs here: each run is twice as long.
find_policy() { # PROGRAM PERIOD...: its policy is in $1.policy
    local period times=1
    for period in "${@:2}"; do
        rm -f "$1.nprof"
        (
            export NUMALLOC_PROFILE=sites,access=watch NUMALLOC_ACCESS_COST=50 NUMALLOC_ACCESS_PERIOD=$period
            export NUMALLOC_PROFILE_FILE=$1.nprof LD_PRELOAD=$lib
            run "$1" "$times" >out 2>errors
        ) || fail "$1: $(cat errors)"
        times=$((2 * times))
        "$dump" policy "$1.nprof" --only group -o "$1.policy" || fail "$1: no policy: status $?"
        if has '^group hot ' "$1.policy"; then break; fi
    done
}

for program in tree map; do
    find_policy "$program" 2000 1000 500 500 500
    has '^group hot : pages=huge, control=off$' "$program.policy" ||
        fail "$program: no group: $("$dump" policy "$program.nprof" --only group --explain)"
    [ "$(grep -c '^site .* : group=hot$' "$program.policy")" = 1 ] || fail "$program: $(cat "$program.policy")"
    has '^#   group: [1-9].* % of .* looks at them saw a use$' "$program.policy" || fail "$(cat "$program.policy")"
    (export NODES=1 LD_PRELOAD=$lib && run "$program") >"$program.plain" || fail "$program: status $?"
    (export NODES=1 LD_PRELOAD=$lib "NUMALLOC_POLICY=$work/$program.policy" && run "$program") >"$program.ruled" 2>errors ||
        fail "$program: status $?: $(cat errors)"
    [ ! -s errors ] || fail "$program: $(cat errors)"
    [ "$(head -1 "$program.plain")" = "$(head -1 "$program.ruled")" ] || fail "$program: another result under the policy"
    say "$program: nodes in $(sed -n 2p "$program.plain"), under the policy in $(sed -n 2p "$program.ruled")"
    "$dump" policy --check "$program.policy" "$pointers" >out || fail "$program: $(cat out)"
done
has '^# 1\. .*new_node ' tree.policy || fail "another site: $(grep '^# 1' tree.policy)"
# Half of each page of the tree was labels.
plain=$(sed -n '2s/ pages//p' tree.plain) ruled=$(sed -n '2s/ pages//p' tree.ruled)
[ $((10 * ruled)) -lt $((6 * plain)) ] || fail "nodes of the tree: in $plain pages, under the policy in $ruled"

# Blocks that come and go all the time cost more in a group than it would gain.
for program in cache hospital; do
    find_policy "$program" 1000
    ! has '^site ' "$program.policy" || fail "$program: a rule: $(cat "$program.policy")"
done
"$dump" policy cache.nprof --only group --explain >explained || fail "--explain: status $?"
has -E '^# +[0-9.]+ MiB +[0-9]+ +[0-9.]+ /s +short-lived ' explained || fail "--explain: $(cat explained)"

[ "$TEST_SCALE" = full ] || exit 0
python3 - <<'EOF'
import random
random.seed(1)
with open("pairs", "w") as f:
    for _ in range(120000):
        a, b = sorted(random.choices(range(120000), k=2))
        f.write(f"w{a} w{b}\n")
EOF
find_policy span 1000
find_policy tsort 500
# Eleven rounds, each with and without in turn; medians of the ratios of user time. Without a rule nobody
# would use the policy: that counts as 1.
python3 - "$lib" "$work" "$pointers" <<'EOF' || fail "too slow under the policies"
import math, os, statistics, subprocess, sys
lib, work, pointers = sys.argv[1:]
commands = {"tree": "tree 100000 2000000", "map": "map 60000 2000000", "cache": "cache 50000 3000000",
            "hospital": "hospital 6 600", "span": "span 60000 300000", "tsort": None}
medians = []
for name, words in commands.items():
    command = ["tsort", "pairs"] if words is None else [pointers] + words.split()
    rules = sum(line.startswith("site ") for line in open(f"{work}/{name}.policy"))
    if rules == 0:
        medians.append(1)
        print(f"{name}: no rule")
        continue
    def seconds(policy):
        env = dict(os.environ, LD_PRELOAD=lib)
        if policy: env["NUMALLOC_POLICY"] = f"{work}/{name}.policy"
        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return os.wait4(process.pid, 0)[2].ru_utime
    ratios = []
    for turn in range(11):
        with_policy = seconds(True) if turn % 2 else None
        without = seconds(False)
        ratios.append(without / (with_policy or seconds(True)))
    ratios.sort()
    medians.append(statistics.median(ratios))
    # Order statistics 2 and 10 of 11: the median lies between them with 98.8 %.
    print(f"{name}: {rules} rule{'s' * (rules > 1)}, {medians[-1]:.2f} [{ratios[1]:.2f} {ratios[9]:.2f}] times as fast", flush=True)
mean = math.exp(sum(map(math.log, medians)) / len(medians))
print(f"geometric mean {mean:.2f}, best {max(medians):.2f}, worst {min(medians):.2f}")
sys.exit(not (mean >= 1.10 and max(medians) >= 1.25 and min(medians) >= 0.99))
EOF
