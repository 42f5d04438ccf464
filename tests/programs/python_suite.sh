#!/bin/bash
# python_suite.sh LIBRARY NUMALLOC_DUMP - CPython's own tests of what frames are made of (generators,
# coroutines, threads, tracing, imports, signals, forks) with Python frames on the stacks of a profile,
# in each mode. Every case must end as it does without the library; every profile must be sound.
# Two cases of test_subprocess are left out: they list the descriptors that a process has open, and the
# profile's own is one. (They fail under a profile without Python frames, too, and pass without a profile.)
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
python=/usr/bin/python3
[ -x "$python" ] || skip "program '$python' is missing; install the package 'python3'"
"$python" -c 'import test.test_generators, test.test_threading' 2>/dev/null ||
    skip "python's own tests are missing; install the package 'libpython3.11-testsuite' (or that of this python3)"

tests="test_generators test_coroutines test_frame test_sys_settrace"
modes=sites least=200
if [ "$TEST_SCALE" = full ]; then
    tests+=" test_asyncgen test_traceback test_gc test_threading test_thread test_subprocess test_sys_setprofile test_code test_compile test_import
        test_importlib test_fork1 test_weakref test_ctypes test_re test_json test_dict test_faulthandler
        test_tracemalloc test_contextlib test_exceptions test_signal test_threadedtempfile
        test_multiprocessing_fork test_asyncio"
    modes="sites trace sample" least=3000
fi

suite() { # NAME [VARIABLE=VALUE]...
    local name=$1
    shift
    mkdir "$work/$name" "$work/$name.profiles"
    # shellcheck disable=SC2086 # a list
    (cd "$work/$name" && exec env PYTHONMALLOC=malloc PYTHONHASHSEED=7 "$@" "$python" -m test -j2 --timeout 900 \
        --ignore test_pass_fds_redirected --ignore test_close_fds_when_max_fd_is_lowered \
        --tempdir "$work/$name" --junit-xml "$work/$name.xml" $tests) >"$work/$name.text" 2>&1 </dev/null || true
    [ -s "$work/$name.xml" ] || fail "the $name run wrote no results: $(tail -n 30 "$work/$name.text")"
    "$python" "$test_source/python_cases.py" "$work/$name.xml" >"$work/$name.cases"
}

suite plain
cases=$(wc -l <"$work/plain.cases")
[ "$cases" -gt $least ] || fail "the run holds only $cases test cases: the test is wrong here"
for mode in $modes; do
    suite $mode LD_PRELOAD="$lib" NUMALLOC_PYTHON=1 NUMALLOC_PROFILE=$mode NUMALLOC_PROFILE_FILE="$work/$mode.profiles/"
    cmp -s "$work/plain.cases" "$work/$mode.cases" || {
        diff "$work/plain.cases" "$work/$mode.cases" | head -n 20 >&2 || true
        grep -nE '^(FAIL|ERROR)|Error:|crashed' "$work/$mode.text" | head -n 30 >&2 || true
        fail "python's tests end otherwise in mode $mode"
    }
    profiles=0
    for file in "$work/$mode.profiles"/*; do
        # A process that was killed, or ran another program, leaves a file that is not finished, or one
        # that has only just begun.
        "$dump" check "$file" >"$work/said" 2>&1 || [ $? -le 1 ] || has 'died before its profile began' <"$work/said" ||
            fail "$mode: $file: $(tail -n 3 "$work/said")"
        profiles=$((profiles + 1))
    done
    [ $profiles -gt 5 ] || fail "$mode: only $profiles profiles"
    rm -rf "$work/$mode.profiles"
    say "$mode: $cases test cases end alike, $profiles profiles"
done
