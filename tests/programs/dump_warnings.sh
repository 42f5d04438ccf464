#!/bin/bash
# dump_warnings.sh - every warning comes just above its threshold and not at it. Recorded profiles whose figures are
# changed in the file to those of each case: one site, with what the warning looks at.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"

cc -std=gnu17 -g -O1 -fno-inline -pthread "$test_source/dump_views.c" -o "$work/views" || fail "the compiler does not build dump_views.c"
for mode in sites sample; do
    NUMALLOC_PROFILE=$mode NUMALLOC_PROFILE_FILE="$work/$mode.nprof" NUMALLOC_SAMPLE_INTERVAL=64 LD_PRELOAD="$lib" "$work/views" small ||
        fail "dump_views.c fails in mode $mode"
done

/usr/bin/python3 - "$dump" "$work" "$test_source/../../profiler/dump/views/summary/finding_words.c" <<'END' || fail "a warning does not come where its threshold is"
import json, os, re, struct, subprocess, sys, zlib
dump, work, source = sys.argv[1:]
MIB = 1 << 20
HEADER = {"other_malloc": (2456, "256s"), "state": (3072, "I"), "lost_events": (3144, "Q"), "disk_full": (3208, "I"), "truncated_stacks": (3160, "Q"), "last_ms": (3112, "Q"),
          "peak_epoch": (3076, "I"), "threads_most": (3232, "I"), "pid": (48, "i")}
CELL = {name: (8 + 8 * i, "Q") for i, name in enumerate(
    "alloc_count alloc_bytes alloc_usable free_count free_bytes free_usable local_peak_bytes peak_bytes peak_count".split())}
CELL |= {"peak_epoch": (4, "I"), "size_min": (88, "Q"), "size_max": (96, "Q"), "temporary": (136, "Q"), "cross_thread": (144, "Q"),
         "cross_node": (152, "Q"), "copied_by_realloc": (184, "Q"), "copied_by_growth": (208, "Q"), "raw_allocs": (248, "I")}
POINT = {"requested_max": (0, "q"), "physical": (24, "Q"), "threads": (76, "I"), "flags": (72, "I")}

def chunks(data, wanted):
    at = 4096
    while at + 64 <= len(data):
        magic, kind, _, length = struct.unpack_from("<IHHQ", data, at)
        if magic != 0x4b48434e or length == 0:
            at += 4096
            continue
        if kind == wanted:
            yield at, struct.unpack_from("<I", data, at + 52)[0]  # count
        at += length

def unpacked(data):
    used, packed = struct.unpack_from("<Q", data, 3104)[0], struct.unpack_from("<Q", data, 3200)[0]
    if packed == 0:
        return data
    raw, at, to = struct.unpack_from("<Q", data, packed + 24)[0], packed + 64, 4096
    out, end = bytearray(data[:4096]) + bytes(used - 4096), packed + 64 + raw
    struct.pack_into("<Q", out, 3200, 0)
    while at < end:
        skipped, words = struct.unpack_from("<II", data, at)
        to += 8 * skipped
        out[to:to + 8 * words] = data[at + 8:at + 8 + 8 * words]
        to, at = to + 8 * words, at + 8 + 8 * words
    return out

def fired(mode, header={}, point={}, spans=None, copy=0, flags=1, calls=(), late=False, **cell):
    data = unpacked(bytearray(open("%s/%s.nprof" % (work, mode), "rb").read()))
    def put(at, fields, values):
        for name, value in values.items():
            offset, kind = fields[name]
            struct.pack_into("<" + kind, data, at + offset, value)
    assert struct.unpack_from("<I", data, HEADER["state"][0])[0] == 2, "the header lies elsewhere"
    epoch = struct.unpack_from("<I", data, HEADER["peak_epoch"][0])[0]
    put(0, HEADER, {"last_ms": 1000, "threads_most": 0, "lost_events": 0, "disk_full": 0, "truncated_stacks": 0, **header})
    struct.pack_into("<I", data, 2712, 0)  # nor do threads, sizes and so on count what the cell does
    struct.pack_into("<I", data, 3068, zlib.crc32(data[:3068]))
    struct.pack_into("<Q", data, 3240, 0)  # not finished: no checksums of the rest
    cells = [at + 64 + 256 * i for at, count in chunks(data, 2) for i in range(count)]
    for at in cells[1:]:
        struct.pack_into("<I", data, at, 0)
    site = data[cells[0]:cells[0] + 4]
    data[cells[0]:cells[0] + 256] = bytes(site) + bytes(252)
    scale = 256 if mode == "sample" else 1  # counts of the file
    values = {"peak_epoch": epoch, "size_min": 1, "size_max": 1, **cell}
    for name in "alloc_count", "free_count", "peak_count", "temporary", "cross_thread", "cross_node":
        if name in values:
            values[name] *= scale
    values.setdefault("alloc_usable", values.get("alloc_bytes", 0))
    put(cells[0], CELL, values)
    # Each module maps a MiB. So much of what is resident may be their files, which are not the program's memory:
    # the resident size of a case is beyond it.
    loaded = 0
    for at, count in chunks(data, 4):
        for i in range(count):
            start, end = struct.unpack_from("<QQ", data, at + 64 + 512 * i + 8)
            assert 0 < start < end, "a module lies elsewhere"
            struct.pack_into("<Q", data, at + 64 + 512 * i + 16, start + MIB)
            loaded += MIB
    assert loaded >= 3 * MIB, "the program, libc and numalloc are loaded"
    if "physical" in point:
        point = {**point, "physical": point["physical"] + loaded}
    for at, _ in chunks(data, 5):
        active = struct.unpack_from("<I", data, at + 64)[0]
        first = at + 64 + 24 + active * 512 * 80
        # At least two points: threads that never allocate are those that two looks in a row have seen.
        count = struct.unpack_from("<I", data, at + 64 + 16 + 4 * active)[0]
        struct.pack_into("<I", data, at + 64 + 16 + 4 * active, max(count, 2))
        for i in range(512):
            put(first + 80 * i, POINT, {"requested_max": 0, "physical": 0, "threads": 1, "flags": 3, **point})
    for at, count in chunks(data, 12):  # SPANS: one of small blocks, or nothing; SPAN_SITES: its blocks are the site's
        data[at + 64:at + 64 + 64 * count] = bytes(64 * count)
        if spans:
            resident, usable = spans
            struct.pack_into("<IHBB7Q", data, at + 64, 64, 0, 4, 1, 100, 1 << 20, 10, 64 << 20, resident, usable, usable)
    for at, count in chunks(data, 13):
        data[at + 64:at + 64 + 80 * count] = bytes(80 * count)
        if spans:
            struct.pack_into("<4s4x9Q", data, at + 64, bytes(site), 10, usable, resident, 100, 100, 100, 10, resident - usable, 0)
    for at, count in chunks(data, 3):  # THREADS: calls of the first one
        for entry, values in enumerate(calls):
            for part, (kind, value) in enumerate(zip("QQQd", values)):  # calls, timed, ticks, squares
                struct.pack_into("<" + kind, data, at + 64 + 128 + 64 * part + 8 * entry, value)
    for at, _ in chunks(data, 24):  # SESSION
        struct.pack_into("<II", data, at + 68, copy, 0 if late else flags)
    path = work + "/made.nprof"
    open(path, "wb").write(data)
    out = subprocess.run([dump, "warnings", path, "--json"], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return {row["warning"]: row for row in json.loads(out.stdout)["rows"]}

def freed(count=0, **more):  # all that was allocated is freed again
    return {"alloc_count": max(count, 1), "free_count": max(count, 1), "alloc_bytes": 4 * MIB, "free_bytes": 4 * MIB, "peak_bytes": 4 * MIB, **more}

# In the run of a second that all have: a pair of calls counts 40 ns, a byte that is copied a quarter; what
# saves a hundredth of the run or of the peak, or less, is no warning, whatever its share is.
SITES, LARGE = "sites", {"alloc_bytes": 64 * MIB, "free_bytes": 64 * MIB, "peak_bytes": 64 * MIB}
SHORT, SLOW = {"last_ms": 100}, {"last_ms": 419}  # 16 MiB in 419 ms: 1.001 %
CASES = {  # (mode, fields where it comes, fields where it does not, ...)
    "other-malloc": (SITES, dict(header={"other_malloc": b"/usr/lib/libfast.so"}), dict(header={"other_malloc": b""})),
    "lost-events": (SITES, dict(header={"lost_events": 1}), dict(header={"lost_events": 0})),
    "truncated-stacks": (SITES, dict(freed(1000), header={"truncated_stacks": 11}), dict(freed(1000), header={"truncated_stacks": 10})),
    "few-samples": ("sample", dict(freed(1), raw_allocs=398), dict(freed(1), raw_allocs=399)),
    "not-freed": (SITES, dict(freed(), free_bytes=2 * MIB - 1), dict(freed(), free_bytes=2 * MIB),
                  dict(freed(), alloc_bytes=MIB, peak_bytes=MIB, free_bytes=1), dict(freed(), free_bytes=0, header={"state": 1}),
                  dict(freed(), free_bytes=0, copy=3), dict(freed(), free_bytes=0, flags=3)),  # the process ran on
    "allocation-rate": (SITES, freed(500001), freed(500000), dict(freed(500001), header={"last_ms": 99})),
    "temporaries": (SITES, dict(freed(500001), temporary=250001), dict(freed(500002), temporary=250001), dict(freed(500000), temporary=250000),
                    dict(freed(300000), temporary=250000), dict(freed(9999), temporary=9999, header={"last_ms": 20})),
    "tiny-blocks": (SITES, dict(freed(100000), peak_count=100000, peak_bytes=3199999), dict(freed(100000), peak_count=100000, peak_bytes=3200000),
                    dict(freed(99999), peak_count=99999, peak_bytes=99999)),
    "rounding": (SITES, dict(freed(), alloc_usable=5 * MIB + 1), dict(freed(), alloc_usable=5 * MIB), dict(freed(), alloc_usable=9 * MIB, peak_bytes=MIB - 1)),
    "resident": (SITES, dict(freed(), peak_bytes=40 * MIB, point={"physical": 80 * MIB + 1}), dict(freed(), peak_bytes=40 * MIB, point={"physical": 80 * MIB}),
                 dict(freed(), peak_bytes=4 * MIB, point={"physical": 36 * MIB - 1}),
                 # What was resident before the profile began is not in it.
                 dict(freed(), peak_bytes=40 * MIB, point={"physical": 400 * MIB}, late=True)),
    "fragmentation": (SITES, dict(freed(), spans=(48 * MIB + 1, 32 * MIB)), dict(freed(), spans=(48 * MIB, 32 * MIB)),
                      dict(freed(), spans=(16 * MIB - 1, 0)), freed(),
                      # A moment ago much more was live: destructors have freed it.
                      dict(freed(), spans=(48 * MIB + 1, 32 * MIB), point={"requested_max": 2 * MIB}, header={"last_ms": 2})),
    "cross-thread": (SITES, dict(freed(1000000), cross_thread=250001), dict(freed(1000004), cross_thread=250001), dict(freed(900000), cross_thread=250000),
                     dict(freed(9999), cross_thread=9999, header={"last_ms": 20})),
    "cross-node": (SITES, dict(freed(10000), cross_node=1001), dict(freed(10000), cross_node=1000), dict(freed(9999), cross_node=9999)),
    "reallocs": (SITES, dict(freed(), **LARGE, copied_by_realloc=16 * MIB + 1, header=SLOW), dict(freed(), **LARGE, copied_by_realloc=16 * MIB, header=SLOW),
                 dict(freed(), copied_by_realloc=16 * MIB - 1, header=SHORT), dict(freed(), **LARGE, copied_by_realloc=16 * MIB + 1, header={"last_ms": 420})),
    "growth": (SITES, dict(freed(), **LARGE, copied_by_growth=16 * MIB + 1, header=SLOW), dict(freed(), **LARGE, copied_by_growth=16 * MIB, header=SLOW),
               dict(freed(), copied_by_growth=16 * MIB - 1, header=SHORT), dict(freed(), **LARGE, copied_by_growth=16 * MIB + 1, header={"last_ms": 420})),
    "threads": (SITES, dict(freed(), point={"threads": 2049}), dict(freed(), point={"threads": 2048})),
}
known = re.findall(r'^\s+(?:\[NA_FINDING_[A-Z_]+\] = )?\{"([a-z-]+)", ', open(source).read(), re.M)
assert sorted(known) == sorted(CASES), "warnings without a case here, or the other way round: %s" % (set(known) ^ set(CASES))
for key, (mode, above, *others) in CASES.items():
    shown = fired(mode, **above)
    assert key in shown, "%s does not come above its threshold: %s" % (key, sorted(shown))
    assert shown[key]["value"] > shown[key]["threshold"] and shown[key]["evidence"] and shown[key]["remedy"], shown[key]
    for fields in others:
        assert key not in fired(mode, **fields), "%s comes with %s" % (key, fields)
# At a dump the spans are those of a program at work, whatever was live before.
assert "fragmentation" in fired(SITES, **freed(), spans=(48 * MIB + 1, 32 * MIB), point={"requested_max": 2 * MIB}, copy=3)
# An estimate as wide as itself comes last: three blocks drawn from a million, and of the time in
# the allocator the entry point with one slow call.
few = dict(freed(1000000), peak_bytes=40 * MIB, temporary=600000, point={"physical": 120 * MIB}, header={"last_ms": 50})
assert list(fired("sample", **few, raw_allocs=1000)) == ["temporaries", "resident"], fired("sample", **few, raw_allocs=1000)
shown = fired("sample", **few, raw_allocs=3)
assert list(shown) == ["few-samples", "resident", "temporaries"], list(shown)
out = subprocess.run([dump, work + "/made.nprof"], capture_output=True, text=True).stdout
assert re.search(r"\n  temporaries .* \(of few samples: \+- 1[0-9][0-9] %\)\n", out), out
tick = 100000
fired(SITES, **freed(), calls=[(1000, 100, 100 * tick, 1.0e4 * tick**2), (1000, 100, 10 * tick, 1.1 * tick**2)])
out = subprocess.run([dump, "threads", work + "/made.nprof"], capture_output=True, text=True).stdout
order = [(line.split()[2], line.split("+-")[-1].split()[0]) for line in out.splitlines() if re.search(r"  (malloc|calloc) .*\+-", line)]
assert [name for name, _ in order] == ["calloc", "malloc"] and int(order[0][1]) < 100 <= int(order[1][1]), out
# A malloc in the program itself comes before whatever is preloaded.
program = open(work + "/sites.nprof", "rb").read()[336:336 + 512].split(b"\0")[0]
assert program.endswith(b"/views"), program
shown = fired(SITES, header={"other_malloc": program})
assert shown["other-malloc"]["remedy"] == "build the program without its allocator", shown
# The most valuable first: what copying costs, by its bytes; what is known of the place, and what mending it saves.
both = dict(freed(), **LARGE, copied_by_realloc=32 * MIB, copied_by_growth=48 * MIB, header=SHORT)
shown = fired(SITES, **both)
assert list(shown) == ["growth", "reallocs"], list(shown)
for key, mib in ("growth", 48), ("reallocs", 32):
    ms = mib * MIB * 0.25e-6
    row = shown[key]
    assert row["share"] == 1 and row["saves_bytes"] is None and abs(row["saves_ms"] - ms) < 1e-3 and abs(row["worth"] - ms / 100) < 1e-4, row
# Memory that may be needed counts a quarter: three quarters of the peak less than a half of it that is wasted,
# or than 27.5 %, but more than a tenth that is copied.
shown = fired(SITES, **dict(freed(), free_bytes=MIB, alloc_usable=4 * MIB + 11 * MIB // 10))
assert list(shown) == ["rounding", "not-freed"], shown
shown = fired(SITES, **dict(freed(), **LARGE | {"free_bytes": 16 * MIB}, copied_by_realloc=16 * MIB + 1, header=SLOW))
assert list(shown) == ["not-freed", "reallocs"], shown
shown = fired(SITES, **dict(freed(), free_bytes=MIB, alloc_usable=6 * MIB))
assert list(shown) == ["rounding", "not-freed"] and shown["not-freed"]["worth"] > shown["rounding"]["worth"], shown
assert abs(shown["rounding"]["saves_bytes"] - 2 * MIB) < 2, shown["rounding"]
# What is about the profile comes before all.
assert list(fired(SITES, **dict(freed(), free_bytes=MIB, alloc_usable=6 * MIB, header={"lost_events": 1})))[0] == "lost-events"
# What has lost events is what is to be mended.
for full, word in (0, "signal handlers"), (1, "another disk"), (2, "vm.max_map_count"):
    shown = fired(SITES, **freed(), header={"lost_events": 1, "disk_full": full})["lost-events"]
    assert word in shown["remedy"], shown
# Of processes at one time, calls are of all, and so is the time.
paths = []
for pid in range(101, 111):
    alone = fired(SITES, **dict(freed(2000000), temporary=2000000, header={"pid": pid}))
    paths.append("%s/made.%d.nprof" % (work, pid))
    os.rename(work + "/made.nprof", paths[-1])
for name, files in ("merged", paths[1:]), ("all", ["merged", paths[0]]):
    files = [file if "/" in file else "%s/%s.nprof" % (work, file) for file in files]
    subprocess.run([dump, "merge", *files, "-o", "%s/%s.nprof" % (work, name)], check=True, stderr=subprocess.DEVNULL)
    rows = json.loads(subprocess.run([dump, "warnings", "%s/%s.nprof" % (work, name), "--json"], capture_output=True, text=True, check=True).stdout)["rows"]
    shown = {row["warning"]: row for row in rows}
    count = 9 if name == "merged" else 10
    for key in "allocation-rate", "temporaries":
        assert abs(shown[key]["worth"] - alone[key]["worth"]) < 1e-6, (key, shown[key], alone[key])
        assert abs(shown[key]["saves_ms"] - count * alone[key]["saves_ms"]) < 1e-3, (key, shown[key], alone[key])
    run = json.loads(subprocess.run([dump, "%s/%s.nprof" % (work, name), "--json"], capture_output=True, text=True, check=True).stdout)
    assert (run["processes"], run["together_ms"], run["duration_ms"]) == (count, 1000 * count, 1000), run
    assert "%d processes): " % count in subprocess.run([dump, "brief", "%s/%s.nprof" % (work, name)], capture_output=True, text=True, check=True).stdout
# As text: evidence, and below it place, saving, reason and remedy; the options of tables choose and order.
shown = fired(SITES, **both)
def text(*options):
    out = subprocess.run([dump, "warnings", work + "/made.nprof", *options], capture_output=True, text=True)
    assert out.returncode == 0 and out.stderr == "", out.stderr
    return out.stdout.splitlines()
lines = text()
assert lines[0].split() == ["warning", "evidence"] and len(lines) == 11, lines
for at, key in (1, "growth"), (6, "reallocs"):
    row = shown[key]
    saves = "about %.0f ms, %.0f %% of the run" % (row["saves_ms"], 100 * row["worth"])
    assert lines[at] == "%-8s  %s" % (key, row["evidence"]), lines[at]
    assert [line.split(None, 3 if "most of it" in line else 1)[-1] for line in lines[at + 1:at + 5]] == [row["place"], saves, row["reason"], row["remedy"]], lines
assert [line.split()[0] for line in text("--sort", "value") if line[0] != " "] == ["warning", "growth", "reallocs"]
assert [line.split()[0] for line in text("--sort", "threshold") if line[0] != " "] == ["warning", "growth", "reallocs"]
assert [line.split()[0] for line in text("--top", "1") if line[0] != " "] == ["warning", "growth"]
assert text("--filter", "container that grows")[1].startswith("growth"), text("--filter", "container that grows")
assert text("--filter", "^nothing$") == ["Nothing: none of 2 warnings matches --filter."]
# In the summary one line for each, in the same order: the place, its share, what to do, what that saves.
out = subprocess.run([dump, work + "/made.nprof"], capture_output=True, text=True).stdout
lines = re.search(r"^Findings, the most valuable first.*\n((?:  .*\n)+)", out, re.M).group(1).splitlines()
assert [line.split()[0] for line in lines] == ["growth", "reallocs"], lines
assert re.fullmatch(r"  growth +\S+ +\S+ has 100 % of what was copied to grow: reserve the final size; saves about 13 ms, 13 % of the run", lines[0]), lines
print("%d warnings, %d cases in which they do not come" % (len(CASES), sum(len(c) - 2 for c in CASES.values())))
END
say "every warning comes just above its threshold, and not at it"
