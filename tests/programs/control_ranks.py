"""control_ranks.py DUMP PROGRAM RANKS FILE... - holds the profiles of a parallel job against what its program does."""
import json
import subprocess
import sys

dump, program, ranks, files = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]


def run(*arguments):
    done = subprocess.run([dump, *arguments], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"numalloc-dump {' '.join(arguments)} ends with {done.returncode}: {done.stderr[:300]}")
    return json.loads(done.stdout)


def figure(head, name, key):
    total = 0
    for site in head["sites"]:
        place = site.get("responsible")
        if place is not None and head["functions"][place]["name"].split(".")[0] == name:
            total += site.get(key) or 0
    return total


wrong = []


def must(what, value):
    if not value:
        wrong.append(what)


profiles = {}
jobs = set()
for path in files:
    session = run("session", "--json", path)["rows"][0]
    must(f"{path}: rank {session.get('rank')} of {session.get('ranks')}", session.get("ranks") == ranks)
    jobs.add((session.get("job"), session.get("host")))
    profiles[session.get("rank")] = run("json", path)
must(f"ranks {sorted(profiles)}", sorted(profiles) == list(range(ranks)))
must(f"jobs {jobs}", len(jobs) == 1 and None not in next(iter(jobs)))
for rank, head in sorted(profiles.items()):
    must(f"rank {rank} is not closed", head["closed"])
    must(f"rank {rank} lost {head['lost']}", head["lost"]["events"] == 0)
    if program == "stencil":
        side, steps = 256, 100
        rows = side * (rank + 1) // ranks - side * rank // ranks
        neighbours = (rank > 0) + (rank < ranks - 1)
        grid = figure(head, "new_grid", "total_bytes")
        must(f"rank {rank}: grid {grid}", grid == 2 * (rows + 2) * side * 8)
        halos = figure(head, "new_halo", "allocations")
        must(f"rank {rank}: halos {halos}", halos == 2 * steps * neighbours)
        must(f"rank {rank}: halos live", figure(head, "new_halo", "live_blocks") == 0)
    else:
        own, gathered = figure(head, "work", "total_bytes"), figure(head, "collect", "total_bytes")
        must(f"rank {rank}: own {own}", own == 250000 * 8)
        must(f"rank {rank}: gathered {gathered}", gathered == (250000 * 8 * ranks if rank == 0 else 8))
if program == "gather":
    peaks = {rank: head["total"]["peak_bytes"] for rank, head in profiles.items()}
    others = max(peak for rank, peak in peaks.items() if rank != 0)
    must(f"peaks {peaks}", peaks[0] - others >= 250000 * 8 * (ranks - 1))
for line in wrong:
    print(f"{program}: not so: {line}", file=sys.stderr)
sys.exit(bool(wrong))
