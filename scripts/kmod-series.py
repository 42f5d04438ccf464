#!/usr/bin/env python3
"""kmod-series.py - the kernel module as patches for a mailing list, made from kmod-ibs/.

usage: scripts/kmod-series.py DIRECTORY

Writes 0000-cover-letter.patch and the patches of PATCHES into the new DIRECTORY, to be sent by
git send-email. They put the driver into drivers/misc/numalloc_ibs of Linux, for the version NEWEST
and later: what serves older ones is left out. Code is laid out as in the kernel (STYLE), comments,
too. The cover letter is docs/kmod-ibs/cover-letter.txt. Wants git and clang-format."""
import os
import re
import subprocess
import sys
import tempfile
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NEWEST = (6, 12, 0)
DRIVER, UAPI = "drivers/misc/numalloc_ibs", "include/uapi/linux"
STYLE = ("{BasedOnStyle: LLVM, UseTab: Always, IndentWidth: 8, TabWidth: 8, ContinuationIndentWidth: 8, ColumnLimit: 100, "
         "BreakStringLiterals: false, PenaltyBreakBeforeFirstCallParameter: 1000, BreakBeforeBraces: Linux, "
         "AllowShortIfStatementsOnASingleLine: Never, AllowShortLoopsOnASingleLine: false, "
         "AllowShortFunctionsOnASingleLine: None, AllowShortBlocksOnASingleLine: Never, "
         "AllowShortCaseLabelsOnASingleLine: false, IndentCaseLabels: false, SortIncludes: Never, "
         "AlignConsecutiveMacros: true, DerivePointerAlignment: false, PointerAlignment: Right, ReflowComments: true, "
         "SpaceBeforeParens: ControlStatementsExceptForEachMacros, "
         "ForEachMacros: [for_each_possible_cpu, for_each_thread, hash_for_each_possible_rcu, "
         "list_for_each_entry, list_for_each_entry_safe]}")
TESTED = {"NA_PERF_DECODES": 1, "NA_IBS_PER_TASK": 1}  # what NEWEST has
KCONFIG = """# SPDX-License-Identifier: GPL-2.0-only
config NUMALLOC_IBS
	tristate "AMD IBS samples of one's own process"
	depends on X86_64 && PERF_EVENTS && CPU_SUP_AMD && NUMA
	help
	  A device by which a process samples its own accesses to memory with
	  AMD's instruction-based sampling: address, what answered, latency
	  and the page's home node. Nothing of other processes or of the
	  kernel is shown. Users are those that may open the device.

	  To compile this driver as a module, choose M here: the module will
	  be called numalloc_ibs.
"""
MAKEFILE = """# SPDX-License-Identifier: GPL-2.0-only
obj-$(CONFIG_NUMALLOC_IBS) += numalloc_ibs.o
numalloc_ibs-y := main.o session.o ring.o counters.o sink.o made.o
"""
PATCHES = [
    ("the calls and records", "What user space sees: calls, the ring, and the record of one sample.",
     ["uapi/numalloc_ibs.h"]),
    ("decode samples", "From IBS's registers, or from perf's data_src, to what answered an access. Sources and\n"
     "valid bits depend on family, model and capabilities. Pure functions.", ["uapi/numalloc_ibs_decode.h"]),
    ("rings", "A ring for each CPU, in memory of its node, with one writer in any context and one reader\n"
     "that is not trusted. Charged to the user as perf's buffers are.", ["na_ibs.h", "ring.c"]),
    ("samples to records", "The handler: what is another process's is dropped, the home node is found, the rest is\n"
     "stored. It runs in NMIs.", ["sink.c"]),
    ("counters", "The events behind a session: one for each thread, or for each CPU. perf arbitrates the\n"
     "hardware.", ["counters.c"]),
    ("sessions", "A session is an open file: its rings, its counters and its end, by close, exec or exit.",
     ["session.c"]),
    ("samples made up, for tests", "By a timer, also from NMIs, or given by the caller; for root alone, and only if the module\n"
     "was loaded with test_sources=1.", ["made.c"]),
    ("the device", "The device, its rights, and the module's parameters.", ["main.c", "Kconfig", "Makefile"]),
]


def resolved(text):
    """Without the branches that the newest kernel does not take, and what asks for its version."""
    out, taken = [], []  # taken: (is it ours, are its lines wanted) of each #if that is open
    for line in text.split("\n"):
        word = re.match(r"#\s*(if\w*|else|elif|endif)\b(.*)", line)
        if word and word[1].startswith("if"):
            version = re.match(r" LINUX_VERSION_CODE (>=|<) KERNEL_VERSION\((\d+), (\d+), (\d+)\)$", word[2])
            if version:
                wanted = (NEWEST >= tuple(map(int, version.groups()[1:]))) == (version[1] == ">=")
                taken.append((True, wanted))
                continue
            if word[1] == "if" and word[2].strip() in TESTED:
                taken.append((True, bool(TESTED[word[2].strip()])))
                continue
            taken.append((False, True))
        elif word and word[1] == "else" and taken[-1][0]:
            taken[-1] = (True, not taken[-1][1])
            continue
        elif word and word[1] == "endif":
            if taken.pop()[0]:
                continue
        if all(wanted for _, wanted in taken):
            out.append(line)
    text = "\n".join(out).replace("#include <linux/version.h>\n", "")
    for name, value in TESTED.items():
        text = re.sub(rf"(/\*(?:[^*]|\*(?!/))*\*/\n)?#define {name} .*\n", "", text)
        text = re.sub(rf"!{name}\b", str(int(not value)), text)
        text = re.sub(rf"\b{name}\b", str(value), text)
    return text


def comments(text):
    """Block comments begin and end with lines of their own; files are not named in them."""
    def one(match):
        body = match[2]
        body = re.sub(r"\A \w+\.[ch] - ", " ", body)
        if "\n" not in body:
            return f"{match[1]}/*{body}*/"
        lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in body.strip().split("\n")]
        while lines and not lines[-1]:
            lines.pop()
        return "\n".join([match[1] + "/*", *(f"{match[1]} * {line}".rstrip() for line in lines), match[1] + " */"])
    return re.sub(r"^([ \t]*)/\*((?:[^*]|\*(?!/))*)\*/", one, text, flags=re.M)


def kernel_style(name, text):
    if not name.endswith((".c", ".h")):
        return text
    text = comments(resolved(text))
    text = text.replace('#include "uapi/numalloc_ibs.h"', "#include <uapi/linux/numalloc_ibs.h>")
    text = text.replace('#include "uapi/numalloc_ibs_decode.h"', '#include "decode.h"')
    if name.endswith("decode.h"):
        text = text.replace('#include "numalloc_ibs.h"', "#include <uapi/linux/numalloc_ibs.h>")
    text = re.sub(r"\bsizeof (\*?[\w.>-]+)", r"sizeof(\1)", text)
    text = subprocess.run(["clang-format", f"--style={STYLE}", f"--assume-filename={name}"], input=text,
                          stdout=subprocess.PIPE, check=True, text=True).stdout
    return text


def place(name):
    if name == "uapi/numalloc_ibs.h":
        return f"{UAPI}/numalloc_ibs.h"
    return f"{DRIVER}/{'decode.h' if name.endswith('_decode.h') else name}"


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.split("\n\n")[1])
    target = os.path.abspath(sys.argv[1])
    if os.path.exists(target):
        sys.exit(f"kmod-series: {target} is there already")
    made = {"Kconfig": KCONFIG, "Makefile": MAKEFILE}
    author = {key: subprocess.run(["git", "-C", ROOT, "config", f"user.{key}"], stdout=subprocess.PIPE, text=True,
                                  check=False).stdout.strip() or f"{key}@example.org" for key in ("name", "email")}
    with tempfile.TemporaryDirectory() as tree:
        def git(*arguments, **more):
            return subprocess.run(["git", "-C", tree, "-c", f"user.name={author['name']}",
                                   "-c", f"user.email={author['email']}", "-c", "commit.gpgSign=false", *arguments],
                                  check=True, stdout=subprocess.PIPE, text=True, **more).stdout
        git("init", "-q")
        git("commit", "-q", "--allow-empty", "-m", "base")
        for subject, body, names in PATCHES:
            for name in names:
                text = made.get(name)
                if text is None:
                    with open(os.path.join(ROOT, "kmod-ibs", name), encoding="utf-8") as file:
                        text = kernel_style(name, file.read())
                path = os.path.join(tree, place(name))
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            git("add", ".")
            git("commit", "-q", "-s", "-F", "-", input=f"misc: numalloc_ibs: {subject}\n\n{textwrap.fill(body, 72)}\n")
        git("format-patch", "-q", "--cover-letter", "-o", target, "--root", f"-{len(PATCHES)}")
    with open(os.path.join(ROOT, "docs", "kmod-ibs", "cover-letter.txt"), encoding="utf-8") as file:
        subject, letter = file.read().split("\n\n", 1)
    cover = os.path.join(target, "0000-cover-letter.patch")
    with open(cover, encoding="utf-8") as file:
        text = file.read()
    text = text.replace("*** SUBJECT HERE ***", subject).replace("*** BLURB HERE ***\n", letter)
    with open(cover, "w", encoding="utf-8") as file:
        file.write(text)
    print("\n".join(sorted(os.listdir(target))))


if __name__ == "__main__":
    main()
