"""here.py - numalloc-bench cores --here: how far the emulated machine is from this one. Costs are measured here (costs.c);
then each load runs natively and emulated, with one thread and with two, and both are held against the first allocator's.
"""
import os
import re
import statistics
import subprocess

ROUNDS = 9
APART = 0.15  # how far apart two ratios may be


def costs(place):
    """What this machine's costs are, as options of the plugin."""
    told = subprocess.run([f"{place}/costs"], capture_output=True, text=True, check=True)
    return told.stdout.split()


def natively(place, preload, load, threads, operations):
    """ns an operation, of the median thread of one run."""
    environment = {"LC_ALL": "C", "PATH": "/usr/bin:/bin", "HOME": "/"}
    if preload:
        environment["LD_PRELOAD"] = preload
    told = subprocess.run([f"{place}/load", load, str(threads), str(operations)], env=environment, capture_output=True,
                          text=True, check=True)
    return statistics.median(float(ns) for ns in re.findall(r"([\d.]+) ns", told.stdout))


def compare(place, loads, libraries, emulated, operations):
    """Prints both, and how many ratios agree. `emulated(load, threads, library, options)`: cycles an operation."""
    measured, near, ratios = costs(place), 0, 0
    print("costs here, in cycles of 0.4 ns:", " ".join(measured), flush=True)
    print(f"{'load':8} {'threads':>7} {'allocator':10} {'here, ns':>9} {'emulated':>9} {'to the first':>12} {'emulated':>9}")
    for load in loads:
        count = operations.get(load, 2000)
        for threads in 1, 2:
            # In turn, for the machine may change; so many operations that starting counts for little.
            rounds = [[natively(place, path, load, threads, 20 * count) for path in libraries.values()]
                      for _ in range(ROUNDS)]
            real = [statistics.median(column) for column in zip(*rounds)]
            model = [emulated(load, threads, path, measured) for path in libraries.values()]
            for i, name in enumerate(libraries):
                ratio, modelled = real[i] / real[0], model[i] / model[0]
                agree = abs(modelled / ratio - 1) <= APART
                mark = "" if agree else "  apart"
                ratios += i > 0  # the first is held against itself
                near += i > 0 and agree
                print(f"{load:8} {threads:7} {name:10} {real[i]:9.1f} {model[i]:9.1f} {ratio:12.2f} {modelled:9.2f}{mark}",
                      flush=True)
    print(f"{near} of {ratios} ratios to the first agree within {APART:.0%}")
