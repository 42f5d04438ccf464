#!/bin/bash
# guard_quiet.sh - correct programs of all kinds under NUMALLOC_GUARD, every block guarded, with files of
# errors: not one report. Each program run has a file, so runs are counted; forked children come on top.
# TEST_SCALE=full: some 10,000 runs.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
need cc gcc perl perl make make xargs findutils

# How often each kind is run.
case $TEST_SCALE in
full) times=32 ;;
*) times=1 ;;
esac
cc -O1 -fno-builtin -pthread "$test_source/guard_children.c" -o "$work/children" || fail "guard_children.c does not build"

guarded=(NUMALLOC_GUARD=1 NUMALLOC_GUARD_EACH=1 NUMALLOC_GUARD_FILE="$work/errors" LD_PRELOAD="$lib")
mkdir "$work/errors"
chmod 1777 "$work" "$work/errors"
runs=0

# kind NAME FUNCTION: runs it so often, all its programs guarded; they end well, and nothing is reported.
kind() {
    local name=$1 function=$2 rc=0 count
    mkdir -p "$work/in"
    chmod 1777 "$work/in"
    (cd "$work/in" && exec timeout -k 5 1500 env "${guarded[@]}" work="$work" times="$times" /bin/bash -c "set -euo pipefail
$(declare -f "$function")
$function") >"$work/$name.out" 2>"$work/$name.err" </dev/null || rc=$?
    count=$(find "$work/errors" -name '*.errors' | wc -l)
    if [ "$rc" != 0 ] || grep -q '^numalloc: ' "$work/$name.err" "$work/$name.out"; then
        grep -h -A 40 '^numalloc: ' "$work/$name.err" "$work/$name.out" | head -n 60 >&2 || true
        tail -n 5 "$work/$name.err" >&2
        fail "$name: status $rc, or a report"
    fi
    # The count of errors in a file's head, at byte 60 (guard_file.h), for those whose stderr is elsewhere.
    find "$work/errors" -name '*.errors' -print0 | xargs -0 -r perl -e '
        for (@ARGV) { open my $f, "<:raw", $_ or next; read $f, my $head, 64; my $n = unpack "V", substr $head, 60, 4; print "$_: $n\n" if $n }' >"$work/found"
    [ ! -s "$work/found" ] || fail "$name: $(head -n 3 "$work/found")"
    find "$work/errors" "$work/in" -mindepth 1 -delete
    runs=$((runs + count))
    say "$name: $count runs, no report"
}

children() { "$work/children" "$((times * 2))"; }

perls() {
    for ((i = 0; i < times; i++)); do
        perl -e 'for my $i (1 .. 20) { my @d = map { "x" x (600 + $_ * 40) } 1 .. 60; my $p = fork;
            @d = map { "y" x (600 + $_ * 40) } 1 .. 60; undef @d; exit 0 if $p == 0; waitpid $p, 0; $? and die "status $?" }'
        perl -e 'my $n = 0; $SIG{ALRM} = sub { my @x = map { "a" x $_ } 1 .. 50; $n++ }; alarm 1 if 0; kill ALRM => $$ for 1 .. 20;
            my $s = `echo a`; system("true") == 0 or die; open my $p, "-|", "echo b; echo c" or die; my @l = <$p>; close $p or die; exec "true" or die'
        perl -MPOSIX -e 'pipe my $r, my $w; my $p = fork // die; if (!$p) { setsid; exit 0 if fork; my %h = map { $_ => "v" x $_ } 1 .. 300; syswrite $w, "k"; exit 0 }
            waitpid $p, 0; close $w; sysread $r, my $b, 1; $b eq "k" or die'
    done
}

pythons() {
    for ((i = 0; i < times; i++)); do
        /usr/bin/python3 -c '
import os
for i in range(20):
    d = [b"x" * (600 + k * 40) for k in range(60)]
    pid = os.fork()
    d = [b"y" * (600 + k * 40) for k in range(60)]
    del d
    if pid == 0: os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0'
        /usr/bin/python3 -c '
import multiprocessing as m, subprocess, threading, os
def f(x): return len(b"z" * (x * 500))
if __name__ == "__main__":
    t = [threading.Thread(target=lambda: [b"q" * (k * 30) for k in range(300)]) for _ in range(4)]
    [x.start() for x in t]
    with m.Pool(3) as p: assert sum(p.map(f, range(40))) == 390000
    assert subprocess.run(["cat"], input=b"a" * 5000, capture_output=True).stdout == b"a" * 5000
    assert os.popen("echo a").read() == "a\n" and os.system("true") == 0
    [x.join() for x in t]'
    done
}

shells() {
    for ((i = 0; i < times; i++)); do
        text=$(for ((k = 0; k < 100; k++)); do echo "line $k"; done | sort -r | head -n 5 | tr a-z A-Z)
        (for ((k = 0; k < 5; k++)); do (a=$(echo "$text$k"); : "$a"); done) | cat
        trap 'x=$(echo trapped)' USR1
        kill -USR1 $$
        : "$(exec env true)" <(echo a) <(sed s/a/b/ /etc/passwd)
        for f in dash 'bash --norc' 'busybox sh'; do $f -c 'x=$(echo a | cat); (exit 0) & wait; echo "$x"' | grep -q a; done
        coproc { cat; }
        exec {COPROC[1]}>&-
        wait
    done
}

execs() {
    seq 1 "$((times * 25))" | xargs -P 4 -n 1 sh -c 'printf "%s\n" "$0" | sed "s/1/2/" | awk "{ print \$1 * 2 }" | sort -n >/dev/null'
}

makes() {
    printf 'all: $(shell seq -f t%%g 1 30)\nt%%:\n\t@echo $@ | sed s/t/u/ >$@.out; sort $@.out >/dev/null\n\t@$(MAKE) -s -f leaf N=$@\n' >makefile
    printf 'all:\n\t@echo $(N) >>$(N).out\n' >leaf
    for ((i = 0; i < times; i++)); do make -s -j 4 -f makefile; done
}

tools() {
    for ((i = 0; i < times; i++)); do
        printf '#include <stdio.h>\nint main(void) { puts("a"); }\n' >a.c
        gcc -pipe -O1 a.c -o a
        ./a
        git init -q g
        (cd g && git config user.email a@b && git config user.name a && echo a >a && git add a && git commit -qm a && git gc -q && git log --oneline)
        rm -rf g
        seq 1 20000 | xz -T2 | xz -dc | gzip | gzip -dc | sort --parallel=3 -S 1M -rn | head -n 1 || [ $? = 141 ]
        tar cf - /usr/share/perl5/pod 2>/dev/null | tar tf - >/dev/null || true
        if command -v sqlite3 >/dev/null; then sqlite3 :memory: 'with recursive n(i) as (select 1 union all select i+1 from n where i<2000) select sum(i) from n'; fi
    done
}

nginxes() {
    printf 'daemon on; pid %s/nginx.pid; error_log %s/nginx.log; worker_processes 2; events { }
http { access_log off; client_body_temp_path body; proxy_temp_path a; fastcgi_temp_path b; uwsgi_temp_path c; scgi_temp_path d;
server { listen unix:%s/web; location / { return 200 "fine"; } } }\n' "$PWD" "$PWD" "$PWD" >nginx.conf
    for ((i = 0; i < (times + 9) / 10; i++)); do
        nginx -p "$PWD" -c "$PWD/nginx.conf"
        for ((k = 0; k < 20; k++)); do [ "$(curl -s --unix-socket "$PWD/web" http://a/)" = fine ]; done
        nginx -p "$PWD" -c "$PWD/nginx.conf" -s reload
        for ((k = 0; k < 20; k++)); do [ "$(curl -s --unix-socket "$PWD/web" http://a/)" = fine ]; done
        pid=$(cat nginx.pid)
        nginx -p "$PWD" -c "$PWD/nginx.conf" -s quit
        while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
        if grep 'exited on signal' nginx.log; then exit 1; fi
    done
}

# As an ordinary user: the server refuses the superuser.
postgreses() {
    bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
    as=()
    [ "$(id -u)" != 0 ] || as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    here=$PWD
    export HOME=$here
    "${as[@]}" "$bin/initdb" -D "$here/data" -A trust -N >/dev/null
    printf "listen_addresses = ''\nunix_socket_directories = '%s'\nfsync = off\nautovacuum_naptime = 1s\nmax_parallel_workers_per_gather = 2\nmin_parallel_table_scan_size = 0\nparallel_setup_cost = 0\n" "$here" >>"$here/data/postgresql.conf"
    for ((i = 0; i < (times + 9) / 10; i++)); do
        "${as[@]}" "$bin/pg_ctl" -D "$here/data" -w -s -l "$here/log" start
        "${as[@]}" "$bin/psql" -h "$here" -qAt -c 'set client_min_messages = error; drop table if exists t; create table t as select i, repeat(i::text, 20) s from generate_series(1, 5000) i; create index on t (s); select count(*), max(length(s)) from t where i % 7 = 3' -c 'vacuum analyze t' postgres
        for ((k = 0; k < 10; k++)); do "${as[@]}" "$bin/psql" -h "$here" -qAt -c 'select sum(i) from t group by i % 10 order by 1' postgres >/dev/null & done
        wait
        "${as[@]}" "$bin/pg_ctl" -D "$here/data" -w -s -m fast stop
        if grep -E 'terminated by signal|PANIC' "$here/log"; then exit 1; fi
    done
}

kind children children
kind perl perls
kind python pythons
kind shells shells
kind exec execs
kind make makes
kind tools tools
if command -v nginx >/dev/null && command -v curl >/dev/null; then kind nginx nginxes; fi
if compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then kind postgres postgreses; fi
say "$runs runs, no report"
