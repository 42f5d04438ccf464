#!/bin/bash
# python_interpreters.sh LIBRARY NUMALLOC_DUMP - Python frames where a process has several
# interpreters: made and ended by threads at the same time, run by other threads than made them, one
# inside of another, with a GIL of their own and without; of every CPython of python_lib.sh from 3.11
# on. The profile has the same bytes as each says of its own stack.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
. "$(dirname "$0")/python_lib.sh"

points=250 seeds=1 modes=sites
[ "$TEST_SCALE" != full ] || points=1000 seeds="1 2 3" modes="sites trace"
ran=0
for python in "${pythons[@]}"; do
    version=$(version_of "$python") || continue
    case $version in 3.9 | 3.10) continue ;; esac # nothing tells who runs an interpreter
    "$python" -c 'import _interpreters' 2>/dev/null || "$python" -c 'import _xxsubinterpreters' 2>/dev/null || continue
    for mode in $modes; do
        for seed in $seeds; do
            as_interpreter "$python" "$version" $mode script_interpreters.py $points "$seed" without-faulthandler
            ran=$((ran + 1))
        done
    done
done
[ $ran != 0 ] || skip "no $python_known in ${pythons[*]} that makes interpreters"
