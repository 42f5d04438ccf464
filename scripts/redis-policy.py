#!/usr/bin/env python3
"""What a policy gains redis-server: the figures and the picture of docs/case-redis.md.

    redis-policy.py LIBRARY POLICY [--rounds N] [--installed] [--svg FILE] [--background 0] [--lists]

Each round runs redis-server (as it is installed) without the policy and under it, one after the other,
and with --installed also without LIBRARY: it gets 200,000 strings and 6,666 hashes, the strings are
deleted, and nobody asks for anything for 12 seconds. LIBRARY runs with NUMALLOC_BACKGROUND=1, since an
idle server passes none of its slow paths; --background 0 is without that. --lists is other work: 6,666
lists in place of the hashes.

Prints a table in Markdown: of each figure the median, and the two runs between which the true median
lies with at least 95 % by order alone; and the same of what the policy makes of it in each round.
--svg draws resident memory over time, of the run whose last size is the median. A round takes half a
minute."""
import argparse
import math
import os
import subprocess
import sys
import tempfile
import threading
import time

LOAD = """for i=1,200000 do
    redis.call('set','k'..i,string.rep('x',60+i%120))
    if i%30==0 then redis.call('hset','h'..i,'a',string.rep('y',90+i%60)) end end"""
LISTS = LOAD.replace("'hset','h'..i,'a'", "'rpush','l'..i")
DELETE = "for i=1,200000 do redis.call('del','k'..i) end"
QUIET = 12  # seconds after the last command
STEP = 0.05  # seconds from look to look
FIGURES = [("resident, quiet", "KiB"), ("peak", "KiB"), ("load", "ms"), ("delete", "ms"), ("processor time", "ms")]
COLOURS = {"without": "#b3541e", "under the policy": "#1f6f8b", "as installed": "#777777"}


class Server:
    def __init__(self, env, work):
        self.socket = os.path.join(work, "redis.socket")
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", ""],
            env={**os.environ, **env}, cwd=work, stdout=subprocess.DEVNULL)
        self.curve, self.ended = [], threading.Event()
        while self.client("ping").wait() != 0:
            if self.process.poll() is not None:
                sys.exit("redis-server does not start")
            time.sleep(0.1)
        self.began = time.monotonic()

    def client(self, *words):
        return subprocess.Popen(["redis-cli", "-s", self.socket, *words],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def status(self, name):
        with open("/proc/%d/status" % self.process.pid) as file:
            return next(int(line.split()[1]) for line in file if line.startswith(name + ":"))

    def watch(self):
        while not self.ended.wait(STEP):
            self.curve.append((time.monotonic() - self.began, self.status("VmRSS")))

    def ask(self, script):
        """Milliseconds until it is answered."""
        began = time.monotonic()
        status = self.client("eval", script, "0").wait()
        if status != 0:
            sys.exit("redis-cli: status %d" % status)
        return (time.monotonic() - began) * 1000


def run(env, script):
    """The figures, and the curve."""
    with tempfile.TemporaryDirectory() as work:
        server = Server(env, work)
        watcher = threading.Thread(target=server.watch)
        watcher.start()
        load, delete = server.ask(script), server.ask(DELETE)
        time.sleep(QUIET)
        with open("/proc/%d/stat" % server.process.pid) as file:
            ticks = sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
        found = [server.status("VmRSS"), server.status("VmHWM"), load, delete,
                 ticks * 1000 / os.sysconf("SC_CLK_TCK")]
        server.ended.set()
        watcher.join()
        server.client("shutdown", "nosave").wait()
        server.process.wait()
        return found, server.curve


def median(values):
    """The median, and the least and most values between which the true one lies with 95 %."""
    values, count = sorted(values), len(values)
    rank, outside = 0, 0.0
    while rank < count // 2 and outside + 2 * math.comb(count, rank) / 2**count <= 0.05:
        outside += 2 * math.comb(count, rank) / 2**count
        rank += 1
    if rank == 0:
        sys.exit("fewer than 6 rounds have no interval")
    middle = (values[count // 2] + values[(count - 1) // 2]) / 2
    return middle, values[rank - 1], values[count - rank], rank, 1 - outside


def table(runs, names, rounds):
    _, _, _, rank, surely = median(range(rounds))
    print("%d rounds; intervals from the %s to the %s of them in order: %.1f %%\n" % (
        rounds, *("%d." % place for place in (rank, rounds + 1 - rank)), surely * 100))
    print("| | %s | policy / without |" % " | ".join(names))
    print("|---|%s" % ("---|" * (len(names) + 1)))
    for at, (figure, unit) in enumerate(FIGURES):
        cells = ["{:,.0f} {} ({:,.0f} to {:,.0f})".format(*(value for part in (
            (found[0], unit), found[1:3]) for value in part))
                 for found in (median([one[0][at] for one in runs[name]]) for name in names)]
        ratios = [under[0][at] / without[0][at] for without, under in zip(runs["without"], runs["under the policy"])]
        print("| %s | %s | %.3f (%.3f to %.3f) |" % (figure, " | ".join(cells), *median(ratios)[:3]))


def picture(runs, names, path):
    curves = {}
    for name in names:
        ordered = sorted(runs[name], key=lambda one: one[0][0])
        curves[name] = ordered[(len(ordered) - 1) // 2][1]
    seconds = min(curve[-1][0] for curve in curves.values())
    most = max(size for curve in curves.values() for _, size in curve) / 1024
    left, right, top, bottom = 52, 590, 24, 260

    def x(second):
        return left + second / seconds * (right - left)

    def y(mib):
        return bottom - mib / most * (bottom - top)

    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 300" font-family="sans-serif" font-size="12">',
           '<rect width="720" height="300" fill="#ffffff"/>']
    for mib in range(0, int(most) + 1, 10):
        out.append('<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#dddddd"/>'
                   '<text x="%d" y="%.1f" text-anchor="end" fill="#333333">%d</text>' % (
                       left, y(mib), right, y(mib), left - 6, y(mib) + 4, mib))
    for second in range(0, int(seconds) + 1, 2):
        out.append('<text x="%.1f" y="276" text-anchor="middle" fill="#333333">%d</text>' % (x(second), second))
    out.append('<text x="321.0" y="294" text-anchor="middle" fill="#333333">seconds</text>')
    out.append('<text x="4" y="12" fill="#333333">MiB resident</text>')
    labels = []
    for name, curve in curves.items():
        curve = [point for point in curve if point[0] <= seconds]
        # A point where the size has changed, and the one before it.
        points = [point for at, point in enumerate(curve) if at in (0, len(curve) - 1)
                  or abs(point[1] - curve[at - 1][1]) > 100 or abs(point[1] - curve[at + 1][1]) > 100]
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>' % (
            " ".join("%.1f,%.1f" % (x(second), y(size / 1024)) for second, size in points), COLOURS[name]))
        label = y(curve[-1][1] / 1024) + 4
        while any(abs(label - other) < 14 for other in labels):
            label += 1
        labels.append(label)
        out.append('<text x="%d" y="%.1f" fill="%s">%s</text>' % (right + 6, label, COLOURS[name], name))
    out.append("</svg>")
    with open(path, "w") as file:
        file.write("\n".join(out) + "\n")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("library")
    options.add_argument("policy")
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--installed", action="store_true", help="also without the library")
    options.add_argument("--svg")
    options.add_argument("--background", choices="01", default="1")
    options.add_argument("--lists", action="store_true")
    options = options.parse_args()
    for path in options.library, options.policy:
        if not os.path.isfile(path):
            sys.exit("there is no file %s" % path)
    for name in [n for n in os.environ if n.startswith(("NUMALLOC", "LD_PRELOAD"))]:
        del os.environ[name]
    ours = {"LD_PRELOAD": os.path.abspath(options.library), "NUMALLOC_BACKGROUND": options.background}
    ways = {"without": ours, "under the policy": {**ours, "NUMALLOC_POLICY": os.path.abspath(options.policy)}}
    if options.installed:
        ways["as installed"] = {}
    names = list(ways)
    runs = {name: [] for name in names}
    for each in range(options.rounds):
        first = each % len(names)
        for name in names[first:] + names[:first]:
            runs[name].append(run(ways[name], LISTS if options.lists else LOAD))
    table(runs, names, options.rounds)
    if options.svg:
        picture(runs, names, options.svg)


main()
