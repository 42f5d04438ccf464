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

# ask FILE: the JSON goes to $work/check.json; sets `status` (0 whole, 1 partial, else the test fails).
ask() {
    status=0
    timeout 300 "$dump" --json --stacks --top 0 "$1" >"$work/check.json" 2>"$work/check.err" || status=$?
    [ "$status" -le 1 ] ||
        fail "numalloc-dump --json ${1##*/} ends with status $status: $(head -n 3 "$work/check.err")"
}

as_expected() {
    /usr/bin/python3 "$test_source/profile_check.py" "$work/check.json" "$work/profile_load.c" "$@"
}

# check FILE EXPECTATION...: the profile is whole, and so (see profile_check.py); check_killed: it may
# say that something is missing.
check() {
    local file=$1
    shift
    ask "$file"
    [ "$status" = 0 ] || fail "${file##*/} is incomplete: $(head -n 3 "$work/check.err")"
    as_expected "$@" || fail "${file##*/} is not as the program was"
}

check_killed() {
    local file=$1
    shift
    ask "$file"
    as_expected "$@" || fail "${file##*/} is not as the program was"
}
