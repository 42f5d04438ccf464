#!/bin/bash
# fleet_ship.sh LIBRARY NUMALLOC_DUMP NUMALLOC_SHIP - dumps on a signal and by interval arrive at an
# HTTP server as it wants them, each once, whatever the server does meanwhile; what waits is bounded.
# The pprof that arrives is read by protoc.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
ship_program=$3
need protoc protobuf-compiler
cc -std=gnu17 -g -O1 -fno-builtin -Wall -Wextra "$test_source/fleet_load.c" -o "$work/app" ||
    fail "the compiler does not build fleet_load.c"
dir=$work/profiles got=$work/got
mkdir "$dir" "$got"
echo 200 >"$got/answer"
server=
begin_server() {
    rm -f "$got/port"
    /usr/bin/python3 "$test_source/ship_server.py" "$got" 2>"$work/server.err" 5>&- & server=$!
    await '[ -e "$got/port" ] || ! kill -0 $server'
    [ -e "$got/port" ] || fail "the test's server does not begin: $(cat "$work/server.err")"
}
begin_server
at_end+=('kill $server 2>/dev/null')
ship() { # STATUS OPTION...: of numalloc-ship
    local want=$1 rc=0
    shift
    "$ship_program" --dump "$dump" --url "http://127.0.0.1:$(cat "$got/port")" "$@" "$dir" >"$work/ship.out" 2>"$work/ship.err" || rc=$?
    [ "$rc" = "$want" ] && [ ! -s "$work/ship.out" ] || fail "numalloc-ship $*: status $rc, $(cat "$work/ship.err")"
    [ "$want" != 0 ] || [ ! -s "$work/ship.err" ] || fail "numalloc-ship $* says: $(cat "$work/ship.err")"
}
requests() { find "$got" -name '*.json' | wc -l; }
check_request() { # KIND NUMBER EXPECTATION...
    local kind=$1 number=$2
    shift 2
    PYTHONPATH=$test_source /usr/bin/python3 -B "$test_source/ship_check.py" "$test_source/exports" "$kind" "$got/$number" "$@" ||
        fail "request $number is not as it should be"
}

# ---- A process that dumps on SIGUSR2, every block drawn: its figures are known. ----
n=50 ms=$(date +%s%3N)
mkfifo "$work/in"
: >"$work/out" # is read at once
NUMALLOC_PROFILE=sample NUMALLOC_SAMPLE_INTERVAL=0 NUMALLOC_BACKGROUND=1 NUMALLOC_PROFILE_DUMP_SIGNAL=usr2 NUMALLOC_PROFILE_FILE=$dir \
    NUMALLOC_PROFILE_LABELS=service=shop,version=2.0 LD_PRELOAD=$lib "$work/app" lines $n <"$work/in" >"$work/out" & app=$!
exec 5>"$work/in"
at_end+=('kill $app 2>/dev/null')
serve() {
    local had
    had=$(wc -l <"$work/out")
    echo -n x >&5
    await "[ \$(wc -l <'$work/out') != $had ]"
}
# Beside it one that was not told which signal makes dumps: SIGUSR2 would end it.
NUMALLOC_PROFILE=sample NUMALLOC_PROFILE_FILE=$dir LD_PRELOAD=$lib sleep 300 & other=$!
at_end+=('kill $other 2>/dev/null')
serve
ship 0 --signal --label version=1 --label region=eu
kill -0 $other || fail "a process that takes no signal was sent one"
[ "$(requests)" = 1 ] || fail "$(requests) requests for one dump: $(ls "$dir")"
host=$(uname -n)
check_request pyroscope 1 "name.startswith('shop{')" "labels == {'version': '2.0', 'region': 'eu', 'host': '$host'}" \
    "samples == {**labels, 'service': 'shop'}" "sums['alloc_space']['web_keep'] == $n * 1000" \
    "sums['alloc_objects']['web_temp'] == 2 * $n" "sums['inuse_space']['main'] == $n * 1000" "'web_temp' not in sums['inuse_space'] or sums['inuse_space']['web_temp'] == 0" \
    "config['alloc_space']['aggregation'] == 'sum' and config['inuse_space']['aggregation'] == 'average'" \
    "$ms // 1000 <= int(query['from']) <= time / 1000 + 1" "headers['User-Agent'] == 'numalloc-ship'"
# The next dump: what was allocated since, and all that is live.
serve; serve
ship 0 --signal
check_request pyroscope 2 "sums['alloc_space']['web_keep'] == 2 * $n * 1000" "sums['inuse_space']['web_keep'] == 3 * $n * 1000" \
    "sums['alloc_objects']['web_temp'] == 4 * $n" "labels['version'] == '2.0'" "duration < 60000"
# Nothing new: nothing sent; the running processes' own profiles are left alone.
ship 0
[ "$(requests)" = 2 ] && [ "$(find "$dir" -maxdepth 1 -name '*.nprof*' | wc -l)" = 2 ] || fail "there is more: $(requests) requests, $(ls "$dir")"
say "dumps on SIGUSR2 arrive: labels, what was allocated since the dump before, what is live"

# ---- The server fails, refuses, is away. ----
serve
echo 503 >"$got/answer"
ship 1 --signal
grep -q "answers 503 .*: not today" "$work/ship.err" && [ "$(wc -l <"$work/ship.err")" = 1 ] || fail "a server that fails: $(cat "$work/ship.err")"
kill $server
wait $server 2>/dev/null || true
ship 1
grep -q "cannot be reached: " "$work/ship.err" && [ "$(wc -l <"$work/ship.err")" = 1 ] || fail "a server that is away: $(cat "$work/ship.err")"
mv "$got" "$got.before" && mkdir "$got" && echo hang >"$got/answer"
begin_server
ship 1 --timeout 1
echo 200 >"$got/answer"
ship 0
check_request pyroscope 1 "sums['alloc_space']['web_keep'] == $n * 1000" "sums['inuse_space']['web_keep'] == 4 * $n * 1000"
serve
echo 400 >"$got/answer"
ship 1 --signal
grep -q "is set aside: .* answers 400" "$work/ship.err" && [ "$(find "$dir" -name '*.refused' | wc -l)" = 1 ] || fail "a profile that is refused: $(cat "$work/ship.err"), $(ls "$dir")"
echo 200 >"$got/answer"
ship 0
[ "$(requests)" = 1 ] || fail "what was refused is sent again"
rm "$dir"/*.refused
say "a server that fails, hangs or is away loses nothing; what it refuses is set aside"

# ---- Other servers. ----
serve
echo "Authorization: Bearer secret" >"$work/headers"
ship 0 --signal --to parca --headers "$work/headers"
check_request parca 2 "labels == {'__name__': 'memory', 'service': 'shop', 'version': '2.0', 'host': '$host'}" "headers['Authorization'] == 'Bearer secret'" \
    "sums['alloc_space']['web_keep'] == 2 * $n * 1000"
serve
ship 0 --signal --to raw
check_request raw 3 "samples['service'] == 'shop'" "sums['alloc_space']['web_keep'] == $n * 1000" "sums['inuse_space']['web_keep'] == 7 * $n * 1000"
say "Parca's request, and the pprof alone"

# ---- The end: normal, and by a kill, which came while a part of the file was made: header.used says more than is there. ----
{ kill -9 $other; wait $other; } 2>/dev/null || true
/usr/bin/python3 -c '
import struct, sys
with open(sys.argv[1], "r+b") as file:
    file.seek(3072 + 32)
    used = struct.unpack("<Q", file.read(8))[0] + 4096
    file.seek(3072 + 32)
    file.write(struct.pack("<Q", used))
    file.truncate(max(used, file.seek(0, 2)))' "$(find "$dir" -name "numalloc.sleep.$other.*.nprof")"
ship 0
[ "$(requests)" = 3 ] || fail "the profile of a killed process is sent without --killed"
ship 0 --killed
[ "$(requests)" = 4 ] || fail "the profile of a killed process is not sent: $(ls "$dir")"
# A process that lives is told by its file's lock: its id is one of another namespace, or it has closed all that it had open.
cat >"$work/lives.c" <<'END'
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    void *volatile block = malloc(1000);
    free(block);
    close_range(3, ~0u, 0);
    for (;;) pause();
}
END
cc -O1 -fno-builtin "$work/lives.c" -o "$work/lives"
lives() { # WORD...: in front of the program
    (cd "$work" && exec env NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$dir/lives.nprof" "$@" LD_PRELOAD="$lib" ./lives) & living=$!
    at_end+=("kill -9 $living 2>/dev/null")
    await '[ "$("$dump" list --csv "$dir/lives.nprof" 2>/dev/null | wc -l)" = 2 ]'
    sleep 0.2
    ship 0 --killed
    [ -e "$dir/lives.nprof" ] || fail "the profile of a process that lives is taken for that of a killed one ($*)"
    { kill -9 $living; wait $living; } 2>/dev/null || true
    await 'ship 0 --killed && [ ! -e "$dir/lives.nprof" ]'
}
lives env
if unshare --pid --fork --mount-proc true 2>/dev/null; then
    # As process 2, not 1: that of this namespace can be looked at.
    lives unshare --pid --fork --kill-child --mount-proc sh -c '"$@"; exit' - env
    before=6
else
    say "no pid namespace can be made here"
    before=5
fi
[ "$(requests)" = $before ] || fail "$(requests) requests for $before profiles"
exec 5>&-
wait $app || fail "the program failed"
ship 0
check_request pyroscope $((before + 1)) "sums['inuse_space']['web_keep'] == 7 * $n * 1000" "'web_keep' not in sums['alloc_space'] or sums['alloc_space']['web_keep'] == 0"
[ -z "$(find "$dir" -name '*nprof*')" ] && [ "$(ls "$dir/.numalloc-ship")" = lock ] || fail "something is left: $(ls -R "$dir")"
say "the last profile of a process arrives, and nothing is left"

# ---- By interval, as a sidecar; the server comes and goes. ----
"$ship_program" --dump "$dump" --url "http://127.0.0.1:$(cat "$got/port")" --every 0.3 "$dir" 2>"$work/ship.err" & sidecar=$!
at_end+=('kill $sidecar 2>/dev/null')
NUMALLOC_PROFILE=sample NUMALLOC_SAMPLE_INTERVAL=0 NUMALLOC_PROFILE_DUMP_EVERY=200ms NUMALLOC_PROFILE_FILE=$dir NUMALLOC_PROFILE_LABELS=service=loop \
    UNTIL=$work/enough LD_PRELOAD=$lib "$work/app" leak 3000 500000 >"$work/leak" & app=$!
sleep 1; echo 500 >"$got/answer"; sleep 1; echo 200 >"$got/answer"
await '[ "$(requests)" -ge $((before + 7)) ]'
touch "$work/enough"
wait $app
await '[ -z "$(find "$dir" -maxdepth 1 -name "*.nprof*")" ]'
kill $sidecar
rc=0
wait $sidecar || rc=$?
[ "$rc" = 0 ] || fail "the sidecar ends with status $rc: $(cat "$work/ship.err")"
all=$(requests)
[ "$all" -ge $((before + 7)) ] || fail "only $((all - before - 1)) dumps came: $(cat "$work/ship.err")"
# Each byte was sent once: the differences add up to what was allocated.
for i in $(seq $((before + 2)) "$all"); do
    check_request pyroscope "$i" "labels['host'] == '$host'" \
        "print(sums['alloc_space'].get('leak_here', 0), sums['inuse_space'].get('leak_here', 0)) is None" >>"$work/sums"
done
leaked=$(cut -d' ' -f1 "$work/leak")
[ "$(awk '{ s += $1 } END { print s }' "$work/sums")" = "$leaked" ] && [ "$(tail -n 1 "$work/sums" | cut -d' ' -f2)" = "$leaked" ] ||
    fail "$leaked bytes leaked, and this came: $(cat "$work/sums")"
say "as a sidecar: $((all - before - 1)) dumps, together all that was allocated, each byte once"

# ---- What waits is bounded. ----
kill $server
wait $server 2>/dev/null || true
NUMALLOC_PROFILE=sample NUMALLOC_SAMPLE_INTERVAL=0 NUMALLOC_PROFILE_DUMP_EVERY=100ms NUMALLOC_PROFILE_FILE=$dir UNTIL=$work/many LD_PRELOAD=$lib \
    "$work/app" leak 2000 100000 >/dev/null & app=$!
await '[ -n "$(find "$dir" -maxdepth 1 -name "*.nprof.16")" ]'
touch "$work/many"
wait $app
had=$(find "$dir" -maxdepth 1 -name '*.nprof*' | wc -l)
newest=$(find "$dir" -maxdepth 1 -name '*.nprof')
ship 1 --keep 2M
waits=$(find "$dir" -maxdepth 1 -name '*.nprof*' | wc -l) kib=$(du -sk "$dir" | cut -f1)
[ "$waits" -ge 1 ] && [ "$waits" -lt "$had" ] && [ "$kib" -le 2100 ] && [ -e "$newest" ] && grep -q "removed unsent" "$work/ship.err" ||
    fail "of $had profiles $waits wait, $kib KiB: $(cat "$work/ship.err")"
say "$waits of $had profiles wait, $kib KiB"

# ---- Files that are no profiles, wrong use, the units. ----
rm -rf "$dir" && mkdir "$dir"
echo text >"$dir/text.nprof"
cp "$ship_program" "$dir/program"
ship 0
touch -d '2 minutes ago' "$dir/text.nprof"
ship 1
grep -q "text.nprof is set aside: it is no profile" "$work/ship.err" && [ -e "$dir/text.nprof.refused" ] || fail "a file that is no profile: $(cat "$work/ship.err")"
ship 0
for wrong in "--url ftp://x $dir" "--url http://x $work/none" "$dir" "--url http://x --keep much $dir" "--url http://x --every 0 $dir" "--url http://x --headers $work/none $dir"; do
    rc=0
    # shellcheck disable=SC2086
    "$ship_program" --dump "$dump" $wrong >"$work/o" 2>"$work/err" || rc=$?
    [ "$rc" = 2 ] || fail "numalloc-ship $wrong: status $rc"
done
if command -v systemd-analyze >/dev/null; then
    sed "s|^ExecStart=[^ ]*|ExecStart=$(readlink -f "$ship_program")|" "$(dirname "$ship_program")/numalloc-ship.service.in" >"$work/numalloc-ship.service"
    cp "$(dirname "$ship_program")/numalloc-ship.timer" "$work"
    systemd-analyze verify --man=no "$work/numalloc-ship.service" "$work/numalloc-ship.timer" 2>"$work/err" || fail "systemd: $(cat "$work/err")"
    ! grep -q "numalloc-ship" "$work/err" || fail "systemd: $(cat "$work/err")"
    say "systemd takes the units"
fi
say "wrong use is refused"
