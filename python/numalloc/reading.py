"""What numalloc-dump says of a profile, for the plug-in and the magic."""
import json
import os
import re
import shutil
import subprocess

UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def tool():
    """numalloc-dump: what NUMALLOC_DUMP names, or the one in PATH."""
    return os.environ.get("NUMALLOC_DUMP") or shutil.which("numalloc-dump")


def ask(*words):
    """Standard output of numalloc-dump, which runs without the library."""
    program = tool()
    if program is None:
        raise FileNotFoundError("numalloc-dump is not in PATH; install numalloc-tools, or set NUMALLOC_DUMP")
    clean = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("NUMALLOC_")}
    done = subprocess.run([program, *words], env=clean, capture_output=True, text=True)
    if not done.stdout and done.returncode != 0:
        raise RuntimeError("numalloc-dump %s: %s" % (" ".join(words), done.stderr.strip()))
    return done.stdout


class Figures:
    """Of a profile: bytes at the peak and left at its end, and the lines that have most of either."""

    def __init__(self, file):
        total = json.loads(ask("summary", "--json", "--top", "1", file))["total"]
        self.peak, self.left, self.blocks = total["peak_bytes"], total["live_bytes"], total["live_blocks"]
        self.file = file

    def lines(self, what, top=3):
        """What has most, `what`: "peak" or "live"; as text."""
        said = json.loads(ask("sites", "--json", "--sort", what, "--top", str(top), self.file))["rows"]
        key = what + "_bytes"
        return ["%10s  %s%s" % (text(row[key]), row["function"],
                                "  %s:%s" % (row["file"], row["line"]) if row["file"] else "")
                for row in said if row[key] > 0]


def number(value):
    """Bytes: 4096, "4096", "10 KiB", "1.5M"."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kmg]?)(i?b)?\s*", str(value), re.I)
    if found is None:
        raise ValueError("%r is no number of bytes; 10 MiB is one" % (value,))
    return float(found[1]) * UNITS[found[2].lower()]


def text(size):
    """10.0 MiB"""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024 or unit == "GiB":
            return "%d B" % size if unit == "B" else "%.2f %s" % (size, unit)
        size /= 1024
    return ""
