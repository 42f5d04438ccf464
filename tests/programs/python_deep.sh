#!/bin/bash
# python_deep.sh LIBRARY NUMALLOC_DUMP - reading stacks that are deep below a Python frame, or of deep
# Python recursion, takes time in proportion to their depth, and all of them have their line.
#
# Callgrind counts instructions at three depths; from the first to the second as many are added as
# from the second to the third. (Where each stack is walked whole it is half as many again.)
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
need valgrind valgrind
python=/usr/bin/python3

cat >"$work/below.py" <<'SCRIPT'
import sys
sys.setrecursionlimit(10**6)
nested = []
for i in range(int(sys.argv[1])): nested = [nested]
assert len(repr(nested)) > 2
SCRIPT
cat >"$work/recursion.py" <<'SCRIPT'
import sys
sys.setrecursionlimit(10**6)
kept = []
def deeper(n):
    kept.append(bytearray(600))
    if n: deeper(n - 1)
deeper(int(sys.argv[1]))
SCRIPT

instructions() { # FILE
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$dump" sites --csv "$1" 2>&1 >/dev/null |
        sed -n 's/.*Collected : //p'
}

for script in below recursion; do
    counts=()
    for depth in 400 1200 2000; do
        profile=$work/$script.$depth.nprof
        NUMALLOC_PYTHON=1 NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=$profile PYTHONMALLOC=malloc \
            LD_PRELOAD="$lib" "$python" "$work/$script.py" $depth || fail "$script.py fails"
        "$dump" sites --csv "$profile" >"$work/csv" # names are kept from now on (--symbol-cache)
        counts+=("$(instructions "$profile")")
    done
    first=$((counts[1] - counts[0])) second=$((counts[2] - counts[1]))
    say "$script: ${counts[*]} instructions"
    [ $first -gt 0 ] || fail "$script: nothing was counted"
    [ $((second * 10)) -lt $((first * 12)) ] || fail "$script: $second more instructions after $first"
done
