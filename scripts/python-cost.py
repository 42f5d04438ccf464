#!/usr/bin/env python3
"""What it costs to see the memory of Python programs, on the three programs of
tests/programs/python/cost_*.py.

    python-cost.py LIBRARY [--python PYTHON] [--rounds N] [--small]
        tracemalloc, memray, heaptrack and this library, by time
    python-cost.py --instructions [--python PYTHON] [--program NAME]... [--keep DIRECTORY]
        what Python frames add to mode sites, in instructions; takes ten minutes

By time: each round runs each way once, one after the other; a figure is the time of a way over that of the
plain program in the same round: the median of all rounds and programs, and the least and most.
`wall` is the clock's, `cpu` user and system time of the process and its children. Ways that are not
there (memray, heaptrack) are left out, and said. Takes some minutes.

In instructions: callgrind counts what a program executes for a smaller and for a larger size, all of
its process; the difference of both is what so much work takes, so that the start does not count. The
library is built for it (build/python-cost): callgrind puts mappings right behind each other, where a
profile has no room to grow, so it reserves its room at once. The clock that the library sees goes on
slower by as much as the program is slower under callgrind (tests/programs/still_clock.c).

Both print a table in Markdown."""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = {"json": 20000, "ast": 1500, "html": 20000} # half a second and more: tools have a start of their own
COUNTED = {"json": (150, 450), "html": (150, 450), "ast": (6, 18), "deep": (2, 6)}
SLOWER = 60  # so many times, about, a program is under callgrind
here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(here)


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


def must(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        sys.exit("%s: %s" % (" ".join(command), done.stdout[-2000:]))


def built(work):
    """The library that reserves its room at once, and the clock that is preloaded behind it."""
    build, clock = os.path.join(root, "build/python-cost"), os.path.join(work, "clock.so")
    must(["cmake", "--preset", "release", "-B", build, "-DNUMALLOC_TESTS=OFF",
          "-DCMAKE_C_FLAGS=-DNA_WRITER_FIRST=0x4000000"], cwd=root)
    must(["cmake", "--build", build, "--target", "numalloc", "numalloc-dump"], cwd=root)
    must(["cc", "-std=gnu17", "-O2", "-fPIC", "-shared", "-o", clock,
          os.path.join(root, "tests/programs/still_clock.c")])
    return os.path.join(build, "libnumalloc.so"), clock


def count(python, libraries, program, size, objects, frames, keep):
    """Instructions of the whole process."""
    with tempfile.TemporaryDirectory() as work:
        env = {"LD_PRELOAD": ":".join(libraries), "CLOCK_SLOWER": str(SLOWER), "NUMALLOC_PROFILE": "sites",
               "NUMALLOC_PROFILE_FILE": work + "/p.nprof", "PYTHONHASHSEED": "0"}
        if objects: env["PYTHONMALLOC"] = "malloc"
        if frames: env["NUMALLOC_PYTHON"] = "1"
        out = work + "/out" if keep is None else os.path.join(
            keep, "%s.%d.%s.%s" % (program, size, "malloc" if objects else "pymalloc", "frames" if frames else "native"))
        must(["valgrind", "--tool=callgrind", "--soname-synonyms=somalloc=nouserintercepts", "--callgrind-out-file=" + out,
              python, os.path.join(here, "../tests/programs/python/cost_%s.py" % program), str(size)],
             env={**os.environ, **env})
        must([os.path.join(root, "build/python-cost/numalloc-dump"), "check", work + "/p.nprof"])  # nothing was lost
        with open(out) as file:
            return next(int(line.split()[1]) for line in file if line.startswith(("summary:", "totals:")))


def instructions(options):
    print("| program | | `PYTHONMALLOC` | `sites` | with frames | |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as work:
        libraries = built(work)
        for program in options.program or COUNTED:
            for objects in True, False:
                found = [[count(options.python, libraries, program, size, objects, frames, options.keep)
                          for size in COUNTED[program]] for frames in (False, True)]
                without, frames = (larger - smaller for smaller, larger in found)
                print("| `%s`, %d and %d | | %s | %.1f | %.1f | %.2f times |" % (
                    program, *COUNTED[program], "`malloc`" if objects else "not set",
                    without / 1e6, frames / 1e6, frames / without), flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("library", nargs="?")
    options.add_argument("--instructions", action="store_true")
    options.add_argument("--program", action="append", choices=COUNTED)
    options.add_argument("--keep", help="where callgrind's files go")
    options.add_argument("--python", default="/usr/bin/python3")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--small", action="store_true", help="a tenth of the size")
    options = options.parse_args()
    for name in [n for n in os.environ if n.startswith(("NUMALLOC", "PYTHON", "LD_PRELOAD"))]:
        del os.environ[name]
    if options.instructions: return instructions(options)
    if options.library is None: sys.exit("which library?")
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
