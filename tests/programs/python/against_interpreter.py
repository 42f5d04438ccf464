"""Holds a profile against what the interpreter said of its own stacks (script_points.py).

usage: against_interpreter.py NUMALLOC-DUMP PROFILE NOTES LEAST [without-faulthandler]. PROFILE has
mode sites or trace. At each stack that sys._current_frames() named (functions, files, lines, all the
way out, less those of importlib inside of others) the profile must have as many bytes as the points there made, to the byte, and none where
there was no point. Of the native frames inside of the innermost Python one none may be a call of the
evaluation function, as it would be if frames were given to other calls than ran them. faulthandler
must have said the same. Prints one line; exit status 1 if they differ, or there are fewer than LEAST
points, or faulthandler was asked at less than an eighth of them."""
import collections
import json
import subprocess
import sys

dump, profile, least = sys.argv[1], sys.argv[2], int(sys.argv[4])
without = sys.argv[5:] == ["without-faulthandler"]
points = json.load(open(sys.argv[3]))
LARGE = min(p[0] for p in points)

rows = subprocess.run([dump, "sites", profile, "--json", "--stacks", "--filter", "^point$", "--sort", "size_min", "--top",
                       str(4 * len(points))], stdout=subprocess.PIPE, check=True).stdout
sites = [s for s in json.loads(rows)["rows"] if s["size_min"] >= LARGE and s["function"] == "point"]


def show(stack):
    for frame in stack[:20]: print("    %s %s:%d" % frame)


def to_stack(frames):
    return tuple(tuple(frame) for frame in frames)


def folded(stack):
    return tuple(f for f in stack[:-1] if not f[1].startswith("<frozen importlib._bootstrap")) + stack[-1:]


wanted, there, by_faulthandler, wrong = collections.Counter(), collections.Counter(), 0, 0
for size, by_sys, by_fault in points:
    stack = to_stack(by_sys)
    wanted[folded(stack)] += size
    if by_fault is None: continue
    by_faulthandler += 1
    # It knows no qualified names, and tells at most 100 frames: from 3.12 on of the interpreter's
    # own, too (at most as many), of which it names those that clean up after __init__. From 3.13.18
    # on it finds none outside of these.
    plain = tuple((name.split(".")[-1], file, line) for name, file, line in stack)
    fault = tuple(f for f in to_stack(by_fault) if f[1:] != ("__init__", 0))
    cut = len(fault) >= 50
    if fault[-1][0] == "<invalid frame>": cut, fault = True, fault[:-1]
    if plain == fault or (cut and plain[:len(fault)] == fault): continue
    wrong += 1
    print("by sys, and by faulthandler:")
    show(stack)
    show(to_stack(by_fault))
for site in sites:
    names = [f["function"] for f in site["stack"]]
    python = names.index("point")  # inside of it: native frames
    there[tuple((f["function"], f["file"], f.get("line", 0)) for f in site["stack"][python:])] += site["total_bytes"]
    if not any("EvalFrame" in name for name in names[:python]): continue
    wrong += 1
    if wrong < 5: print("\n    ".join(["a call is left over:"] + names[:20]))
for stack in (wanted - there) + (there - wanted):
    wrong += 1
    if wrong > 4: continue
    print(f"{there[stack]} bytes in the profile, {wanted[stack]} at points")
    show(stack)
print(f"{len(points)} points, {sum(len(p[1]) for p in points)} frames, {len(wanted)} stacks, "
      f"{by_faulthandler} by faulthandler too: {wrong} differ")
sys.exit(1 if wrong or len(points) < least or (by_faulthandler < least / 8 and not without) else 0)
