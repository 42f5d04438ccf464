#!/usr/bin/env bash
# other_malloc.sh LIBNUMALLOC.SO NUMALLOC-DUMP - where somebody else's malloc comes before numalloc's,
# one line at the start and a warning of numalloc-dump name the library; where numalloc's is called,
# or nothing was asked for, nothing is said.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dump=$2
need cc gcc

source=$test_source/other_malloc.c
cc -std=gnu17 -fno-builtin -DPROGRAM -o "$work/brings" "$source"
cc -std=gnu17 -fno-builtin -DPROGRAM -o "$work/stripped" "$source" && strip "$work/stripped"
cc -std=gnu17 -fno-builtin -shared -fPIC -o "$work/libother.so" "$source"
cc -std=gnu17 -fno-builtin -shared -fPIC -DWATCHES -o "$work/libwatches.so" "$source"
printf 'int main(void) { return 0; }' | cc -x c - -o "$work/nothing"

# run PRELOAD PROGRAM [NAME=VALUE...]: standard error in $work/err
run() {
    local preload=$1 program=$2
    shift 2
    env LD_PRELOAD="$preload" "$@" "$program" >"$work/out" 2>"$work/err" </dev/null ||
        fail "$program with $preload ends with $?: $(cat "$work/err")"
}

# names CASE WHOM REMEDY: the one line is there
names() {
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail "$1: not one line: $(cat "$work/err")"
    grep -qF "numalloc: malloc is that of $2, not numalloc's" "$work/err" || fail "$1: $(cat "$work/err")"
    grep -qF "$3" "$work/err" || fail "$1: no remedy: $(cat "$work/err")"
}

silent() {
    [ ! -s "$work/err" ] || fail "$1: says $(cat "$work/err")"
}

profiled=(NUMALLOC_PROFILE=sites "NUMALLOC_PROFILE_FILE=$work/%e.%p.nprof")
for case in brings stripped; do
    rm -f "$work"/*.nprof
    run "$lib" "$work/$case" "${profiled[@]}"
    names "$case" "$work/$case" "build the program without"
    "$dump" warnings "$work/$case".*.nprof >"$work/warnings"
    grep -F "other-malloc" "$work/warnings" | has -F "malloc was that of $work/$case," ||
        fail "$case: numalloc-dump warnings: $(cat "$work/warnings")"
    "$dump" "$work/$case".*.nprof | has -F "malloc       that of $work/$case, not numalloc's" ||
        fail "$case: the summary says nothing"
done
say "a program's own malloc is named, by the line and in the file"

for mode in sample trace; do
    run "$work/libother.so:$lib" /bin/true NUMALLOC_PROFILE=$mode "NUMALLOC_PROFILE_FILE=$work/$mode.nprof"
    names "$mode" "$work/libother.so" "put libnumalloc.so.0 before it"
    "$dump" warnings "$work/$mode.nprof" | has -F "malloc was that of $work/libother.so," ||
        fail "$mode: numalloc-dump does not warn"
done
# A program that numalloc is linked into, preloaded as well: one of the two does what is asked for.
cc -std=gnu17 -x c - -x none "$(dirname "$lib")/libnumalloc.a" -pthread -o "$work/linked" <<'PROGRAM'
#include <stdlib.h>
int main(void) {
    void *volatile block = malloc(1000);
    free(block);
    return 0;
}
PROGRAM
run "$lib" "$work/linked" NUMALLOC_STATS=1 "${profiled[@]}"
[ "$(grep -c '^numalloc statistics' "$work/err")" -eq 1 ] || fail "linked and preloaded: $(cat "$work/err")"
! grep -F 'numalloc: ' "$work/err" || fail "linked and preloaded: it complains"
[ "$(find "$work" -name 'linked.*.nprof*' | wc -l)" -eq 1 ] || fail "linked and preloaded: not one profile"
run "$lib" "$work/linked" "${profiled[@]}"
silent "linked and preloaded"
say "a program that numalloc is linked into is its own"

run "$work/libother.so:$lib" /bin/true NUMALLOC_STATS=1
head -n 1 "$work/err" >"$work/first" && mv "$work/first" "$work/err"
names "an option" "$work/libother.so" "options do nothing"
say "a library that was preloaded before is named"

run "$lib:$work/libother.so" "$work/nothing" "${profiled[@]}"
silent "numalloc first"
run "$work/libwatches.so:$lib" "$work/nothing" "${profiled[@]}"
silent "a malloc that goes on to numalloc's"
! "$dump" warnings "$work"/nothing.*.nprof 2>/dev/null | has other-malloc || fail "numalloc-dump warns without need"
run "$work/libother.so:$lib" "$work/nothing"
silent "nothing was asked for"
run "$lib" "$work/brings" "${profiled[@]}" NUMALLOC_PROFILE_ONLY=another
silent "a program that is not to be profiled"
say "nothing is said where numalloc's malloc is called, or nothing was asked for"

# The real one: rustc brings an allocator. (What is in the search path may be rustup's, which picks it.)
home=$(getent passwd "$(id -u)" | cut -d: -f6)
rustc=$(ls -t "$home"/.rustup/toolchains/*/bin/rustc 2>/dev/null | head -n 1) || rustc=$(command -v rustc) || true
if [ -x "$rustc" ]; then
    echo 'fn main() {}' >"$work/a.rs"
    (cd "$work" && env LD_PRELOAD="$lib" NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/rust.%e.nprof" \
        "$rustc" --emit=metadata a.rs) 2>"$work/err" || fail "rustc: $(cat "$work/err")"
    "$dump" warnings "$work/rust.rustc.nprof" >"$work/warnings"
    if grep -q other-malloc "$work/warnings"; then names rustc "$(readlink -f "$rustc")" "build the program"; fi
    grep -q 'calls        0 allocations' <("$dump" "$work/rust.rustc.nprof") && ! grep -q other-malloc "$work/warnings" &&
        fail "rustc: the profile is empty, and nothing says why"
    say "rustc: $(grep other-malloc "$work/warnings" || echo "uses numalloc")"
fi
exit 0
