#!/bin/bash
# redis.sh - redis-server under redis-benchmark answers as it does without the library, and gives its
# memory back to the system within seconds after FLUSHALL.
#
# Debian's redis is linked with jemalloc and asks it (mallctl) for statistics; its malloc and free are
# the preloaded library's all the same, which the linker's record proves below.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
need redis-server redis-server redis-benchmark redis-tools redis-cli redis-tools

keys=200000 requests=2000 # of each kind
[ "$TEST_SCALE" != full ] || keys=300000 requests=15000
value_bytes=900 # 300,000: about 300 MB with keys and tables
socket=$work/socket
server=

cli() { redis-cli -s "$socket" "$@"; }
turns() { awk '/^voluntary/ { print $2 }' "/proc/$server/status"; }
rss_kib() { awk '/^VmRSS/ { print $2 }' "/proc/$server/status"; }

start_server() {
    env "$@" redis-server --port 0 --unixsocket "$socket" --save "" --appendonly no --daemonize no \
        --dir "$work" --logfile "$work/redis.log" --io-threads 2 --enable-debug-command local &
    server=$!
    at_end=("kill $server 2>/dev/null")
    await 'cli ping >/dev/null 2>&1 || ! kill -0 "$server" 2>/dev/null'
    ! cli ping >/dev/null 2>&1 || return 0
    tail -n 20 "$work/redis.log" >&2 || true
    fail "redis-server does not answer ($*)"
}

stop_server() {
    local rc=0
    cli shutdown nosave >/dev/null 2>&1 || true
    wait "$server" || rc=$?
    at_end=()
    [ "$rc" = 0 ] || {
        tail -n 30 "$work/redis.log" >&2
        fail "redis-server ended with status $rc"
    }
}

# The commands whose answers are compared, made once.
commands() {
    local i blank
    blank=$(printf '%200s' '')
    blank=${blank// /x}
    {
        for ((i = 0; i < 6000; i++)); do
            echo "SET key:$i ${blank:0:i % 200}$i"
            echo "APPEND key:$((i * 7 % 6000)) -more-$i"
            echo "LPUSH list:$((i % 40)) element-$i"
            echo "SADD set:$((i % 30)) $((i * i % 977))"
            echo "ZADD sorted:$((i % 20)) $((i * 7919 % 1000)) member-$i"
            echo "HSET hash:$((i % 50)) field-$i value-$((i * 3))"
            ((i % 5)) || echo "DEL key:$((i * 3 % 6000))"
            ((i % 9)) || echo "RPOP list:$((i % 40))"
        done
        for ((i = 0; i < 40; i++)); do echo "SORT list:$i ALPHA LIMIT 0 5"; done
        for ((i = 0; i < 20; i++)); do echo "ZRANGE sorted:$i 0 -1 WITHSCORES"; done
        for ((i = 0; i < 30; i += 3)); do echo "SCARD set:$i"; done
        echo 'EVAL "local t = {} for i = 1, 20000 do t[i] = tostring(i) .. string.rep(ARGV[1], i % 50) end return #table.concat(t)" 0 abc'
        echo "XADD log 1-1 a b"
        echo "XRANGE log - +"
        echo "INCR key:nosuch"
        echo "LPUSH key:nosuch x"
        echo "DBSIZE"
        for ((i = 0; i < 6000; i += 11)); do echo "GET key:$i"; done
    } >"$work/commands"
}

# Fills, flushes, and prints the resident sizes: start, full, and after the flush, when nine tenths of
# what was filled are back, or never.
memory() {
    local start full after i
    start=$(rss_kib)
    cli debug populate "$keys" filler "$value_bytes" >/dev/null
    [ "$(cli dbsize)" -ge "$keys" ] || fail "redis holds $(cli dbsize) keys, not $keys"
    full=$(rss_kib)
    cli flushall >/dev/null
    # Every allocator may keep what it freed for a moment, but not for ever; the server is nearly
    # idle meanwhile, as servers are after a peak. Its clock ticks ten times a second, or as often as it has a turn.
    local began
    began=$(turns)
    for ((i = 0; $(turns) < began + 80; i++)); do
        sleep 0.5
        after=$(rss_kib)
        [ "$after" -gt $((start + (full - start) / 10)) ] || break
    done
    echo "$start $full $after $((i + 1))"
}

serve() {
    local name=$1
    shift
    start_server "$@"
    if [ "$name" = preloaded ]; then
        mapped "$server" || fail "the library is not mapped in redis-server ($server)"
    else
        ! mapped "$server" || fail "the library is mapped in the plain redis-server"
    fi
    memory >"$work/$name.memory"
    cli <"$work/commands" >"$work/$name.story"
    cli flushall >/dev/null
    redis-benchmark -s "$socket" -n "$requests" -c 20 -P 8 -r 5000 -d 100 -q \
        -t set,get,incr,lpush,rpush,lpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset \
        >"$work/$name.benchmark" 2>&1 || fail "redis-benchmark fails ($name)"
    # What is left is random, but must be consistent; a background save forks with a full heap.
    cli bgsave >/dev/null
    await "[ \"\$(cli info persistence | tr -d '\r' | sed -n 's/^rdb_bgsave_in_progress://p')\" = 0 ]"
    cli info persistence | tr -d '\r' | grep '^rdb_last_bgsave_status' >>"$work/$name.story"
    redis-check-rdb "$work/dump.rdb" >"$work/$name.rdb" 2>&1 || fail "the saved database of the $name run is broken"
    rm -f "$work/dump.rdb"
    stop_server
}

commands
serve plain
serve preloaded LD_PRELOAD="$lib"

[ "$(wc -l <"$work/plain.story")" -gt 30000 ] || fail "only $(wc -l <"$work/plain.story") answers: the test is wrong here"
cmp -s "$work/plain.story" "$work/preloaded.story" || {
    diff "$work/plain.story" "$work/preloaded.story" | head -n 20 >&2 || true
    fail "the server answers otherwise with the library"
}
read -r plain_start plain_full plain_after _ <"$work/plain.memory"
read -r start full after waited <"$work/preloaded.memory"
say "the server gives the same $(wc -l <"$work/plain.story") answers"
say "resident KiB start/full/flushed: plain $plain_start/$plain_full/$plain_after, preloaded" \
    "$start/$full/$after ($((waited * 500)) ms)"
[ $((full - start)) -gt $((keys * value_bytes / 1100)) ] || fail "the fill took only $((full - start)) KiB: the test is wrong here"
[ "$after" -le $((start + (full - start) / 10)) ] ||
    fail "80 ticks after FLUSHALL $((after - start)) of $((full - start)) KiB are still resident (allowed: a tenth)"

redis_story() { redis-server --version; redis-server --port 0 --unixsocket ./s --save "" --daemonize no >log 2>&1 & until redis-cli -s ./s ping >ping 2>&1 && grep -q PONG ping; do sleep 0.1; done; redis-cli -s ./s set a b; redis-cli -s ./s get a; redis-cli -s ./s shutdown nosave; wait; }
proved redis redis_story redis-server redis-cli
