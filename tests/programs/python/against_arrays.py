"""Holds the arrays of script_numpy.py against its profile (mode trace).

usage: against_arrays.py NUMALLOC-DUMP PROFILE EXPECTED. At each line the blocks of 4096 bytes and more that
live at the end come to what the arrays say that were made there, to the byte: views to nothing."""
import collections
import csv
import json
import subprocess
import sys

dump, profile, expected = sys.argv[1:]
wanted = json.load(open(expected))
LEAST = 4096


def read(*args):
    return subprocess.run([dump, *args], stdout=subprocess.PIPE, check=True, text=True).stdout


live = {}
for row in csv.DictReader(read("events", profile, "--csv", "--top", "0", "--python", "--native").splitlines()):
    kind, address, size = row["kind"], row["address"], row["size"]
    if kind in ("free", "delete", "delete[]", "realloc (moved)"):
        live.pop(address, None)
        continue
    if size == "1234600":
        break
    live[address] = (int(size), int(row["stack"] or 0))
else:
    sys.exit("the last block is not in the profile")

whole = json.loads(read("json", profile, "--python", "--native"))
tree = {s["id"]: s for s in whole["stacks"]}


def line_of(node):
    """The innermost frame of the script, but for keep's."""
    while node:
        for f in tree[node]["frames"]:
            function = whole["functions"][f["function"]]
            file = f.get("file", function["file"]) or ""
            if file.endswith("script_numpy.py") and function["name"] != "keep":
                return f["line"]
        node = tree[node]["parent"]
    return 0


found = collections.Counter()
for size, stack in live.values():
    if size >= LEAST:
        found[line_of(stack)] += size
lines = {int(line): size for line, size in wanted["lines"].items()}
owners = [line for line in lines if lines[line]]
views = [line for line in lines if not lines[line]]
assert len(owners) >= 10 and len(views) >= 4, lines
wrong = {line: (found[line], size) for line, size in lines.items() if found[line] != size}
assert not wrong, "by line, found and made: %s" % wrong
print("%d bytes of arrays and copies at %d lines, nothing at %d lines with views" %
      (sum(lines.values()), len(owners), len(views)))
