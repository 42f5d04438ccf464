#!/bin/bash
# run.sh - numalloc-run: programs run as without it (output, status, signals), profiles are where it
# says, every mistake has its line. Usage: run.sh LIBRARY NUMALLOC_RUN NUMALLOC_DUMP.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
run=$2 dump=$3
need python3 python3-minimal g++ g++ setpriv util-linux
python=/usr/bin/python3
cd "$work"
trap 'echo "run: line $LINENO: $BASH_COMMAND" >&2' ERR
unset DISPLAY WAYLAND_DISPLAY

# The last run: its files are in a directory of its own, its output in out, err and rc beside it.
# go NAME ARGUMENT...
go() {
    at=$work/run.$1
    rm -rf "$at"
    mkdir -p "$at/in"
    shift
    rc=0
    (cd "$at/in" && exec "$run" "$@") >"$at/out" 2>"$at/err" <"${stdin:-/dev/null}" || rc=$?
}
# is STATUS: of the last run.
is() { [ "$rc" = "$1" ] || fail "${at##*/}: status $rc, expected $1: $(cat "$at/err")"; }
# says TEXT...: on standard error; quiet: nothing is there.
says() {
    local text
    for text in "$@"; do
        grep -qF -- "$text" "$at/err" || fail "${at##*/}: '$text' is not said: $(cat "$at/err")"
    done
}
quiet() { [ ! -s "$at/err" ] || fail "${at##*/}: says: $(cat "$at/err")"; }
# One line, and nothing is left: nothing was run.
refused() {
    is "$1"
    says "${@:2}"
    [ "$(wc -l <"$at/err")" = 1 ] || fail "${at##*/}: not one line: $(cat "$at/err")"
    [ ! -s "$at/out" ] || fail "${at##*/}: something was run: $(cat "$at/out")"
    [ -z "$(ls -A "$at/in")" ] || fail "${at##*/}: leaves $(ls "$at/in")"
}
# The one profile of the last run, whole.
one_profile() {
    local found
    found=("$at"/in/*)
    [ "${#found[@]}" = 1 ] && [ -f "${found[0]}" ] || fail "${at##*/}: expected one file: ${found[*]}"
    profile=${found[0]}
    "$dump" run "$profile" >"$at/run" || fail "${at##*/}: $profile is not whole"
}

# ---- the allocator alone: this process becomes the program
go alone bash -c 'echo "$$ $PPID $LD_PRELOAD"; exit 7'
is 7
quiet
read -r pid _ preload <"$at/out"
[ "${preload##*/}" = libnumalloc.so.0 ] || fail "preloaded: $preload"
[ "$(readlink -f "$preload")" = "$lib" ] || fail "preloaded: $preload, not $lib"
bash -c 'echo $$; exec "$@"' - "$run" bash -c 'echo $$' >exec.pids
[ "$(uniq exec.pids | wc -l)" = 1 ] || fail "without a profile it is another process"
go stats --stats --check ls /
is 0
says "numalloc statistics"

# ---- --check: an error in any process, whatever becomes of its status
cat >wrong.c <<'END'
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char *block = malloc(40);
    if (argc > 1 && strcmp(argv[1], "over") == 0) block[40] = 1;
    if (argc > 1 && strcmp(argv[1], "child") == 0) {
        if (fork() == 0) {
            free(block);
            free(block);
            _exit(0);
        }
        wait(NULL);
    }
    free(block);
    return 3;
}
END
gcc -O1 -fno-builtin -Wno-all -w wrong.c -o wrong
go right --check ../../wrong
is 3
quiet
go over --check ../../wrong over
is 86
says "overrun (40 bytes were asked for, and byte 40 was written)" "1 error was found"
go child --check ../../wrong child
is 86
says "double free of" "1 error was found"
NUMALLOC_ABORT=0 go on --check -q sh -c '../../wrong over; ../../wrong child; exit 0'
is 86
[ "$(grep -c '^numalloc: ' "$at/err")" = 2 ] || fail "--check: $(cat "$at/err")"
NUMALLOC_MISUSE_FILE=$work/found go own --check ../../wrong over
is 86
grep -q "overrun" "$work/found" || fail "NUMALLOC_MISUSE_FILE has nothing"
go nothing --check --profile ../../wrong over
is 86
mkdir temporary # others' files lie in the usual one
TMPDIR=$work/temporary go killed --check sh -c 'kill -9 $$'
is 137
[ -z "$(ls -A temporary)" ] || fail "--check leaves its file"

# ---- profiles of real programs
go bash --profile bash -c 'echo out; echo err >&2; exit 3'
is 3
one_profile
says err "bash ended with status 3" "peak" "never freed" "${profile##*/}" "next"
[ "$(cat "$at/out")" = out ] || fail "bash: output $(cat "$at/out")"
[ "$(wc -l <"$at/err")" -le 14 ] || fail "bash: more than ten lines: $(cat "$at/err")"
go python -p -- "$python" -c 'data = ["x" * i for i in range(5000)]; print(len(data))'
is 0
one_profile
says "python3" "MiB in"
printf '#include <map>\n#include <string>\nint main() { std::map<std::string, int> m; m["a"] = 1; return m.size() - 1; }\n' >a.cpp
go compiler --sample=16K -- g++ -c ../../a.cpp -o ../a.o
is 0
[ -s "$at/a.o" ] || fail "g++ compiled nothing"
directory=$(echo "$at"/in/numalloc.g++.*)
[ -d "$directory" ] || fail "g++ and what it starts: not one directory: $(ls "$at/in")"
says "profiles" "cc1plus (process" "$(basename "$directory")"
[ "$(grep -c '(process' "$at/err")" -ge 3 ] || fail "g++: processes are missing: $(cat "$at/err")"
first=$(sed -n 2p "$at/err")
[[ $first == *cc1plus* ]] || fail "g++: the largest process is not the first: $first"
for mode in trace sites; do
    option=--trace
    [ $mode = trace ] || option=--profile
    go "mode_$mode" $option true
    one_profile
    "$dump" "$profile" | grep "^mode  *$mode" >/dev/null || fail "$option: not of mode $mode"
done

# ---- names
go file -p -o some.nprof true
one_profile
[ "${profile##*/}" = some.nprof ] || fail "-o FILE: $profile"
says "some.nprof"
(cd "$at/in" && "$run" -q -p -o some.nprof true) || fail "-o FILE: not again"
[ "$(ls "$at/in")" = some.nprof ] || fail "-o FILE: an earlier profile is not replaced: $(ls "$at/in")"
go directory -p -o made/ true
is 0
[ "$(ls "$at"/in/made/*.nprof | wc -l)" = 1 ] || fail "-o DIRECTORY/: $(find "$at/in")"
go several -p -o some.nprof bash -c 'bash -c "x=\$(seq 20000); echo \${#x}" | cat'
is 0
[ "$(cat "$at/out")" = 108893 ] || fail "several: $(cat "$at/out")"
[ "$(ls "$at/in/some.nprof.all" | wc -l)" -ge 2 ] || fail "several: $(ls -R "$at/in")"
"$dump" "$at/in/some.nprof" | grep '^program .*bash' >/dev/null || fail "several: some.nprof is not the largest"
# Programs that go on when the first one has ended: their profiles stay where they are.
go daemon -p -o daemon.nprof "$python" -c '
import os, time
there, says = os.pipe()
if os.fork() != 0:
    os.read(there, 1)  # it has a profile
else:
    kept = [bytes(9000) for _ in range(100)]
    os.close(1)
    os.write(says, b".")
    while not os.path.exists("end"): time.sleep(0.05)'
is 0
says "running" "their profiles go on"
touch "$at/in/end"
[ -s "$at/in/daemon.nprof" ] && [ "$(ls "$at/in/daemon.nprof.all" | grep -c nprof)" = 2 ] || fail "a daemon: $(ls -R "$at/in")"
go quiet --quiet --profile true
quiet
one_profile
go report --report --profile true
is 0
says "Functions by bytes live at the peak" "next"
go page --html --profile true
is 0
if "$dump" help --names | grep -x html >/dev/null && says "page"; then
    grep -qi '<!doctype html' "$at"/in/*.html || fail "no page: $(ls "$at/in")"
fi

mkdir "odd %p 'name"
(cd "odd %p 'name" && "$run" -p -o "b c.nprof" true 2>../odd.err) && [ -s "odd %p 'name/b c.nprof" ] ||
    fail "a directory with an odd name: $(cat odd.err)"
grep -qF "'b c.nprof'" odd.err || fail "the next command is not quoted: $(cat odd.err)"

# ---- the environment: what is there stays, or is named
LD_PRELOAD=/usr/lib/none.so go preload bash -c 'echo "$LD_PRELOAD"' 2>/dev/null
[[ $(cat "$at/out") == */libnumalloc.so.0:/usr/lib/none.so ]] || fail "LD_PRELOAD: $(cat "$at/out")"
LD_PRELOAD=$lib go preload_own bash -c 'echo "$LD_PRELOAD"'
[[ $(cat "$at/out") == */libnumalloc.so.0 ]] || fail "preloaded twice: $(cat "$at/out")"
says "takes the place of $lib in LD_PRELOAD"
NUMALLOC_PROFILE=trace go variable true
one_profile
"$dump" "$profile" | grep '^mode  *trace' >/dev/null || fail "NUMALLOC_PROFILE is not heeded"
NUMALLOC_PROFILE=trace go variable_option --profile true
says "--profile takes the place of NUMALLOC_PROFILE=trace"
NUMALLOC_PROFILE_FILE=its.nprof go variable_file --profile true
[ -f "$at/in/its.nprof" ] || fail "NUMALLOC_PROFILE_FILE is not heeded: $(ls "$at/in")"
NUMALLOC_PROFILE_FILE=its.%p go variable_pattern --profile true
says "NUMALLOC_PROFILE_FILE=its.%p is not heeded"
one_profile
go printed --env --sample=64K --access=watch --check
is 0
quiet
[ "$(sed 's/=.*libnumalloc/=libnumalloc/' "$at/out")" = "LD_PRELOAD=libnumalloc.so.0
NUMALLOC_HARDEN=2
NUMALLOC_PROFILE=sample
NUMALLOC_SAMPLE_INTERVAL=64K
NUMALLOC_ACCESS=watch" ] || fail "--env: $(cat "$at/out")"

# ---- standard input and output are the program's, byte for byte
head -c 3000000 /dev/urandom >bytes
stdin=bytes go through --profile cat
is 0
cmp -s bytes "$at/out" || fail "cat does not pass its input on"
printf 'one\ntwo\n' | { "$run" -q -p -o first.nprof bash -c 'read -r x'; cat; } >rest
[ "$(cat rest)" = two ] || fail "input that the program left is gone: $(cat rest)"
rc=0
"$run" -p -o yes.nprof yes 2>yes.err | head -n 2 >yes.out || rc=$?
[ "$rc:$(cat yes.out)" = $'141:y\ny' ] || fail "yes | head: status $rc, $(cat yes.out)"
# Who reads sees the end when the program closes its output, not when it ends.
"$run" -q -p -o close.nprof "$python" -c 'import os, time; os.write(1, b"x"); os.close(1)
for _ in range(3000): os.path.exists("seen") and os._exit(0); time.sleep(0.05)
open("held", "w")' | { cat >/dev/null; touch seen; }
[ ! -e held ] || fail "the output is held open"

# ---- signals and statuses
"$run" -p -o server.nprof "$python" -c '
import signal, sys, time
def end(*_):
    print("ended by TERM", flush=True)
    sys.exit(5)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
while True: time.sleep(0.05)' >server.out 2>server.err &
server=$!
await 'grep -q ready server.out'
kill -TERM $server
rc=0
wait $server || rc=$?
[ $rc = 5 ] && grep -q 'ended by TERM' server.out || fail "SIGTERM: status $rc, $(cat server.out server.err)"
[ -s server.nprof ] && grep -q 'next' server.err || fail "SIGTERM: no profile: $(cat server.err)"
for number in 15 9 10 34; do
    "$python" - "$run" $number >signal.out 2>&1 <<'END' || fail "killed by signal $number: $(cat signal.out)"
import os, subprocess, sys
run, number = sys.argv[1], int(sys.argv[2])
code = f"import os, signal; os.kill(os.getpid(), {number})"
plain = subprocess.run([sys.executable, "-c", code])
with_it = subprocess.run([run, "-q", "-p", "-o", "killed.nprof", sys.executable, "-c", code])
print(plain.returncode, with_it.returncode)
assert plain.returncode == with_it.returncode == -number
END
done
# A signal with a value, one that is ignored, one to the parent, and one at the same time to both.
"$python" - "$run" >signals.out 2>&1 <<'END' || fail "signals: $(cat signals.out)"
import ctypes, os, signal, subprocess, sys, time
run = sys.argv[1]
child = """
import os, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN + 1, signal.SIGUSR1})
print("hup", signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, flush=True)
for _ in range(2):
    got = signal.sigtimedwait({signal.SIGRTMIN + 1, signal.SIGUSR1}, 150)
    print(got.si_signo - signal.SIGRTMIN, got.si_code, flush=True)
"""
p = subprocess.Popen([run, "-q", "-p", "-o", "signals.nprof", sys.executable, "-c", child],
                     stdout=subprocess.PIPE, text=True,
                     preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
assert p.stdout.readline() == "hup True\n", "SIGHUP is not ignored"
p.send_signal(signal.SIGHUP)
ctypes.CDLL(None).sigqueue(p.pid, signal.SIGRTMIN + 1, 7)
assert p.stdout.readline().split() == ["1", "-1"], "the value of a signal is lost"
p.send_signal(signal.SIGUSR1)
assert p.stdout.readline().split()[1] == "0"
assert p.wait(150) == 0
# Killed itself, it leaves nobody behind.
p = subprocess.Popen([run, "-q", "-p", "-o", "left.nprof", sys.executable, "-c",
                      "import os, time; print(os.getpid(), flush=True); time.sleep(600)"],
                     stdout=subprocess.PIPE, text=True)
pid = int(p.stdout.readline())
p.kill()
p.wait()
for _ in range(3000):
    if not os.path.exists(f"/proc/{pid}"): break
    time.sleep(0.05)
else:
    raise SystemExit("SIGKILL leaves the program")
# An alarm that was set before exec.
p = subprocess.run([sys.executable, "-c", "import os, signal, sys; signal.alarm(1); os.execv(sys.argv[1], sys.argv[1:])",
                    run, "-q", "-p", "-o", "alarm.nprof", "sleep", "600"])
assert p.returncode == -signal.SIGALRM, p.returncode
# Children that are not waited for.
p = subprocess.run([run, "-q", "-p", "-o", "chld.nprof", "sh", "-c", "exit 9"],
                   preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
assert p.returncode == 9, p.returncode
END

# A crash: the status, and one core, the program's.
printf 'int main(void) { volatile int *p = 0; return *p; }\n' >crash.c
gcc crash.c -o crash
ulimit -c unlimited 2>/dev/null || true
go crash --profile ../../crash
is 139
says "was killed by signal 11 (Segmentation fault)" "profile"
if [ "$(ulimit -c)" = unlimited ] && [[ $(cat /proc/sys/kernel/core_pattern) != [\|/]* ]]; then
    [ "$(find "$at/in" -name '*core*' | wc -l)" = 1 ] || fail "crash: not one core: $(ls "$at/in")"
    says "core dumped"
fi

mkdir terminal
(cd terminal && "$python" "$test_source/run_terminal.py" "$run") || fail "on a terminal"

# ---- a running process, by its number: numalloc-run's own ($!), and the program's
cat >work.py <<'END'
import sys, time
kept = []
while True:
    kept.append(bytes(9000))
    if len(kept) > 1000: kept.clear()
    time.sleep(0.002)
END
ask() {
    rc=0
    (cd "$at/in" && exec "$run" "$@") >"$at/out" 2>"$at/err" </dev/null || rc=$?
}
at=$work/run.control
mkdir -p "$at/in"
(cd "$at/in" && exec "$run" --later -o later.nprof "$python" ../../work.py 2>../later.err) &
later=$!
at_end+=("kill -9 $later 2>/dev/null")
await 'grep -qs . "/proc/$later/task/$later/children"'
read -ra children <"/proc/$later/task/$later/children" || true # no line's end
program=${children[0]}
await 'grep -q work.py "/proc/$program/cmdline" && mapped "$program"'
ask --stop $later
is 125
says "process $program records no profile now"
ask --start $later
is 0
says "process $program records in" "--stop $program ends it"
ask --start "$program"
is 125
says "records already"
ask --dump "$program"
is 0
says "(process $program)" "peak" "later.nprof.all/" "next"
[ "$("$dump" list "$at/in/later.nprof.all" --top 0 --csv | wc -l)" = 3 ] || fail "--dump: not two profiles: $(ls "$at/in/later.nprof.all")"
sleep 0.3
ask --stop "$program"
is 0
says "(process $program)" "peak"
"$dump" "$(sed -n 's/^  profile  *//p' "$at/err")" | grep ', stopped; the process ran on' >/dev/null || fail "--stop: $(cat "$at/err")"
kill $later
rc=0
wait $later || rc=$?
is 143
[ -s "$at/in/later.nprof" ] && grep -q 'next' "$at/later.err" || fail "--later: $(cat "$at/later.err")"
# Servers write their title over what they were started with: with it goes the way to ask them, and is found in
# numalloc-run above; of one whose numalloc-run is gone, in its profile.
cat >titled.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
extern char **environ;
int main(int count, char **argv) {
    char *end = environ[0];
    for (char **e = environ; *e; e++) {
        end = *e + strlen(*e);
        *e = strdup(*e);
    }
    char title[64];
    snprintf(title, sizeof title, "titled: %s", count > 1 ? argv[1] : "waits");
    memset(argv[0], 0, (size_t)(end - argv[0]));
    strcpy(argv[0], title);
    if (count > 1 && fork() > 0) { /* a daemon */
        usleep(200000);
        _exit(0);
    }
    setsid();
    static char *kept[1000];
    for (int i = 0;; i = (i + 1) % 1000) {
        free(kept[i]);
        kept[i] = malloc(9000);
        usleep(2000);
    }
}
END
cc -O1 titled.c -o titled || fail "the compiler does not build titled.c"
(cd "$at/in" && exec "$run" --later -q -o titled.nprof ../../titled) &
titled=$!
at_end+=("kill -9 $titled 2>/dev/null")
await 'grep -qs "^titled" "/proc/$(cut -d" " -f1 "/proc/$titled/task/$titled/children")/cmdline"'
for request in start dump stop; do
    ask --$request $titled
    is 0
done
kill $titled
wait $titled || true
mkdir -p "$at/daemon"
(cd "$at/in" && exec "$run" --profile -q -o ../daemon/ ../../titled away$$)
daemon=$(pgrep -xf "titled: away$$.*" | head -n 1)
at_end+=("kill -9 $daemon 2>/dev/null")
[ "$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$daemon/status")" != $$ ] || fail "the daemon is no daemon"
for request in dump stop; do
    ask --$request "$daemon"
    is 0
done
kill "$daemon"
# By signals, where the user chose these; the copy is of that process alone.
(cd "$at/in" && exec env NUMALLOC_PROFILE_SIGNAL=usr1 NUMALLOC_PROFILE_DUMP_SIGNAL=usr2 "$run" "$python" ../../work.py 2>/dev/null) &
signals=$!
at_end+=("kill -9 $signals 2>/dev/null")
caught() { sed -n 's/^SigCgt:\t/0x/p' "/proc/$1/status"; }
await 'mapped $signals && grep -q work.py "/proc/$signals/cmdline" && [ $(($(caught $signals) >> 9 & 1)) = 1 ]'
for request in start dump stop; do
    ask --$request $signals
    is 0
    sleep 0.2
done
kill -0 $signals || fail "a signal killed the process"
# It is not signalled where that would kill it: no way, no library, no process.
kill $signals
wait $signals || true
"$python" work.py &
without=$!
at_end+=("kill -9 $without 2>/dev/null")
NUMALLOC_PROFILE_SIGNAL=usr1 ask --stop $without
is 125
says "runs without numalloc"
NUMALLOC_PROFILE_SIGNAL=usr1 "$python" work.py &
variable=$!
at_end+=("kill -9 $variable 2>/dev/null")
ask --start $variable
is 125
(exec "$run" "$python" work.py 2>/dev/null) &
no_way=$!
at_end+=("kill -9 $no_way 2>/dev/null")
await 'mapped $no_way && grep -q work.py "/proc/$no_way/cmdline"'
ask --start $no_way # which it was not started to be asked
is 0
says "process $no_way records in"
# One that sleeps is told apart from one that has ended.
mkfifo wake # from a sleep
(exec "$run" --later -q -o sleeps.nprof "$python" -c 'import os; open("asleep", "w"); open("wake").read()
kept = [bytes(9000) for i in range(2000)]; open("wake").read(); os.kill(os.getpid(), 9)') &
sleeps=$!
# told PID: it is asked, and wakes when who asks has said that it sleeps
told() {
    rc=0
    rm -f "$at/err" # of the last one
    (cd "$at/in" && exec "$run" --start "$1") >"$at/out" 2>"$at/err" </dev/null &
    local asking=$!
    await 'grep -qs "was asked; it looks when it allocates" "$at/err"'
    : >wake
    wait $asking || rc=$?
}
await '[ -e asleep ]'
told $sleeps
is 0
says "records in"
: >wake
(exec "$run" --later -q "$python" -c 'import os; open("asleep2", "w"); os.open("wake", os.O_RDONLY); os._exit(0)') &
ends=$!
await '[ -e asleep2 ]'
told $ends
is 125
says "has ended"
wait $ends $sleeps || true
kill -0 $without $variable $no_way || fail "a process was killed"
kill $without $variable $no_way
wait $without $variable $no_way || true
ask --dump $no_way
is 125
says "there is no process $no_way"
ask --dump 0
is 125
says "the number of a process is wanted"

# ---- what cannot be run, or not with numalloc
go none no_such_program
refused 127 "no_such_program: no such program in PATH"
go none_profile --profile ./no_such_program
refused 127 "./no_such_program: No such file or directory"
go folder --profile /usr
refused 126 "/usr is a directory"
echo data >plain
go plain --profile ../../plain
refused 126 "not executable"
printf '#!/no/such/interpreter\n' >script
printf '#!/bin/sh\r\necho hi\r\n' >windows
printf 'echo "by $0"\n' >bare
printf '\x7fELF\x02\x01\x01\x00\x00\x00junk' >cut
printf '#!/bin/sh\necho "$1"\n' >good
chmod +x script windows bare cut good
go script ../../script
refused 126 "its interpreter /no/such/interpreter" "mend its first line"
go windows ../../windows
refused 126 "its interpreter" "as on Windows"
go cut ../../cut
refused 126 "not a program that this system can run"
go bare -p ../../bare
is 0
[ "$(cat "$at/out")" = "by ../../bare" ] || fail "a script without an interpreter: $(cat "$at/out")"
go good -p ../../good 'a  b'
[ "$(cat "$at/out")" = "a  b" ] || fail "a script: $(cat "$at/out")"
printf 'int main(void) { return 4; }\n' >four.c
if gcc -static four.c -o static 2>/dev/null; then
    go static ../../static
    refused 126 "statically linked" "libnumalloc.a"
    printf '#include <stdlib.h>\nvoid *volatile kept;\n__attribute__((noipa)) void asks(void) { kept = malloc(77777); }\nint main(void) { asks(); return 4; }\n' >linked.c
    gcc -g -static -Wl,--eh-frame-hdr linked.c -o linked "${lib%/*}/libnumalloc.a" -pthread
    go linked ../../linked
    is 4
    for mode in profile sample trace; do # the C library allocates before it has begun
        go linked --$mode -o linked.nprof ../../linked
        is 4
        one_profile
        [ $mode = sample ] && continue
        "$dump" sites --stacks --top 0 "$profile" >"$at/sites"
        grep '| asks' "$at/sites" >/dev/null || fail "--$mode of a static program: no stacks: $(cat "$at/sites")"
        ! grep '[|~] na_' "$at/sites" || fail "--$mode of a static program: the library's own frames are in its stacks"
    done
fi
gcc four.c -o four
"$python" - <<'END'
data = bytearray(open("four", "rb").read())
data[18:20] = (183).to_bytes(2, "little")
open("aarch64", "wb").write(data)
data[18:20] = (3).to_bytes(2, "little")
data[4] = 1
open("x86_32", "wb").write(data)
data = open("four", "rb").read()
old = b"/lib64/ld-linux-x86-64.so.2\0"
assert old in data
open("musl", "wb").write(data.replace(old, b"/lib/ld-musl-x86_64.so.1".ljust(len(old), b"\0")))
END
chmod +x aarch64 x86_32 musl
go machine ../../aarch64
refused 126 "a program for aarch64, and this numalloc is for x86-64"
go bits ../../x86_32
refused 126 "a program for 32-bit x86"
go musl ../../musl
refused 126 "musl"
gcc -std=gnu17 -fno-builtin -DPROGRAM -o other "$test_source/other_malloc.c"
go other ../../other
says "has a malloc of its own"
go other --profile ../../other
says "not numalloc's"
gcc four.c -o linked_in -rdynamic -Wl,--whole-archive "${lib%/*}/libnumalloc.a" -Wl,--no-whole-archive -pthread
go linked_in -p bash -c '../../linked_in; exit $?'
is 4
go linked_in -p ../../linked_in
is 4
one_profile
go no_library --library /no/such.so true
refused 125 "--library /no/such.so: No such file"
mkdir "with space"
cp "$lib" "with space/libnumalloc.so"
go space --library "../../with space/libnumalloc.so" true
refused 125 "with a space or colon"
mkdir alone_bin
cp "$run" alone_bin/
rc=0
alone_bin/numalloc-run true 2>"$at/err" || rc=$?
is 125
says "neither beside this program"
go not_profile -p -o ../../plain true
refused 125 "is there and is no profile"
touch taken.nprof.all
go all -p -o ../../taken.nprof true
refused 125 "no profile can be written: ../../taken.nprof.all: File exists"
go no_place -p -o /no/such/place.nprof true
refused 125 "no profile can be written" "name another place with -o"
go option --no-such true
refused 125 "no such option" "--no-such"
go letter -Z true
refused 125 "no such option: -Z"
go nothing
refused 125 "no program named"
go source --access=nothing true
refused 125 "--access takes one of off auto" "not: nothing"
go bytes --sample=much true
refused 125 "--sample takes bytes"
go two --sample --trace true
refused 125 "one of --profile, --sample and --trace"
go no_profile --html true
refused 125 "--html needs a profile"
if [ "$(id -u)" = 0 ]; then
    chmod 755 "$work"
    cp four suid
    chmod 4755 suid
    mkdir open
    chmod 777 open
    as_user() { (cd open && setpriv --reuid 65534 --regid 65534 --clear-groups "$run" "$@") >"$at/out" 2>"$at/err" || rc=$?; }
    rc=0 at=$work/suid_run
    mkdir "$at"
    if as_user ../four && [ $rc = 4 ]; then
        rc=0
        as_user ../suid
        is 126
        says "set-user-id" "LD_PRELOAD"
        if command -v setcap >/dev/null && cp four caps && setcap cap_net_raw+ep caps 2>/dev/null; then
            rc=0
            as_user ../caps
            is 126
            says "file capabilities"
        fi
        rc=0
        (cd / && setpriv --reuid 65534 --regid 65534 --clear-groups "$run" -p true) >"$at/out" 2>"$at/err" || rc=$?
        is 0
        says "no profile can be written" "Permission denied" "the program runs without"
    fi
    go set_user -q ../../suid # its owner's
    is 4
fi
say "programs, names, signals and mistakes"
