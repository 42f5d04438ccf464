#!/usr/bin/python3
"""layout.py - which functions and constants of the library programs use, from recorded runs, and the
linker's lists made of that: what every process uses comes first in the file.

    scripts/layout.py                  records and writes alloc/layout_text.ld and
                                       alloc/layout_constants.ld, links, says what it changed
    scripts/layout.py check MAP LIBRARY
                                       every name in the lists is in the library (ctest: lint.layout)
    scripts/layout.py beyond MAP LIBRARY CLOCK KIB COMMAND...
                                       says what the command uses beyond the first KIB KiB
                                       (ctest: programs.first_pages)

MAP is the linker's map of the library; CLOCK is tests/programs/still_clock.c, with which what goes by
time is the same in every run. Options: --build DIRECTORY (build/release), --keep (write nothing: how it
is now). Status: 0 well, 1 not, 2 wrong use or a tool that fails, 77 nothing can be said here.

Small programs run under valgrind's lackey, which tells every address; large ones under callgrind,
which counts instructions only and is faster by far (their constants are not seen). The library must be
built by the compiler and on the kind of machine that its users have: gcc, -O2, and one node, since
with several more of it runs.
"""
import argparse
import bisect
import collections
import fnmatch
import glob
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TEXT, CONSTANTS = "alloc/layout_text.ld", "alloc/layout_constants.ld"
COMMAND = "scripts/layout.py"
PAGE, GROUP = 4096, 16  # the system's page, and how many it maps at once
HOT = 0.01              # a function is hot with this share of what a program executes of the library

# What is run: a name, the tool, the command. {tests}: the build's test programs, {work}: an empty
# directory, the current one. Every process of a command counts for itself.
SMALL = [
    ("start", "lackey", "{tests}/instructions single 1"),
    ("single", "lackey", "{tests}/instructions single 1000"),
    ("mixed", "lackey", "{tests}/instructions mixed 1000"),
    ("realloc", "lackey", "{tests}/instructions realloc 1000"),
    ("true", "lackey", "/bin/true"),
    ("cat", "lackey", "/bin/cat text"),
    ("ls", "lackey", "/bin/ls -l /"),
    ("pipeline", "lackey", "/bin/sh -c 'head -n 50 text | tr a-z A-Z | uniq | wc | (read n; echo $n)'"),
    ("sed", "lackey", "/bin/sed s/a/b/g text"),
]
LONGER = [
    ("sort", "lackey", "/usr/bin/sort text"),
    ("sort, 8 MiB", "lackey", "/usr/bin/sort --buffer-size=8M"),
    ("bash", "lackey", "/bin/bash -c 'for i in {{1..50}}; do a+=($i$i); done; echo ${{a[*]}} | (read b; echo $b)'"),
    ("awk", "callgrind", "/usr/bin/awk '{{ n[$0]++ }} END {{ for (i in n) print i, n[i] }}' text"),
    ("perl", "callgrind", "/usr/bin/perl -e 'push @{{$h{{$_ % 97}}}}, $_ x 3 for 1..9999; print scalar keys %h'"),
    ("python", "callgrind", "/usr/bin/python3 -I -S -c 'print(len(sorted(map(str, range(20000)))))'"),
    ("cc", "callgrind", "/usr/bin/gcc -O1 -o program program.c"),
    ("threads", "callgrind", "{build}/numalloc-bench threads --threads 2 --repetitions 1 --warmup 0"),
]
STEP_US = 20000  # how far the clock goes with each reading in programs that live longer

PROGRAM = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    char *line = malloc(4096);
    while (argc-- > 0 && line != NULL) strncpy(line, argv[argc], 4095), puts(line);
    free(line);
    return 0;
}
"""


def die(status, message):
    print("%s: %s" % (COMMAND, message), file=sys.stderr)
    sys.exit(status)


# ---- What the library is made of. ----------------------------------------------------------------
class Elf:
    """A file's sections."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        if self.data[:5] != b"\x7fELF\x02":
            die(2, "%s is no 64-bit ELF file" % path)
        offset, = struct.unpack_from("<Q", self.data, 40)
        size, count, names = struct.unpack_from("<HHH", self.data, 58)
        heads = [struct.unpack_from("<IIQQQQ", self.data, offset + i * size) for i in range(count)]
        self.sections = []  # what is loaded: name, address, file offset, size
        self.others = []
        for name, kind, flags, address, at, length in heads:
            start = heads[names][4] + name
            text = self.data[start:self.data.index(b"\0", start)].decode()
            if kind not in (0, 8):
                (self.sections if flags & 2 else self.others).append((text, address, at, length))

    def content(self, name):
        return b"".join(self.data[at:at + n] for s, _, at, n in self.sections + self.others
                        if s.startswith(name))


class Library:
    """The library, and what of it comes from where: by the linker's map."""

    def __init__(self, path, map_path):
        self.path, self.elf = path, Elf(path)
        header = struct.unpack_from("<Q", self.elf.data, 32)[0]
        self.length = struct.unpack_from("<IIQQQQ", self.elf.data, header)[5]  # code and constants
        with open(map_path) as f:
            text = f.read()
        self.directory = os.path.dirname(os.path.dirname(os.path.abspath(map_path)))
        self.inputs = []  # address, size, section, object
        part = r"^ (\S+)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+) (\S.*)$"
        text = text[text.index("Linker script and memory map"):]
        for m in re.finditer(part, re.sub(r"^( \S+)\n +0x", r"\1  0x", text, flags=re.M), re.M):
            name, where, size, source = m.groups()
            if not name.startswith((".debug", ".comment", ".symtab", ".strtab", ".shstrtab")):
                self.inputs.append((int(where, 16), int(size, 16), name, source))
        # Strings and the like are merged: they are found by what they are.
        self.placed = sorted(i for i in self.inputs
                             if i[1] > 0 and i[0] < self.length and not merged(i[2]) and i[0] > 0)
        self.starts = [i[0] for i in self.placed]

    def name(self, address):
        """The thing at an address, as it is called in any other library of the same objects."""
        i = bisect.bisect_right(self.starts, address) - 1
        if i >= 0 and address < self.starts[i] + self.placed[i][1]:
            return self.placed[i][3], self.placed[i][2], address - self.starts[i]
        for section, start, at, size in self.elf.sections:
            if start <= address < start + size:
                if not section.startswith(".rodata"):
                    return "", section, address - start
                here = at + address - start
                before = re.search(rb"[\x20-\x7e\n\t]*\Z", self.elf.data[max(at, here - 200):here])[0]
                behind = re.match(rb"[\x20-\x7e\n\t]*\0", self.elf.data[here:at + size])
                if behind and len(before + behind[0]) > 1:
                    return before + behind[0], ".rodata.str", len(behind[0])
                return "", section, address - start
        return "", "header", address

    def address(self, name):
        """The reverse."""
        source, section, offset = name
        if isinstance(source, bytes):
            for part, start, at, size in self.elf.sections:
                found = self.elf.data.find(source, at, at + size)
                if part.startswith(".rodata") and found >= 0:
                    return start + found - at + len(source) - offset
        for start, _, part, of in self.placed:
            if part == section and of == source:
                return start + offset
        return next((s[1] + offset for s in self.elf.sections if s[0] == section), offset)

    def objects_with(self, strings, sources):
        """Which of the objects hold one of the strings, by itself or as another's end."""
        contents = {source: Elf(self.file(source)).content(".rodata.str")
                    for source in sources & {i[3] for i in self.inputs if i[2].startswith(".rodata.str")}}
        found = set()
        for string in strings:
            for i in range(len(string) - 1):  # other constants before it may look like text
                holding = {source for source, content in contents.items() if string[i:] in content}
                found |= holding
                if holding:
                    break
        return found

    def file(self, source):
        for directory in (self.directory, os.getcwd()):
            if os.path.exists(os.path.join(directory, source)):
                return os.path.join(directory, source)
        die(2, "there is no %s: build the library first" % source)

    def compiler(self):
        comment = self.elf.content(".comment")
        found = re.search(rb"GCC: \([^)]*\) (\d+)", comment)
        return "another compiler" if b"clang" in comment or not found else "gcc " + found[1].decode()


def merged(section):
    return section.startswith((".rodata.str", ".rodata.cst"))


# ---- What runs. ----------------------------------------------------------------------------------
Process = collections.namedtuple("Process", "name small counts")  # counts: of each address


def lackey(command, library, log, env):
    """Counts of every address that is run or read, for each process that starts a program."""
    valgrind(["--tool=lackey", "--basic-counts=no", "--trace-mem=yes"], command, log, env)
    for path, name, base in logs(library, log):
        lines = collections.Counter()
        with open(path, "rb") as f:
            for line in f:
                if line[3:4] == b"0" and line[:2] in (b"I ", b" L", b" S", b" M"):
                    lines[line] += 1
        used = collections.Counter()
        for line, count in lines.items():
            used[int(line[3:].split(b",")[0], 16) - base] += count
        yield name, used


def callgrind(command, library, log, env):
    """The same of what is run, without what is read."""
    valgrind(["--tool=callgrind", "--dump-instr=yes", "--dump-line=no", "--compress-strings=no",
              "--compress-pos=no", "--callgrind-out-file=%s.%%p.counts" % log], command, log, env)
    for path, name, base in logs(library, log):
        used, start, called = collections.Counter(), None, False
        with open(path + ".counts") as f:
            for line in f:
                if line.startswith("ob="):
                    # It knows the library by its .text alone; addresses elsewhere are the process's.
                    of = line[3:].strip()
                    start = 0 if of == library.path else base if of == "???" else None
                elif line.startswith("calls="):
                    called = True
                elif line.startswith("0x"):
                    if start is not None and not called:
                        words = line.split()
                        used[int(words[0], 16) - start] += int(words[-1])
                    called = False
        yield name, used


def logs(library, log):
    """Of each process: its log, its program's name, where the library was. One that was only forked
    has no name."""
    base = None
    for path in sorted(glob.glob(log + ".*[0-9]"), key=lambda p: int(p.rsplit(".", 1)[1])):
        ours, name, own = False, "", False
        with open(path, "rb") as f:
            for line in f:
                if line[:2] == b"==" and b"Command: " in line:
                    name = os.path.basename(line.split()[2].decode())
                elif line[:2] == b"--" and b"Reading syms from " in line:
                    ours = library.path.encode() in line
                elif ours and line[:2] == b"--" and b"svma" in line:
                    svma, avma = re.search(rb"svma (\w+), avma (\w+)", line).groups()
                    base, ours, own = int(avma, 16) - int(svma, 16), False, True
        if base is None:
            die(2, "valgrind saw nothing of %s" % library.path)
        yield path, name if own else "", base


def watch(tool, command, library, work, env):
    """What each process of a command used of the library."""
    log, processes = os.path.join(work, "log"), []
    for name, used in tool(command, library, log, env):
        used = collections.Counter({a: n for a, n in used.items() if 0 <= a < library.length})
        if name:
            processes.append((name, used))
        else:  # what it uses counts as the first one's
            processes[0][1].update(used)
    for path in glob.glob(log + ".*"):
        os.unlink(path)
    if min(len(used) for _, used in processes) < 500:
        die(2, "%s: too little of the library was seen" % " ".join(command))
    return processes


def valgrind(tool, command, log, env):
    if shutil.which("valgrind") is None:
        die(77, "program 'valgrind' is missing; install the package 'valgrind'")
    result = subprocess.run(["valgrind", *tool, "-v", "-v", "--log-file=%s.%%p" % log, "--trace-children=yes", *command], env={**os.environ, **env},
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if result.returncode != 0:
        die(2, "%s under valgrind: status %d: %s" % (" ".join(command), result.returncode,
                                                     result.stdout.decode(errors="replace")[-300:].strip()))


def environment(library, clock, step=0):
    return {"LD_PRELOAD": "%s:%s" % (library.path, clock), "CLOCK_STEP_US": str(step), "LC_ALL": "C"}


def one_node():
    if os.path.exists("/sys/devices/system/node/node1"):
        die(77, "on a machine with several nodes more of the library runs")


# ---- The lists. ----------------------------------------------------------------------------------
FUNCTION = re.compile(r"\.text(?:\.(unlikely|startup|exit|hot)(?=\.))?\.([^.]+)(\..*)?$")


def patterns(section):
    """What matches a function's section, however this compiler renames its static functions."""
    kind, name, suffix = FUNCTION.match(section).groups()
    stem = ".text.%s%s" % (kind + "." if kind else "", name)
    if ".part." in (suffix or ""):
        return (stem + ".part.*",)
    return stem, stem + ".[ic]*"  # .isra, .constprop


def holders(library, wanted, files="*"):
    """The objects that have a section which matches."""
    return {of for _, _, section, of in library.inputs
            if any(fnmatch.fnmatchcase(section, w) for w in wanted)
            and fnmatch.fnmatchcase(re.sub(r"\((.*)\)$", r":\1", of), files)}


def of_file(library, source, wanted):
    """The line of sections that many files have."""
    files = "*/" + os.path.basename(source)
    if source.endswith(")"):
        files = "*%s:%s" % tuple(os.path.basename(source)[:-1].split("("))
    if len(holders(library, wanted, files)) > 1:
        die(2, "two files are called %s, and both have sections %s: rename one" % (files[2:], " ".join(wanted)))
    return "%s(%s)" % (files, " ".join(wanted))


def statement(library, source, section):
    """The line of a function; with its file where the name is not the only one."""
    wanted = patterns(section)
    return of_file(library, source, wanted) if len(holders(library, wanted)) > 1 else "*(%s)" % " ".join(wanted)


def make_lists(library, processes):
    sections, shares, strings, plain = {}, collections.Counter(), set(), set()
    for n, process in enumerate(processes):
        total = sum(process.counts.values())
        for address, count in process.counts.items():
            source, section, _ = library.name(address)
            if isinstance(source, bytes):
                strings.add(source)
            elif section == ".rodata":
                plain.add(source)
            elif FUNCTION.match(section):
                sections.setdefault((source, section), set()).add(n)
                shares[source, section, n] += count / total
    small = {n for n, p in enumerate(processes) if p.small}
    lines = {}  # a statement: in how many small processes, in how many others, hot
    for (source, section), used in sections.items():
        hot = max(shares[source, section, n] for n in used) >= HOT
        known = lines.setdefault(statement(library, source, section),
                                 [set(), set(), False, os.path.basename(source)])
        lines[statement(library, source, section)] = [known[0] | used & small, known[1] | used - small,
                                                      known[2] or hot, known[3]]
    groups = collections.defaultdict(list)
    for line, (few, many, hot, source) in lines.items():
        groups[-len(few), 0 if few else -len(many), not hot].append((source, line))
    text, last = [], None
    for key in sorted(groups):
        if key[:2] != last:
            last = key[:2]
            of = (-key[0], len(small), "small") if key[0] else (-key[1], len(processes) - len(small), "longer")
            text.append("/* %d of %d %s programs */" % of)
        text += [line for _, line in sorted(groups[key])]
    users = {source for source, _ in sections}
    holding = library.objects_with(strings, users)
    constants = [of_file(library, source, (".rodata",)) for source in plain & users]
    constants += [of_file(library, source, (".rodata.str*",)) for source in holding]
    return text, sorted(constants)


def write(name, lines, library, processes):
    head = "/* %s - written by %s from %d recorded processes, built by %s;\n * not to be edited. */\n" % (
        os.path.basename(name), COMMAND, len(processes), library.compiler())
    with open(os.path.join(ROOT, name), "w") as f:
        f.write(head + "\n".join(lines) + "\n")


def read(name):
    with open(os.path.join(ROOT, name)) as f:
        text = f.read()
    found = re.findall(r"^(\S+)\((.*)\)$", text, re.M)
    if not found:
        die(1, "%s is empty: run %s" % (name, COMMAND))
    return re.search(r"built by (.*);", text)[1], [(files, wanted.split()) for files, wanted in found]


# ---- What it comes to. ---------------------------------------------------------------------------
def resident(pages):
    """KiB of the file that are resident, mean over where the loader may put it: the first page
    touched is the first of the file; the system maps the 16 around a page that is not there."""
    total = 0
    for shift in range(GROUP):
        there = set(range(GROUP))
        for page in sorted(pages):
            if page not in there:
                start = max((page + shift) // GROUP * GROUP - shift, 0)
                there.update(range(start, start + GROUP))
        total += len(there)
    return total * PAGE // 1024 / GROUP


def summary(before, after, processes):
    print("%-24s %9s   %-16s %-16s %s" % ("", "bytes", "4 KiB pages", "64 KiB", "KiB resident, mean"))
    sums = [0, 0]
    for process in processes:
        moved = translate(before, after, process.counts)
        row = []
        for addresses in (process.counts, moved):
            pages = {a // PAGE for a in addresses} | {0}
            row.append((len(pages), len({p // GROUP for p in pages}), resident(pages)))
        sums = [sums[0] + row[0][2], sums[1] + row[1][2]]
        print("%-24s %9d   %4d -> %-8d %4d -> %-8d %6.1f -> %.1f" % (
            (process.name, extent(before, process.counts)) + tuple(x for pair in zip(*row) for x in pair)))
    print("%-24s %45s %6.1f -> %.1f" % ("mean", "", sums[0] / len(processes), sums[1] / len(processes)))


def translate(before, after, addresses):
    starts = {(of, section): start for start, _, section, of in after.placed}
    result = set()
    for address in addresses:
        name = before.name(address)
        if name[:2] in starts:
            result.add(starts[name[:2]] + name[2])
        else:
            result.add(after.address(name))
    return result


def extent(library, addresses):
    """Bytes of the functions and constants that these addresses belong to."""
    sizes = {(of, section): size for _, size, section, of in library.placed}
    return sum(sizes.get(thing, 0) for thing in {library.name(a)[:2] for a in addresses})


# ---- The commands. -------------------------------------------------------------------------------
def build_library(build):
    command = ["cmake", "--build", build, "--target", "numalloc", "still_clock", "instructions", "numalloc-bench"]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if result.returncode != 0:
        die(2, "%s\n%s" % (" ".join(command), result.stdout.decode(errors="replace")[-2000:]))
    return Library(os.path.realpath(os.path.join(build, "libnumalloc.so")), os.path.join(build, "alloc/layout.map"))


def record(build, keep):
    one_node()
    library = build_library(build)
    for name in list(os.environ):
        if name.startswith(("NUMALLOC_", "LD_")):
            del os.environ[name]
    processes = []
    with tempfile.TemporaryDirectory(prefix="numalloc-layout.") as work:
        with open(os.path.join(work, "program.c"), "w") as f:
            f.write(PROGRAM)
        with open(os.path.join(work, "text"), "w") as f:
            f.writelines("%d %s\n" % (i * 7919 % 1009, "word" * (i % 9)) for i in range(2000))
        before = os.getcwd()
        os.chdir(work)
        for small, programs in ((True, SMALL), (False, LONGER)):
            for name, tool, words in programs:
                command = split(words.format(tests=os.path.join(build, "tests"), build=build, work=work))
                if shutil.which(command[0]) is None:
                    die(2, "program '%s' is missing; scripts/setup.sh installs what is needed" % command[0])
                env = environment(library, os.path.join(build, "tests/libstill_clock.so"), 0 if small else STEP_US)
                runs = watch(lackey if tool == "lackey" else callgrind, command, library, work, env)
                for each, counts in runs:
                    processes.append(Process(name if len(runs) == 1 else name + ": " + each, small, counts))
        os.chdir(before)
    text, constants = make_lists(library, processes)
    if not keep:
        write(TEXT, text, library, processes)
        write(CONSTANTS, constants, library, processes)
    data = library.elf.data
    after = build_library(build)
    summary(library, after, processes)
    fixed = collections.Counter()
    for process in processes:
        for source, section in {library.name(a)[:2] for a in process.counts}:
            if section in (".text", ".text.unlikely") and isinstance(source, str):
                fixed[source + section] += 1
    for thing, count in fixed.most_common():
        print("not in sections of its own: %s, in %d processes" % (thing, count))
    print("the library %s" % ("is as it was" if after.elf.data == data else "is laid out anew"))


def split(words):
    import shlex
    return shlex.split(words)


def check(map_path, path):
    library = Library(path, map_path)
    stale, shared = [], []
    for name in (TEXT, CONSTANTS):
        compiler, statements = read(name)
        if compiler != library.compiler():
            die(77, "the library is built by %s, and the lists are for %s" % (library.compiler(), compiler))
        for files, wanted in statements:
            found = holders(library, wanted, files)
            if not found:
                stale.append("%s(%s)" % (files, wanted[0]))
            elif len(found) > 1:
                shared.append("%s(%s)" % (files, wanted[0]))
    for what, names in (("names nothing in the library", stale), ("names several files' sections", shared)):
        if names:
            print("layout: FAILED: alloc/layout_*.ld %s by %s: run %s" % (what, ", ".join(names), COMMAND),
                  file=sys.stderr)
    return 1 if stale or shared else 0


def beyond(map_path, path, clock, kib, command):
    one_node()
    library = Library(path, map_path)
    with tempfile.TemporaryDirectory(prefix="numalloc-layout.") as work:
        runs = watch(lackey, command, library, work, environment(library, clock))
    shown = " ".join([os.path.basename(command[0]), *command[1:]])
    there = {}
    for _, counts in runs:
        for address in sorted(counts):
            if address >= kib * 1024:
                source, section, _ = library.name(address)
                what = repr(source[:-1].decode()) if isinstance(source, bytes) else "%s of %s" % (
                    section, os.path.basename(source))
                there.setdefault(what, address)
    print("%s: %d addresses of the library, %d functions or constants beyond the first %d KiB" % (
        shown, sum(len(c) for _, c in runs), len(there), kib))
    if there:
        print("layout: FAILED: %s uses what lies beyond the library's first %d KiB: %s: run %s" % (
            shown, kib, ", ".join("%s at 0x%x" % t for t in there.items()), COMMAND), file=sys.stderr)
    return 1 if there else 0


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "check" and len(sys.argv) == 4:
        return check(*sys.argv[2:])
    if len(sys.argv) > 6 and sys.argv[1] == "beyond":
        library, clock = os.path.realpath(sys.argv[3]), os.path.realpath(sys.argv[4])
        return beyond(sys.argv[2], library, clock, int(sys.argv[5]), sys.argv[6:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    parser.add_argument("--keep", action="store_true", help="write nothing")
    options = parser.parse_args()
    record(os.path.abspath(options.build), options.keep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
