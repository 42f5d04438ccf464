import csv, io, json, re, textwrap
def rows(n):
    for i in range(n):
        yield {"id": i, "name": "name %d" % i, "tags": ["t%d" % k for k in range(i % 50)]}
def main():
    text = json.dumps(list(rows(400)), indent=1)
    back = json.loads(text)
    out = io.StringIO()
    w = csv.DictWriter(out, ["id", "name", "tags"])
    for r in back: w.writerow(r)
    words = re.findall(r"[a-z]+", text)
    index = {}
    for i, word in enumerate(words): index.setdefault(word, []).append(i)
    return text, back, out.getvalue(), index, textwrap.wrap(text[:20000])
kept = main()
