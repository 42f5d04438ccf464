#!/bin/sh
# redis.sh - redis-server under load. The server alone has the allocator; its clients have none.
#   redis.sh INPUTS benchmark    reports the requests answered in a second, over several commands
#   redis.sh INPUTS half         reports what the server has resident a quiet second after the half
#                                of its keys was deleted, every second one
# Debian's redis-server is linked with jemalloc. Without a library preloaded it gets the C library's
# malloc here, so that "nothing preloaded" means the same as for other programs.
set -u
inputs=$1
place=$(mktemp -d) || exit 1
socket=$place/socket
allocator=${LD_PRELOAD:-libc.so.6}
unset LD_PRELOAD
server=
trap 'kill $server 2>/dev/null; wait; rm -rf "$place"' EXIT
trap 'exit 1' TERM INT

die() {
    echo "redis.sh: $*" >&2
    exit 1
}

# report NAME UNIT higher|lower time|memory VALUE: to numalloc-bench, or to whoever runs this alone.
report() {
    line=$(printf 'metric\t%s\t%s\t%s\theadline\t%s\t%s' "$@")
    if { true >&3; } 2>/dev/null; then echo "$line" >&3; else echo "$line"; fi
}

cli() { redis-cli -s "$socket" "$@"; }
resident() { awk '/^VmRSS/ { printf "%.3f", $2 / 1024 }' "/proc/$server/status"; }

LD_PRELOAD=$allocator redis-server --port 0 --unixsocket "$socket" --save '' --appendonly no \
    --daemonize no --dir "$place" >"$place/log" 2>&1 3>&- &
server=$!
tries=0
until cli ping >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ $tries -eq 500 ] || ! kill -0 "$server" 2>/dev/null; then
        die "the server does not answer: $(tail -n 1 "$place/log")"
    fi
    sleep 0.01
done

case ${2-} in
benchmark)
    requests=60000
    [ "$(cat "$inputs/size")" = full ] || requests=500
    for test in set get lpush hset sadd zadd; do
        redis-benchmark -s "$socket" -n $requests -c 16 -P 16 -r 20000 -d 400 --csv -t $test || die "redis-benchmark fails"
    done >"$place/rates"
    # The mean of rates of equal numbers of requests is the harmonic one.
    report requests kop/s higher time "$(tr -d '"' <"$place/rates" |
        awk -F, '$2 + 0 > 0 { sum += 1 / $2; n++ } END { printf "%.6g", n / sum / 1000 }')"
    ;;
half)
    cli --pipe <"$inputs/fill.resp" >/dev/null || die "the keys are not taken"
    [ "$(cli dbsize)" = "$(cat "$inputs/keys")" ] || die "the server has $(cli dbsize) keys"
    cli --pipe <"$inputs/delete.resp" >/dev/null || die "the keys are not deleted"
    [ "$(cli dbsize)" = "$(($(cat "$inputs/keys") / 2))" ] || die "the server has $(cli dbsize) keys left"
    sleep 1
    report 'after deleting half' MiB lower memory "$(resident)"
    ;;
*) die "usage: redis.sh INPUTS benchmark|half" ;;
esac
cli shutdown nosave >/dev/null 2>&1
wait "$server" || die "the server ends with status $?"
