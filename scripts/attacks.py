#!/usr/bin/env python3
"""attacks.py - the figures of the table of attacks in docs/hardening.md.

    scripts/attacks.py [--build build/release] [--seeds 60] [--scudo FILE] [--hardened-malloc FILE]

Runs conform-attacks with numalloc's levels, with guards on every block, with the C library's malloc,
and with the two libraries that are named (Debian's libclang-rt has Scudo). Writes
docs/data/attacks.json, of which scripts/docs.py makes the table; columns that were not run are kept.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "docs/data/attacks.json"


def counts(program, seeds, env):
    """Attack: [worked, stopped, silent], in the table's order."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith("NUMALLOC_") and name not in ("LD_PRELOAD", "NA_TEST_LIB")}
    with tempfile.TemporaryDirectory() as directory:  # guards write files there
        result = subprocess.run(["env", *(f"{name}={value}" for name, value in env.items()), str(program),
                                 "count", str(seeds)], env=clean, cwd=directory, text=True,
                                stdout=subprocess.PIPE, check=True)
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    return {row[0]: [int(cell) for cell in row[1:]] for row in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="where the library and the tests are built")
    parser.add_argument("--seeds", type=int, default=60, help="runs of each attack")
    parser.add_argument("--scudo", help="a libclang_rt.scudo_standalone-*.so")
    parser.add_argument("--hardened-malloc", help="a libhardened_malloc.so")
    options = parser.parse_args()
    build = pathlib.Path(options.build).resolve()
    ours = {"LD_PRELOAD": build / "libnumalloc.so"}
    columns = {
        "default": ours,
        "level 1": ours | {"NUMALLOC_HARDEN": 1},
        "level 2": ours | {"NUMALLOC_HARDEN": 2},
        "guards": ours | {"NUMALLOC_GUARD": 1, "NUMALLOC_GUARD_EACH": 1},
        "glibc": {},
        "Scudo": options.scudo and {"LD_PRELOAD": options.scudo},
        "hardened_malloc": options.hardened_malloc and {"LD_PRELOAD": options.hardened_malloc},
    }
    kept = json.loads(DATA.read_text())["columns"] if DATA.exists() else {}
    found = {}
    for name, env in columns.items():
        if env is None:
            found |= {name: kept[name]} if name in kept else {}
        else:
            found[name] = counts(build / "tests/conform-attacks", options.seeds, env)
    DATA.parent.mkdir(exist_ok=True)
    lines = [f"  {json.dumps(name)}: {{\n" + ",\n".join(f"    {json.dumps(attack)}: {cells}"
                                                      for attack, cells in column.items()) + "\n  }"
             for name, column in found.items()]
    DATA.write_text('{"columns": {\n' + ",\n".join(lines) + "\n}}\n")
    return 0


sys.exit(main())
