#!/bin/bash
# python_sanitized.sh LIBRARY EMBED - the recorder's Python frames under a sanitizer. A sanitizer build has
# no malloc to preload, and CPython is not built with it; so EMBED (python/embed.c) gives CPython the
# functions of this build as its allocators, and runs some of CPython's own tests with Python frames on
# stacks. They pass, and the sanitizer is silent.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
embed=$(readlink -f "$2")
"$embed" -c 'import test.test_frame' 2>/dev/null ||
    skip "python's own tests are missing; install the package 'libpython3.11-testsuite' (or that of this python3)"

tests="test_frame test_generators" modes="sites"
if [ "$TEST_SCALE" = full ]; then
    tests+=" test_coroutines test_asyncgen test_gc test_code test_contextlib test_weakref test_sys_settrace
        test_threadedtempfile test_thread test_re test_json test_dict"
    modes="sites trace sample"
fi
# Python's own leaks are not asked for.
export ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS:-}"
for mode in $modes; do
    mkdir -p "$work/$mode"
    # shellcheck disable=SC2086 # a list
    (cd "$work/$mode" && NUMALLOC_PYTHON=1 NUMALLOC_PROFILE=$mode NUMALLOC_SAMPLE_INTERVAL=4K \
        NUMALLOC_PROFILE_FILE="$work/$mode.nprof" exec "$embed" -m test --tempdir "$work/$mode" $tests) \
        >"$work/said" 2>&1 </dev/null || fail "$mode: $(tail -n 30 "$work/said")"
    if grep -nE 'Sanitizer|runtime error:|^numalloc: ' "$work/said" >"$work/wrong"; then
        fail "$mode: $(head -n 20 "$work/wrong")"
    fi
    # Names and files of code are in the profile as they are.
    has -a 'test_generators.py' "$work/$mode.nprof" || fail "$mode: the profile has no Python frames"
    say "$mode: $(wc -w <<<"$tests") of CPython's tests pass"
done
