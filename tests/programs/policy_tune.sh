#!/usr/bin/env bash
# policy_tune.sh LIBNUMALLOC.SO NUMALLOC_DUMP POLICY_SERVER NUMALLOC_RUN - numalloc-run --tune: rules that do
# not pay are found out and left out, and what is left is written down.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dump=$2 server=$3 run=$4
[ "$(uname -m)" = x86_64 ] || skip "rules of several frames are for x86-64"
mkdir "$work/temporary"
export TMPDIR=$work/temporary
cd "$work"

tune() { # WANTED_STATUS ARGUMENT...: out, errors
    local wanted=$1 rc=0
    shift
    "$run" --library="$lib" "$@" >out 2>errors </dev/null || rc=$?
    [[ " $wanted " = *" $rc "* ]] || fail "$*: status $rc: $(cat errors)"
    status=$rc
    [ -z "$(ls temporary)" ] || fail "$*: it leaves files: $(ls temporary)"
}

# The whole circle. (Time that others take may make it unclear whether it pays.)
tune "0 1" --tune=6 -o found.policy "$server" 60000
[ "$(wc -l <out)" = 1 ] || fail "the output of more than one run: $(cat out)"
has '^1 rule, 6 rounds:$' errors || fail "no rule was found: $(cat errors)"
# Whatever the figures are here: what the sessions kept in vain is less.
has '^does what it is for: line [0-9]*: site .*life=long' errors || fail "--tune does not prove the rule: $(cat errors)"
for line in '^  time .* times (' '^  peak .* times (' '^  mean .* times ('; do
    has "$line" errors || fail "--tune does not say '$line': $(cat errors)"
done
if [ "$status" = 0 ]; then
    has '^numalloc-run: 1 of 1 rule pays: found.policy$' errors || fail "$(cat errors)"
    has -E '^# tuned, 6 rounds with and without: time [0-9.]+ times' found.policy || fail "$(cat found.policy)"
    "$dump" policy --check found.policy "$server" || fail "what was written cannot be obeyed"
else
    has 'left out: line [0-9]*: site .*life=long' errors || fail "$(cat errors)"
    has '^numalloc-run: no rule pays$' errors || fail "$(cat errors)"
    [ ! -e found.policy ] || fail "a policy that does not pay was written"
fi
sed -n '/rounds:/,$p' errors

# A rule that takes memory for nothing is found out, wherever it stands; what it stood beside stays a rule
# as long as that is left.
NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=server.nprof LD_PRELOAD=$lib "$server" 60000 >out 2>errors
"$dump" policy server.nprof --only life -o good.policy
has '^site ' good.policy || fail "no rule: $(cat good.policy)"
long=$(grep -n '^site ' good.policy | cut -d: -f1)
alias=$(sed -n 's/^site \(m[0-9]*+0x[0-9a-f]*\) <.*/\1/p' good.policy)
{
    cat good.policy
    echo "# in vain"
    echo "site $alias : reserve=4096, control=off"
} >bad.policy
tune "0 1" --tune=6 --policy=bad.policy -o tuned.policy "$server" 20000
has '^2 rules, 6 rounds:$' errors || fail "$(cat errors)"
has "^left out: line [0-9]*: site $alias : reserve=4096" errors || fail "the bad rule stayed: $(cat errors)"
if [ "$status" = 0 ]; then
    has "^# left out: with it, and those left then: time [0-9.]* times, peak [0-9.]* times" tuned.policy || fail "$(cat tuned.policy)"
    has "^# site $alias : reserve=4096" tuned.policy || fail "$(cat tuned.policy)"
    [ "$(grep -c '^site' tuned.policy)" = 1 ] || fail "$(cat tuned.policy)"
fi
# The most costly rule goes first where the run takes longer: here they cost nothing, so the last.
sed "${long}d" bad.policy >worse.policy
tune 1 --tune=6 --policy=worse.policy -o none.policy "$server" 20000
has '^numalloc-run: no rule pays$' errors || fail "$(cat errors)"
[ ! -e none.policy ] || fail "a policy without rules was written"

# Nothing to be gained; what fails; wrong uses.
tune 1 --tune=6 true
has '^numalloc-run: nothing to be gained by rules$' errors || fail "$(cat errors)"
[ ! -e true.policy ] || fail "a policy without rules was written"
tune 125 --tune=6 false
has 'false with a profile: status 1' errors || fail "$(cat errors)"
tune 125 --tune=6 --policy=nothing.policy true
for wrong in "--tune=5 true" "--tune=6" "--tune=6 --profile true" "--tune=6 --rounds=6 --policy=good.policy true" "--tune=6 --html true"; do
    # shellcheck disable=SC2086
    tune 125 $wrong
    [ "$(wc -l <errors)" = 1 ] || fail "$wrong: $(cat errors)"
done

# Ended on the way, it takes its files along.
"$run" --library="$lib" --tune=1000 --policy=good.policy "$server" 1000 >out 2>errors </dev/null &
pid=$!
for _ in $(seq 100); do
    if [ -s errors ]; then break; fi
    sleep 0.05
done
kill -TERM "$pid"
rc=0
wait "$pid" || rc=$?
[ "$rc" = 125 ] || fail "ended by a signal: status $rc: $(cat errors)"
[ -z "$(ls temporary)" ] || fail "ended by a signal, it leaves files"
