#!/usr/bin/env bash
# first_pages.sh LIBNUMALLOC.SO PROGRAM - a small program runs and reads nothing of the library that
# lies beyond its file's first 64 KiB, which is what the system maps at once (alloc/layout.ld); one
# that takes some MiB nothing beyond the second.
#
# Valgrind's lackey tells each address, nm what lies there. The program runs for some hundredths of a
# second: what is free for half a second is purged, by functions that lie elsewhere. On a machine
# that stops for so long it runs again: what belongs into the first pages runs every time.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
lib=$1 program=$2
need valgrind valgrind
need nm binutils
[ ! -e /sys/devices/system/node/node1 ] || skip "on a machine with several nodes more of it runs"

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

nm "$lib" | sort >"$directory/symbols"
# What is mapped from the file's beginning on: code and constants.
length=$(readelf -lW "$lib" | awk '$1 == "LOAD" { print $6; exit }')

# far BYTES COMMAND...: what it came to beyond so much of the file, and where that is; in
# $directory/count how many addresses of the library it came to in all.
far() {
    local first=$1
    shift
    LD_PRELOAD=$lib valgrind --tool=lackey --basic-counts=no --trace-mem=yes -v -v \
        --log-file="$directory/log" "$@" </dev/null >"$directory/out" 2>&1 ||
        fail "$* under lackey: $(tail -n 1 "$directory/out")"
    awk -v length_of_it="$length" -v first="$first" -v count="$directory/count" '
        function number(hex, i, n) {
            sub(/^0x/, "", hex)
            for (i = 1; i <= length(hex); i++)
                n = n * 16 + index("0123456789abcdef", tolower(substr(hex, i, 1))) - 1
            return n
        }
        FILENAME ~ /symbols$/ { at[++symbols] = number($1); name[symbols] = $3; next }
        /Reading syms from .*libnumalloc/ { ours = 1 }
        ours && /svma/ {
            sub(/,/, "")
            base = number($5) - number($3)
            end = base + number(length_of_it)
            ours = 0
        }
        /^I  |^ [LSM] / && base > 0 && !($2 in seen) {
            seen[$2]
            address = number(substr($2, 1, index($2, ",") - 1))
            if (address < base || address >= end) next
            known++
            if (address < base + first) next
            for (i = 1; i < symbols && at[i + 1] <= address - base; i++) {
            }
            what = ($1 == "I" ? "runs " : "reads ") name[i]
            if (!(what in told)) printf "0x%x: %s\n", address - base, what
            told[what]
        }
        END { print known + 0 >count }' "$directory/symbols" "$directory/log"
    [ "$(cat "$directory/count")" -gt 1000 ] || fail "$*: lackey saw too little of the library"
}

export LC_ALL=C
status=0
check() { # BYTES COMMAND...
    for _ in 1 2 3; do
        beyond=$(far "$@")
        [ -n "$beyond" ] || break
    done
    printf '%s: %s %s: %d addresses of the library\n' "$test_name" "$(basename "$2")" "${*:3}" \
        "$(cat "$directory/count")"
    if [ -n "$beyond" ]; then
        printf '%s: FAILED: %s: beyond the first %d KiB (see alloc/layout.ld):\n%s\n' "$test_name" \
            "${*:2}" $(($1 / 1024)) "$beyond" >&2
        status=1
    fi
}
check 65536 "$program" single 1000
check 65536 "$program" mixed 1000
check 131072 sort --buffer-size=8M
exit "$status"
