#!/usr/bin/env python3
"""event-walk.py - how many modules and files of the library one event passes.

usage: scripts/event-walk.py LIBNUMALLOC.SO [--files | --hold]

Callgrind executes each event once, in a thread that was warm; addr2line tells of each instruction
from which source it is, inlined functions included. A call goes up where a function of a folder
calls one of a folder above it (ROOMS of scripts/includes.py). Prints a table in Markdown; with
--files the files of each event as well. --hold fails where an event passes more files than EVENTS
allows. Needs valgrind, a C compiler, and a library with debug information. Takes a quarter of a
minute."""
import collections
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = r"""
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/callgrind.h>

enum { BLOCKS = 200, SIZE = 48 };
static void *blocks[BLOCKS];
static pthread_barrier_t barrier;

/* The counted call is the one of the others: a profile knows its site. */
__attribute__((noinline, noclone)) static void *give(size_t size, bool counted) {
    if (counted) CALLGRIND_TOGGLE_COLLECT;
    __asm__ volatile("" : "+r"(counted)); /* one call, whatever it is */
    void *block = malloc(size);
    if (counted) CALLGRIND_TOGGLE_COLLECT;
    return block;
}

__attribute__((noinline, noclone)) static void take(void *block, bool counted) {
    if (counted) CALLGRIND_TOGGLE_COLLECT;
    __asm__ volatile("" : "+r"(counted));
    free(block);
    if (counted) CALLGRIND_TOGGLE_COLLECT;
}

static void *owner(void *unused) {
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = give(SIZE, false);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier); /* it lives on */
    return unused;
}

static void remote(unsigned nth) {
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    if (pthread_create(&thread, NULL, owner, NULL) != 0) abort();
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < BLOCKS; i++)
        take(blocks[i], i == nth);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
}

static void *keep(void *size) {
    take(give((size_t)(uintptr_t)size, false), false);
    return NULL;
}

/* Its thread cache is the one that another thread left. */
static void *adopt(void *size) {
    take(give((size_t)(uintptr_t)size, true), false);
    return NULL;
}

static void run(void *work(void *), size_t size) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, (void *)(uintptr_t)size) != 0) abort();
    pthread_join(thread, NULL);
}

__attribute__((noinline, noclone)) static void grow(size_t from, size_t to) {
    void *block = give(from, false);
    CALLGRIND_TOGGLE_COLLECT;
    void *more = realloc(block, to);
    CALLGRIND_TOGGLE_COLLECT;
    take(more, false);
}

/* Callgrind may not know the library: where it is. */
static int tell_mappings(void) {
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "/libnumalloc") != NULL) fputs(line, stdout);
    return maps != NULL ? fclose(maps) : 1;
}

int main(int argc, char **argv) {
    if (argc != 3 || tell_mappings() != 0) return 2;
    unsigned warm = 20000, nth = (unsigned)atoi(argv[2]);
    bool is_malloc = strcmp(argv[1], "malloc") == 0, is_free = strcmp(argv[1], "free") == 0;
    for (unsigned i = 0; i < warm + BLOCKS; i++)
        take(give(SIZE, is_malloc && i == warm + nth), is_free && i == warm + nth);
    if (strcmp(argv[1], "miss") == 0) take(give(208, true), false);
    if (strcmp(argv[1], "remote") == 0) remote(nth);
    if (strcmp(argv[1], "first") == 0) take(give(100000, true), false);
    if (strcmp(argv[1], "adopt") == 0) run(keep, SIZE), run(adopt, SIZE);
    if (strcmp(argv[1], "realloc") == 0) grow(30000, 64 << 20);
    if (strcmp(argv[1], "large") == 0) take(give(3 << 20, true), false);
    if (strcmp(argv[1], "large free") == 0) take(give(12 << 20, false), true);
    return 0;
}
"""
# What is told, the program's arguments (the event, and which in turn), whether a profile is
# recorded, which of the calls (min: the first that passes no more files than it may; one that is
# timed, or publishes a point of time, passes more); the most files that --hold allows: no more than
# now.
EVENTS = [
    ("malloc that misses: the first of its size, with a new span", "miss", [0], False, max, 16),
    ("free of another thread's block, whose batch is posted", "remote", range(60, 68), False, max, 8),
    ("100 KB, the first of its size", "first", [0], False, max, 18),
    ("large block, 3 MB, that nothing is kept for", "large", [0], False, max, 19),
    ("free of a large block, 12 MB", "large free", [0], False, max, 19),
    ("realloc of 30 KB to 64 MB", "realloc", [0], False, max, 22),
    ("first malloc of a thread, which adopts a thread cache", "adopt", [0], False, max, 13),
    ("recorded malloc, mode *sites*", "malloc", range(100, 120), True, min, 10),
    ("recorded free, mode *sites*", "free", range(100, 120), True, min, 10),
]


def levels():
    """LEVEL and room_of of includes.py, which is a program."""
    text = (ROOT / "scripts/includes.py").read_text(encoding="utf-8").replace("sys.exit(main())", "")
    names = {"__file__": str(ROOT / "scripts/includes.py"), "__name__": "includes"}
    exec(compile(text, "includes.py", "exec"), names)  # pylint: disable=exec-used
    return names["LEVEL"], names["room_of"]


def read(path, begin, end):
    """Of a file of callgrind's: (instructions by address, calls as (from, to) addresses), all of
    the library, which lies from begin to end. Where callgrind knows the library, addresses are
    relative to it."""
    costs, calls, target = collections.Counter(), [], None
    known = to_known = False
    for line in path.read_text().splitlines():
        if line.startswith("ob="):
            known = to_known = "/libnumalloc" in line
        elif line.startswith("cob="):
            to_known = "/libnumalloc" in line
        elif line.startswith("calls="):
            target = int(line.split()[1], 16) - (0 if to_known else begin)
        elif line.startswith("0x"):
            address, _, cost = line.split()
            address = int(address, 16) - (0 if known else begin)
            if 0 <= address < end - begin:
                if target is None:
                    costs[address] += int(cost)
                elif 0 <= target < end - begin:
                    calls.append((address, target))
            target, to_known = None, known
    return costs, calls


def sources(library, addresses):
    """Of each address the files that its instruction is from: the innermost first."""
    text = subprocess.run(["addr2line", "-a", "-i", "-e", library], check=True, text=True,
                          capture_output=True, input="\n".join(map(hex, addresses))).stdout
    found, current = {}, None
    for line in text.splitlines():
        if line.startswith("0x"):
            current = found.setdefault(int(line, 16), [])
        else:
            name = os.path.normpath(line.rpartition(":")[0])
            for top in ("alloc/", "pagemap/", "profiler/"):
                if f"/{top}" in name:
                    current.append(name[name.index(f"/{top}") + 1:])
                    break
    return found


def files_of(library, costs):
    return {file for files in sources(library, set(costs)).values() for file in files}


def walk(preloaded, directory, program, event, nth, records):
    environment = dict(os.environ, LD_PRELOAD=preloaded)
    if records:
        environment["NUMALLOC_PROFILE"] = "sites"
        environment["NUMALLOC_PROFILE_FILE"] = str(directory / "profile")
    told = subprocess.run(["valgrind", "--tool=callgrind",
                           "--soname-synonyms=somalloc=nouserintercepts", "--dump-instr=yes",
                           "--compress-pos=no", "--compress-strings=no",
                           "--collect-atstart=no", f"--callgrind-out-file={directory}/out",
                           program, event, str(nth)],
                          env=environment, check=True, text=True, capture_output=True).stdout
    mappings = [line.split()[0].split("-") for line in told.splitlines()]
    if not mappings:
        sys.exit(f"event-walk.py: {preloaded} was not preloaded")
    costs, calls = read(directory / "out", int(mappings[0][0], 16), int(mappings[-1][1], 16))
    if not costs:
        sys.exit(f"event-walk.py: callgrind counted nothing of {preloaded} for '{event}'")
    return sum(costs.values()), costs, calls


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--files"], ["--hold"]):
        sys.exit("usage: scripts/event-walk.py LIBNUMALLOC.SO [--files | --hold]")
    library, with_files, holds = os.path.abspath(sys.argv[1]), "--files" in sys.argv, "--hold" in sys.argv
    too_long = []
    level, room_of = levels()
    print("| event | modules, files, instructions | calls of functions; of these upward |")
    print("|---|---|---|")
    lists = []
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        source, program = directory / "walk.c", directory / "walk"
        source.write_text(PROGRAM)
        subprocess.run(["cc", "-O1", "-fno-builtin", "-pthread", source, "-o", program], check=True)
        # What goes by time (free memory is scavenged) never comes: it would fall into some call.
        clock = directory / "still_clock.so"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", ROOT / "tests/programs/still_clock.c", "-o", clock, "-ldl"],
                       check=True)
        for title, event, turns, records, choose, most in EVENTS:
            preloaded = library if records else f"{library}:{clock}"  # (a profile waits for its clock)
            walks = []
            for nth in turns:
                walks.append(walk(preloaded, directory, program, event, nth, records))
                if choose is min and len(files_of(library, walks[-1][1])) <= most:
                    break
            _, costs, calls = choose(walks, key=lambda walk: walk[0])
            where = sources(library, set(costs) | {to for _, to in calls})
            files = files_of(library, costs)
            up = 0
            for address, to in calls:
                caller, callee = where[address], where[to]
                if caller and callee:
                    up += level[room_of(callee[-1])] < level[room_of(caller[0])]
            modules = {os.path.splitext(file)[0] for file in files}
            print(f"| {title} | {len(modules)}, {len(files)}, {sum(costs.values()):,} "
                  f"| {len(calls)}; {up} |", flush=True)
            lists.append((title, files))
            if len(files) > most:
                too_long.append(f"{title}: {len(files)} files, at most {most}")
    for title, files in lists if with_files else []:
        print(f"\n{title}:")
        by_room = collections.defaultdict(list)
        for file in sorted(files):
            by_room[room_of(file)].append(os.path.basename(file))
        for room in sorted(by_room, key=level.get):
            print(f"    {room + '/':24}{', '.join(by_room[room])}")
    if holds and too_long:
        sys.exit("event-walk.py: an event passes too many files (--files lists them):\n"
                 + "\n".join(too_long))


main()
