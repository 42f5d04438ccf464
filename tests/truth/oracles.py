"""oracles.py - what gdb and llvm-symbolizer say of the addresses at which functions allocate.

Of each function the first site that has a multiple of its bytes' size is taken, and the innermost name at its
address that is not the library's. An oracle that is not installed is not asked."""
import json
import os
import re
import shutil
import subprocess

AFTER = r"(?=$|[<(\[ ])"
LIBRARY = re.compile(r"(std|__gnu_cxx)::|operator new|_M_|allocate|reserve$|make_unique|keep(_|$)")

GDB = r"""
import gdb, json
answers = {}
for pc in json.load(open("addresses.json")):
    names = []
    try:
        block = gdb.block_for_pc(pc)
        while block is not None and not block.is_static:
            if block.function is not None:
                names.append(block.function.print_name)
                if not block.function.symtab or block.superblock is None:
                    break
            block = block.superblock
    except RuntimeError:
        pass
    if not names:
        said = gdb.execute("info symbol %d" % pc, to_string=True)
        if " in section" in said:
            names.append(said.split(" in section")[0].rsplit(" + ", 1)[0])
    answers[str(pc)] = names
json.dump(answers, open("answers.json", "w"))
"""


def ask_gdb(program, addresses):
    directory = program.parent
    (directory / "addresses.json").write_text(json.dumps(addresses))
    (directory / "ask.py").write_text(GDB)
    subprocess.run(["gdb", "-batch", "-nx", "-iex", "set auto-load off", "-x", "ask.py", program.name], cwd=directory,
                   capture_output=True, timeout=300)
    answers = directory / "answers.json"
    return {int(pc): names for pc, names in json.loads(answers.read_text()).items()} if answers.exists() else {}


def ask_llvm(program, addresses):
    said = subprocess.run([LLVM, "--output-style=JSON", "--inlines", "--demangle", f"--obj={program}"],
                          input="".join(f"{pc:#x}\n" for pc in addresses), capture_output=True, text=True, timeout=300)
    answers = {}
    for line in said.stdout.splitlines():
        it = json.loads(line)
        answers[int(it["Address"], 16)] = [frame["FunctionName"] for frame in it.get("Symbol", []) if frame["FunctionName"]]
    return answers


LLVM = next((name for name in ("llvm-symbolizer-19", "llvm-symbolizer-16", "llvm-symbolizer") if shutil.which(name)), "llvm-symbolizer")
ORACLES = {"gdb": ("gdb", ask_gdb), "llvm-symbolizer": (LLVM, ask_llvm)}


def agrees(function, names):
    own = next((name for name in names if not LIBRARY.match(name)), names[-1] if names else "")
    if function.name.startswith("std::"):
        own = names[0] if names else ""
    return re.search(r"(?:^|[\s*&(])" + function.name + AFTER, own) is not None


def ask(program, functions, judged, sites):
    """{oracle: {right, of, better}}; better: names that it has and numalloc-dump has not."""
    at = {}
    for site in sites:
        for function in functions:
            if site["size_min"] == site["size_max"] == function.size and (function.name, function.size) not in at:
                own = [f for f in site["stack"] if os.path.basename(f.get("module", "")) == program.name]
                its = [f for f in own if f["function"] == site["function"]] or own
                if its:
                    at[function.name, function.size] = (function, its[0]["offset"] - 1)
    kinds = {name: kind for name, kind, _ in judged}
    found = {}
    for oracle, (command, query) in ORACLES.items():
        if shutil.which(command) is None or not at:
            continue
        answers = query(program, sorted({pc for _, pc in at.values()}))
        right = [function for function, pc in at.values() if agrees(function, answers.get(pc, []))]
        found[oracle] = {"right": len(right), "of": len(at),
                         "better": sorted({f.name for f in right if kinds.get(f.name) == "wrong"})}
    return found
