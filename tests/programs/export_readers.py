"""export_readers.py KNOWN.json DIRECTORY - reads what numalloc-dump writes, each format by what it
says itself, down to the same four figures of each function: bytes at the peak, bytes live at the
end, bytes in total, allocations. As a program: they are those of KNOWN.json, which a program whose
allocations are known wrote, in text, json, decoded (pprof, as protoc shows it), callgrind and, where
it is there, page.html of DIRECTORY."""
import base64
import json
import os
import re
import sys
import zlib

FIGURES = ("peak_bytes", "live_bytes", "total_bytes", "allocations")


def add(sums, name, figures):
    sums[name] = tuple(a + b for a, b in zip(sums.get(name, (0,) * len(figures)), figures))


def text_bytes(value):
    """As text has them."""
    units = ["B", "KiB", "MiB", "GiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    digits = 0 if units[0] == "B" else 2 if value < 9.995 else 1 if value < 99.95 else 0
    return "%.*f %s" % (digits, value, units[0])


def read_text(path):
    """The functions' rows: figures as written."""
    size = r"([0-9.]+ (?:[KMG]i)?B)"
    row = r"^ *%s +[0-9.]+ %% +%s +%s +([0-9,]+) .*  (\w+)  \S+\.c:\d+" % (size, size, size)
    return {m.group(5): m.groups()[:4] for m in re.finditer(row, open(path).read(), re.M)}


def read_json(path):
    d = json.load(open(path))
    sums = {}
    for site in d["sites"]:
        add(sums, d["functions"][site["responsible"]]["name"], [site.get(key, 0) for key in FIGURES])
    return sums


def read_protobuf(path):
    """protobuf's text form: nested "name { ... }" and "name: value" lines."""

    def parse(lines):
        message = {}
        for line in lines:
            line = line.strip()
            if line == "}":
                return message
            if line.endswith("{"):
                message.setdefault(line[:-1].strip(), []).append(parse(lines))
                continue
            key, value = line.split(":", 1)
            value = value.strip()
            words = {"true": 1, "false": 0}
            value = value[1:-1] if value.startswith('"') else words[value] if value in words else int(value)
            message.setdefault(key, []).append(value)
        return message

    return parse(iter(open(path, encoding="utf-8")))


def first(message, key):
    return message.get(key, [0])[0]


def pprof_stacks(p):
    """Of each sample its values and its functions, innermost first."""
    strings = p["string_table"]
    functions = {first(f, "id"): strings[first(f, "name")] for f in p["function"]}
    locations = {first(l, "id"): l for l in p["location"]}
    for sample in p["sample"]:
        lines = [line for id in sample["location_id"] for line in locations[id]["line"]]
        yield sample["value"], [functions[first(line, "function_id")] for line in lines]


def read_pprof(path):
    sums = {}
    for values, stack in pprof_stacks(read_protobuf(path)):
        count, total, _, live, peak = values
        add(sums, stack[0], (peak, live, total, count))
    return sums


def read_callgrind(path):
    sums, function, inclusive = {}, None, False
    for line in open(path):
        if line.startswith("fn="):
            function = line.split(" ", 1)[1].strip()
        elif line.startswith("calls="):
            inclusive = True
        elif function is not None and re.match(r"[0-9]+( [0-9]+){4}$", line):
            if not inclusive:
                add(sums, function, [int(v) for v in line.split()[1:]])
            inclusive = False
    return sums


def read_page_data(path):
    page = open(path, encoding="utf-8").read()
    data = re.search(r'<script type="application/octet-stream" id="data">([^<]*)</script>', page).group(1)
    return json.loads(zlib.decompress(base64.b64decode(data)))


def read_page(path):
    d = read_page_data(path)
    sums = {}
    for row, frame in enumerate(d["sites"]["by"]):
        name = d["strings"][d["functions"]["name"][d["frames"]["function"][frame]]]
        add(sums, name, [d["sites"]["values"][m][row] for m in ("peak", "live", "total", "count")])
    return sums


def main(known, work):
    known = {name: tuple(f[key] for key in FIGURES) for name, f in json.load(open(known)).items()}
    assert len(known) > 4, known
    rows = read_text(work + "/text")
    for name, figures in known.items():
        wanted = (*map(text_bytes, figures[:3]), "{:,}".format(figures[3]))
        assert rows.get(name) == wanted, ("text", name, rows.get(name), wanted)
    formats = {"json": read_json, "decoded": read_pprof, "callgrind": read_callgrind}
    if os.path.exists(work + "/page.html"):
        formats["page.html"] = read_page
    for file, read in formats.items():
        sums = read(work + "/" + file)
        for name, figures in known.items():
            assert sums.get(name) == figures, (file, name, sums.get(name), figures)
    print("%d functions in text, %s" % (len(known), ", ".join(formats).replace("decoded", "pprof")))


if __name__ == "__main__":
    main(*sys.argv[1:])
