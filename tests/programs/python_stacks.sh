#!/bin/bash
# python_stacks.sh LIBRARY NUMALLOC_DUMP SCRIPT - Python frames are those that the interpreter itself tells
# of, of every CPython of python_lib.sh. A script asks sys._current_frames(), and faulthandler where
# that is possible, at so many points; at each of these stacks the profile has the same bytes.
#
#   points        threads below calls of 34 kinds nested at random (generators, coroutines, callbacks
#                 of C, __del__, code that dies), in signal handlers, in an import
#   interpreters  several in a process: made and ended by threads at the same time, run by other threads
#                 than made them, one inside of another, with a GIL of their own and without. (Before
#                 3.11 nothing tells who runs an interpreter.)
#   greenlets     that switch to each other, in two threads
set -euo pipefail
TEST_NAME=python_$3
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
. "$(dirname "$0")/python_lib.sh"

# POINTS, of the nightly script; SEEDS of the nightly script; CPython's modules, one of which it needs
case $3 in
points) points=1000 full=1000 seeds_full="1 2 3 4 5" modules=sys alone=() ;;
interpreters) points=250 full=1000 seeds_full="1 2 3" modules="_interpreters _xxsubinterpreters" alone=(without-faulthandler) ;;
greenlets) points=400 full=1000 seeds_full=1 modules=greenlet alone=(without-faulthandler) ;;
*) fail "no script '$3'" ;;
esac
seeds=1 modes=sites
[ "$TEST_SCALE" != full ] || points=$full seeds=$seeds_full modes="sites trace"

has_one() { # PYTHON MODULE...
    local python=$1 module
    shift
    for module; do
        if "$python" -c "import $module" 2>/dev/null; then return 0; fi
    done
    return 1
}

# as_interpreter PYTHON VERSION MODE SEED
as_interpreter() {
    local python=$1 what="$2, $3" mode=$3 seed=$4
    rm -rf "$work/p.nprof"* "$work/points"*
    NUMALLOC_PYTHON=1 NUMALLOC_PROFILE=$mode NUMALLOC_PROFILE_FILE="$work/p.nprof" PYTHONMALLOC=malloc LD_PRELOAD="$lib" \
        "$python" "$test_source/python/script_$script.py" "$work/points" "$points" "$seed" || fail "$what: the script fails"
    /usr/bin/python3 "$test_source/python/against_interpreter.py" "$dump" "$work/p.nprof" "$work/points" "$points" \
        "${alone[@]+"${alone[@]}"}" >"$work/said" || fail "$what, seed $seed: not the interpreter's: $(head -n 60 "$work/said")"
    say "$what: $(tail -n 1 "$work/said")"
}

script=$3 ran=0
for python in "${pythons[@]}"; do
    version=$(version_of "$python") || continue
    case $script$version in interpreters3.9 | interpreters3.10) continue ;; esac
    # shellcheck disable=SC2086 # a list
    has_one "$python" $modules || continue
    for mode in $modes; do
        for seed in $seeds; do
            as_interpreter "$python" "$version" "$mode" "$seed"
            ran=$((ran + 1))
        done
    done
done
[ $ran != 0 ] || skip "no $python_known with one of: $modules (${pythons[*]}; greenlets: the package 'python3-greenlet')"
