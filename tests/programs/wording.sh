#!/bin/bash
# wording.sh - what the tools say: versions, what a mistyped word may mean, numbers with their nouns.
# Usage: wording.sh LIBRARY NUMALLOC_RUN NUMALLOC_DUMP NUMALLOC_BENCH NUMALLOC_SHIP.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
run=$2 dump=$3 bench=$4 ship=$5
need gcc gcc
[ -x /usr/bin/python3 ] || skip "program '/usr/bin/python3' is missing; install the package 'python3'"
cd "$work"

# ---- versions: one for all
version=$("$dump" --version | sed -n 's/^numalloc-dump \([0-9.]*\),.*/\1/p')
[ -n "$version" ] || fail "numalloc-dump --version: $("$dump" --version)"
[ "$("$run" --version)" = "numalloc-run $version" ] || fail "numalloc-run --version: $("$run" --version)"
[ "$("$bench" --version)" = "numalloc-bench $version" ] || fail "numalloc-bench --version: $("$bench" --version 2>&1)"
[ "$("$ship" --dump "$dump" --version)" = "numalloc-ship $version" ] || fail "numalloc-ship --version: $("$ship" --dump "$dump" --version 2>&1)"

# ---- mistyped words
# hints TEXT WORD...: the command fails, and its one line says so.
hints() {
    local text=$1
    shift
    if "$@" >out 2>err; then fail "$*: succeeds"; fi
    grep -qF -- "$text" err || fail "$*: '$text' is not said: $(cat err)"
}
no_hint() {
    if "$@" >out 2>err; then fail "$*: succeeds"; fi
    ! grep -q 'did you mean' err || fail "$*: $(cat err)"
}
hints "did you mean --profile?" "$run" --proflie true
hints "did you mean --sample?" "$run" --smaple=64K true
no_hint "$run" --something true
hints "did you mean sites?" "$dump" sties x
hints "did you mean functions?" "$dump" help functons
hints "did you mean summary?" "$dump" sumary
hints "did you mean --filter?" "$dump" sites --flter=x x
no_hint "$dump" sites --top
no_hint "$dump" no-such.nprof
hints "there is no benchmark 'chrun', did you mean churn?" "$bench" chrun
hints "did you mean --objects?" "$bench" churn --objcets 3
hints "did you mean churn?" "$bench" compare chrun
hints "did you mean --rounds?" "$bench" compare --ronuds 3
hints "--set churn.foo=3: churn has no knob 'foo'" "$bench" compare --set churn.foo=3
hints "--set churn.thread=3: churn has no knob 'thread', did you mean threads?" "$bench" compare --set churn.thread=3
hints "--set churn.threads=x: --threads takes" "$bench" compare --set churn.threads=x
hints "there is no benchmark 'chrun', did you mean churn?" "$bench" compare --set chrun.threads=3
hints "did you mean --every?" "$ship" --url http://x --evrey 3 .
NUMALLOC_STAT=1 LD_PRELOAD=$lib /bin/true 2>err
grep -q 'did you mean NUMALLOC_STATS?' err || fail "an option of the library: $(cat err)"

# ---- of nothing and of one: no "1 blocks", no share of zero
printf 'int main(void) { return 0; }\n' >none.c
printf '#include <stdlib.h>\nvoid *volatile kept;\nint main(void) { kept = malloc(1); return 0; }\n' >one.c
nouns='allocations|frees|blocks|threads|nodes|samples|processes|files|rounds|objects|lines|modules|accesses|stacks|functions|pages|looks|times|rules|bytes|profiles|events'
for program in none one; do
    gcc -g -O0 -fno-builtin $program.c -o $program
    for mode in sites sample trace; do
        file=$program.$mode.nprof
        env NUMALLOC_PROFILE=$mode NUMALLOC_SAMPLE_INTERVAL=0 NUMALLOC_PROFILE_FILE=$file LD_PRELOAD="$lib" ./$program
        for view in $("$dump" help --names); do
            case $view in help | merge | bundle | top | object | json | csv | html) continue ;; diff) words=$file ;; *) words= ;; esac
            # shellcheck disable=SC2086
            "$dump" "$view" $file $words >shown 2>&1 || true
            if grep -naE "(^|[^a-z0-9_\"])-?(nan|inf)([^a-z]|\$)|(^|[^0-9.,])1 ($nouns)\\b|[a-z]sss" shown >wrong; then
                [ "$view" = globals ] && ! grep -q '^[0-9]*:All' wrong && continue # names of variables
                fail "$view of $file: $(head -n 3 wrong)"
            fi
        done
    done
done
say "versions, mistyped words, numbers with their nouns"
