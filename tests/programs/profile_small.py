"""profile_small.py LIBRARY DUMP PROGRAM: what the profile of a process that allocates little costs, and
that its file is whole: packed, half packed, damaged. One line a failure; status 1 if there are any."""

import json
import os
import struct
import subprocess
import sys
import zlib

LIBRARY, DUMP, PROGRAM = sys.argv[1:4]
PAGE = 4096
USED, PACKED = 3104, 3200  # fields of the header
PACKED_TYPE = 48
MODES = ["sites", "sample", "trace", "sites,access=auto"]
failures = 0


def fail(text):
    global failures
    failures += 1
    print(f"profile_small: FAILED: {text}", file=sys.stderr)


def run(mode, name, *command):
    if os.path.exists(name):
        os.unlink(name)
    env = {"PATH": os.environ["PATH"], "LD_PRELOAD": LIBRARY}
    if mode:
        env |= {"NUMALLOC_PROFILE": mode, "NUMALLOC_PROFILE_FILE": name}
    _, status, usage = os.wait4(os.posix_spawn(command[0], command, env), 0)
    return status, usage.ru_minflt


def dump(name, *view):
    got = subprocess.run([DUMP, *view, name], capture_output=True, text=True, check=False)
    return got.returncode, got.stdout, got.stderr


def size_on_disk(name):
    return os.stat(name).st_blocks * 512


def sealed(chunk, offset):
    """The chunk as it would be at another offset."""
    chunk = bytearray(chunk)
    struct.pack_into("<Q", chunk, 16, offset)
    head = bytearray(chunk[:64])
    struct.pack_into("<I", head, 52, 0)
    struct.pack_into("<II", head, 56, 0, 0)
    struct.pack_into("<I", chunk, 60, zlib.crc32(head))
    return bytes(chunk)


for mode in MODES:
    name = f"{mode}.nprof"
    run(mode, name, "/bin/true")
    if not os.path.exists(name):
        sys.exit(f"profile_small: FAILED: mode {mode}: no profile")
    if size_on_disk(name) > 16 << 10 or os.path.getsize(name) > 16 << 10:
        fail(f"mode {mode}: /bin/true leaves {size_on_disk(name) >> 10} KiB, at most 16")
    status, text, error = dump(name, "run")
    if status != 0 or error or "/bin/true" not in text or "libc.so.6" not in text:
        fail(f"mode {mode}: cannot be read: status {status}, {error}")

# What a profile adds to a process that does nothing: instructions, as callgrind counts them, and page
# faults, which are most of the kernel's part. Both hardly vary.


def counted(mode):
    """Instructions of a process that ends before it is looked at. With access a second thread may get a
    turn before the end, as the scheduler likes, and then looks: its total says so, and the run is made anew."""
    for _ in range(20):
        run(mode, "cost.nprof", "/usr/bin/valgrind", "--tool=callgrind", "--callgrind-out-file=cost",
            "--separate-threads=yes", "--soname-synonyms=somalloc=nouserintercepts", "--log-file=log", "/bin/true")
        first, second = (total(name) for name in ("cost-01", "cost-02"))
        if second < 2000:
            return first
    sys.exit("profile_small: FAILED: in 20 runs the access thread always looked at a process that does nothing")


def total(name):
    """What callgrind counted for a thread; 0 where there was none."""
    if not os.path.exists(name):
        return 0
    with open(name, encoding="utf-8") as file:
        count = next(int(line.split()[1]) for line in file if line.startswith(("summary:", "totals:")))
    os.unlink(name)
    return count


plain = counted(None), run(None, "none", "/bin/true")[1]
for mode, instructions, faults in (("sites", 370000, 90), ("sample", 360000, 90), ("trace", 380000, 120),
                                   ("sites,access=auto", 395000, 115)):
    # On a busy machine a process that waits for a CPU may live long enough to be looked at.
    least = min(run(mode, "cost.nprof", "/bin/true")[1] for _ in range(5))
    added = counted(mode) - plain[0], least - plain[1]
    print(f"profile_small: mode {mode}: {added[0]} instructions and {added[1]} page faults added")
    if added[0] > instructions or added[1] > faults:
        fail(f"mode {mode} adds {added[0]} instructions and {added[1]} page faults, more than "
             f"{instructions} and {faults}")

# What a packed file says is so.
for mode in ("sites", "trace"):
    run(mode, "known.nprof", PROGRAM, "single", "100")
    if size_on_disk("known.nprof") > 16 << 10:
        fail(f"mode {mode}: {size_on_disk('known.nprof') >> 10} KiB for 100 blocks")
    status, text, error = dump("known.nprof", "summary", "--json")
    allocs = json.loads(text)["total"]["allocations"] if status == 0 else error
    if allocs != 100:
        fail(f"mode {mode}: 100 blocks are counted as {allocs}")

# One that is killed has a whole file, too, as it was.
run("sites", "killed.nprof", "/bin/sh", "-c", "kill -9 $$")
status, text, error = dump("killed.nprof", "run")
if status != 0 or error or "libc.so.6" not in text:
    fail(f"killed: status {status}, {error}")
if struct.unpack_from("<Q", open("killed.nprof", "rb").read(PAGE), PACKED)[0] != 0:
    fail("killed: is packed")

# The moments of packing: behind the old chunks; then both; what lies between is being overwritten.
with open("sites.nprof", "rb") as file:
    packed = file.read()
header, chunk = bytearray(packed[:PAGE]), packed[PAGE:]
(used,) = struct.unpack_from("<Q", header, USED)
if struct.unpack_from("<H", chunk, 4)[0] != PACKED_TYPE:
    sys.exit("profile_small: FAILED: /bin/true's profile is not packed")
struct.pack_into("<Q", header, PACKED, used)
truth = dump("sites.nprof", "run")
for what, between in (("behind", b"\x55" * (used - PAGE)), ("twice", chunk + bytes(used - PAGE - len(chunk)))):
    with open("moment.nprof", "wb") as file:
        file.write(header + between + sealed(chunk, used))
    if dump("moment.nprof", "run") != truth:
        fail(f"a file whose packing stopped, chunk {what}, reads otherwise")

# Damage is named.
for what, at in (("its data", PAGE + 80), ("its header", PAGE + 8)):
    damaged = bytearray(packed)
    damaged[at] ^= 1
    with open("damaged.nprof", "wb") as file:
        file.write(damaged)
    status, text, error = dump("damaged.nprof", "run")
    if status == 0 or error.count("\n") != 1 or "damaged" not in error:
        fail(f"damage of {what}: status {status}, {error}")

# A bundle is a file of its own that reads the same.
got = subprocess.run([DUMP, "bundle", "sites.nprof", "-o", "bundle.nprof"], capture_output=True, text=True, check=False)
if got.returncode != 0 or "libc.so.6" not in dump("bundle.nprof", "run")[1]:
    fail(f"bundle: {got.stderr}")
sys.exit(1 if failures else 0)
