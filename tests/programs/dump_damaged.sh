#!/bin/bash
# dump_damaged.sh - every view and export of numalloc-dump on damaged profiles, with symbols in them:
# a report, a partial report, or a refusal in one line; never a crash, a hang, or JSON that is none.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
files=${DAMAGED_FILES:-6} runs=3 flips=8 # one of each kind, and of each mode
[ "$TEST_SCALE" != full ] || files=60 runs=60 flips=80

profiled sites "$work/good.nprof" threads
"$dump" bundle "$work/good.nprof" -o "$work/bundle.nprof"

# One bit of a finished file, wherever it lies, never passes as a figure: every page and every field of
# the header's second part, then places by a fixed series of random numbers. A file of threads that the
# program's end meets in the midst of their events is sound itself.
cat >"$work/late.c" <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *work(void *unused) {
    for (size_t i = 1;; i++) {
        void *volatile block = malloc(i % 3000 + 1);
        free(block);
    }
    return unused;
}
int main(void) {
    pthread_t thread;
    for (int i = 0; i < 4; i++)
        if (pthread_create(&thread, NULL, work, NULL) != 0) return 1;
    usleep(20000);
    return 0;
}
END
cc -O1 -pthread "$work/late.c" -o "$work/late" || fail "the compiler does not build late.c"
for ((i = 0; i < runs; i++)); do
    rm -f "$work/late.nprof"
    NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=$work/late.nprof LD_PRELOAD=$lib "$work/late" || fail "late ends with status $?"
    # (A chunk that a thread was just making is a page without one, as after a kill.)
    "$dump" run "$work/late.nprof" >"$work/stdout" 2>"$work/err" || ! grep checksum "$work/err" ||
        fail "a profile that ended amid events: $(head -n 3 "$work/err")"
done
/usr/bin/python3 - "$dump" "$work" "$flips" <<'END'
import random, subprocess, sys
dump, work, flips = sys.argv[1], sys.argv[2], int(sys.argv[3])
random.seed(20261123)
silent, tried = [], 0
for name in "good", "late":
    good = open("%s/%s.nprof" % (work, name), "rb").read()
    pages = len(good) // 4096
    places = list(range(3072, 3264, 8)) + [random.randrange(4096)]
    places += [page * 4096 + random.randrange(4096) for page in range(1, pages, max(1, pages // (3 * flips)))]
    places += [pages * 4096 - 1]
    for at in places:
        bad = bytearray(good)
        bad[at] ^= 1 << random.randrange(8)
        with open(work + "/flip.nprof", "wb") as file:
            file.write(bad)
        got = subprocess.run([dump, "run", work + "/flip.nprof"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=300)
        tried += 1
        if got.returncode not in (1, 2) or not got.stderr.startswith("numalloc-dump: "):
            silent.append((name, at, got.returncode, got.stderr[:200]))
if silent:
    sys.exit("dump_damaged: FAILED: %d of %d flipped bits are not told, first: %s" % (len(silent), tried, silent[0]))
print("dump_damaged: %d flipped bits, each is told" % tried)
END

# The file of a process that was killed, or runs, has no checksums of all its figures. What it counts
# twice agrees, whatever its threads were at; a bit that flips in that later is told, and so is each of
# its stacks and modules, and of what is there once: the peak, threads' names and times, the timeline,
# and (where this machine has watchpoints) what is known of accesses.
sound() { # FILE WHAT: the views of it find no damage
    for view in run threads timeline objects; do
        "$dump" $view "$1" >/dev/null 2>"$work/err" || ! grep -E 'checksum|add up' "$work/err" ||
            fail "$2, view $view: $(head -n 3 "$work/err")"
    done
}
sed 's/usleep(20000)/for (;;) pause()/; s/free(block);/block = realloc(block, i % 5000 + 1); free(block);/' "$work/late.c" >"$work/ever.c"
cc -O1 -pthread "$work/ever.c" -o "$work/ever" || fail "the compiler does not build ever.c"
for ((i = 0; i < runs; i++)); do
    mode=sites
    [ $((i % 3)) != 2 ] || mode=sample
    file=$work/killed.$mode.nprof
    rm -f "$file"
    NUMALLOC_PROFILE=$mode NUMALLOC_ACCESS=watch NUMALLOC_SAMPLE_INTERVAL=16K NUMALLOC_PROFILE_FILE=$file LD_PRELOAD=$lib "$work/ever" &
    pid=$!
    at_end=("kill -9 $pid 2>/dev/null")
    while [ ! -s "$file" ]; do sleep 0.01; done
    sleep 0.05
    for ((k = 0; k < 2; k++)); do
        sound "$file" "mode $mode: a running process"
    done
    kill -9 "$pid"
    wait "$pid" 2>/dev/null || true
    at_end=()
    sound "$file" "mode $mode: a killed process"
done
/usr/bin/python3 - "$dump" "$work" "$flips" <<'END'
import random, struct, subprocess, sys
dump, work, flips = sys.argv[1], sys.argv[2], int(sys.argv[3])
random.seed(20261124)
good = open(work + "/killed.sites.nprof", "rb").read()
STACKS, CELLS, THREADS, MODULES, TIMELINE, SERIES, LIVES, SIZES = 1, 2, 3, 4, 5, 8, 9, 10
SOURCES, PROBES = 32, 39  # the first and the last of accesses
PEAK, LOST, POINT, OPEN = 0, -1, 80, 1
EVENTS, BLOCKS = 8, 1 << 16  # more than five threads can have half counted
# Bytes of an entry that are there twice, or have a checksum; the least change that is told.
TOLD = {STACKS: [(0, 16, 1)], MODULES: [(0, 40, 1), (48, 40, 1)], THREADS: [(0, 4, 1), (8, 32, 1), (72, 24, 1), (40, 16, EVENTS), (56, 16, BLOCKS), (128, 48, EVENTS)],
        CELLS: [(8, 8, EVENTS), (16, 8, BLOCKS), (32, 8, EVENTS), (40, 8, BLOCKS)], LIVES: [(8, 160, EVENTS)], SIZES: [(0, 384, EVENTS)]}
places, at = [], 4096
while at + 64 <= len(good):
    magic, kind, flags, length = struct.unpack_from("<IHHQ", good, at)
    if magic != 0x4B48434E:
        at += 4096
        continue
    size, capacity, first, count = struct.unpack_from("<IIII", good, at + 40)
    if kind == TIMELINE:
        active, check, _, _, *points = struct.unpack_from("<IIIIII", good, at + 64)
        places += [(kind, at + 64 + k, 1, 1) for k in range(24 if check != OPEN else 0)]
        for point in range(at + 88 + active * 512 * POINT, at + 88 + (active * 512 + points[active]) * POINT, POINT):
            flags = struct.unpack_from("<I", good, point + 72)[0]
            places += [(kind, point + k, 1, 1) for k in range(POINT if flags > 3 and flags >> 2 != OPEN else 0)]
    elif kind == SERIES:
        if struct.unpack_from("<Q", good, at + 64 + size - 8)[0] != OPEN:
            places += [(kind, at + 64 + k, 1, 1) for k in range(size)]
    elif SOURCES <= kind <= PROBES:
        for entry in range(at + 64, at + 64 + count * size, size):
            if struct.unpack_from("<Q", good, entry + size - 8)[0] != OPEN:
                places += [(kind, entry + k, 1, 1) for k in range(size)]
    for i in range(count if kind in TOLD else 0):
        entry = at + 64 + i * size
        if kind == STACKS and first + i < 2 or kind in (LIVES, CELLS, THREADS) and good[entry:entry + 4] == bytes(4):
            continue
        for field, width, least in TOLD[kind]:
            step = 4 if kind == LIVES else 8 if least > 1 else 1
            places += [(kind, entry + k, step, least) for k in range(field, field + width, step)]
    at += length
if struct.unpack_from("<Q", good, 3256)[0] != OPEN:
    places += [(PEAK, at, 1, 1) for at in [*range(3076, 3104), *range(3256, 3264)]]
places += [(LOST, at, 8, EVENTS) for at in (3144, 3152, 3168, 3176, 3192, 3216, 3264)]
silent, tried = [], {}
for kind in [PEAK, LOST, TIMELINE, SERIES, *TOLD, *sorted({kind for kind, *_ in places if kind >= SOURCES})]:
    of_kind = [place for place in places if place[0] == kind]
    if not of_kind:
        sys.exit("dump_damaged: FAILED: no chunk of type %d in the file" % kind)
    for _, at, step, least in random.sample(of_kind, min(flips, len(of_kind))):
        bit = random.randrange(least.bit_length() if least > 1 else 0, 8 * step)
        bad = bytearray(good)
        bad[at + bit // 8] ^= 1 << bit % 8
        with open(work + "/flip.nprof", "wb") as file:
            file.write(bad)
        view = "timeline" if kind in (TIMELINE, SERIES) else "threads" if kind == THREADS else "objects" if kind >= SOURCES else "sites"
        got = subprocess.run([dump, view, work + "/flip.nprof"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=300)
        tried[kind] = tried.get(kind, 0) + 1
        if got.returncode not in (1, 2) or not got.stderr.startswith("numalloc-dump: "):
            silent.append((kind, at, bit, got.returncode, got.stderr[:200]))
if silent:
    sys.exit("dump_damaged: FAILED: %d flipped bits of a killed process's file are not told, first: %s" % (len(silent), silent[0]))
print("dump_damaged: %d flipped bits of a killed process's file in %d kinds of entries, each is told" % (sum(tried.values()), len(tried)))
END

# Single bytes, many bytes, pages of noise, words of extreme value, by a fixed series of random
# numbers; every third with chunk checksums made good again, so that what is inside is looked at.
/usr/bin/python3 - "$work/bundle.nprof" "$work" "$files" <<'END'
import random, struct, sys, zlib
good = open(sys.argv[1], "rb").read()
random.seed(20261121)
def seal(bad):
    at = 4096
    while at + 64 <= len(bad):
        magic, kind, flags, length, self_offset = struct.unpack_from("<IHHQQ", bad, at)
        if magic != 0x4b48434e or self_offset != at or length % 4096 or not 4096 <= length <= len(bad) - at:
            at += 4096
            continue
        if flags & 2:
            struct.pack_into("<I", bad, at + 56, zlib.crc32(bytes(bad[at + 64:at + length])))
        head = bytearray(bad[at:at + 64])
        struct.pack_into("<I", head, 52, 0)
        struct.pack_into("<II", head, 56, 0, 0)
        struct.pack_into("<I", bad, at + 60, zlib.crc32(bytes(head)))
        at += length
def resymbol(bad):
    # The text of the symbols itself, damaged and compressed again.
    at = bad.rfind(b"NCHK")
    text = bytearray(zlib.decompress(bytes(bad[at + 64:])))
    for _ in range(random.randrange(1, 60)):
        text[random.randrange(len(text))] = random.choice(b"\t\n\0PF19f\xff;\"")
    packed = zlib.compress(bytes(text), 9)
    length = (64 + len(packed) + 4095) // 4096 * 4096
    del bad[at + 64:]
    bad += packed + bytes(length - 64 - len(packed))
    struct.pack_into("<Q", bad, at + 8, length)
    struct.pack_into("<Q", bad, 3104, len(bad))
for i in range(int(sys.argv[3])):
    bad = bytearray(good)
    used = len(good)
    if i % 6 == 0:
        bad[random.choice([random.randrange(4096), random.randrange(used)])] ^= 1 << random.randrange(8)
    elif i % 6 == 1:
        for _ in range(random.randrange(1, 2000)):
            bad[random.randrange(4096, used)] = random.randrange(256)
    elif i % 6 == 2:
        for _ in range(random.randrange(1, 60)):
            at = random.randrange(512, used // 8) * 8
            bad[at:at + 8] = random.choice([b"\xff" * 8, b"\0" * 8, b"\xff" * 4 + b"\0" * 4, b"\0" * 7 + b"\x80"])
    elif i % 6 == 3:
        resymbol(bad)
    elif i % 6 == 4:
        del bad[random.randrange(4097, used):]
    else:
        for _ in range(3):
            at = random.randrange(1, used // 4096) * 4096 + 64 * random.randrange(1, 64)
            bad[at:at + 64] = random.randbytes(64)
    if i % 3 == 0 or i % 6 == 2:
        seal(bad)
    open("%s/bad.%d.nprof" % (sys.argv[2], i), "wb").write(bad)
END

views=$("$dump" help --names | grep -vx help)
declare -A has_json=()
for view in $views; do
    ! "$dump" help "$view" --names | grep -x -- --json >/dev/null || has_json[$view]=1
done
tried=0 refused=0
for ((i = 0; i < files; i++)); do
    file=$work/bad.$i.nprof
    for view in $views; do
        arguments=("$view" "$file")
        [ "$view" = diff ] && arguments=(diff "$work/good.nprof" "$file")
        [ "$view" = check ] && arguments+=(--fail-if 'peak>0' --baseline "$file" --fail-on-increase 1%)
        rc=0
        timeout 300 "$dump" "${arguments[@]}" -o "$work/out" >"$work/stdout" 2>"$work/err" || rc=$?
        [ "$rc" -le 2 ] || fail "$view on damaged profile $i ends with status $rc (KEEP=1 keeps it): $(head -n 3 "$work/err")"
        while IFS= read -r line; do
            [[ $line == 'numalloc-dump: '* ]] || fail "$view on damaged profile $i: a line does not say who speaks: $line"
        done <"$work/err"
        [ "$rc" != 2 ] || refused=$((refused + 1))
        tried=$((tried + 1))
        if [ -n "${has_json[$view]:-}" ]; then
            timeout 300 "$dump" "${arguments[@]}" --json >"$work/out" 2>/dev/null || rc=$?
            [ "$rc" -le 2 ] || fail "$view --json on damaged profile $i ends with status $rc"
        fi
        case $view in json | speedscope | sites | callers | functions)
            [ ! -s "$work/out" ] || /usr/bin/python3 -c 'import json, sys; json.load(open(sys.argv[1], encoding="utf-8"))' "$work/out" ||
                fail "$view on damaged profile $i writes JSON that is none"
            ;;
        esac
        : >"$work/out"
    done
done
say "$files damaged profiles: $tried calls, $refused refused, no crash"
