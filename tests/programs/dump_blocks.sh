#!/bin/bash
# dump_blocks.sh - the views of single blocks and of moments, on a program whose every block is known
# (dump_views.c): at, sizes, lifetimes, temporary, globals; and allocator on one whose spans are known (spans_load.c); and
# top on one that runs (top_load.c). What mode sites knows and what a trace knows.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"

cc -std=gnu17 -g -O1 -fno-inline -fno-optimize-sibling-calls -fno-stack-protector -pthread \
    "$test_source/dump_views.c" -o "$work/views" || fail "the compiler does not build dump_views.c"
for mode in sites trace sample; do
    NUMALLOC_PROFILE=$mode NUMALLOC_PROFILE_FILE="$work/$mode.nprof" NUMALLOC_SAMPLE_INTERVAL=64 \
        LD_PRELOAD="$lib" "$work/views" large 2>"$work/err" || fail "dump_views.c fails in mode $mode: $(cat "$work/err")"
done

/usr/bin/python3 - "$dump" "$work" <<'END' || fail "a view is not as the program was"
import csv, io, json, subprocess, sys
dump, work = sys.argv[1:]
def run(*arguments):
    return subprocess.run([dump, *arguments], cwd=work, check=True, capture_output=True, text=True).stdout
def rows(*arguments):
    document = json.loads(run(*arguments, "--json", "--top", "0"))
    assert document["schema"] == "numalloc-dump." + arguments[0], document["schema"]
    table = list(csv.DictReader(io.StringIO(run(*arguments, "--csv", "--top", "0"))))
    assert len(table) == len(document["rows"]) and all(set(t) <= set(r) for t, r in zip(table, document["rows"]))
    return document["rows"]

# The program's allocations in their order, by name of function and size; realloc is a free, too.
SCALE = 3
blocks = [("keep_cache", 2000 * SCALE)] + [("walk", 100)] * 10 + [("parse", 80)] * 500 + \
         [("grow", 64 << i) for i in range(8)] + [("build_table", 400 * SCALE)] * 100
live_at_end = {"keep_cache": 2000 * SCALE, "walk": 1000}
live_at_peak = {**live_at_end, "build_table": 40000 * SCALE}
def by_size(of):
    result = {}
    for _, size in of:
        result.setdefault(size.bit_length(), []).append(size)
    return result
def by_function(of, key):
    result = {}
    for row in of:
        result[row["function"]] = result.get(row["function"], 0) + row[key]
    return {name: value for name, value in result.items() if value}

for profile in "sites.nprof", "trace.nprof":
    trace = profile.startswith("trace")
    # at
    for when, truth in ("peak", live_at_peak), ("end", live_at_end):
        shown = rows("at", profile, "--time", when)
        assert by_function(shown, "live_bytes") == truth, (profile, when, shown)
        assert by_function(shown, "live_blocks")["walk"] == 10
        assert all(r["change_bytes"] is None and (r["oldest_ms"] is None) != trace for r in shown)
    assert rows("at", profile) == rows("at", profile, "--time", "peak")
    stacks = rows("at", profile, "--filter", "keep_cache", "--stacks")
    assert len(stacks) == 1 and stacks[0]["stack"][1]["function"] == "main", stacks
    # sizes
    shown = rows("sizes", profile)
    sums = {r["from_bytes"]: r for r in shown if r["from_bytes"] is not None}
    truth = by_size(blocks)
    assert {b.bit_length(): r["allocations"] for b, r in sums.items()} == {b: len(s) for b, s in truth.items()}, shown
    assert sum(r["total_bytes"] or 0 for r in shown) == sum(s for _, s in blocks), shown
    assert sum(r["live_bytes"] or 0 for r in shown) == sum(live_at_end.values()), shown
    assert {b: r["live_blocks"] for b, r in sums.items() if r["live_blocks"]} == {64: 10, 4096: 1}, shown
    for start, row in sums.items():
        of = truth[start.bit_length()]
        if not trace: # without the sites that have blocks of several rows
            of = by_size(b for b in blocks if b[0] != "grow").get(start.bit_length(), [])
        assert row["bytes_of"] == len(of) and (row["total_bytes"] or 0) == sum(of), row
        assert row["below_bytes"] == 2 * start
        if of:
            assert row["waste_bytes"] == row["usable_bytes"] - row["total_bytes"] >= 0
    several = [r for r in shown if r["from_bytes"] is None]
    assert len(several) == (not trace), shown
    if not trace:
        assert several[0]["total_bytes"] == sum(64 << i for i in range(8)) and several[0]["bytes_of"] == 8
    one = rows("sizes", profile, "--filter", "^parse ")
    assert [(r["from_bytes"], r["allocations"], r["total_bytes"]) for r in one] == [(64, 500, 40000)], one
    # lifetimes
    shown = rows("lifetimes", profile)
    freed = [b for b in blocks if b[0] in ("parse", "grow", "build_table")]
    assert sum(r["frees"] or 0 for r in shown) == len(freed), shown
    assert sum(r["live_blocks"] or 0 for r in shown) == 11, shown
    across = [0] * 48
    for row in shown:
        assert sum(row["by_size"]) == (row["frees"] or 0), row
        for bucket, count in enumerate(row["by_size"]):
            across[bucket] += count
    assert {b: n for b, n in enumerate(across) if n} == {b: len(s) for b, s in by_size(freed).items()}, across
    ages = [r for r in shown if r["from_ns"] is not None]
    assert [r["from_ns"] for r in ages] == sorted(r["from_ns"] for r in ages)
    one = rows("lifetimes", profile, "--filter", "^grow ")
    assert sum(r["frees"] or 0 for r in one) == 8 and not any(r["live_blocks"] for r in one), one
    assert "Frees by size" in run("lifetimes", profile)
    # temporary: the last of grow and of build_table are freed before anything else is allocated
    shown = rows("temporary", profile)
    assert [(r["function"], r["temporary"], r["allocations"]) for r in shown if r["function"] == "parse"] == [("parse", 500, 500)]
    assert by_function(shown, "temporary") == {"parse": 500, "grow": 1, "build_table": 1}, shown
    assert shown[0]["function"] == "parse" and shown[0]["temporary_ratio"] == 1 and shown[0]["size_mean"] == 80
    # globals: the program's own variables are known by their names
    shown = {r["variable"]: r for r in rows("globals", profile, "--filter", "/views$")}
    sizes = {name: shown[name]["bytes"] for name in ("views_table", "views_blocks", "views_keep", "scale")}
    assert sizes == {"views_table": 800, "views_blocks": 320, "views_keep": 8, "scale": 4}, sizes
    modules = {r["module"].split("/")[-1]: r for r in rows("globals", profile, "--modules")}
    assert modules["views"]["zeroed_bytes"] >= 1200 and modules["views"]["bytes"] >= sum(sizes.values())
    text = run("globals", profile, "--top", "0")
    assert "na_pagemap" not in text and "na_pagemap" in run("globals", profile, "--filter", "na_pagemap")

# A trace knows every moment. Events come in the program's order: one for the cache, ten for the walk, then two
# for each line of parse.
def at(*arguments):
    return rows("at", "trace.nprof", *arguments)
assert by_function(at("--time", "#0"), "live_bytes") == {"keep_cache": 6000}
assert by_function(at("--time", "#10"), "live_bytes") == live_at_end
assert by_function(at("--time", "#11"), "live_bytes") == {**live_at_end, "parse": 80}
assert by_function(at("--time", "#12"), "live_bytes") == live_at_end
grown = at("--time", "#11", "--since", "#5")
assert by_function(grown, "change_bytes") == {"walk": 500, "parse": 80}, grown
assert by_function(grown, "new_blocks") == {"walk": 5, "parse": 1}, grown
assert by_function(grown, "before_bytes") == {"keep_cache": 6000, "walk": 500}, grown
shrunk = at("--time", "end", "--since", "peak")
assert by_function(shrunk, "change_bytes") == {"build_table": -120000}, shrunk
assert by_function(shrunk, "change_blocks") == {"build_table": -100} and not by_function(shrunk, "new_bytes")
# A moment is what it is, also where nothing came after the earlier one.
then = run("at", "trace.nprof", "--time", "end").split(" (")[0]
assert run("at", "trace.nprof", "--time", "end", "--since", "end").startswith(then + " ("), then
assert at("--time", "0s") == [] and by_function(at("--time", "100%"), "live_bytes") == live_at_end
assert by_function(at("--time", "3600s"), "live_bytes") == by_function(at("--time", "3600000ms"), "live_bytes") == live_at_end

# Samples at a mean distance of 64 bytes: all blocks of 1,200 bytes and more are drawn, and the sums are near.
sample = rows("at", "sample.nprof")
assert abs(by_function(sample, "live_bytes")["build_table"] - 120000) < 120, sample
shown = rows("sizes", "sample.nprof")
assert [r["allocations"] for r in shown if r["from_bytes"] == 8192] == [1] and 380 < sum(r["allocations"] or 0 for r in shown) < 860, shown
assert any("Samples freed" in line for line in run("lifetimes", "sample.nprof", "--filter", "parse").splitlines())
END
say "at, sizes, lifetimes, temporary and globals are as the program was"

# refused ARGUMENT...: one line on stderr that matches $says, nothing shown.
refused() {
    local rc=0
    (cd "$work" && exec "$dump" "$@") >"$work/out" 2>"$work/err" || rc=$?
    [ "$rc" = 2 ] && [ ! -s "$work/out" ] && [ "$(wc -l <"$work/err")" = 1 ] && grep -q -- "$says" "$work/err" ||
        fail "numalloc-dump $*: status $rc, $(cat "$work/err")"
}
says="needs a profile of mode trace, this one is of mode sites.*NUMALLOC_PROFILE=trace"
refused at sites.nprof --time 3s
refused at sites.nprof --time @begin
refused at sites.nprof --since peak
says="takes peak, end"
for wrong in 3 3x -1s 1e99s "" "#" "#x" nan; do refused at trace.nprof --time "$wrong"; done
says="is later than"
refused at trace.nprof --time "#3" --since peak
says="no marker 'begin'"
refused at trace.nprof --time @begin
says="does not take --time"
refused sizes trace.nprof --time peak
say "moments that a profile does not know are refused in one line"

# Spans: what the walk at the end says is what the sites say, and who keeps pages is named.
cc -std=gnu17 -g -O1 -fno-builtin "$test_source/spans_load.c" -o "$work/spans" || fail "the compiler does not build spans_load.c"
for mode in sites trace; do
    NUMALLOC_PROFILE=$mode NUMALLOC_PROFILE_FILE="$work/spans-$mode.nprof" LD_PRELOAD="$lib" "$work/spans" || fail "spans_load.c in mode $mode"
    NUMALLOC_PROFILE=$mode NUMALLOC_PROFILE_FILE="$work/copy-$mode.nprof" LD_PRELOAD="$lib" "$work/spans" copy || fail "spans_load.c copy in mode $mode"
done
NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/scattered.nprof" LD_PRELOAD="$lib" "$work/spans" scattered || fail "spans_load.c scattered"
/usr/bin/python3 - "$dump" "$work" <<'END' || fail "allocator is not as the program was"
import base64, json, re, subprocess, sys, zlib
dump, work = sys.argv[1:]
def run(*arguments):
    return subprocess.run([dump, *arguments], cwd=work, check=True, capture_output=True, text=True).stdout
def rows(*arguments):
    return json.loads(run(*arguments, "--json", "--top", "0"))["rows"]

def check(profile, keepers, fillers, large):
    classes, held = rows("allocator", profile), rows("allocator", profile, "--retention")
    total = json.loads(run("json", profile))["total"]
    for of in classes, held:
        assert sum(r["live_blocks"] for r in of) == total["live_blocks"] == keepers + fillers + large, (profile, of)
        assert sum(r["live_bytes"] for r in of) == total["live_bytes"], (profile, of)
    assert sum(r["live_bytes"] + r["rounding_bytes"] for r in classes) == total["live_usable_bytes"]
    assert all(sum(r["spans_by_eighths"]) == r["spans"] and r["resident_bytes"] <= r["bytes"] for r in classes)
    small = [r for r in classes if r["block_bytes"] == 64]
    assert len(small) == 1 and small[0]["live_blocks"] == keepers + fillers and small[0]["rounding_bytes"] == 0, small
    assert small[0]["capacity"] * 64 == small[0]["bytes"] and small[0]["live_bytes"] == 64 * (keepers + fillers), small
    by = {r["function"]: r for r in held}
    assert set(by) == {"keeper", "filler", "take_large"} - (set() if fillers else {"filler"}) - (set() if large else {"take_large"}), by
    return small[0], by, classes

for mode in "sites", "trace":
    small, by, classes = check("spans-%s.nprof" % mode, 64, 0, 1)
    keeper = by["keeper"]
    # 128 blocks of 64 bytes to a span, two of which stay, wherever the first block of all lay.
    assert 32 <= keeper["spans"] <= 34 and keeper["alone_spans"] == keeper["sparse_spans"] == keeper["spans"], keeper
    assert keeper["live_bytes"] == 4096 and keeper["sparse_blocks"] == 64 and keeper["sparse_age_ms"] > 0, keeper
    # All of their pages were written to; a span's part of a byte is lost to rounding at each block.
    assert keeper["resident_bytes"] >= 30 * 8192 and keeper["kept_bytes"] >= keeper["resident_bytes"] - 4096 - 64, keeper
    assert keeper["kept_bytes"] <= small["unused_bytes"], (keeper, small)
    large = [r for r in classes if r["block_bytes"] is None]
    assert len(large) == 1 and large[0]["bytes"] >= 1 << 20 and 1 << 19 <= large[0]["resident_bytes"] <= large[0]["bytes"], large
    assert by["take_large"]["resident_bytes"] == large[0]["resident_bytes"] and by["take_large"]["kept_bytes"] == 0
    # Copies: all blocks live, then the keeper's alone; the profile itself is as without them.
    full, by, _ = check("copy-%s.nprof.1" % mode, 64, 4032, 0)
    assert full["occupancy"] > 0.9 and by["keeper"]["kept_bytes"] == by["filler"]["sparse_spans"] == 0, (full, by)
    check("copy-%s.nprof.2" % mode, 64, 0, 0)
    check("copy-%s.nprof" % mode, 64, 0, 1)

# Few blocks that keep much: a warning, in the list, in the first view and on the page, with who keeps it.
(found,) = [r for r in rows("warnings", "scattered.nprof.1") if r["warning"] == "fragmentation"]
assert found["place"].startswith("keeper  spans_load.c:") and "filler" not in found["place"], found
kept = sum(r["unused_bytes"] for r in rows("allocator", "scattered.nprof.1") if r["block_bytes"] is not None)
assert kept > 30 << 20 and found["value"] > 0.9 and "%.1f MiB" % (kept / (1 << 20)) in found["evidence"], (kept, found)
assert re.search("\n  fragmentation +keeper  spans_load.c:.*; saves about [0-9.]+ MiB of the [0-9.]+ MiB resident at the dump\n", run("scattered.nprof.1"))
assert "fragmentation" not in run("warnings", "spans-sites.nprof")
page = subprocess.run([dump, "html", "scattered.nprof.1", "-o", "scattered.html"], cwd=work, capture_output=True, text=True)
assert page.returncode == 0, page.stderr
packed = re.search(r'<script[^>]*type="application/[^>]*>([^<]+)</script>', open(work + "/scattered.html").read()).group(1).strip()
data = packed if packed.startswith("{") else zlib.decompress(base64.b64decode(packed), 47).decode()
(finding,) = [f for f in json.loads(data)["findings"] if f["id"] == "fragmentation"]
assert finding["place"] == found["place"] and finding["page"] == "allocator", finding
text = run("allocator", "spans-sites.nprof")
assert "65" in text and "Sites by what their live blocks keep" in text and "keeper" in text
assert "Sites" not in run("allocator", "spans-sites.nprof", "--sort", "spans")
assert "live_blocks" not in run("allocator", "spans-sites.nprof", "--filter", "nothing")
END
rc=0
"$dump" allocator "$work/sample.nprof" >"$work/out" 2>"$work/err" || rc=$?
[ "$rc" = 2 ] && grep -q "needs a profile of mode sites or trace" "$work/err" || fail "allocator on a sampled profile: $rc"
say "allocator knows the spans, and who keeps them"

# Memory that is not the allocator's: what a program maps is named, the files it was loaded from are not.
for mib in 8 96; do
    NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/maps-$mib.nprof" LD_PRELOAD="$lib" /usr/bin/python3 -c "
import mmap
maps = mmap.mmap(-1, $mib << 20)
for at in range(0, len(maps), 4096): maps[at] = 1
blocks = [bytearray(1000) for _ in range(8000)]"
    "$dump" warnings --json "$work/maps-$mib.nprof" >"$work/maps-$mib.json"
done
/usr/bin/python3 - "$work" <<'END' || fail "resident memory is not told apart"
import json, sys
few, many = ([r for r in json.load(open(f"{sys.argv[1]}/maps-{mib}.json"))["rows"] if r["warning"] == "resident"] for mib in (8, 96))
assert few == [] and len(many) == 1 and 64 << 20 <= many[0]["saves_bytes"] <= 100 << 20, (few, many)
END
say "resident memory that malloc does not have"

# A process that runs: what it has live is exact between two of its steps.
cc -std=gnu17 -g -O1 -fno-builtin "$test_source/top_load.c" -o "$work/top_load" || fail "the compiler does not build top_load.c"
coproc LOAD { exec env NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/top.nprof" LD_PRELOAD="$lib" "$work/top_load"; }
pid=$LOAD_PID
at_end+=("kill $pid 2>/dev/null")
step() { read -r line <&"${LOAD[0]}" && [ "$line" = ready ] || fail "top_load.c does not get ready"; }
# holds BLOCKS: the process's one function has so many blocks.
holds() {
    "$dump" top "$pid" --csv >"$work/top.csv" 2>"$work/err" || fail "top: $(cat "$work/err")"
    /usr/bin/python3 - "$work/top.csv" "$1" <<'END' || fail "top does not show $1 blocks: $(cat "$work/top.csv")"
import csv, sys
rows = {r["function"]: r for r in csv.DictReader(open(sys.argv[1]))}
assert int(rows["hold"]["live_bytes"]) == 1000 * int(sys.argv[2]) and int(rows["hold"]["live_blocks"]) == int(sys.argv[2])
END
}
step
holds 100
echo >&"${LOAD[1]}"
step
holds 150
"$dump" top "$pid" --iterations 3 --interval 0.05 --sort count >"$work/top" || fail "top --iterations"
[ "$(grep -c "process $pid, mode sites" "$work/top")" = 3 ] && [ "$(grep -c '^rate ' "$work/top")" = 2 ] && grep -q ' hold ' "$work/top" ||
    fail "top --iterations 3 shows $(head -n 20 "$work/top")"
exec {LOAD[1]}>&-
wait "$pid" || fail "top_load.c ends with status $?"
says="no process $pid\|records no profile"
refused top "$pid"
says="records no profile"
refused top $$
says="takes the number of a process"
for wrong in x 1x ../1 ""; do refused top "$wrong"; done
says="--interval takes seconds"
refused top $$ --interval 0
say "top shows a process that runs"
