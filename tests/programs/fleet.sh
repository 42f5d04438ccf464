#!/bin/bash
# fleet.sh LIBRARY NUMALLOC_DUMP - many sample profiles as one: aggregate, merge and the merged pprof
# have what the processes did, whatever is wrong with other files, and find what grows. 120 files; in
# the nightly script 10,000, in less than a minute of two processors and a GiB.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
need protoc protobuf-compiler perl perl jq jq sqlite3 sqlite3
count=120
[ "$TEST_SCALE" != full ] || count=10000
cc -std=gnu17 -g -O1 -fno-builtin -Wall -Wextra "$test_source/fleet_load.c" -o "$work/fleet_load" ||
    fail "the compiler does not build fleet_load.c"
app=$work/fleet_load

# ---- A fleet: by service and host, of three versions; between them other programs. ----
fleet=$work/fleet
for host in 0 1 2 3; do mkdir -p "$fleet/web/host$host" "$fleet/batch/host$host"; done
mkdir "$work/others"
export NUMALLOC_PROFILE=sample NUMALLOC_SAMPLE_INTERVAL=0
for i in $(seq $((count / 2))); do
    role=web
    [ $((i % 3)) != 0 ] || role=batch
    NUMALLOC_PROFILE_LABELS=version=1.$((i % 2)) NUMALLOC_PROFILE_FILE=$fleet/$role/host$((i % 4)) \
        LD_PRELOAD=$lib "$app" $role $((20 + i % 50))
done
export NUMALLOC_SAMPLE_INTERVAL=16K NUMALLOC_PROFILE_FILE=$work/others NUMALLOC_PROFILE_LABELS=service=others
for i in $(seq $((count / 6))); do
    LD_PRELOAD=$lib perl -e "my %h; \$h{\$_} = \$_ x $((i % 9 + 1)) for 1..$((200 + i * 13 % 3000))"
    LD_PRELOAD=$lib jq -n "[range($((200 + i * 11 % 3000)))|{a: .}]|map(.a)|add" >/dev/null
    LD_PRELOAD=$lib sqlite3 :memory: "with recursive c(x) as (select 1 union all select x+1 from c
        where x<$((200 + i * 17 % 3000))) select count(distinct x % $((i % 90 + 1))) from c" >/dev/null
done
unset NUMALLOC_PROFILE NUMALLOC_SAMPLE_INTERVAL NUMALLOC_PROFILE_FILE NUMALLOC_PROFILE_LABELS
dirs=("$fleet"/*/* "$work/others")
made=$(find "$fleet" "$work/others" -type f | wc -l)
[ "$made" -ge $((count / 2 + count / 6 * 3)) ] || fail "$made profiles of $count were made"
paths=(--path-labels service/host)

# measured NAME COMMAND...: its status goes to $rc, seconds and peak memory to $work/NAME.use.
measured() {
    local name=$1
    shift
    rc=0
    /usr/bin/python3 - "$work/$name.use" "$@" <<'END' >"$work/$name.out" 2>"$work/$name.err" || rc=$?
import resource, subprocess, sys, time
began = time.time()
status = subprocess.call(sys.argv[2:])
u = resource.getrusage(resource.RUSAGE_CHILDREN)
open(sys.argv[1], "w").write("%.2f %d %.2f\n" % (u.ru_utime + u.ru_stime, u.ru_maxrss // 1024, time.time() - began))
sys.exit(status)
END
    read -r cpu mib wall <"$work/$name.use"
    say "$name of $made files: $cpu s of processor time, $wall s, $mib MiB"
    # Two processors and a minute; a GiB. The time is of the processor, as other tests run beside this.
    /usr/bin/python3 -c "import sys; sys.exit(not ($cpu < 100 and $mib < 1024))" || fail "$name takes $cpu s of processor time and $mib MiB"
}
measured aggregate "$dump" aggregate "${dirs[@]}"
[ "$rc" = 0 ] && grep -q "^Processes by peak (20 of " "$work/aggregate.out" || fail "aggregate: status $rc, $(head -n 3 "$work/aggregate.err")"
measured merge "$dump" merge "${dirs[@]}" -o "$work/all.nprof"
[ "$rc" = 0 ] || fail "merge: status $rc, $(head -n 3 "$work/merge.err")"
measured pprof "$dump" pprof "${paths[@]}" --by service,version,host "${dirs[@]}" -o "$work/all.pb.gz"
[ "$rc" = 0 ] || fail "pprof: status $rc, $(head -n 3 "$work/pprof.err")"

decoded() { gzip -dc "$1" | protoc --decode=perftools.profiles.Profile -I"$test_source/exports" "$test_source/exports/profile.proto" >"$2"; }
decoded "$work/all.pb.gz" "$work/all.txt"
"$dump" aggregate "${dirs[@]}" --csv --top 0 >"$work/each.csv"
"$dump" json "$work/all.nprof" >"$work/all.json" || fail "the merge does not read"
"$dump" check "$work/all.nprof" >"$work/out" 2>&1 || fail "the merge is not whole: $(cat "$work/out")"
"$dump" aggregate "${paths[@]}" --by service,version --json "${dirs[@]}" >"$work/groups.json"
cat >"$work/compare.py" <<'END'
import csv, json, sys
from export_readers import first, pprof_stacks, read_protobuf
work, count = sys.argv[1], int(sys.argv[2])

# What the processes did, by their arguments: alloc_objects, alloc_space, inuse_objects, inuse_space, peak.
def add(sums, key, values):
    sums[key] = [a + b for a, b in zip(sums.get(key, [0] * 5), values)]
known = {}
for i in range(1, count // 2 + 1):
    n, host, version = 20 + i % 50, f"host{i % 4}", f"1.{i % 2}"
    if i % 3:
        add(known, ("web", host, version, "web_keep"), [n, n * 1000, n, n * 1000, n * 1000])
        add(known, ("web", host, version, "web_temp"), [2 * n, 2 * n * 300, 0, 0, 300])
    else:
        add(known, ("batch", host, version, "batch_keep"), [n, n * 5000, 0, 0, 0])
        add(known, ("batch", host, version, "batch_result"), [1, 70000, 1, 70000, 70000])

p = read_protobuf(work + "/all.txt")
strings = p["string_table"]
found, totals = {}, {}
functions = {first(f, "id"): strings[first(f, "name")] for f in p["function"]}
locations = {first(l, "id"): l for l in p["location"]}
for sample in p["sample"]:
    labels = {strings[first(l, "key")]: strings[first(l, "str")] for l in sample["label"]}
    stack = [functions[first(line, "function_id")] for id in sample["location_id"] for line in locations[id]["line"]]
    add(totals, labels["service"], sample["value"])
    for name in stack:
        if name in ("web_keep", "web_temp", "batch_keep", "batch_result"):
            assert "main" in stack, stack
            add(found, (labels["service"], labels["host"], labels["version"], name), sample["value"])
assert set(totals) == {"web", "batch", "others"}, totals
assert found == known, [(k, found.get(k), known.get(k)) for k in set(found) | set(known) if found.get(k) != known.get(k)][:3]

# All of it: the sums over the files, each read by itself.
each = list(csv.DictReader(open(work + "/each.csv", newline="")))
assert len(each) >= count - 3, len(each)
merged = json.load(open(work + "/all.json"))
for key, at in (("allocations", 0), ("total_bytes", 1), ("live_bytes", 3), ("peak_bytes", 4)):
    wanted = sum(float(r[key]) for r in each)
    pprof = sum(t[at] for t in totals.values())
    assert abs(merged["total"][key] - wanted) <= 1e-9 * wanted + 1, (key, merged["total"][key], wanted)
    # Every sample is rounded.
    assert abs(pprof - wanted) <= len(p["sample"]), (key, pprof, wanted)
names = [f["name"] for f in merged["functions"]]
assert {"web_keep", "batch_result", "main"} <= set(names) and merged["damage"] == []
groups = {r["labels"]: r for r in json.load(open(work + "/groups.json"))["rows"]}
assert set(groups) == {"service=others"} | {f"service={s},version=1.{v}" for s in ("web", "batch") for v in (0, 1)}, list(groups)
assert sum(g["processes"] for g in groups.values()) == len(each)
web = [i for i in range(1, count // 2 + 1) if i % 3 and i % 2]
assert groups["service=web,version=1.1"]["processes"] == len(web), groups
assert abs(sum(g["live_bytes"] for g in groups.values()) - merged["total"]["live_bytes"]) < 1
END
PYTHONPATH=$test_source /usr/bin/python3 -B "$work/compare.py" "$work" "$count" || fail "the merge is not what the processes did"
say "pprof, merge and --by have what $made processes did, by service, host and version"
"$dump" functions "$work/all.nprof" --csv --top 0 >"$work/functions.csv" && grep -q '^web_keep,\|,web_keep,' "$work/functions.csv" ||
    fail "the functions of a merge: $(head -n 3 "$work/functions.csv")"

# The files' order, the directories' and the machine's load change nothing.
"$dump" merge "${dirs[@]}" -o "$work/again.nprof" && cmp "$work/all.nprof" "$work/again.nprof" || fail "a second merge differs"
# What is merged may be merged again.
"$dump" merge "$fleet"/web/* -o "$work/web.nprof" && "$dump" merge "$fleet"/batch/* "$work/others" -o "$work/rest.nprof" &&
    "$dump" merge "$work/web.nprof" "$work/rest.nprof" -o "$work/both.nprof" || fail "merges of merges fail"
"$dump" json "$work/both.nprof" >"$work/both.json"
/usr/bin/python3 -c "
import json
a, b = (json.load(open('$work/' + n))['total'] for n in ('all.json', 'both.json'))
assert all(abs(a[k] - b[k]) <= 1e-9 * abs(a[k]) for k in ('allocations', 'total_bytes', 'live_bytes', 'peak_bytes', 'frees')), (a, b)" ||
    fail "a merge of merges differs from the merge"
say "merges repeat, and can be merged"

# ---- Names that files bring along: the program is gone. ----
mkdir "$work/named"
for file in $(find "$fleet/web/host0" -type f | sort | head -n 3); do "$dump" bundle "$file" -o "$work/named/${file##*/}"; done
cp "$(find "$fleet/web/host0" -type f | sort | sed -n 4p)" "$work/named/"
mv "$app" "$work/elsewhere"
"$dump" merge --symbol-cache off "$work/named" -o "$work/named.nprof"
"$dump" json --symbol-cache off "$work/named.nprof" >"$work/named.json"
grep -q '"web_keep"' "$work/named.json" || fail "names of bundles are lost in a merge"
mv "$work/elsewhere" "$app"
say "bundled names are kept"

# ---- What is wrong with files. ----
bad=$work/bad
mkdir "$bad"
good=()
while IFS= read -r file; do good+=("$file"); done < <(find "$work/others" -type f -size +200k | sort | head -n 6)
[ "${#good[@]}" = 6 ] || fail "no profiles of the size wanted"
cp "${good[@]:0:3}" "$bad"
"$dump" merge "$bad" -o "$work/three.nprof"
head -c 100000 "${good[3]}" >"$bad/cut.nprof"
cp "${good[4]}" "$bad/changed.nprof"
printf 'xxxxxxxxxxxxxxxx' | dd of="$bad/changed.nprof" bs=1 seek=9000 conv=notrunc 2>/dev/null
: >"$bad/empty.nprof"
echo "not a profile" >"$bad/text.nprof"
cp /bin/true "$bad/elf.nprof"
for view in "aggregate" "aggregate --by service" "merge -o $work/out.nprof" "pprof -o $work/out.pb.gz"; do
    rc=0
    # shellcheck disable=SC2086
    "$dump" $view "$bad" >"$work/out" 2>"$work/err" || rc=$?
    [ "$rc" = 1 ] || fail "$view of bad files: status $rc, $(cat "$work/err")"
    [ "$(wc -l <"$work/err")" = 5 ] || fail "$view says of five bad files: $(cat "$work/err")"
    for name in cut changed empty text elf; do
        grep -q "$bad/$name.nprof" "$work/err" || fail "$view does not name $name.nprof: $(cat "$work/err")"
    done
done
cmp "$work/out.nprof" "$work/three.nprof" || fail "bad files change the merge of the others"
decoded "$work/out.pb.gz" "$work/out.txt"
rc=0
"$dump" pprof "$bad/empty.nprof" "$bad/text.nprof" -o "$work/none" 2>"$work/err" || rc=$?
[ "$rc" = 2 ] && [ ! -e "$work/none" ] || fail "pprof of bad files alone: status $rc"
say "files that are cut, changed, empty or foreign are named and left out"

# ---- Growth. ----
mkdir "$work/dumps" "$work/few"
leaks() { # KIND MS RATE
    NUMALLOC_PROFILE=sample NUMALLOC_SAMPLE_INTERVAL=8K NUMALLOC_PROFILE_DUMP_EVERY=250ms NUMALLOC_PROFILE_FILE=$work/dumps \
        NUMALLOC_PROFILE_LABELS=service=shop,version=$1 LD_PRELOAD=$lib "$app" "$@"
}
export UNTIL=$work/enough
leaks leak 4000 2000000 >"$work/leak1" & first=$!
leaks leak 4000 3000000 >"$work/leak2" & second=$!
leaks steady 4000 2000000 >/dev/null & third=$!
await '[ "$(find "$work/dumps" -name "*.nprof.12" | wc -l)" = 3 ]'
touch "$UNTIL"
unset UNTIL
wait $first && wait $second && wait $third || fail "a program that leaks failed"
# The same service, restarted: too short to say anything of it, and no part of another's series.
leaks leak 600 9000000 >/dev/null
"$dump" aggregate --leaks --json "$work/dumps" >"$work/growth.json" || fail "aggregate --leaks: status $?"
"$dump" aggregate --leaks --stacks "$work/dumps" >"$work/growth" || fail "aggregate --leaks: status $?"
/usr/bin/python3 - "$work" <<'END' || fail "growth: $(cat "$work/growth")"
import json, re, sys
work = sys.argv[1]
rows = json.load(open(work + "/growth.json"))["rows"]
rate = 0
for name in "leak1", "leak2":
    bytes, ms = map(int, re.match(r"(\d+) bytes in (\d+) ms", open(f"{work}/{name}").read()).groups())
    rate += bytes / ms * 3.6e6
assert [(r["function"], r["labels"]) for r in rows] == [("leak_here", "service=shop,version=leak")], rows
row = rows[0]
assert (row["processes"], row["processes_tested"]) == (2, 2), row
assert row["bytes_per_hour_low"] <= row["bytes_per_hour"] <= row["bytes_per_hour_high"], row
assert abs(row["bytes_per_hour"] / rate - 1) < 0.25, (row, rate)
text = open(work + "/growth").read()
assert "| main" in text and "fill_cache" not in text and "churn" not in text, text
END
say "growth: $(sed -n 5p "$work/growth")"

# For scripts: a status. What is known to grow is left out by suppressions.
echo "leak:leak_here" >"$work/known"
echo "leak:fill_cache" >"$work/others_known"
growth() { # STATUS LINE ARGUMENTS...
    local status=$1 line=$2
    shift 2
    rc=0
    "$dump" aggregate --leaks "$@" "$work/dumps" >"$work/out" 2>"$work/err" || rc=$?
    [ "$rc" = "$status" ] || fail "aggregate --leaks $*: status $rc, $(cat "$work/out" "$work/err")"
    grep -Eq "$line" "$work/out" "$work/err" || fail "aggregate --leaks $*: no line $line: $(cat "$work/out" "$work/err")"
}
growth 1 '^failed: growing > 0: sites that grow steadily is 1$' --fail-if 'growing>0'
growth 1 '^failed: growth > 1.00 GiB: bytes an hour .* an estimate, .* GiB \(.* GiB to .* GiB\)$' --fail-if 'growing>1' --fail-if 'growth > 1G'
growth 0 leak_here --fail-if 'growing>1' --fail-if 'growth>1T'
growth 1 '^failed: growing > 0' --json --fail-if 'growing>0'
/usr/bin/python3 -m json.tool "$work/out" >/dev/null || fail "--json with --fail-if: no JSON"
growth 0 '^1 growing site left out by suppressions\.$' --fail-if 'growing>0' --suppressions "$work/known"
growth 1 '^failed: growing > 0' --fail-if 'growing>0' --suppressions "$work/others_known"
growth 2 'FIGURE one of growing, growth; not: peak>1' --fail-if 'peak>1'
find "$work/dumps" -name '*.nprof.[12]' -exec cp {} "$work/few" \;
rc=0
"$dump" aggregate --leaks "$work/few" >"$work/out" 2>"$work/err" || rc=$?
[ "$rc" = 2 ] && grep -q "too few dumps: no process has 5" "$work/err" || fail "growth over two dumps: status $rc, $(cat "$work/err")"
# Of a process's dumps the newest counts: aggregate has four processes.
[ "$("$dump" aggregate --csv "$work/dumps" 2>/dev/null | wc -l)" = 5 ] || fail "dumps are taken for processes"

# ---- What was allocated since an earlier dump. ----
# The short run has no third dump, and its name may be the first.
new=$(find "$work/dumps" -name '*.nprof.3' | sort | head -n 1) new=${new%.3}
"$dump" pprof "$new" --baseline "$new.3" -o "$work/since.pb.gz" || fail "pprof --baseline: status $?"
"$dump" pprof "$new" -o "$work/new.pb.gz" && "$dump" pprof "$new.3" -o "$work/old.pb.gz"
for name in since new old; do decoded "$work/$name.pb.gz" "$work/$name.txt"; done
PYTHONPATH=$test_source /usr/bin/python3 -B - "$work" <<'END' || fail "pprof --baseline is not the difference"
import sys
from export_readers import pprof_stacks, read_protobuf, first
def sums(name):
    p, totals = read_protobuf(f"{sys.argv[1]}/{name}.txt"), {}
    for values, stack in pprof_stacks(p):
        old = totals.get(stack[0], [0] * 5)
        totals[stack[0]] = [a + b for a, b in zip(old, values)]
    return totals, first(p, "time_nanos"), first(p, "duration_nanos")
(since, begin, time), (new, start, whole), (old, _, before) = map(sums, ("since", "new", "old"))
assert set(new) >= {"leak_here", "churn", "fill_cache"}, list(new)
for name, values in new.items():
    earlier = old.get(name, [0] * 5)
    for i in (0, 1): assert abs(since.get(name, [0] * 5)[i] - (values[i] - earlier[i])) <= 2, (name, i)
    if any(values[2:]): assert since[name][2:] == values[2:], name
assert begin == start + before and abs(time - (whole - before)) < 2e6, (begin, time)
END
say "pprof --baseline: what was allocated since, and what is live now"

# ---- Wrong use. ----
for wrong in "aggregate --label service $new" "aggregate --label 1=2 $new" "aggregate --by , $new" "aggregate --path-labels a//b $new" \
    "aggregate --stacks $new" "aggregate --fail-if growing>0 $new" "aggregate --leaks --fail-if growing $new" \
    "aggregate --leaks --suppressions $work/none $new" "aggregate --suppressions $work/known $new" "merge $new" "pprof --baseline $new $new.1" "pprof --baseline ${good[0]} $new"; do
    rc=0
    # shellcheck disable=SC2086
    "$dump" $wrong >"$work/out" 2>"$work/err" || rc=$?
    [ "$rc" = 2 ] && [ "$(wc -l <"$work/err")" = 1 ] && [ ! -s "$work/out" ] || fail "numalloc-dump $wrong: status $rc, $(cat "$work/err")"
done
say "wrong use is refused in one line"
