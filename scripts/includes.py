#!/usr/bin/env python3
"""includes.py - holds the includes to the order of the rooms.

The sources are cut into rooms; ROOMS has them in the order of calls, the callers first. A file may
include files of its own room and of rooms below; never of a room above, nor of one beside (on the
same line of ROOMS). Folders of one room do not include each other in a circle. Trees of ALONE name
no other: the allocator's core nothing that stands above it. There are no exceptions.

A header may not hide a call that goes up either: what it declares is defined in its room or below.
With --build, compiled files (COMPILED) are held to that by their symbols.

A room with more than MOST files is a fault: cut it along the lines of what calls what.

usage: scripts/includes.py [--build DIRECTORY]
       scripts/includes.py --graph     how many includes go from room to room, which modules of a
                                       room include each other, and how large they are
Exit status 1 if there is a fault; each is one line."""
import collections
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOMS = [
    ["profiler/dump", "profiler/run", "profiler/instrument", "bench/trace"],
    ["profiler/dump/page"],
    ["profiler/dump/exports"],
    ["profiler/dump/fleet"],
    ["profiler/dump/runs"],
    ["profiler/dump/policy"],
    ["profiler/dump/views/summary", "profiler/dump/views/errors"],
    ["profiler/dump/views"],
    ["profiler/dump/accesses"],
    ["profiler/dump/profile"],
    ["profiler/dump/source"],
    ["profiler/api"],
    ["profiler/dump/symbols"],
    ["profiler/dump/ui"],
    ["profiler/analyze/policy"],
    ["profiler/analyze/accesses"],
    ["profiler/analyze/blocks"],
    ["profiler/control"],
    ["profiler/policy"],
    ["profiler/policy/bind"],
    ["profiler/policy/apply"],
    ["profiler/policy/rules"],
    ["profiler/guard", "profiler/leaks"],
    ["profiler/record"],
    ["profiler/record/sources/watch"],
    ["profiler/record/sources"],
    ["profiler/record/access"],
    ["profiler/record/events"],
    ["profiler/record/stacks"],
    ["profiler/record/python"],
    ["profiler/record/file"],
    ["profiler/record/state"],
    ["profiler/record/unwind"],
    ["profiler/format/reader"],
    ["profiler/format"],
    ["bench"],
    ["bench/compare"],
    ["bench/benchmarks"],
    ["bench/benchmarks/false_sharing", "bench/benchmarks/startup", "bench/replay"],
    ["bench/suite"],
    ["bench/measure"],
    ["bench/load"],
    ["bench/system"],
    ["alloc"],
    ["alloc/heaps/api"],
    ["alloc/api"],
    ["alloc/interpose"],
    ["alloc/heaps", "alloc/harden", "alloc/guard"],
    ["alloc/record"],
    ["alloc/limits", "alloc/options"],
    ["alloc/core/malloc"],
    ["alloc/core/thread"],
    ["alloc/core/cache"],
    ["alloc/core/path"],
    ["alloc/core/track"],
    ["alloc/core/central"],
    ["alloc/core/page"],
    ["pagemap"],
    ["alloc/core/machine"],
    ["alloc/core/sys"],
    ["profiler/containers", "profiler/json"],
]
# Trees that stand by themselves, and all that their files may include besides system headers.
CORE = ("alloc/", "pagemap/")
ALONE = {
    "alloc/core/": ("alloc/core/", "pagemap/", "numalloc/"),
    "alloc/": (*CORE, "numalloc/"),
    "pagemap/": ("alloc/core/", "pagemap/", "numalloc/"),
    "bench/": ("bench/", "numalloc/", "profiler/containers/", "profiler/json/", "profiler/format/",
               "alloc/options/nearest.h"),
}

# Targets and the folders that they are made in; and files of which trees are held to what they link.
LIBRARY = {"numalloc_core": "alloc", "numalloc_around": "alloc", "numalloc_interpose": "alloc"}
COMPILED = [
    (LIBRARY, CORE),
    ({**LIBRARY, "numalloc_record": "profiler/record", "numalloc_policy": "profiler/policy",
      "numalloc_control": "profiler/control"}, ("profiler/policy/", "profiler/control/")),
    ({"numalloc_bench_core": "bench"}, ("bench/",)),
]
MOST = 24

LEVEL = {room: level for level, line in enumerate(ROOMS) for room in line}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def room_of(path):
    folder = os.path.dirname(path)
    while folder and folder not in LEVEL:
        folder = os.path.dirname(folder)
    return folder or None


def read():
    """All includes of a file of a room by another, as (file, included)."""
    found = set()
    for room in LEVEL:
        for folder, _, names in os.walk(os.path.join(ROOT, room)):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                if not name.endswith((".c", ".h")) or room_of(path) != room:
                    continue
                with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    for included in INCLUDE.findall(file.read()):
                        if room_of(included) and os.path.exists(os.path.join(ROOT, included)):
                            found.add((path, included))
    return found


def named():
    """All includes by a tree of ALONE of what is not for it, as (file, included)."""
    found = set()
    for tree, may in ALONE.items():
        for folder, _, names in os.walk(os.path.join(ROOT, tree)):
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                if name.endswith((".c", ".h", ".def")):
                    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                        found |= {(path, i) for i in INCLUDE.findall(file.read()) if not i.startswith(may)}
    return found


def folders(edges):
    """Which folders each includes."""
    graph = collections.defaultdict(set)
    for path, included in edges:
        a, b = os.path.dirname(path), os.path.dirname(included)
        if a != b:
            graph[a].add(b)
    return graph


def direction(path, included):
    here, there = room_of(path), room_of(included)
    if here == there or LEVEL[there] > LEVEL[here]:
        return None
    return "beside" if LEVEL[there] == LEVEL[here] else "above"


def links(build, targets, held):
    """All uses by the targets' files of `held` of what another defines: {(user, definer): names}."""
    defined, used, sources = {}, {}, {}
    for target, top in targets.items():
        objects = os.path.join(build, top, "CMakeFiles", f"{target}.dir")
        for folder, _, names in os.walk(objects):
            for name in names:
                path = os.path.join(folder, name)
                source = os.path.relpath(path, objects)
                source = os.path.normpath(os.path.join(top, source.replace("__", "..")))[:-len(".o")]
                if name.endswith(".c.o") and os.path.exists(os.path.join(ROOT, source)):
                    sources[path] = source
    text = subprocess.check_output(["nm", "-A", *sorted(sources)], text=True) if sources else ""
    for line in text.splitlines():
        path, _, rest = line.partition(":")
        kind, symbol = rest.split()[-2:]
        if kind == "U":
            used.setdefault(sources[path], set()).add(symbol)
        elif kind.isupper():
            defined[symbol] = sources[path]
    found = collections.defaultdict(list)
    for source, symbols in used.items():
        for symbol in sorted(symbols & defined.keys()):
            if source.startswith(held) and room_of(source) and room_of(defined[symbol]):
                found[(source, defined[symbol])].append(symbol)
    return found


def modules(edges):
    """Which modules each includes: a module is a file and the header beside it."""
    graph = collections.defaultdict(set)
    for path, included in edges:
        a, b = os.path.splitext(path)[0], os.path.splitext(included)[0]
        if a != b:
            graph[a].add(b)
    return graph


def circles(graph):
    """Groups of modules that include each other (Tarjan)."""
    graph = collections.defaultdict(set, graph)
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = []
            while not group or group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(graph.copy()):
        if node not in index:
            visit(node)
    return found


def main():
    arguments = sys.argv[1:]
    build = arguments[1] if len(arguments) == 2 and arguments[0] == "--build" else None
    if arguments and build is None and arguments != ["--graph"]:
        sys.exit("usage: scripts/includes.py [--build DIRECTORY | --graph]")
    edges = read()
    if arguments == ["--graph"]:
        count = collections.Counter((room_of(a), room_of(b)) for a, b in edges)
        for (a, b), n in sorted(count.items(), key=lambda e: (LEVEL[e[0][0]], LEVEL[e[0][1]])):
            mark = " UP" if LEVEL[b] < LEVEL[a] else ""
            print(f"{a:29} -> {b:29} {n:4}{mark}")
        for group in circles(modules(e for e in edges if room_of(e[0]) == room_of(e[1]))):
            print("include each other:", " ".join(group))
        for title, tops in (("alloc/ and pagemap/", CORE),
                            ("the same with profiler/record/", (*CORE, "profiler/record/"))):
            graph = modules(e for e in edges if e[0].startswith(tops) and e[1].startswith(tops))
            groups = circles(graph)
            names = set(graph).union(*graph.values())
            print(f"{title}: {len(names)} modules, {sum(map(len, graph.values()))} includes from one to "
                  f"another, {sum(map(len, groups))} in circles, {max(map(len, groups))} in the largest")
        return 0
    faults = []
    for path, included in sorted(edges):
        way = direction(path, included)
        if way:
            faults.append(f"{path}: includes {included}, which is {way}")
    for path, included in sorted(named()):
        faults.append(f"{path}: includes {included}, which is of another tree")
    for group in circles(folders(edges)):
        faults.append(f"include each other: {' '.join(group)}")
    for room in LEVEL:
        files = [name for name in os.listdir(os.path.join(ROOT, room)) if name.endswith((".c", ".h"))]
        if len(files) > MOST:
            faults.append(f"{room}: has {len(files)} files, and {MOST} at most are to be in a room")
    for targets, held in COMPILED if build is not None else []:
        found = links(build, targets, held)
        if not found:
            sys.exit(f"scripts/includes.py: {build} has no compiled files of {', '.join(targets)}")
        for (path, definer), symbols in sorted(found.items()):
            way = direction(path, definer)
            if way:
                faults.append(f"{path}: uses {', '.join(symbols)} of {definer}, which is {way}")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


sys.exit(main())
