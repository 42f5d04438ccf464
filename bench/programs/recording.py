#!/usr/bin/python3
"""recording.py - what it costs real programs to be profiled.

Runs each program without a profile (or in another mode, --base) and in each mode, in turn and in
alternating order, and prints each mode's cost relative to that: wall time, processor time of all
processes, size of the files written. The figure of a round is the ratio of its two runs; the median
is taken over the rounds, and its 95 % interval is that of the sign test, so that few rounds have
none.
"""
import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# What NUMALLOC_PROFILE is, and what else is set.
MODES = {
    "plain": None,
    "sample": ("sample", {}),
    "sites": ("sites", {}),
    "trace": ("trace", {}),
    "trace-nostacks": ("trace", {"NUMALLOC_TRACE_STACKS": "none"}),
    "watch": ("sites,access=watch", {}),
    "watch-10ms": ("sites,access=watch", {"NUMALLOC_ACCESS_PERIOD": "10000"}),
    "watch-5ms": ("sites,access=watch", {"NUMALLOC_ACCESS_PERIOD": "5000"}),
    "heaptrack": None,
    "heaptrack-compressed": None,
    "heaptrack-raw": None,
}
# heaptrack resolves and compresses while the program runs; `heaptrack --raw` compresses only (what it resolves
# later is not counted then); and the library that its script puts into the program may write without either.
HEAPTRACK = "/usr/lib/heaptrack/libheaptrack_preload.so"


def programs(inputs):
    """Name -> (command, directory, environment). No shells or drivers, which would have profiles of their own."""
    cc1plus = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True).stdout.strip() \
        if shutil.which("g++") else "cc1plus"
    multiarch = subprocess.run(["g++", "-print-multiarch"], capture_output=True, text=True).stdout.strip() \
        if shutil.which("g++") else ""
    python = ["/usr/bin/python3", "-s", "-S", "-P", HERE + "/python_load.py", inputs]
    return {
        "gcc": ([cc1plus, "-quiet", "-imultiarch", multiarch, "-D_GNU_SOURCE", "-std=c++17", "-O2",
                 inputs + "/large.cpp", "-o", "/dev/null"], inputs, {}),
        "python": (python, inputs, {"PYTHONHASHSEED": "0"}),
        "python-malloc": (python, inputs, {"PYTHONHASHSEED": "0", "PYTHONMALLOC": "malloc"}),
        "sqlite": (["sqlite3", "-batch", "-init", "queries.sql", ":memory:", ".quit"], inputs, {}),
    }


def die(text):
    print("recording.py: " + text, file=sys.stderr)
    sys.exit(2)


def run(program, mode, library, directory):
    """One run: wall seconds, processor seconds, bytes of the files written."""
    command, where, extra = program
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMALLOC_")}
    environment.update(extra)
    if mode == "heaptrack":
        command = ["heaptrack", "-o", directory + "/heaptrack"] + command
    elif mode == "heaptrack-compressed":
        command = ["heaptrack", "--raw", "-o", directory + "/heaptrack"] + command
    elif mode == "heaptrack-raw":
        environment["LD_PRELOAD"] = HEAPTRACK
        environment["DUMP_HEAPTRACK_OUTPUT"] = directory + "/heaptrack.raw"
    else:
        environment["LD_PRELOAD"] = library
        if MODES[mode]:
            environment["NUMALLOC_PROFILE"] = MODES[mode][0]
            environment["NUMALLOC_PROFILE_FILE"] = directory + "/%e.%p.nprof"
            environment.update(MODES[mode][1])
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    result = subprocess.run(command, cwd=where, env=environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wall = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    files = [os.path.join(directory, name) for name in os.listdir(directory)]
    written = sum(os.path.getsize(file) for file in files)
    for file in files:
        os.remove(file)
    if result.returncode != 0:
        raise RuntimeError("status %d: %s" % (result.returncode, result.stderr.strip().replace("\n", " ")[-300:]))
    if mode != "plain" and not files:
        raise RuntimeError("no file was written: " + result.stderr.strip()[-300:])
    processor = sum(getattr(after, f) - getattr(before, f) for f in ("ru_utime", "ru_stime"))
    return wall, processor, written


def interval(ratios):
    """The narrowest interval of two of the ratios that holds the median with 95 %, or None."""
    ordered, n = sorted(ratios), len(ratios)
    chance, term = 0.0, 0.5 ** n
    lowest = 0
    for k in range(n):
        chance += term
        if 2 * chance > 0.05:
            break
        lowest = k + 1
        term = term * (n - k) / (k + 1)
    return None if lowest == 0 else (ordered[lowest - 1], ordered[n - lowest])


def described(ratios):
    bounds = interval(ratios)
    return "%.3f" % statistics.median(ratios) + (" [%.3f, %.3f]" % bounds if bounds else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].split(" - ")[1],
                                     epilog="modes: " + ", ".join(MODES))
    parser.add_argument("--library", default=HERE + "/../../build/release/libnumalloc.so")
    parser.add_argument("--inputs", help="keep the inputs there, or take them from there (as compare.sh does)")
    parser.add_argument("--only", default="gcc,python-malloc,sqlite", help="programs: gcc, python, python-malloc, sqlite")
    parser.add_argument("--modes", default="sample,sites,trace")
    parser.add_argument("--base", default="plain", help="the mode that the others are compared with")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--small", action="store_true", help="small inputs: whether all works, not how fast")
    parser.add_argument("--json", action="store_true", help="one object, for scripts/tables.py")
    options = parser.parse_args()
    library = os.path.realpath(options.library)
    if not os.access(library, os.R_OK):
        die("no library '%s'; build it, or name it with --library" % options.library)
    modes = options.modes.split(",")
    for mode in modes + [options.base]:
        if mode not in MODES:
            die("there is no mode '%s'; there are %s" % (mode, ", ".join(MODES)))
    if "heaptrack" in modes and not shutil.which("heaptrack"):
        die("no program 'heaptrack'; install the package 'heaptrack', or leave it out of --modes")
    if "heaptrack-raw" in modes and not os.access(HEAPTRACK, os.R_OK):
        die("no library '%s'; install the package 'heaptrack', or leave heaptrack-raw out of --modes" % HEAPTRACK)
    if options.rounds < 1:
        die("--rounds takes a number from 1 on")
    with tempfile.TemporaryDirectory(prefix="numalloc-recording.") as directory:
        inputs = os.path.abspath(options.inputs or directory + "/inputs")
        size = "small" if options.small else "full"
        if not os.path.exists(inputs + "/size"):
            if subprocess.run([HERE + "/inputs.py", inputs] + (["--small"] if options.small else [])).returncode:
                sys.exit(1)
        else:
            with open(inputs + "/size", encoding="utf-8") as file:
                there = file.read().strip()
            if there != size:
                die("'%s' has %s inputs, and %s ones are asked for; name another directory" % (inputs, there, size))
        known = programs(inputs)
        files = directory + "/files"
        os.mkdir(files)
        failed, rows = False, []
        for name in options.only.split(","):
            if name not in known:
                die("there is no program '%s'; there are %s" % (name, ", ".join(known)))
            if not shutil.which(known[name][0][0]):
                print("%s: left out, no program '%s'" % (name, known[name][0][0]), file=sys.stderr)
                continue
            failed |= not compare(name, known[name], options.base, modes, library, files, options.rounds,
                                  rows if options.json else None)
        if options.json:
            json.dump({"machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Linux {platform.release()}",
                       "rounds": options.rounds, "base": options.base, "rows": rows}, sys.stdout)
        sys.exit(1 if failed else 0)


def compare(name, program, base, modes, library, files, rounds, rows):
    """Prints a program's rows, or adds them to rows. False: a run failed; its mode is left out from then on."""
    everything = [base] + [mode for mode in modes if mode != base]
    results = {mode: [] for mode in everything}
    failed = set()
    for number in range(rounds):
        for mode in everything if number % 2 == 0 else everything[::-1]:
            if sys.stderr.isatty():
                print("\r\033[K%s: round %d of %d, %s " % (name, number + 1, rounds, mode), end="", file=sys.stderr)
            if mode in failed:
                continue
            try:
                results[mode].append(run(program, mode, library, files))
            except RuntimeError as error:
                print("recording.py: %s, %s: %s" % (name, mode, error), file=sys.stderr)
                failed.add(mode)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    if base in failed:
        return False
    if rows is None:
        print("%-14s %-15s %8s %8s" % (name, base, "%.2f s" % statistics.median(r[0] for r in results[base]),
                                       "%.2f s" % statistics.median(r[1] for r in results[base])))
    for mode in everything[1:]:
        if mode in failed:
            continue
        pairs = list(zip(results[mode], results[base]))
        if rows is not None:
            rows.append({"name": name, "mode": mode, "bytes": results[mode][-1][2],
                         **{key: [round(x, 3) for x in (statistics.median(ratios), *(interval(ratios) or ()))]
                            for key, ratios in (("wall", [a[0] / b[0] for a, b in pairs]),
                                                ("processor", [a[1] / b[1] for a, b in pairs]))}})
            continue
        print("%-14s %-15s wall %s, processors %s, %.1f MB" % (
            "", mode, described([a[0] / b[0] for a, b in pairs]), described([a[1] / b[1] for a, b in pairs]),
            results[mode][-1][2] / 1e6), flush=True)
    return not failed


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
