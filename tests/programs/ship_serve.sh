#!/bin/bash
# ship_serve.sh LIBRARY NUMALLOC_DUMP NUMALLOC_SHIP - numalloc-ship --serve: pprof of a process and of a
# group that run, and of what they do within some seconds, read by `go tool pprof` where Go is installed;
# figures for Prometheus, among them each that the dashboard shows; nobody else is answered.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
ship=$3
need gcc gcc
cat >"$work/app.c" <<'EOF'
#include <stdio.h>
#include <stdlib.h>
static void *volatile kept;
__attribute__((noinline)) static void web_keep(size_t size) { kept = malloc(size); }
__attribute__((noinline)) static void web_more(size_t size) { kept = malloc(size); }
int main(int count, char **words) { /* each character but the first is a call */
    (void)count;
    web_keep((size_t)atoi(words[1]) * 1000);
    for (int c = getchar(); c != EOF; c = getchar()) {
        puts("ready");
        fflush(stdout);
        if (c == '+') web_more((size_t)atoi(words[1]) * 10);
        if (c == '-') free(kept);
    }
    return 0;
}
EOF
gcc -g -O1 -fno-builtin "$work/app.c" -o "$work/app"
mkdir "$work/profiles" "$work/pages"
export NUMALLOC_PUBLISH=$work/pages
record() { # SERVICE KILOBYTES: $pid, which reads from $work/to.KILOBYTES
    mkfifo "$work/to.$2"
    NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=$work/profiles/ NUMALLOC_PROFILE_LABELS=service=$1 LD_PRELOAD=$lib \
        "$work/app" "$2" <"$work/to.$2" >"$work/from.$2" & pid=$!
    at_end+=("kill $pid 2>/dev/null")
}
tell() { # KILOBYTES CHARACTER: and it has been carried out
    local lines
    lines=$(wc -l <"$work/from.$1")
    printf '%s?' "$2" >&"${input[$1]}"
    await "[ \$(wc -l <'$work/from.$1') -ge $((lines + 2)) ]"
}
declare -A input
record shop 100; exec 6>"$work/to.100"; input[100]=6
shop=$pid
record shop 200; exec 7>"$work/to.200"; input[200]=7
record news 400; exec 8>"$work/to.400"; input[400]=8
record shop 800; exec 9>"$work/to.800" 9>&-
wait $pid # what has ended is not among them
tell 100 '?'; tell 200 '?'; tell 400 '?'
mkfifo "$work/in"
NUMALLOC_BACKGROUND=1 LD_PRELOAD=$lib "$work/app" 1 <"$work/in" >"$work/out" 6>&- 7>&- 8>&- & app=$!
exec 5>"$work/in"
at_end+=('kill $app 2>/dev/null')
# The thread publishes, soon after the start.
await '"$(dirname "$dump")/numalloc-run" --status --openmetrics | has "^numalloc_allocated_bytes{"'

begin() { # OPTION...
    : >"$work/err"
    "$ship" --dump "$dump" "$@" "$work/profiles" 2>"$work/err" 5>&- 6>&- 7>&- 8>&- & server=$!
    await 'grep -q "serves" "$work/err" || ! kill -0 $server 2>/dev/null'
    port=$(sed -n 's/^numalloc-ship: serves .*://p' "$work/err")
    [ -n "$port" ] || fail "no server: $(cat "$work/err")"
    url=http://127.0.0.1:$port
}
# ask STATUS PATH [HEADER...]: the answer is in body, its type in type.
ask() {
    /usr/bin/python3 - "$1" "$url$2" "$work" "${@:3}" <<'EOF' || fail "GET $2: $(cat "$work/why")"
import sys, urllib.error, urllib.request
want, url, work, *headers = sys.argv[1:]
request = urllib.request.Request(url, headers=dict(h.split(": ", 1) for h in headers))
try:
    answer = urllib.request.urlopen(request)
except urllib.error.HTTPError as error:
    answer = error
open(work + "/body", "wb").write(answer.read())
open(work + "/type", "w").write(answer.headers.get("Content-Type", ""))
open(work + "/why", "w").write(f"status {answer.status}: " + open(work + "/body", "rb").read(200).decode(errors="replace"))
sys.exit(answer.status != int(want))
EOF
}
begin --serve 0
at_end+=('kill $server 2>/dev/null')
ask 200 /debug/pprof/heap
[ "$(head -c 2 "$work/body" | od -An -tx1)" = " 1f 8b" ] || fail "the heap is not compressed"
if go tool pprof -h 2>&1 | has -i usage; then
    top() { HOME=$work go tool pprof -top -unit=B -sample_index="${2:-inuse_space}" "$url/debug/pprof/$1" 2>"$work/go.err" || cat "$work/go.err"; }
    top heap >"$work/top"; grep -qE '^ *700000B .* web_keep$' "$work/top" || fail "go tool pprof, all: $(cat "$work/top")"
    top 'heap?service=shop' >"$work/top"; grep -qE '^ *300000B .* web_keep$' "$work/top" || fail "a service: $(cat "$work/top")"
    top "allocs?pid=$shop" >"$work/top"; grep -qE '^ *100000B .* web_keep$' "$work/top" || fail "a process: $(cat "$work/top")"
fi
# What changes: nothing within a second; between two moments a block more, and one that is freed.
ask 200 '/debug/pprof/heap?seconds=1'
[ "$(head -c 2 "$work/body" | od -An -tx1)" = " 1f 8b" ] || fail "the difference is not compressed"
mkdir "$work/before"
for one in "$work"/profiles/*; do cp "$one" "$work/before/"; done
tell 100 +
tell 200 -
"$dump" pprof --changes --baseline "$work/before" "$work/profiles" -o "$work/changes.pb.gz" || fail "pprof --changes: status $?"
"$dump" pprof --baseline "$work/before" "$work/profiles" -o "$work/since.pb.gz" || fail "pprof --baseline: status $?"
if go tool pprof -h 2>&1 | has -i usage; then
    shows() { # FILE TYPE: its functions with their own bytes
        HOME=$work go tool pprof -top -nodefraction=0 -unit=B -sample_index="$2" "$1" 2>"$work/go.err" |
            awk '$NF ~ /^web_/ { print $NF, $1 }' | sort | xargs || fail "pprof of $1: $(cat "$work/go.err")"
    }
    is() { [ "$2" = "$3" ] || fail "$1: $2 instead of $3"; }
    is 'nothing changes' "$(shows "$work/body" inuse_space)" ''
    is 'live, changed' "$(shows "$work/changes.pb.gz" inuse_space)" 'web_keep -200000B web_more 1000B'
    is 'allocated since' "$(shows "$work/changes.pb.gz" alloc_space)" 'web_more 1000B'
    is 'live' "$(shows "$work/since.pb.gz" inuse_space)" 'web_keep 1300000B web_more 1000B'
fi
ask 404 '/debug/pprof/heap?pid=1'
ask 404 '/debug/pprof/heap?service=none'
ask 400 '/debug/pprof/heap?seconds=-5'
ask 400 '/debug/pprof/heap?seconds=3601'
ask 400 '/debug/pprof/heap?debug=1'
ask 404 /
ask 404 /debug/pprof/../../etc/passwd
ask 403 /metrics 'Host: evil.example'
ask 200 /metrics
[ "$(cat "$work/type")" = 'application/openmetrics-text; version=1.0.0; charset=utf-8' ] || fail "type: $(cat "$work/type")"
grep -qE "^numalloc_allocated_bytes\{.*pid=\"$app\".*\} [0-9]+$" "$work/body" || fail "no figures: $(head -30 "$work/body")"
[ "$(tail -n 1 "$work/body")" = '# EOF' ] || fail "the end is missing"
[ "$(ls "$work/profiles" | wc -l)" = 4 ] || fail "profiles went: $(ls "$work/profiles")"
# Every figure of the dashboard is one of these.
for metric in $(grep -oE 'numalloc_[a-z_]+' "${4:-$test_source/../../profiler/ship/grafana.json}" | sort -u); do
    grep -qE "^$metric\{" "$work/body" || fail "the dashboard has $metric, which there is none of"
done
kill $server

echo secret >"$work/token"
begin --serve 127.0.0.1:0 --token "$work/token"
ask 403 /metrics
ask 403 /metrics 'Authorization: Bearer wrong'
ask 200 /metrics 'Authorization: Bearer secret'
kill $server

wrong() { # TEXT OPTION...
    local status=0
    "$ship" --dump "$dump" "${@:2}" "$work/profiles" >"$work/said" 2>&1 || status=$?
    [ $status -eq 2 ] && grep -qF -- "$1" "$work/said" || fail "${*:2}: status $status, $(cat "$work/said")"
}
wrong 'one of --url and --serve is wanted'
wrong 'one of --url and --serve is wanted' --serve 0 --url http://x
wrong 'needs --token' --serve 0.0.0.0:0
wrong 'not many' --serve many
wrong '--signal goes with --url' --serve 0 --signal
wrong '--token goes with --serve' --url http://x --token "$work/token"
