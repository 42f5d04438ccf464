#!/bin/bash
# dump_exports.sh LIBRARY NUMALLOC_DUMP ORACLE - every export of numalloc-dump, read by the program that
# it is for (or, for pprof, by an independent decoder), has the figures of programs whose allocations
# are known: profile_load.c, and ORACLE, which counts its own random ones.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
oracle=$3
need callgrind_annotate valgrind ms_print valgrind heaptrack_print heaptrack protoc protobuf-compiler

file=$work/load.nprof
profiled sites "$file" sites
for export in json csv folded callgrind pprof speedscope massif; do
    "$dump" "$export" "$file" -o "$work/$export" 2>"$work/err" || fail "$export ends with status $?: $(cat "$work/err")"
    [ -s "$work/$export" ] || fail "$export wrote nothing"
    "$dump" "$export" "$file" | cmp -s - "$work/$export" || fail "$export: standard output differs from -o"
done

# JSON is the reference for the others; its own figures are those of the program.
/usr/bin/python3 - "$work" <<'END' || fail "json, csv, folded or speedscope are not as the program was"
import csv, json, sys
work = sys.argv[1]
d = json.load(open(work + "/json"))
assert d["schema"] == "numalloc-profile" and d["schema_version"] == 2
assert d["mode"] == "sites" and d["closed"] is True and d["damage"] == []
names = [f["name"] for f in d["functions"]]
stacks = {s["id"]: s for s in d["stacks"]}
assert all(s["parent"] < s["id"] and (s["parent"] == 0 or s["parent"] in stacks) for s in d["stacks"])
known = {}
for site in d["sites"]:
    name = names[site["responsible"]]
    figures = known.setdefault(name, dict.fromkeys(("total_bytes", "allocations", "peak_bytes", "live_bytes", "frees"), 0))
    for key in figures:
        figures[key] += site.get(key, 0)
expected = {  # name: total, allocations, peak, live, frees; profile_load.c
    "alloc_small": (48000, 1000, 48000, 0, 1000),
    "alloc_temp": (500000, 5000, 0, 0, 5000),
    "alloc_zeroed": (66000, 200, 66000, 66000, 0),
    "alloc_aligned": (10000, 10, 10000, 10000, 0),
    "alloc_grow": (32752, 11, 0, 0, 11),
    "alloc_big": (31457280, 3, 31457280, 0, 3),
}
for name, figures in expected.items():
    f = known[name]
    actual = (f["total_bytes"], f["allocations"], f["peak_bytes"], f["live_bytes"], f["frees"])
    assert actual == figures, (name, actual, figures)
for key in ("total_bytes", "allocations", "peak_bytes", "live_bytes", "frees"):
    assert sum(s.get(key, 0) for s in d["sites"]) == d["total"][key], key

rows = list(csv.DictReader(open(work + "/csv", newline="")))
assert len(rows) == len(d["sites"])
assert sum(int(r["total_bytes"]) for r in rows) == d["total"]["total_bytes"]

folded = {}
for line in open(work + "/folded"):
    stack, value = line.rstrip("\n").rsplit(" ", 1)
    folded[stack.split(";")[-1]] = folded.get(stack.split(";")[-1], 0) + int(value)
    assert stack.startswith("_start;")
assert folded["alloc_big"] == 31457280 and folded["alloc_small"] == 48000
assert sum(folded.values()) == d["total"]["peak_bytes"]
json.dump({name: dict(zip(("total_bytes", "allocations", "peak_bytes", "live_bytes"), figures))
           for name, figures in expected.items()}, open(work + "/known.json", "w"))

s = json.load(open(work + "/speedscope"))
frames = [f["name"] for f in s["shared"]["frames"]]
sums = []
for profile in s["profiles"]:
    assert len(profile["samples"]) == len(profile["weights"])
    assert all(0 <= i < len(frames) for stack in profile["samples"] for i in stack)
    assert profile["endValue"] == sum(profile["weights"])
    sums.append(profile["endValue"])
t = d["total"]
assert sums == [t["peak_bytes"], t["live_bytes"], t["total_bytes"], t["allocations"]], (sums, t)
open(work + "/totals", "w").write("%d %d %d %d\n" % tuple(sums))
END
read -r peak live total count <"$work/totals"
say "json, csv, folded and speedscope hold what the program did"

commas() { sed -E ':a; s/^([0-9]+)([0-9]{3})/\1,\2/; ta' <<<"$1"; }
callgrind_annotate --threshold=100 "$work/callgrind" >"$work/annotated" 2>"$work/err" || fail "callgrind_annotate: $(cat "$work/err")"
[ ! -s "$work/err" ] || fail "callgrind_annotate says: $(head -n 3 "$work/err")"
grep 'PROGRAM TOTALS' "$work/annotated" | tr -s ' ' | grep -F "$(commas "$peak") (100.0%) $(commas "$live") (100.0%) $(commas "$total") (100.0%) $(commas "$count") (100.0%)" >/dev/null ||
    fail "callgrind_annotate's totals: $(grep 'PROGRAM TOTALS' "$work/annotated"), not $peak $live $total $count"
grep -Eq '^31,457,280 .* 31,457,280 .* 3 .*profile_load\.c:alloc_big \[' "$work/annotated" || fail "callgrind_annotate does not show alloc_big"
callgrind_annotate --inclusive=yes --threshold=100 "$work/callgrind" >"$work/annotated" 2>&1
grep -E ':main \[' "$work/annotated" | grep -F "$(commas "$peak") (100.0%)" >/dev/null || fail "main's inclusive figure: $(grep ':main' "$work/annotated")"
say "callgrind_annotate: totals, own and inclusive figures"

ms_print "$work/massif" >"$work/printed" 2>"$work/err" || fail "ms_print: $(cat "$work/err")"
[ ! -s "$work/err" ] || fail "ms_print says: $(head -n 3 "$work/err")"
grep -q "(peak)" "$work/printed" || fail "ms_print sees no peak"
grep -Eq "^100\.00% \($(commas "$peak")B\) \(heap allocation functions\)" "$work/printed" || fail "ms_print's peak is not $peak"
grep -Eq '\(31,457,280B\) 0x[0-9A-F]+: alloc_big \(profile_load\.c:[0-9]+\)' "$work/printed" || fail "ms_print does not show alloc_big"
say "ms_print: the peak, and where it was"

# decode FILE OUT
decode() {
    protoc --decode=perftools.profiles.Profile --proto_path="$test_source/exports" profile.proto < <(gzip -dc "$1") >"$2" ||
        fail "protoc cannot decode $1"
    ! grep -Eq '^ *[0-9]+:' "$2" || fail "pprof: fields that the format does not have: $(grep -E '^ *[0-9]+:' "$2" | head -n 3)"
}
decode "$work/pprof" "$work/decoded"
PYTHONPATH=$test_source /usr/bin/python3 -B - "$work" "$total" "$count" "$peak" "$live" <<'END' || fail "pprof is not as the program was"
import sys
from export_readers import first as get, pprof_stacks, read_pprof, read_protobuf
total, count, peak, live = map(int, sys.argv[2:])
path = sys.argv[1] + "/decoded"
p = read_protobuf(path)
strings = p["string_table"]
assert strings[0] == "" and len(set(strings)) == len(strings)
types = [(strings[get(t, "type")], strings[get(t, "unit")]) for t in p["sample_type"]]
assert types == [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"),
                 ("inuse_space", "bytes"), ("peak", "bytes")], types
assert strings[get(p, "default_sample_type")] == "peak"
functions = {get(f, "id"): f for f in p["function"]}
locations = {get(l, "id"): l for l in p["location"]}
mappings = {get(m, "id"): m for m in p["mapping"]}
assert 0 not in functions and 0 not in locations and 0 not in mappings
assert len(functions) == len(p["function"]) and len(locations) == len(p["location"])
for sample in p["sample"]:
    assert len(sample["value"]) == 5
    for id in sample["location_id"]:
        mapping = mappings[get(locations[id], "mapping_id")]
        assert get(mapping, "memory_start") <= get(locations[id], "address") <= get(mapping, "memory_limit")
sums = [0] * 5
for values, stack in pprof_stacks(p):
    sums = [a + b for a, b in zip(sums, values)]
    assert stack[-1] == "_start" and "main" in stack, stack
assert (sums[0], sums[1], sums[3], sums[4]) == (count, total, live, peak), sums
by_leaf = read_pprof(path)
assert by_leaf["alloc_big"] == (31457280, 0, 31457280, 3), by_leaf["alloc_big"]
assert by_leaf["alloc_zeroed"] == (66000, 66000, 66000, 200), by_leaf["alloc_zeroed"]
assert by_leaf["alloc_temp"] == (0, 0, 500000, 5000), by_leaf["alloc_temp"]
END
say "pprof: protoc decodes it, and the figures are the program's"

# The same figures of the same functions in text, JSON, pprof, callgrind and the page, to the last byte
# (in text to its last digit): those that the programs themselves know.
same_figures() { # KNOWN PROFILE DIRECTORY
    "$dump" functions "$2" --top 0 >"$3/text" || fail "functions ends with status $?"
    for export in json callgrind pprof; do
        "$dump" "$export" "$2" -o "$3/$export" || fail "$export ends with status $?"
    done
    decode "$3/pprof" "$3/decoded"
    "$dump" html "$2" -o "$3/page.html" 2>"$work/err" || fail "html ends with status $?: $(cat "$work/err")"
    /usr/bin/python3 -B "$test_source/export_readers.py" "$1" "$3" >"$work/figures" 2>"$work/err" ||
        fail "not the same figures in all formats: $(tail -n 1 "$work/err")"
    say "the same figures: $(cat "$work/figures")"
}
same_figures "$work/known.json" "$file" "$work"
mkdir "$work/oracle"
"$oracle" "$lib" figures "$work/oracle" || fail "the oracle ends with status $?"
same_figures "$work/oracle/known.json" "$work/oracle/known.nprof" "$work/oracle"

# In mode sample the same, with estimates.
profiled sample "$work/sample.nprof" sample NUMALLOC_SAMPLE_INTERVAL=64K
for export in json csv folded callgrind pprof speedscope massif; do
    "$dump" "$export" "$work/sample.nprof" -o "$work/$export" || fail "$export of a sampled profile ends with status $?"
done
callgrind_annotate "$work/callgrind" >"$work/annotated" 2>&1 || fail "callgrind_annotate on a sampled profile: $(tail -n 1 "$work/annotated")"
grep -q 'profile_load.c:alloc_large' "$work/annotated" || fail "callgrind_annotate does not show alloc_large"
gzip -dc "$work/pprof" | protoc --decode=perftools.profiles.Profile --proto_path="$test_source/exports" profile.proto >/dev/null ||
    fail "protoc cannot decode a sampled profile"
say "sampled profiles are exported, too"

# heaptrack's format is a list of events: a trace has them.
profiled trace "$work/trace.nprof" sites
"$dump" heaptrack "$work/trace.nprof" -o "$work/heaptrack" || fail "heaptrack ends with status $?"
"$dump" json "$work/trace.nprof" -o "$work/trace.json"
heaptrack_print "$work/heaptrack" >"$work/printed" 2>"$work/err" || fail "heaptrack_print: $(tail -n 2 "$work/err")"
/usr/bin/python3 - "$work" <<'END' || fail "heaptrack_print: $(tail -n 8 "$work/printed")"
import json, re, sys
work = sys.argv[1]
t = json.load(open(work + "/trace.json"))["total"]
text = open(work + "/printed").read()
calls = re.search(r"calls to allocation functions: (\d+)", text)
assert int(calls.group(1)) == t["allocations"], (calls.group(0), t["allocations"])
def bytes_of(what):
    number, unit = re.search(what + r": ([0-9.]+)([KMGB]+)", text).groups()
    return float(number) * {"B": 1, "K": 1e3, "KB": 1e3, "M": 1e6, "MB": 1e6}[unit]
for what, key in (("peak heap memory consumption", "peak_bytes"), ("total memory leaked", "live_bytes")):
    assert abs(bytes_of(what) - t[key]) <= 0.006 * t[key], (what, bytes_of(what), t[key])
assert re.search(r"5000 calls .*\n.*alloc_temp|alloc_temp", text) and "alloc_big" in text and "profile_load.c:" in text
END
say "heaptrack_print reads a trace: allocations, peak, leaks"

# Of a program that reallocs and has temporaries of its own, it must find those of the views.
NUMALLOC_PROFILE=trace NUMALLOC_PROFILE_FILE="$work/python.nprof" PYTHONMALLOC=malloc PYTHONHASHSEED=0 LD_PRELOAD="$lib" \
    /usr/bin/python3 -c 'import json
a, b = [], bytearray()
for i in range(3000):
    a.append(str(i) * 50)
    b += b"xyz"
json.loads(json.dumps({i: str(i) for i in range(2000)}))' || fail "python3 ends with status $?"
"$dump" heaptrack "$work/python.nprof" -o "$work/heaptrack"
"$dump" json "$work/python.nprof" -o "$work/python.json"
heaptrack_print "$work/heaptrack" >"$work/printed" 2>"$work/err" || fail "heaptrack_print: $(tail -n 2 "$work/err")"
/usr/bin/python3 - "$work" <<'END' || fail "heaptrack_print of python: $(tail -n 8 "$work/printed")"
import json, re, sys
work = sys.argv[1]
t = json.load(open(work + "/python.json"))["total"]
text = open(work + "/printed").read()
for what, key in (("calls to allocation functions", "allocations"), ("temporary memory allocations", "temporary")):
    number = int(re.search(what + r": (\d+)", text).group(1))
    # frees are held back for their sake for 10 ms only
    assert t["reallocs"] > 100 and abs(number - t[key]) <= 0.002 * t[key], (what, number, t[key])
peak = float(re.search(r"peak heap memory consumption: ([0-9.]+)M", text).group(1)) * 1e6
assert abs(peak - t["peak_bytes"]) <= 0.006 * t["peak_bytes"], (peak, t["peak_bytes"])
END
say "heaptrack_print finds the temporaries of a program that reallocs"

# pprof takes the first mapping for the program, and looks for the names that a mapping does not have.
NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/date.nprof" LD_PRELOAD="$lib" /usr/bin/date >/dev/null ||
    fail "date ends with status $?" # its first blocks are the C library's
for program in date python3; do
    "$dump" pprof "$work/${program%3}.nprof" -o "$work/pprof"
    decode "$work/pprof" "$work/decoded"
    PYTHONPATH=$test_source /usr/bin/python3 -B - "$work/decoded" "/usr/bin/$program" <<'END' || fail "pprof: mappings of $program"
import os, sys
from export_readers import first as get, read_protobuf
p = read_protobuf(sys.argv[1])
strings = p["string_table"]
program = strings[get(p["mapping"][0], "filename")]
assert program == os.path.realpath(sys.argv[2]), program
functions = {get(f, "id"): strings[get(f, "name")] for f in p["function"]}
for m in p["mapping"]:
    frames = [l["line"] for l in p["location"] if get(l, "mapping_id") == get(m, "id")]
    lines = [line for frame in frames for line in frame]
    named = any("+0x" not in functions[get(line, "function_id")] for line in lines)
    has = [bool(get(m, "has_" + what)) for what in ("functions", "line_numbers", "inline_frames")]
    assert has == [named, any(get(line, "line") for line in lines), any(len(frame) > 1 for frame in frames)], (m, has)
    assert get(m, "has_filenames") == get(m, "has_line_numbers"), m
END
done
say "pprof: mappings say which is the program, and what of it has names"

# Names as a program may have them: markup, quotes, what a format has for separators, 250 characters,
# not ASCII; in functions, in a source file and in the program.
long=long_$(printf 'x%.0s' {1..245})
cat >"$work/odd.c" <<END
#include <stdlib.h>
static void *kept[4];
#line 100 "/src/a \"b\" <b>d;e é.c"
__attribute__((noinline)) void markup(void) __asm__("\"a<script>alert(1)</script>&amp;'q'\"");
__attribute__((noinline)) void parts(void) __asm__("\"semi;colon one two, three\"");
__attribute__((noinline)) void $long(void) { kept[3] = malloc(3000); }
__attribute__((noinline)) void größe(void) { kept[2] = malloc(4000); $long(); }
void parts(void) { kept[1] = malloc(2000); größe(); }
void markup(void) { kept[0] = malloc(1000); parts(); }
int main(void) { markup(); return kept[0] == NULL; }
END
odd="$work/an odd \"p\" <i>&é;x"
gcc -g -O0 "$work/odd.c" -o "$odd" || fail "gcc does not take odd names"
NUMALLOC_PROFILE=trace NUMALLOC_PROFILE_FILE="$work/odd.nprof" LD_PRELOAD="$lib" "$odd" '<arg>' || fail "odd names end with $?"
for export in json csv folded callgrind pprof speedscope massif heaptrack html; do
    "$dump" "$export" "$work/odd.nprof" -o "$work/$export" || fail "$export of odd names ends with status $?"
done
decode "$work/pprof" "$work/decoded"
heaptrack_print -T 0 -f "$work/heaptrack" >"$work/heaptrack.read" 2>"$work/err" || fail "heaptrack_print of odd names"
callgrind_annotate --threshold=100 "$work/callgrind" >"$work/callgrind.read" 2>&1 || fail "callgrind_annotate of odd names"
ms_print "$work/massif" >"$work/massif.read" 2>&1 || fail "ms_print of odd names"
LC_ALL=C.UTF-8 PYTHONPATH=$test_source /usr/bin/python3 -B - "$work" "$long" "$odd" <<'END' || fail "odd names"
import csv, json, sys
from export_readers import read_page_data, read_protobuf
work, long, program = sys.argv[1:]
names = {"größe": 4000, long: 3000, '"semi;colon one two, three"': 2000, "\"a<script>alert(1)</script>&amp;'q'\"": 1000}
place = '/src/a "b" <b>d;e \u00e9.c'
def text(name):
    return open(work + "/" + name, encoding="utf-8").read()
d = json.loads(text("json"))
assert set(names) <= {f["name"] for f in d["functions"]}
assert {r["function"]: int(r["peak_bytes"]) for r in csv.DictReader(open(work + "/csv", newline="", encoding="utf-8"))} == names
assert {r["file"] for r in csv.DictReader(open(work + "/csv", newline="", encoding="utf-8"))} == {place}
folded = dict(line.rsplit(" ", 1) for line in text("folded").splitlines())
assert {stack.split(";")[-1]: int(value) for stack, value in folded.items()} == {n.replace(";", ":"): v for n, v in names.items()}, folded
assert set(names) <= {f["name"] for f in json.loads(text("speedscope"))["shared"]["frames"]}
strings = [s.encode().decode("unicode_escape").encode("latin-1").decode() for s in read_protobuf(work + "/decoded")["string_table"]]
assert set(names) | {place, program} <= set(strings), strings
for reader in ("callgrind.read", "massif.read"):
    for name, value in names.items():
        assert any(name in line and format(value, ",") in line for line in text(reader).splitlines()), (reader, name)
assert all(name in text("heaptrack") for name in names)
assert all(name in text("heaptrack.read") for name in ("größe", long, "semi;colon one two, three"))
page = text("html")
assert "<script>alert" not in page and page.count("<script") == 2 and "<i>" not in page.split("<style>")[0]
strings = set(read_page_data(work + "/html")["strings"])
assert set(names) | {place, program} <= strings, strings
END
say "odd names reach every reader"
