#!/usr/bin/python3
"""guard_cost.py - what NUMALLOC_GUARD=1 costs real programs, in instructions and in memory.

Each program (bench/programs) runs with and without it, first under callgrind, with a clock that goes as
much slower as callgrind makes the program: blocks are guarded by the clock, and by the real one many
times as many would be. Then as it is, several times in turn, while its anonymous memory
(/proc/PID/smaps_rollup, "Anonymous") is looked at every few milliseconds: what it has most is compared.
"""
import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE + "/../../bench/programs")
import recording  # noqa: E402

SHORT = {
    "python-short": (["/usr/bin/python3", "-S", "-E", "-c", "import json\n"
                      "d = [{'k%d' % i: [i, str(i)], 'x': 'abc%d' % i} for i in range(3000)]\n"
                      "print(len(json.loads(json.dumps(d))))"], "/", {"PYTHONHASHSEED": "0"}),
    "perl-short": (["perl", "-e", "my %n; $n{'word' . $_ * 7919 % 5003}++ for 1 .. 60000; print scalar(keys %n), qq(\\n)"],
                   "/", {}),
    "sqlite-short": (["sqlite3", ":memory:", "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 "
                      "from n where i < 40000) insert into t select i, hex(i) from n; create index x on t(b); "
                      "select sum(a) from t"], "/", {}),
}
SHORT["python-malloc-short"] = (SHORT["python-short"][0], "/", {"PYTHONHASHSEED": "0", "PYTHONMALLOC": "malloc"})


def die(text):
    print("guard_cost.py: " + text, file=sys.stderr)
    sys.exit(2)


def environment(program, preload, guard, seed):
    env = {k: v for k, v in os.environ.items() if not k.startswith("NUMALLOC_")}
    env.update(program[2])
    env.update({"LD_PRELOAD": preload, "NUMALLOC_STATS": "1", "NUMALLOC_SAMPLE_SEED": str(seed)})
    if guard:
        env["NUMALLOC_GUARD"] = "1"
    return env


def used():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def run(command, program, env):
    """Processor seconds, and what it said."""
    before = used()
    result = subprocess.run(command, cwd=program[1], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        raise RuntimeError("status %d: %s" % (result.returncode, result.stderr.strip()[-300:]))
    return used() - before, result.stderr


def instructions(program, library, clock, slower, guard, seed, directory):
    env = environment(program, library + ":" + clock, guard, seed)
    env["CLOCK_SLOWER"] = str(slower)
    out = directory + "/callgrind.out"
    seconds, said = run(["valgrind", "--tool=callgrind", "--soname-synonyms=somalloc=nouserintercepts",
                         "--callgrind-out-file=" + out] + program[0], program, env)
    count = int(re.search(r"^(?:summary|totals): (\d+)", open(out, encoding="utf-8").read(), re.M).group(1))
    guards = re.search(r"guards: (\d+) blocks.*between canaries (\d+).*drawn (\d+)", said)
    return count, seconds, tuple(map(int, guards.groups())) if guards else (0, 0, 0)


def peak_memory(program, library, guard, seed):
    """The most anonymous memory that it had, KiB."""
    env = environment(program, library, guard, seed)
    process = subprocess.Popen(program[0], cwd=program[1], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    most = 0
    while process.poll() is None:
        try:
            with open("/proc/%d/smaps_rollup" % process.pid, encoding="utf-8") as file:
                found = re.search(r"^Anonymous:\s+(\d+)", file.read(), re.M)
            most = max(most, int(found.group(1)) if found else 0)
        except OSError:
            pass
        time.sleep(0.003)
    if process.returncode != 0:
        raise RuntimeError("status %d" % process.returncode)
    return most


def measure(name, program, library, clock, options, directory):
    plain, guarded, drawn = [], [], []
    native = statistics.median(run(program[0], program, environment(program, library, False, 1))[0] for _ in range(3))
    slower = max(1, round(instructions(program, library, clock, 1, False, 1, directory)[1] / native))
    for seed in range(1, options.seeds + 1):
        plain.append(instructions(program, library, clock, slower, False, seed, directory)[0])
        count, _, guards = instructions(program, library, clock, slower, True, seed, directory)
        guarded.append(count)
        drawn.append(guards)
    ratios = [100 * (g / p - 1) for g, p in zip(guarded, plain)]
    more = [peak_memory(program, library, True, seed) - peak_memory(program, library, False, seed)
            for seed in range(1, options.rounds + 1)]
    print("%-20s %8.1f M  %+.2f %% [%+.2f %+.2f]  %d of %d drawn guarded, %d between canaries  (x%d)  %+d KiB [%+d %+d]" % (
        name, statistics.median(plain) / 1e6, statistics.median(ratios), min(ratios), max(ratios),
        statistics.median(d[0] for d in drawn), statistics.median(d[2] for d in drawn),
        statistics.median(d[1] for d in drawn), slower, statistics.median(more), min(more), max(more)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].split(" - ")[1])
    parser.add_argument("--library", default=HERE + "/../../build/release/libnumalloc.so")
    parser.add_argument("--inputs", help="keep the inputs there, or take them from there (as compare.sh does)")
    parser.add_argument("--small", action="store_true", help="small inputs, if they are made")
    parser.add_argument("--only", help="programs: gcc, python, python-malloc, sqlite, and " + ", ".join(SHORT))
    parser.add_argument("--seeds", type=int, default=3, help="pairs of runs under callgrind")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs for memory")
    options = parser.parse_args()
    library = os.path.realpath(options.library)
    if not os.access(library, os.R_OK):
        die("no library '%s'; build it, or name it with --library" % options.library)
    for tool in ("valgrind", "cc"):
        if not shutil.which(tool):
            die("no program '%s'" % tool)
    with tempfile.TemporaryDirectory(prefix="numalloc-guard_cost.") as directory:
        clock = directory + "/still_clock.so"
        subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", "-shared", "-fPIC", HERE + "/still_clock.c", "-o", clock], check=True)
        inputs = os.path.abspath(options.inputs or directory + "/inputs")
        known = recording.programs(inputs)
        names = options.only.split(",") if options.only else list(known) + list(SHORT)
        if any(name in known for name in names) and not os.path.exists(inputs + "/size"):
            subprocess.run([HERE + "/../../bench/programs/inputs.py", inputs] + (["--small"] if options.small else []), check=True)
        known.update(SHORT)
        print("%-20s %10s  %s" % ("program", "alone", "with NUMALLOC_GUARD=1: instructions (clock slowed by), anonymous memory"))
        failed = False
        for name in names:
            if name not in known:
                die("there is no program '%s'; there are %s" % (name, ", ".join(known)))
            if not shutil.which(known[name][0][0]):
                print("%s: left out, no program '%s'" % (name, known[name][0][0]), file=sys.stderr)
                continue
            try:
                measure(name, known[name], library, clock, options, directory)
            except RuntimeError as error:
                print("guard_cost.py: %s: %s" % (name, error), file=sys.stderr)
                failed = True
        sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
