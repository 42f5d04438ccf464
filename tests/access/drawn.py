#!/usr/bin/env python3
"""drawn.py - holds verdicts against the truth of programs that are drawn from a grammar (drawn.c), and prints how often
which was said of what.

  drawn.py here LIBRARY DUMP PROGRAM SEEDS [SECONDS [JSON]]     on this machine, under watch
  drawn.py lab BUILD SEEDS DIRECTORY [SOURCE [SECONDS [TOPOLOGY]]]
      in one machine of the lab, by default with four nodes (for kmod and ibs the emulator's): each program wrong, under
      the rules on places that its profile gives, and mended; leaves in DIRECTORY their profiles, and what the kernel says of their pages; judges them
  drawn.py judge DUMP DIRECTORY [JSON]
      judges what lies there: verdicts, and what the rules promised against what the kernel says under them

SEEDS is 1-40 or 3,7,9; DUMP may be several, apart by commas: others after this build's, to compare with. A verdict may be
right, or say why it is undecided, or be wrong; wrong with a confidence of "high" is a failure, and so is "nothing wrong"
with that confidence where something is. JSON: the figures go there, in the place of those of the same source and as many
nodes."""
import base64
import collections
import glob
import gzip
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LOOK = 1.0  # s between two looks at a running program's profile
HIGH, MEDIUM = 0.95, 0.8
IBS_PERIOD = 32768  # a profile must go through a slow line


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


def subject_share(dump, file):
    """Of all accesses, those to the blocks that the truth is about."""
    r = subprocess.run([dump, "objects", "--json", "--top", "0", file], capture_output=True, text=True, check=True)
    return sum(row["share"] for row in json.loads(r.stdout)["rows"] if "subject" in row["name"])


def policy(dump, file):
    return subprocess.run([dump, "policy", "--only", "place", file], capture_output=True, text=True, check=True).stdout


def time_needed(dump, file, at):
    """Until when an undecided verdict says that it will be decided, if it says so; else infinite."""
    v = of_subject(verdicts(dump, file))
    said_when = v and v["undecided"] == "samples" and "times as long" in v["reason"]
    return at * v["needed"] / v["measure"]["samples"] if said_when else math.inf


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


def promises(drawn):
    """By the places that a program's rules name: seed, promised, and what of all accesses became local by the kernel;
    under "interleave", what was spread over all nodes."""
    found = collections.defaultdict(list)
    for d in (d for d in drawn if "ruled" in d):
        places = " + ".join(sorted({place.split()[0] for place, _, _ in d["rules"]}))
        got = (d["busiest"] - d["ruled_busiest"]) / (1 - 1 / d["nodes"]) if places == "interleave" \
            else d["remote"] - d["ruled"]
        found[places].append({"seed": d["seed"], "shape": d["shape"],
                              "promised": [round(min(1, sum(r[i] for r in d["rules"])), 3) for i in (1, 2)],
                              "got": round(got * d["subject"], 3)})
    return dict(sorted(found.items()))


def show_promises(drawn):
    for places, of in promises(drawn).items():
        print(f"  rules: {places}")
        for d in of:
            low, high = d["promised"]
            print(f"    seed {d['seed']}, {d['shape']}: promised {low:.2f} to {high:.2f}, got {d['got']:.2f}")


def score(drawn, which):
    """By truth: how many verdicts are right, undecided and wrong."""
    rows = collections.defaultdict(lambda: [0, 0, 0])
    for d in drawn:
        what = d["said"][which]
        rows[d["truths"][0]][0 if what in d["truths"] else 1 if what == "undecided" else 2] += 1
    return dict(sorted(rows.items()))


def keep(series, file):
    """In the file's list of series, one a source and machine."""
    of = lambda s: (s["source"], s["nodes"])
    old = []
    if os.path.exists(file):
        with open(file, encoding="utf-8") as f:
            old = json.load(f)
    with open(file, "w", encoding="utf-8") as f:
        json.dump(sorted([s for s in old if of(s) != of(series)] + [series], key=of), f, indent=1)
        f.write("\n")


def finish(drawn, dumps, seconds, source, nodes, file):
    show(drawn, dumps, seconds)
    show_promises(drawn)
    if file:
        keep({"programs": len(drawn), "seconds": seconds, "source": source, "nodes": nodes,
              "score": [score(drawn, which) for which in range(len(dumps))],
              "wrong_high": len(wrong(drawn, 0, HIGH)), "promises": promises(drawn),
              "in_time": [sum(d.get("kept") is value for d in drawn) for value in (True, False)],
              "after_s": sorted(d["after_s"] for d in drawn if "after_s" in d)}, file)
    return 1 if wrong(drawn, 0, HIGH) else 0


def here(library, dump, program, seeds, seconds="6", file=None):
    dumps, drawn = dump.split(","), []
    with tempfile.TemporaryDirectory(prefix="drawn-") as work:
        for seed in seeds_of(seeds):
            drawn.append(run(library, dumps, program, seed, int(seconds), work))
            print(json.dumps(drawn[-1]), flush=True)
    return finish(drawn, dumps, int(seconds), "watch", 1, file)


def place_rules(text):
    """Of a policy: (place, least and most share of all accesses that are to become local, or spread) of each rule on places."""
    found, promised = [], (0, 0)
    for line in text.splitlines():
        m = re.match(r"#\s+expected: ([\d.]+) to ([\d.]+) % of all accesses ", line)
        if m:
            promised = float(m[1]) / 100, float(m[2]) / 100
        m = re.match(r"site .*\bplace=([^,]+)", line)
        if m:
            found.append([m[1], *promised])
    return found


def unpack(text, base):
    """What drawn_guest.sh printed: profiles into files, the rest into one of JSON."""
    profile, policy, said = None, [], {}
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
        elif line.startswith("@policy "):
            policy.append(line[8:])
        elif line.startswith("@ruled {"):
            ruled = json.loads(line[7:])
            said["ruled"], said["ruled_busiest"] = ruled["remote"], ruled["busiest"]
        elif line.startswith("{"):
            said.update(json.loads(line))
    if "seed" in said:
        said["rules_text"] = "\n".join(policy)
        said["rules"] = place_rules(said["rules_text"])
        with open(base + ".json", "w", encoding="utf-8") as f:
            f.write(json.dumps(said) + "\n")


def lab(build, seeds, directory, source="watch", seconds="60", topology=None):
    build = os.path.abspath(build)
    os.makedirs(directory, exist_ok=True)
    ibs, module = source in ("kmod", "ibs"), f"{build}/kmod-ibs/numalloc_ibs.ko" if source == "kmod" else ""
    command = (f"env NUMALLOC_ACCESS_PERIOD={IBS_PERIOD if ibs else 0} {HERE}/drawn_guest.sh {build}/libnumalloc.so "
               f"{build}/numalloc-dump {build}/tests/access-drawn {source} {seconds}")
    with tempfile.TemporaryDirectory(prefix="drawn-") as work:
        with open(work + "/tests", "w", encoding="utf-8") as f:
            for seed in seeds_of(seeds):
                for state in "wrong", "mended":
                    f.write(f"{seed}.{state}\t{60 + 6 * int(seconds)}\t{command} {seed} {state} {module}\n")
        r = subprocess.run([HERE + "/../lab/run", "--limit", "86400", "--tests", work + "/tests", "--results",
                            work + "/results", topology or ("ibs" if ibs else "patterns")])
        for out in glob.glob(work + "/results/*.out"):
            with open(out, encoding="utf-8", errors="replace") as f:
                text = f.read()
            name = os.path.basename(out)[:-4]
            try:
                unpack(text, os.path.join(directory, name))
            except (ValueError, OSError, EOFError) as e:  # the line out of the guest loses characters now and then
                print(f"{name} is left out: {e}")
    with open(directory + "/series", "w", encoding="utf-8") as f:
        f.write(f"{source} {seconds}\n")
    return r.returncode or judge_all(build + "/numalloc-dump", directory)


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
            if d.get("until", at + 1) <= at:
                d["kept"] = d["said"][0] != "undecided"
            d["until"] = time_needed(dumps[0], f"{base}.{at}.nprof", at)
            if d["said"][0] in d["truths"]:
                d.setdefault("after_s", at)
            else:
                d.pop("after_s", None)
        if "ruled" in d:
            ran = [rule[0] for rule in d["rules"]]
            d["rules"] = place_rules(policy(dumps[0], f"{base}.{seconds}.nprof"))
            d["subject"] = subject_share(dumps[0], f"{base}.{seconds}.nprof")
            if [rule[0] for rule in d["rules"]] != ran:  # under others than it ran
                del d["ruled"]
    drawn = [d for d in drawn if "said" in d]
    return finish(drawn, dumps, int(seconds), source, drawn[0]["nodes"], file)


def main():
    what = {"here": here, "lab": lab, "judge": judge_all}.get(sys.argv[1] if len(sys.argv) > 1 else "")
    if what is None:
        sys.exit(__doc__)
    sys.exit(what(*sys.argv[2:]))


if __name__ == "__main__":
    main()
