#!/usr/bin/env bash
# musl.sh LIBNUMALLOC.SO SOURCES - the library compiles for musl without a warning, and programs of musl run
# with it: preloaded, and linked statically.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source=$2 # the library that is tested is another
need musl-gcc musl-tools

directory=$work
cmake -G Ninja -S "$source" -B "$directory/build" -DNUMALLOC_LIBC=musl -DNUMALLOC_WERROR=ON \
    >"$directory/log" 2>&1 || fail "it cannot be configured: $(tail -n 20 "$directory/log")"
cmake --build "$directory/build" -j2 >"$directory/log" 2>&1 ||
    fail "it does not compile: $(grep -A 3 -m 5 -E 'error|FAILED' "$directory/log")"
built=$directory/build

# The libraries have the names of those for glibc: installed as docs/musl.md says, they lie elsewhere.
DESTDIR=$directory/root cmake --install "$built" >"$directory/log" 2>&1 || fail "it cannot be installed: $(tail -n 5 "$directory/log")"
for library in libnumalloc.so libnumalloc.so.0 libnumalloc.a; do
    [[ -e $(echo "$directory"/root/usr/local/lib/*-linux-musl/$library) ]] || fail "no $library in lib/*-linux-musl"
done
[[ -z $(find "$directory/root" -name 'libnumalloc*' -not -path '*-linux-musl/*') ]] ||
    fail "a library is where one for glibc is: $(find "$directory/root" -name 'libnumalloc*')"

compile() { # NAME [OPTION...]
    local name=$1
    shift
    musl-gcc -std=gnu17 -O1 -Werror=implicit-function-declaration -D_GNU_SOURCE -fno-builtin -pthread -idirafter "$built/musl-include" \
        -I "$source" -I "$source/include" -I "$source/tests" "$source/tests/conform/$name.c" \
        -o "$directory/$name" "$@" 2>"$directory/log" ||
        fail "$name does not compile: $(head -n 5 "$directory/log")"
}

preloaded() { # [VARIABLE=VALUE...] NAME [ARGUMENT...]
    local settings=()
    while [[ $1 == *=* ]]; do
        settings+=("$1")
        shift
    done
    local name=$1
    shift
    env "LD_LIBRARY_PATH=$built" "LD_PRELOAD=$built/libnumalloc.so" "NA_TEST_LIB=$built/libnumalloc.so" \
        "${settings[@]+"${settings[@]}"}" "$directory/$name" "$@" >"$directory/out" 2>&1 ||
        fail "$name, preloaded: status $?: $(tail -n 5 "$directory/out")"
}

# Here musl's own malloc would pass most of these: that ours is the one that answers is seen first.
compile sizes
preloaded NUMALLOC_STATS=1 sizes
has numalloc <"$directory/out" || fail "numalloc is not the malloc of a program that it is preloaded into"

preload_only=(at_exit calloc_zero zero overlap realloc_paths pow2_align main_exits
    memory_refused no_proc tls_destructors sandbox)
for name in "${preload_only[@]}"; do
    compile "$name"
    preloaded "$name"
done
# These call what musl does not have, and we do.
for name in aligned limits handover heaps; do
    compile "$name" -L "$built" -lnumalloc
done
preloaded aligned
preloaded limits
preloaded handover 1
preloaded heaps
for name in errno_rules thread_churn stress realloc_storm fork_threads gives_back; do compile "$name"; done
preloaded errno_rules
preloaded thread_churn
preloaded stress 1
preloaded NUMALLOC_CHECK=1 stress 1
preloaded realloc_storm 1
preloaded fork_threads 100
preloaded gives_back large

# What is not there is said in one line, and the program runs.
for option in NUMALLOC_PROFILE=sites NUMALLOC_POLICY=/nonexistent; do
    preloaded "$option" errno_rules
    [[ $(grep -c "ignored: there are no" "$directory/out") == 1 ]] ||
        fail "$option: $(head -n 3 "$directory/out")"
done

for name in sizes errno_rules handover stress fork_threads; do
    arguments=()
    case $name in
    handover | stress) arguments=(1) ;;
    fork_threads) arguments=(100) ;;
    esac
    compile "$name" -static "$built/libnumalloc.a"
    NUMALLOC_STATS=1 "$directory/$name" "${arguments[@]+"${arguments[@]}"}" >"$directory/out" 2>&1 ||
        fail "$name, static: status $?: $(tail -n 5 "$directory/out")"
    has numalloc <"$directory/out" || fail "$name, static: numalloc is not its malloc"
done
