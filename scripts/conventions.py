#!/usr/bin/env python3
"""conventions.py - what no compiler checks of names, commits and the workflow of a forge.

- A header's guard is its path; lists that are included more than once have none.
- No two headers define a type of the same name; no file of profiler/ has the name of another file of
  the sources (but main.c, CMakeLists.txt).
- The unit tests, tests/**/test_NAME.c, lie in the folder that their sources have: NAME is a file of
  that folder, or the folder, or the test's first comment names files of it.
- Each of the last ten commits, as far as this clone has them, has a subject under 60 characters
  without a full stop, an empty line, and a body that says why.
- The core, alloc/core/ and pagemap/, is at most CORE_LINES lines of code (comments and blank lines
  are not counted) in CORE_FILES files: one person is to hold it in the head. It has CORE_TUNED numbers
  that could be others, alloc/core/sys/tuned.h, and each says what it is for.
- .github/workflows/: is YAML, and every script that it names is there and can be run.

usage: scripts/conventions.py
Exit status 1 if there is a fault; each is one line."""
import collections
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOPS = ("alloc", "pagemap", "profiler", "bench", "include", "kmod-ibs", "tests")
CORE_LINES, CORE_FILES, CORE_TUNED = 11225, 90, 18
FOREIGN = "tests/lab/ibs/" # files for another project's tree
GUARD = re.compile(r"^#ifndef (\w+)\n#define \1$", re.M)
TYPE = re.compile(r"^\} (na_\w+_t);|^typedef [^;{]*?\b(na_\w+_t)(?:;|\)\()", re.M)


def headers_and_types(paths):
    types = collections.defaultdict(set)
    for path in paths:
        name = str(path.relative_to(ROOT))
        if path.suffix != ".h" or name.startswith(FOREIGN):
            continue
        text = path.read_text()
        wanted = "NUMALLOC_" + re.sub(r"\W", "_", name.removeprefix("include/numalloc/")).upper()
        guard = GUARD.search(text)
        if guard and guard[1] != wanted:
            yield f"{name}: its guard is {guard[1]}, not {wanted}"
        if not guard and not name.startswith("tests/"):
            yield f"{name}: has no guard; it would be {wanted}"
        for found in TYPE.finditer(re.sub(r"/\*.*?\*/", "", text, flags=re.S)):
            types[found[1] or found[2]].add(name)
    for word, where in sorted(types.items()):
        if len(where) > 1:
            yield f"{word}: is defined in {' and '.join(sorted(where))}"


def file_names(paths):
    names = collections.defaultdict(list)
    for path in paths:
        name = str(path.relative_to(ROOT))
        if not name.startswith("tests/") and path.name != "main.c":
            names[path.name].append(name)
    for where in names.values():
        if len(where) > 1 and any(name.startswith("profiler/") for name in where):
            yield f"{' and '.join(sorted(where))} have the same name"


def unit_tests(paths):
    for path in paths:
        name = str(path.relative_to(ROOT))
        if not name.startswith("tests/") or not path.name.startswith("test_"):
            continue
        folder = ROOT / path.parent.relative_to(ROOT / "tests")
        if not folder.is_dir() or folder == ROOT:
            yield f"{name}: there are no sources in {path.parent.relative_to(ROOT / 'tests')}/ to be tested"
            continue
        subject = path.stem.removeprefix("test_")
        said = re.findall(r"\b\w+\.[ch]\b", path.read_text().split("*/")[0])
        if not (subject == folder.name or any((folder / (subject + end)).exists() for end in (".c", ".h"))
                or any(found.name in said for found in folder.rglob("*.[ch]"))):
            yield f"{name}: its first comment names no file of {folder.relative_to(ROOT)}/"


def core_size(paths):
    core = [path for path in (*paths, ROOT / "alloc/core/sys/options.def")
            if str(path.relative_to(ROOT)).startswith(("alloc/core/", "pagemap/"))]
    lines = sum(1 for path in core
                for line in re.sub(r"/\*.*?\*/|//[^\n]*", lambda found: "\n" * found[0].count("\n"),
                                   path.read_text(), flags=re.S).splitlines() if line.strip())
    if lines > CORE_LINES or len(core) > CORE_FILES:
        yield (f"the core is {lines} lines of code in {len(core)} files, at most {CORE_LINES} and "
               f"{CORE_FILES} are wanted")


def tuned():
    """The numbers of the core that could be others."""
    text = (ROOT / "alloc/core/sys/tuned.h").read_text()
    numbers = re.findall(r"^#define (NA_\w+) .*$", text, re.M)
    said = re.findall(r"^#define (NA_\w+) .*/\* [^*]+: [^*]+ \*/$", text, re.M)
    if len(numbers) > CORE_TUNED:
        yield f"tuned.h has {len(numbers)} numbers, at most {CORE_TUNED} are wanted"
    for name in sorted(set(numbers) - set(said)):
        yield f"tuned.h: {name} does not say what it is for"


def commits():
    """Without git, or in an archive, there are none."""
    done = subprocess.run(["git", "-C", ROOT, "log", "-10", "--no-merges", "--format=%h%x01%B%x02"],
                          capture_output=True, text=True) if (ROOT / ".git").exists() else None
    if done is None or done.returncode != 0:
        return
    for commit in done.stdout.split("\x02")[:-1]:
        name, message = commit.strip().split("\x01")
        subject, *rest = message.strip().split("\n")
        if len(subject) >= 60:
            yield f"commit {name}: its subject has {len(subject)} characters, 59 are the most: {subject}"
        if subject.endswith("."):
            yield f"commit {name}: its subject ends with a full stop: {subject}"
        if len(rest) < 2 or rest[0] or not rest[1]:
            yield f"commit {name}: no empty line, and a body that says why: {subject}"


def workflows():
    paths = sorted((ROOT / ".github/workflows").glob("*.yml"))
    if not paths:
        yield ".github/workflows: has no workflow"
    for path in paths:
        text = path.read_text()
        try:
            import yaml
            if not isinstance(yaml.safe_load(text), dict):
                yield f"{path.name}: is no mapping"
        except ImportError:
            pass # python3-yaml is not installed: the scripts are checked all the same
        except yaml.YAMLError as error:
            yield f"{path.name}: {str(error).splitlines()[0]}"
        for script in sorted(set(re.findall(r"(?:\./|scripts/|tests/)[\w./-]+\.(?:sh|py)\b", text))):
            if not os.access(ROOT / script, os.X_OK):
                yield f"{path.name}: {script} is not there, or cannot be run"


def main():
    if len(sys.argv) != 1:
        sys.exit("usage: scripts/conventions.py")
    paths = [path for top in TOPS for path in sorted((ROOT / top).rglob("*.[ch]"))]
    checks = (headers_and_types(paths), file_names(paths), unit_tests(paths), core_size(paths), tuned(), commits(), workflows())
    faults = [fault for check in checks for fault in check]
    if len(paths) < 500:
        faults.append(f"scripts/conventions.py: found {len(paths)} files only")
    print("\n".join(faults) or "conventions: ok")
    return 1 if faults else 0


sys.exit(main())
