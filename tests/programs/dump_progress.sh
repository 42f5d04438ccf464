#!/bin/bash
# dump_progress.sh - numalloc-dump's long jobs: the line that says how far they are, on a terminal and
# nowhere else, and what an interrupt leaves behind: the old file, and nothing beside it.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"

cc -std=gnu17 -O1 -shared -fPIC -Wall -Wextra "$test_source/slow_read.c" -o "$work/slow_read.so" -ldl ||
    fail "the compiler does not build slow_read.c"
for mode in sites trace; do
    profiled $mode "$work/$mode.nprof" sites
done

# ---- a terminal ----

# on_terminal TERM FILE: numalloc-dump, whose third read takes more than a second, with standard error
# on a terminal; what that shows goes to $work/terminal.
on_terminal() {
    TERM=$1 LD_PRELOAD=$work/slow_read.so SLOW_READ_AT=3 SLOW_READ_MS=1100 /usr/bin/python3 - "$dump" "$2" "$work" <<'END'
import os, sys
dump, file, work = sys.argv[1:]
os.environ_preload = os.environ.pop("LD_PRELOAD")
pid, terminal = os.forkpty()
if pid == 0:
    out = os.open(work + "/out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.environ["LD_PRELOAD"] = os.environ_preload
    os.execv(dump, [dump, "sites", "--csv", file])
shown = b""
try:
    while True:
        part = os.read(terminal, 4096)
        if not part:
            break
        shown += part
except OSError:  # the other end is closed
    pass
open(work + "/terminal", "wb").write(shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
}
for mode in sites trace; do
    file=$work/$mode.nprof
    "$dump" sites --csv "$file" >"$work/plain" || fail "sites --csv ends with status $?"
    on_terminal xterm "$file" || fail "$mode: status $? on a terminal: $(cat "$work/terminal")"
    cmp -s "$work/plain" "$work/out" || fail "$mode: progress has changed the output"
    grep -q 'reading  *\[[# ]*\]  *[0-9]* %' "$work/terminal" || fail "$mode: no progress on a terminal: $(cat -v "$work/terminal")"
    tail -c 4 "$work/terminal" | cat -v | grep -q '\^M^\[\[K$' || fail "$mode: the line stays: $(cat -v "$work/terminal")"
    on_terminal dumb "$file" || fail "$mode: status $? with TERM=dumb"
    [ ! -s "$work/terminal" ] || fail "$mode: progress with TERM=dumb: $(cat -v "$work/terminal")"
    LD_PRELOAD=$work/slow_read.so SLOW_READ_AT=3 SLOW_READ_MS=1100 "$dump" sites --csv "$file" 2>"$work/err" >"$work/out" ||
        fail "$mode: status $? without a terminal"
    [ ! -s "$work/err" ] || fail "$mode: progress without a terminal: $(cat -v "$work/err")"
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
