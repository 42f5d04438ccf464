#!/bin/bash
# dump_maps.sh LIBRARY NUMALLOC_DUMP - who mapped memory itself is named in every view where its memory is asked
# about, by function and line, and in the JSON of a profile with a stack that is there.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
cc -std=gnu17 -g -O1 -fno-builtin -Wall -Wextra "$test_source/maps_load.c" -o "$work/maps" || fail "the compiler does not build maps_load.c"
cat >"$work/buffers.py" <<'END'
import mmap
def big():
    return mmap.mmap(-1, 64 << 20)
def small():
    return mmap.mmap(-1, 16 << 20)
kept = [big(), small(), small()]
for of in kept:
    for at in range(0, len(of), 4096): of[at] = 1
END
for mode in sites trace; do
    NUMALLOC_PROFILE=$mode NUMALLOC_PROFILE_FILE="$work/maps.$mode" LD_PRELOAD="$lib" "$work/maps" || fail "maps_load.c in mode $mode"
    NUMALLOC_PROFILE=$mode NUMALLOC_PYTHON=1 PYTHONMALLOC=malloc NUMALLOC_PROFILE_FILE="$work/python.$mode" LD_PRELOAD="$lib" /usr/bin/python3 "$work/buffers.py" ||
        fail "buffers.py in mode $mode"
done
/usr/bin/python3 - "$dump" "$work" <<'END' || fail "what is mapped is not named"
import csv, io, json, re, subprocess, sys
dump, work = sys.argv[1:]
MIB = 1 << 20
def run(*arguments):
    return subprocess.run([dump, *arguments], cwd=work, check=True, capture_output=True, text=True).stdout
C = {"map_arena": (64, 4), "map_ring": (56, 2), "grow_break": (2, 1)}
PYTHON = {"big": (64, 1), "small": (32, 2)}
def line_of(file, text):
    return next(i for i, line in enumerate(open(file), 1) if text in line)
for mode in "sites", "trace":
    for profile, known in ("maps." + mode, C), ("python." + mode, PYTHON):
        # The whole profile: each mapping has a stack, whose functions are those that map.
        whole = json.loads(run("json", profile))
        stacks = {s["id"]: s for s in whole["stacks"]}
        def names(stack):
            while stack != 0:
                yield from (whole["functions"][f["function"]]["name"] for f in stacks[stack]["frames"])
                stack = stacks[stack]["parent"]
        found = {}
        for m in whole["mappings"]:
            assert m["stack"] == 0 or m["stack"] in stacks, (profile, m)
            for name in set(names(m["stack"])) & set(known) if m["call"] in ("mmap", "brk up") else ():
                mib, count = found.get(name, (0, 0))
                found[name] = mib + m["bytes"] / MIB, count + m["count"]
        assert found == known, (profile, found)
        # functions: JSON, CSV and text.
        rows = {r["function"]: r for r in json.loads(run("functions", profile, "--json", "--top", "0"))["rows"] if r["mappings"]}
        got = {name: (rows[name]["mapped_bytes"] / MIB, rows[name]["mappings"]) for name in known}
        assert got == known, (profile, got)
        rows = {r["function"]: r for r in csv.DictReader(io.StringIO(run("functions", profile, "--csv", "--top", "0")))}
        assert all(float(rows[name]["mapped_bytes"]) == mib * MIB for name, (mib, _) in known.items()), profile
        text = run("functions", profile)
        for name, (mib, count) in known.items():
            assert re.search(r"\n *%.1f MiB +%d  %s  " % (mib, count, name) if mib >= 10 else r"\n *%.2f MiB +%d  %s  " % (mib, count, name), text), (name, text)
        # summary: a line, and the functions in JSON.
        line = re.search("^mapped +.*$", run(profile), re.M).group(0)
        for name, (mib, count) in known.items():
            assert re.search(r"\b%s  \S+  [0-9.]+ MiB in %d call" % (name, count), line), line
        summary = {f["function"]: f.get("mapped_bytes", 0) for f in json.loads(run("summary", "--json", profile))["functions"]}
        assert all(summary[name] == mib * MIB for name, (mib, _) in known.items()), summary
        # warnings: it is why more is resident than was requested.
        (row,) = [r for r in json.loads(run("warnings", profile, "--json"))["rows"] if r["warning"] == "resident"]
        assert list(known)[0] in row["place"] and list(known)[1] in row["place"], row
    # source: the lines, of Python, too.
    source = work + "/buffers.py"
    lines = {(r["file"], r["line"]): r["mapped_bytes"] for r in json.loads(run("source", "python." + mode, "--json", "--top", "0"))["rows"] if r["mapped_bytes"]}
    for text, mib in ("64 << 20", 64), ("16 << 20", 32):
        assert lines[source, line_of(source, text)] == mib * MIB, lines
    text = run("source", "python." + mode, "--filter", "buffers.py")
    assert re.search(r" 64\.0 MiB +3  +return mmap", text) and re.search(r" 32\.0 MiB +5  +return mmap", text), text
    text = run("source", "maps." + mode)
    assert "mapped" in text and re.search(r" 2\.00 MiB +[0-9]+ .*sbrk", text), text
END
say "mappings are named in summary, functions, source, warnings and JSON, by Python line, too"
