#!/usr/bin/env python3
"""tables.py - the measured figures of docs/: docs/data/*.json, and the tables and the picture made of them.

    scripts/tables.py measure NAME COMMAND...   runs COMMAND, which prints what 'numalloc-bench compare
                                                --json' prints, and keeps of it in docs/data/NAME.json
                                                each row's headline and peak memory, with the command,
                                                the commit, the date and the machine
                                                (or what bench/programs/recording.py or
                                                tests/programs/profile_at_size.py prints, likewise)
    scripts/tables.py rows NAME                 prints every row of it, where it compares allocators

scripts/docs.py writes the tables into the documents and draws docs/images/allocators.svg. The commands for
the sets there are (SETS) are in docs/benchmarks.md.
"""
import datetime
import json
import math
import pathlib
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "docs/data"
# Sets that compare allocators.
SETS = {"programs": "real programs", "replays": "replays of real programs", "suite": "synthetic benchmarks"}
LABELS = {"mimalloc": "mimalloc 2", "mimalloc3": "mimalloc 3", "tcmalloc": "gperftools", "gtcmalloc": "tcmalloc"}
FEW_ROUNDS = 3  # Fewer are a trial.
COLOURS = ("#b33c00", "#00695c", "#6a1b9a", "#8d6e00", "#ad1457", "#37474f", "#2e7d32", "#4e342e", "#1565c0")


# ---- Keeping -------------------------------------------------------------------------------------


def kept_values(metric, allocators):
    """Of a metric: each allocator's median, and its cost relative to the base with the interval of it."""
    values = {}
    for value in metric["values"]:
        if value["allocator"] in allocators and value.get("median") is not None:
            ratio = value["cost_relative_to"].get(allocators[0])
            values[value["allocator"]] = [value["median"]] + (
                [] if ratio is None else [ratio["ratio"], ratio["low"], ratio["high"]])
    return {"metric": metric["name"], "unit": metric["unit"], "kind": metric["kind"], "values": values}


def kept(said, command):
    """Of what compare says, what the documents use."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.strip()
    head = {"command": command, "date": datetime.date.today().isoformat(), "commit": commit,
            "machine": said["machine"], "rounds": said["rounds"]}
    if "cases" not in said:
        return {**head, "rows": said["rows"]}
    names = [one["name"] for one in said["allocators"] if "(A/A)" not in one["name"]]
    names.sort(key=lambda name: name != said["base"])
    rows = []
    for case in said["cases"]:
        metrics = {metric["name"]: metric for metric in case["metrics"]}
        if case["headline"] not in metrics:
            print(f"tables: {case['name']} failed under all, and is left out", file=sys.stderr)
            continue
        rows.append({
            "name": case["name"], "threads": case["threads"],
            "failures": {one["allocator"]: one["count"] for one in case["failures"]},
            **{key: kept_values(metrics[case[of]], names) for key, of in (("time", "headline"), ("memory", "memory"))
               if case[of] in metrics}})
    return {**head, "allocators": names, "control": said["control"], "rows": rows}


def write(name, data):
    head = {key: value for key, value in data.items() if key != "rows"}
    rows = ",\n".join("  " + json.dumps(row) for row in data["rows"])
    (DATA / f"{name}.json").write_text(json.dumps(head, indent=1)[:-2] + f',\n "rows": [\n{rows}\n ]\n}}\n')


def load(name):
    return json.loads((DATA / f"{name}.json").read_text())


# ---- Figures -------------------------------------------------------------------------------------


def cost(row, key, name, base):
    """What the allocator takes of what the base takes, or None: (ratio, is it a tie)."""
    values = row.get(key, {}).get("values", {})
    if row.get(key, {}).get("kind") != key or name not in values or base not in values:
        return None
    own = values[name]
    if len(own) == 4:
        return own[1], own[2] <= 1 <= own[3]
    return own[0] / values[base][0], False


def mean(data, key, name, without=()):
    """The geometric mean of an allocator's costs."""
    costs = [cost(row, key, name, data["allocators"][0]) for row in data["rows"] if row["name"] not in without]
    logs = [math.log(one[0]) for one in costs if one is not None and one[0] > 0]
    return math.exp(sum(logs) / len(logs)) if logs else None


def carriers(data, key, count=3):
    """The rows that favour the base most, by the mean of the others' costs."""
    base, *others = data["allocators"]
    by_name = {}
    for row in data["rows"]:
        logs = [math.log(one[0]) for name in others if (one := cost(row, key, name, base)) is not None and one[0] > 0]
        by_name.setdefault(row["name"], []).extend(logs)
    ranked = sorted((name for name in by_name if by_name[name]),
                    key=lambda name: -sum(by_name[name]) / len(by_name[name]))
    return ranked[:count]


def label(name):
    return LABELS.get(name, name)


def shown(value):
    return "-" if value is None else f"{value:.2f}" if value < 9.95 else f"{value:.0f}"


def caption(name):
    data = load(name)
    trial = " **A trial that shows the form: too few rounds to judge by.**" if data["rounds"] < FEW_ROUNDS else ""
    control = data.get("control")
    busy = " **numalloc against itself is no tie: the machine was busy.**" if control and not control["tie"] else ""
    return [f"({data['rounds']} round{'s' if data['rounds'] != 1 else ''}, {data['date']}, commit "
            f"{data['commit']}.{busy}{trial})"]


def means(name):
    """A table of means, with those rows left out that carry them."""
    data = load(name)
    others = data["allocators"][1:]
    lines = ["| | " + " | ".join(label(other) for other in others) + " |", "|---|" + "---|" * len(others)]
    for key, word in (("time", "time"), ("memory", "peak memory")):
        rows = {row["name"] for row in data["rows"] if row.get(key, {}).get("kind") == key}
        left_out = ["large"] if name == "suite" else carriers(data, key)
        for title, without in ((f"{word}, all {len(rows)}", ()),
                               (f"without {', '.join(f'`{one}`' for one in left_out)}", left_out)):
            lines.append(f"| {title} | " + " | ".join(shown(mean(data, key, one, without)) for one in others) + " |")
    return lines + [""] + caption(name)


def losses(name):
    """The rows in which another allocator takes a tenth less, with an interval that leaves out 1."""
    data = load(name)
    base, *others = data["allocators"]
    if data["rounds"] < FEW_ROUNDS:
        return [f"(Not told of fewer than {FEW_ROUNDS} rounds.)"]
    lines = []
    for key, word in (("time", "time"), ("memory", "memory")):
        found = []
        for row in data["rows"]:
            costs = [(*one, other) for other in others if (one := cost(row, key, other, base)) is not None]
            ratio, tie, best = min(costs, default=(1, True, None))
            if ratio < 0.9 and not tie:
                threads = f" ({row['threads']})" if row["threads"] > 1 else ""
                found.append(f"`{row['name']}`{threads} {label(best)} {ratio:.2f}")
        lines.append(textwrap.fill(f"- *{word}*: " + (", ".join(found) or "none"), 100, subsequent_indent="  "))
    return lines


def recording():
    """What modes of profile cost whole programs."""
    data = load("recording")
    by = {(row["name"], row["mode"]): row for row in data["rows"]}
    columns = [("sites", "wall"), ("trace", "wall"), ("trace", "processor")]
    lines = ["| | " + " | ".join(f"`{mode}`, {key} time" for mode, key in columns) + " |", "|---|---|---|---|"]
    for name in dict.fromkeys(row["name"] for row in data["rows"]):
        cells = []
        for mode, key in columns:
            value = by.get((name, mode), {}).get(key)
            cells.append("-" if value is None else f"{value[0]:.2f}" + (
                f" [{value[1]:.2f}, {value[2]:.2f}]" if len(value) == 3 else ""))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines + [""] + caption("recording")


def at_size():
    """What profiles of many threads and sites take."""
    kinds = {"threads": "{:,} threads alive", "sites": "{:,} sites"}
    mib = lambda size: f"{size / 2**20:,.0f} MiB"
    lines = ["| | mode | program, each | file | `summary` | the list |", "|---|---|---|---|---|---|"]
    for row in load("at-size")["rows"]:
        each = f"{row['each'] / 1024:.0f} KiB" if row["each"] >= 10240 else f"{row['each']:.0f} bytes"
        of = kinds.pop(row["kind"], "").format(row["count"])
        lines.append(f"| {of} | {row['mode']} | {each} | ".replace("|  |", "| |")
                     + " | ".join(mib(row[key]) for key in ("file", "summary", "list")) + " |")
    return lines


def cores():
    """Busy cycles of an operation on many processors, and lines that moved. No blanks: a cell is not a word."""
    data = load("cores")
    names = list(dict.fromkeys(row["allocator"] for row in data["rows"]))
    lines = ["|load|threads|" + "|".join(label(name).replace(" ", "&nbsp;") for name in names) + "|",
             "|---|---|" + "---|" * len(names)]
    cells = {}
    for row in data["rows"]:
        cells.setdefault((row["load"], row["threads"], row["nodes"]), {})[row["allocator"]] = (
            "-" if "failed" in row else f"{row['busy']:.0f}&nbsp;({row['near'] + row['far']:.2g})")
    for (name, threads, _), by in cells.items():
        lines.append(f"|{name}|{threads}|" + "|".join(by.get(one, "-") for one in names) + "|")
    return lines + ["", f"({data['rounds']} order{'s' if data['rounds'] != 1 else ''}, {data['date']}, commit {data['commit']}.)"]


def every_row(name):
    data = load(name)
    base, *others = data["allocators"]
    lines = []
    for key in ("time", "memory"):
        lines += [f"| {key} | {base} | " + " | ".join(label(one) for one in others) + " |",
                  "|---|---|" + "---|" * len(others)]
        for row in data["rows"]:
            own = row.get(key, {}).get("values", {}).get(base)
            if own is None:
                continue
            cells = ["-" if one is None else ("= " if one[1] else "") + shown(one[0])
                     for one in (cost(row, key, other, base) for other in others)]
            threads = f", {row['threads']}" if row["threads"] else ""
            lines.append(f"| {row['name']}{threads} | {own[0]:.4g} {row[key]['unit']} | {' | '.join(cells)} |")
        lines.append("")
    return lines


# ---- The picture ---------------------------------------------------------------------------------

TICKS = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 2, 2.5, 3, 4)


def span(values):
    """The ends of an axis: all values and 1, and some room."""
    least, most = min([*values, 0.95]), max([*values, 1.05])
    room = (most / least) ** 0.15
    return least / room, most * room


def panel(name, left, top, width, height):
    """Each allocator a point: time to the right, memory upwards, both relative to numalloc's."""
    data = load(name)
    points = {one: (mean(data, "time", one) or 1, mean(data, "memory", one) or 1) for one in data["allocators"]}
    low_x, high_x = span([x for x, _ in points.values()])
    low_y, high_y = span([y for _, y in points.values()])

    def x(value):
        return left + math.log(value / low_x) / math.log(high_x / low_x) * width

    def y(value):
        return top + height - math.log(value / low_y) / math.log(high_y / low_y) * height

    out = [f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#888888"/>',
           f'<text x="{left + width / 2:.0f}" y="{top - 10}" text-anchor="middle" font-weight="bold">'
           f'{len(data["rows"])} {SETS[name]}{" (a trial)" if data["rounds"] < FEW_ROUNDS else ""}</text>',
           f'<text x="{left + width / 2:.0f}" y="{top + height + 36}" text-anchor="middle">time, numalloc = 1 (log)</text>',
           f'<text x="{left - 34}" y="{top + height / 2:.0f}" text-anchor="middle" '
           f'transform="rotate(-90 {left - 34} {top + height / 2:.0f})">peak memory (log)</text>']
    for tick in TICKS:
        shade = "#888888" if tick == 1 else "#e4e4e4"
        if low_x < tick < high_x:
            out += [f'<line x1="{x(tick):.1f}" y1="{top}" x2="{x(tick):.1f}" y2="{top + height}" stroke="{shade}"/>',
                    f'<text x="{x(tick):.1f}" y="{top + height + 16}" text-anchor="middle">{tick:g}</text>']
        if low_y < tick < high_y:
            out += [f'<line x1="{left}" y1="{y(tick):.1f}" x2="{left + width}" y2="{y(tick):.1f}" stroke="{shade}"/>',
                    f'<text x="{left - 5}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>']
    taken = []
    for at, (one, (time, memory)) in enumerate(points.items()):
        colour, base = COLOURS[at % len(COLOURS)], at == 0
        where = y(memory) + (-8 if base else 4)
        while any(abs(where - other) < 13 and abs(x(time) - beside) < 80 for beside, other in taken):
            where += 2
        taken.append((x(time), where))
        before = base or x(time) > left + width - 80
        out += [f'<circle cx="{x(time):.1f}" cy="{y(memory):.1f}" r="{7 if base else 5}" fill="{colour}"/>',
                f'<text x="{x(time) + (-10 if before else 10):.1f}" y="{where:.1f}" fill="{colour}"'
                f'{" font-weight=" + chr(34) + "bold" + chr(34) if base else ""}'
                f'{" text-anchor=" + chr(34) + "end" + chr(34) if before else ""}>{label(one)}</text>']
    return out


def picture():
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 350" font-family="sans-serif" font-size="12" '
            'fill="#222222">\n<rect width="760" height="350" fill="#ffffff"/>\n'
            + "\n".join(panel("programs", 60, 36, 300, 260) + panel("replays", 440, 36, 300, 260))
            + "\n</svg>\n")


def main():
    words = sys.argv[1:]
    if len(words) == 2 and words[0] == "rows" and words[1] in SETS:
        print("\n".join(every_row(words[1])))
        return 0
    names = [*SETS, "recording", "cores", "at-size"]
    if len(words) < 3 or words[0] != "measure" or words[1] not in names:
        print(__doc__, f"\nNAME is one of: {', '.join(names)}", file=sys.stderr)
        return 2
    run = subprocess.run(words[2:], stdout=subprocess.PIPE, text=True)
    try:
        said = json.loads(run.stdout)
    except json.JSONDecodeError:
        print(f"tables: '{' '.join(words[2:])}' printed no JSON (status {run.returncode}): give it --json", file=sys.stderr)
        return 1
    write(words[1], kept(said, " ".join(words[2:])))
    print(f"tables: wrote docs/data/{words[1]}.json; now run scripts/docs.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
