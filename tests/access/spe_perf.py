#!/usr/bin/env python3
"""spe_perf.py PERF SPE-RECORDS MAKE - our decoder of Arm's SPE against perf's, on the same bytes.

perf reads them out of a recording that is made here (perf.data with one AUX buffer), and prints
packet by packet; these are put together to records and compared field by field."""

import pathlib
import re
import struct
import subprocess
import sys
import tempfile

EVENTS = ["EXCEPTION-GEN", "RETIRED", "L1D-ACCESS", "L1D-REFILL", "TLB-ACCESS", "TLB-REFILL", "NOT-TAKEN",
          "MISPRED", "LLC-ACCESS", "LLC-REFILL", "REMOTE-ACCESS", "ALIGNMENT"]  # bits 0 to 11
PACKET = re.compile(r"^\.\s+[0-9a-f]{8}:\s+((?:[0-9a-f]{2} )+)\s+(\S.*)$")
FIELDS = ("pc", "el", "target", "va", "pa", "source", "context", "time", "total", "issue", "translate")
LOW = (1 << 56) - 1


def recording(spe):
    """A perf.data file with these bytes."""
    attr = struct.pack("<IIQQQQQ", 99, 112, 0, 1024, 0, 0, 0).ljust(112, b"\0") + struct.pack("<QQ", 0, 0)
    info = struct.pack("<IHH", 70, 0, 32) + struct.pack("<IIQQ", 4, 0, 99, 0)
    trace = struct.pack("<IHH", 71, 0, 48) + struct.pack("<QQQIIII", len(spe), 0, 1, 0, 0, 0, 0) + spe
    data = info + trace
    begin = 104 + len(attr)
    return struct.pack("<8sQQQQQQQQ", b"PERFILE2", 104, len(attr), 104, len(attr), begin, len(data), 0, 0) \
        .ljust(104, b"\0") + attr + data


def packets(perf, directory, spe):
    path = directory / "perf.data"
    path.write_bytes(recording(spe))
    done = subprocess.run([perf, "report", "-D", "--stdio", "-i", str(path)], capture_output=True, text=True,
                          errors="replace")
    if "ARM SPE data" not in done.stdout:
        print("this perf does not read the recording:", done.stderr.strip()[-300:])
        sys.exit(77)
    return [m.group(2).strip() for m in map(PACKET.match, done.stdout.splitlines()) if m]


def records_of(lines):
    """perf's packets, put together."""
    record = {}
    for line in lines:
        word = line.split()
        kind = word[0]
        if kind == "PAD":
            continue
        if kind == "END":
            if record:
                yield record
            record = {}
        elif kind == "TS":
            record["time"] = int(word[1])
            yield record
            record = {}
        elif kind == "PC":
            record["pc"], record["el"] = int(word[1], 16) & LOW, int(word[2][2:])
        elif kind in ("TGT", "VA", "PA"):
            record[{"TGT": "target"}.get(kind, kind.lower())] = int(word[1], 16) & LOW
        elif kind == "PBT" or kind == "ADDR":
            pass  # the target of the branch before
        elif kind == "LAT":
            name = {"TOT": "total", "ISSUE": "issue", "XLAT": "translate"}.get(word[2] if len(word) > 2 else "")
            if name:
                record[name] = int(word[1])
        elif kind == "EV":
            record["events"] = set(word[1:])
        elif kind == "CONTEXT":
            record["context"] = int(word[1], 16)
        elif kind == "DATA-SOURCE":
            record["source"] = int(word[1])
        elif kind in ("LD", "ST", "B", "OTHER", "SVE-OTHER"):
            record["op"] = set(word)
        else:
            raise SystemExit(f"perf says what is not known: {line}")


def ours(tool, path):
    done = subprocess.run([tool, str(path)], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        yield {k: v for k, v in (word.split("=") for word in line.split())}


def same(theirs, our):
    """None, or what differs."""
    for name in FIELDS:
        base = 10 if name in ("source", "time", "total", "issue", "translate", "el") else 16
        value = int(our[name], base) if name in our else None
        if theirs.get(name) != value:
            return f"{name}: perf {theirs.get(name)}, we {value}"
    if ("events" in theirs) != ("events" in our) or ("op" in theirs) != ("op" in our):
        return "events or operation missing"
    if "events" in theirs:
        bits = int(our["events"], 16)
        names = {n for i, n in enumerate(EVENTS) if bits >> i & 1}
        if names != theirs["events"] & set(EVENTS):
            return f"events: perf {sorted(theirs['events'])}, we {sorted(names)}"
    if "op" in theirs:
        op, kind = int(our["op"], 16), int(our["class"])
        word = theirs["op"]
        if {0: bool(word & {"OTHER", "SVE-OTHER"}), 1: bool(word & {"LD", "ST"}), 2: "B" in word}[kind] is not True:
            return f"class: perf {sorted(word)}, we {kind}"
        if kind == 1:
            extended = op & 0xe2 == 2
            if ("ST" in word) != bool(op & 1) or ("AT" in word) != (extended and bool(op & 4)) or \
                    ("EXCL" in word) != (extended and bool(op & 8)):
                return f"operation: perf {sorted(word)}, we {op:#x}"
    return None


def main():
    perf, tool, make = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        subprocess.run([make, "--bare", name], check=True)
        count = 0
        for path in sorted(directory.iterdir()):
            theirs = list(records_of(packets(perf, directory, path.read_bytes())))
            our = list(ours(tool, path))
            if len(theirs) != len(our) or not our:
                raise SystemExit(f"{path.name}: perf has {len(theirs)} records, we {len(our)}")
            for i, (t, o) in enumerate(zip(theirs, our)):
                difference = same(t, o)
                if difference:
                    raise SystemExit(f"{path.name}, record {i}: {difference}")
            count += len(our)
            (directory / "perf.data").unlink()
    print(f"{count} records: perf and we read the same")


if __name__ == "__main__":
    main()
