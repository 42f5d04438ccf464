#!/bin/bash
# dump_exports.sh - every export of numalloc-dump, read by the program that it is for (or, for pprof,
# by an independent decoder), has the figures of a program whose allocations are known.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
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
json.dump({n: {k: f[k] for k in ("peak_bytes", "live_bytes", "total_bytes", "allocations")}
           for n, f in known.items() if n in expected}, open(work + "/known", "w"))

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

protoc --decode=perftools.profiles.Profile --proto_path="$test_source/exports" profile.proto \
    < <(gzip -dc "$work/pprof") >"$work/decoded" || fail "protoc cannot decode the profile"
! grep -Eq '^ *[0-9]+:' "$work/decoded" || fail "pprof: fields that the format does not have: $(grep -E '^ *[0-9]+:' "$work/decoded" | head -n 3)"
/usr/bin/python3 - "$work" "$total" "$count" "$peak" "$live" <<'END' || fail "pprof is not as the program was"
import json, re, sys
total, count, peak, live = map(int, sys.argv[2:])
# protobuf's text form: nested "name { ... }" and "name: value" lines.
def parse(lines):
    message = {}
    for line in lines:
        line = line.strip()
        if line == "}":
            return message
        if line.endswith("{"):
            message.setdefault(line[:-1].strip(), []).append(parse(lines))
            continue
        key, value = line.split(":", 1)
        value = value.strip()
        value = value[1:-1] if value.startswith('"') else {"true": 1, "false": 0}.get(value) if value in ("true", "false") else int(value)
        message.setdefault(key, []).append(value)
    return message
p = parse(iter(open(sys.argv[1] + "/decoded", encoding="utf-8")))
strings = p["string_table"]
assert strings[0] == "" and len(set(strings)) == len(strings)
get = lambda m, k: m.get(k, [0])[0]
types = [(strings[get(t, "type")], strings[get(t, "unit")]) for t in p["sample_type"]]
assert types == [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"),
                 ("inuse_space", "bytes"), ("peak", "bytes")], types
assert strings[get(p, "default_sample_type")] == "peak"
functions = {get(f, "id"): f for f in p["function"]}
locations = {get(l, "id"): l for l in p["location"]}
mappings = {get(m, "id"): m for m in p["mapping"]}
assert 0 not in functions and 0 not in locations and 0 not in mappings
assert len(functions) == len(p["function"]) and len(locations) == len(p["location"])
sums, by_leaf = [0] * 5, {}
for sample in p["sample"]:
    values = sample["value"]
    assert len(values) == 5
    sums = [a + b for a, b in zip(sums, values)]
    stack = []
    for id in sample["location_id"]:
        location = locations[id]
        mapping = mappings[get(location, "mapping_id")]
        assert get(mapping, "memory_start") <= get(location, "address") <= get(mapping, "memory_limit")
        stack += [strings[get(functions[get(line, "function_id")], "name")] for line in location["line"]]
    assert stack[-1] == "_start" and "main" in stack, stack
    leaf = by_leaf.setdefault(stack[0], [0] * 5)
    by_leaf[stack[0]] = [a + b for a, b in zip(leaf, values)]
assert (sums[0], sums[1], sums[3], sums[4]) == (count, total, live, peak), sums
assert by_leaf["alloc_big"] == [3, 31457280, 0, 0, 31457280], by_leaf["alloc_big"]
assert by_leaf["alloc_zeroed"] == [200, 66000, 200, 66000, 66000], by_leaf["alloc_zeroed"]
assert by_leaf["alloc_temp"] == [5000, 500000, 0, 0, 0], by_leaf["alloc_temp"]
json.dump(by_leaf, open(sys.argv[1] + "/by_leaf", "w"))
END
say "pprof: protoc decodes it, and the figures are the program's"

# The same figures of the same functions in text, pprof, callgrind and the page, to the last byte (in
# text to its last digit): what the reference has, which was the program's own above.
"$dump" functions "$file" --top 0 >"$work/text" || fail "functions ends with status $?"
rc=0
"$dump" html "$file" -o "$work/page.html" 2>"$work/err" || rc=$?
[ "$rc" = 0 ] || grep -q 'without npm' "$work/err" || fail "html ends with status $rc: $(cat "$work/err")"
/usr/bin/python3 - "$work" <<'END' || fail "text, JSON, pprof, callgrind and HTML do not have the same figures"
import base64, json, os, re, sys, zlib
work = sys.argv[1]
keys = ("peak_bytes", "live_bytes", "total_bytes", "allocations")
known = {n: tuple(f[k] for k in keys) for n, f in json.load(open(work + "/known")).items()}
assert len(known) == 6, known

def shown(value):  # bytes, as text has them
    units = ["B", "KiB", "MiB", "GiB"]
    while value >= 999.5 and len(units) > 1 and (units[0] != "B" or value >= 1024):
        value /= 1024
        units.pop(0)
    digits = 0 if units[0] == "B" else 2 if value < 9.995 else 1 if value < 99.95 else 0
    return "%.*f %s" % (digits, value, units[0])
size = r"([0-9.]+ [KMG]?i?B)"
rows = {m.group(5): m.groups()[:4] for m in re.finditer(
    r"^ *%s +[0-9.]+ %% +%s +%s +([0-9,]+) .*  (\w+)  profile_load\.c:" % (size, size, size), open(work + "/text").read(), re.M)}
for name, figures in known.items():
    wanted = tuple(shown(v) for v in figures[:3]) + ("{:,}".format(figures[3]),)
    assert rows[name] == wanted, ("text", name, rows[name], wanted)

by_leaf = json.load(open(work + "/by_leaf"))
for name, figures in known.items():
    v = by_leaf[name]
    assert (v[4], v[3], v[1], v[0]) == figures, ("pprof", name, v, figures)

own, function, inclusive = {}, None, False
for line in open(work + "/callgrind"):
    if line.startswith("fn="):
        function = line.split(" ", 1)[1].strip()
    elif line.startswith("calls="):
        inclusive = True
    elif function is not None and re.match(r"[0-9]+( [0-9]+){4}$", line):
        if not inclusive:
            figures = map(int, line.split()[1:])
            own[function] = tuple(a + b for a, b in zip(own.get(function, (0,) * 4), figures))
        inclusive = False
for name, figures in known.items():
    assert own[name] == figures, ("callgrind", name, own[name], figures)

if os.path.exists(work + "/page.html"):
    page = open(work + "/page.html", encoding="utf-8").read()
    data = re.search(r'<script type="application/octet-stream" id="data">([^<]*)</script>', page).group(1)
    d = json.loads(zlib.decompress(base64.b64decode(data)))
    in_page = {}
    for row, frame in enumerate(d["sites"]["by"]):
        name = d["strings"][d["functions"]["name"][d["frames"]["function"][frame]]]
        figures = [d["sites"]["values"][m][row] for m in ("peak", "live", "total", "count")]
        in_page[name] = tuple(a + b for a, b in zip(in_page.get(name, (0,) * 4), figures))
    for name, figures in known.items():
        assert in_page[name] == figures, ("html", name, in_page[name], figures)
END
say "text, JSON, pprof, callgrind and HTML: the same figures of the same functions"

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
