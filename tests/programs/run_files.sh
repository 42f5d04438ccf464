#!/bin/bash
# run_files.sh - files of profiles: copies are whole or not there, directories are made, names of all
# kinds are borne. Usage: run_files.sh LIBRARY NUMALLOC_RUN NUMALLOC_DUMP.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
run=$2 dump=$3
need gcc gcc python3 python3-minimal
cd "$work"
trap 'echo "run_files: line $LINENO: $BASH_COMMAND" >&2' ERR
unset DISPLAY WAYLAND_DISPLAY

# Allocates COUNT blocks, says so, and goes on until it is killed.
cat >server.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(int count, char **words) {
    static void *kept[1024];
    unsigned x = 1;
    for (long i = count > 1 ? atol(words[1]) : 0; i > 0; i--) {
        x = x * 1664525u + 1013904223u;
        free(kept[x >> 22]);
        kept[x >> 22] = malloc(16 + (x >> 8) % 2000);
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        for (int i = 0; i < 300; i++) {
            void *volatile block = malloc(100000);
            free(block);
        }
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
}
END
gcc -O1 -g -fno-builtin server.c -o server

# begin WORD...: starts it in the background, and waits until it is ready; sets $began.
begin() {
    : >out
    "$@" >out 2>err &
    began=$!
    at_end+=("kill -9 $began 2>/dev/null")
    await 'grep -q ready out || ! kill -0 $began'
    grep -q ready out || fail "$*: does not begin: $(cat err)"
}
end() {
    kill "$began" 2>/dev/null || true
    wait "$began" 2>/dev/null || true
}
# ask STATUS WORD...: of numalloc-run.
ask() {
    local want=$1 rc=0
    shift
    "$run" "$@" >said 2>&1 </dev/null || rc=$?
    [ "$rc" = "$want" ] || fail "numalloc-run $*: status $rc, $want expected: $(cat said)"
}

# ---- a copy has its name when it is whole, and who asked waits for that
cat >watch.py <<'END'
import os, re, sys, time
directory = sys.argv[1]
seen = set()
print("watching", flush=True)
last = False
while not last:
    last = os.path.exists("enough")  # then once more: it may not have had a turn since the last copy
    for name in os.listdir(directory):
        if name in seen or re.search(r"\.nprof\.[0-9]+$", name) is None: continue
        with open(os.path.join(directory, name), "rb") as file:
            if file.read(8) != b"\x89NPROF\r\n": sys.exit(f"{name} is there before it is whole")
        seen.add(name)
    time.sleep(0.0005)
sys.exit(0 if len(seen) == 3 else f"copies: {seen}")
END
NUMALLOC_TRACE_LEVEL=0 begin "$run" -q -t -o copied.nprof ./server 1000000
python3 watch.py copied.nprof.all >watched 2>&1 &
watcher=$!
await 'grep -q watching watched'
for _ in 1 2 3; do
    ask 0 --dump $began
    grep -q '^  peak' said || fail "--dump: $(cat said)"
done
: >enough
wait $watcher || fail "$(cat watched)"
# What a killed process was making is no profile.
: >copied.nprof.all/cut.nprof.9.part
[ "$("$dump" list --top 0 --csv copied.nprof.all | wc -l)" = 5 ] || fail "a copy that is not whole counts: $("$dump" list copied.nprof.all)"
# A copy that cannot be read: a status that says so.
mkdir bin
cp "$run" bin/
cp "$lib" bin/libnumalloc.so.0
printf '#!/bin/sh\necho "numalloc-dump: no" >&2\nexit 2\n' >bin/numalloc-dump
chmod +x bin/numalloc-dump
rc=0
read -ra children <"/proc/$began/task/$began/children" || true # no line's end
bin/"${run##*/}" --dump "${children[0]}" >said 2>&1 || rc=$?
[ $rc = 125 ] && grep -q 'numalloc-dump: no' said || fail "--dump of what cannot be read: status $rc, $(cat said)"
ask 0 --stop $began
end
[ ! -e copied.nprof.all/cut.nprof.9.part ] || fail "the rest of a copy is left: $(ls copied.nprof.all)"
say "copies are whole"

# ---- directories: one named with a slash at its end is made; what cannot be is said in one line, and the program goes on
printf 'int main(void) { return 3; }\n' >three.c
printf '#include <stdlib.h>\nint main(void) { char *p = malloc(9); free(p); free(p); return 4; }\n' >twice.c
gcc three.c -o three
gcc -O0 -w twice.c -o twice
# with STATUS LINES PROGRAM SETTING...: with the library alone.
with() {
    local want=$1 lines=$2 program=$3 rc=0
    shift 3
    env "$@" LD_PRELOAD="$lib" NUMALLOC_ABORT=0 "$program" >/dev/null 2>said || rc=$?
    [ "$rc" = "$want" ] && [ "$(wc -l <said)" = "$lines" ] || fail "$* $program: status $rc, $(cat said)"
}
echo text >plain
with 3 0 ./three NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=made/a/b/
with 3 0 ./three NUMALLOC_GUARD=1 NUMALLOC_GUARD_FILE="$work/made/c/"
compgen -G 'made/a/b/numalloc.three.*.nprof' >/dev/null && compgen -G 'made/c/numalloc.three.*.errors' >/dev/null ||
    fail "directories are not made: $(find made)"
for name in none/file plain/ plain/a/ /proc/none/; do
    with 3 1 ./three NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=$name
    with 3 1 ./three NUMALLOC_GUARD=1 NUMALLOC_GUARD_FILE=$name
done
for name in none/file made made/; do with 4 2 ./twice NUMALLOC_MISUSE_FILE=$name; done
for name in made made/ none/; do
    with 3 1 ./three NUMALLOC_PROFILE_TRIGGER=$name
    with 3 1 ./three NUMALLOC_POLICY=$name
done
for name in none made; do with 3 1 ./three NUMALLOC_LEAKS=1 NUMALLOC_LEAKS_SUPPRESSIONS=$name; done
ask 3 -p -o deep/er/down/ ./three
grep -q '^  profile  *deep/er/down/numalloc.three' said || fail "the profile's name is not said: $(cat said)"
[ -s "$(sed -n 's/^  profile  *//p' said)" ] || fail "no profile is there: $(cat said)"
ask 125 -p -o plain/a/ ./three
[ "$(wc -l <said)" = 1 ] || fail "-o plain/a/: $(cat said)"
[ "$(cat plain)" = text ] || fail "a file was written over"
say "directories are made"

# ---- copies of a process by time, found at any depth, counted as what they are
cat >grows.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
/* Until there are seven copies beside each other. */
__attribute__((noipa)) static char *keep(void) { return memset(malloc(3000), 1, 3000); }
int main(int count, char **words) {
    (void)count;
    while (access(words[1], F_OK) != 0) {
        keep();
        for (int i = 0; i < 300; i++) {
            void *volatile block = malloc(100000);
            free(block);
        }
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    return 0;
}
END
gcc -O1 -g -fno-builtin grows.c -o grows
(await "compgen -G 'grown/*/*.nprof.7' >/dev/null"; : >stop) &
ask 0 -p --dump-every 0.05 -o grown/ ./grows stop
wait
folder=$(echo grown/numalloc.grows.*)
[ -d "$folder" ] || fail "no directory of copies: $(find grown)"
grep -Eq '^[0-9]+ dumps of one process$' said || fail "copies are not counted: $(cat said)"
grep -Eq "^  next .*numalloc-dump aggregate --leaks $folder\$" said || fail "the next command is another: $(cat said)"
"$dump" aggregate --leaks grown/ >growth
grep -q ' keep ' growth || fail "nothing grows: $(cat growth)"
"$dump" aggregate grown | has -E '^[0-9]+ dumps of one process; --leaks' || fail "$("$dump" aggregate grown | head -n 3)"
all=$("$dump" list --top 0 --csv grown | wc -l)
# By a link in a circle, a second name of a file, and what is hidden: nothing more.
ln -s ../.. "$folder/circle"
mkdir -p "$folder/a/b/c" "$folder/.hidden"
ln "$folder"/*.nprof "$folder/a/again.nprof"
cp "$folder"/*.nprof "$folder/.hidden/"
[ "$("$dump" list --top 0 --csv grown | wc -l)" = "$all" ] || fail "the same is found twice: $("$dump" list --top 0 grown)"
cp "$folder"/*.nprof "$folder/a/b/c/"
[ "$("$dump" list --top 0 --csv grown | wc -l)" = $((all + 1)) ] || fail "what is deeper is not found"
for wrong in 0 5m nan; do ask 125 -p --dump-every $wrong ./three; done
ask 125 --dump-every 1 ./three
say "copies by time are found and counted"

# ---- a process that has just begun is waited for, by its own number or that of its numalloc-run
for _ in 1 2 3 4 5; do
    (exec "$run" -q -p -o soon.nprof ./server >/dev/null 2>&1) & began=$!
    "$dump" top $began >said 2>&1 || fail "top right behind numalloc-run: $(cat said)"
    grep -q 'server, process ' said || fail "top: $(cat said)"
    "$dump" policy --follow $began --iterations 1 >said 2>&1 || fail "--follow of a numalloc-run: $(cat said)"
    end
    NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=soon2.nprof LD_PRELOAD=$lib ./server >/dev/null & began=$!
    "$dump" policy --follow $began --iterations 1 >said 2>&1 || fail "--follow right behind the start: $(cat said)"
    end
    rm -f soon2.nprof
    (exec "$run" -q -p -o soon.nprof ./server >/dev/null 2>&1) & began=$!
    ask 0 --dump $began
    end
done
sleep 600 & began=$!
! "$dump" top $began >said 2>&1 && grep -q "process $began records no profile" said || fail "top of a process without: $(cat said)"
end
say "a process that has just begun is waited for"

# ---- workers of one program are told apart: by what they are called now, and by what they were started with
cat >workers.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int count, char **words) {
    size_t room = (size_t)(words[count - 1] + strlen(words[count - 1]) - words[0]);
    for (int i = 1; i <= 2; i++) {
        if (fork() != 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        void *volatile block = malloc(100);
        free(block);
        memset(words[0], 0, room);
        snprintf(words[0], room, "workers: number %d", i);
        (void)!write(1, "ready\n", 6);
        for (;;) pause();
    }
    void *volatile block = malloc(100);
    free(block);
    puts("ready");
    fflush(stdout);
    for (;;) pause();
}
END
gcc -O1 -w workers.c -o workers
begin "$run" -q -p -o apart/ ./workers --room --for --a title
await '[ "$(grep -c ready out)" = 3 ]'
"$dump" list --top 0 apart >listed
end
for words in '--room --for --a title' 'number 1' 'number 2'; do
    grep -Eq "^workers .* $words +20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9:]{8}  " listed || fail "workers are not told apart: $(cat listed)"
done
ask 0 -q -p -o apart2/ sh -c './three first; ./three second; exit 0'
"$dump" list --top 0 apart2 >listed
grep -q '^three .* first  *20' listed && grep -q '^three .* second  *20' listed || fail "runs are not told apart: $(cat listed)"
say "processes of one program are told apart"

# ---- a scan that the process cannot make is refused in a line
begin "$run" -q -p -o leaks.nprof ./server
echo leaks >request
mv request leaks.nprof.all/requests
await "grep -q 'no scan' err"
end
[ "$(cat err)" = 'numalloc: no scan for leaks: start the program with NUMALLOC_LEAKS=1 (numalloc-run --leaks)' ] ||
    fail "leaks without NUMALLOC_LEAKS: $(cat err)"

# ---- --dump of a server whose main process sleeps: those that it has forked answer
cat >workers.c <<'END'
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    void *volatile block = malloc(1000);
    free(block);
    for (int i = 0; i < 10; i++) {
        if (fork() != 0) continue;
        for (int n = 0;; n = (n + 1) % 300) {
            free(block = malloc(100000));
            if (n == 0) nanosleep(&(struct timespec){0, 10000000}, NULL);
        }
    }
    (void)!write(1, "ready\n", 6);
    return pause();
}
END
gcc -O1 -fno-builtin workers.c -o workers
mkdir workers.out
begin "$run" -q -p -o workers.out/ ./workers
main=$(pgrep -x -P $began workers)
at_end+=("pkill -P $main 2>/dev/null")
await '[ "$(find workers.out -name "*.nprof" | wc -l)" = 11 ]'
ask 0 --dump $began
[ "$(grep -c '^  dump  *.*\.nprof\.1 (workers, process' said)" = 10 ] || fail "--dump of ten workers: $(cat said)"
grep -q "^numalloc-run: process $main (workers) has not answered" said && grep -q '10 of 11 processes answered' said ||
    fail "--dump: who is silent: $(cat said)"
pkill -x -P "$main" workers
end

# ---- programs and directories of odd names: --dump, top and list find the profile
cat >unnamed.py <<'END'
import os, sys
memory = os.memfd_create("odd) (name", 0)
os.write(memory, open("server", "rb").read())
os.execv(f"/proc/self/fd/{memory}", ["server", "1000"])
END
long=$(printf 'n%.0s' $(seq 250)) # the kernel's most is 255
umlauts=$(printf 'ü%.0s' $(seq 120))
# borne NAME WORD...: the program's name as it is shown.
borne() {
    local name=$1 place
    shift
    rm -rf odd
    begin "$run" -q -p -o odd/ "$@"
    ask 0 --dump $began
    grep -qF "$name (process" said || fail "--dump of '$name': $(cat said)"
    "$dump" top $began >said 2>&1 && grep -qF "$name, process" said || fail "top of '$name': $(cat said)"
    "$dump" list --top 0 odd >said 2>&1 && grep -qF "$name " said || fail "list of '$name': $(cat said)"
    place=$(find odd -name '*.nprof.1')
    [ -n "$place" ] && ! grep -q deleted <<<"$place" || fail "profiles of '$name': $(find odd)"
    end
}
for name in "$long" "$umlauts" 'a) R (b c' '%e %p'; do
    cp server "./$name"
    LC_ALL=C.UTF-8 borne "$name" "./$name"
done
borne 'odd) (name' /usr/bin/python3 unnamed.py
cp server gone
rm -rf odd
begin "$run" -q -p -o odd/ ./gone
rm gone
ask 0 --dump $began
"$dump" top $began >said 2>&1 || fail "top of a program that was removed: $(cat said)"
end
find odd -name '*deleted*' | has . && fail "a removed program's profile: $(find odd)"
LC_ALL=C.UTF-8 with 3 0 ./three NUMALLOC_GUARD=1 NUMALLOC_GUARD_FILE=guarded/
cp three "./$long"
with 3 0 "./$long" NUMALLOC_GUARD=1 NUMALLOC_GUARD_FILE=guarded/ NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=guarded/
[ "$(find guarded -name '*nnn*' | wc -l)" = 2 ] || fail "a long name: $(find guarded)"
# A path that is longer than its place in the profile: said once, and nothing else is lost.
deep=$work
while [ ${#deep} -lt 600 ]; do deep=$deep/$(printf 'd%.0s' $(seq 90)); done
mkdir -p "$deep"
cp server "$deep/deepserver"
begin "$run" -q -p -o "$deep/its.nprof" "$deep/deepserver"
ask 0 --dump $began
grep -qF 'deepserver (process' said || fail "--dump of a deep program: $(cat said)"
end
[ "$(grep -c 'deepserver: its path has more than 431 bytes' err)" = 1 ] || fail "a cut path is not said: $(cat err)"
"$dump" functions "$deep/its.nprof" | has ' deepserver' || fail "where a function lies is lost"
say "odd names"

# ---- a program that NUMALLOC_PROFILE_ONLY leaves out: that is said
NUMALLOC_PROFILE_ONLY='other*' "$run" -p ls >out 2>said || fail "ls: $(cat said)"
grep -q 'no profile: NUMALLOC_PROFILE_ONLY' said || fail "why there is no profile is not said: $(cat said)"
say "left out"

# ---- a daemon that has allocated nothing yet when what began it ends: its profile is in the directory
cat >late.c <<'END'
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words) {
    if (count != 3) return 2;
    if (fork() != 0) return 0;
    while (access(words[1], F_OK) != 0)
        usleep(10000);
    for (int i = 0; i < 1000; i++)
        free(malloc(100000));
    return creat(words[2], 0666) < 0;
}
END
gcc -O1 -g -fno-builtin late.c -o late
mkdir late_files
"$run" --sample -q -o late_files/ ./late go gone
touch go
await '[ -e gone ]'
await '[ -n "$(find late_files/numalloc.late.*/ -name "*.nprof" 2>/dev/null)" ]'
[ -z "$(find late_files -type f ! -name '*.nprof')" ] || fail "not a profile by its name: $(find late_files)"
say "a daemon's profile is where those of the others are"
