"""agreement.py - do numalloc's allocations per function equal heaptrack's and DHAT's?

Usage: agreement.py NAME NUMALLOC.json EVENTS.csv HEAPTRACK.raw.zst DHAT.json LD_DEBUG_FILE

Three records of one deterministic program, each as sums by call stack, a stack as (module, offset of the return
address). A function is what one entry of .eh_frame covers, so that stripped programs have functions, too, and all
three the same ones. Compared are the allocations and bytes of every function, of stacks that it is the innermost frame of
(exclusive) and of stacks that it is anywhere on (inclusive). Every figure must be equal.

What the tools mean differently is made equal first, by these rules (docs/agreement.md says why):
  realloc   numalloc and heaptrack count a new block at realloc's caller. DHAT counts it, too, but at the stack where
            the block was first allocated. A trace knows both, so each tool is compared by its own rule.
  depth     heaptrack follows 64 frames, its own among them: stacks are cut a little below its longest.
  frames    left out: the tools' own libraries, operator new where the tool shows it as a frame, what lies below
            _start, and fgetc, putc and their like, which valgrind's walk steps over
  blocks    left out: those in NOT_THE_PROGRAMS below, and of modules that only one of the tools brings along.
"""
import bisect, collections, csv, functools, json, os, re, subprocess, sys

real = functools.cache(os.path.realpath)

class Functions:
    """Functions of a module: (start, end) from .eh_frame, names from its dynamic symbols."""
    def __init__(self, path):
        self.names = {}
        out = subprocess.run(["readelf", "--debug-dump=frames", "--wide", path], capture_output=True, text=True).stdout
        ranges = sorted({(int(a, 16), int(b, 16)) for a, b in re.findall(r" FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", out)})
        self.starts, self.ends = [r[0] for r in ranges], [r[1] for r in ranges]
        out = subprocess.run(["readelf", "--dyn-syms", "--wide", path], capture_output=True, text=True).stdout
        for line in out.splitlines():
            f = line.split()
            if len(f) == 8 and f[3] in ("FUNC", "IFUNC") and f[6] != "UND":
                self.names.setdefault(int(f[1], 16), f[7].split("@")[0])
    def of(self, offset):
        i = bisect.bisect_right(self.starts, offset - 1) - 1
        return self.starts[i] if i >= 0 and offset - 1 < self.ends[i] else None

functions = functools.cache(Functions)

@functools.cache
def function_of(frame):
    return (frame[0], functions(frame[0]).of(frame[1]))

@functools.cache
def name_of(function):
    path, start = function
    short = path.rsplit("/", 1)[-1]
    if start is None:
        return "?(%s)" % short
    return functions(path).names.get(start, "%s+%#x" % (short, start))

# Each reader: a list of (stack innermost first, allocations, bytes).

def read_numalloc(path, events):
    """Twice: blocks that realloc replaced or resized at realloc's caller, and at where the block was first allocated."""
    d = json.load(open(path))
    module = {m["id"]: (real(m["path"]), m["bias"]) for m in d["modules"]}
    stacks = {0: []}
    for s in d["stacks"]:
        where = module.get(s["module"])
        frame = (where[0], s["pc"] - where[1]) if where else ("?", s["pc"])
        stacks[s["id"]] = [frame] + stacks[s["parent"]]
    caller, origin = collections.defaultdict(lambda: [0, 0]), collections.defaultdict(lambda: [0, 0])
    first, coming, fresh = {}, {}, {} # by address: stack of origin; of blocks that realloc is about to make; and has made
    for e in csv.DictReader(open(events)):
        kind, address = e["kind"], e["address"]
        if e["size"]:
            stack, size = int(e["stack"]), int(e["size"])
            caller[stack][0] += 1
            caller[stack][1] += size
            at = first.get(address, stack) if kind == "resize" else coming.pop(address, stack)
            origin[at][0] += 1
            origin[at][1] += size
            first[address] = at
            if kind == "realloc":
                fresh[address] = size
        else:
            old = first.pop(address, None)
            new = e["moved_to"]
            if new and new in first and new in fresh: # the new block came first: it is charged to the old one's stack
                if old is not None:
                    for sums, sign in (origin[first[new]], -1), (origin[old], 1):
                        sums[0] += sign
                        sums[1] += sign * fresh[new]
                    first[new] = old
            elif new and old is not None:
                coming[new] = old
        if kind != "realloc":
            fresh.pop(address, None)
    return [[(stacks[s], *v) for s, v in sums.items() if v != [0, 0]] for sums in (caller, origin)]

def read_heaptrack(path):
    strings, traces, maps = [None], [None], []
    sums = collections.Counter(), collections.Counter()
    text = subprocess.run(["zstdcat", path] if path.endswith(".zst") else ["zcat", path], check=True, capture_output=True).stdout.decode()
    for line in text.splitlines():
        f = line.split(" ")
        if f[0] == "m" and f[2] != "-":
            maps.append((f[2], int(f[3], 16), [int(x, 16) for x in f[4:]]))
        elif f[0] == "t":
            traces.append((int(f[1], 16), int(f[2], 16)))
        elif f[0] == "+":
            index = int(f[2], 16)
            sums[0][index] += 1
            sums[1][index] += int(f[1], 16)
        elif f[0] == "x":
            program = f[2] if len(f) > 2 else f[1]
    ranges = []
    for name, base, parts in maps:
        path = real(program if name == "x" else name)
        for at in range(0, len(parts) - 1, 2):
            ranges.append((base + parts[at], base + parts[at] + parts[at + 1], path, base))
    ranges.sort()
    starts = [r[0] for r in ranges]
    def frame(ip):
        i = bisect.bisect_right(starts, ip) - 1
        if i >= 0 and ip < ranges[i][1]:
            return (ranges[i][2], ip - ranges[i][3])
        return ("?", ip)
    result = []
    for index, count in sums[0].items():
        stack, node = [], index
        while node:
            stack.append(frame(traces[node][0] + 1)) # it keeps the last byte of the call
            node = traces[node][1]
        stack = [f for f in stack if "/libheaptrack" not in f[0]]
        result.append((stack, count, sums[1][index]))
    return result

def read_dhat(path, program, ld_debug):
    """Valgrind names frames but not where modules lie; the linker's own record (LD_DEBUG=files) does, but for the
    linker and the program. Those two are where valgrind always puts them."""
    text = open(ld_debug, errors="replace").read()
    paths = {p.rsplit("/", 1)[-1]: p for p in re.findall(r"calling init: (/\S+)", text)}
    head = subprocess.run(["readelf", "-hl", "--wide", program], capture_output=True, text=True).stdout
    interpreter = re.search(r"interpreter: (\S+)\]", head).group(1)
    places = [(0 if "(Executable" in head else 0x108000, 0x3000000, real(program)), (0x4000000, 0x40000, real(interpreter))]
    for name, base, size in re.findall(r"file=(\S+) \[\d+\];\s+generating link map\n.*?base: 0x([0-9a-f]+)\s+size: 0x([0-9a-f]+)", text):
        places.append((int(base, 16), int(size, 16), real(paths.get(name.rsplit("/", 1)[-1], name))))
    places.sort()
    starts = [p[0] for p in places]
    d = json.load(open(path))
    assert d["dhatFileVersion"] == 2
    frames = []
    for entry in d["ftbl"]:
        m = re.match(r"0x([0-9A-F]+): ", entry)
        at = int(m.group(1), 16) + 1 if m else 0 # it shows the last byte of the call
        i = bisect.bisect_right(starts, at) - 1
        inside = m and "/vgpreload_" not in entry and i >= 0 and at < places[i][0] + places[i][1]
        frames.append((places[i][2], at - places[i][0]) if inside else None)
    result = []
    for point in d["pps"]:
        stack = [frames[i] for i in point["fs"] if frames[i] is not None]
        result.append((stack, point["tbk"], point["tb"]))
    return result

# (why, innermost named function, bytes of each block, function that the stack goes through or None)
NOT_THE_PROGRAMS = [
    ("exit handlers: the C library makes room for 32 at a time; each tool registers some of its own, so another one of the "
     "program's is the 33rd", "libc.so.6", 1040, None),
    ("gcc: tables of its garbage collector for address space that it has pages in; where the pages lie is up to the kernel",
     "xcalloc", 2064, "_Z18ggc_internal_allocmPFvPvEmm"),
    ("the same", "xcalloc", 32768, "_Z18ggc_internal_allocmPFvPvEmm"),
]

def left_out(names, size):
    for _, innermost, each, through in NOT_THE_PROGRAMS:
        if size == each and (names[0] == innermost or names[0].startswith(innermost + "+")) and (through is None or through in names):
            return True
    return False

def fold(records, known, depth):
    """Function -> (allocations, bytes), exclusive and inclusive; allocations that were left out."""
    exclusive, inclusive = collections.defaultdict(lambda: [0, 0]), collections.defaultdict(lambda: [0, 0])
    out = 0
    for stack, count, size in records:
        functions = [function_of(f) for f in stack]
        while functions and functions[-1][1] is None: # what valgrind shows below _start
            functions.pop()
        while functions and re.match(r"_Zn[aw]m", name_of(functions[0])):
            functions.pop(0)
        functions = [f for f in functions if not re.match(r"(_IO_)?f?(get|put)c$", name_of(f))]
        if not functions or functions[0][0] not in known or left_out([name_of(f) for f in functions], size / count):
            out += count
            continue
        functions = functions[:depth]
        for sums, of in (exclusive, functions[:1]), (inclusive, set(functions)):
            for function in of:
                sums[function][0] += count
                sums[function][1] += size
    return exclusive, inclusive, out

def compare(program, tool, ours, theirs, depth=None):
    """Number of functions whose figures differ."""
    modules_of = [{f[0] for stack, *_ in r for f in stack} for r in (ours, theirs)]
    known = modules_of[0] & modules_of[1]
    a, b = fold(ours, known, depth), fold(theirs, known, depth)
    differ = 0
    for kind in 0, 1:
        for f in sorted(set(a[kind]) | set(b[kind]), key=str):
            x, y = a[kind].get(f, [0, 0]), b[kind].get(f, [0, 0])
            if x != y:
                differ += 1
                print("%s: %s %s: %d allocations of %d bytes, %s has %d of %d" % (program, ("exclusive", "inclusive")[kind], name_of(f), *x, tool, *y))
    allocations, size = (sum(v[i] for v in a[0].values()) for i in (0, 1))
    print("%s: %s: %d functions that allocate and %d on stacks, %d allocations of %d bytes: %s; left out by rule: %d of ours, %d of theirs" %
          (program, tool, len(a[0]), len(a[1]), allocations, size, "all equal" if not differ else "%d differ" % differ, a[2], b[2]))
    if allocations < 1000 or a[2] > allocations / 100:
        print("%s: %s: too little is compared" % (program, tool))
        return differ + 1
    return differ

if __name__ == "__main__":
    name, profile, events, heaptrack, dhat, ld_debug = sys.argv[1:]
    by_caller, by_origin = read_numalloc(profile, events)
    theirs = read_heaptrack(heaptrack)
    # Its own frames are gone from some of its stacks, so that their length at its bound differs by a few.
    depth = max(len(r[0]) for r in theirs) - 4
    differ = compare(name, "heaptrack", by_caller, theirs, depth)
    differ += compare(name, "DHAT", by_origin, read_dhat(dhat, json.load(open(profile))["program"], ld_debug))
    sys.exit(differ != 0)
