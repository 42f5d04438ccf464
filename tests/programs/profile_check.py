"""profile_check.py JSON SOURCE EXPECTATION... - holds the JSON of `numalloc-dump --json --stacks --top 0` against what a
program is known to have done. Exit status 0: all true; 1: a line for each that is not.

An expectation is NAME:FIELD=VALUE,... where NAME is a "site: NAME" mark in SOURCE, or `-NAME`: no
site of that name may be there. Only sites whose innermost frame is the marked line of SOURCE count,
and their function must be the one that the mark lies in. VALUE is a number, LOW..HIGH, or ~NUMBER:
an estimate, whose stated relative error (95 %) must be sane and must hold NUMBER within 2.6 times
itself (5 sigma: one false alarm in two million runs). `@FIELD=VALUE` is about the head of the JSON.
"""
import json
import re
import sys

# Which error stands for which figure of a site (mode sample; relative, 95 %).
ERRORS = {"peak": "peak", "live": "live", "total": "total", "allocations": "total"}


def marked_lines(path):
    """{mark: (line number, function)}"""
    marks, function = {}, None
    with open(path, encoding="utf-8") as source:
        for number, line in enumerate(source, 1):
            start = re.match(r"(?:SITE )?static .*?(\w+)\(", line) or re.match(r"int (main)\(", line)
            if start:
                function = start.group(1)
            mark = re.search(r"/\* site: (\w+) \*/", line)
            if mark:
                marks[mark.group(1)] = (number, function)
    return marks


def holds(actual, wanted, error):
    if actual is None:
        return False
    if wanted.startswith("~"):
        true = float(wanted[1:])
        return error is not None and error < 0.5 and abs(actual - true) <= 2.6 * error * true + 1
    if ".." in wanted:
        low, high = wanted.split("..")
        return float(low) <= actual <= float(high)
    try:
        return float(actual) == float(wanted)
    except (TypeError, ValueError):
        return str(actual) == wanted


def main():
    document = json.load(open(sys.argv[1], encoding="utf-8"))
    marks = marked_lines(sys.argv[2])
    by_line = {}
    for site in document["sites"]:
        frames = site.get("stack") or []
        if not frames:
            continue
        inner = frames[0]
        if str(inner.get("file") or "").endswith("profile_load.c"):
            by_line.setdefault(inner.get("line"), []).append(site)
    wrong = []
    for text in sys.argv[3:]:
        if text.startswith("@"):
            field, wanted = text[1:].split("=", 1)
            value = document
            for step in field.split("."):
                value = value.get(step) if isinstance(value, dict) else None
            if not holds(value, wanted, None):
                wrong.append("%s is %r, expected %s" % (field, value, wanted))
            continue
        name, _, fields = text.partition(":")
        absent = name.startswith("-")
        name = name.lstrip("-")
        line, function = marks[name]
        sites = by_line.get(line, [])
        if absent:
            if sites:
                wrong.append("site %s (line %d) is in the profile and must not be" % (name, line))
            continue
        if not sites:
            wrong.append("no site at line %d (%s, in %s); lines of profile_load.c in the profile: %s"
                         % (line, name, function, sorted(str(l) for l in by_line)))
            continue
        names = {site["stack"][0].get("function") for site in sites}
        if names != {function}:
            wrong.append("site %s: functions %s, expected %s" % (name, sorted(map(str, names)), function))
        for item in filter(None, fields.split(",")):
            field, wanted = item.split("=", 1)
            values = [site.get(field) for site in sites]
            value = None if None in values else sum(values)
            kind = ERRORS.get(field.split("_")[0])
            errors = [(site.get("error95") or {}).get(kind) for site in sites]
            error = max(errors) if None not in errors else None
            if not holds(value, wanted, error):
                wrong.append("site %s: %s is %r, expected %s%s" % (
                    name, field, value, wanted, "" if error is None else " (stated error %.3g)" % error))
    for line in wrong:
        print("profile_check: " + line, file=sys.stderr)
    sys.exit(1 if wrong else 0)


main()
