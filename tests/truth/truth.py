#!/usr/bin/env python3
"""truth.py - holds the names, files, lines and figures of numalloc-dump against programs that are generated.

    tests/truth/truth.py LIBRARY NUMALLOC-DUMP [--set small|base|formats|languages|all] [--cells PATTERN]
                         [--json FILE] [--wrong N] [--against FILE] [--keep DIR] [-v]

Each function of a program (cases_*.py) allocates bytes that are a code of its own, in a known number of
blocks. A cell is one way to build the program. In a cell a function is one of three:

    right   one row of `functions` has exactly its bytes and blocks, with its name (in full and as text shows it),
            and its file and line where the build holds them
    said    that can't be known from the build, and numalloc-dump says so: an address for a name, "?::" for what a
            name lies in, a line below the table for calls that were inlined
    wrong   anything else

--json keeps what the file has of cells that were not run, each with the commit of its run.

--oracles asks gdb and llvm-symbolizer for the name at the addresses at which functions allocate: how often
each agrees with the truth, and where one does and numalloc-dump does not.

Exit status 1: more than --wrong functions are wrong, or more in a cell than --against, a FILE that --json wrote, has
there, or an oracle knew better; 77: no cell can be built here.
"""
import argparse
import csv
import datetime
import fnmatch
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import cases_cxx
import cases_others
import cells
import oracles

PRELUDE = """// Made by truth.py.
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#if __cplusplus >= 202002L && defined __cpp_impl_coroutine
#include <coroutine>
#endif
#define NOINLINE __attribute__((noinline))
#define INLINE __attribute__((always_inline)) inline
static void *volatile kept[100000]; static int kept_count; static void *last;
static INLINE void keep(void *p) { last = p; kept[kept_count++] = p; }
static INLINE void use(void *p) { __asm__ volatile("" : : "r"(p) : "memory"); }
static std::vector<std::vector<char>> kept_vectors; static std::vector<std::string> kept_strings;
static INLINE void keep_vector(std::vector<char> &&v) { kept_vectors.push_back(std::move(v)); }
static INLINE void keep_string(std::string &&s) { kept_strings.push_back(std::move(s)); }
#define ASKS(size, blocks) for (int ask = 0; ask < blocks; ask++) keep(std::malloc(size));
"""


class Function:
    """What is true of one function."""
    def __init__(self, name, file, line, size, blocks, within):
        self.name, self.file, self.line, self.size, self.blocks, self.within = name, file, line, size, blocks, within
        self.bytes = size * blocks

    def __repr__(self):
        return self.name


def generate(directory, standard, has):
    """Writes the program; returns its functions. `has(feature)`: can this compiler do that?"""
    lines = PRELUDE.rstrip().split("\n")
    functions, calls, number = [], [], 0
    (directory / "vendor/include/c++").mkdir(parents=True, exist_ok=True)
    for case in cases_cxx.CASES:
        if case["standard"] > standard or (case["needs"] and not has(case["needs"])):
            continue
        text, file = case["text"], "truth.cpp"
        if "headers.hpp" in text:
            file = "headers.hpp"
            text = cases_cxx.HEADER
        first = None
        for ask in ("ASK2", "ASK") if "ASK2" in text else ("ASK",):
            number += 1
            size, blocks = 4001 + 24 * number, 3 + number % 4
            text = re.sub(rf"\b{ask}\b", f"ASKS({size}, {blocks})", text)
            text = re.sub(r"\bSIZE\b", str(size), re.sub(r"\bBLOCKS\b", str(blocks), text))
            at = len(lines) if file == "truth.cpp" else 0
            line = at + 1 + next(i for i, l in enumerate(text.split("\n")) if "//DEF" in l) + (ask == "ASK2")
            times = case["also"] if isinstance(case["also"], int) else 1
            functions.append(Function(case["name"], file, line, size, blocks * times, case["within"]))
        if file == "headers.hpp":
            (directory / "vendor/include/c++/headers.hpp").write_text(text.replace("//DEF", "// here"))
            text = case["text"]
        lines += text.replace("//DEF", "// here").split("\n")
        if case["call"]:
            calls.append(case["call"])
    lines.append("int main() { kept_vectors.reserve(100); kept_strings.reserve(100);")
    lines += ["    " + call for call in calls] + ["}"]
    (directory / "truth.cpp").write_text("\n".join(lines) + "\n")
    return functions


def generate_other(directory, language):
    """The same for a program of another language."""
    it = cases_others.LANGUAGES[language]
    functions = []
    sizes = [4000 + 24 * (i + 1) for i in range(len(it["functions"]))]
    for path, text in it["files"].items():
        text = re.sub(r"@(\d)", lambda found: str(sizes[int(found[1]) - 1]), text.lstrip("\n"))
        for i, function in enumerate(it["functions"]):
            for number, line in enumerate(text.split("\n")):
                if re.search(rf"DEF{i + 1}\b", line):
                    functions.append((i, Function(function[0], os.path.basename(path), number + 1, sizes[i], function[1],
                                                  function[2] if len(function) > 2 else None)))
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)
    return [function for _, function in sorted(functions, key=lambda pair: pair[0])]


def run(command, cwd, **more):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, errors="replace", timeout=1200, **more)


def rows_of(dump, profile, cwd):
    """The rows of `functions`, each with its label of the text."""
    base = [dump, "functions", "--top", "0", "--sort", "total", "--symbol-cache", "off"]
    table = run([*base, "--csv", profile], cwd)
    rows = list(csv.DictReader(io.StringIO(table.stdout)))
    text = run([*base, "--addresses", profile], cwd).stdout
    labels = re.findall(r"^.* %  (\S.*)$", text.split("\n\n")[0], re.M)
    own = [row for row in rows if float(row["sites"] or 0) > 0]
    for row, label in zip(own, labels):
        row["label"] = re.sub(r"  +by .*$", "", label)
        row["by"] = label[len(row["label"]):]
    return own, table.stderr


KINDS = ("right", "said", "wrong")
AFTER = r"(?=$|[<(\[ ])"


def named(row):
    return re.search(r"\+0x[0-9a-f]+$", row["function"]) is None and row["function"] != "?"


SAYS_INLINED = re.compile("Inlined calls:|inlined calls count as their caller's")


def unnamed(function, found, report):
    """Of a file without symbols: the function's own range of code, or another's, but nobody's name."""
    wrong = [r["function"] for r in found if named(r)]
    if wrong:
        return "wrong", f"guessed: {wrong[0]}"
    if "Names:" in report or "No symbols:" in report:
        return "said", "an address"
    return "wrong", "without a name, and nothing is said"


def verdict(function, rows, level, report):
    """right, said or wrong, and what of it."""
    found = [r for r in rows if float(r["total_bytes"]) == function.bytes and float(r["allocations"]) == function.blocks]
    if level == "none":
        return unnamed(function, found, report)
    if not found:
        near = [r["function"] for r in rows if re.search(function.name + AFTER, r["function"])]
        return "wrong", "no row of its own" + (f"; merged? {near[0]}" if near else "")
    row = found[0]
    last = r"operator\(\)" if "lambda" in function.name else re.sub(r"^.*::(?![^(]*\))", "", function.name)
    if level == "lines" and re.fullmatch(r"\?::" + last + "(<.*>)?", row["function"]):
        return "said", f"named {row['function']}"
    if not re.search(r"(?:^|[\s*&(])" + function.name + AFTER, row["function"]):
        return "wrong", f"named {row['function'][:160]}"
    if not re.match(function.name + AFTER, row.get("label", "")) and len(row["function"]) < 400:
        return "wrong", f"shown as {row.get('label', '')[:160]}"
    if level == "symbols" or (level == "lines" and row["file"] == ""):
        return "right", None
    place = f"{os.path.basename(row['file'])}:{float(row['line'] or 0):.0f}"
    if place == f"{function.file}:{function.line}":
        return "right", None
    return "wrong", f"placed at {place}, not {function.file}:{function.line}"


def inlined_verdict(report):
    if SAYS_INLINED.search(report):
        return "said", "inlined, counts as its caller's"
    return "wrong", "counts as its caller's, and nothing is said"


def library_verdict(function, rows):
    """A program's own part of std is known by its file alone; else it stands behind the row of its caller."""
    if any(re.search(" by .*" + function.name, row.get("by", "")) for row in rows):
        return "said", "counts as its caller's, by it"
    return "wrong", "counts as its caller's"


def verdicts(functions, rows, level, report):
    """[(function, class, what of it)]"""
    judged = []
    for f in functions:
        if f.name.startswith("std::") and level in ("lines", "symbols"):
            found, what = verdict(f, rows, level, report)
            if found != "right":
                found, what = library_verdict(f, rows)
        elif level not in ("symbols", "none"):
            found, what = verdict(f, rows, level, report)
        elif f.within:
            found, what = inlined_verdict(report) if level == "symbols" else unnamed(f, [], report)
        else:
            inner = [g for g in functions if g.within and re.fullmatch(g.within, f.name.replace("\\", ""))]
            merged = Function(f.name, f.file, f.line, f.size, f.blocks, None)
            merged.bytes, merged.blocks = f.bytes + sum(g.bytes for g in inner), f.blocks + sum(g.blocks for g in inner)
            found, what = verdict(merged, rows, level, report)
            if found == "right" and inner:
                found, what = inlined_verdict(report)
        judged.append((f.name, found, what))
    return judged


def check(cell, library, dump, directory, with_oracles):
    """One cell: the verdicts, what oracles say, and what was said to stderr; or why there is none."""
    compiler = cell.compiler
    if cell.language == "cxx":
        functions = generate(directory, cell.standard, lambda feature: feature not in cell.lacks and cells.has(compiler, feature, cell.standard))
    else:
        functions = generate_other(directory, cell.language)
    for command in cell.commands():
        made = run(command, directory, shell=True)
        if made.returncode != 0:
            return None, f"does not build: {' '.join((made.stderr or made.stdout).split())[:300]}"
    profile = directory / "truth.nprof"
    profile.unlink(missing_ok=True)
    environment = {**os.environ, "LD_PRELOAD": library, "NUMALLOC_PROFILE": "sites", "NUMALLOC_PROFILE_FILE": str(profile)}
    ran = run(["./truth"], directory, env=environment)
    if ran.returncode != 0 or not profile.exists():
        return None, f"does not run: {ran.returncode} {ran.stderr[:200]}"
    for command in cell.after():
        run(command, directory, shell=True)
    rows, said = rows_of(dump, profile, directory)
    report = run([dump, "--symbol-cache", "off", profile], directory).stdout
    judged = verdicts(functions, rows, cell.level, report)
    if cell.says is not None and cell.says not in report:
        judged.append(("the report", "wrong", f"does not say '{cell.says}'"))
    asked = {}
    if with_oracles and cell.language == "cxx" and cell.level != "none" and not cell.after():
        sites = json.loads(run([dump, "sites", "--json", "--stacks", "--top", "0", "--symbol-cache", "off", profile], directory).stdout)
        asked = oracles.ask(directory / "truth", functions, judged, sites["rows"])
    return (judged, asked, said.strip()), None


def write_json(path, results):
    """Cells that the file has of other runs stay, each with its commit."""
    known = {r["cell"]: r for r in json.loads(path.read_text())["cells"]} if path.exists() else {}
    known.update((r["cell"], r) for r in results)
    every = [known[cell.name] for cell in cells.cells("all") if cell.name in known]
    head = {"date": datetime.date.today().isoformat(), **{kind: sum(r.get(kind, 0) for r in every) for kind in KINDS}}
    lines = ",\n".join("  " + json.dumps(r) for r in every)
    path.write_text(json.dumps(head, indent=1)[:-2] + f',\n "cells": [\n{lines}\n ]\n}}\n')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("dump")
    parser.add_argument("--cells", default="*")
    parser.add_argument("--set", default="all")
    parser.add_argument("--json")
    parser.add_argument("--wrong", type=int)
    parser.add_argument("--against")
    parser.add_argument("--keep")
    parser.add_argument("--oracles", action="store_true")
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    library, dump = os.path.abspath(options.library), os.path.abspath(options.dump)
    os.environ["ARCHIVE"] = os.path.join(os.path.dirname(library), "libnumalloc.a") + " -pthread"
    os.environ["LC_ALL"] = "C"
    commit = subprocess.run(["git", "describe", "--always"], cwd=pathlib.Path(__file__).parent, capture_output=True, text=True).stdout.strip()
    results, all_counts, failed, knew_better = [], dict.fromkeys(KINDS, 0), 0, 0
    for cell in cells.cells(options.set):
        if not any(fnmatch.fnmatch(cell.name, pattern) for pattern in options.cells.split(",")):
            continue
        why = cell.missing()
        if why:
            results.append({"cell": cell.name, "left out": why})
            print(f"{'-':>9}  {cell.name}: {why}", flush=True)
            continue
        directory = pathlib.Path(options.keep or tempfile.mkdtemp(prefix="numalloc-truth.")) / (re.sub(r"\W+", "_", cell.name) if options.keep else ".")
        directory.mkdir(parents=True, exist_ok=True)
        try:
            found, error = check(cell, library, dump, directory, options.oracles)
        except subprocess.TimeoutExpired as late:
            found, error = None, str(late)[:200]
        if not options.keep:
            shutil.rmtree(directory)
        if error:
            failed += 1
            results.append({"cell": cell.name, "failed": error})
            print(f"{'-':>9}  {cell.name}: {error}", flush=True)
            continue
        judged, asked, stderr = found
        counts = {kind: sum(1 for _, its, _ in judged if its == kind) for kind in KINDS}
        wrong = [(name, what) for name, kind, what in judged if kind == "wrong"]
        better = [(oracle, name) for oracle, it in asked.items() for name in it["better"]]
        results.append({"cell": cell.name, "group": cell.group, **counts, "of": len(judged), "wrong ones": wrong,
                        **({"oracles": asked} if asked else {}), **({"stderr": stderr} if stderr else {})})
        all_counts = {kind: all_counts[kind] + counts[kind] for kind in KINDS}
        knew_better += len(better)
        print("".join(f"{counts[kind]:>6}" for kind in KINDS) + f"  {cell.name}"
              + "".join(f"  {oracle} {it['right']}/{it['of']}" for oracle, it in asked.items()), flush=True)
        for oracle, name in better:
            print(f"{'':20}{oracle} knew better: {name}")
        if options.v:
            for name, what in wrong:
                print(f"{'':20}{name}: {what}")
            if stderr:
                print(f"{'':20}stderr: {stderr[:300]}")
    ran = sum(1 for r in results if "of" in r)
    print(", ".join(f"{all_counts[kind]} {kind}" for kind in KINDS)
          + f" in {ran} cells, {sum(1 for r in results if r.get('wrong') == 0)} of them with none wrong; {failed} failed")
    if options.json:
        write_json(pathlib.Path(options.json), [{**r, "commit": commit} for r in results])
    if ran == 0:
        return 77
    if options.against:
        known = {r["cell"]: r["wrong"] for r in json.loads(pathlib.Path(options.against).read_text())["cells"] if "of" in r}
        for r in results:
            if "of" in r and r["wrong"] > known.get(r["cell"], 0):
                print(f"worse than known: {r['cell']}: {r['wrong ones'][:3]}")
                failed += 1
    return 1 if failed or knew_better or (options.wrong is not None and all_counts["wrong"] > options.wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
