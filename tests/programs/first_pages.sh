#!/usr/bin/env bash
# first_pages.sh LIBNUMALLOC.SO PROGRAM - a small program runs nothing of the library that lies beyond
# its file's first 64 KiB, which is what the system maps at once (alloc/layout.ld).
#
# Callgrind names the functions that ran, nm where they lie. Of functions with the same name one
# will do. The program runs for some hundredths of a second: what is free for half a second is purged,
# by functions that lie elsewhere. On a machine that stops for so long it runs again: what belongs
# into the first pages runs every time.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
lib=$1 program=$2
need valgrind valgrind
need nm binutils
[ ! -e /sys/devices/system/node/node1 ] || skip "on a machine with several nodes more of it runs"

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

nm "$lib" | awk '$2 ~ /[tT]/ { print $1, $3 }' | sort >"$directory/symbols"

# far KIND: the functions that ran beyond the first pages; in $directory/places all that ran.
far() {
    LD_PRELOAD=$lib valgrind --tool=callgrind --soname-synonyms=somalloc=nouserintercepts \
        --compress-strings=no --callgrind-out-file="$directory/out" "$program" "$1" 5000 \
        >"$directory/log" 2>&1 ||
        fail "$1 under callgrind: $(tail -n 1 "$directory/log")"
    # The library has no name there when its file is mapped in one piece.
    awk '/^ob=/ { ours = $0 == "ob=???" || /libnumalloc/ } ours && /^fn=/ { print substr($0, 4) }' \
        "$directory/out" | sort -u >"$directory/ran"
    awk 'NR == FNR { ran[$1]; next } $2 in ran && !($2 in at) { at[$2] = $1; print $1, $2 }' \
        "$directory/ran" "$directory/symbols" >"$directory/places"
    grep -q ' malloc$' "$directory/places" || fail "$1: callgrind saw no malloc of ours"
    awk '$1 >= "0000000000010000"' "$directory/places"
}

status=0
for kind in single mixed; do
    for _ in 1 2 3; do
        beyond=$(far "$kind")
        [ -n "$beyond" ] || break
    done
    printf '%s: %-6s %d functions of the library ran\n' "$test_name" "$kind" \
        "$(wc -l <"$directory/places")"
    if [ -n "$beyond" ]; then
        printf '%s: FAILED: %s: these are missing in alloc/layout.ld:\n%s\n' "$test_name" "$kind" \
            "$beyond" >&2
        status=1
    fi
done
exit "$status"
