#!/usr/bin/env python3
"""cores.py - numalloc-bench cores: loads under several allocators on a machine of many processors.

    cores.py [--loads LIST] [--threads LIST] [--nodes LIST] [--allocators LIST] [--seeds N]
             [--operations N] [--place pack|spread] [--cpus N] [--env NAME=VALUE]
             [--json] [--html FILE]
    cores.py --here [--loads LIST] [--allocators LIST]
    cores.py --run [--threads N] [--nodes N] [--cpus N] [--allocators A] [--seed N] [--env NAME=VALUE]
             [--words | --raw] -- PROGRAM ARGUMENT...

An allocator is numalloc, glibc, jemalloc, mimalloc, tcmalloc, or NAME=FILE. A figure is the median
over the seeds; --html draws them. --here says how far that is from this machine. --run runs any program on a machine for so many threads; --words tells the lines that
moved most, --raw all that was counted.
"""
import argparse
import bisect
import html
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import here

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))
PLACE = os.environ.get("NUMALLOC_CORES", os.path.join(ROOT, "build", "cores"))
LIBRARIES = "/usr/lib/x86_64-linux-gnu/"
KNOWN = {
    "numalloc": os.path.join(ROOT, "build", "release", "libnumalloc.so"),
    "glibc": "",
    "jemalloc": LIBRARIES + "libjemalloc.so.2",
    "mimalloc": LIBRARIES + "libmimalloc.so.2",
    "tcmalloc": LIBRARIES + "libtcmalloc_minimal.so.4",
}
# How many operations a thread does before and after the marks.
OPERATIONS = {"churn": 10000, "larson": 4000, "large": 100, "threads": 10}


class Fail(Exception):
    pass


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def tree(where, cpus, nodes):
    """/sys and /proc as the machine has them."""
    each = cpus // nodes
    system = f"{where}/sys/devices/system"
    every = f"0-{cpus - 1}" if cpus > 1 else "0"
    for name in ("online", "possible", "present"):
        write(f"{system}/cpu/{name}", every + "\n")
        write(f"{system}/node/{name}", (f"0-{nodes - 1}" if nodes > 1 else "0") + "\n")
    for name in ("has_cpu", "has_memory", "has_normal_memory"):
        write(f"{system}/node/{name}", (f"0-{nodes - 1}" if nodes > 1 else "0") + "\n")
    for node in range(nodes):
        own = range(node * each, (node + 1) * each)
        at = f"{system}/node/node{node}"
        write(f"{at}/cpulist", (f"{own[0]}-{own[-1]}" if each > 1 else f"{own[0]}") + "\n")
        bits = f"{sum(1 << cpu for cpu in own):0{(cpus + 31) // 32 * 8}x}"
        write(f"{at}/cpumap", ",".join(bits[i:i + 8] for i in range(0, len(bits), 8)) + "\n")
        write(f"{at}/distance", " ".join("10" if other == node else "20" for other in range(nodes)) + "\n")
        write(f"{at}/meminfo", f"Node {node} MemTotal:       33554432 kB\n"
                               f"Node {node} MemFree:        30000000 kB\n")
        for cpu in own:
            write(f"{system}/cpu/cpu{cpu}/online", "1\n")
            write(f"{system}/cpu/cpu{cpu}/topology/physical_package_id", f"{node}\n")
            write(f"{system}/cpu/cpu{cpu}/topology/core_id", f"{cpu}\n")
            os.symlink(f"../../node/node{node}", f"{system}/cpu/cpu{cpu}/node{node}")
            os.symlink(f"../../cpu/cpu{cpu}", f"{at}/cpu{cpu}")
    write(f"{where}/proc/cpuinfo", "".join(
        f"processor\t: {cpu}\nphysical id\t: {cpu // each}\ncpu MHz\t\t: 2500.000\n\n" for cpu in range(cpus)))
    # What a program asks for its processors and nodes.
    for whose in ("self", "thread-self"):
        write(f"{where}/proc/{whose}/status", f"Cpus_allowed_list:\t{every}\nMems_allowed:\t{(1 << nodes) - 1:08x}\n"
                                              f"Mems_allowed_list:\t" + (f"0-{nodes - 1}\n" if nodes > 1 else "0\n"))
    write(f"{where}/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n")
    # Who opens the root by name gets this tree.
    for name in os.listdir("/"):
        if not os.path.lexists(f"{where}/{name}"):
            os.symlink(f"/{name}", f"{where}/{name}")


class Machine:
    """The processors and nodes that programs see; made once for all runs."""

    def __init__(self, where, cpus, nodes, variables=()):
        self.cpus, self.nodes, self.variables = cpus, nodes, variables
        self.root = os.path.join(where, f"{cpus}-{nodes}")
        if not os.path.isdir(self.root):
            tree(self.root, cpus, nodes)
        self.out = os.path.join(where, "out.json")

    def run(self, preload, command, place="pack", seed=1, options=(), limit=600):
        if os.path.exists(self.out):
            os.unlink(self.out)
        plugin = ",".join([f"{PLACE}/cores.so", f"cpus={self.cpus}", f"nodes={self.nodes}",
                           f"place={place}", f"seed={seed}", f"out={self.out}", *options])
        # The same environment every time: its length moves the stack.
        environment = {"LC_ALL": "C", "PATH": "/usr/bin:/bin", "HOME": "/"}
        guest = [word for variable in self.variables for word in ("-E", variable)]
        if preload:
            guest += ["-E", f"LD_PRELOAD={preload}"]
        emulator = ["setarch", "-R", f"{PLACE}/out/qemu-x86_64", "-cpu", "max,-erms,-fsrm",
                    "-seed", "1", "-L", self.root, *guest, "-plugin", plugin, *command]
        try:
            done = subprocess.run(emulator, env=environment, timeout=limit, capture_output=True,
                                  text=True, check=False)
        except subprocess.TimeoutExpired:
            raise Fail(f"{' '.join(command)}: not done after {limit} s") from None
        if not os.path.exists(self.out):
            raise Fail(f"{' '.join(command)}: {done.stderr.strip()[-300:] or done.returncode}")
        with open(self.out, encoding="utf-8") as file:
            result = json.load(file)
        result["output"], result["errors"] = done.stdout, done.stderr
        return result


class Names:
    """Names of addresses: a symbol and a line of source, or the file and offset."""

    def __init__(self, maps):
        self.maps = sorted(maps)
        self.symbols = {}

    def _file(self, address):
        for begin, end, offset, path in self.maps:
            if begin <= address < end:
                base = min(b - o for b, _, o, p in self.maps if p == path)
                return path, address - base, address - begin + offset
        return None

    def data(self, address):
        found = self._file(address)
        if not found:
            return f"block at {address:#x}"
        path, place, _ = found
        if path not in self.symbols:
            listed = subprocess.run(["nm", "-S", "-n", path], capture_output=True, text=True, check=False)
            rows = [line.split() for line in listed.stdout.splitlines()]
            self.symbols[path] = [(int(row[0], 16), int(row[1], 16), row[3]) for row in rows if len(row) == 4]
        rows = self.symbols[path]
        index = bisect.bisect_right(rows, (place, 1 << 62, "")) - 1
        if index >= 0 and place < rows[index][0] + rows[index][1]:
            return f"{rows[index][2]}+{place - rows[index][0]:#x}"
        return f"{os.path.basename(path)}+{place:#x}"

    def code(self, address):
        found = self._file(address)
        if not found:
            return f"{address:#x}"
        path, place, _ = found
        told = subprocess.run(["addr2line", "-i", "-f", "-s", "-e", path, hex(place)], capture_output=True,
                              text=True, check=False).stdout.split("\n")
        if len(told) < 2 or told[0] == "??":
            return f"{os.path.basename(path)}+{place:#x}"
        line = told[1].split(" ")[0]
        return f"{told[0]} {line}" + "".join(f" < {name}" for name in told[2:-1:2])


def words(result):
    """The lines that moved most, and the places that had them in turn."""
    names = Names(result["maps"])
    done = result["operations"] or 1
    print(f"{result['lines_that_move']} lines moved")
    for line in result["lines"]:
        address = int(line["line"], 16)
        at = [i for i in range(8) if line["words"] >> i & 1]
        print(f"\n{line['moved'] / done:9.4f} an operation, {line['far']} far: "
              f"{names.data(address + 8 * at[0])} ({line['line']}, words {at})")
        for place, before, count in line["pairs"][:4]:
            print(f"    {count:8}  {names.code(int(place, 16))}  after  {names.code(int(before, 16))}")
    spent, calls = {}, {}
    for place, runs, cycles in result["blocks"]:
        name, _, offset = names.data(place).partition("+")
        spent[name] = spent.get(name, 0) + cycles
        if offset == "0x0":
            calls[name] = calls.get(name, 0) + runs
    print("\nCycles an operation, by function, and how often it is called:")
    for name, cycles in sorted(spent.items(), key=lambda item: -item[1])[:20]:
        print(f"    {cycles / done:9.2f} {calls.get(name, 0) / done:9.4f}  {name}")
    print("\nPlaces, over all lines:")
    for place, before, count in result["places"]:
        print(f"    {count / done:9.4f}  {names.code(int(place, 16))}  after  {names.code(int(before, 16))}")


def figures(result):
    done = result["operations"] or 1
    each = {name: result[name] / done for name in (
        "instructions", "busy", "waiting", "near", "far", "l3", "memory", "remote", "locked", "faults",
        "faulted")}
    each["calls"] = sum(result["calls"].values()) / done
    each["peak"] = result["peak"]
    each["named"] = {name: count / done for name, count in result["calls"].items()}
    return each


def median(rows):
    out = {}
    for name in rows[0]:
        if name == "named":
            out[name] = {call: statistics.median(row[name].get(call, 0) for row in rows)
                         for call in rows[0][name]}
        else:
            out[name] = statistics.median(row[name] for row in rows)
    return out


def allocators(text):
    out = {}
    for word in text.split(","):
        name, _, path = word.partition("=")
        if not path and name not in KNOWN:
            raise Fail(f"unknown allocator '{name}'; NAME=FILE names another")
        path = os.path.realpath(path) if path else KNOWN[name]
        if path and not os.path.exists(path):
            print(f"cores: {name} is not here: {path}", file=sys.stderr)
            continue
        out[name] = path
    return out


def machine_for(where, threads, nodes, options):
    """As many processors as asked for; else 8 a node or what the threads need."""
    cpus = options.cpus or max(threads, nodes * 8)
    return Machine(where, (cpus + nodes - 1) // nodes * nodes, nodes, options.env)


def measure(options, where):
    rows = []
    for load in options.loads.split(","):
        for nodes in map(int, options.nodes.split(",")):
            for threads in map(int, options.threads.split(",")):
                for name, path in allocators(options.allocators).items():
                    count = options.operations or OPERATIONS.get(load, 2000)
                    machine = machine_for(where, threads, nodes, options)
                    row = {"load": load, "threads": threads, "nodes": nodes, "allocator": name}
                    try:
                        runs = [figures(machine.run(path, [f"{PLACE}/load", load, str(threads), str(count)],
                                                    options.place, seed, options.cost, options.limit))
                                for seed in range(1, options.seeds + 1)]
                        row.update(median(runs))
                    except Fail as failure:
                        row["failed"] = str(failure)
                    rows.append(row)
                    print_row(row, sys.stderr if options.json else sys.stdout)
    return rows


HEAD = ("load", "threads", "nodes", "allocator", "busy", "waiting", "instr", "near", "far", "locked", "calls",
        "faults", "peak MiB")


def print_row(row, out):
    name = f"{row['load']:8} {row['threads']:7} {row['nodes']:5} {row['allocator']:10}"
    if "failed" in row:
        print(f"{name} {row['failed']}", file=out, flush=True)
        return
    print(f"{name} {row['busy']:8.1f} {row['waiting']:8.1f} {row['instructions']:7.1f} {row['near']:8.4f} "
          f"{row['far']:8.4f} {row['locked']:7.3f} {row['calls']:8.5f} {row['faults']:8.5f} "
          f"{row['peak'] / 2**20:8.1f}", file=out, flush=True)


COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#7f7f7f")


def curves(rows, title):
    """Busy cycles over threads as SVG, both by their logarithms; a line for each allocator."""
    rows = [row for row in rows if "failed" not in row]
    if not rows:
        return f"<p>{title}: nothing ended</p>"
    wide, high = math.log2(max(row["threads"] for row in rows)) or 1, [math.log2(row["busy"]) for row in rows]
    low, top = math.floor(min(high)), math.ceil(max(high)) + 1
    parts = [f'<svg width="560" height="340" font-family="sans-serif" font-size="12"><text x="50" y="15">{title}</text>']

    def place(threads, busy):
        return 50 + 380 * math.log2(threads) / wide, 310 - 280 * (math.log2(busy) - low) / (top - low)

    for power in range(low, top + 1):
        y = place(1, 2 ** power)[1]
        parts.append(f'<path d="M50 {y:.1f}h380" stroke="#ddd"/><text x="5" y="{y + 4:.1f}">{2 ** power:g}</text>')
    for threads in sorted({row["threads"] for row in rows}):
        parts.append(f'<text x="{place(threads, 1)[0] - 5:.1f}" y="330">{threads}</text>')
    for index, name in enumerate(dict.fromkeys(row["allocator"] for row in rows)):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (
            place(row["threads"], row["busy"]) for row in rows if row["allocator"] == name))
        color = COLORS[index % len(COLORS)]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>'
                     f'<text x="440" y="{30 + 16 * index}" fill="{color}">{html.escape(name)}</text>')
    return "".join(parts) + "</svg>"


def draw(rows, path):
    kinds = dict.fromkeys((row["load"], row["nodes"]) for row in rows)
    with open(path, "w", encoding="utf-8") as file:
        file.write('<!DOCTYPE html><meta charset="utf-8"><title>numalloc-bench cores</title>\n'
                   "<h1>Busy cycles of an operation, by threads</h1>\n")
        for load, nodes in kinds:
            file.write(curves([row for row in rows if (row["load"], row["nodes"]) == (load, nodes)],
                              f"{load}, {nodes} node{'s' if nodes != 1 else ''}") + "\n")


def main():
    parser = argparse.ArgumentParser(prog="numalloc-bench cores", description="loads on many processors")
    parser.add_argument("--loads", default="churn,larson,handoff,cold")
    parser.add_argument("--threads", default="1,2,8,16,64")
    parser.add_argument("--nodes", default="1,8")
    parser.add_argument("--cpus", type=int, default=0, help="8 a node, or as many as there are threads")
    parser.add_argument("--allocators", default="numalloc,glibc,jemalloc,mimalloc,tcmalloc")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--operations", type=int, default=0)
    parser.add_argument("--place", choices=("pack", "spread"), default="pack")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="of the programs")
    parser.add_argument("--cost", action="append", default=[], metavar="NAME=CYCLES")
    parser.add_argument("--limit", type=int, default=300, metavar="SECONDS")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--html", metavar="FILE")
    parser.add_argument("--words", action="store_true")
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--here", action="store_true", help="costs of this machine, and loads on it and emulated")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("command", nargs="*")
    options = parser.parse_args()
    if not os.access(f"{PLACE}/out/qemu-x86_64", os.X_OK):
        print("numalloc-bench cores: the emulator is not built: bench/cores/build.sh", file=sys.stderr)
        return 77
    where = tempfile.mkdtemp(prefix="numalloc-cores-")
    try:
        if options.run:
            threads, nodes = int(options.threads.split(",")[0]), int(options.nodes.split(",")[0])
            path = list(allocators(options.allocators).values())[0]
            result = machine_for(where, threads, nodes, options).run(
                path, [shutil.which(options.command[0]), *options.command[1:]], options.place, options.seed,
                options.cost, options.limit)
            sys.stdout.write(result["output"])
            sys.stderr.write(result["errors"])
            if options.raw:
                print(json.dumps({key: value for key, value in result.items() if key != "maps"}))
            elif options.words:
                words(result)
            else:
                print(json.dumps(figures(result), indent=1))
            return result["status"]
        if options.here:
            def emulated(load, threads, path, costs):
                machine = Machine(where, 2, 1)
                result = machine.run(path, [f"{PLACE}/load", load, str(threads), str(OPERATIONS.get(load, 2000))],
                                     options=[*costs, *options.cost], limit=options.limit)
                return figures(result)["busy"]
            here.compare(PLACE, options.loads.split(","), allocators(options.allocators), emulated, OPERATIONS)
            return 0
        if not options.json:
            widths = (-8, 7, 5, -10, 8, 8, 7, 8, 8, 7, 8, 8, 8)
            print(" ".join(f"{head:{'<' if width < 0 else '>'}{abs(width)}}" for head, width in zip(HEAD, widths)))
        rows = measure(options, where)
        if options.html:
            draw(rows, options.html)
        if options.json:
            print(json.dumps({"machine": "emulated (docs/cores.md)", "rounds": options.seeds, "rows": rows}))
        return 1 if any("failed" in row for row in rows) else 0
    finally:
        shutil.rmtree(where)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Fail as failure:
        print(f"numalloc-bench cores: {failure}", file=sys.stderr)
        sys.exit(1)
