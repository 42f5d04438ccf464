#!/usr/bin/env bash
# aarch64.sh LIBNUMALLOC.SO SOURCES NUMALLOC-DUMP - the library compiles for 64-bit ARM without a warning, and
# programs run with it under emulation, with pages of 4 and of 64 KiB; profiles recorded there are read here.
# (tests/lab/arm64 has whole machines.)
#
# The emulator orders memory accesses as this machine does: what a weaker order does to the library is
# not seen here.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source=$2 dump=$3 # the library that is tested is another
need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
need qemu-aarch64 qemu-user

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

cmake -G Ninja -S "$source" -B "$directory/build" -DNUMALLOC_DUMP=OFF -DNUMALLOC_WERROR=ON \
    -DCMAKE_TOOLCHAIN_FILE="$source/cmake/aarch64.cmake" >"$directory/log" 2>&1 ||
    fail "it cannot be configured: $(tail -n 20 "$directory/log")"
cmake --build "$directory/build" -j2 --target numalloc numalloc_static >"$directory/log" 2>&1 ||
    fail "it does not compile: $(grep -A 3 -m 5 -E 'error|FAILED' "$directory/log")"
lib=$directory/build/libnumalloc.so

# What is asked of the root directory is answered by qemu-user's: it has the libraries, and a way to here.
mkdir "$directory/root"
ln -s /usr/aarch64-linux-gnu/lib "$directory/root/lib"
top=${directory#/}
ln -s "/${top%%/*}" "$directory/root/${top%%/*}"

# on BYTES [VARIABLE=VALUE...] -- COMMAND...: runs it on a system with pages of so many bytes.
on() {
    local options=(-p "$1" -L "$directory/root" -E "LD_PRELOAD=$lib")
    shift
    while [[ $1 != -- ]]; do
        options+=(-E "$1")
        shift
    done
    shift
    qemu-aarch64 "${options[@]}" "$@"
}

for name in sizes zero errno_rules aligned handover gives_back; do
    aarch64-linux-gnu-gcc -std=gnu17 -O1 -D_GNU_SOURCE -fno-builtin -fno-omit-frame-pointer -pthread \
        -I "$source" -I "$source/tests" "$source/tests/conform/$name.c" -o "$directory/$name"
    arguments=()
    [[ $name != gives_back ]] || arguments=(large)
    for page in 4096 65536; do
        on "$page" -- "$directory/$name" "${arguments[@]}" || fail "$name fails with pages of $page bytes"
    done
done

# The emulator has no Arm SPE: a line says so, and the program runs on.
for page in 4096 65536; do
    on "$page" NUMALLOC_PROFILE=sites NUMALLOC_ACCESS=spe "NUMALLOC_PROFILE_FILE=$directory/spe.nprof" -- \
        "$directory/errno_rules" >"$directory/out" 2>&1 || fail "errno_rules fails with access=spe: $(<"$directory/out")"
    [[ $(grep -c 'numalloc: no accesses; spe: the processor has no SPE' "$directory/out") == 1 ]] ||
        fail "no line says why there are no accesses: $(<"$directory/out")"
done

for mode in sites trace sites.65536 trace.65536; do
    profile=$directory/$mode.nprof
    page=${mode#*.} mode=${mode%.*}
    [[ $page != "$mode" ]] || page=4096
    on "$page" "NUMALLOC_PROFILE=$mode" "NUMALLOC_PROFILE_FILE=$profile" -- "$directory/errno_rules" ||
        fail "errno_rules fails in mode $mode"
    "$dump" check "$profile" >"$directory/out" || fail "$mode: $(<"$directory/out")"
    "$dump" folded "$profile" >"$directory/out" || fail "$mode: no view"
    grep -q main "$directory/out" || fail "mode $mode knows no function: $(<"$directory/out")"
done
