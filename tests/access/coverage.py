#!/usr/bin/env python3
"""coverage.py - do the intervals of estimates from watchpoints hold the truth? Real runs.

    coverage.py LIBNUMALLOC.SO NUMALLOC-DUMP RATES [--runs N] [--ms MS] [--period US] [--jobs N] [--journal FILE]
                [--mode behind|timetable] [--site SITE]

RATES (tests/access/rates.c) counts its own accesses by site and thread. It is run N times under
access=watch, several at a time (--jobs: they sleep most of the time); of each profile,
numalloc-dump's estimates of each site, each thread, and each thread on each site are compared with
the counts. With a journal, runs of earlier calls count as well (one line of JSON each), so that 300
can be made in parts. The table says in how many runs the 95 % interval held the count, missed it
below and above, was not determined; the mean estimate as a share of the truth; and the mean ratio
of the interval's ends. Needs hardware watchpoints.

This is a measurement, not a test: it takes minutes, and its outcome is random. (The test
access.coverage runs the examples of its functions.)"""
import argparse
import concurrent.futures
import json
import math
import os
import subprocess
import sys
import tempfile

# Blocks of each site have a size of their own.
SITES = {128: "steady", 512: "bursts", 262144: "swept"}


def dump(args, profile, *view):
    out = subprocess.run([args.dump, *view, "--json", profile], capture_output=True, text=True)
    if out.returncode == 2 and ("no access fulfils" in out.stderr or "no accesses were sampled" in out.stderr):
        return []
    if out.returncode != 0:
        sys.exit(f"{' '.join(out.args)}: status {out.returncode}: {out.stderr.strip()}")
    return json.loads(out.stdout)["rows"]


def site_of(row):
    """The site whose blocks a row of `objects` is about; None: of no site, or not known, as memory that no block
    of a known size lay in.

    >>> site_of({"objects": 2, "bytes": 1024, "kind": "heap block"})
    'bursts'
    >>> site_of({"objects": 2, "bytes": None, "kind": "heap block"})
    >>> site_of({"objects": None, "bytes": 4096, "kind": "unknown"})
    >>> site_of({"objects": 0, "bytes": 0, "kind": "unknown"})
    >>> site_of({"objects": 3, "bytes": 300, "kind": "heap block"})
    """
    if not row["objects"] or not row["bytes"]:
        return None
    return SITES.get(row["bytes"] / row["objects"])


def judge(runs, case):
    """(held, below, above, none, estimates as shares of the truth, ratios of the intervals' ends) of runs of
    {case: [truth, estimate, low, high]}. Runs that lack the case, or did nothing there, say nothing.

    >>> judge([{"a": [100, 90, 80, 120]}, {"a": [100, 50, 20, 60]}, {"a": [100, 0, None, None]}], "a")
    (1, 1, 0, 1, [0.9, 0.5, 0.0], [1.5, 3.0])
    >>> judge([{"a": [100, 10, 0, 50]}, {"a": [0, 0, 0, 0]}, {"b": [1, 1, 1, 1]}], "a")
    (0, 1, 0, 0, [0.1], [inf])
    """
    held = below = above = none = 0
    mean, ends = [], []
    for run in runs:
        truth, weight, low, high = run.get(case, (0, 0, None, None))
        if truth == 0:
            continue
        mean.append(weight / truth)
        if low is None or math.isnan(low):
            none += 1
            continue
        ends.append(high / low if low else math.inf)
        below += high < truth
        above += low > truth
        held += low <= truth <= high
    return held, below, above, none, mean, ends


def one_run(args, directory, number):
    profile = os.path.join(directory, f"{number}.nprof")
    env = dict(os.environ, LD_PRELOAD=os.path.abspath(args.lib), NUMALLOC_PROFILE="sites,access=watch",
               NUMALLOC_PROFILE_FILE=profile, NUMALLOC_ACCESS_PERIOD=str(args.period))
    out = subprocess.run([args.rates, str(args.ms), args.mode, *args.site], env=env, capture_output=True, text=True, check=True)
    truth = {}
    for line in out.stdout.splitlines():
        site, thread, count = line.split()
        for case in ("all", site, thread, f"{site} {thread}"):
            truth[case] = truth.get(case, 0) + int(count)
    found = {case: [0, None, None] for case in truth}

    def note(case, row):
        found[case] = [row["weight"], row["weight_low"], row["weight_high"]]

    def sites(prefix, *where):
        for row in dump(args, profile, "objects", *where):
            case = f"{site_of(row)} {prefix}".strip()
            if case in found:
                note(case, row)

    sites("")
    for row in dump(args, profile, "threads", "--access"):
        if row["name"] in found:
            note(row["name"], row)
            sites(row["name"], "--where", f"thread={row['tid']}")
    del found["all"], truth["all"]  # no view has its interval
    os.remove(profile)
    return {case: [truth[case], *found[case]] for case in truth}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lib")
    parser.add_argument("dump")
    parser.add_argument("rates")
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--ms", type=int, default=10000)
    parser.add_argument("--period", type=int, default=20000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--journal")
    parser.add_argument("--mode", default="behind", choices=["behind", "timetable"])
    parser.add_argument("--site", action="append", default=[], help="of this site only")
    args = parser.parse_args()
    runs = []
    if args.journal and os.path.exists(args.journal):
        with open(args.journal, encoding="utf-8") as file:
            runs = [json.loads(line) for line in file]
    with tempfile.TemporaryDirectory() as directory:
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            for run in pool.map(lambda number: one_run(args, directory, number), range(args.runs)):
                runs.append(run)
                if args.journal:
                    with open(args.journal, "a", encoding="utf-8") as file:
                        file.write(json.dumps(run) + "\n")
    print(f"{len(runs)} runs")
    print(f"{'':18}{'held':>8}{'below':>7}{'above':>7}{'none':>6}{'mean':>7}{'ends':>6}")
    for case in dict.fromkeys(case for run in runs for case in run):
        held, below, above, none, mean, ends = judge(runs, case)
        known = held + below + above
        share = 100 * held / known if known else math.nan
        print(f"{case:18}{share:7.1f}%{below:7}{above:7}{none:6}{sum(mean) / len(mean) if mean else math.nan:7.2f}"
              f"{sum(ends) / len(ends) if ends else math.nan:6.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
