#!/usr/bin/env python3
"""names.py - static functions and variables have names of their own.

A name that two files define makes a reader ask each time which one is meant, and says little of
either: mostly it is a bare verb or a word such as `table`. So within each of GROUPS a static name
is defined in one file only, and what it is about is in it. Names in functions do not count.

usage: scripts/names.py
Exit status 1 if there is a fault; each is one line."""
import collections
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GROUPS = [["alloc", "pagemap"], ["profiler"], ["bench"]]
# What may have the same name in many files, and why.
EXCEPTIONS = {
    "knobs_table": "each benchmark's list of knobs, by a macro",
}

# Comments and texts, which may hold anything, and lines of the preprocessor.
BLANK = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*',
                   re.S | re.M)
# What may stand around a name besides its type, arguments and all.
AROUND = re.compile(r"\b(?:__attribute__|_Alignas|_Static_assert|[A-Z][A-Z_0-9]*)\s*\(")


def collapsed(text):
    """What stands outside of braces, with {} for each pair."""
    parts, depth, begin = [], 0, 0
    for at, sign in enumerate(text):
        if sign == "{":
            if depth == 0:
                parts.append(text[begin:at] + "{}")
            depth += 1
        elif sign == "}":
            depth -= 1
            begin = at + 1
    return "".join(parts) + text[begin:]


def statements(text):
    """Declarations and the heads of functions, without their braces."""
    head = ""
    for part in re.split(r"(;|\{\})", collapsed(text)):
        if part == ";" or (part == "{}" and head.rstrip().endswith(")")):
            yield head
            head = ""
        elif part != "{}": # of a structure or of values: the name is before or behind it
            head += part


def without(head):
    """The head without what is around names."""
    while found := AROUND.search(head):
        depth, at = 1, found.end()
        while depth > 0 and at < len(head):
            depth += {"(": 1, ")": -1}.get(head[at], 0)
            at += 1
        head = head[:found.start()] + " " + head[at:]
    return head


def names(head):
    """What a static declaration declares."""
    head = without(re.sub(r"_Atomic\s*\(", "(", head))
    head = re.sub(r"\[[^\]]*\]", "", head)
    pointer = re.search(r"\(\s*\*\s*(?:const\s+)?(\w+)\s*\)\s*\(", head.split("=")[0])
    function = re.match(r"[\w\s*]*?\b(\w+)\s*\((?!\s*\*)", head)
    if function and function.group(1) not in ("static", "const", "volatile"):
        return [function.group(1)]
    if pointer:
        return [pointer.group(1)]
    head = re.sub(r"[()]", " ", re.sub(r"=[^,]*", "", head))
    return [part.split()[-1].lstrip("*") for part in head.split(",") if part.split()]


def main():
    if len(sys.argv) != 1:
        sys.exit("usage: scripts/names.py")
    faults, seen = [], 0
    for group in GROUPS:
        files = collections.defaultdict(set)
        for top in group:
            for folder, _, found in os.walk(os.path.join(ROOT, top)):
                for name in found:
                    if not name.endswith((".c", ".h")):
                        continue
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        text = BLANK.sub(" ", file.read())
                    for head in statements(text):
                        if re.search(r"\bstatic\b", head):
                            for word in names(head):
                                files[word].add(os.path.relpath(path, ROOT))
        seen += len(files)
        for word, where in sorted(files.items()):
            if len(where) > 1 and word not in EXCEPTIONS:
                faults.append(f"{word}: is defined in {', '.join(sorted(where))}")
    if seen < 1000:
        faults.append(f"scripts/names.py: found {seen} names only")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


sys.exit(main())
