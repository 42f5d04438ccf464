#!/bin/bash
# run_users.sh - servers of root whose workers are another user: each process has a profile, and who
# can have none is counted. Usage: run_users.sh LIBRARY NUMALLOC_RUN NUMALLOC_DUMP.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
run=$2
[ "$(id -u)" = 0 ] || skip "only root has processes of other users"
need gcc gcc setpriv util-linux
cd "$work"
chmod 755 .
trap 'echo "run_users: line $LINENO: $BASH_COMMAND" >&2' ERR
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)

# Ten workers that become USER (0: stay what they are), live for a while, allocate little, and exit.
cat >prefork.c <<'E'
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int main(int count, char **words) {
    unsigned user = count > 1 ? (unsigned)atol(words[1]) : 0;
    for (int i = 0; i < 10; i++) {
        if (fork() != 0) continue;
        if (user != 0 && (setgid(user) != 0 || setuid(user) != 0)) return 1;
        nanosleep(&(struct timespec){0, 200000000}, NULL);
        void *volatile block = malloc(100);
        free(block);
        return 0;
    }
    while (wait(NULL) > 0)
        ;
    return 0;
}
E
gcc -O1 -fno-builtin prefork.c -o prefork

profiles() { find "$1" -name '*.nprof' | wc -l; }
# expect COUNT DIRECTORY WORD...: so many profiles there when numalloc-run has run that; what it says
# is in `said`.
expect() {
    local count=$1 directory=$2
    shift 2
    "$run" --sample -o "$directory/" "$@" >said 2>&1 || fail "$*: $(cat said)"
    [ "$(profiles "$directory")" = "$count" ] ||
        fail "$*: $(profiles "$directory") of $count processes have a profile: $(cat said)"
}

# ---- workers become another user
install -d -m 755 closed
expect 11 closed ./prefork 65534
if has missing said; then fail "nobody is without a profile: $(cat said)"; fi
install -d -m 755 stay
expect 11 stay ./prefork 0

# ---- the whole server is another user's: where it may write
install -d -m 755 shut
expect 1 shut "${nobody[@]}" ./prefork
has -F '1 process, and what it forks, has no profile (Permission denied); for all users: install -d -m 1777' said ||
    fail "who has no profile is not said: $(cat said)"
[ -z "$(find shut -name missing)" ] || fail "the list is left behind"
install -d -m 1777 all
expect 12 all "${nobody[@]}" ./prefork
[ "$(stat -c %a all/numalloc.*)" = 1777 ] || fail "a directory that all may write to: $(ls -l all)"
install -d -m 2770 -o 0 -g 65534 group
expect 12 group "${nobody[@]}" ./prefork
[ "$(stat -c %a:%g group/numalloc.*)" = 2770:65534 ] || fail "a directory of a group: $(ls -l group)"
[ "$(stat -c %a closed/numalloc.*)" = 755 ] || fail "a directory of root's alone: $(ls -l closed)"
# Requests are root's: nobody else can put one there.
install -d -m 1777 requests
# shellcheck disable=SC2016 # for the shell that is started
"$run" -q --sample -o requests/ "${nobody[@]}" \
    sh -c 'cd requests/numalloc.*; ! rm -f requests; ! touch requests; echo start >other || exit 1' 2>/dev/null ||
    fail "a request of another user's"

# ---- nothing can be written: a server runs all the same, and the log is not filled
cat >serves.c <<'E'
#include <stdlib.h>
#include <time.h>
int main(void) {
    for (int i = 0; i < 30000; i++) {
        void *volatile block = malloc(100000);
        free(block);
        if (i % 100 == 0) nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    return 3;
}
E
gcc -O1 -fno-builtin serves.c -o serves
mkdir small
if mount -t tmpfs -o size=700k small small 2>/dev/null; then
    at_end+=("umount $work/small")
    rc=0
    "$run" -q -p --dump-every 0.05 -o small/ ./serves 2>said || rc=$?
    [ $rc = 3 ] && [ "$(wc -l <said)" = 1 ] && has 'no copy of the profile.*the disk is full' said ||
        fail "a full disk: status $rc, $(wc -l <said) lines: $(head -n 3 said)"
    rm -r small/*
    dd if=/dev/zero of=small/full bs=4k 2>/dev/null || true # not even a line is to be written
    rc=0
    "$run" --sample -o small/ ./serves 2>said || rc=$?
    [ $rc = 3 ] && has 'no profile: 1 process.*No space left on device' said || fail "a full disk: status $rc: $(cat said)"
    rm small/full
    mount -o remount,ro small
    for option in --sample --later --access=off --leaks; do
        rc=0
        words=(-p)
        [ $option != --sample ] && [ $option != --later ] || words=()
        "$run" "${words[@]}" $option -o small/ ./serves 2>said || rc=$?
        [ $rc = 3 ] && [ "$(wc -l <said)" = 1 ] && has 'Read-only file system; .*the program runs without' said ||
            fail "$option where nothing can be written: status $rc: $(cat said)"
    done
    NUMALLOC_PROFILE=sites "$run" -o small/new/ sh -c '[ -z "$NUMALLOC_PROFILE" ]' 2>said || fail "a profile by variable: $(cat said)"
fi

# ---- Python, nginx, PostgreSQL
if command -v /usr/bin/python3 >/dev/null; then
    cat >prefork.py <<'E'
import os, time
for _ in range(10):
    if os.fork() == 0:
        os.setgid(65534); os.setuid(65534); time.sleep(0.2); os._exit(0)
for _ in range(10): os.wait()
E
    install -d -m 755 python
    expect 11 python /usr/bin/python3 prefork.py
fi
wait_for() { # COMMAND...: until it succeeds
    local words
    words=$(printf '%q ' "$@")
    await "$words >/dev/null 2>&1"
}
if command -v nginx >/dev/null && command -v curl >/dev/null; then
    cat >nginx.conf <<E
user nobody nogroup; daemon off; worker_processes 10; pid $PWD/nginx.pid; error_log $PWD/nginx.log; events { }
http { access_log off; client_body_temp_path $PWD/t1; proxy_temp_path $PWD/t2; fastcgi_temp_path $PWD/t3;
uwsgi_temp_path $PWD/t4; scgi_temp_path $PWD/t5;
server { listen unix:$PWD/web; location / { return 200 "fine"; } } }
E
    install -d -m 755 nginx
    "$run" --sample -o nginx/ nginx -p "$PWD" -c "$PWD/nginx.conf" >said 2>&1 &
    wait_for curl -sf --unix-socket "$PWD/web" http://x/
    workers() { [ "$(pgrep -c -P "$(cat nginx.pid)" -u nobody nginx)" = 10 ]; }
    wait_for workers
    kill -QUIT "$(cat nginx.pid)"
    wait %% || fail "nginx: $(cat said nginx.log)"
    [ "$(profiles nginx)" = 11 ] || fail "nginx: $(profiles nginx) of 11 processes: $(cat said nginx.log)"
fi
bin=$(compgen -G '/usr/lib/postgresql/*/bin' | tail -n 1) || true
if [ -n "$bin" ]; then
    install -d -m 1777 server postgres
    "${nobody[@]}" "$bin/initdb" -D server/data -A trust -U owner -N >/dev/null
    "$run" --sample -o postgres/ "${nobody[@]}" "$bin/postgres" -D server/data -k "$PWD/server" -h '' >said 2>&1 &
    server=$!
    sql() { "$bin/psql" -h "$PWD/server" -U owner -qAt postgres "$@"; }
    wait_for sql -c 'select 1'
    sleep 0.2 # who waited for the server was none of the ten
    clients=()
    for _ in $(seq 10); do
        sql -c 'select pg_backend_pid()' -c 'select pg_sleep(0.3)' -c 'select count(*) from pg_class' >>backends &
        clients+=($!)
    done
    wait "${clients[@]}"
    kill -INT "$(head -n 1 server/data/postmaster.pid)"
    wait $server || fail "PostgreSQL: $(cat said)"
    for pid in $(sed -n '/^[0-9]\{4,\}$/p' backends) "$(sed -n 's/.*\[\([0-9]*\)\] LOG:  starting.*/\1/p' said)"; do
        [ -n "$(find postgres -name "numalloc.postgres.$pid.*.nprof")" ] || fail "PostgreSQL: process $pid has no profile"
    done
fi
say "each process has a profile"
