"""ship_check.py PROTO KIND REQUEST EXPECTATION... - is a request of ship_server.py what a server of
this kind takes? The profile in it is decoded by protoc. Expectations are expressions over
`name` (Pyroscope: name{labels}), `labels` (of the request), `samples` (labels of samples), `query`,
`headers`, `time`, `duration` (ms) and `sums`: sample type -> function -> sum."""
import base64
import email.parser
import gzip
import json
import subprocess
import sys
import urllib.parse

from export_readers import first, read_protobuf

proto, kind, request, *expected = sys.argv[1:]
head = json.load(open(request + ".json"))
body = open(request + ".body", "rb").read()
headers = head["headers"]
url = urllib.parse.urlsplit(head["path"])
query = {k: v[0] for k, v in urllib.parse.parse_qs(url.query, strict_parsing=bool(url.query)).items()}
labels, name = {}, None
if kind == "pyroscope":
    assert url.path == "/ingest" and query["format"] == "pprof" and int(query["from"]) < int(query["until"]), head
    name = query["name"]
    assert name.endswith("}"), name
    labels = dict(pair.split("=") for pair in name[name.index("{") + 1:-1].split(","))
    message = email.parser.BytesParser().parsebytes(
        b"Content-Type: " + headers["Content-Type"].encode() + b"\r\n\r\n" + body)
    parts = {p.get_param("name", header="content-disposition"): p.get_payload(decode=True) for p in message.get_payload()}
    assert set(parts) == {"profile", "sample_type_config"}, list(parts)
    config = json.loads(parts["sample_type_config"])
    data = parts["profile"]
elif kind == "parca":
    assert url.path == "/api/profiles/writeraw" and headers["Content-Type"] == "application/json", head
    (series,) = json.loads(body)["series"]
    labels = {pair["name"]: pair["value"] for pair in series["labels"]["labels"]}
    data = base64.b64decode(series["samples"][0]["rawProfile"], validate=True)
    config = None
else:
    data, config = body, None
text = subprocess.run(["protoc", "--decode=perftools.profiles.Profile", "-I" + proto, proto + "/profile.proto"],
                      input=gzip.decompress(data), stdout=subprocess.PIPE, check=True).stdout
open(request + ".txt", "wb").write(text)
p = read_protobuf(request + ".txt")
strings = p["string_table"]
types = [strings[first(t, "type")] for t in p["sample_type"]]
assert config is None or set(config) == set(types), (config, types)
functions = {first(f, "id"): strings[first(f, "name")] for f in p.get("function", [])}
locations = {first(l, "id"): l for l in p.get("location", [])}
sums, samples = {t: {} for t in types}, {}
for sample in p.get("sample", []):
    stack = [functions[first(line, "function_id")] for id in sample["location_id"] for line in locations[id]["line"]]
    samples = {strings[first(l, "key")]: strings[first(l, "str")] for l in sample["label"]}
    for t, value in zip(types, sample["value"]):
        for function in set(stack):
            sums[t][function] = sums[t].get(function, 0) + value
time, duration = first(p, "time_nanos") / 1e6, first(p, "duration_nanos") / 1e6
for one in expected:
    assert eval(one), (one, name, labels, samples, {t: {f: v for f, v in s.items() if f.startswith("web")} for t, s in sums.items()})
