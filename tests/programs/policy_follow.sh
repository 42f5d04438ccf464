#!/usr/bin/env bash
# policy_follow.sh LIBNUMALLOC.SO NUMALLOC-DUMP POLICY_GROWER - a program that runs is followed: its
# policy is written when there is something to say, it takes it, and is mended while it runs. Rules
# stay in the file though the profile says nothing of them any more.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dump=$2 program=$3
policy=$work/app.policy

# wait_for PID TEST...: until the test holds, or the process has ended.
wait_for() { while ! test "${@:2}" && kill -0 "$1" 2>/dev/null; do sleep 0.1; done; }
begin() { # [VARIABLE=VALUE...]
    rm -f "$work/app.nprof"
    env "$@" NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/app.nprof" \
        NUMALLOC_STATS=1 LD_PRELOAD="$lib" "$program" >"$work/out" 2>"$work/errors" &
    pid=$!
    wait_for "$pid" -e "$work/app.nprof"
}

begin NUMALLOC_POLICY="$policy"
"$dump" policy --follow "$pid" --only reserve --interval 0.3 -o "$policy" >"$work/said" 2>"$work/follow.errors" ||
    fail "following: status $?: $(cat "$work/follow.errors")"
wait "$pid" || fail "it was not mended: $(cat "$work/said" "$work/errors")"
grep -q '^room after [0-9]* ms$' "$work/out" || fail "it says: $(cat "$work/out")"
grep -q '^1 rule: 1 new, 0 changed, 0 as before$' "$work/said" || fail "following says: $(cat "$work/said")"
grep -q '^policy .*: 1 rules; .*; read again [0-9]* time' "$work/errors" || fail "$(grep ^policy "$work/errors")"
grep -q '^site m1+0x[0-9a-f]* : reserve=[0-9]*, control=off$' "$policy" || fail "no rule: $(cat "$policy")"
"$dump" policy --check "$policy" "$program" >"$work/check" || fail "it cannot be obeyed: $(cat "$work/check")"
! ls "$work"/app.policy.?????? 2>/dev/null || fail "a temporary file is left"
say "$(cat "$work/out")"

# A second run under it: nothing more to say of the site, and the rule stays. A file that grows, too.
printf 'site other_function : life=long # by hand\n' >>"$policy"
cp "$policy" "$work/before"
begin NUMALLOC_POLICY="$policy"
wait "$pid" || fail "under its policy: $(cat "$work/errors")"
"$dump" policy --follow "$work/app.nprof" -o "$policy" >"$work/said" || fail "following what has ended"
cmp "$policy" "$work/before" || fail "it was written again though nothing is new: $(cat "$work/said")"

# Interrupted: not a failure, and nothing is left.
begin
"$dump" policy --follow "$pid" --interval 0.2 >"$work/printed" 2>"$work/said" &
follower=$!
wait_for "$follower" -s "$work/said"
kill -INT "$follower" 2>/dev/null || true
kill "$pid"
wait "$pid" 2>/dev/null || true
wait "$follower" || fail "interrupted: status $?"
grep -q '^numalloc policy 1$' "$work/printed" || fail "without -o: $(cat "$work/printed" "$work/said")"

# What cannot be followed.
for words in "--follow 999999999" "--follow $work/app.nprof $work/app.nprof" "--follow --check $policy" "--interval 1 $work/app.nprof"; do
    # shellcheck disable=SC2086
    if "$dump" policy $words >/dev/null 2>"$work/said"; then fail "'policy $words' is taken"; fi
    [ "$(grep -c . "$work/said")" = 1 ] || fail "'policy $words': not one line: $(cat "$work/said")"
done
printf 'numalloc policy 1\nprogram any\ngroup g : life=long\nsite f : group=g\n' >"$work/groups"
if "$dump" policy --follow "$work/app.nprof" -o "$work/groups" 2>"$work/said"; then fail "groups are lost"; fi
