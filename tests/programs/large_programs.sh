#!/bin/bash
# large_programs.sh - large programs from Debian that nobody here wrote or tuned to, each as it is, preloaded, and with
# profiles: what they print, write and return must not change, and every process that could record
# leaves a file that numalloc-dump reads. The last lines are a table of what was seen.
#
#   large_programs.sh LIBRARY NUMALLOC_DUMP [PROGRAM...]
#
# PROGRAM: names of the scenarios below; none: all whose program is installed. Status 77 if none is.
# MODES="sites trace" (environment): with these profiles; without it, with those of the table in
# docs/large-programs.md.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
dump=${2:-}
[ -x "$dump" ] || fail "cannot run '$dump'; usage: $0 /path/to/libnumalloc.so /path/to/numalloc-dump [PROGRAM...]"
dump=$(readlink -f "$dump")
shift 2
LIMIT_S=${LIMIT_S:-300}
read -ra modes <<<"${MODES:-sites sample,access=auto trace}"
chmod 711 "$work" # servers read their files as another user

# Each scenario: the program that must be there, and a function that runs it in an empty directory and
# prints what cannot depend on the time or on addresses. LARGE is the program whose files are counted.

# A browser: a dozen processes behind sandboxes, its own operators new and delete.
firefox_program=firefox-esr
firefox_story() {
    { echo '<body style="background:#fed"><h1>numalloc</h1><canvas id=c width=300 height=200></canvas><script>'
      echo 'let a=[];for(let i=0;i<200000;i++)a.push({i,s:"x"+i});document.title=a.length;'
      echo 'let g=document.getElementById("c").getContext("2d");g.fillStyle="#36c";g.fillRect(20,20,200,100);</script>'; } >page.html
    mkdir profile
    MOZ_DISABLE_AUTO_SAFE_MODE=1 MOZ_CRASHREPORTER_DISABLE=1 timeout -k 5 120 firefox-esr --headless --no-remote \
        --profile "$PWD/profile" --window-size 640,480 --screenshot "$PWD/page.png" "file://$PWD/page.html" >log 2>&1 || {
        cat log >&2
        exit 1
    }
    file page.png | cut -d, -f1,2
}

# Threads, a garbage collector with mappings of its own, zlib from Java.
java_program=javac
java_story() {
    cat >Story.java <<'END'
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.*;
public class Story {
    public static void main(String[] arguments) throws Exception {
        Map<Integer, String> words = new ConcurrentHashMap<>();
        ExecutorService pool = Executors.newFixedThreadPool(8);
        List<Future<Long>> parts = new ArrayList<>();
        for (int part = 0; part < 32; part++) {
            final int from = part * 5000;
            parts.add(pool.submit(() -> {
                CRC32 crc = new CRC32();
                for (int i = from; i < from + 5000; i++) words.put(i, "word" + i);
                byte[] text = String.join(" ", words.values()).getBytes();
                Deflater deflater = new Deflater();
                deflater.setInput(text);
                deflater.finish();
                byte[] out = new byte[text.length + 100];
                int size = deflater.deflate(out);
                Inflater inflater = new Inflater();
                inflater.setInput(out, 0, size);
                byte[] again = new byte[text.length];
                inflater.inflate(again);
                deflater.end();
                inflater.end();
                crc.update(again);
                return Arrays.equals(text, again) ? 1L : 0L;
            }));
        }
        long same = 0;
        for (Future<Long> part : parts) same += part.get();
        pool.shutdown();
        System.out.println(words.size() + " words, " + same + " parts unchanged");
        Process child = new ProcessBuilder("echo", "a child").redirectErrorStream(true).start();
        System.out.print(new String(child.getInputStream().readAllBytes()));
    }
}
END
    javac -d . Story.java
    java -Xmx512m -cp . Story
}

# A database: a server that forks a process for each client, and the programs around it.
postgres_program=/usr/lib/postgresql/15/bin/postgres
postgres_story() {
    local bin=/usr/lib/postgresql/15/bin as=()
    chmod 755 .
    mkdir data run
    if [ "$(id -u)" = 0 ]; then
        # The server refuses to be root. Files of profiles must be writable for the other user, too.
        chown nobody data run
        as=(runuser -u nobody --)
    fi
    "${as[@]}" "$bin/initdb" -D data -U owner -A trust >init.log 2>&1
    grep -c . init.log
    "${as[@]}" "$bin/pg_ctl" -s -w -D data -l run/log -o "-k $PWD/run -h '' -F" start
    "$bin/pgbench" -h "$PWD/run" -U owner -i -s 2 -q postgres >/dev/null 2>bench.log
    "$bin/pgbench" -h "$PWD/run" -U owner -n -c 8 -j 2 -t 100 postgres | grep processed
    psql -h "$PWD/run" -U owner -Atq postgres <<'END'
create table t as select i, md5(i::text) as m, repeat('x', i % 500) as r from generate_series(1, 40000) i;
create index on t (m);
select count(*), sum(length(r)), min(m), max(m) from t;
select md5(string_agg(m, ',' order by m)) from t;
select count(*) from t a join t b on a.i = b.i + 1 where a.m < b.m;
END
    "${as[@]}" "$bin/pg_ctl" -s -w -D data -m fast stop
    grep -cE 'PANIC|terminated by signal' run/log || true
}

# A server whose workers change user after the start.
nginx_program=nginx
nginx_story() {
    mkdir -p root logs
    chmod 755 . root
    head -c 300000 /usr/share/common-licenses/GPL-3 >root/page.txt
    cat >nginx.conf <<END
worker_processes 2;
daemon on;
pid $PWD/pid;
error_log $PWD/logs/error.log;
events { worker_connections 256; }
http {
    access_log off;
    client_body_temp_path $PWD/logs/body;
    proxy_temp_path $PWD/logs/proxy;
    fastcgi_temp_path $PWD/logs/fastcgi;
    uwsgi_temp_path $PWD/logs/uwsgi;
    scgi_temp_path $PWD/logs/scgi;
    server { listen unix:$PWD/socket; gzip on; gzip_types text/plain; root $PWD/root; }
}
END
    [ "$(id -u)" != 0 ] || sed -i '1i user nobody nogroup;' nginx.conf
    nginx -q -c "$PWD/nginx.conf" -e "$PWD/logs/error.log" -g ''
    /usr/bin/python3 - <<'END'
import socket, threading, zlib
text = open('root/page.txt', 'rb').read()
good = []
def client(n):
    for i in range(50):
        s = socket.socket(socket.AF_UNIX)
        s.connect('socket')
        s.sendall(b'GET /page.txt HTTP/1.0\r\n' + (b'Accept-Encoding: gzip\r\n' if i % 2 else b'') + b'\r\n')
        got = b''
        while part := s.recv(65536):
            got += part
        head, body = got.split(b'\r\n\r\n', 1)
        if b'gzip' in head:
            body = zlib.decompress(body, 31)
        good.append(body == text)
threads = [threading.Thread(target=client, args=(n,)) for n in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(good), 'answers', all(good))
END
    nginx -q -c "$PWD/nginx.conf" -e "$PWD/logs/error.log" -s reload
    sleep 0.5
    nginx -q -c "$PWD/nginx.conf" -e "$PWD/logs/error.log" -s quit
    for _ in $(seq 100); do [ -e pid ] || break; sleep 0.1; done
    [ ! -e pid ] && echo "ended"
    grep -c 'exited on signal' logs/error.log || true
}

# Frames passed between threads, large aligned blocks.
ffmpeg_program=ffmpeg
ffmpeg_story() {
    ffmpeg -v error -nostdin -threads 4 -f lavfi -i testsrc=size=640x360:rate=25:duration=3 -f lavfi \
        -i sine=frequency=440:duration=3 -c:v mpeg4 -threads 4 -c:a aac -y out.mkv
    ffmpeg -v error -nostdin -threads 4 -i out.mkv -map 0:v -vf scale=320:180,hflip -f framemd5 - | md5sum
}

# Fortran, forked workers, large vectors.
r_program=Rscript
r_story() {
    cat >story.R <<'END'
set.seed(1)
x <- matrix(rnorm(90000), 300)
cat(dim(solve(x)), round(sum(svd(x)$d), 4), "\n")
d <- data.frame(k = sample(letters, 50000, TRUE), v = runif(50000))
print(round(head(tapply(d$v, d$k, mean), 3), 5))
cat(sum(unlist(parallel::mclapply(1:8, function(i) sum(nchar(vapply(1:2000, function(j) strrep("x", j %% 50 + i), ""))), mc.cores = 2))), "\n")
cat(substr(paste(sort(sapply(1:20000, function(i) paste0("w", i * 7919 %% 20011))), collapse = ""), 1, 60), "\n")
END
    Rscript --vanilla story.R
}

# An office: C++ with hundreds of libraries, opened as they are needed.
libreoffice_program=soffice
libreoffice_story() {
    for i in $(seq 2000); do echo "$i,row $i,$((i * i % 1009)),=A$i*2"; done >table.csv
    timeout -k 5 200 soffice "-env:UserInstallation=file://$PWD/user" --headless --convert-to ods --outdir one table.csv >log 2>&1
    timeout -k 5 200 soffice "-env:UserInstallation=file://$PWD/user" --headless --convert-to csv --outdir two one/table.ods >>log 2>&1
    md5sum <two/table.csv
    timeout -k 5 200 soffice "-env:UserInstallation=file://$PWD/user" --headless --convert-to pdf --outdir three one/table.ods >>log 2>&1
    head -c 5 three/table.pdf
    echo ", $(grep -ac '/Type/Page/' three/table.pdf) pages"
}

# Its dumped heap, and a garbage collector that walks the stack.
emacs_program=emacs
emacs_story() {
    cat >story.el <<'END'
(require 'json)
(let ((h (make-hash-table :test 'equal)) (sum 0))
  (dotimes (i 50000) (puthash (format "key-%d" i) (make-string (% i 300) ?x) h))
  (maphash (lambda (_ v) (setq sum (+ sum (length v)))) h)
  (garbage-collect)
  (princ (format "%d %d\n" (hash-table-count h) sum)))
(with-temp-buffer
  (dotimes (i 20000) (insert (format "line %d\n" (% (* i 7919) 20011))))
  (sort-lines nil (point-min) (point-max))
  (princ (format "%s %s\n" (md5 (buffer-string)) (json-encode '((a . 1) (b . [1 2 3]))))))
(princ (shell-command-to-string "echo a child"))
END
    emacs -Q --batch -l story.el
}

# Images: large blocks, OpenMP.
imagemagick_program=/usr/bin/convert
imagemagick_story() {
    /usr/bin/convert -size 1200x800 plasma:fractal -seed 1 -fill red -colorize 10 one.png 2>&1 | head -n 3
    /usr/bin/convert -size 1200x800 gradient:red-blue -rotate 30 -blur 0x3 -resize 50% two.png
    /usr/bin/identify -format '%w %h %#\n' two.png
}

all=(firefox java postgres nginx ffmpeg r libreoffice emacs imagemagick)
wanted=("$@")
[ ${#wanted[@]} -gt 0 ] || wanted=("${all[@]}")

# numalloc-dump reads every file that was left. What is in them: `seen`.
judge_files() {
    local name=$1 mode=$2 file status found=0 most=0 events
    for file in "$work/$name.$mode.files"/*.nprof; do
        [ -e "$file" ] || continue
        status=0
        timeout 120 "$dump" --json "$file" >"$work/dump.json" 2>"$work/dump.err" || status=$?
        [ "$status" -le 1 ] || fail "$name, $mode: numalloc-dump cannot read ${file##*/}: $(head -n 2 "$work/dump.err")"
        events=$(grep -o '"allocations": *[0-9]*' "$work/dump.json" | head -n 1 | tr -dc 0-9) || true
        found=$((found + 1))
        [ "${events:-0}" -le "$most" ] || most=$events
    done
    [ "$found" -gt 0 ] || fail "$name, $mode: no process left a profile"
    seen="same; $found files, up to $most allocations"
}

rows=()
for name in "${wanted[@]}"; do
    declare -F "${name}_story" >/dev/null || fail "there is no scenario '$name'; there are: ${all[*]}"
    program=${name}_program
    command -v "${!program}" >/dev/null || {
        say "$name: left out: ${!program} is not installed"
        continue
    }
    say "$name: as it is"
    scenario_run "$work/$name.plain" "${name}_story"
    [ "$(cat "$work/$name.plain/rc")" = 0 ] || {
        tail -n 15 "$work/$name.plain/err" >&2
        fail "$name: ends with status $(cat "$work/$name.plain/rc") without the library: the test is wrong here"
    }
    [ -s "$work/$name.plain/out" ] || fail "$name: prints nothing to compare"
    row="| $name |"
    for mode in preloaded "${modes[@]}"; do
        say "$name: $mode"
        options=(LD_PRELOAD="$lib")
        if [ "$mode" != preloaded ]; then
            mkdir -p "$work/$name.$mode.files"
            chmod 1777 "$work/$name.$mode.files"
            options+=(NUMALLOC_PROFILE="$mode" NUMALLOC_PROFILE_FILE="$work/$name.$mode.files/%e.%p.nprof")
        fi
        scenario_run "$work/$name.$mode" "${name}_story" "${options[@]}"
        # Where nothing can sample accesses, each process says so, once. (Else it says nothing.)
        if [[ $mode == *access* ]] && has "no accesses; .*never fire" <"$work/$name.$mode/err"; then
            say "$name: $mode: accesses cannot be sampled here"
            sed -i '/^numalloc: no accesses; .*never fire/d' "$work/$name.$mode/err"
        fi
        compare_runs "$name, $mode" "$work/$name.plain" "$work/$name.$mode"
        seen=same
        [ "$mode" = preloaded ] || judge_files "$name" "$mode"
        row+=" $seen |"
        rm -rf "$work/$name.$mode.files"
    done
    rows+=("$row")
done
[ ${#rows[@]} -gt 0 ] || skip "none of these programs is installed: ${wanted[*]}"
{
    printf '| program | preloaded |'
    printf ' %s |' "${modes[@]}"
    printf '\n|---|---|'
    for _ in "${modes[@]}"; do printf -- '---|'; done
    printf '\n'
    printf '%s\n' "${rows[@]}"
}
