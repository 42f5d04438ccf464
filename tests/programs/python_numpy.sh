#!/bin/bash
# python_numpy.sh LIBRARY NUMALLOC_DUMP - arrays of numpy by the lines that made them.
#
#   against tracemalloc   every block, with the same stack
#   by line               arrays and copies, to the byte; views have nothing
#   growth                between two copies of a profile, `diff --lines` names the line whose arrays are
#                         kept, though only small views of them are
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
. "$(dirname "$0")/python_lib.sh"
here="$test_source/python"
python=/usr/bin/python3
"$python" -c 'import numpy' 2>/dev/null || skip "numpy is missing; install the package 'python3-numpy'"
version_of "$python" >/dev/null || skip "no $python_known in $python"
# One thread: what a pool of them allocates is no array.
profiled() { # MODE FILE [NAME=VALUE...] COMMAND...
    local mode=$1 file=$2
    shift 2
    rm -f "$file"*
    env OPENBLAS_NUM_THREADS=1 NUMALLOC_PYTHON=1 NUMALLOC_PROFILE="$mode" NUMALLOC_PROFILE_FILE="$file" \
        LD_PRELOAD="$lib" "$@"
}

profiled trace "$work/t.nprof" PYTHONMALLOC=malloc "$python" "$here/under_tracemalloc.py" "$work/traces" 25 \
    "$here/script_numpy.py" || fail "the script fails under tracemalloc"
"$python" "$here/against_tracemalloc.py" "$dump" "$work/t.nprof" "$work/traces" 25 >"$work/said" ||
    fail "not what tracemalloc knows: $(head -n 30 "$work/said")"
say "against tracemalloc: $(head -n 1 "$work/said")"

for objects in malloc pymalloc; do
    profiled trace "$work/a.nprof" ARRAYS="$work/made" PYTHONMALLOC=$objects "$python" "$here/script_numpy.py" ||
        fail "the script fails in mode trace, PYTHONMALLOC=$objects"
    "$python" "$here/against_arrays.py" "$dump" "$work/a.nprof" "$work/made" >"$work/said" 2>&1 ||
        fail "PYTHONMALLOC=$objects: $(tail -n 3 "$work/said")"
    say "by line, PYTHONMALLOC=$objects: $(cat "$work/said")"
done

profiled sites "$work/s.nprof" ARRAYS="$work/made" "$python" "$here/script_numpy.py" || fail "the script fails in mode sites"
"$dump" diff --lines --sort live --csv --top 0 --skip '^(full|ones)$' "$work/s.nprof.1" "$work/s.nprof.2" >"$work/grown"
"$python" - "$work/grown" "$work/made" <<'END' || fail "the line that grows is not named: $(head -n 3 "$work/grown")"
import csv, json, sys
rows = list(csv.DictReader(open(sys.argv[1])))
grown = json.load(open(sys.argv[2]))["grown"]
first = rows[0]
assert first["file"].endswith("script_numpy.py") and int(first["line"]) == grown["at"], first
more = float(first["change"]) - grown["bytes"]
assert 0 <= more <= 30 * 64, (first, grown)  # beside the numbers: what tells an array's shape
assert sum(abs(float(row["change"])) for row in rows[1:]) < 0.02 * grown["bytes"], rows
END
say "growth between two copies: $(sed -n 2p "$work/grown")"
