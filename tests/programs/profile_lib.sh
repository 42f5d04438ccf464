# shellcheck shell=bash disable=SC2154 # variables come from lib.sh
# profile_lib.sh - what the profile tests share, after lib.sh: the program with known allocations, and
# questions to numalloc-dump. Usage of such a test: test.sh LIBRARY NUMALLOC_DUMP.

dump=${2:-${NUMALLOC_DUMP:-}}
unset NUMALLOC_DUMP
[ -n "$dump" ] || fail "no numalloc-dump given; usage: $0 /path/to/libnumalloc.so /path/to/numalloc-dump"
[ -x "$dump" ] || fail "cannot run '$dump'; build it first"
dump=$(readlink -f "$dump")
need cc gcc
[ -x /usr/bin/python3 ] || skip "program '/usr/bin/python3' is missing; install the package 'python3'"

cp "$test_source/profile_load.c" "$work/profile_load.c"
cc -std=gnu17 -g -O2 -pthread "$work/profile_load.c" -o "$work/profile_load" ||
    fail "the compiler does not build profile_load.c"
load=$work/profile_load

# profiled MODE OUTPUT ROLE [NAME=VALUE...]: runs profile_load under a profile. Its own line and
# status, 5, must be as always, and nothing may be said on stderr.
profiled() {
    local mode=$1 file=$2 role=$3 rc=0
    shift 3
    env NUMALLOC_PROFILE="$mode" NUMALLOC_PROFILE_FILE="$file" "$@" LD_PRELOAD="$lib" \
        "$load" "$role" >"$work/load.out" 2>"$work/load.err" || rc=$?
    [ "$rc" = 5 ] || fail "profile_load $role ends with status $rc under NUMALLOC_PROFILE=$mode: $(head -n 3 "$work/load.err")"
    grep -qx "done: $role" "$work/load.out" || fail "profile_load $role printed '$(head -n 3 "$work/load.out")'"
    [ ! -s "$work/load.err" ] || fail "unexpected on stderr of profile_load $role: $(head -n 3 "$work/load.err")"
}

# the_one PATTERN-WITH-DIRECTORY: the only file of that name, or the test fails.
the_one() {
    local found
    found=$(compgen -G "$1" || true)
    [ -n "$found" ] || fail "no profile was written as $1"
    [ "$(wc -l <<<"$found")" = 1 ] || fail "more than one profile matches $1: ${found//$'\n'/ }"
    printf '%s\n' "$found"
}

# check FILE EXPECTATION...: numalloc-dump's JSON must say so; see profile_check.py.
check() {
    local file=$1
    shift
    "$dump" --json "$file" >"$work/check.json" 2>"$work/check.err" ||
        fail "numalloc-dump --json ${file##*/} ends with status $?: $(head -n 3 "$work/check.err")"
    /usr/bin/python3 "$test_source/profile_check.py" "$work/check.json" "$work/profile_load.c" "$@" ||
        fail "$(basename "$file") is not as the program was"
}
