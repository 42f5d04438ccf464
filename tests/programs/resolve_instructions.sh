#!/usr/bin/env bash
# resolve_instructions.sh LIBNUMALLOC.SO PROGRAM - the way from a sample's address to its block (page
# map, span, block's index, record, its time) stays at 40 instructions, warm; it takes 39 (inside of
# blocks above 4 MiB: 45). And what is no living block is not taken for one.
#
# Callgrind counts what na_access_resolve and all it calls execute for 10,000 and for 20,000
# addresses; the difference is theirs alone.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
program=$2
need valgrind valgrind

count() { # KIND COUNT -> instructions of all resolves
    NUMALLOC_PROFILE_FILE="$work/" valgrind --tool=callgrind --toggle-collect=na_access_resolve \
        --callgrind-out-file="$work/out" "$program" "$1" "$2" >"$work/log" 2>&1 ||
        fail "$1 under callgrind: $(tail -n 1 "$work/log")"
    sed -n 's/^summary: //p; s/^totals: //p' "$work/out" | head -n 1
}

NUMALLOC_PROFILE_FILE="$work/" "$program" edges || fail "edges"

status=0
for kind in small large; do
    few=$(count "$kind" 10000)
    many=$(count "$kind" 20000)
    tenths=$(((many - few) / 1000))
    printf '%s: %s: %d.%d instructions, at most 40.0\n' "$test_name" "$kind" \
        $((tenths / 10)) $((tenths % 10))
    if [ "$tenths" -lt 100 ] || [ "$tenths" -gt 400 ]; then
        echo "$test_name: FAILED: a resolve of a $kind block is not within 10 to 40 instructions" >&2
        status=1
    fi
done
exit "$status"
