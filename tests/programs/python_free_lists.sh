#!/bin/bash
# python_free_lists.sh LIBRARY NUMALLOC_DUMP - where CPython's free lists keep memory at the line that
# dropped it, the summary and the leaks say so, and name that line; elsewhere they say nothing.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
. "$(dirname "$0")/python_lib.sh"

cat >"$work/handed.py" <<'SCRIPT'
import os
kept = []
def temporary():
    made = []
    for _ in range(60): made.append(MAKE)
def request():
    temporary()
    kept.append([MAKE for _ in range(60)])
for turn in range(500): request()
os._exit(0) # all is kept
SCRIPT

# told PYTHON VERSION MAKE WORD: a profile of such a program says of that type that it is handed on.
told() {
    sed "s/MAKE/$3/" "$work/handed.py" >"$work/run.py"
    NUMALLOC_PYTHON=1 NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=$work/p.nprof PYTHONMALLOC=malloc LD_PRELOAD="$lib" \
        "$1" "$work/run.py" || fail "$2, $3: the program fails"
    for view in summary leaks; do
        "$dump" $view "$work/p.nprof" >"$work/said" || fail "$2, $3: cannot be read"
        if [ -z "$4" ]; then
            if has '^Free lists' "$work/said"; then fail "$2, $3, $view: free lists, where there are none"; fi
            continue
        fi
        grep -A 2 '^Free lists' "$work/said" >"$work/lists" || fail "$2, $3, $view: nothing of free lists"
        has "dropped.*\b$4\b" "$work/lists" || fail "$2, $3, $view: says $(cat "$work/lists")"
        has 'run.py:' "$work/lists" || fail "$2, $3, $view: names no line: $(cat "$work/lists")"
    done
    rm -f "$work/p.nprof"
}

ran=0
for python in "${pythons[@]}"; do
    version=$(version_of "$python") || continue
    told "$python" "$version" '{}' dict
    told "$python" "$version" '[]' list
    told "$python" "$version" 'bytearray(600)' ''
    ran=$((ran + 1))
done
[ $ran != 0 ] || skip "no $python_known in ${pythons[*]}"
