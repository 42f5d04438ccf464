#!/usr/bin/env bash
# policy_reread.sh LIBNUMALLOC.SO NUMALLOC-DUMP POLICY_REREAD - a running program takes a changed
# policy; what was not taken is said in one line of the statistics, and in the profile. A thread of
# the library's own, where there is one, looks as well.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dump=$2 program=$3
[ "$(uname -m)" = x86_64 ] || skip "calls are found by name on x86-64"

ways=(NUMALLOC_PROFILE=sites)
[ "$TEST_SCALE" != full ] || ways+=(NUMALLOC_BACKGROUND=1 NUMALLOC_CHECK=1 NUMALLOC_PROFILE=trace)
for way in "${ways[@]}"; do
    rm -rf "$work/here" "$work/reread.nprof"
    mkdir "$work/here"
    # By a relative name, too.
    (cd "$work/here" && env "$way" LD_PRELOAD="$lib" NUMALLOC_POLICY=policy NUMALLOC_STATS=1 \
        NUMALLOC_PROFILE_FILE="$work/reread.nprof" "$program" "$work/here" >"$work/out" 2>"$work/errors") ||
        fail "$way: $(grep policy_reread "$work/errors" || tail -n 3 "$work/errors")"
    grep -q 'NUMALLOC_POLICY=policy is not there: no policy$' "$work/errors" || fail "$way: the start is not said"
    [ "$(grep -c '^numalloc: ' "$work/errors")" = 1 ] || fail "$way: it complains: $(grep '^numalloc: ' "$work/errors")"
    grep -q '^policy policy: 3 rules; [0-9]* blocks, .*; read again [678] times$' "$work/errors" ||
        fail "$way: no summary, or another: $(grep '^policy' "$work/errors")"
    grep -q "^policy policy: changed, and not taken: policy:3: not understood: 'garbage'" "$work/errors" ||
        fail "$way: what was not taken is not said: $(grep '^policy' "$work/errors")"
    [[ $way = NUMALLOC_PROFILE=* ]] || continue
    "$dump" rules "$work/reread.nprof" >"$work/rules" || fail "$way: rules"
    grep -q 'read again [678] times; the file has changed since and was not taken' "$work/rules" ||
        fail "$way: the profile does not say it: $(head -n 3 "$work/rules")"
    grep -q 'site_a' "$work/rules" && grep -q 'by_two_ways < first_way' "$work/rules" || fail "$way: not its rules"
    "$dump" check "$work/reread.nprof" >"$work/check" || fail "$way: the profile is not whole: $(cat "$work/check")"
done
