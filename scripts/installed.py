#!/usr/bin/env python3
"""installed.py DEB... - holds what the pages, the manual, the examples and the tools' own words call an
installed file to what the packages have.

What is preloaded is in the two packages that the README installs first; a path may also be in a package
that its page names; a name of a library or program in any.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIRST = ("libnumalloc0", "numalloc-tools")
LIBRARIES = "/usr/lib/x86_64-linux-gnu/"
PRELOAD = re.compile(r"LD_PRELOAD(?:=|: |, value: )[\"']?([^\s\"'`,:;|)}]*libnumalloc[\w.+-]*)"
                     r"|(?:preload|put) (libnumalloc[\w.+-]*)")
PATH = re.compile(r"(?<![\w.$})/*-])/(?:usr|lib)/[\w./+-]*numalloc[\w./+-]*")
NAME = re.compile(r"(?<![\w$})./-])(libnumalloc[a-z-]*\.(?:so(?:\.\d+)*|a)|numalloc-[a-z]+\.(?:timer|service))(?![\w-])")


def pages():
    yield ROOT / "README.md"
    for pattern in ("docs/*.md", "docs/man/*", "docs/examples/**/*", "profiler/ship/*", "scripts/completion/**/*"):
        yield from sorted(ROOT.glob(pattern))
    for folder in ("alloc", "profiler", "bench", "include"):
        for pattern in ("*.c", "*.h", "*.def"):
            yield from sorted((ROOT / folder).rglob(pattern))


def whole(path):
    """As on a system whose /lib is /usr/lib."""
    return "/usr" + path if path.startswith("/lib/") else path


def main():
    files = {}
    for deb in sys.argv[1:]:
        listed = subprocess.run(["dpkg-deb", "-c", deb], check=True, capture_output=True, text=True).stdout
        files[pathlib.Path(deb).name.split("_")[0]] = {
            whole(re.split(r" -> | link to ", line.split(None, 5)[5])[0].removeprefix(".").rstrip("/"))
            for line in listed.splitlines()}
    if not set(FIRST) <= set(files):
        print(__doc__, file=sys.stderr)
        return 2
    first = set().union(*(files[package] for package in FIRST))
    every = {path.rsplit("/", 1)[1] for paths in files.values() for path in paths if path}
    wrong, seen = [], 0
    for page in pages():
        if not page.is_file():
            continue
        try:
            text = page.read_text()
        except UnicodeDecodeError:
            continue
        named = first.union(*(paths for package, paths in files.items() if package in text))
        for number, line in enumerate(text.splitlines(), 1):
            for found in PRELOAD.finditer(line):
                value = (found[1] or found[2]).rstrip(".")
                if "/" in value and not value.startswith("/usr/") or "$" in value:
                    continue # of a build
                seen += 1
                if (value if "/" in value else LIBRARIES + value) not in first:
                    wrong.append((page, number, f"'{value}' is not in {' or '.join(FIRST)}"))
            for found in PATH.finditer(line):
                seen += 1
                if whole(found[0].rstrip("./")) not in named:
                    wrong.append((page, number, f"'{found[0]}' is in no package that the page names"))
            for found in NAME.finditer(line):
                seen += 1
                if found[1] not in every:
                    wrong.append((page, number, f"'{found[1]}' is in no package"))
    for page, number, what in wrong:
        print(f"{page.relative_to(ROOT)}:{number}: {what}", file=sys.stderr)
    if seen < 50:
        print(f"installed.py: only {seen} names were found; its patterns do not fit the pages", file=sys.stderr)
    else:
        print(f"{seen} names of installed files")
    return 1 if wrong or seen < 50 else 0


sys.exit(main())
