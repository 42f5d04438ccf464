#!/usr/bin/env python3
"""drawn.py - holds verdicts against the truth of programs that are drawn from a grammar (drawn.c), and prints how often
which was said of what.

  drawn.py here LIBRARY DUMP PROGRAM SEEDS [SECONDS [JSON]]     on this machine, under watch
  drawn.py lab BUILD SEEDS DIRECTORY [SOURCE [SECONDS]]         in one machine of the lab with four nodes, each program
                                                                wrong and mended: leaves their profiles in DIRECTORY
  drawn.py judge DUMP DIRECTORY [JSON]                          judges what lies there
  drawn.py rules BUILD SEEDS [SOURCE [SECONDS [JSON]]]          in the same machine: the rules that their profiles give;
                                                                what these promise, and what the kernel's page locations
                                                                say under them

SEEDS is 1-40 or 3,7,9; DUMP may be several, apart by commas. A verdict may be right, or say why it is undecided, or be
wrong; wrong with a confidence of "high" is a failure, and so is "nothing wrong" with that confidence where something is.
JSON: the figures go there."""
import base64
import collections
import glob
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LOOK = 1.0  # s between two looks at a running program's profile
HIGH, MEDIUM = 0.95, 0.8


def seeds_of(text):
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def verdicts(dump, file):
    r = subprocess.run([dump, "verdicts", "--json", "--top", "0", file], capture_output=True, text=True)
    return json.loads(r.stdout)["verdicts"] if r.returncode == 0 and r.stdout else []


def of_subject(found):
    """What is said of the blocks that the truth is about: the worst that is decided."""
    mine = [v for v in found if "subject" in v["name"]]
    order = lambda v: (v["verdict"] in ("nothing_wrong", "undecidable"), v["verdict"] == "undecidable")
    return min(mine, key=order) if mine else None


def said(verdict):
    return "undecided" if verdict is None or verdict["verdict"] == "undecidable" else verdict["verdict"]


def judge(drawn, dumps, file):
    drawn["said"], drawn["chance"] = [], []
    for dump in dumps:
        v = of_subject(verdicts(dump, file))
        drawn["said"].append(said(v))
        drawn["chance"].append(round(v["chance"], 3) if v and v["chance"] else 0)


def run(library, dumps, program, seed, seconds, work):
    file = f"{work}/{seed}.nprof"
    env = dict(os.environ, LD_PRELOAD=library, NUMALLOC_PROFILE="sites,access=watch",
               NUMALLOC_PROFILE_FILE=file)
    p = subprocess.Popen([program, str(seed), str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, env=env)
    begun, decided = time.monotonic(), None
    while p.poll() is None:
        time.sleep(LOOK)
        if decided is None and said(of_subject(verdicts(dumps[0], file))) != "undecided":
            decided = time.monotonic() - begun
    out, err = p.communicate()
    if p.returncode != 0 or "no accesses" in err:
        print("skipped:", err.strip() or f"{program} ends with {p.returncode}")
        sys.exit(77)
    drawn = json.loads(out)
    if decided is not None:
        drawn["after_s"] = round(decided, 1)
    judge(drawn, dumps, file)
    os.unlink(file)
    return drawn


def matrix(drawn, which):
    """By truth: how often what was said, and how often that was said with what confidence."""
    rows = collections.defaultdict(collections.Counter)
    for d in drawn:
        chance, what = d["chance"][which], d["said"][which]
        sure = "" if what == "undecided" else \
            " (high)" if chance >= HIGH else " (medium)" if chance >= MEDIUM else " (low)"
        rows[d["truths"][0]][what + sure] += 1
    return {truth: dict(sorted(row.items())) for truth, row in sorted(rows.items())}


def wrong(drawn, which, least):
    return [d for d in drawn if d["said"][which] not in ["undecided"] + d["truths"] and d["chance"][which] >= least]


def show(drawn, dumps, seconds):
    for which, dump in enumerate(dumps):
        print(f"{len(drawn)} programs, {seconds} s each, judged by {dump}")
        for truth, row in matrix(drawn, which).items():
            print(f"  {truth}: " + ", ".join(f"{n} {what}" for what, n in row.items()))
        right = sum(d["said"][which] in d["truths"] for d in drawn)
        undecided = sum(d["said"][which] == "undecided" for d in drawn)
        print(f"  right {right}, undecided {undecided}, wrong {len(drawn) - right - undecided}")
        for d in wrong(drawn, which, 0):
            print(f"  seed {d['seed']}{' mended' if d['mended'] else ''}, {d['shape']}: {d['said'][which]} at "
                  f"{d['chance'][which]}, not {' or '.join(d['truths'])}")


def finish(drawn, dumps, seconds, source, nodes, file):
    show(drawn, dumps, seconds)
    if file:
        with open(file, "w", encoding="utf-8") as f:
            json.dump({"programs": len(drawn), "seconds": seconds, "source": source, "nodes": nodes,
                       "matrix": matrix(drawn, 0), "wrong": len(wrong(drawn, 0, 0)),
                       "wrong_high": len(wrong(drawn, 0, HIGH)),
                       "after_s": sorted(d["after_s"] for d in drawn if "after_s" in d)}, f, indent=1)
            f.write("\n")
    return 1 if wrong(drawn, 0, HIGH) else 0


def here(library, dump, program, seeds, seconds="6", file=None):
    dumps, drawn = dump.split(","), []
    with tempfile.TemporaryDirectory(prefix="drawn-") as work:
        for seed in seeds_of(seeds):
            drawn.append(run(library, dumps, program, seed, int(seconds), work))
            print(json.dumps(drawn[-1]), flush=True)
    return finish(drawn, dumps, int(seconds), "watch", 1, file)


def unpack(text, base):
    """What drawn_guest.sh printed."""
    profile = None
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["@profile"]:
            profile, at = [], words[1]
        elif words[:1] == ["@end"]:
            with open(f"{base}.{at}.nprof", "wb") as f:
                f.write(gzip.decompress(base64.b64decode("".join(profile))))
            profile = None
        elif profile is not None:
            profile.append(line)
        elif line.startswith("{"):
            with open(base + ".json", "w", encoding="utf-8") as f:
                f.write(line + "\n")


def lab(build, seeds, directory, source="watch", seconds="60"):
    build = os.path.abspath(build)
    os.makedirs(directory, exist_ok=True)
    command = f"{HERE}/drawn_guest.sh {build}/libnumalloc.so {build}/tests/access-drawn {source} {seconds}"
    with tempfile.TemporaryDirectory(prefix="drawn-") as work:
        with open(work + "/tests", "w", encoding="utf-8") as f:
            for seed in seeds_of(seeds):
                for state in "wrong", "mended":
                    f.write(f"{seed}.{state}\t{60 + 4 * int(seconds)}\t{command} {seed} {state}\n")
        r = subprocess.run([HERE + "/../lab/run", "--limit", "86400", "--tests", work + "/tests", "--results",
                            work + "/results", "patterns"])
        for out in glob.glob(work + "/results/*.out"):
            with open(out, encoding="utf-8", errors="replace") as f:
                unpack(f.read(), os.path.join(directory, os.path.basename(out)[:-4]))
    with open(directory + "/series", "w", encoding="utf-8") as f:
        f.write(f"{source} {seconds}\n")
    return r.returncode


def judge_all(dump, directory, file=None):
    with open(directory + "/series", encoding="utf-8") as f:
        source, seconds = f.read().split()
    dumps, drawn = dump.split(","), []
    for name in sorted(glob.glob(directory + "/*.json")):
        with open(name, encoding="utf-8") as f:
            drawn.append(json.loads(f.read()))
        d, base = drawn[-1], name[:-5]
        for at in (int(seconds) // 4, int(seconds) // 2, int(seconds)):
            if not os.path.exists(f"{base}.{at}.nprof"):
                continue
            judge(d, dumps, f"{base}.{at}.nprof")
            if d["said"][0] in d["truths"]:
                d.setdefault("after_s", at)
            else:
                d.pop("after_s", None)
    drawn = [d for d in drawn if "said" in d]
    return finish(drawn, dumps, int(seconds), source, 4, file)


def place_rules(text):
    """The rules on places in what ruled_guest.sh printed: (place, share of accesses that are to become local). Those
    that spread pages promise none."""
    found, promised = [], None
    for line in text.splitlines():
        m = re.match(r"@rules #\s+expected: ([\d.]+) % of all accesses (become local)?", line)
        if m:
            promised = float(m[1]) / 100 if m[2] else 0
        m = re.match(r"@rules site .*\bplace=(\S+?)(,|$)", line)
        if m:
            found.append((m[1], promised))
    return found


def ruled_of(text):
    """Of one program; None: it did not end well."""
    said = {m[1]: json.loads(m[2]) for m in re.finditer(r"^@(plain|ruled) (\{.*)$", text, re.M)}
    if "plain" not in said:
        return None
    d = {"seed": said["plain"]["seed"], "shape": said["plain"]["shape"], "truths": said["plain"]["truths"],
         "remote": said["plain"]["remote"], "rules": place_rules(text)}
    if "ruled" in said:
        d["got"] = round(d["remote"] - said["ruled"]["remote"], 3)
    return d


def rules(build, seeds, source="watch", seconds="30", file=None):
    build = os.path.abspath(build)
    command = (f"{HERE}/ruled_guest.sh {build}/libnumalloc.so {build}/numalloc-dump {build}/tests/access-drawn {source} "
               f"{seconds}")
    found = []
    with tempfile.TemporaryDirectory(prefix="drawn-") as work:
        with open(work + "/tests", "w", encoding="utf-8") as f:
            for seed in seeds_of(seeds):
                f.write(f"{seed}\t{60 + 4 * int(seconds)}\t{command} {seed}\n")
        subprocess.run([HERE + "/../lab/run", "--limit", "86400", "--tests", work + "/tests", "--results",
                        work + "/results", "patterns"], check=False, stdout=sys.stderr)
        for seed in seeds_of(seeds):
            with open(f"{work}/results/{seed}.out", encoding="utf-8", errors="replace") as f:
                d = ruled_of(f.read())
            if d is not None:
                found.append(d)
    by = collections.defaultdict(list)
    for d in found:
        if "got" in d:
            by[" + ".join(sorted({place.split(":")[0] for place, _ in d["rules"]}))].append(d)
    print(f"{len(found)} programs, {sum('got' in d for d in found)} with rules on places")
    for place, of in sorted(by.items()):
        print(f"  {place}: {len(of)} programs")
        for d in of:
            print(f"    seed {d['seed']}, {d['shape']}: promised {sum(p for _, p in d['rules']):.2f}, got {d['got']:.2f}"
                  f" of {d['remote']:.2f} remote")
    if file:
        with open(file, "w", encoding="utf-8") as f:
            json.dump({"seconds": int(seconds), "source": source, "programs": found}, f, indent=1)
            f.write("\n")
    return 0 if found else 1


def main():
    what = {"rules": rules, "here": here, "lab": lab, "judge": judge_all}.get(sys.argv[1] if len(sys.argv) > 1 else "")
    if what is None:
        sys.exit(__doc__)
    sys.exit(what(*sys.argv[2:]))


if __name__ == "__main__":
    main()
