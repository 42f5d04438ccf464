"""documented.py DOCS PROFILE EXPORT... - the command lines of the documents DOCS/*.md that write an
EXPORT of one profile to a file, and what stands behind them in the same line and reads that file, as
a script: a line each, `export NAME; writer; reader..`, separated by tabs."""
import glob
import re
import shlex
import sys


def commands(line):
    """What stands in a line of a document as code."""
    if line.startswith("    "):
        return [line.split(" # ")[0].strip()]
    return re.findall(r"`([^`]+)`", line)


def documented(text, profile, exports):
    for line in text.splitlines():
        spans = commands(line)
        for i, span in enumerate(spans):
            words = shlex.split(span) if span.startswith("numalloc-dump ") else []
            if len(words) < 5 or words[1] not in exports or words[2] not in ("FILE", "app.nprof") or words[3] != "-o":
                continue
            words[2] = profile
            readers = [each for each in spans[i + 1:] if words[4] in each.split()]
            yield words[1], [shlex.join(words), *readers]


def main(docs, profile, *exports):
    seen = set()
    for path in sorted(glob.glob(docs + "/*.md")):
        for name, lines in documented(open(path, encoding="utf-8").read(), profile, exports):
            if (name, *lines) not in seen:
                print("\t".join([name, *lines]))
            seen.add((name, *lines))


main(*sys.argv[1:])
