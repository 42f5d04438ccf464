#!/bin/bash
# dump_progress.sh - numalloc-dump's long jobs: the line that says how far they are, on a terminal and
# nowhere else, and what an interrupt leaves behind: the old file, and nothing beside it.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"

cc -std=gnu17 -O1 -shared -fPIC -Wall -Wextra "$test_source/slow_read.c" -o "$work/slow_read.so" -ldl ||
    fail "the compiler does not build slow_read.c"
cc -std=gnu17 -D_GNU_SOURCE -O1 -shared -fPIC -Wall -Wextra "$test_source/fast_clock.c" -o "$work/fast_clock.so" -ldl ||
    fail "the compiler does not build fast_clock.c"
for mode in sites trace; do
    profiled $mode "$work/$mode.nprof" sites
done

# ---- a terminal ----

# on_terminal TERM FILE: numalloc-dump, whose third read takes more than a second, with standard error
# on a terminal; what that shows goes to $work/terminal.
on_terminal() {
    TERM=$1 SLOW_READ_AT=3 SLOW_READ_MS=1100 /usr/bin/python3 "$test_source/on_terminal.py" \
        "$work/slow_read.so" "$work/out" "$work/terminal" "$dump" sites --csv "$2"
}
for mode in sites trace; do
    file=$work/$mode.nprof
    "$dump" sites --csv "$file" >"$work/plain" || fail "sites --csv ends with status $?"
    on_terminal xterm "$file" || fail "$mode: status $? on a terminal: $(cat "$work/terminal")"
    cmp -s "$work/plain" "$work/out" || fail "$mode: progress has changed the output"
    grep -q 'reading  *\[[# ]*\]  *[0-9]* %' "$work/terminal" || fail "$mode: no progress on a terminal: $(cat -v "$work/terminal")"
    tail -c 4 "$work/terminal" | cat -v | has '\^M^\[\[K$' || fail "$mode: the line stays: $(cat -v "$work/terminal")"
    on_terminal dumb "$file" || fail "$mode: status $? with TERM=dumb"
    [ ! -s "$work/terminal" ] || fail "$mode: progress with TERM=dumb: $(cat -v "$work/terminal")"
    LD_PRELOAD=$work/slow_read.so SLOW_READ_AT=3 SLOW_READ_MS=1100 "$dump" sites --csv "$file" 2>"$work/err" >"$work/out" ||
        fail "$mode: status $? without a terminal"
    [ ! -s "$work/err" ] || fail "$mode: progress without a terminal: $(cat -v "$work/err")"
done
for export in json csv folded callgrind pprof speedscope massif heaptrack html; do
    case $export in
    csv | folded | pprof | speedscope) step=writing ;;
    json) step='writing sites' ;;
    callgrind | massif) step='adding up calls' ;;
    heaptrack) step=reading ;;
    html) step=compressing ;;
    esac
    rc=0
    TERM=xterm /usr/bin/python3 "$test_source/on_terminal.py" "$work/fast_clock.so" "$work/out" "$work/terminal" \
        "$dump" "$export" "$work/trace.nprof" || rc=$?
    [ "$rc" = 0 ] || fail "$export: status $rc on a terminal: $(cat -v "$work/terminal")"
    # After the last symbol: what is shown from there on is the export's own.
    (tr '\r' '\n' <"$work/terminal" && echo) | tac | sed '/looking up symbols/,$d' | grep "^$step  *\[[# ]*\]  *[0-9]* %" >/dev/null ||
        fail "$export: no progress while it is written: $(cat -v "$work/terminal")"
    tail -c 4 "$work/terminal" | cat -v | has '\^M^\[\[K$' || fail "$export: the line stays: $(cat -v "$work/terminal")"
    "$dump" "$export" "$work/trace.nprof" | cmp -s - "$work/out" || fail "$export: progress has changed the output"
done
say "progress: on a terminal after a second, erased at the end; not with TERM=dumb or without a terminal"

# ---- interrupts ----

mkdir "$work/out.d"
interrupts=0
for mode in sites trace; do
    for signal in 2 15; do
        for at in 1 2 5 9 14 20; do
            echo "as before" >"$work/out.d/report"
            rc=0
            LD_PRELOAD=$work/slow_read.so SLOW_READ_AT=$at SLOW_READ_SIGNAL=$signal \
                "$dump" json "$work/$mode.nprof" -o "$work/out.d/report" 2>"$work/err" || rc=$?
            [ "$(ls -A "$work/out.d")" = report ] || fail "signal $signal at read $at left: $(ls -A "$work/out.d")"
            case $rc in
            0) /usr/bin/python3 -m json.tool "$work/out.d/report" /dev/null || fail "read $at: not interrupted, and not whole" ;;
            $((128 + signal)))
                [ "$(cat "$work/out.d/report")" = "as before" ] || fail "signal $signal at read $at: the old file is gone"
                interrupts=$((interrupts + 1))
                ;;
            *) fail "signal $signal at read $at: status $rc: $(cat "$work/err")" ;;
            esac
        done
    done
done
[ "$interrupts" -ge 12 ] || fail "only $interrupts of 24 runs were interrupted"
say "interrupts: $interrupts in the middle, each left the old file and nothing else"
