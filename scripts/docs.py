#!/usr/bin/env python3
"""docs.py - writes the parts of docs/ that are made from the sources.

    scripts/docs.py            writes them anew
    scripts/docs.py --check    exit status 1 and the difference where they are not as it would write

Made: the tables of docs/options.md and the section ENVIRONMENT of docs/man/libnumalloc.3, from
options.def; what docs/man/numalloc-bench.1 says of each benchmark, from its file in bench/; the lists
of views in docs/numalloc-dump.md and docs/man/numalloc-dump.1, from the rows in profiler/dump/; the
options of numalloc-dump and numalloc-run in the man pages, from their
options.def; its section FIGURES, from figures.def; the table of attacks in docs/hardening.md, from
docs/data/attacks.json; that of docs/agreement.md, from docs/data/truth.json; that of
docs/access-profiling.md, from docs/data/verdicts.json and verdicts-run.json, that has the promises of rules in
docs/policy.md, too; that of placement in
docs/numa.md, from docs/data/placement.json; the measured tables of README.md,
docs/benchmarks.md and docs/profiling.md, and docs/images/allocators.svg, from the other files of
docs/data/ (tables.py). In a document such a part lies between two comments with its name, "made: NAME"
and "end: NAME"; the rest is written by hand. Links must lead somewhere, and the searches of
CONTRIBUTING.md find what they name.
"""
import collections
import difflib
import itertools
import json
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap

import tables

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH = 100


class Mistake(Exception):
    pass


# ---- options.def ---------------------------------------------------------------------------------

SIZES = {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40, "UINT32_MAX": 2**32 - 1,
         "DAY": 86400000, "YEAR": 366 * 86400000}
TOKEN = re.compile(r"/\*\*(?P<more>.*?)\*/|/\*.*?\*/"
                   r"|NA_OPTION\((?P<row>(?:\"[^\"]*\"|[^\"])*?)\)\n", re.S)
ROW = re.compile(r"(?P<name>[A-Z_]+),\s*(?P<type>[A-Z_0-9]+)(?:\((?P<of>[^)]*)\))?,"
                 r"\s*(?P<fallback>[A-Z_0-9 *]+),\s*(?P<meaning>(?:\"[^\"]*\"\s*)+)$")


def literal(text):
    """Adjacent string literals, put together."""
    parts = re.findall(r'"((?:[^"\\]|\\.)*)"', text)
    return "".join(parts).replace("\\n", " ").replace('\\"', '"')


def number(expression):
    value = 1
    for factor in expression.split("*"):
        factor = factor.strip()
        value *= SIZES[factor] if factor in SIZES else int(factor)
    return value


def size(value):
    for unit, letter in ((1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if value and value % unit == 0:
            return f"{value // unit}{letter}"
    return str(value)


def duration(value):
    day = SIZES["DAY"]
    if value and value % day == 0:
        return "a day" if value == day else f"{value // day} days"
    return f"{value} ms"


def count(value):
    return "2^32 - 1" if value == 2**32 - 1 else str(value)


def span(of, show):
    least, most = (number(part) for part in of.split(","))
    return f"up to {show(most)}" if least == 0 else f"{show(least)} to {show(most)}"


def accepts(kind, of):
    """What an option of this type takes, in words."""
    zero = "0, or " if kind.endswith("_OR_0") else ""
    kind = kind.removesuffix("_OR_0")
    if kind == "BOOL":
        return "0, 1"
    if kind == "CHOICE":
        words = literal(of).split("|")
        if len(words) > 4 and words == [str(i) for i in range(len(words))]:
            return f"{words[0]} to {words[-1]}"
        return ", ".join(words)
    if kind == "MODE":
        return ", ".join(literal(of).split("|"))
    if kind == "BYTES":
        return f"{zero}bytes, {span(of, size)}"
    if kind == "POWER_OF_2":
        return f"a power of two, {span(of, size)}"
    if kind == "MS":
        return f"{zero}a time, {span(of, duration)}"
    if kind == "NUMBER":
        return f"{zero}a number, {span(of, count)}"
    if kind == "TEXT":
        return "text"
    raise Mistake(f"options.def: no such type: {kind}")


def default(kind, of, fallback):
    """A default as a user would write it."""
    if fallback == "NONE":
        return "none"
    if kind == "CHOICE":
        return literal(of).split("|")[int(fallback)]
    return size(number(fallback)) if kind.startswith(("BYTES", "POWER")) else fallback


def unwrapped(comment):
    """Paragraphs and items ("- ...") of a comment, each a line."""
    first, *others = comment.strip().splitlines()
    lines = [first, *(re.sub(r"^\s*\*? ?", "", line).strip() for line in others)]
    parts = [""]
    for line in lines:
        if line == "" or line.startswith("- "):
            parts.append(line)
        else:
            parts[-1] = f"{parts[-1]} {line}".strip()
    return [part for part in parts if part]


def options():
    """Sections: (title, introduction, options); an option is a dictionary."""
    files = sorted(ROOT.glob("alloc/**/options.def"))
    if len(files) != 1:
        raise Mistake(f"there should be one options.def below alloc/, not {len(files)}")
    sections, more, rows = [], [], 0
    text = files[0].read_text()
    for token in TOKEN.finditer(text):
        if token["more"] is not None:
            more = unwrapped(token["more"])
            if more[0].startswith("# "):
                sections.append((more[0][2:], more[1:], []))
                more = []
        elif token["row"] is not None:
            row = ROW.match(token["row"])
            if row is None or not sections:
                raise Mistake(f"options.def: not understood: NA_OPTION({token['row']})")
            meaning = literal(row["meaning"])
            if meaning.endswith(".") or "|" in meaning:
                raise Mistake(f"options.def: {row['name']}: a meaning has no '|', "
                              "and no full stop at its end")
            sections[-1][2].append({
                "name": f"NUMALLOC_{row['name']}", "accepts": accepts(row["type"], row["of"]),
                "default": default(row["type"], row["of"], row["fallback"]), "meaning": meaning, "more": more})
            more, rows = [], rows + 1
    if rows != len(re.findall(r"^NA_OPTION\(", text, re.M)):
        raise Mistake("options.def: a row is not understood")
    return sections


# ---- Benchmarks ----------------------------------------------------------------------------------

BENCH = re.compile(r"(?:/\*\*(?P<more>(?:[^*]|\*(?!/))*)\*/\n)?"
                   r"const na_bench_t na_bench_(?P<row>\w+) = \{(?P<fields>.*?)\n\};", re.S)


def benchmarks():
    """In the order of the registry."""
    found = {}
    for path in sorted(ROOT.glob("bench/**/*.c")):
        for bench in BENCH.finditer(path.read_text()):
            fields = {key: literal(value) for key, value in
                      re.findall(r'\.(name|summary) = ((?:"[^"]*"\s*)+)', bench["fields"])}
            if bench["more"] is None or len(fields) != 2:
                raise Mistake(f"{path.relative_to(ROOT)}: na_bench_{bench['row']} needs a comment "
                              "right before it that begins with two stars, a name and a summary")
            found[bench["row"]] = {**fields, "more": unwrapped(bench["more"])}
    return listed("bench/benchmarks/registry.c", "NA_BENCHES", found)


# ---- Views ---------------------------------------------------------------------------------------

VIEW = re.compile(r"const na_view_t na_view_row_(?P<row>\w+) = \{(?P<fields>.*?)\n\};", re.S)
FIELD = re.compile(r"\n    \.(\w+) =\s+(.*?),(?=\n    \.|$)", re.S)
MODES = ("SAMPLE", "SITES", "TRACE")


def views(kind):
    """Questions, each with its views of a kind (EXPORT, ACCESSES, None: neither), in the order of the
    table."""
    found = {}
    for path in sorted(ROOT.glob("profiler/dump/**/*.c")):
        for view in VIEW.finditer(path.read_text()):
            fields = dict(FIELD.findall(view["fields"]))
            has = {key: literal(fields.get(key, "")) for key in ("name", "words", "help", "more")}
            if not (has["name"] and has["words"] and has["help"]) or "modes" not in fields:
                raise Mistake(f"{path.relative_to(ROOT)}: na_view_row_{view['row']} needs a name, "
                              "words, a help and modes")
            flags = re.findall(r"NA_VIEW_(\w+)", fields.get("flags", ""))
            has["modes"] = {mode for mode in MODES
                            if re.search(rf"NA_IN_ALL|_{mode}\b", fields["modes"])}
            has["kind"] = next((flag for flag in flags if flag in ("EXPORT", "ACCESSES")), None)
            found[view["row"]] = has
    questions = []
    for entry in listed("profiler/dump/view_table.c", "NA_VIEWS", found):
        if isinstance(entry, str):
            questions.append((entry, []))
        elif entry["kind"] == kind:
            questions[-1][1].append(entry)
    return [question for question in questions if question[1]]


def but_modes(view, quote=""):
    """Which profiles a view cannot be of, in words; of errors it needs none."""
    without = [mode.lower() for mode in MODES if mode not in view["modes"]]
    return ("" if len(without) in (0, len(MODES)) else f" (mode {quote}trace{quote} only)"
            if len(without) == 2 else f" (not in mode {quote}{without[0]}{quote})")


def listed(path, macro, found):
    """What was found in files, in the order of the rows X(NAME) of a macro, and between them the text
    of its rows Q("text")."""
    table = re.search(rf"#define {macro}\([QX, ]*\)(.*?[^\\])\n", (ROOT / path).read_text(), re.S)
    rows = re.findall(r'(?:X\((\w+)\)|Q\("([^"]*)"\))', table[1]) if table else []
    names = [name for name, _ in rows if name]
    if sorted(names) != sorted(found):
        raise Mistake(f"{path}: a row without its file, or a file without its row: "
                      + ", ".join(sorted(set(names) ^ set(found))))
    return [found[name] if name else question for name, question in rows]


# ---- Options of the tools --------------------------------------------------------------------------

TOOL_ROW = (r'^{macro}_(?:GROUP\("(?P<title>[^"]*)"\)|OPTION\({before}"(?P<argument>[^"]*)",\s*'
            r'(?P<meaning>(?:"(?:[^"\\]|\\.)*"\s*)+)\))$')
DUMP_OPTION = r'"(?P<name>[^"]*)", [^"]*?, '
RUN_OPTION = r'\w+, (?P<letter>0|\'.\'), "(?P<name>[^"]*)", '


def tool_options(path, macro, before):
    """Groups: (title, options); an option is a row's match and its meaning. Those without a meaning are
    for completion only."""
    groups, rows = [], 0
    text = (ROOT / path).read_text()
    for row in re.finditer(TOOL_ROW.format(macro=macro, before=before), text, re.M):
        rows += 1
        if row["title"]:
            groups.append((row["title"], []))
            continue
        meaning = literal(row["meaning"])
        if meaning.endswith("."):
            raise Mistake(f"{path}: --{row['name']}: no full stop at its end")
        if meaning:
            groups[-1][1].append((row, meaning))
    if rows != len(re.findall(rf"^{macro}_", text, re.M)):
        raise Mistake(f"{path}: a row is not understood")
    return groups


def dump_options():
    """An option is (name, argument, meaning)."""
    return [(title, [(row["name"], row["argument"], meaning) for row, meaning in rows]) for title, rows
            in tool_options("profiler/dump/ui/options.def", "NA_DUMP", DUMP_OPTION)]


def run_options():
    """An option is (letter, name, argument, meaning)."""
    return [(title, [(row["letter"].strip("'0"), row["name"], row["argument"], meaning) for row, meaning in rows])
            for title, rows in tool_options("profiler/run/options.def", "NA_RUN", RUN_OPTION)]


# ---- Markdown ------------------------------------------------------------------------------------


def wrapped(part):
    """Lines of at most WIDTH. Code, and a figure with its unit, stay on one."""
    whole = re.sub(r"`[^`]*`|\b\d[\d.,]* (?:[KMGT]iB|ms|us|ns|%)",
                   lambda found: found[0].replace(" ", "\0"), part)
    return textwrap.fill(whole, WIDTH, subsequent_indent="  " if part.startswith("- ") else "",
                         break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def options_markdown():
    lines = []
    for title, introduction, rows in options():
        lines += [f"## {title}", ""]
        for part in introduction:
            lines += [wrapped(part), ""]
        lines += ["| Name | Accepts | Default | Meaning |", "|---|---|---|---|"]
        for row in rows:
            cells = (f"`{row['name']}`", row["accepts"], row["default"], row["meaning"])
            lines.append(f"| {' | '.join(cells)} |")
        for row in rows:
            if not row["more"]:
                continue
            lists = row["more"][0].startswith("- ")
            first, *others = row["more"]
            more = row["more"] if lists else [f"`{row['name']}`: {first}", *others]
            lines += ["", f"`{row['name']}`:"] if lists else []
            for items, parts in itertools.groupby(more, lambda part: part.startswith("- ")):
                lines.append("")
                lines += [wrapped(part) for part in parts]
        lines.append("")
    return lines[:-1]


def views_markdown(kind):
    lines = []
    for question, rows in views(kind):
        lines += [f"**{question}**", ""] if kind is None else []
        lines += ["| view | shows |", "|---|---|"]
        for view in rows:
            name = view["name"] if view["words"] == "FILE" else f"{view['name']} {view['words']}"
            lines.append(f"| `{name}` | {view['help']}{but_modes(view, '`')} |")
        lines.append("")
    return lines[:-1]


FIGURE = re.compile(r"^NA_(?:(?P<group>NODE_|CLASS_)?FIGURE\((?P<name>\w+), (?P<kind>\w+), (?P<unit>\w+)|"
                    r"SETTING\((?P<setting>\w+), \w+),\s*(?P<meaning>(?:\"[^\"]*\"\s*)+)", re.M)


def attacks_markdown():
    """Of each attack and each column how often it worked, and of the other runs how many were stopped."""
    columns = json.loads((ROOT / "docs/data/attacks.json").read_text())["columns"]
    attacks = next(iter(columns.values()))
    lines = ["| attack | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for attack in attacks:
        cells = []
        for column in columns.values():
            worked, stopped, silent = column[attack]
            cells.append(f"**{worked}**, {stopped}" if worked else f"0, {stopped}")
        lines.append(f"| {attack} | {' | '.join(cells)} |")
    return lines


def truth_markdown():
    """Of each group of cells of tests/truth: how many, and how many functions are right in them."""
    data = json.loads((ROOT / "docs/data/truth.json").read_text())
    groups, oracles = {}, {}
    for cell in data["cells"]:
        if "of" in cell:
            row = groups.setdefault(cell["group"], {"cells": 0, "right": 0, "said": 0, "wrong": 0})
            row["cells"] += 1
            for kind in ("right", "said", "wrong"):
                row[kind] += cell[kind]
            for oracle, it in cell.get("oracles", {}).items():
                known = oracles.setdefault(cell["group"], {}).setdefault(oracle, [0, 0, 0])
                known[0] += it["right"]
                known[1] += it["of"]
                known[2] += len(it["better"])
    names = sorted({oracle for it in oracles.values() for oracle in it})
    lines = ["| programs | cells | right | said | wrong |" + "".join(f" {name} |" for name in names),
             "|---|---|---|---|---|" + "---|" * len(names)]
    for group, row in groups.items():
        asked = [oracles.get(group, {}).get(name) for name in names]
        lines.append(f"| {group} | {row['cells']} | {row['right']:,} | {row['said']:,} | {row['wrong']:,} |"
                     + "".join(f" {it[0]:,} of {it[1]:,}; better: {it[2]} |" if it else " - |" for it in asked))
    commits = collections.Counter(cell["commit"] for cell in data["cells"] if "of" in cell).most_common()
    return [*lines, "", f"({data['date']}, " + "; ".join(f"{count} cells at commit {commit}" for commit, count in commits) + ".)"]


def verdicts_markdown():
    """Of each truth of the drawn records: how many verdicts are right, undecided and wrong, by source."""
    sources = json.loads((ROOT / "docs/data/verdicts.json").read_text())
    lines = ["| truth | " + " | ".join(f"`{s['source']}`" for s in sources) + " |", "|---|" + "---|" * len(sources)]
    for truth in sources[0]["matrix"]:
        cells = []
        for source in sources:
            row = {said: sum(counts) for said, counts in source["matrix"][truth].items()}
            right, undecided = row.get(truth, 0), row.get("undecidable", 0)
            cells.append(f"{right}/{undecided}/{sum(row.values()) - right - undecided}")
        lines.append(f"| `{truth}` | {' | '.join(cells)} |")
    return lines


def runs():
    return json.loads((ROOT / "docs/data/verdicts-run.json").read_text())


def runs_markdown():
    """The confusion matrix of drawn programs that ran: right, undecided and wrong of each truth, by series, and by who
    judged it."""
    series = runs()
    columns = [(f"`{s['source']}`, {s['nodes']} node{'s' * (s['nodes'] > 1)}" if which == 0 else "the same before", score)
               for s in series for which, score in enumerate(s["score"])]
    lines = ["| truth | " + " | ".join(head for head, _ in columns) + " |", "|---|" + "---|" * len(columns)]
    for truth in sorted({truth for _, score in columns for truth in score}):
        lines.append(f"| `{truth}` | " + " | ".join("/".join(map(str, score.get(truth, "-"))) for _, score in columns) + " |")

    for s in series:
        after, (kept, late) = s["after_s"], s["in_time"]
        half, most = (f"{after[len(after) * n // 10]:.3g}" for n in (5, 8)) if after else "--"
        said = f" Of the undecided, told a time that came before the end: {kept + late}; decided by then: {kept}."
        lines += ["", f"`{s['source']}`, {s['nodes']} node{'s' * (s['nodes'] > 1)}: {s['programs']} programs, {s['seconds']} s "
                  f"each; {s['wrong_high']} wrong at \"high\". Of the right ones half were decided after {half} s, four fifths "
                  f"after {most} s." + said * (kept + late > 0)]
    return lines


def promises_markdown():
    """What rules promised, against what became local under them, by the kernel's page locations."""
    lines = ["| rules | programs | promised, median | got, median | within the interval |", "|---|---|---|---|---|"]
    found = collections.defaultdict(list)
    for series in runs():
        for places, programs in series["promises"].items():
            found[places] += programs
    middle = lambda values: 100 * sorted(values)[len(values) // 2]
    for places, programs in sorted(found.items()):
        low, high = (middle([p["promised"][i] for p in programs]) for i in (0, 1))
        held = sum(p["promised"][0] <= p["got"] <= p["promised"][1] for p in programs)
        lines.append(f"| `{places}` | {len(programs)} | {low:.0f} to {high:.0f} % | "
                     f"{middle([p['got'] for p in programs]):.0f} % | {held} |")
    return lines


def placement_markdown():
    """Accesses to other nodes under each way to place memory, on two and on four nodes: the mean of the sizes."""
    machines = json.loads((ROOT / "docs/data/placement.json").read_text())["machines"]
    modes = {"glibc": "glibc", "bound": "`preferred`", "unbound": "`unbound`"}
    kinds = {"own": "own data", "handed": "allocated, first written by its user", "filled": "filled, each its own",
             "touched": "one block allocated, each writes its part first", "parts": "one block filled, each its part",
             "pool": "filled, neighbours of different users", "moved": "own data, then the thread moves",
             "crowd": "own data, two threads a processor", "reused": "own data, where another's lay before",
             "reused-brief": "short-lived, where another's lay before", "brief": "own data, short-lived", "acceptor": "filled, short-lived",
             "wanderer": "renewed all the time, threads move",
             "kaminski": "Kaminski's benchmark", "kaminski-moved": "Kaminski's, threads move half way"}

    def cell(mode, kind):
        means = []
        for figures in machines.values():
            values = [v for name, v in figures.items() if name.split(".")[:2] == [mode, kind] and v is not None]
            means.append(f"{sum(values) / len(values):.0f}" if values else "-")
        return " / ".join(means)

    rows = {text: [cell(mode, kind) for mode in modes] for kind, text in kinds.items()}
    good = [text for text, cells in rows.items() if set("".join(cells)) <= set("0/ ")]
    return ["| | " + " | ".join(modes.values()) + " |", "|---|" + "---|" * len(modes),
            *(f"| {text} | " + " | ".join(cells) + " |" for text, cells in rows.items() if text not in good),
            "", f"All are 0: {'; '.join(good)}."]


# ---- The manual ----------------------------------------------------------------------------------


def roff(text):
    """A line of text for mdoc: no marks of Markdown, nothing that mdoc would take for its own."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "").replace("\\", "\\e")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def sentences(text):
    """Each begins a line, as mdoc wants it."""
    return re.sub(r"(?<=[a-z0-9)%])\. (?=[A-Z0-9[-])", ".\n", text).splitlines()


def capital(text):
    return text[:1].upper() + text[1:]


def figures_mdoc():
    lines = [".Bl -tag -width Ds"]
    for row in FIGURE.finditer((ROOT / "alloc/api/figures.def").read_text()):
        if row["setting"]:
            name, what = f"option.{row['setting']}", "may be set"
        else:
            group = {None: "", "NODE_": "node.N.", "CLASS_": "class.SIZE."}[row["group"]]
            name = group + row["name"]
            what = ("bytes" if row["unit"] == "BYTES" else "number") + (", counter" if row["kind"] == "COUNTER" else "")
        lines += [f".It Li {name} ({what})", roff(f"{capital(literal(row['meaning']))}.")]
    return [*lines, ".El"]


def options_mdoc():
    lines = []
    for title, introduction, rows in options():
        lines.append(f".Ss {title}")
        for part in introduction:
            lines += [roff(line) for line in sentences(part)]
        lines.append(".Bl -tag -width Ds")
        for row in rows:
            lines += [f".It Ev {row['name']}", roff(f"{capital(row['meaning'])}."),
                      roff(f"Accepts: {row['accepts']}; default: {row['default']}.")]
            for items, parts in itertools.groupby(row["more"], lambda part: part.startswith("- ")):
                if items:
                    lines.append(".Bl -dash -compact")
                for part in parts:
                    lines += [".It"] if items else []
                    lines += [roff(line) for line in sentences(part.removeprefix("- "))]
                if items:
                    lines.append(".El")
        lines.append(".El")
    return lines


def benchmarks_mdoc():
    lines = []
    for bench in benchmarks():
        lines += [f".It Cm {bench['name']}", roff(f"{capital(bench['summary'])}.")]
    return lines


def views_mdoc(kind):
    lines = []
    for view in (view for _, rows in views(kind) for view in rows):
        words = view["words"].lower()
        argument = "" if words == "file" else " Ar" if words == "file..." else f" Ar {words}"
        lines += [f".It Cm {view['name']}{argument}", roff(f"{capital(view['help'])}{but_modes(view)}."),
                  *(roff(line) for line in sentences(view["more"]))]
    return lines


def dump_mdoc():
    lines = []
    for title, rows in dump_options():
        lines += [f".Ss {title}", ".Bl -tag -width Ds"]
        for name, argument, meaning in rows:
            given = (" Cm " + argument.replace("|", " | ")) if "|" in argument else \
                f" Ar {argument.lower()}" if argument else ""
            lines.append(f".It Fl Fl {name}{given}")
            lines += [roff(line) for line in sentences(f"{capital(meaning)}.")]
        lines.append(".El")
    return lines


def run_mdoc():
    lines = []
    for title, rows in run_options():
        lines += [f".Ss {title}", ".Bl -tag -width Ds"]
        for letter, name, argument, meaning in rows:
            word = re.search(r"[A-Z]+", argument)
            optional = argument.startswith("[")
            given = "" if word is None else f"Ns Op = Ns Ar {word[0].lower()}" if optional \
                else f"Ns = Ns Ar {word[0].lower()}"
            short = f"Fl {letter} , " if letter else ""
            lines.append(f".It {short}Fl -{name} {given}".rstrip())
            lines.append(roff(f"{capital(meaning)}."))
        lines.append(".El")
    return lines


# ---- Documents -----------------------------------------------------------------------------------

MADE = [  # file, name of the part, what makes it
    ("docs/options.md", "options", options_markdown),
    ("docs/man/libnumalloc.3", "figures", figures_mdoc),
    ("docs/man/libnumalloc.3", "options", options_mdoc),
    ("README.md", "programs", lambda: tables.means("programs")),
    ("README.md", "replays", lambda: tables.means("replays")),
    ("README.md", "suite", lambda: tables.means("suite")),
    ("docs/benchmarks.md", "losses in programs", lambda: tables.losses("programs")),
    ("docs/benchmarks.md", "losses in replays", lambda: tables.losses("replays")),
    ("docs/benchmarks.md", "losses in the suite", lambda: tables.losses("suite")),
    ("docs/profiling.md", "recording", tables.recording),
    ("docs/cores.md", "cores", tables.cores),
    ("docs/large-programs.md", "at size", tables.at_size),
    ("docs/man/numalloc-bench.1", "benchmarks", benchmarks_mdoc),
    ("docs/man/numalloc-run.1", "options", run_mdoc),
    ("docs/numalloc-dump.md", "views", lambda: views_markdown(None)),
    ("docs/numalloc-dump.md", "views of accesses", lambda: views_markdown("ACCESSES")),
    ("docs/man/numalloc-dump.1", "views", lambda: views_mdoc(None)),
    ("docs/man/numalloc-dump.1", "views of accesses", lambda: views_mdoc("ACCESSES")),
    ("docs/hardening.md", "attacks", attacks_markdown),
    ("docs/agreement.md", "truth", truth_markdown),
    ("docs/access-profiling.md", "verdicts", verdicts_markdown),
    ("docs/access-profiling.md", "runs", runs_markdown),
    ("docs/policy.md", "promises", promises_markdown),
    ("docs/numa.md", "placement", placement_markdown),
    ("docs/man/numalloc-dump.1", "exports", lambda: views_mdoc("EXPORT")),
    ("docs/man/numalloc-dump.1", "options", dump_mdoc),
]


def replaced(path, text, name, lines):
    """The document with the part written anew."""
    begin, end = (('.\\" ', "") if re.search(r"\.\d$", path) else ("<!-- ", " -->"))
    gap = "" if begin.startswith(".") else "\n"
    pattern = re.compile(rf"^({re.escape(begin)}made: {name} \([^\n]*\n).*?"
                         rf"^({re.escape(begin)}end: {name}{re.escape(end)})$", re.S | re.M)
    if len(pattern.findall(text)) != 1:
        raise Mistake(f"{path}: no one part from '{begin}made: {name} ...{end}' "
                      f"to '{begin}end: {name}{end}'")
    body = "\n".join(lines) + "\n"
    return pattern.sub(lambda found: f"{found[1]}{gap}{body}{gap}{found[2]}", text)


def unanswered():
    """The searches of CONTRIBUTING.md that do not find the file that they name."""
    rows = re.findall(r"^\| [^|]*\? \| `((?:grep -rl|find) [^`|;&$<>]*)` \| `([^`]*)`",
                      (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    if len(rows) < 10:
        raise Mistake(f"CONTRIBUTING.md: {len(rows)} questions with a search, not ten")
    for search, name in rows:
        found = subprocess.run(shlex.split(search), cwd=ROOT, capture_output=True, text=True).stdout
        if name not in [path.rsplit("/", 1)[-1] for path in found.splitlines()]:
            yield f"CONTRIBUTING.md: '{search}' does not find {name}"


def anchors(text):
    """What a heading of a page is called in a link."""
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
            for title in re.findall(r"^#+ (.+)$", text, re.M)}


def broken_links():
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", page.read_text()):
            name, _, anchor = target.partition("#")
            path = page.parent / name if name else page
            if not path.exists() or anchor and anchor not in anchors(path.read_text()):
                yield f"{page.relative_to(ROOT)}: no '{target}'"


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    check, stale = sys.argv[1:] == ["--check"], False
    for path, name, make in MADE:
        old = (ROOT / path).read_text()
        new = replaced(path, old, name, make())
        if new == old:
            continue
        if check:
            stale = True
            sys.stdout.writelines(difflib.unified_diff(
                old.splitlines(True), new.splitlines(True), path, "what the sources say"))
        else:
            (ROOT / path).write_text(new)
            print(f"docs: wrote {name} in {path}")
    path, new = ROOT / "docs/images/allocators.svg", tables.picture()
    if not path.exists() or path.read_text() != new:
        if check:
            stale = True
            print("docs: docs/images/allocators.svg is not as drawn from docs/data/")
        else:
            path.write_text(new)
            print("docs: drew docs/images/allocators.svg")
    for fault in [*unanswered(), *broken_links()]:
        stale = True
        print(f"docs: {fault}")
    if stale:
        print("docs: mend the sources, not what is made of them; then run scripts/docs.py, and commit both",
              file=sys.stderr)
    return 1 if stale else 0


try:
    sys.exit(main())
except Mistake as mistake:
    print(f"docs: {mistake}", file=sys.stderr)
    sys.exit(1)
