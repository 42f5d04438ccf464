#!/bin/bash
# python_greenlets.sh LIBRARY NUMALLOC_DUMP - Python frames where greenlets switch to each other, in two
# threads: the profile has the same bytes as the interpreter says of its stacks.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
. "$(dirname "$0")/python_lib.sh"
python=/usr/bin/python3
"$python" -c 'import greenlet' 2>/dev/null || skip "greenlets are missing; install the package 'python3-greenlet'"
version=$(version_of "$python") || skip "no $python_known in $python"

points=400 modes=sites
[ "$TEST_SCALE" != full ] || points=1000 modes="sites trace"
for mode in $modes; do
    rm -f "$work/p.nprof"*
    NUMALLOC_PYTHON=1 NUMALLOC_PROFILE=$mode NUMALLOC_PROFILE_FILE="$work/p.nprof" PYTHONMALLOC=malloc LD_PRELOAD="$lib" \
        "$python" "$test_source/python/script_greenlets.py" "$work/points" $points 1 || fail "$version: the script fails"
    "$python" "$test_source/python/against_interpreter.py" "$dump" "$work/p.nprof" "$work/points" $points \
        without-faulthandler >"$work/said" || fail "$version, $mode: not the interpreter's: $(head -n 60 "$work/said")"
    say "$version, $mode: $(tail -n 1 "$work/said")"
done
