#!/bin/bash
# dump_damaged.sh - every view and export of numalloc-dump on damaged profiles, with symbols in them:
# a report, a partial report, or a refusal in one line; never a crash, a hang, or JSON that is none.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
files=${DAMAGED_FILES:-18}

profiled sites "$work/good.nprof" threads
"$dump" bundle "$work/good.nprof" -o "$work/bundle.nprof"

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
tried=0 refused=0
for ((i = 0; i < files; i++)); do
    file=$work/bad.$i.nprof
    for view in $views; do
        arguments=("$view" "$file")
        [ "$view" = diff ] && arguments=(diff "$work/good.nprof" "$file")
        [ "$view" = check ] && arguments+=(--fail-if 'peak>0' --baseline "$file" --fail-on-increase 1%)
        rc=0
        timeout 20 "$dump" "${arguments[@]}" -o "$work/out" >"$work/stdout" 2>"$work/err" || rc=$?
        [ "$rc" -le 2 ] || fail "$view on damaged profile $i ends with status $rc (KEEP=1 keeps it): $(head -n 3 "$work/err")"
        ! grep -qv '^numalloc-dump: ' "$work/err" || fail "$view on damaged profile $i: a line does not say who speaks: $(head -n 3 "$work/err")"
        [ "$rc" != 2 ] || refused=$((refused + 1))
        tried=$((tried + 1))
        if "$dump" help "$view" --names | grep -x -- --json >/dev/null; then
            timeout 20 "$dump" "${arguments[@]}" --json >"$work/out" 2>/dev/null || rc=$?
            [ "$rc" -le 2 ] || fail "$view --json on damaged profile $i ends with status $rc"
        fi
        case $view in json | speedscope | sites | callers | functions)
            [ ! -s "$work/out" ] || /usr/bin/python3 -c 'import json, sys; json.load(open(sys.argv[1], encoding="utf-8"))' "$work/out" ||
                fail "$view on damaged profile $i writes JSON that is none"
            ;;
        esac
        rm -f "$work/out"
    done
done
say "$files damaged profiles: $tried calls, $refused refused, no crash"
