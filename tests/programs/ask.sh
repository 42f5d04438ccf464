#!/bin/bash
# ask.sh - any process that runs with numalloc can be asked for a profile, by whatever it was
# started: it goes on undisturbed, and who cannot be asked is told why. What grows in it is one
# command. Usage: ask.sh LIBRARY NUMALLOC_RUN NUMALLOC_DUMP.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
run=$2 dump=$3
need setpriv util-linux
cd "$work"
export TMPDIR=$work # of --growth
chmod 755 "$work"
trap 'echo "ask: line $LINENO: $BASH_COMMAND" >&2' ERR
times=1
[ "$TEST_SCALE" != full ] || times=50

cc -g -O1 -fno-builtin -pthread "$test_source/ask_server.c" -o ask_server || fail "the compiler does not build ask_server.c"
ar=${lib%/*}/libnumalloc.a

# begin NAME COMMAND...: a server in the directory NAME; its process's number is in $server, its
# input is held open by $input.
begin() {
    name=$1
    shift
    mkdir -p "$work/$name"
    chmod 777 "$work/$name"
    mkfifo "$work/$name.in"
    (cd "$work/$name" && exec "$@" <"$work/$name.in" >"$work/$name.out" 2>"$work/$name.err") &
    leader=$!
    exec {input}>"$work/$name.in"
    at_end+=("kill -9 $leader 2>/dev/null")
    await 'grep -q ready "$work/$name.out" 2>/dev/null || ! kill -0 $leader 2>/dev/null'
    grep -q ready "$work/$name.out" || fail "$name does not begin: $(cat "$work/$name.err")"
    server=$(sed -n 's/^ready //p' "$work/$name.out" | tail -n 1)
}
# undisturbed: it ends well.
undisturbed() {
    exec {input}>&-
    local status=0
    wait "$leader" || status=$?
    [ $status = 0 ] && [ "$(tail -n 1 "$work/$name.out")" = undisturbed ] ||
        fail "$name: status $status: $(tail -n 5 "$work/$name.out") $(head -n 5 "$work/$name.err")"
    rm "$work/$name.in"
}
# ask STATUS ARGUMENT...: its output is in out and err.
ask() {
    local status=0 wanted=$1
    shift
    (cd "$work/$name" && exec "${by[@]}" "$run" "$@") >out 2>err </dev/null || status=$?
    [ $status = "$wanted" ] || fail "$name: $*: status $status, not $wanted: $(cat out err)"
}
by=()
says() { grep -qF -- "$1" err || fail "$name: '$1' is not said: $(cat err)"; }
one_line() { [ "$(wc -l <err)" = 1 ] || fail "$name: not one line: $(cat err)"; }
profiles() { find "$1" -name '*.nprof*' | wc -l; }

# In a chroot the kernel gives names of other mounts from outside of it: nobody can open them.
is_named_here() {
    [ -e "$(awk '/ask_server$/ { print $6; exit }' "/proc/$server/maps")" ] ||
        ! echo "ask: not tried: a process with mounts of its own, in a chroot"
}
plain() { begin "$1" env LD_PRELOAD="$lib" "$work/ask_server" "${@:2}"; }

# ---- By whatever it was started: begin, copy, end.
all_three() {
    ask 0 --start "$server"
    says "process $server records in"
    ask 125 --start "$server"
    says "records already"
    ask 0 --dump "$server"
    says "(process $server)"
    ask 0 --stop "$server"
    [ "$(profiles "$work/$name")" = 2 ] || fail "$name: not a profile and a copy: $(ls "$work/$name")"
    ask 125 --dump "$server"
    says "records no profile now"
    undisturbed
}
plain preloaded server
all_three
begin by_run "$run" "$work/ask_server" server
all_three
gcc -g -O1 -fno-builtin -pthread -static "$test_source/ask_server.c" -o static_server -Wl,--eh-frame-hdr "$ar" 2>/dev/null || rm -f static_server
if [ -x static_server ]; then
    begin linked "$work/static_server" server
    all_three
fi
say "preloaded, by numalloc-run, linked in: a process is asked, and nothing of it is interrupted"

# ---- Where the profile goes, and what it is.
plain choices server
ask 0 --sample --start "$server" -o "$work/to/there %d/"
[ "$(profiles "$work/to/there %d")" = 1 ] || fail "-o: $(find "$work/to" "$work/choices")"
ask 0 --stop "$server"
"$dump" run "$work/to/there %d/"* | has -i 'sample' || fail "--sample: another mode"
ask 125 --sample=64K --start "$server"
says "--sample=BYTES is for programs that are started"
ask 125 --stop "$server" -o "$work/to"
undisturbed
plain left_out server # takes the variable with it
undisturbed
rm -rf left_out*
NUMALLOC_PROFILE_ONLY=other plain left_out server
ask 125 --start "$server"
says "NUMALLOC_PROFILE_ONLY"
one_line
undisturbed

# leave_asked: it does not answer; who asked has seen that, and is gone.
leave_asked() {
    rm -f asked.said # of the last one
    (cd "$name" && exec "$run" --start "$server" 2>"$work/asked.said") &
    local asking=$!
    await "grep -q 'was asked' asked.said || ! kill -0 $asking"
    grep -q "process $server was asked; it looks when it allocates" asked.said || fail "$name: $(cat asked.said)"
    kill $asking
    wait $asking || true
}
# ---- One that sleeps, one that is stopped, and what a child has of a request.
plain asleep obedient
leave_asked
[ "$(profiles "$work/asleep")" = 0 ] || fail "asleep: a profile"
echo go >&$input
await '[ "$(profiles "$work/asleep")" != 0 ]'
[ "$(profiles "$work/asleep")" = 1 ] || fail "asleep: the request is lost"
undisturbed
plain stopped server
kill -STOP "$server"
(cd stopped && exec "$run" --start "$server" 2>"$work/stopped.said") &
asking=$!
await "grep -q 'it is stopped' stopped.said || ! kill -0 $asking"
grep -q 'it is stopped; it looks when it goes on' stopped.said || fail "stopped: $(cat stopped.said)"
kill -CONT "$server"
wait $asking || fail "stopped: $(cat stopped.said)"
kill -9 "$server" # a stop interrupts epoll_wait, so it is not undisturbed
{ wait "$leader"; } 2>/dev/null || true
exec {input}>&-
plain forker forker
leave_asked
echo child >&$input
await 'grep -q did forker.out'
[ "$(profiles "$work/forker")" = 0 ] || fail "a forked child obeys a request to its parent"
echo parent >&$input
await '[ "$(profiles "$work/forker")" != 0 ]'
[ "$(profiles "$work/forker")" = 1 ] || fail "forker: the request is lost"
undisturbed
plain family family
await '[ "$(grep -c ready family.out)" = 2 ]'
for server in $(sed -n 's/^ready //p' family.out); do
    [ "$server" != "$leader" ] || continue
    ask 0 --start "$server"
    says "process $server records in"
done
[ "$(profiles "$work/family")" = 1 ] || fail "family: not the child alone: $(ls family)"
undisturbed
say "asleep, stopped, forked: the request stands for the process that was asked"

# ---- Who may not, and what cannot be asked.
plain rights server
if [ "$(id -u)" = 0 ]; then
    by=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    if setpriv --reuid 65534 --regid 65534 --clear-groups "$run" --version >/dev/null 2>&1; then
        ask 125 --start "$server"
        says "may not be looked at: Permission denied; be its user, or root"
        one_line
        undisturbed
        begin nobody setpriv --reuid 65534 --regid 65534 --clear-groups env LD_PRELOAD="$lib" "$work/ask_server" server
        all_three
        begin undumpable setpriv --reuid 65534 --regid 65534 --clear-groups env LD_PRELOAD="$lib" "$work/ask_server" undumpable
        ask 125 --start "$server"
        says "be its user, or root"
        undisturbed
        # By root, of another user: where that one may not write, and where it may.
        by=()
        begin "not/there" setpriv --reuid 65534 --regid 65534 --clear-groups env LD_PRELOAD="$lib" "$work/ask_server" server
        chmod 755 "$work/not/there"
        ask 125 --start "$server"
        says "name a directory with -o"
        ask 0 --start "$server" -o "$work/not/its"
        ask 0 --stop "$server"
        undisturbed
        if [ -x static_server ] && cp static_server suid && chmod 4755 suid; then
            begin secure setpriv --reuid 65534 --regid 65534 --clear-groups "$work/suid" server
            if [ "$(sed -n 's/^Uid:\t[0-9]*\t\([0-9]*\).*/\1/p' "/proc/$server/status")" = 0 ]; then
                ask 125 --start "$server"
                says "takes no requests"
            fi
            undisturbed
        fi
    else
        undisturbed
    fi
    if unshare -pf --mount-proc true 2>/dev/null; then
        begin inside unshare -pf --mount-proc env LD_PRELOAD="$lib" "$work/ask_server" server
        server=$(cut -d' ' -f1 "/proc/$leader/task/$leader/children")
        if is_named_here; then
            ask 0 --start "$server"
            ask 0 --dump "$server"
            ask 0 --stop "$server"
        fi
        undisturbed
    fi
    # A file system of its own: what is temporary is in its /tmp.
    mkdir -p own
    if unshare -m mount -t tmpfs none own 2>/dev/null; then
        begin container unshare -m sh -c 'mount -t tmpfs none "$1" && exec env LD_PRELOAD="$2" "$3" server' - \
            "$work/own" "$lib" "$work/ask_server"
        if is_named_here; then
            TMPDIR=$work/own ask 0 --growth=2s "$server"
            grep -q 'add_session' out || fail "in a container: $(cat out err)"
            rm -r "$(grep -o '/[^ ]*numalloc-growth[.][^/]*' err | head -n 1)"
        fi
        undisturbed
    fi
else
    undisturbed
fi
by=()
begin without "$work/ask_server" server
ask 125 --start "$server"
says "process $server runs without numalloc"
says "start it with numalloc-run"
one_line
undisturbed
cat >small.c <<'END_C'
void _start(void) {
    for (;;)
#ifdef __x86_64__
        __asm__ volatile("syscall" : : "a"(34) : "rcx", "r11", "memory");
#else
        __asm__ volatile("int $0x80" : : "a"(29) : "memory");
#endif
}
END_C
for bits in 64 32; do
    gcc -m$bits -O1 -nostdlib -static -ffreestanding small.c -o small$bits 2>/dev/null || continue
    ./small$bits 2>/dev/null &
    small=$!
    at_end+=("kill -9 $small 2>/dev/null")
    await 'grep -q small "/proc/$small/cmdline" 2>/dev/null || ! kill -0 $small 2>/dev/null'
    name=.
    kill -0 $small 2>/dev/null || continue # this system runs no such programs
    ask 125 --start $small
    [ $bits = 64 ] && says "statically linked" || says "32-bit x86"
    one_line
    kill -0 $small || fail "a process of $bits bits ended"
    kill $small
done
say "other users, more rights, other programs: one line says why, and what to do"

# ---- What grows.
for i in $(seq $times); do
    plain "growth$i" server
    for time in 5 20 80; do # on a busy machine some copies come too late
        ask 0 --growth=${time}s "$server"
        folder=$(grep -o '/[^ ]*numalloc-growth[.][^/]*' err | head -n 1)
        n=$(profiles "$folder")
        [ "$n" -le 6 ] || break
        rm -r "$folder"
    done
    says "process $server is watched for $time s"
    says "next"
    says "MiB meanwhile"
    for site in add_session add_cookie; do
        grep -q "$site  *ask_server.c:" out || fail "$site is not said to grow: $(cat out err)"
    done
    ! grep -q serve_request out || fail "what does not grow is named: $(cat out)"
    says "numalloc-growth."
    [ "$n" -gt 6 ] && [ "$n" -le 14 ] || fail "growth: $(ls "$folder")"
    rm -r "$folder"
    ask 125 --dump "$server"
    says "records no profile now"
    undisturbed
    rm -rf "growth$i"
done
# One that was started to be asked keeps its profiles where it was told to.
begin later "$run" --later -q -o later/ "$work/ask_server" server
for time in 2 8 32; do
    had=$(profiles "$work/later")
    ask 0 --growth=${time}s -q "$server"
    made=$(($(profiles "$work/later") - had))
    [ $made -le 6 ] || break
done
grep -q add_session out && [ ! -s err ] || fail "--later and --growth: $(cat out err)"
[ $made -gt 6 ] || fail "--later and --growth: $(find "$work/later")"
undisturbed
# One that ends meanwhile.
plain ended server
(cd ended && exec "$run" --growth=600s -o its "$server" >"$work/out" 2>"$work/err") &
asking=$!
await '[ "$(profiles ended 2>/dev/null)" -ge 2 ]'
kill -9 "$server"
{ wait "$leader"; } 2>/dev/null || true
exec {input}>&-
! wait $asking || fail "growth of a process that ended: $(cat out err)"
says "made no two copies"
# Ctrl-C: what is known so far; the profile that was there before stays.
plain early server
ask 0 --start "$server"
for enough in yes no; do
    time=8s
    [ $enough = yes ] || time=600s
    (cd early && exec "$run" --growth=$time "$server" >"$work/out" 2>"$work/err") &
    asking=$!
    [ $enough = yes ] && more=6 || more=1
    copies=$(($(find early -name '*.nprof.[0-9]*' | wc -l) + more))
    await '[ "$(find early -name "*.nprof.[0-9]*" | wc -l)" -ge $copies ] || ! kill -0 $asking 2>/dev/null'
    sleep 0.2
    kill -INT $asking
    wait $asking || fail "growth, ended: $(cat out err)"
    grep -q add_session out || fail "growth, ended: $(cat out err)"
done
says "too few to tell growth from chance"
ask 0 --dump "$server"
undisturbed
ask 125 --growth=2s "$server"
says "there is no process"
ask 125 --growth=2s
says "needs a PID"
ask 125 --growth=soon 1
says "--growth takes a time"
say "--growth names the two sites that grow, $times times, and leaves the process as it was"
