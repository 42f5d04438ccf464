#!/bin/bash
# probes.sh LIBRARY - the probes of what is sampled: there, with their names and one counter of listeners,
# also when the library is stripped; and what a tracer gets of them, through the kernel's uprobes.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
need gcc gcc readelf binutils strip binutils

strip -o "$work/stripped.so" "$lib"
for file in "$lib" "$work/stripped.so"; do
    # "numalloc:alloc LOCATION SEMAPHORE 8@%rax 8@..."
    readelf -n "$file" | awk '
        $1 == "Provider:" { provider = $2 }
        $1 == "Name:" { name = $2 }
        $1 == "Location:" { gsub(",", ""); location = $2; counter = $6 }
        $1 == "Arguments:" { sub(/^ *Arguments: */, ""); print provider ":" name, location, counter, $0 }' >"$work/notes"
    names=$(cut -d' ' -f1 "$work/notes" | sort | xargs)
    [ "$names" = "numalloc:alloc numalloc:free numalloc:sample otel_memory:alloc otel_memory:free" ] ||
        fail "$file: its probes are $names"
    [ "$(cut -d' ' -f3 "$work/notes" | sort -u | wc -l)" = 1 ] || fail "$file: more than one counter"
    ! grep -q ' 0x0*  *8@' "$work/notes" || fail "$file: a probe without a counter"
done
[ "$(uname -m)" = x86_64 ] || skip "arguments are read on x86-64"

cat >"$work/app.c" <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void *volatile kept[3];
__attribute__((noinline)) static void *of_site(size_t size) { return malloc(size); }
static void *other(void *unused) {
    free(kept[0]);
    return unused;
}
int main(void) {
    pthread_t thread;
    kept[0] = of_site(5000);
    kept[1] = of_site(777777);
    memset(kept[1], 1, 777777);
    printf("%lu %lu\n", (unsigned long)kept[0], (unsigned long)kept[1]);
    pthread_create(&thread, NULL, other, NULL);
    pthread_join(thread, NULL);
    kept[2] = kept[1];
    kept[1] = realloc(kept[1], 777000);
    printf("%lu\n", (unsigned long)kept[1]);
    free(kept[1]);
}
END
gcc -O1 -fno-builtin -pthread "$work/app.c" -o "$work/app"
gcc -Wall -O1 "$test_source/probes_reader.c" -o "$work/reader"

cp "$lib" "$work/lib.so" # which nobody else runs with
watch=()
while read -r name location counter arguments; do watch+=("$name" "$location" "$counter" "$arguments"); done <"$work/notes"
run() { # MODE: what the probes say is in hits, what the program says in said
    local status=0
    "$work/reader" "$work/lib.so" "${watch[@]}" -- /usr/bin/env NUMALLOC_PROFILE="$1" NUMALLOC_PROFILE_FILE="$work/p.nprof" \
        LD_PRELOAD="$work/lib.so" /bin/sh -c 'exec "$0" >"$1"' "$work/app" "$work/said" >"$work/hits" 2>"$work/err" || status=$?
    [ $status != 77 ] || skip "the kernel gives no uprobes: $(cat "$work/err")"
    [ $status = 0 ] || fail "status $status: $(cat "$work/err")"
    grep -q lost "$work/hits" && fail "hits are lost"
    read -r first second <"$work/said"
    resized=$(tail -n 1 "$work/said")
}
has_hit() { grep -Eqx "$1" "$work/hits" || fail "no hit '$1' among: $(grep -E "$first|$second" "$work/hits")"; }
run sample,sample_interval=0
# Every block is drawn: each stands for itself. The site is one, the threads two.
has_hit "numalloc:alloc [0-9]+ [0-9]+ 5000 $first [0-9]+"
has_hit "numalloc:alloc [0-9]+ [0-9]+ 777777 $second [0-9]+"
has_hit "numalloc:free [0-9]+ [0-9]+ 5000 $first [0-9]+"
has_hit "numalloc:free [0-9]+ [0-9]+ 777777 $second [0-9]+"
has_hit "numalloc:alloc [0-9]+ [0-9]+ 777000 $resized [0-9]+"
has_hit "numalloc:free [0-9]+ [0-9]+ 777000 $resized [0-9]+"
has_hit "otel_memory:alloc [0-9]+ $first 5000 5000"
has_hit "otel_memory:alloc [0-9]+ $second 777777 777777"
has_hit "otel_memory:free [0-9]+ $first"
site() { awk -v hit="$1" -v block="$2" '$1 == hit && $5 == block { print $3; exit }' "$work/hits"; }
tid() { awk -v hit="$1" -v block="$2" '$1 == hit && $5 == block { print $2; exit }' "$work/hits"; }
[ "$(site numalloc:alloc "$first")" != "$(site numalloc:alloc "$second")" ] || fail "two calls are one site"
[ "$(site numalloc:alloc "$first")" = "$(site numalloc:free "$first")" ] || fail "a block's site changes"
[ "$(tid numalloc:alloc "$first")" != "$(tid numalloc:free "$first")" ] || fail "another thread freed it"
# An address lives once at a time, for who follows blocks by it.
awk '$1 == "otel_memory:alloc" { allocs[$3]++ } $1 == "otel_memory:free" { frees[$3]++ }
     END { for (block in frees) if (frees[block] > allocs[block]) { print block; exit 1 } }' "$work/hits" ||
    fail "a block is freed more often than allocated"
# Each of many stands for more than itself; elsewhere nothing is said.
run sample
! grep -q "otel_memory:alloc [0-9]* [0-9]* 5000 5000$" "$work/hits" || fail "a drawn block has no weight"
run sites
[ ! -s "$work/hits" ] || fail "mode sites speaks: $(head -n 3 "$work/hits")"
