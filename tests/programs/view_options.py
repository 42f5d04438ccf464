"""view_options.py NUMALLOC_DUMP CALL... - --csv, --json, --sort, --top and --filter mean the same in
every view of numalloc-dump. A CALL is a view with its files and options, in one word.

Of each: help lists as keys of --sort what the first line of --csv has (and words for four of them);
JSON and CSV have the same rows; --sort puts the largest first, --top leaves the first ones, and
--filter leaves rows with the text, or none. What a view does not take is refused, with the reason
that its help has."""
import csv
import io
import json
import re
import subprocess
import sys

WORDS = {"peak", "live", "total", "count"}
OPTIONS = {"sort": ["peak_bytes"], "top": ["1"], "filter": ["x"], "json": [], "csv": []}
dump, calls = sys.argv[1], sys.argv[2:]


def run(*arguments):
    return subprocess.run([dump, *arguments], capture_output=True, text=True)


def output(*arguments):
    done = run(*arguments)
    assert done.returncode == 0 and done.stderr == "", (arguments, done.returncode, done.stderr)
    return done.stdout


def rows(*arguments):
    return list(csv.DictReader(io.StringIO(output(*arguments, "--csv"))))


def number(text):
    try:
        return float(int(text, 0)) if text.startswith("0x") else float(text)
    except ValueError:
        return None


def json_rows(call):
    found = json.loads(output(*call, "--json", "--top", "0"))
    return next(found[name] for name in ("rows", "verdicts", "functions") if name in found)


def check(call):
    view = call[0]
    options = [word for word in call if word.startswith("--")]
    taken = {line.strip("-=") for line in output("help", view, "--names").split()}
    text = output("help", view)
    for option, value in OPTIONS.items():
        if option in taken:
            continue
        done = run(*call, "--" + option, *value)
        assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1, done
        reason = done.stderr.split(": ", 2)[2].split("; see ")[0]
        assert "does not take --" + option in done.stderr, done.stderr
        assert "Not taken, since " + reason in text and option in text.split("Not taken")[1], (view, reason)
    if "csv" not in taken:
        return 0
    keys = output("help", view, *options, "--keys").split()
    every = output(*call, "--csv", "--top", "0")
    # Which nodes there are, only the profile knows: their columns are no keys.
    header = [key for key in every.split("\n", 1)[0].split(",") if not re.fullmatch(r"physical_node\d+", key)]
    assert set(header) <= set(keys) and set(keys) - set(header) <= WORDS, (view, set(header) ^ set(keys))
    table = list(csv.DictReader(io.StringIO(every)))
    assert len(json_rows(call)) == len(table), (view, len(table))
    assert len(rows(*call, "--top", "1")) == min(1, len(table)), view

    # The columns that say most, sorted by: numbers, largest first, and those without one last.
    different = lambda key: len({row[key] for row in table})
    numbers = [key for key in header if any(number(row[key]) is not None for row in table)]
    for key in sorted(numbers, key=different, reverse=True)[:2]:
        values = [number(row[key]) for row in table]
        sort = sorted((v for v in values if v is not None), reverse=True)
        is_sorted = [number(row[key]) for row in rows(*call, "--sort", key, "--top", "0")]
        assert is_sorted == sort + [None] * (len(values) - len(sort)), (view, key, is_sorted[:5], sort[:5])
    done = run(*call, "--sort", "no_such_key")
    assert done.returncode == 2 and done.stdout == "" and "not: no_such_key" in done.stderr, done
    assert done.stderr.count("\n") == 1 and all(key in done.stderr for key in keys), done.stderr
    output(*call, "--sort", keys[-1])

    if "filter" in taken:
        assert rows(*call, "--filter", "^no such text$") == [], view
        output(*call, "--filter", "^no such text$")
    return len(table)


filled = 0
for call in calls:
    filled += check(call.split()) > 0
print("%d calls, %d of them with rows" % (len(calls), filled))
