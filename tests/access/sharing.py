#!/usr/bin/env python3
"""sharing.py LIBRARY DUMP PROGRAM - words that threads use are found among much that they do not; and
false sharing is found in programs that have it, and in no
other, at the default cost, one of each at a time, so that threads are more than processors.

The wrong one is looked at as it runs until the verdict is there; the other must have none for as
long. What is said of the parts is held against what the program does."""
import json
import os
import select
import struct
import subprocess
import sys
import tempfile
import time

LIMIT = 200  # s: a machine that does nothing else takes one to three

# Kind, and the distances of the threads' parts.
WRONG = {"array": {8}, "ints": {4}, "static": {8}}
RIGHT = {"array": "padded", "ints": "atomic", "static": "readers"}
THREADS = 2
ENOUGH = 100  # samples of two words in 16 MiB
PROBES, PAGE, CHUNK, ARMED = 39, 4096, 64, 44  # of the file's format; a probe's field
ALL = 0.9  # looks in which all threads are watched; one may be new, or be let go

library, dump, program = sys.argv[1:4]
work = tempfile.mkdtemp(prefix="sharing-")


def fail(text):
    print("FAIL:", text)
    sys.exit(1)


def start(kind):
    file = f"{work}/{kind}.nprof"
    env = dict(os.environ, LD_PRELOAD=library, NUMALLOC_PROFILE="sites,access=watch",
               NUMALLOC_PROFILE_FILE=file)
    p = subprocess.Popen([program, kind, str(THREADS)], stdin=subprocess.PIPE,
                         stderr=subprocess.PIPE, env=env)
    return p, file


def verdicts(file):
    """The verdicts; None: no accesses yet."""
    r = subprocess.run([dump, "verdicts", "--json", file], capture_output=True, text=True)
    if r.returncode != 0 or not r.stdout:
        return None
    return json.loads(r.stdout)


def shared(found):
    return [v for v in found["verdicts"] if v["verdict"] == "false_sharing"]


def looks(file):
    """How many threads were watched in each look."""
    with open(file, "rb") as f:
        data = f.read()
    at, armed = PAGE, []
    while at + CHUNK <= len(data) and data[at:at + 4] == b"NCHK":
        kind, _, length = struct.unpack_from("<HHQ", data, at + 4)
        size, _, _, count = struct.unpack_from("<4I", data, at + 40)
        if kind == PROBES:
            armed += [struct.unpack_from("<I", data, at + CHUNK + i * size + ARMED)[0] for i in range(count)]
        at += length
    return armed


def hold(kind, v):
    line = v["line"]
    parts = line["parts"]
    if len({p["thread"] for p in parts}) != THREADS:
        return f"{len(parts)} parts of {parts}"
    apart = {b["offset"] - a["offset"] for a, b in zip(parts, parts[1:])}
    if apart != WRONG[kind] or any(p["bytes"] not in (4, 8) for p in parts):
        return f"parts are {apart} apart: {parts}"
    for p in parts:
        if not (p["writes"] > 0 and p["own"] > 0.9 and p["threads"] == 1):
            return f"part {p}"
    if v["placement"] not in ("pad", "separate") or "64" not in v["code"]:
        return f"advice {v['placement']}: {v['code']}"
    if "stays with its thread" not in v["expected"] or "nothing to gain" in v["expected"]:
        return f"expected: {v['expected']}"
    if kind == "static" and "counters" not in v["name"]:
        return f"named {v['name']}"
    return None


def stop(p):
    if not p.stdin.closed:
        p.stdin.close()
    said = p.stderr.read().decode()
    p.wait()
    if "no accesses" in said:
        print("skipped:", said.strip())
        sys.exit(77)


def try_pair(wrong, right):
    runs = [start(wrong), start(right)]
    begun = time.monotonic()
    why = "no verdict"
    try:
        while why is not None and time.monotonic() - begun < LIMIT:
            time.sleep(0.3)
            found = verdicts(runs[0][1])
            of = shared(found) if found is not None else []
            if of:
                why = hold(wrong, of[0])
        took = time.monotonic() - begun
        armed = looks(runs[0][1])  # (at the end threads are gone)
        for p, _ in runs:
            stop(p)
        if why is not None:
            fail(f"{wrong}: not decided in {LIMIT} s: {why}")
        whole = sum(n > THREADS for n in armed)  # the first thread as well
        if whole < ALL * len(armed):
            fail(f"{wrong}: all threads were watched in {whole} of {len(armed)} looks: {armed}")
        found = verdicts(runs[1][1])
        if found is not None and shared(found):
            fail(f"{right} is called falsely shared: {shared(found)[0]['line']}")
        print(f"{wrong}: found after {took:.1f} s, chance {of[0]['chance']:.2f}, "
              f"{of[0]['line']['looks']} looks; {right}: not so")
    finally:
        for p, _ in runs:
            if p.poll() is None:
                p.kill()


def find_few():
    p, file = start("few")
    begun = time.monotonic()
    samples = 0
    try:
        while samples < ENOUGH and time.monotonic() - begun < LIMIT:
            time.sleep(0.3)
            if select.select([p.stderr], [], [], 0)[0]:
                stop(p)  # it says why there are none, or has ended
            found = verdicts(file)
            samples = found["samples"] if found is not None else 0
        took = time.monotonic() - begun
        stop(p)
    finally:
        p.kill()
    if samples < ENOUGH:
        fail(f"few: {samples} samples in {LIMIT} s")
    print(f"few: {samples} samples after {took:.1f} s")


try:
    find_few()
    for kind, other in RIGHT.items():
        try_pair(kind, other)
finally:
    subprocess.run(["rm", "-rf", work])
