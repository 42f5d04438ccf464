#!/usr/bin/env bash
# one_node.sh LIBNUMALLOC.SO LIBNUMALLOC.SO-WITHOUT-NUMA INSTRUCTIONS EMPTY - on a machine with one
# node, NUMA support costs nothing.
#
# The library is compared with the same sources built with -DNUMALLOC_NUMA=OFF: malloc and free must
# be the same instructions, but for the addresses in them; pairs of both (slow paths, among them
# settles, included) and the start of a program may differ by 1 % in instructions executed.
# Callgrind counts them; what the kernel does is not counted, and is one small file read.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
lib=$1 without=$2 program=$3 empty=$4
need valgrind valgrind
need objdump binutils
[ "$(cat /sys/devices/system/node/online 2>/dev/null || echo 0)" = 0 ] ||
    skip "this machine has several nodes"

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
status=0

count() { # LIBRARY [OPTION] COMMAND... -> instructions of the whole run, or of a part of it
    local library=$1
    shift
    LD_PRELOAD=$library valgrind --tool=callgrind --soname-synonyms=somalloc=nouserintercepts \
        --callgrind-out-file="$directory/out" "$@" >"$directory/log" 2>&1 ||
        fail "$* under callgrind: $(tail -n 1 "$directory/log")"
    sed -n 's/^summary: //p; s/^totals: //p' "$directory/out" | head -n 1
}

compare() { # WHAT WITH WITHOUT
    local most=$(($3 + $3 / 100))
    printf '%s: %-32s %9d instructions, without NUMA %9d (%+d)\n' "$test_name" "$1" "$2" "$3" \
        $(($2 - $3))
    if [ "$2" -gt "$most" ]; then
        echo "$test_name: FAILED: $1 takes over 1 % more instructions than without NUMA" >&2
        status=1
    fi
}

# The instructions of a function, without addresses.
code() { # LIBRARY FUNCTION
    local start size
    read -r start size < <(nm -D -S --defined-only "$1" |
        awk -v name="$2" '{ sub(/@.*/, "", $4) } $4 == name { print $1, $2 }')
    objdump -d --no-show-raw-insn --no-addresses --start-address="0x$start" \
        --stop-address=$((16#$start + 16#$size)) "$1" |
        sed -n 's/<[^>]*>//g; s/0x[0-9a-f]*(%rip)/(%rip)/; s/#.*//
            s/^\(\s*\(j[a-z]*\|call\)\s*\).*/\1/; s/\s*$//; /^\t/p'
}

for function in malloc free; do
    code "$lib" $function >"$directory/with"
    code "$without" $function >"$directory/without"
    [ "$(wc -l <"$directory/with")" -ge 15 ] || fail "objdump does not show $function"
    if cmp -s "$directory/with" "$directory/without"; then
        echo "$test_name: $function: the same instructions"
    else
        echo "$test_name: FAILED: $function differs from the build without NUMA:" >&2
        diff "$directory/without" "$directory/with" >&2 || true
        status=1
    fi
done

for kind in single batch mixed realloc; do
    results=()
    for library in "$lib" "$without"; do
        results+=("$(count "$library" --toggle-collect=measured "$program" again $kind 100000)")
    done
    compare "100,000 pairs ($kind)" "${results[0]}" "${results[1]}"
done
compare "start, no malloc" "$(count "$lib" "$empty")" "$(count "$without" "$empty")"
compare "start, first malloc and free" "$(count "$lib" "$program" single 1)" \
    "$(count "$without" "$program" single 1)"
exit "$status"
