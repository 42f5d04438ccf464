#!/usr/bin/env python3
"""python-cost.py LIBRARY [--python PYTHON] [--rounds N] [--small] - what it costs to see the memory of
Python programs: tracemalloc, memray, heaptrack and this library, on the three programs of
tests/programs/python/cost_*.py.

Each round runs each way once, one after the other; a figure is the time of a way over that of the
plain program in the same round: the median of all rounds and programs, and the least and most.
`wall` is the clock's, `cpu` user and system time of the process and its children. Ways that are not
there (memray, heaptrack) are left out, and said. Prints a table in Markdown. Takes a few minutes."""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = {"json": 1200, "ast": 120, "html": 3000}
here = os.path.dirname(os.path.abspath(__file__))


def ways(python, library, work):
    """Name, what is seen, environment and command in front of the script."""
    def ours(mode, frames, objects):
        env = {"LD_PRELOAD": library, "NUMALLOC_PROFILE": mode, "NUMALLOC_PROFILE_FILE": work + "/p.nprof"}
        if objects: env["PYTHONMALLOC"] = "malloc"
        if frames: env["NUMALLOC_PYTHON"] = "1"
        return env

    small, large = "all objects", "blocks above 512 B, and arenas"
    malloc = {"PYTHONMALLOC": "malloc"}
    yield "plain", "", {}, [python]
    yield "plain, `PYTHONMALLOC=malloc`", "", malloc, [python]
    yield "the same, numalloc preloaded, no profile", "", {"LD_PRELOAD": library, **malloc}, [python]
    yield "tracemalloc, 1 frame", small, {}, [python, "-X", "tracemalloc=1"]
    yield "tracemalloc, 25 frames", small, {}, [python, "-X", "tracemalloc=25"]
    if subprocess.run([python, "-c", "import memray"], stderr=subprocess.DEVNULL).returncode == 0:
        run = [python, "-m", "memray", "run", "-q", "-f", "-o", work + "/memray.bin"]
        yield "memray", large, {}, run
        yield "memray, `--native`", large, {}, run + ["--native"]
        yield "memray, `--trace-python-allocators`", small, {}, run + ["--trace-python-allocators"]
        yield "memray, both", small, {}, run + ["--native", "--trace-python-allocators"]
    else:
        print("memray is not there for %s" % python, file=sys.stderr)
    if shutil.which("heaptrack"):
        run = ["heaptrack", "-o", work + "/heaptrack", python]
        yield "heaptrack (native stacks)", large, {}, run
        yield "heaptrack, `PYTHONMALLOC=malloc`", small, malloc, run
    else:
        print("heaptrack is not there", file=sys.stderr)
    for objects, seen in (False, large), (True, small):
        with_malloc = ", `PYTHONMALLOC=malloc`" if objects else ""
        yield "`sites`" + with_malloc, seen, ours("sites", False, objects), [python]
        yield "`sites` with frames" + with_malloc, seen, ours("sites", True, objects), [python]
    yield "`trace` with frames, `PYTHONMALLOC=malloc`", small, ours("trace", True, True), [python]
    yield "`sample` with frames", "drawn: " + large, ours("sample", True, False), [python]


def run(env, command, work):
    for name in os.listdir(work):
        path = os.path.join(work, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    before, began = os.times(), time.monotonic()
    done = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "0", **env},
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wall, after = time.monotonic() - began, os.times()
    if done.returncode != 0:
        sys.exit("%s: %s" % (" ".join(command), done.stderr.decode()[-400:]))
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("library")
    options.add_argument("--python", default="/usr/bin/python3")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--small", action="store_true", help="a tenth of the size")
    options = options.parse_args()
    for name in [n for n in os.environ if n.startswith(("NUMALLOC", "PYTHON", "LD_PRELOAD"))]:
        del os.environ[name]
    with tempfile.TemporaryDirectory() as work:
        chosen = list(ways(options.python, os.path.abspath(options.library), work))
        ratios = {name: ([], []) for name, *_ in chosen}
        for _ in range(options.rounds):
            for program, size in SIZES.items():
                script = os.path.join(here, "../tests/programs/python/cost_%s.py" % program)
                plain = None
                for name, _, env, command in chosen:
                    found = run(env, command + [script, str(size // 10 if options.small else size)], work)
                    plain = plain or found
                    for which in 0, 1:
                        ratios[name][which].append(found[which] / plain[which])
    version = subprocess.run([options.python, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"],
                             stdout=subprocess.PIPE, text=True).stdout.strip()
    print("CPython %s, %d rounds of %d programs\n" % (version, options.rounds, len(SIZES)))
    print("| | sees | wall | cpu |\n|---|---|---|---|")
    for name, seen, _, _ in chosen:
        print("| %s | %s | %s | %s |" % (name, seen, *("%.2f [%.2f %.2f]" % (statistics.median(r), min(r), max(r))
                                                        for r in ratios[name])))


main()
