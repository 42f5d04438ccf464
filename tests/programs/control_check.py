"""control_check.py DUMP FILE EXPRESSION... - reads a profile with numalloc-dump and evaluates Python expressions over it:
    f(NAME)           figures of all sites that function NAME is responsible for (zeros if there are none)
    head, lost        members of the JSON export, and of its `lost`
    rows(VIEW)        rows of a view's table
Exit status 0: all true and the file whole; 1: a line for each that is not."""
import json
import subprocess
import sys

dump, path, expressions = sys.argv[1], sys.argv[2], sys.argv[3:]


def run(*arguments):
    done = subprocess.run([dump, *arguments], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"numalloc-dump {' '.join(arguments)} ends with {done.returncode}: {done.stderr[:300]}")
    return json.loads(done.stdout)


head = run("json", path)
lost = head["lost"]
KEYS = ("allocations", "frees", "live_blocks", "live_bytes", "total_bytes", "freed_here_count")


def f(name):
    sums = dict.fromkeys(KEYS, 0)
    for site in head["sites"]:
        place = site.get("responsible")
        if place is not None and head["functions"][place]["name"] == name:
            for key in KEYS:
                sums[key] += site.get(key) or 0
    return sums


def rows(view):
    return run(view, "--json", "--top", "0", path)["rows"]


wrong = [e for e in expressions if not eval(e)]
for e in wrong:
    print(f"{path}: not so: {e}", file=sys.stderr)
    for name in ("early", "inside", "between"):
        print(f"    {name}: {f(name)}; lost {lost}", file=sys.stderr)
sys.exit(bool(wrong))
