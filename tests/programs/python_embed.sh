#!/bin/bash
# python_embed.sh LIBRARY NUMALLOC_DUMP - Python frames in a program that embeds CPython: what it allocates
# by itself, between calls of Python code and outside of any, is at its own functions, to the block, and
# what Python code allocates at its lines. Preloaded, and linked with the library.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
. "$(dirname "$0")/python_lib.sh"
need pkg-config pkgconf
pkg-config --exists python3-embed || skip "no libpython to embed; install the package 'libpython3-dev'"
is_known "$(pkg-config --modversion python3-embed)" || skip "no $python_known to embed"

# shellcheck disable=SC2046 # lists of options
cc -std=gnu17 -g -O1 -fno-builtin "$test_source/python/embed.c" -o "$work/embed" $(pkg-config --cflags --libs python3-embed) ||
    fail "the compiler does not build embed.c"
# shellcheck disable=SC2046
cc -std=gnu17 -g -O1 -fno-builtin "$test_source/python/embed.c" -o "$work/linked" "$lib" -Wl,-rpath,"$(dirname "$lib")" \
    $(pkg-config --cflags --libs python3-embed) || fail "embed.c cannot be linked with the library"

check() { # NAME PROFILE
    "$dump" functions "$2" --csv --top 0 --sort total >"$work/functions"
    "$dump" source "$2" --csv --top 0 >"$work/lines"
    /usr/bin/python3 - "$work" <<'END' || fail "$1: not what the program allocated"
import csv, sys
def rows(name): return list(csv.DictReader(open("%s/%s" % (sys.argv[1], name))))
own = [r for r in rows("functions") if r["function"] == "own_blocks"]
assert len(own) == 1, own
assert (float(own[0]["allocations"]), float(own[0]["total_bytes"])) == (500, 500 * 1000), own
made = [r for r in rows("lines") if r["file"] == "/made.py" and r["line"] == "6"]
assert len(made) == 1, made
assert (float(made[0]["allocations"]), float(made[0]["total_bytes"])) == (500, 500 * 3033), made
END
    say "$1: 500 blocks at own_blocks, 500 at a line of Python"
}

for mode in sites trace; do
    rm -f "$work"/p.nprof* "$work"/l.nprof*
    NUMALLOC_PYTHON=1 NUMALLOC_PROFILE=$mode NUMALLOC_PROFILE_FILE="$work/p.nprof" LD_PRELOAD="$lib" "$work/embed" counts >"$work/out" ||
        fail "$mode: the program fails"
    grep -qx '500 blocks' "$work/out" || fail "$mode: the program said $(cat "$work/out")"
    check "preloaded, $mode" "$work/p.nprof"
    NUMALLOC_PYTHON=1 NUMALLOC_PROFILE=$mode NUMALLOC_PROFILE_FILE="$work/l.nprof" "$work/linked" counts >"$work/out" ||
        fail "$mode: the program that was linked with the library fails"
    check "linked, $mode" "$work/l.nprof"
done
