#!/usr/bin/env python3
"""profile_at_size.py - profiles with many threads and many sites: what they take, and whether all is seen.

    profile_at_size.py LIBRARY DUMP PROGRAM [THREADS [LOG2-OF-SITES]] [--json]

Memory of the program without and with a profile, the file, and memory of numalloc-dump, per thread or
site. Fails if a thread or site is missing, or a figure is beyond what the bounds below say. --json: for
scripts/tables.py measure at-size.
"""
import json
import os
import platform
import re
import subprocess
import sys
import tempfile

KIB, MIB = 1 << 10, 1 << 20
# Per thread or site: what the profile adds to the program, and the file.
BOUNDS = {"threads": (128 * KIB, 128 * KIB), "sites": (768, 512)}
# What a reader may take: of threads in all, of sites each.
READER = {"threads": 256 * MIB, "sites": 5 * KIB // 4}


def run(*command, **variables):
    """Its output, and the most that was in memory."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables})
    output = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode == 77:
        print("skipped: this machine refuses so many threads")
        sys.exit(77)
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {child.returncode}")
    return output, used.ru_maxrss * KIB


def check(good, what):
    if not good:
        sys.exit(f"FAILED: {what}")


def measure(kind, argument, count, mode, paths):
    library, dump, program = paths
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as place:
        name = os.path.join(place, "profile")
        plain, _ = run(program, kind, str(argument), LD_PRELOAD=library)
        profiled, _ = run(program, kind, str(argument), LD_PRELOAD=library, NUMALLOC_PROFILE=mode,
                          NUMALLOC_PROFILE_FILE=name)
        more, size = (int(profiled) - int(plain)) * KIB, os.stat(name).st_size
        summary, most = run(dump, "summary", name)
        _, listed = run(dump, kind, name)
    print(f"{count:,} {kind}, {mode}: the profile takes {more / count:,.0f} bytes each beside {int(plain) // KIB:,} MiB, "
          f"file {size / MIB:,.0f} MiB; summary {most / MIB:,.0f} MiB, {kind} {listed / MIB:,.0f} MiB", file=sys.stderr)
    check(re.search(r"not seen +nothing", summary), "events were not seen")
    if kind == "threads":
        check(f"{count + 1:,} that allocated" in summary, f"not {count + 1:,} threads: {summary[:400]}")
    check(more / count < BOUNDS[kind][0] and size / count < BOUNDS[kind][1], "it takes more than it may")
    check(max(most, listed) < (READER[kind] if kind == "threads" else READER[kind] * count), "so does reading it")
    return {"kind": kind, "count": count, "mode": mode, "each": more / count, "file": size, "summary": most, "list": listed}


def main():
    arguments = [word for word in sys.argv[1:] if word != "--json"]
    paths = [os.path.realpath(path) for path in arguments[:3]]
    threads = int(arguments[3]) if len(arguments) > 3 else 10000
    log2 = int(arguments[4]) if len(arguments) > 4 else 21
    rows = [measure(kind, argument, count, mode, paths)
            for kind, argument, count in (("threads", threads, threads), ("sites", log2, 1 << log2))
            for mode in ("sites", "trace")]
    if "--json" in sys.argv:
        print(json.dumps({"machine": f"Linux {platform.release()}", "rounds": 1, "rows": rows}))


if __name__ == "__main__":
    main()
