"""The cost of Python frames: JSON and regular expressions. Argument: lines of text."""
import json
import re
import sys


def parse(text):
    return [json.loads(line) for line in text.splitlines()]


def find(rows):
    return [re.findall(r"\w+", row["name"]) for row in rows]


lines = int(sys.argv[1])
text = "\n".join(json.dumps({"id": i, "name": "name %d of %d" % (i, i * 7)}) for i in range(lines))
for _ in range(4):
    find(parse(text))
