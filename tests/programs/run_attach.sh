#!/usr/bin/env bash
# run_attach.sh LIBNUMALLOC.SO NUMALLOC-RUN - --attach: a process without numalloc is told how to be
# started, by a line that a shell takes as it is; one with numalloc, how it is profiled now.
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
run=$(realpath "$2")
cd "$work"
attach() { # STATUS PID
    local status=0
    "$run" --attach="$2" >out 2>err || status=$?
    [ "$status" -eq "$1" ] || fail "--attach=$2: status $status, not $1: $(cat out err)"
}
# A process is itself once it has executed its program: until then it is this shell.
begin() { # VARIABLE PROGRAM...
    env "$1" "${@:2}" >/dev/null 2>&1 & pid=$!
    at_end+=("kill $pid 2>/dev/null")
    await "tr '\\0' '\\n' </proc/$pid/cmdline | has -x 300 && grep -q sleep /proc/$pid/maps && grep -q 'libc' /proc/$pid/maps"
}
begin NONE= sh -c 'exec "$@"' "it's" sleep 300
attach 126 "$pid"
grep -q "^$pid cannot get numalloc any more: its blocks are the C library's" out || fail "$(cat out)"
grep -qx '    numalloc-run --later sleep 300' out || fail "no command: $(cat out)"

# Words that a shell would change come back as they were.
mkfifo wait
bash -c 'read -r line' "two words" "it's" '' <wait & pid=$!
exec 6>wait
at_end+=("kill $pid 2>/dev/null")
await "tr '\\0' '\\n' </proc/$pid/cmdline | has -x 'two words'"
attach 126 "$pid"
line=$(sed -n 's/^    numalloc-run --later //p' out)
eval "words=($line)"
[ "${words[3]}|${words[4]}|${words[5]}" = "two words|it's|" ] || fail "words: $line"

begin LD_PRELOAD="$lib" sleep 300
await 'mapped $pid'
attach 0 "$pid"
grep -q "^$pid runs with numalloc: numalloc-run --start=$pid " out || fail "$(cat out)"

attach 125 4194305
grep -qx 'numalloc-run: there is no process 4194305' err || fail "$(cat err)"
attach 125 x
[ "$(wc -l <err)" -eq 1 ] || fail "$(cat err)"
