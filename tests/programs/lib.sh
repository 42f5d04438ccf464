# shellcheck shell=bash disable=SC2034 # variables are used by the scripts that source this
# lib.sh - what the program tests share: the library under test, a private directory, and the
# comparison of a plain run with a preloaded one. Sourced by every test script, never run.
#
# A test is called as `test.sh /path/to/libnumalloc.so [...]`, or with NUMALLOC_LIB in the
# environment. Exit status: 0 passed, 1 failed (one line on stderr says what), 77 skipped (the line
# says which program or right is missing).
#
# A scenario is a bash function. `both NAME FUNCTION` runs it in a new bash twice, in a directory of
# the same name (so that paths in the output are equal): once plain, once with LD_PRELOAD set, bash
# itself included. Standard output, standard error and exit status must not differ.
# `proved NAME FUNCTION PROGRAM...` runs it a third time with the dynamic linker's own record of
# symbol bindings, and requires that each PROGRAM took malloc from the library. The scenario sees
# SCALE=small in the run that only proves, whose record is long; else TEST_SCALE: full in the nightly
# script, usual otherwise.

export LC_ALL=C TZ=UTC
unset LD_PRELOAD LD_LIBRARY_PATH LD_DEBUG LD_DEBUG_OUTPUT PYTHONPATH PYTHONHOME NODE_OPTIONS XDG_CACHE_HOME
export TEST_SCALE=${TEST_SCALE:-usual}
unset "${!NUMALLOC_PROFILE@}" NUMALLOC_STATS NUMALLOC_POLICY
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
test_name=${TEST_NAME:-$(basename "$0" .sh)}
test_source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() {
    printf '%s: FAILED: %s\n' "$test_name" "$*" >&2
    exit 1
}

skip() {
    printf '%s: skipped: %s\n' "$test_name" "$*" >&2
    exit 77
}

say() { printf '%s: %s\n' "$test_name" "$*"; }

# has PATTERN...: grep -q for a pipe's end. grep -q leaves at the first hit, and who still writes fails.
has() { grep "$@" >/dev/null; }

# need PROGRAM PACKAGE...: pairs; a missing program skips the test.
need() {
    while [ $# -ge 2 ]; do
        command -v "$1" >/dev/null || skip "program '$1' is missing; install the package '$2'"
        shift 2
    done
}

lib=${1:-${NUMALLOC_LIB:-}}
[ -n "$lib" ] || fail "no library given; usage: $0 /path/to/libnumalloc.so"
[ -r "$lib" ] || fail "cannot read the library '$lib'; build it first"
# The linker's records and /proc/PID/maps name the file that a link leads to only in part; a path
# without links is the same in both.
lib=$(readlink -f "$lib")
unset NUMALLOC_LIB # no option of the library: it would warn of the name

work=$(mktemp -d "${TMPDIR:-/tmp}/numalloc-$test_name.XXXXXX")
# What a test must undo itself (a mount, a server) it adds to this list of commands.
at_end=()
finish() {
    local status=$? step
    for step in "${at_end[@]+"${at_end[@]}"}"; do eval "$step" || true; done
    if [ -n "${KEEP:-}" ]; then echo "$test_name: kept $work" >&2; else rm -rf "$work"; fi
    exit "$status"
}
trap finish EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
mkdir "$work/home"
export HOME=$work/home

# A run that hangs is ended (status 124) and so fails the comparison.
# scenario_run DIR_OF_RESULTS FUNCTION [NAME=VALUE...]: the status goes to DIR/rc, never to the caller.
scenario_run() {
    local to=$1 function=$2 rc=0
    shift 2
    mkdir -p "$to"
    rm -rf "$work/run"
    mkdir "$work/run"
    (cd "$work/run" && exec timeout -k 5 "${LIMIT_S:-600}" env "$@" /bin/bash -c "set -euo pipefail
$(declare -f "$function")
$function") >"$to/out" 2>"$to/err" </dev/null || rc=$?
    echo "$rc" >"$to/rc"
}

# What a failed comparison shows: where, and the first lines that differ.
compare_runs() {
    local name=$1 plain=$2 with=$3 part
    for part in rc out err; do
        cmp -s "$plain/$part" "$with/$part" && continue
        {
            echo "--- $name: $part, plain (<) and preloaded (>):"
            diff "$plain/$part" "$with/$part" | cut -c1-300 | head -n 30 || true
            echo "--- $name: end of standard error of the preloaded run:"
            tail -n 15 "$with/err" | cut -c1-300
        } >&2
        fail "$name: $part differs between the plain and the preloaded run"
    done
}

both() {
    local name=$1 function=$2 begin mid end
    shift 2
    begin=$(date +%s%3N)
    scenario_run "$work/$name.plain" "$function" SCALE="$TEST_SCALE" "$@"
    mid=$(date +%s%3N)
    [ "$(cat "$work/$name.plain/rc")" = 0 ] || {
        tail -n 15 "$work/$name.plain/err" >&2
        fail "$name: the plain run itself fails (status $(cat "$work/$name.plain/rc")): the test is wrong here"
    }
    [ -s "$work/$name.plain/out" ] || fail "$name: the plain run printed nothing to compare"
    scenario_run "$work/$name.lib" "$function" SCALE="$TEST_SCALE" LD_PRELOAD="$lib" "$@"
    end=$(date +%s%3N)
    compare_runs "$name" "$work/$name.plain" "$work/$name.lib"
    say "$name: same output ($(wc -l <"$work/$name.plain/out") lines) and status;" \
        "$((mid - begin)) ms plain, $((end - mid)) ms preloaded"
}

# bound PROGRAM DIR: some process called PROGRAM in the linker's records took malloc from the library.
bound() {
    cat "$2"/ld.* 2>/dev/null | awk -v program="$1" -v lib="$lib" '
        $2 == "binding" && $3 == "file" && $6 == "to" && $7 == lib {
            for (i = 8; i <= NF; i++) if ($i ~ /^`(malloc|calloc|realloc|free)'\''$/) {
                name = $4; sub(/.*\//, "", name)
                if (name == program) found = 1
            }
        }
        END { exit !found }'
}

proved() {
    local name=$1 function=$2 program
    shift 2
    mkdir -p "$work/$name.ld"
    scenario_run "$work/$name.proof" "$function" SCALE=small LD_PRELOAD="$lib" \
        LD_DEBUG=bindings LD_DEBUG_OUTPUT="$work/$name.ld/ld"
    [ "$(cat "$work/$name.proof/rc")" = 0 ] || {
        tail -n 15 "$work/$name.proof/err" >&2
        fail "$name: the small preloaded run fails with status $(cat "$work/$name.proof/rc")"
    }
    for program in "$@"; do
        bound "$program" "$work/$name.ld" ||
            fail "$name: no process '$program' took malloc from $lib: it was not under test"
    done
    say "$name: malloc came from the library in: $*"
    rm -rf "$work/$name.ld"
}

# await CONDITION: until the shell's words are true; for the event, so the limit is one that only a hang meets.
await() {
    local await_end=$((SECONDS + 150))
    until eval "$1"; do
        [ $SECONDS -lt $await_end ] || fail "in 150 s it has not come to: $1"
        sleep 0.05
    done
}

# mapped PID: the library is in the address space of a running process.
mapped() { grep -qF " $lib" "/proc/$1/maps"; }
