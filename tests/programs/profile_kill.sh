#!/bin/bash
# profile_kill.sh - a process killed at any moment leaves a profile that holds what it had done.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"

for i in 0 1 2 3 4 5 6 7; do
    mkfifo "$work/ready.$i"
    NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/kill.$i.nprof" LD_PRELOAD="$lib" \
        "$load" forever >"$work/ready.$i" 2>"$work/err.$i" &
    pid=$!
    at_end=("kill -9 $pid 2>/dev/null")
    read -r line <"$work/ready.$i" || fail "the program ended before it was ready: $(head -n 3 "$work/err.$i")"
    [ "$line" = ready ] || fail "the program said '$line', not 'ready'"
    sleep "0.0$((i * 13 % 10))$i"
    # A running process's file can be read as well.
    [ "$i" != 3 ] || check_killed "$work/kill.$i.nprof" alloc_small:allocations=1000,live_bytes=48000
    kill -9 "$pid"
    wait "$pid" 2>/dev/null || true
    at_end=()
    # At most one event of a thread may be half written; the known sites were complete long before.
    check_killed "$work/kill.$i.nprof" @closed=False \
        alloc_small:allocations=1000,total_bytes=48000,live_bytes=48000,live_blocks=1000 \
        alloc_zeroed:allocations=200,live_bytes=66000 \
        alloc_temp:allocations=1..1e12,live_bytes=-100..100
done
say "8 killed processes left complete profiles"
