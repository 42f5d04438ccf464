#!/bin/bash
# python_stacks.sh LIBRARY NUMALLOC_DUMP - Python frames are those that the interpreter itself tells
# of, of every CPython of python_lib.sh.
#
# A script asks sys._current_frames() and faulthandler at 1,000 points where its threads are: below
# calls of 34 kinds nested at random (generators, coroutines, callbacks of C, __del__, code that
# dies), in signal handlers, in an import. At each of these stacks the profile has the same bytes.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
. "$(dirname "$0")/python_lib.sh"

points=1000 seeds=1 modes=sites
[ "$TEST_SCALE" != full ] || seeds="1 2 3 4 5" modes="sites trace"
ran=0
for python in "${pythons[@]}"; do
    version=$(version_of "$python") || continue
    for mode in $modes; do
        for seed in $seeds; do
            as_interpreter "$python" "$version" $mode script_points.py $points "$seed"
            ran=$((ran + 1))
        done
    done
done
[ $ran != 0 ] || skip "no $python_known in ${pythons[*]}"
