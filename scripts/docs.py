#!/usr/bin/env python3
"""docs.py - writes the parts of docs/ that are made from the sources.

    scripts/docs.py            writes them anew
    scripts/docs.py --check    exit status 1 and the difference where they are not as it would write

Made: the tables of docs/options.md and the section ENVIRONMENT of docs/man/libnumalloc.3, from
options.def; what docs/benchmarks.md and docs/man/numalloc-bench.1 say of each benchmark, from its
file in bench/; the lists of views in docs/numalloc-dump.md and docs/man/numalloc-dump.1, from the
rows in profiler/dump/; the options in docs/numalloc-run.md and docs/man/numalloc-run.1, from
profiler/run/options.def; the table of attacks in docs/hardening.md, from docs/data/attacks.json. In a
document such a part lies between two comments with its name, "made:
NAME" and "end: NAME"; the rest is written by hand.
"""
import difflib
import itertools
import json
import pathlib
import re
import sys
import textwrap

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
    """Those of a kind (EXPORT, ACCESSES, None: neither) in the order of the table."""
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
            has["facts"] = "FACTS" in flags
            has["kind"] = next((flag for flag in flags if flag in ("EXPORT", "ACCESSES")), None)
            found[view["row"]] = has
    table = listed("profiler/dump/view_table.c", "NA_VIEWS", found)
    return [view for view in table if view["kind"] == kind]


def listed(path, macro, found):
    """What was found in files, in the order of the rows X(NAME) of a macro."""
    table = re.search(rf"#define {macro}\(X\)(.*?[^\\])\n", (ROOT / path).read_text(), re.S)
    rows = re.findall(r"X\((\w+)\)", table[1]) if table else []
    if sorted(rows) != sorted(found):
        raise Mistake(f"{path}: a row without its file, or a file without its row: "
                      + ", ".join(sorted(set(rows) ^ set(found))))
    return [found[row] for row in rows]


# ---- Options of numalloc-run -----------------------------------------------------------------------

RUN_ROW = re.compile(r'^NA_RUN_(?:GROUP\("(?P<title>[^"]*)"\)|OPTION\(\w+, (?P<letter>0|\'.\'), '
                     r'"(?P<name>[^"]*)", "(?P<argument>[^"]*)",\s*(?P<meaning>(?:"[^"]*"\s*)+)\))$',
                     re.M)


def run_options():
    """Groups: (title, options); an option is (letter, name, argument, meaning)."""
    groups, rows = [], 0
    text = (ROOT / "profiler/run/options.def").read_text()
    for row in RUN_ROW.finditer(text):
        rows += 1
        if row["title"]:
            groups.append((row["title"], []))
            continue
        meaning = literal(row["meaning"])
        if meaning.endswith("."):
            raise Mistake(f"options.def: --{row['name']}: no full stop at its end")
        groups[-1][1].append((row["letter"].strip("'0"), row["name"], row["argument"], meaning))
    if rows != len(re.findall(r"^NA_RUN_", text, re.M)):
        raise Mistake("profiler/run/options.def: a row is not understood")
    return groups


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


def benchmarks_markdown():
    lines = []
    for bench in benchmarks():
        first, *others = bench["more"]
        lines += [wrapped(f"**{bench['name']}.** {first}"), ""]
        for part in others:
            lines += [wrapped(part), ""]
    return lines[:-1]


def views_markdown(kind):
    lines = ["| view | shows | sample | sites | trace |", "|---|---|---|---|---|"]
    for view in views(kind):
        name = view["name"] if view["words"] == "FILE" else f"{view['name']} {view['words']}"
        cells = ["-" if mode not in view["modes"] else
                 "estimates" if mode == "SAMPLE" and not view["facts"] else "yes" for mode in MODES]
        lines.append(f"| `{name}` | {view['help']} | {' | '.join(cells)} |")
    return lines


def run_markdown():
    lines = []
    for title, rows in run_options():
        lines += [f"**{title}**", "", "| option | |", "|---|---|"]
        for letter, name, argument, meaning in rows:
            short = f"`-{letter}`, " if letter else ""
            lines.append(f"| {short}`--{name}{argument}` | {meaning} |")
        lines.append("")
    return lines[:-1]


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
    for view in views(kind):
        words = view["words"].lower()
        argument = "" if words == "file" else " Ar" if words == "file..." else f" Ar {words}"
        without = [mode.lower() for mode in MODES if mode not in view["modes"]]
        modes = ("" if not without else " (mode trace only)" if len(without) == 2 else
                 f" (not in mode {without[0]})")
        lines += [f".It Cm {view['name']}{argument}", roff(f"{capital(view['help'])}{modes}."),
                  *(roff(line) for line in sentences(view["more"]))]
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
    ("docs/man/libnumalloc.3", "options", options_mdoc),
    ("docs/benchmarks.md", "benchmarks", benchmarks_markdown),
    ("docs/man/numalloc-bench.1", "benchmarks", benchmarks_mdoc),
    ("docs/numalloc-run.md", "options", run_markdown),
    ("docs/man/numalloc-run.1", "options", run_mdoc),
    ("docs/numalloc-dump.md", "views", lambda: views_markdown(None)),
    ("docs/numalloc-dump.md", "views of accesses", lambda: views_markdown("ACCESSES")),
    ("docs/man/numalloc-dump.1", "views", lambda: views_mdoc(None)),
    ("docs/man/numalloc-dump.1", "views of accesses", lambda: views_mdoc("ACCESSES")),
    ("docs/hardening.md", "attacks", attacks_markdown),
    ("docs/man/numalloc-dump.1", "exports", lambda: views_mdoc("EXPORT")),
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
    if stale:
        print("docs: mend the sources, not this; then run scripts/docs.py, and commit both",
              file=sys.stderr)
    return 1 if stale else 0


try:
    sys.exit(main())
except Mistake as mistake:
    print(f"docs: {mistake}", file=sys.stderr)
    sys.exit(1)
