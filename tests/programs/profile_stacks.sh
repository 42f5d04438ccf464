#!/bin/bash
# profile_stacks.sh LIBRARY - every recorded stack equals an exact walk of the same moment, in
# programs whose stacks are hard: LIBRARY is the one that checks (NA_STACKS_CHECK) and dies where
# they differ.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
need cc gcc g++ g++
[ -x /usr/bin/python3 ] || skip "program '/usr/bin/python3' is missing; install the package 'python3'"

# It must be able to fail: a library that does not check has no such word in it.
grep -q NUMALLOC_STACKS_COUNT "$lib" || fail "$lib does not check stacks"

for frame in 64 96; do
    cc -O2 -fPIC -shared -fomit-frame-pointer -DFRAME=$frame "$test_source/../support/unwind_plugin.c" \
        -o "$work/plugin$frame.so" || fail "the compiler does not build the plugin"
done
for kind in omit no-omit; do
    cc -std=gnu17 -D_GNU_SOURCE -O2 -g -f$kind-frame-pointer -pthread "$test_source/stacks_stress.c" \
        -o "$work/stress-$kind" || fail "the compiler does not build stacks_stress.c"
    g++ -std=gnu++17 -O2 -g -f$kind-frame-pointer "$test_source/stacks_throw.cpp" -o "$work/throw-$kind" ||
        fail "the compiler does not build stacks_throw.cpp"
done

# Every seventh in the usual run, and fewer of the compiler's and Python's; every one, 23rd and 7th in
# the nightly script.
every=7 of_compiler=211 of_python=71
[ "$TEST_SCALE" != full ] || every=1 of_compiler=23 of_python=7

# checked NAME COMMAND...: runs, and no stack was wrong; says how many there were.
checked() {
    local name=$1 rc=0
    shift
    env NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/" NUMALLOC_STACKS_COUNT=1 NUMALLOC_STACKS_EVERY=$every LD_PRELOAD="$lib" \
        timeout 300 "$@" >"$work/out" 2>"$work/err" || rc=$?
    [ "$rc" = 0 ] || fail "$name ends with status $rc: $(head -n 40 "$work/err")"
    total=$(sed -n 's/^stacks: //p' "$work/err" | tail -n 1)
    [ "${total:-0}" -gt 100 ] || fail "$name had only '${total:-}' stacks checked"
    say "$name: of $total stacks those checked are as walked"
    rm -f "$work"/*.nprof
}

for kind in omit no-omit; do
    for mode in ${MODES:-forest jumps signals fibers inner_fibers generated exhaustion threads clones plugins replaced rooms}; do
        checked "$mode, -f$kind-frame-pointer" "$work/stress-$kind" "$mode" "$work/plugin64.so" "$work/plugin96.so"
        grep -qx "done: $mode" "$work/out" || fail "$mode did not end"
    done
    checked "throw, -f$kind-frame-pointer" "$work/throw-$kind" 1500
done

printf '#include <map>\n#include <string>\nint main() { std::map<std::string, int> m; m["a"] = 1; return m.count("b"); }\n' \
    >"$work/source.cpp"
cxx=$(g++ -print-prog-name=cc1plus)
g++ -E "$work/source.cpp" -o "$work/source.ii"
checked cc1plus env NUMALLOC_STACKS_EVERY=$of_compiler "$cxx" -quiet -O1 "$work/source.ii" -o "$work/source.s"
# Generators keep stacks of their own in the interpreter; ctypes calls through generated code.
cat >"$work/program.py" <<'PYTHON'
import ctypes, json, re, sys
sys.setrecursionlimit(4000)
callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda a, b: len(str(a) * 3) * 0 + 1)
libc = ctypes.CDLL(None)
array = (ctypes.c_int * 8)(*range(8, 0, -1))
def deep(n):
    return [n] * n if n == 0 else [len(deep(n - 1))] + ["x" * n]
for i in range(40):
    libc.qsort(array, ctypes.c_size_t(8), ctypes.c_size_t(4), callback)
    json.loads(json.dumps({"a": [1, 2, {"b": "c" * i}]}))
    re.compile("(a|b%d)+c" % i).match("ab" * 9)
    try:
        deep(200 + i)
        raise ValueError("x" * 2000)
    except ValueError as e:
        str(e)
print(sum(1 for _ in (str(x) for x in range(500))))
PYTHON
checked python3 env NUMALLOC_STACKS_EVERY=$of_python PYTHONMALLOC=malloc /usr/bin/python3 "$work/program.py"
