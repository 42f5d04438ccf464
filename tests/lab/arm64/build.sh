#!/usr/bin/env bash
# build.sh DIRECTORY - the library and the programs of the lab for 64-bit ARM, by Debian's cross
# compiler, into DIRECTORY. Exit status 77, and a line, where that is missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../../.." && pwd)
[[ $# -eq 1 ]] || {
    echo "usage: tests/lab/arm64/build.sh DIRECTORY" >&2
    exit 2
}
command -v aarch64-linux-gnu-gcc >/dev/null || {
    echo "lab: aarch64-linux-gnu-gcc is missing: install gcc-aarch64-linux-gnu (scripts/setup.sh arm64)" >&2
    exit 77
}
mkdir -p "$1"
to=$(cd "$1" && pwd)
fail() {
    echo "lab: not built for 64-bit ARM: $*" >&2
    exit 1
}

zlib=$top/build/lab-arm64/libz.a
options=()
[[ ! -r $zlib ]] || options+=("-DNUMALLOC_STATIC_ZLIB=$zlib")
# (zlib's headers are this machine's: they are the same.)
cmake -G Ninja -S "$top" -B "$to/library" -DCMAKE_TOOLCHAIN_FILE="$top/cmake/aarch64.cmake" \
    -DNUMALLOC_DUMP=OFF -DNUMALLOC_TESTS=OFF -DNUMALLOC_WERROR=ON "${options[@]+"${options[@]}"}" \
    >"$to/log" 2>&1 || fail "cmake: $(tail -n 3 "$to/log")"
cmake --build "$to/library" -j "$(nproc)" --target numalloc >"$to/log" 2>&1 ||
    fail "$(grep -A 3 -m 3 -E 'error|FAILED' "$to/log")"

# The library that holds each stack against a walk that keeps nothing, and dies where they differ.
cmake -G Ninja -S "$top" -B "$to/checks" -DCMAKE_TOOLCHAIN_FILE="$top/cmake/aarch64.cmake" \
    -DNUMALLOC_DUMP=OFF -DNUMALLOC_TESTS=OFF -DCMAKE_C_FLAGS=-DNA_STACKS_CHECK=1 >"$to/log" 2>&1 ||
    fail "cmake: $(tail -n 3 "$to/log")"
cmake --build "$to/checks" -j "$(nproc)" --target numalloc >"$to/log" 2>&1 ||
    fail "$(grep -A 3 -m 3 -E 'error|FAILED' "$to/log")"

compile() { # NAME [OPTION...] SOURCE...
    local name=$1
    shift
    aarch64-linux-gnu-gcc -std=gnu17 -g -O1 -D_GNU_SOURCE -fno-builtin -fno-optimize-sibling-calls -pthread \
        -I "$top" -I "$top/include" -I "$top/tests" "$@" -o "$to/$name" >"$to/log" 2>&1 ||
        fail "$name: $(head -n 5 "$to/log")"
}

# Those of tests/conform and of tests/lab that run here.
for name in sizes zero errno_rules aligned handover calloc_zero overlap realloc_paths pow2_align \
    limits thread_churn stress realloc_storm fork_threads tls_destructors at_exit; do
    compile "conform-$name" "$top/tests/conform/$name.c"
done
for name in churn moved first_touch api handoff; do
    compile "lab-$name" "$top/tests/lab/$name.c" "$top/tests/lab/lab.c"
done
# The compiler signs return addresses, or it does not.
compile plugin.so -shared -fPIC "$here/stacks_plugin.c"
compile stacks "$here/stacks.c"
compile stacks-signed -mbranch-protection=standard "$here/stacks.c"
for frame in 64 96; do
    compile plugin$frame.so -shared -fPIC -DFRAME=$frame "$top/tests/support/unwind_plugin.c"
done
compile stress "$top/tests/programs/stacks_stress.c"
compile stress-signed -mbranch-protection=standard "$top/tests/programs/stacks_stress.c"
compile watch "$here/watch.c"
compile lose "$here/lose.c"
