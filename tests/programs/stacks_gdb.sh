#!/bin/bash
# stacks_gdb.sh LIBRARY - at random allocations, what the recorder has in the profile are gdb's
# physical frames, from the caller of malloc to the thread's start: in a C++ compiler, in Python, and
# in programs that throw, use alloca and variable-length arrays, handle signals and have threads,
# with and without frame pointers. LIBRARY is the one built for such questions (NA_STACKS_CHECK).
#
# POINTS=1000 tests/programs/stacks_gdb.sh build/release/tests/libnumalloc_check.so   the full count
# SEED=n for other points; PROGRAMS="cc1plus python3" for some of them.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
need cc gcc g++ g++ gdb gdb
[ -x /usr/bin/python3 ] || skip "program '/usr/bin/python3' is missing; install the package 'python3'"
gdb -nx -q -batch -ex 'python import gdb' >/dev/null 2>&1 || skip "this gdb has no Python; install the package 'gdb'"
usual=16 kinds=omit
[ "$TEST_SCALE" != full ] || usual=200 kinds="omit no-omit"
points=${POINTS:-$usual} seed=${SEED:-1}

for kind in $kinds; do
    cc -std=gnu17 -D_GNU_SOURCE -O2 -g -f$kind-frame-pointer -pthread "$test_source/stacks_stress.c" \
        -o "$work/stress-$kind" || fail "the compiler does not build stacks_stress.c"
    g++ -std=gnu++17 -O2 -g -f$kind-frame-pointer "$test_source/stacks_throw.cpp" -o "$work/throw-$kind" ||
        fail "the compiler does not build stacks_throw.cpp"
done
printf '#include <map>\n#include <string>\nint main() { std::map<std::string, int> m; m["a"] = 1; return m.count("b"); }\n' \
    >"$work/source.cpp"
g++ -E "$work/source.cpp" -o "$work/source.ii"
cat >"$work/program.py" <<'PYTHON'
import json, re
def deep(n):
    return [n] if n == 0 else [len(deep(n - 1))] + ["x" * n]
for i in range(30):
    json.loads(json.dumps({"a": [1, 2, {"b": "c" * i}]}))
    re.compile("(a|b%d)+c" % i).match("ab" * 9)
    sorted((str(k) for k in range(50)), key=lambda s: s * 2)
    deep(40 + i)
PYTHON

under_gdb() { # NAME COMMAND...
    local name=$1 total status=0 summary
    shift
    if ! env NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/" NUMALLOC_STACKS_COUNT=1 \
        NUMALLOC_STACKS_EVERY=0 LD_PRELOAD="$lib" "$@" >/dev/null 2>"$work/err"; then
        fail "$name does not run: $(tail -n 2 "$work/err")"
    fi
    total=$(sed -n 's/^stacks: //p' "$work/err" | tail -n 1)
    [ "${total:-0}" -ge "$points" ] || fail "$name has only '${total:-}' stacks"
    # The last hundredth is left out: a run under gdb has a few allocations more or fewer.
    STACKS_POINTS=$(/usr/bin/python3 -c "
import random, sys
seed, count, total = (int(a) for a in sys.argv[1:])
random.seed(seed)
print(','.join(str(p) for p in sorted(random.sample(range(1, total - total // 100 + 1), count))))" \
        "$seed" "$points" "$total")
    export STACKS_POINTS STACKS_REPORT=$work/report
    STACKS_LD_PRELOAD=$lib STACKS_NUMALLOC_PROFILE=sites STACKS_NUMALLOC_PROFILE_FILE=$work/ \
        STACKS_NUMALLOC_STACKS_EVERY=0 timeout "${LIMIT:-800}" \
        gdb -nx -q -batch -x "$test_source/stacks_gdb.py" --args "$@" >"$work/gdb.out" 2>&1 || status=$?
    summary=$(tail -n 1 "$work/report" 2>/dev/null || true)
    [[ $summary == "summary: $points points, $points equal,"* ]] ||
        fail "$name: ${summary:-no summary}, gdb ends with status $status; $(head -n 24 "$work/report") $(tail -n 5 "$work/gdb.out")"
    say "$name: ${summary#summary: }, of $total stacks"
    rm -f "$work"/*.nprof
}

wants() { [[ " ${PROGRAMS:-$1} " == *" $1 "* ]]; }

for kind in $kinds; do
    wants throw && under_gdb "throw, -f$kind-frame-pointer" "$work/throw-$kind" 400
    for mode in forest signals; do
        wants $mode && under_gdb "$mode, -f$kind-frame-pointer" "$work/stress-$kind" $mode
    done
done
wants cc1plus && under_gdb cc1plus "$(g++ -print-prog-name=cc1plus)" -quiet -O1 "$work/source.ii" -o "$work/source.s"
wants python3 && under_gdb python3 env PYTHONHASHSEED=0 PYTHONMALLOC=malloc /usr/bin/python3 "$work/program.py"
exit 0
