#!/usr/bin/env python3
"""leaks.py - holds the scan for leaks to a corpus of programs, and to LeakSanitizer.

usage: leaks.py --library FILE [--options "NAME=VALUE ..."] [--profile MODE] [--matching PATTERN] [--all]
                [--against N] PROGRAM[=SANITIZED]...

Each PROGRAM lists its cases with what is lost, and with what. SANITIZED is the same program, built
with -fsanitize=leak: where it runs its figures are to be the same as well (--against N: of N cases
only, others each day). Without --all, what takes long is left out. A line for each difference; exit
status 1 if there is one."""
import argparse
import os
import re
import random
import subprocess
import sys
import tempfile
import time

SLOW = {"wide", "huge", "huge_lost"}
# LeakSanitizer cannot say, or says otherwise for a reason of its own:
NOT_ITS = {
    "protected_page": "it reads the page, and dies",
    "array_ends": "blocks of powers of two lie side by side there, so ends are beginnings",
    "empty": "it counts a byte of each block of none",
}
TOTAL = re.compile(
    rb"^numalloc: (\d+) bytes? in (\d+) blocks? are lost, (\d+) bytes? in (\d+) blocks? indirectly",
    re.M)
LSAN = re.compile(rb"^(Direct|Indirect) leak of (\d+) byte\(s\) in (\d+) object\(s\)", re.M)


def run(command, env, limit=600):
    try:
        return subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, timeout=limit)
    except subprocess.TimeoutExpired:
        return None


def ours(program, case, library, options):
    """(status, figures, text): blocks and bytes lost, and indirectly."""
    env = dict(os.environ, LD_PRELOAD=library, NUMALLOC_LEAKS="1", NUMALLOC_LEAKS_EXIT="86",
               **options)
    done = run([program, case], env)
    if done is None:
        return None, None, b"(took too long)"
    found = TOTAL.findall(done.stderr)
    figures = (0, 0, 0, 0)
    if found:
        lost_bytes, lost, indirect_bytes, indirect = map(int, found[-1])
        figures = (lost, lost_bytes, indirect, indirect_bytes)
    wanted = 86 if found else 0
    if done.returncode != wanted:
        return done.returncode, None, done.stderr
    if not found and done.stderr:
        return done.returncode, None, b"not silent: " + done.stderr
    return done.returncode, figures, done.stderr


def sanitizers(program, case):
    env = dict(os.environ, LSAN_OPTIONS="exitcode=23:max_leaks=0")
    done = run([program, case], env)
    if done is None or done.returncode not in (0, 23) or b"LeakSanitizer has encountered" in done.stderr:
        return None
    figures = [0, 0, 0, 0]
    for kind, size, count in LSAN.findall(done.stderr):
        at = 0 if kind == b"Direct" else 2
        figures[at] += int(count)
        figures[at + 1] += int(size)
    return tuple(figures)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--options", default="")
    parser.add_argument("--profile", default="")
    parser.add_argument("--matching", default="")
    parser.add_argument("--against", type=int, default=10**6)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("programs", nargs="+")
    arguments = parser.parse_args()
    options = dict(word.split("=", 1) for word in arguments.options.split())
    with tempfile.TemporaryDirectory() as directory:
        if arguments.profile:
            options.update(NUMALLOC_PROFILE=arguments.profile, NUMALLOC_PROFILE_FILE=directory)
        return check(arguments, options)


def check(arguments, options):
    wrong = cases = compared = without = 0
    days = random.Random(time.time() // 86400)
    for pair in arguments.programs:
        program, _, sanitized = pair.partition("=")
        listed = subprocess.run([program, "list"], stdout=subprocess.PIPE, check=True).stdout
        lines = listed.decode().splitlines()
        share = arguments.against / len(arguments.programs) / len(lines)
        for line in lines:
            case, *figures = line.split()
            expected = tuple(map(int, figures))
            if not re.search(arguments.matching, case):
                continue
            if case in SLOW and not arguments.all:
                continue
            status, found, text = ours(program, case, arguments.library, options)
            cases += 1
            if found != expected:
                wrong += 1
                print(f"{case}: {found} (status {status}), not {expected}")
                sys.stdout.write(text.decode(errors="replace"))
            if sanitized and case not in NOT_ITS and days.random() < share:
                theirs = sanitizers(sanitized, case)
                if theirs is None:
                    without += 1
                else:
                    compared += 1
                    if theirs != expected:
                        wrong += 1
                        print(f"{case}: LeakSanitizer has {theirs}, not {expected}")
    print(f"{cases} cases, {compared} held against LeakSanitizer, {wrong} wrong")
    if without:
        print(f"LeakSanitizer did not run {without} times")
    return 1 if wrong or cases == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
