#!/usr/bin/env bash
# record-replays.sh - traces of real programs, for numalloc-bench replay.
set -euo pipefail
export LC_ALL=C

usage() {
    cat <<EOF
usage: scripts/record-replays.sh DIRECTORY [NAME...]

Records traces of real programs into DIRECTORY/NAME.nprof, to be played back with
    numalloc-bench compare --replay DIRECTORY/*.nprof
Programs that are not installed are left out, with a line each. NAME: only these, of
    $names
NUMALLOC_BUILD names the build to use (build/release).
EOF
}

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${NUMALLOC_BUILD:-$top/build/release}
names='ffmpeg g++ git node openssl perl php postgres python python-malloc R redis sqlite xz zstd'

case ${1:-} in
-h | --help)
    usage
    exit 0
    ;;
'')
    usage >&2
    exit 2
    ;;
esac
[[ -x $build/numalloc-run ]] || {
    echo "record-replays: no $build/numalloc-run; build it first, or set NUMALLOC_BUILD" >&2
    exit 1
}
mkdir -p "$1"
to=$(cd "$1" && pwd)
shift
wanted=" ${*:-$names} "
for name in $wanted; do
    [[ " $names " == *" $name "* ]] || {
        echo "record-replays: no program '$name'; there are: $names" >&2
        exit 2
    }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
seq 60000 | sed 's/$/ the quick brown fox; jumps over it/' >text

# record NAME PROGRAM COMMAND...: the trace of COMMAND, or of the process of PROGRAM that it starts.
record() {
    local name=$1 program=$2 found
    shift 2
    [[ $wanted == *" $name "* ]] || return 0
    command -v "$1" >/dev/null || {
        echo "record-replays: $name: left out, '$1' is not installed"
        return 0
    }
    NUMALLOC_PROFILE=trace NUMALLOC_PROFILE_ONLY="$program" NUMALLOC_PROFILE_FILE="$work/$name.%p.nprof" \
        LD_PRELOAD="$build/libnumalloc.so" "$@" >"$work/out" 2>"$work/err" </dev/null || {
        echo "record-replays: $name: left out: $(tail -n 1 "$work/err")"
        return 0
    }
    found=$(find "$work" -name "$name.*.nprof" -printf '%s %p\n' | sort -n | tail -n 1)
    [[ -n $found ]] || {
        echo "record-replays: $name: left out, '$program' left no trace"
        return 0
    }
    mv "${found#* }" "$to/$name.nprof"
    rm -f "$work/$name".*.nprof
    echo "record-replays: $name: $((${found%% *} >> 20)) MiB"
}

# shellcheck disable=SC2016 # the scripts' own dollars
{
    printf '%s\n' '#include <map>' '#include <regex>' '#include <string>' \
        'int main() { std::map<std::string, std::regex> m; m["a"] = std::regex("a+b"); return (int)m.size(); }' >load.cc
    printf '%s\n' 'create table t(a integer primary key, b, c);' \
        'with recursive n(x) as (select 1 union all select x + 1 from n where x < 60000) insert into t select x, hex(x * 7919 % 10007), x % 97 from n;' \
        'create index i on t(b);' \
        'select count(*), sum(length(b)) from t where b > "5" group by c order by 2;' \
        'update t set b = b || c where c < 40; delete from t where c > 80;' >load.sql
    cat >load.py <<'END'
import collections, json, re, sys, xml.dom.minidom
rows = [{"id": i, "tags": [str(j) for j in range(i % 9)], "text": "row %d" % i} for i in range(6000)]
rows = json.loads(json.dumps(rows))
words = collections.defaultdict(list)
for number, line in enumerate(open("text")):
    for word in re.findall(r"\w+", line): words[word].append(number)
tree = xml.dom.minidom.parseString("<a>" + "".join("<b c='%d'>t</b>" % i for i in range(3000)) + "</a>")
print(len(rows), len(words), len(tree.toxml()))
END
    cat >load.js <<'END'
const rows = [];
for (let i = 0; i < 60000; i++) rows.push({ id: i, text: "row " + i, tags: [i % 7, i % 11] });
const zlib = require("zlib"), crypto = require("crypto");
const text = JSON.stringify(rows);
for (let i = 0; i < 20; i++) zlib.gunzipSync(zlib.gzipSync(text.slice(i * 1000, i * 1000 + 300000)));
console.log(crypto.createHash("sha256").update(text).digest("hex"), JSON.parse(text).length);
END
    record g++ cc1plus g++ -O2 -S -o load.s load.cc
    record sqlite sqlite3 sqlite3 :memory: '.read load.sql'
    record python 'python3*' /usr/bin/python3 load.py
    record python-malloc 'python3*' env PYTHONMALLOC=malloc /usr/bin/python3 load.py
    record node node node load.js
    record perl perl perl -e 'my %h; open F, "text"; while (<F>) { $h{$_}++ for split; push @l, [split /;/]; } print scalar(keys %h), scalar(@l);'
    record php 'php*' php -n -r '$a = []; foreach (file("text") as $l) foreach (explode(" ", $l) as $w) $a[$w][] = $l; echo count($a);'
    record git git git -C "$top" log -p -300
    record xz xz xz -k -T2 -6 --block-size=262144 text
    record zstd zstd zstd -q -f -k -T2 text
    record ffmpeg ffmpeg ffmpeg -loglevel error -f lavfi -i testsrc2=size=640x360:rate=25:duration=4 -vf scale=320:180 -c:v mpeg4 -threads 2 -f null -
    record R R R --vanilla -s -e 'x <- data.frame(a = rnorm(40000), b = rep(letters, length.out = 40000)); m <- lm(a ~ b, x); s <- split(x$a, x$b); y <- vapply(1:20000, function(i) paste0("k", i), ""); print(length(unique(y)) + length(s) + length(coef(m)))'
    record openssl openssl openssl speed -seconds 1 -bytes 4096 sha256
}
# One session in a process of its own, which does not run as root.
if [[ $wanted == *" postgres "* ]]; then
    server=$(command -v postgres || find /usr/lib/postgresql -path '*/bin/postgres' 2>/dev/null | sort -V | tail -n 1 || true)
    as=()
    [[ $EUID != 0 ]] || as=(runuser -u postgres --)
    mkdir -m 1777 "$work/postgres"
    chmod 1777 "$work" # its trace lies there, too
    if [[ -z $server ]]; then
        echo "record-replays: postgres: left out, 'postgres' is not installed"
    elif ! (cd "$work/postgres" && "${as[@]}" "$(dirname "$(readlink -f "$server")")/initdb" -D data --no-sync) >"$work/out" 2>"$work/err"; then
        echo "record-replays: postgres: left out: $(tail -n 1 "$work/err")"
    else
        cat >load-postgres.sql <<'END'
create table t as select n as a, md5(n::text) as b, n % 97 as c from generate_series(1, 40000) n
create index i on t(b)
select c, count(*), sum(length(b)), string_agg(b, '' order by a) from t where b > '5' group by c order by 2
update t set b = b || c where c < 40
END
        # shellcheck disable=SC2016 # for the inner shell
        record postgres postgres bash -c '"${@:2}" <"$1"' - load-postgres.sql "${as[@]}" \
            env -C "$work/postgres" "$server" --single -D data postgres
    fi
fi
if [[ $wanted == *" redis "* ]]; then
    if command -v redis-server >/dev/null && command -v redis-benchmark >/dev/null; then
        socket=$work/redis.sock
        NUMALLOC_PROFILE=trace NUMALLOC_PROFILE_FILE="$to/redis.nprof" LD_PRELOAD="$build/libnumalloc.so" \
            redis-server --port 0 --unixsocket "$socket" --save '' --dir "$work" >"$work/out" 2>&1 &
        server=$!
        for _ in $(seq 100); do [[ ! -S $socket ]] || break; sleep 0.1; done
        redis-benchmark -s "$socket" -q -n 20000 -r 5000 -t set,get,lpush,hset,sadd,zadd >/dev/null || true
        redis-cli -s "$socket" shutdown nosave >/dev/null || kill "$server"
        wait "$server" || true
        echo "record-replays: redis: $(($(stat -c %s "$to/redis.nprof") >> 20)) MiB"
    else
        echo "record-replays: redis: left out, 'redis-server' is not installed"
    fi
fi
