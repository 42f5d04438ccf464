#!/bin/bash
# dump_compare.sh - what is compared with what, and what is said of estimates: diff and check pair
# the functions of programs and libraries that were renamed or rebuilt, and never offsets of different
# builds; check judges a sampled profile by its interval; the first view says of each mode what is so.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
need gcc gcc strip binutils
cd "$work"

cat >lib.c <<'END'
#include <stdlib.h>
__attribute__((noinline)) char *from_library(size_t n) { char *p = malloc(n + EXTRA); __asm__ volatile("" : : "r"(p) : "memory"); return p; }
END
cat >main.c <<'END'
#include <stdlib.h>
char *from_library(size_t n);
char *volatile kept;
__attribute__((noinline)) static void from_program(size_t n) { kept = malloc(n + EXTRA); }
int main(void) {
    for (int i = 0; i < 2000; i++) {
        kept = from_library(3000);
        from_program(2000);
    }
    return 0;
}
END
# version NUMBER EXTRA: program app-NUMBER with library libit.so.1.NUMBER
version() {
    mkdir -p "v$1"
    gcc -O1 -DEXTRA="$2" -shared -fPIC -Wl,--build-id -Wl,-soname,libit.so.1 lib.c -o "v$1/libit.so.1.$1"
    gcc -O1 -DEXTRA="$2" -Wl,--build-id main.c "v$1/libit.so.1.$1" -o "app-$1"
}
profile() { # FILE MODE PROGRAM LIBRARY
    NUMALLOC_PROFILE=$2 NUMALLOC_SAMPLE_INTERVAL=${interval:-65536} NUMALLOC_PROFILE_FILE=$work/$1.nprof LD_PRELOAD="$lib $work/${4:-v1/libit.so.1.1}" "./$3" || fail "$3 in mode $2: status $?"
}
# changes OLD NEW: functions that changed, each with old and new bytes
changes() {
    "$dump" diff --csv --top 0 "$1.nprof" "$2.nprof" >csv || fail "diff $1 $2: status $?"
    /usr/bin/python3 -c 'import csv
for r in sorted(csv.DictReader(open("csv")), key=lambda r: r["function"]): print(r["function"], r["old"], r["new"], end="; ")'
}
is() { # WHAT EXPECTED SAID
    [ "$3" = "$2" ] || fail "$1: '$3', not '$2'"
}

version 1 0
version 2 100
profile one sites app-1
profile two sites app-2 v2/libit.so.1.2
is "another version" "from_library 6000000 6200000; from_program 4000000 4200000; " "$(changes one two)"
"$dump" diff one.nprof two.nprof >text
grep -q '^compared  *app-1 with app-2: both are the program$' text || fail "programs: $(head -n 8 text)"
grep -q '^compared  *libit.so.1.1 with libit.so.1.2: the same soname$' text || fail "libraries: $(head -n 8 text)"
rc=0
"$dump" check two.nprof --baseline one.nprof --fail-on-increase 1% >text || rc=$?
is "check" 1 $rc
grep -q '^  195 KiB more by from_library' text || fail "check names other functions: $(cat text)"

cp app-1 renamed
cp v1/libit.so.1.1 v1/other.so
profile same sites renamed v1/other.so
is "renamed" "" "$(changes one same)"
"$dump" diff one.nprof same.nprof >text
grep -q '^compared  *app-1 with renamed: the same build-id$' text || fail "renamed: $(head -n 8 text)"
say "diff: build-ids, sonames, and the two programs; renamed files are what they were"

# Without names there are offsets: they compare within one build only.
strip -s -o bare app-1
strip -s -o bare-renamed app-1
strip -s -o bare-2 app-2
profile bare sites bare
profile bare-renamed sites bare-renamed
profile bare-2 sites bare-2 v2/libit.so.1.2
is "offsets of one build" "" "$(changes bare bare-renamed)"
case "$(changes bare bare-2)" in
*"bare+0x"*"bare-2+0x"*) ;;
*) fail "offsets of two builds are taken for one function: $(changes bare bare-2)" ;;
esac
say "diff: offsets compare within one build only"

# Compilers number lambdas: one more in the middle renames others, and lines move.
lambdas() { # FOLDER LAMBDA: a program with one lambda more
    mkdir -p "$1"
    { echo '#include <cstdlib>'
      echo 'static void *volatile kept[1000]; static int count;'
      echo '__attribute__((noinline)) static void run(int n) {'
      echo "    auto first = [](int size) { kept[count++] = malloc(size); }; first(1000);"
      echo "    $2"
      echo '    auto second = [](long size) { kept[count++] = malloc(size); }; second(20000 * n);'
      echo '    auto third = [](long size) { kept[count++] = malloc(size); }; third(300000 * n);'
      echo '}'
      echo 'int main(int argc, char **) { run(argc); }'; } >"$1/lambdas.cpp"
    (cd "$1" && g++ -O0 -g -std=gnu++17 lambdas.cpp -o lambdas)
    profile "$1" sites "$1/lambdas"
}
if command -v g++ >/dev/null; then
    lambdas plain ""
    lambdas other $'auto more = [](short size) { kept[count++] = malloc(size); }; more(5000);\n\n'
    lambdas alike $'auto more = [](long size) { kept[count++] = malloc(size); }; more(5000);\n\n'
    is "a lambda more, of other parameters" "run(int)::{lambda(short)#1}::operator()(short) const 0 5000; " "$(changes plain other)"
    is "a lambda more, of the same" "run(int)::{lambda(long)#*}::operator()(long) const 320000 325000; " "$(changes plain alike)"
    is "a lambda less" "run(int)::{lambda(long)#*}::operator()(long) const 325000 320000; " "$(changes alike plain)"
    say "diff: lambdas by their order, or all together where that does not tell"
fi

# ---- estimates ----

interval=65536 profile drawn sample app-1
limits=$("$dump" summary --json drawn.nprof | /usr/bin/python3 -c 'import json, sys
peak = json.load(sys.stdin)["total"]["peak_bytes"]
print(int(peak * 0.5), int(peak * 0.999), int(peak * 2))')
read -r below near above <<<"$limits"
judge() { # EXPECTED_STATUS EXPECTED_TEXT OPTION...
    local status=$1 expected=$2 rc=0
    shift 2
    "$dump" check drawn.nprof "$@" >text || rc=$?
    is "check $*: $(head -n 1 text)" "$status" "$rc"
    grep -q "$expected" text || fail "check $*: $(cat text)"
}
judge 1 '^failed: peak > .*: bytes live at the peak is an estimate, .* +- ' --fail-if "peak>$below"
judge 0 '^not sure: peak > .*: bytes live at the peak is an estimate, .* +- ' --fail-if "peak>$near"
judge 0 '^ok: peak .* +- .*(estimates)$' --fail-if "peak>$above"
judge 0 '^ok: .*(estimates)$' --fail-if 'lost>0'
# Two draws of one program differ, and nothing grew. (One draw in 40 lies outside of the interval.)
[ "$below" -gt 0 ] || fail "nothing was drawn"
for draw in 1 2 3; do
    rm -f again.nprof
    interval=65521 profile again sample app-1
    rc=0
    "$dump" check drawn.nprof --baseline again.nprof --fail-on-increase 0.01% >text || rc=$?
    [ "$rc" != 0 ] || break
    rm drawn.nprof
    interval=65536 profile drawn sample app-1
done
is "check against draw $draw: $(head -n 1 text)" 0 "$rc"
grep -q '^ok: ' text || fail "check of two draws: $(cat text)"
say "check: a sample is judged by its interval"

profile trace trace app-1
first() { # PROFILE LINE: what the first view says
    "$dump" "$1.nprof" | sed -n "s/^$2  *//p"
}
grep -q '(known to within 64.0 KiB a thread)$' <<<"$(first one peak)" || fail "sites: $(first one peak)"
grep -q ' after the start$' <<<"$(first trace peak)" || fail "trace: $(first trace peak)"
grep -q '(an estimate, give or take [0-9]* %)$' <<<"$(first drawn peak)" || fail "sample: $(first drawn peak)"
is "run of a trace" exact "$("$dump" run trace.nprof | sed -n 's/^peak  *//p')"
is "run of a sample" "an estimate" "$("$dump" run drawn.nprof | sed -n 's/^peak  *//p')"
is "sites" "nothing: every event is in the figures" "$(first one 'not seen')"
is "sample" "nothing: every block that was drawn is in the figures" "$(first drawn 'not seen')"
say "the first view: a trace is exact, a sample an estimate"

# ---- threads: who allocated, and how many there were ----

cat >threads.c <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *allocates(void *a) {
    char *volatile p = malloc(1000);
    free(p);
    usleep(500000);
    return a;
}
static void *sleeps(void *a) {
    usleep(500000);
    return a;
}
int main(void) {
    pthread_t t[7];
    char *volatile p = malloc(10);
    free(p);
    for (int i = 0; i < 7; i++) pthread_create(&t[i], NULL, i < 4 ? allocates : sleeps, NULL);
    for (int i = 0; i < 20; i++) { /* the recorder looks when somebody allocates */
        p = malloc(10);
        free(p);
        usleep(15000);
    }
    for (int i = 0; i < 7; i++) pthread_join(t[i], NULL);
    return 0;
}
END
gcc -O1 -pthread threads.c -o threads
for mode in sites trace; do
    profile "threads-$mode" $mode threads
    is "threads, $mode" "5 that allocated or freed; at most 8 were seen at one time" "$(first "threads-$mode" threads)"
done
say "the first view: threads of the program, with those that never allocate, and none of the recorder's"
