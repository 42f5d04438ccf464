#!/bin/bash
# agreement.sh - allocations and bytes of every function of real programs, as numalloc's trace has them, are those
# that heaptrack and valgrind's DHAT count (agreement.py; docs/agreement.md). Usage: agreement.sh LIBRARY NUMALLOC_DUMP
# [SCALE [PROGRAM...]]: inputs so many times as large; sqlite3 and python3 unless others are named, of which protoc (in the
# nightly script), mandoc and cc1 are known.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
dump=$2 scale=${3:-1} programs=("${@:4}")
usual=(sqlite3 python3)
[ "$TEST_SCALE" != full ] || usual+=(protoc)
[ "${#programs[@]}" -gt 0 ] || programs=("${usual[@]}")
need heaptrack heaptrack valgrind valgrind zstdcat zstd sqlite3 sqlite3 readelf binutils setarch util-linux protoc protobuf-compiler
[ -x /usr/bin/python3 ] || skip "program '/usr/bin/python3' is missing; install the package 'python3'"

# What programs do must not depend on addresses, on the hash of a day, or on who runs the test: Python copies its environment
# into a dictionary, which grows at 21 and at 42 variables, and each tool adds some of its own. 26 and theirs are in between.
# Python by its own pools would hardly call malloc.
fixed=(env -i PATH="$PATH" HOME="$work" LC_ALL=C TZ=UTC PYTHONHASHSEED=0 PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1)
for i in {8..26}; do fixed+=("FILLER_$i="); done
setarch -R true 2>/dev/null && fixed+=(setarch -R)

# run TOOL NAME COMMAND...: with the input $work/NAME.in.
run() {
    local tool=$1 name=$2 rc=0
    shift 2
    (cd "$work" && exec "${fixed[@]}" "$@" <"$work/$name.in" >"$work/$name.$tool.out" 2>"$work/$name.$tool.err") || rc=$?
    [ "$rc" = 0 ] || fail "$name under $tool: status $rc: $(tail -n 3 "$work/$name.$tool.err")"
}

agree() {
    local name=$1
    shift
    run plain "$name" "$@"
    run numalloc "$name" env NUMALLOC_PROFILE=trace NUMALLOC_PROFILE_FILE="$work/$name.nprof" LD_PRELOAD="$lib" "$@"
    run heaptrack "$name" heaptrack -r -o "$work/$name.heaptrack" "$@"
    # DHAT's version of the linker's record tells where modules lay.
    run dhat "$name" env LD_DEBUG=files LD_DEBUG_OUTPUT="$work/$name.ld" valgrind --tool=dhat --dhat-out-file="$work/$name.dhat" \
        --num-callers=500 --show-below-main=yes --read-inline-info=no "$@"
    for tool in numalloc dhat; do
        cmp -s "$work/$name.plain.out" "$work/$name.$tool.out" || fail "$name writes something else under $tool"
    done
    "$dump" json "$work/$name.nprof" -o "$work/$name.json" || fail "$name: no JSON of its profile"
    "$dump" events --csv "$work/$name.nprof" -o "$work/$name.csv" || fail "$name: no events of its profile"
    local ld=("$work/$name".ld.*)
    /usr/bin/python3 -B "$test_source/agreement.py" "$name" "$work/$name.json" "$work/$name.csv" \
        "$work/$name.heaptrack".*.zst "$work/$name.dhat" "${ld[0]}" | tee "$work/$name.result" || fail "$name: functions differ"
}

cat >"$work/sqlite3.in" <<END
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i+1 from n where i<$((2000 * scale)))
  insert into t select i, printf('row %d of many', i*7919%1000), i*1.5 from n;
create index tb on t(b);
select b, count(*), sum(c) from t group by b order by 2 desc, 1 limit 5;
END
# Statements enough that thousands of blocks come from malloc: newer versions have small ones from their own room.
for i in {1..20}; do
    echo "create table u$i(a, b text unique); insert into u$i select a, b from t where a = $i; select count(*) from u$i join t using (b);"
done >>"$work/sqlite3.in"
cat >"$work/python3.in" <<END
import json, collections
Row = collections.namedtuple("Row", "key value")
rows = [Row("k%d" % (i % 97), [j * i for j in range(i % 13)]) for i in range($((1000 * scale)))]
by = collections.defaultdict(list)
for r in rows: by[r.key].append(r.value)
text = json.dumps({k: v for k, v in sorted(by.items())})
back = json.loads(text)
print(len(text), sum(len(v) for v in back.values()))
END
for ((i = 0; i < scale; i++)); do
    cat <<END
struct p$i { int x, y; double d[4]; };
int f$i(struct p$i *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i].x * a[i].y + (int)a[i].d[i & 3]; return s; }
int g$i(int n) { struct p$i a[16] = {0}; for (int i = 0; i < 16; i++) a[i].x = n + i; return f$i(a, 16); }
END
done >"$work/cc1.in"

touch "$work/protoc.in" # its input is a file
for ((i = 0; i < scale; i++)); do cat "$test_source/../../docs/man/libnumalloc.3"; done >"$work/mandoc.in"

for program in "${programs[@]}"; do
    case $program in
    sqlite3) agree sqlite3 sqlite3 :memory: ;;
    python3) agree python3 /usr/bin/python3 -I -S - ;;
    mandoc) agree mandoc mandoc -Thtml ;;
    protoc) agree protoc protoc -I"$test_source" --cpp_out="$work" "$test_source/exports/profile.proto" ;;
    cc1) agree cc1 "$(gcc -print-prog-name=cc1)" -fpreprocessed -quiet -O2 -o - - ;;
    *) fail "no such program: $program" ;;
    esac
done
say "${programs[*]}: every function as heaptrack and DHAT count it"
