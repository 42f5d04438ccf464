#!/usr/bin/python3
"""within.py - what a profile costs, by a program that is profiled in one mode, then in the other.

Two runs of a program differ by more than a profile may cost: other addresses, other pages, another
hour of a machine that is shared. Here one process does the same unit of work again and again, and
begins a profile in one mode or the other, in turn, every few units (numalloc_profile_start). What
disturbs a unit makes it longer, never shorter, so that low quantiles of the units' times are
compared. The interval is that of a bootstrap over pairs of stretches. Profiles take the first unit of
each stretch to settle; it is not counted.

Runs itself with the library preloaded, and PYTHONMALLOC=malloc."""
import argparse
import csv
import ctypes
import itertools
import json
import os
import random
import sqlite3
import sys
import tempfile
import time

QUANTILES = (0.10, 0.25, 0.50)


def die(why):
    print(f"within.py: {why}", file=sys.stderr)
    sys.exit(2)


def sqlite_work(inputs):
    with open(os.path.join(inputs, "records.csv"), encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:3001]

    with open(os.path.join(inputs, "queries.sql"), encoding="utf-8") as file:
        text = "".join(line for line in file if not line.startswith("."))  # those are the shell's
    before, table, queries = text.partition("CREATE TABLE word")

    def unit():
        base = sqlite3.connect(":memory:")
        base.executescript(before)
        base.executemany("INSERT INTO orders VALUES(?,?,?,?,?)", rows)
        for query in (table + queries).split(";"):
            base.execute(query).fetchall()
        base.close()
    return unit


def json_work(inputs):
    with open(os.path.join(inputs, "records.json"), encoding="utf-8") as file:
        lines = list(itertools.islice(file, 3000))
    return lambda: json.dumps([json.loads(line) for line in lines])


WORKS = {"sqlite": sqlite_work, "json": json_work}


class Profiles:
    def __init__(self, directory):
        library = ctypes.CDLL(None, use_errno=True)
        self.start_one, self.stop_one = library.numalloc_profile_start, library.numalloc_profile_stop
        self.start_one.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        self.directory = directory

    def start(self, mode):
        if self.start_one(mode.encode(), os.path.join(self.directory, "profile").encode()) != 0:
            die(f"no profile '{mode}': {os.strerror(ctypes.get_errno())}; give a mode as NUMALLOC_PROFILE takes it")

    def stop(self):
        self.stop_one()
        for name in os.listdir(self.directory):
            os.unlink(os.path.join(self.directory, name))


def stretch(profiles, mode, unit, units):
    profiles.start(mode)
    unit()
    times = []
    for _ in range(units):
        began = time.perf_counter()
        unit()
        times.append(time.perf_counter() - began)
    profiles.stop()
    return times


def quantile(stretches, share):
    times = sorted(t for times in stretches for t in times)
    return times[int(len(times) * share)]


def ratio(pairs, share):
    return quantile([p[1] for p in pairs], share) / quantile([p[0] for p in pairs], share)


def measure(args):
    unit = WORKS[args.work](args.inputs)
    pairs = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        profiles = Profiles(directory)
        for number in range(args.rounds):
            both = [None, None]
            for k in (0, 1) if number % 2 == 0 else (1, 0):
                both[k] = stretch(profiles, (args.base, args.mode)[k], unit, args.units)
            pairs.append(both)
            if sys.stdout.isatty():
                print(f"\r{number + 1} of {args.rounds}", end="\r", flush=True)
    draw = random.Random(1)
    for share in QUANTILES:
        drawn = sorted(ratio(draw.choices(pairs, k=len(pairs)), share) for _ in range(1000))
        print(f"{args.work:8} {args.mode} / {args.base}, quantile {share:.2f}: {ratio(pairs, share):.3f} "
              f"[{drawn[25]:.3f}, {drawn[975]:.3f}], {quantile([p[0] for p in pairs], share):.3f} s a unit")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libnumalloc.so")
    parser.add_argument("--inputs", required=True, help="directory with the inputs (inputs.py)")
    parser.add_argument("--work", choices=WORKS, default="sqlite")
    parser.add_argument("--base", default="sites", help="a mode, as NUMALLOC_PROFILE takes it")
    parser.add_argument("--mode", default="sites,access=watch", help="the other")
    parser.add_argument("--rounds", type=int, default=100, help="stretches in each mode")
    parser.add_argument("--units", type=int, default=5, help="units of work in a stretch")
    args = parser.parse_args()
    if args.rounds < 1 or args.units < 1:
        die("--rounds and --units take a number from 1 on")
    library = os.path.abspath(args.library)
    if not os.path.exists(library):
        die(f"no library '{args.library}'; build it, or name it with --library")
    for name in ("queries.sql", "records.csv", "records.json"):
        if not os.path.exists(os.path.join(args.inputs, name)):
            die(f"no {name} in '{args.inputs}'; inputs.py makes it")
    wanted = {"LD_PRELOAD": library, "PYTHONMALLOC": "malloc"}
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})
    measure(args)


main()
