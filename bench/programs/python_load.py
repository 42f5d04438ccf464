"""python_load.py - what python.sh runs: documents parsed, indexed, sorted and written again."""
import ast
import collections
import gc
import json
import random
import re
import sys
import xml.etree.ElementTree as tree


def load(directory):
    with open(directory + "/records.json", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def index(records):
    """An inverted index: many lists that grow one by one."""
    found = collections.defaultdict(list)
    for record in records:
        for word in record["note"].split():
            found[word].append(record["id"])
    return {word: tuple(sorted(set(places))) for word, places in found.items()}


def text(records):
    """Long strings made of short ones, cut up again."""
    page = "\n".join("%(id)08d %(name)s: %(note)s" % record for record in records)
    page = re.sub(r"\b([a-z]{3})([a-z]+)\b", lambda m: m.group(2) + m.group(1), page)
    lines = page.splitlines()
    lines.sort(key=lambda line: line[9:])
    return collections.Counter(word for line in lines[::4] for word in line.split()), len(page)


def document(records):
    root = tree.Element("orders")
    for record in records:
        order = tree.SubElement(root, "order", {"id": str(record["id"]), "customer": str(record["customer"])})
        tree.SubElement(order, "note").text = record["note"]
        for tag in record["tags"]:
            tree.SubElement(order, "tag").text = tag
    again = tree.fromstring(tree.tostring(root))
    return sum(len(note.text or "") for note in again.iter("note"))


def compile_some(count):
    source = open(random.__file__, encoding="utf-8").read()
    return sum(len(list(ast.walk(ast.parse(source)))) for _ in range(count))


def main():
    records = load(sys.argv[1])
    words = index(records)
    counted, length = text(records)
    print(len(records), len(words), length, counted.most_common(3))
    print(document(records[: len(records) // 3]))
    again = json.loads(json.dumps(records))
    print(again == records, compile_some(1 + len(records) // 8000))
    table = {(record["customer"], record["id"] % 97): record for record in again}
    del again
    gc.collect()
    for key in sorted(table)[::3]:
        del table[key]
    print(len(table), sum(len(row["tags"]) for row in table.values()))


main()
