#!/usr/bin/env bash
# profile_quiet.sh LIBNUMALLOC.SO NUMALLOC-DUMP - a profile with accesses leaves the program's standard
# error alone where all is well, in each mode and each process of a script; which source was chosen, and
# why not a better one, is in the file and in the summary. Where none works, one line says so, once.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dump=$2

# What programs do that read the messages of others: both streams in one.
script='x=$(ls -d / /usr 2>&1; sort </dev/null 2>&1); printf "%s\n" "$x"; (exit 3) || echo $?'
bash -c "$script" >"$work/plain" 2>&1
for mode in sites sample trace; do
    mkdir "$work/$mode"
    LD_PRELOAD=$lib NUMALLOC_PROFILE=$mode,access=auto NUMALLOC_PROFILE_FILE="$work/$mode/" \
        bash -c "$script" >"$work/out" 2>&1
    if grep -q 'numalloc: no accesses; .*watch: ' "$work/out"; then
        skip "accesses cannot be sampled here: $(grep -m 1 'no accesses' "$work/out")"
    fi
    cmp -s "$work/plain" "$work/out" || fail "$mode: the output differs: $(diff "$work/plain" "$work/out")"
done
say "a script and its programs say the same with and without a profile of accesses"

# A source is chosen by a second thread, when it has a turn.
for nap in 0.1 1 10 60; do
    rm -rf "$work/nap.nprof"
    LD_PRELOAD=$lib NUMALLOC_PROFILE=sites,access=auto NUMALLOC_PROFILE_FILE="$work/nap.nprof" sleep $nap
    file=$work/nap.nprof
    "$dump" "$file" >"$work/summary"
    ! grep -q '^sampled by ' "$work/summary" || break
done
chosen=$(grep '^sampled by ' "$work/summary") || fail "no 'sampled by' in the summary: $(head -n 20 "$work/summary")"
"$dump" run "$file" | sed -n '/^Sources of accesses/,/^$/p' >"$work/sources"
used=$(awk '!/not used/ && /samples/ { print $1 }' "$work/sources")
case $chosen in
"sampled by   $used"*) ;;
*) fail "the summary says '$chosen', run says '$used'" ;;
esac
[ "$used" = kmod-ibs ] || case $chosen in
*"; kmod-ibs: "*) ;;
*) fail "no reason against kmod-ibs: $chosen" ;;
esac
say "$chosen"

# The one source that may be used is not to be had: one line.
if [ -e /dev/numalloc_ibs ]; then exit 0; fi
rm -f "$work/err" # of the last one
mkfifo "$work/in"
LD_PRELOAD=$lib NUMALLOC_PROFILE=sites,access NUMALLOC_TEST_ACCESS=kmod-sim NUMALLOC_PROFILE_FILE="$work/none.nprof" \
    cat "$work/in" >"$work/out" 2>"$work/err" &
await 'grep -qs "numalloc: no accesses" "$work/err"' # by its second thread
: >"$work/in"
wait $! || true
[ "$(grep -c 'numalloc: no accesses; kmod-sim: ' "$work/err")" = 1 ] || fail "not one line: $(cat "$work/err")"
"$dump" "$work/none.nprof" >"$work/summary"
grep -q '^sampled by   nothing; kmod-sim: ' "$work/summary" || fail "the summary does not say why: $(cat "$work/summary")"
say "one line where none works"
