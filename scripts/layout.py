#!/usr/bin/python3
"""layout.py - records what programs use of the library, and writes the linker's lists from that, so
that what every process uses lies side by side at the front of the file.

    scripts/layout.py [--build DIRECTORY] [--keep]
        builds, records, writes alloc/layout_text.ld and alloc/layout_constants.ld, links anew, and
        says how much is resident before and after. --build: instead of build/release. --keep:
        writes nothing, only says
    scripts/layout.py check MAP LIBRARY
        fails unless every name in the lists is in the library, once (ctest: lint.layout)
    scripts/layout.py beyond MAP LIBRARY CLOCK KIB COMMAND...
        fails if the command uses anything beyond the first KIB KiB (ctest: programs.first_pages)

MAP is the linker's map of LIBRARY; CLOCK is tests/programs/still_clock.c, which makes what goes by
time the same in every run. Exit status: 1 a check failed, 2 a tool failed, 77 it cannot run here.

Small programs run under valgrind's lackey, which tells every address. Large ones run under
callgrind, which is faster and knows of instructions only, not of constants. The library must be
what users have (gcc, -O2); with several nodes more of it runs, so the machine must have one.
"""
import argparse
import bisect
import collections
import fnmatch
import glob
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FRAME, TEXT, CONSTANTS = "alloc/layout.ld", "alloc/layout_text.ld", "alloc/layout_constants.ld"
COMMAND = "scripts/layout.py"
PAGE, GROUP = 4096, 16  # the system's page; so many it maps at once
HOT = 0.01  # a function is hot with this share of what a program executes of the library

# What is run: a name, the tool, the command. The build's directory is BUILD; "text", "program.c" and
# "words" (a program in C++, with threads) lie in the current one. Each process counts for itself.
SMALL = [
    ("start", "lackey", "BUILD/tests/instructions single 1"),
    ("single", "lackey", "BUILD/tests/instructions single 1000"),
    ("mixed", "lackey", "BUILD/tests/instructions mixed 1000"),
    ("realloc", "lackey", "BUILD/tests/instructions realloc 1000"),
    ("threads", "lackey", "BUILD/tests/instructions threads 1000"),
    ("true", "lackey", "/bin/true"),
    ("cat", "lackey", "/bin/cat text"),
    ("ls", "lackey", "/bin/ls -l /"),
    ("sed", "lackey", "/bin/sed s/a/b/g text"),
    ("pipeline", "lackey",
     "/bin/sh -c 'head -n 50 text | tr a-z A-Z | uniq | wc | (read n; echo $n)'"),
]
LONGER = [
    ("sort", "lackey", "/usr/bin/sort text"),
    ("sort, 8 MiB", "lackey", "/usr/bin/sort --buffer-size=8M"),
    ("bash", "lackey",
     "/bin/bash -c 'for i in {1..50}; do a+=($i$i); done; echo ${a[*]} | (read b; echo $b)'"),
    ("awk", "callgrind", "/usr/bin/awk '{ n[$0]++ } END { for (i in n) print i, n[i] }' text"),
    ("C++", "lackey", "./words"),
    ("perl", "callgrind",
     "/usr/bin/perl -e 'push @{$h{$_ % 97}}, $_ x 3 for 1..9999; print scalar keys %h'"),
    ("python", "callgrind",
     "/usr/bin/python3 -I -S -c 'print(len(sorted(map(str, range(20000)))))'"),
    ("cc", "callgrind", "/usr/bin/gcc -O1 -o program program.c"),
    ("short threads", "callgrind",
     "BUILD/numalloc-bench threads --threads 2 --repetitions 1 --warmup 0"),
]
# What the threads of "threads" use when two of them want a lock at once: now and then, under valgrind.
MEETING = ["wait", "na_lock_slow", "na_unlock_slow", "na_os_futex_wait", "na_os_futex_wake",
           "na_os_futex_wait_ms", "na_gate_timed_out", "wait_for_list"]
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


WORDS = """#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>
static void count(int from) {
    std::map<std::string, int> counts;
    for (int i = from; i < 2000; i++) counts["a word of some length " + std::to_string(i % 97)]++;
}
int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++) threads.emplace_back(count, i);
    for (auto &thread : threads) thread.join();
    std::cout << threads.size() << std::endl;
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
        self.places = {(of, section): start for start, _, section, of in self.placed}

    def name(self, address):
        """What is at an address, as (object, section, offset). Strings are merged, so a string is
        (its bytes from there on, ".rodata.str", 0). What the linker makes has no object."""
        i = bisect.bisect_right(self.starts, address) - 1
        if i >= 0 and address < self.starts[i] + self.placed[i][1]:
            return self.placed[i][3], self.placed[i][2], address - self.starts[i]
        for section, start, at, size in self.elf.sections:
            if start <= address < start + size:
                here = at + address - start
                text = re.match(rb"[\x20-\x7e\n\t]*\0", self.elf.data[here:at + size])
                if section.startswith(".rodata") and text:
                    return text[0], ".rodata.str", 0
                return "", section, address - start
        return "", "header", address

    def address(self, name):
        """The reverse, in a library of the same objects."""
        source, section, offset = name
        if isinstance(source, bytes):
            for part, start, at, size in self.elf.sections:
                found = self.elf.data.find(source, at, at + size)
                if part.startswith(".rodata") and found >= 0:
                    return start + found - at
        if source:
            return self.places[source, section] + offset
        return next((s[1] + offset for s in self.elf.sections if s[0] == section), offset)

    def begins(self, address, used):
        """A string that is not empty was read from here on."""
        return self.name(address)[0] != b"\0" and (
            address - 1 not in used or self.name(address - 1)[0] == b"\0")

    def objects_with(self, strings, sources):
        """Which of the objects hold one of the strings, by itself or as another's end."""
        found = set()
        for source in sources & {i[3] for i in self.inputs if i[2].startswith(".rodata.str")}:
            content = Elf(self.file(source)).content(".rodata.str")
            if any(string in content for string in strings):
                found.add(source)
        return found

    def file(self, source):
        for directory in (self.directory, os.getcwd()):
            if os.path.exists(os.path.join(directory, source)):
                return os.path.join(directory, source)
        die(2, "there is no %s: build the library first" % source)

    def compiler(self):
        comment = self.elf.content(".comment")
        found = re.search(rb"GCC: \([^)]*\) (\d+)", comment)
        if found is None or b"clang" in comment:
            return "another compiler"
        return "gcc " + found[1].decode()


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
                    # It knows the library by .text alone; other addresses are the process's.
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
    for path in sorted(glob.glob(log + ".*[0-9]"), key=lambda p: (forked(p), int(p.rsplit(".", 1)[1]))):
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


def forked(path):
    """Is it the log of a process that was only forked? (Its number may be below its parent's.)"""
    with open(path, "rb") as f:
        return not any(line[:2] == b"--" and b"Reading syms from " in line for line in f)


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
    result = subprocess.run(
        ["valgrind", *tool, "-v", "-v", "--log-file=%s.%%p" % log, "--trace-children=yes",
         *command], env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False)
    if result.returncode != 0:
        end = result.stdout.decode(errors="replace")[-300:].strip()
        die(2, "%s under valgrind: status %d: %s" % (" ".join(command), result.returncode, end))


def environment(library, clock, step=0):
    return {"LD_PRELOAD": library.path + ":" + clock, "CLOCK_STEP_US": str(step), "LC_ALL": "C"}


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
        die(2, "two files are called %s and have %s: rename one" % (files, " ".join(wanted)))
    return "%s(%s)" % (files, " ".join(wanted))


def statement(library, source, section):
    """The line of a function; with its file where the name is not the only one."""
    wanted = patterns(section)
    if len(holders(library, wanted)) > 1:
        return of_file(library, source, wanted)
    return "*(%s)" % " ".join(wanted)


def make_lists(library, processes):
    sections, strings, plain = {}, set(), set()  # a section: its processes, its largest share
    for n, process in enumerate(processes):
        share = collections.Counter()
        for address, count in process.counts.items():
            source, section, _ = library.name(address)
            if isinstance(source, bytes):
                if library.begins(address, process.counts):
                    strings.add(source)
            elif section == ".rodata":
                plain.add(source)
            elif FUNCTION.match(section):
                share[source, section] += count / sum(process.counts.values())
        for thing, part in share.items():
            used, most = sections.get(thing, (frozenset(), 0))
            sections[thing] = used | {n}, max(most, part)
        if process.name == "threads":
            for _, _, section, source in library.placed:
                if FUNCTION.match(section) and FUNCTION.match(section)[2] in MEETING:
                    used, most = sections.get((source, section), (frozenset(), 0))
                    sections[source, section] = used | {n}, most

    small = {n for n, p in enumerate(processes) if p.small}
    lines = {}  # the same of a line, and its file
    for (source, section), (used, share) in sections.items():
        line = statement(library, source, section)
        before = lines.get(line, (frozenset(), 0))
        lines[line] = before[0] | used, max(before[1], share), os.path.basename(source)
    # What one program alone uses comes in the programs' order: what forked children do comes last.
    order = sorted((-len(used & small), 0 if used & small else -len(used),
                    min(used) if len(used & small) == 1 else 0, share < HOT, source, line)
                   for line, (used, share, source) in lines.items())
    text, last = [], None
    for few, many, _, _, _, line in order:
        if (few, many) != last:
            last = few, many
            text.append("/* %d of %d %s */" % (
                (-few, len(small), "small programs") if few else
                (-many, len(processes) - len(small), "longer ones")))
        text.append(line)

    users = {source for source, _ in sections}
    constants = [of_file(library, source, (".rodata",)) for source in plain & users]
    constants += [of_file(library, source, (".rodata.str*",))
                  for source in library.objects_with(strings, users)]
    return text, sorted(constants)


def write(name, lines, library, processes):
    with open(os.path.join(ROOT, name), "w") as f:
        f.write("/* %s - written by %s, not to be edited: what %d processes used of the\n"
                " * library, built by %s. */\n" % (os.path.basename(name), COMMAND, len(processes),
                                                 library.compiler()))
        f.writelines(line + "\n" for line in lines)


def read(name):
    with open(os.path.join(ROOT, name)) as f:
        text = f.read()
    compiler = re.search(r"built by (.*)\. \*/", text)
    found = re.findall(r"^(\S+)\((.*)\)$", text, re.M)
    if compiler is None or not found:
        die(1, "%s is not as this writes it: run %s" % (name, COMMAND))
    return compiler[1], [(files, wanted.split()) for files, wanted in found]


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
    print("%-16s %6s   %-12s %-12s %s" % (
        "", "bytes", "4 KiB pages", "64 KiB", "KiB resident, mean"))
    sums = [0, 0]
    for process in processes:
        figures = []
        moved = {after.address(before.name(a)) for a in process.counts}
        for i, addresses in enumerate((process.counts, moved)):
            pages = {a // PAGE for a in addresses} | {0}
            figures.append((len(pages), len({p // GROUP for p in pages}), resident(pages)))
            sums[i] += figures[-1][2] / len(processes)
        figures = [x for pair in zip(*figures) for x in pair]
        print("%-16s %6d   %4d -> %-4d %4d -> %-4d %6.1f -> %.1f" % (
            process.name, extent(before, process.counts), *figures))
    print("%-51s %6.1f -> %.1f" % ("mean", *sums))


def extent(library, addresses):
    """Bytes of the functions and constants that these addresses belong to."""
    sizes = {(of, section): size for _, size, section, of in library.placed}
    return sum(sizes.get(thing, 0) for thing in {library.name(a)[:2] for a in addresses})


# ---- The commands. -------------------------------------------------------------------------------
def build_library(build):
    command = ["cmake", "--build", build, "--target", "numalloc", "still_clock", "instructions",
               "numalloc-bench"]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if result.returncode != 0:
        die(2, "%s\n%s" % (" ".join(command), result.stdout.decode(errors="replace")[-2000:]))
    return Library(os.path.realpath(os.path.join(build, "libnumalloc.so")),
                   os.path.join(build, "alloc/layout.map"))


def record_all(build, library, work):
    with open(os.path.join(work, "program.c"), "w") as f:
        f.write(PROGRAM)
    with open(os.path.join(work, "text"), "w") as f:
        f.writelines("%d %s\n" % (i * 7919 % 1009, "word" * (i % 9)) for i in range(2000))
    with open(os.path.join(work, "words.cpp"), "w") as f:
        f.write(WORDS)
    os.chdir(work)
    subprocess.run(["c++", "-O1", "-pthread", "-o", "words", "words.cpp"], check=True)
    processes = []
    clock = os.path.join(build, "tests/libstill_clock.so")
    for programs in (SMALL, LONGER):
        env = environment(library, clock, STEP_US if programs is LONGER else 0)
        for name, tool, words in programs:
            command = shlex.split(words.replace("BUILD", build))
            if shutil.which(command[0]) is None:
                die(2, "program '%s' is missing; scripts/setup.sh installs it" % command[0])
            runs = watch(lackey if tool == "lackey" else callgrind, command, library, work, env)
            for each, counts in runs:
                processes.append(Process(name if len(runs) == 1 else "%s: %s" % (name, each),
                                         programs is SMALL, counts))
    os.chdir(ROOT)
    return processes


def record(build, keep):
    one_node()
    for name in list(os.environ):
        if name.startswith(("NUMALLOC_", "LD_")):
            del os.environ[name]
    library = build_library(build)
    with tempfile.TemporaryDirectory(prefix="numalloc-layout.") as work:
        processes = record_all(build, library, work)
    text, constants = make_lists(library, processes)
    if not keep:
        write(TEXT, text, library, processes)
        write(CONSTANTS, constants, library, processes)
    after = build_library(build)
    summary(library, after, processes)
    fixed = collections.Counter()
    for process in processes:
        for source, section in {library.name(a)[:2] for a in process.counts}:
            if section in (".text", ".text.unlikely"):
                fixed[os.path.basename(source)] += 1
    for thing, count in sorted(fixed.items()):
        print("not in sections of its own: %s, in %d processes" % (thing, count))
    print("the library is %s" % ("as it was" if after.elf.data == library.elf.data
                                 else "laid out anew"))


def fail(message):
    print("layout: FAILED: %s: run %s" % (message, COMMAND), file=sys.stderr)


def check(map_path, path):
    library = Library(path, map_path)
    stale, shared = [], []
    for name in (TEXT, CONSTANTS):
        compiler, statements = read(name)
        if compiler != library.compiler():
            die(77, "the lists are for %s, and %s has built the library" % (
                compiler, library.compiler()))
        for files, wanted in statements:
            found = holders(library, wanted, files)
            if len(found) != 1:
                (shared if found else stale).append("%s(%s)" % (files, wanted[0]))
    with open(os.path.join(ROOT, FRAME)) as f:
        frame = re.sub(r"/\*.*?\*/", "", re.sub(r"\*alloc/CMakeFiles/\*", "%CORE", f.read()), flags=re.S)
    gone = ["%s(%s)" % (files, wanted) for files, wanted in re.findall(r"(%CORE\S*)\(([^()*]+)\)", frame)
            if not holders(library, wanted.split(), files.replace("%CORE", "*alloc/CMakeFiles/*"))]
    if gone:
        print("layout: FAILED: %s names what is not in the library: %s" % (
            FRAME, ", ".join(gone).replace("%CORE", "*")), file=sys.stderr)
    if stale:
        fail("%s and %s name what is not in the library: %s" % (TEXT, CONSTANTS, ", ".join(stale)))
    if shared:
        fail("%s and %s name what several files have: %s" % (TEXT, CONSTANTS, ", ".join(shared)))
    return 1 if stale or shared or gone else 0


def beyond(map_path, path, clock, kib, command):
    one_node()
    library = Library(path, map_path)
    with tempfile.TemporaryDirectory(prefix="numalloc-layout.") as work:
        runs = watch(lackey, command, library, work, environment(library, clock))
    used, far = set().union(*(counts for _, counts in runs)), {}
    for address in sorted(a for a in used if a >= kib * 1024):
        source, section, _ = library.name(address)
        if isinstance(source, str):
            far.setdefault("%s of %s" % (section, os.path.basename(source)), address)
        elif library.begins(address, used):
            far.setdefault(repr(source[:-1].decode()), address)
    shown = " ".join([os.path.basename(command[0]), *command[1:]])
    print("%s: %d addresses of the library, %d functions or constants beyond the first %d KiB" % (
        shown, len(used), len(far), kib))
    if far:
        fail("%s uses what lies beyond the library's first %d KiB: %s" % (
            shown, kib, ", ".join("%s at 0x%x" % f for f in far.items())))
    return 1 if far else 0


def main():
    if sys.argv[1:2] == ["check"] and len(sys.argv) == 4:
        return check(*sys.argv[2:])
    if sys.argv[1:2] == ["beyond"] and len(sys.argv) > 6:
        map_path, library, clock, kib = sys.argv[2:6]
        return beyond(map_path, os.path.realpath(library), os.path.realpath(clock), int(kib),
                      sys.argv[6:])
    parser = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    record(os.path.abspath(options.build), options.keep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
