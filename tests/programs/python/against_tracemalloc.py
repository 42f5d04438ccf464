"""Holds a profile (mode trace) against what tracemalloc knew at the same moment.

usage: against_tracemalloc.py NUMALLOC-DUMP PROFILE TRACES FRAMES

Compared are the blocks that live then and are larger than 512 bytes: smaller ones may come from one
of CPython's free lists, and tracemalloc then knows them by who took them last. Every block that
tracemalloc knows must be in the profile, with the same stack. Where the interpreter's functions
have names, the reverse, too: every block that was allocated by way of tracemalloc, but for its own.
Prints one line; exit status 1 if they differ."""
import collections
import json
import marshal
import subprocess
import sys

LEAST = int(sys.argv[5]) if len(sys.argv) > 5 else 512
dump, profile, traces, depth = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])


def read(*args):
    return subprocess.run([dump, *args], stdout=subprocess.PIPE, check=True).stdout


live = {}
marked = False
events = subprocess.Popen([dump, "events", profile, "--csv", "--top", "0", "--python", "--native"],
                          stdout=subprocess.PIPE, text=True)
next(events.stdout)
for line in events.stdout:
    _, _, _, kind, address, size, _, stack, _, _, _ = line.split(",")
    if kind in ("free", "delete", "delete[]", "realloc (moved)"):
        live.pop(address, None)
        continue
    live[address] = (int(size), int(stack or 0))
    if size == "1234600":
        marked = True
        break
events.kill()  # what came later is not asked for
if not marked:
    sys.exit("the mark is not in the profile")

whole = json.loads(read("json", profile, "--python", "--native"))
functions = whole["functions"]
tree = {s["id"]: s for s in whole["stacks"]}
known = {}


def stack_of(node):
    """Python frames, innermost first, and the names of the native ones inside of them."""
    if node in known:
        return known[node]
    python, native, at = [], [], node
    while at:
        for f in tree[at]["frames"]:
            function = functions[f["function"]]
            if function["module"] == "[python]":
                python.append((f.get("file", function["file"]), f.get("line", 0)))
            elif not python:
                native.append(function["name"])
        at = tree[at]["parent"]
    known[node] = tuple(python), native
    return known[node]


OWN = ("traceback_new", "hashtable", "tracemalloc_get_traces", "traceback_hash", "tracemalloc_start")
ours, seen = collections.Counter(), collections.Counter()
reused = set()  # sizes of frame objects: up to 3.10 each code keeps one for its next call
named = False
for size, stack in live.values():
    if size <= LEAST or not stack:
        continue
    python, native = stack_of(stack)
    if any("PyFrame_New" in n for n in native):
        reused.add(size)
    ours[size, python[:depth]] += 1
    if any("tracemalloc" in n for n in native):
        named = True
        if not any(own in n for n in native[:6] for own in OWN):
            seen[size, python[:depth]] += 1
theirs = collections.Counter()
for _, size, frames, *_ in marshal.load(open(traces, "rb")):
    if size <= LEAST:
        continue
    stack = tuple((f, line) for f, line in frames)
    theirs[size, stack] += 1
without = sum(n for (_, s), n in theirs.items() if not s or s[0] == ("<unknown>", 0))
for key in [k for k in theirs if not k[1] or k[1][0] == ("<unknown>", 0)]:
    del theirs[key]
for counter in (ours, seen):
    for key in [k for k in counter if not k[1]]:
        del counter[key]
for counter in (seen, theirs):
    for key in [k for k in counter if k[0] in reused]:
        del counter[key]
missing = theirs - ours
# Where frame objects are kept for the next call, tracemalloc knows them by that.
extra = seen - theirs if named and not reused else collections.Counter()
print(f"{sum(theirs.values())} blocks, {sum(s * n for (s, _), n in theirs.items())} bytes, "
      f"{len(theirs)} stacks of up to {depth}: {sum(missing.values())} are not in the profile, "
      f"{sum(extra.values()) if named else '?'} only there")
for what, counter in (("missing", missing), ("extra", extra)):
    for (size, stack), n in list(counter.items())[:4]:
        print(f"{what}: {n} of {size}")
        for frame in stack[:6]:
            print("    %s:%s" % frame)
        if what == "missing":
            for (s2, k2) in ours:
                if s2 == size:
                    print("  there is:", k2[:6])
sys.exit(1 if missing or extra else 0)
