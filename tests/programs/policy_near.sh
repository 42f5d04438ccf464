#!/usr/bin/env bash
# policy_near.sh LIBNUMALLOC.SO NUMALLOC_DUMP ACCESS_MADE - numalloc-dump policy --near: rules for near
# and far memory. Of made-up profiles: sites of 4, 2, 16 and 8 MiB with 60, 8, 30 and 2 % of the
# accesses. (Whether accesses are near under such rules, tests/lab/tiers.c knows.)
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dump=$2 made=$3
cd "$work"
"$made" "$work"

# rules WANTED SIZE FILE...: the rules, in order; the file is read again, and is one.
rules() {
    local wanted=$1 size=$2
    shift 2
    "$dump" policy --near "$size" "$@" -o near.policy || fail "--near $size: status $?"
    [ "$(sed -n 's/^site //p' near.policy)" = "$wanted" ] || fail "--near $size $*: $(cat near.policy)"
    "$dump" policy --check near.policy "$1" >checked || fail "--near $size: $(cat checked)"
    has -E "^([0-9]+) of \1 rules? can be obeyed$" checked || fail "--near $size: $(cat checked)"
}
says() { has "$@" near.policy || fail "it does not say '${*: -1}': $(cat near.policy)"; }
hot='m1+0x1020 < m1+0x1020 : place=near, control=off'
large_far='m1+0x1020 < m1+0x1010 : place=far, control=off'

# The large one does not fit into what the two before it leave; the last one does.
rules "$hot
m1+0x1030 : place=near, control=off
m1+0x1010 : place=near, control=off
$large_far" 15M tiers.nprof
says -Fx '# near memory: 15.0 MiB, 50.0 % of the peak'
says -Fx '# at the peak near by rules: 14.0 MiB; left alone, and near: 0 B; far: 16.0 MiB'
says -E '^# expected: 70.0 % of the accesses to blocks are near \(1,000 samples by kmod-ibs, worth 1,000 '
says -E '^#   place: 60.00 % of the accesses to blocks, 4.50 times the mean .*\(600 independent samples\)$'
says -E 'near, 2.00 MiB at the peak; with it 6.00 MiB of 15.0 MiB are taken; confidence high$'
says -E 'far, 16.0 MiB at the peak, which do not fit into the 9.00 MiB that were left; confidence high$'
cp near.policy half.policy
# The same in other words, by kind; two profiles have the mean of their shares.
for size in 50% 15360K 0.0146484375G 15728640; do
    "$dump" policy --near "$size" tiers.nprof | cmp - half.policy || fail "--near $size is not 15M"
done
"$dump" policy --near 15M --only place tiers.nprof | cmp - half.policy || fail "--only place"
rules "$(sed -n 's/^site //p' half.policy)" 15M tiers.nprof tiers.nprof
says -Fx '# at the peak near by rules: 14.0 MiB; left alone, and near: 0 B; far: 16.0 MiB'
# Another run with 20, 68, 10 and 2 %: the means are 40, 38, 20 and 2.
rules "m1+0x1030 : place=near, control=off
$hot
m1+0x1010 : place=near, control=off
$large_far" 15M tiers.nprof tiers_other.nprof
says -E '^# expected: 80.0 % .*\(2,000 samples by kmod-ibs, worth 2,000 '
says -E '^#   place: 38.00 % of the accesses to blocks, 5.70 times the mean '
# Both of one function are near: one frame is enough.
rules 'm1+0x1020 : place=near, control=off
m1+0x1030 : place=near, control=off
m1+0x1010 : place=far, control=off' 22M tiers.nprof
says -E '^# expected: 98.0 % '
says -E 'far, 8.00 MiB less at the peak; confidence high$'
# Nothing fits; and what matters less than the least is left alone.
rules 'm1+0x1020 : place=far, control=off
m1+0x1010 : place=far, control=off
m1+0x1030 : place=far, control=off' 1M tiers.nprof
"$dump" policy --near 15M --min-gain 28 tiers.nprof -o near.policy
[ "$(grep -c '^site ' near.policy)" = 2 ] || fail "--min-gain: $(cat near.policy)"
says -E 'left alone, and near: 10.0 MiB'
"$dump" policy --near 15M --explain tiers.nprof | has '^#   frames ' || fail "--explain says nothing of frames"

# No rules, and why.
none() { # FILE SIZE REASON
    rules '' "$2" "$1"
    says -F "no rules for near and far memory: $3"
    says '^# No rules'
}
none tiers.nprof 30M 'all blocks fit, with 30.0 MiB at the peak'
none tiers_few.nprof 15M 'the accesses to blocks are worth 3'
none tiers_numa.nprof 15M 'NUMA hinting faults see only the first access'
NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=plain.nprof LD_PRELOAD=$lib "$made" "$work"
none plain.nprof 50% 'the profile has no accesses (NUMALLOC_PROFILE=sites,access=auto)'
# One without accesses beside one with them brings its bytes.
"$dump" policy --near 15M tiers.nprof plain.nprof -o near.policy || fail "one with accesses, one without"
says -F "$hot"

# Without --near there is none of it.
"$dump" policy tiers.nprof -o near.policy
! has -E 'place=(near|far)|near memory' near.policy || fail "tiers that nobody asked for: $(cat near.policy)"

wrong() { # REASON ARGUMENT...: one line, status 2, nothing written
    local rc=0 reason=$1
    shift
    "$dump" policy "$@" >out 2>errors || rc=$?
    [ "$rc" = 2 ] || fail "policy $*: status $rc"
    [ "$(wc -l <errors)" = 1 ] || fail "policy $*: $(cat errors)"
    has -F -- "$reason" errors || fail "policy $*: $(cat errors)"
    [ ! -s out ] || fail "policy $*: it writes all the same"
}
for size in '' 0 0% -5 -5M much 5X 5MM 5Mx '5 ' '5 M' 101% 5%% 0x10 nan inf 1e300; do
    wrong "--near takes a size such as 500M or 2G, or a share of the peak such as 30%, not: $size" --near "$size" tiers.nprof
done
wrong '--near makes rules of kind place, not of: life' --near 15M --only life tiers.nprof
for option in --check --compare --follow; do
    wrong '--near is for writing a policy' --near 15M "$option" near.policy tiers.nprof
done
rc=0
"$dump" sites --near 15M tiers.nprof >out 2>errors || rc=$?
[ "$rc" = 2 ] || fail "another view takes --near"
say "rules for near and far memory, and why there are none"
