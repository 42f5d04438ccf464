#!/bin/bash
# python.sh - Debian's python3 runs a part of its own test suite. Every test case must pass; where one
# does not, and at full scale always, the suite is run without the library, too, and must end alike.
# PYTHONMALLOC=malloc: small objects come from malloc too, not from python's own arenas.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
python=/usr/bin/python3
[ -x "$python" ] || skip "program '$python' is missing; install the package 'python3'"
"$python" -c 'import test.test_list, test.test_threading' 2>/dev/null ||
    skip "python's own tests are missing; install the package 'libpython3.11-testsuite' (or that of this python3)"

tests="test_list test_re test_fork1 test_generators test_thread test_struct test_mmap" least=300
if [ "$TEST_SCALE" = full ]; then
    tests+=" test_dict test_set test_tuple test_bytes test_json test_array test_threading test_gc
        test_zlib test_ctypes test_queue test_bigmem test_deque test_ordered_dict test_subprocess
        test_pickle test_collections test_itertools test_weakref test_decimal"
    least=1000
fi

# The library must be in the process that runs the tests: the program itself looks.
cat >"$work/main.py" <<'END'
import os, runpy, sys
lib, sys.argv = sys.argv[1], ["test"] + sys.argv[2:]
inside = any(line.rstrip("\n").endswith(" " + lib) for line in open("/proc/self/maps"))
wanted = "LD_PRELOAD" in os.environ
if inside != wanted:
    sys.exit("the library is %s this process" % ("in" if inside else "not in"))
runpy.run_module("test", run_name="__main__")
END

python_run() {
    local name=$1 rc=0
    shift
    mkdir "$work/$name"
    # shellcheck disable=SC2086
    (cd "$work/$name" && exec env PYTHONMALLOC=malloc PYTHONHASHSEED=7 "$@" "$python" "$work/main.py" "$lib" \
        -j2 --timeout 240 --tempdir "$work/$name" --junit-xml "$work/$name.xml" $tests) \
        >"$work/$name.text" 2>&1 </dev/null || rc=$?
    echo "$rc" >"$work/$name.rc"
    [ -s "$work/$name.xml" ] || {
        tail -n 30 "$work/$name.text" >&2
        fail "the $name run wrote no results (status $rc)"
    }
    "$python" "$test_source/python_cases.py" "$work/$name.xml" >"$work/$name.cases"
}

python_run preloaded LD_PRELOAD="$lib"
cases=$(wc -l <"$work/preloaded.cases")
[ "$cases" -gt $least ] || fail "the run holds only $cases test cases: the test is wrong here"
if [ "$TEST_SCALE" != full ] && [ "$(cat "$work/preloaded.rc")" = 0 ] &&
    ! grep -qE 'failure|error' <(awk '{print $NF}' "$work/preloaded.cases"); then
    alike="pass or are skipped"
else
    alike="end alike, status $(cat "$work/preloaded.rc")"
    python_run plain
fi
if [ -e "$work/plain.rc" ] && { ! cmp -s "$work/plain.cases" "$work/preloaded.cases" || ! cmp -s "$work/plain.rc" "$work/preloaded.rc"; }; then
    diff "$work/plain.cases" "$work/preloaded.cases" | head -n 20 >&2 || true
    grep -nE 'FAIL|ERROR|failed|crashed|Error:' "$work/preloaded.text" | head -n 30 >&2 || true
    fail "python's tests end otherwise with the library (status $(cat "$work/plain.rc") plain," \
        "$(cat "$work/preloaded.rc") preloaded)"
fi
say "$cases test cases $alike"

python_story() {
    export PYTHONMALLOC=malloc
    /usr/bin/python3 - <<'END'
import hashlib, threading, multiprocessing, random
words = ["%x" % (i * 2654435761 % 2**32) for i in range(20000)]
out = [None] * 4
def work(k):
    table = {}
    for i, w in enumerate(words):
        table.setdefault(w[: 2 + (i + k) % 3], []).append((w, [i] * (i % 40)))
    out[k] = hashlib.sha256(repr(sorted(table.items())).encode()).hexdigest()
threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print("\n".join(out))
def square(n):
    return sum(len(bytes(i)) for i in range(n))
with multiprocessing.get_context("fork").Pool(3) as pool:
    print(pool.map(square, range(400, 440)))
END
}
both script python_story
proved script python_story python3
