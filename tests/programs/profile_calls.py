# profile_calls.py PREFIX - PREFIX.own (the program's own figures), .json, .csv, .txt, .html, .whole
# (numalloc-dump's) agree. Exit status 3: times are such that the run may have been disturbed.
import base64, csv, json, re, statistics, sys, zlib

prefix = sys.argv[1]
rows = {r["name"]: r for r in json.load(open(prefix + ".json"))["rows"]}
own = {}
for line in open(prefix + ".own"):
    role, call, calls, ns = line.split()
    own[role, call] = int(calls), int(ns) / 1e6

EACH = 1 / (1 - 2.718281828459045 ** (-1 / 64))  # one call in so many is drawn


def problem(text):
    sys.exit(f"profile_calls.py: {text}")


def disturbed(text):
    print(f"profile_calls.py: {text}", file=sys.stderr)
    sys.exit(3)


# Counts are exact; none but those for large blocks is always timed, the others as often as drawn.
drawn = {}
for (role, call), (calls, _) in own.items():
    row = rows.get(role) or problem(f"no thread {role}")
    if row[call + "_calls"] != calls:
        problem(f"{role}: {row[call + '_calls']} calls of {call}, made {calls}")
    if row[call + "_ms"] is None:
        problem(f"{role}: no time of {call}")
    timed = row[call + "_timed"]
    if role.startswith("large"):
        if timed < calls - 1:  # the thread's first call is not timed
            problem(f"{role}: {timed} of {calls} calls timed")
        continue
    n, of = drawn.get(call, (0, 0))
    drawn[call] = n + timed, of + calls
for call, (timed, calls) in drawn.items():
    expected, p = calls / EACH, 1 / EACH
    if abs(timed - expected) > 6 * (calls * p * (1 - p)) ** 0.5:
        problem(f"{call}: {timed} of {calls} calls timed, {expected:.0f} expected")


# The middle thread of each kind: estimate and own figure, ms for each call.
def middle(kind, call):
    roles = [role for role, c in own if c == call and role.startswith(kind)]
    if len(roles) != 7:
        problem(f"{len(roles)} threads of {kind}")
    ours = statistics.median(rows[r][call + "_ms"] / own[r, call][0] for r in roles)
    theirs = statistics.median(own[r, call][1] / own[r, call][0] for r in roles)
    print(f"profile_calls.py: {kind:8} {call:8} {ours * 1e6:9.1f} ns a call, program's own {theirs * 1e6:9.1f}")
    return ours, theirs


figures = {(kind, call): middle(kind, call) for kind, call in
           (("small", "malloc"), ("small", "free"), ("middle", "calloc"), ("growing", "realloc"),
            ("large", "calloc"), ("others", "aligned"), ("others", "new"), ("others", "realloc"))}
for (kind, call), (ours, theirs) in figures.items():
    if ours > 1.5 * theirs:  # some of a hundred drawn calls may have been interrupted
        disturbed(f"{kind}: {call} is estimated longer than it took with everything")
# Most of what a small call takes is the profiler's, which does not count ...
for kind, call in ("small", "malloc"), ("others", "new"), ("others", "aligned"), ("others", "realloc"):
    if figures[kind, call][0] > 0.5 * figures[kind, call][1]:
        problem(f"{kind}: the profiler's own time counts as {call}'s")
# ... and of one that clears or copies much, the clearing and copying, which does (where the program's
# own figure has no interruption).
for kind, call, share in ("middle", "calloc", 0.3), ("growing", "realloc", 0.3), ("large", "calloc", 0.5):
    if figures[kind, call][0] < share * figures[kind, call][1]:
        disturbed(f"{kind}: {call} is estimated at less than a share of {share} of the program's own figure")
order = [figures["small", "free"][0], figures["middle", "calloc"][0], figures["large", "calloc"][0]]
if not (order[0] * 5 < order[1] and order[1] * 5 < order[2]):
    disturbed(f"freeing, clearing 32 KiB, clearing 1 MiB take {order} ms a call")

# The thread's sum is that of its entry points, and its interval is there.
for role, row in rows.items():
    if row["time_ms"] is None:
        continue
    parts = [row[k] for k in row if k.endswith("_ms") and k not in ("start_ms", "end_ms", "time_ms") and row[k] is not None]
    if abs(sum(parts) - row["time_ms"]) > 1e-6 * row["time_ms"] + 1e-9:
        problem(f"{role}: {row['time_ms']} ms in all, but {parts}")
if not all(0 < rows[f"small-{i}"]["malloc_error"] < 10 for i in range(7)):
    problem("no interval of what malloc took")

# CSV, text, the page and the whole JSON have the same figures.
for row in csv.DictReader(open(prefix + ".csv")):
    for key in "malloc_calls", "free_timed", "calloc_ms":
        same = rows[row["name"]][key]
        if (row[key] == "") != (same is None) or (row[key] and abs(float(row[key]) - same) > 1e-4 * abs(same)):
            problem(f"CSV: {row['name']} {key} is {row[key]}, not {same}")
text = open(prefix + ".txt").read()
if not re.search(r"^ *\d+ +large-3 +calloc +200 +(199|200) ", text, re.M) or "in the allocator" not in text:
    problem("the text lacks the calls of large-3")
data = re.search(r'id="data"[^>]*>([^<]*)<', open(prefix + ".html").read()).group(1)
page = json.loads(zlib.decompress(base64.b64decode(data)))
names = page["threads"]["name"]
on_page = {(names[i], call): (calls, timed, ms) for i, call, calls, timed, ms, _ in page["thread_calls"]}
whole = json.load(open(prefix + ".whole"))
ids = {t["id"]: t["name"] for t in whole["threads"]}
details = {ids[d["id"]]: d for d in whole["thread_details"]}
for (role, call) in own:
    row = rows[role]
    calls, timed, ms = on_page[role, call]
    if (calls, timed) != (row[call + "_calls"], row[call + "_timed"]) or abs(ms - row[call + "_ms"]) > 1e-4 * ms:
        problem(f"the page has {on_page[role, call]} of {role} {call}")
    if details[role]["calls"][call] != calls or abs(details[role]["time"][call]["ms"] - ms) > 1e-4 * ms:
        problem(f"the JSON of the whole has {details[role]} of {role} {call}")

# How deep stacks are: 41 of one function, what it calls, and what called it; over all allocations.
parent = {s["id"]: s["parent"] for s in whole["stacks"]}
def depth(stack):
    frames = 0
    while stack:
        stack, frames = parent[stack], frames + 1
    return frames
depths = [(depth(s["stack"]), s["allocations"]) for s in whole["sites"] if s.get("allocations")]
mean = sum(d * n for d, n in depths) / sum(n for _, n in depths)
said = whole["stack_depth"]
if said["max"] != max(d for d, _ in depths) or abs(said["mean"] - mean) > 0.001 or said["max"] < 43:
    problem(f"stacks are said to be {said}, but are {mean:.3f} frames on average, {max(depths)[0]} at most")
