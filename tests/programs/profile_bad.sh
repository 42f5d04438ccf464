#!/bin/bash
# profile_bad.sh - what goes wrong around a profile never hurts the program that is profiled, and is
# said in one line: a path that cannot be written, a full disk, a wrong mode; and numalloc-dump on
# files that are damaged, cut, empty, absent or something else.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"

# unharmed NAME [NAME=VALUE...]: the program runs as always and says at least one line on stderr,
# each from numalloc.
unharmed() {
    local name=$1 rc=0
    shift
    env "$@" LD_PRELOAD="$lib" "$load" sites >"$work/out" 2>"$work/err" || rc=$?
    [ "$rc" = 5 ] || fail "$name: the program ends with status $rc, not 5: $(head -n 3 "$work/err")"
    [ "$(cat "$work/out")" = "done: sites" ] || fail "$name: the program printed '$(head -n 3 "$work/out")'"
    [ -s "$work/err" ] || fail "$name: nothing is said on stderr"
    ! grep -qv '^numalloc: ' "$work/err" || fail "$name: a line on stderr does not say who speaks: $(cat "$work/err")"
    [ "$(wc -l <"$work/err")" -le 2 ] || fail "$name: $(wc -l <"$work/err") lines on stderr, one would do"
    say "$name: $(cat "$work/err")"
}

unharmed "absent directory" NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/no/such/dir/x.nprof"
grep -q "no/such/dir" "$work/err" || fail "the line does not name the path"
unharmed "/proc" NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=/proc/none.nprof
unharmed "wrong mode" NUMALLOC_PROFILE=foo NUMALLOC_PROFILE_FILE="$work/foo.nprof"
grep -q foo "$work/err" || fail "the line does not name the mode"
[ ! -e "$work/foo.nprof" ] || fail "a wrong mode made a profile"

# A file that is there is never overwritten, whatever it is.
echo "not a profile" >"$work/there.nprof"
profiled sites "$work/there.nprof" sites
[ "$(cat "$work/there.nprof")" = "not a profile" ] || fail "an existing file was overwritten"
check "$(the_one "$work/there.nprof.*")" alloc_small:allocations=1000

# A daemon: it closes all descriptors and goes to another directory. The file is opened again, by its
# whole name; if it was removed meanwhile, the program goes on, and is told.
daemon() {
    (cd "$work" && NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$1" LD_PRELOAD="$lib" PYTHONMALLOC=malloc \
        exec /usr/bin/python3 -c '
import os, sys
os.closerange(3, 4096)
os.chdir("/")
if sys.argv[1] == "removed": os.unlink(sys.argv[2])
opened = open("/dev/null")
def deep(n): return [bytes(600)] + deep(n - 1) if n else [bytes(1 << 20)]
for i in range(150): deep(i)
if opened.fileno() != 3: sys.exit("descriptor 3 was taken")
sys.exit(len(os.listdir("/proc/self/fd")) > 8)' "$2" "$work/$1") 2>"$work/err" ||
        fail "a daemon ($2 file) ends with status $?: $(head -n 3 "$work/err")"
}
daemon daemon.nprof kept
[ ! -s "$work/err" ] || fail "a daemon: $(cat "$work/err")"
"$dump" --json --top 0 "$work/daemon.nprof" >"$work/check.json"
as_expected @lost.disk_full=False @closed=True || fail "a daemon's profile stopped when it closed the file"
daemon removed.nprof removed
[ "$(grep -c "the program closed its file" "$work/err")" = 1 ] && [ "$(wc -l <"$work/err")" = 1 ] ||
    fail "a daemon that removed the file: $(cat "$work/err")"

# RLIMIT_FSIZE: the file may not grow past 64 KiB; SIGXFSZ would end the program.
rc=0
(ulimit -f 64 && NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/limit.nprof" LD_PRELOAD="$lib" \
    exec "$load" sites) >"$work/out" 2>"$work/err" || rc=$?
[ "$rc" = 5 ] && [ "$(cat "$work/out")" = "done: sites" ] ||
    fail "under ulimit -f 64 the program ends with status $rc: $(head -n 3 "$work/err")"
[ -s "$work/err" ] || fail "ulimit -f 64: nothing is said on stderr"
say "ulimit -f: $(cat "$work/err")"

# A full disk: a small file system of its own, with no room at all, a little, and some.
mkdir "$work/disk"
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=256k numalloc-test "$work/disk" 2>/dev/null; then
    at_end=("umount '$work/disk'")
    for free_kib in 160 128 64 12 0; do
        rm -f "$work"/disk/*
        dd if=/dev/zero of="$work/disk/filler" bs=4096 count=$(((256 - free_kib) / 4)) status=none 2>/dev/null || true
        unharmed "disk with $free_kib KiB free" NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/disk/full.nprof"
        if [ -s "$work/disk/full.nprof" ]; then
            # Shows what there is. With too little room for even the first table nothing can be shown,
            # but then the program must have said so, and not that the profile goes on.
            status=0
            "$dump" --json --stacks --top 0 "$work/disk/full.nprof" >"$work/check.json" 2>"$work/check.err" || status=$?
            [ "$status" -le 2 ] || fail "numalloc-dump on a profile from a full disk: status $status"
            if [ "$status" = 2 ]; then
                [ "$free_kib" -lt 160 ] || fail "a profile with $free_kib KiB of room shows nothing: $(cat "$work/check.err")"
                [ "$(wc -l <"$work/check.err")" = 1 ] || fail "refused with more than a line: $(cat "$work/check.err")"
                grep -q '^numalloc: no profile' "$work/err" ||
                    fail "$free_kib KiB of room: numalloc-dump refuses the file ($(cat "$work/check.err")), but the program said: $(cat "$work/err")"
            else
                as_expected @lost.disk_full=True || fail "the profile does not say that the disk was full"
            fi
        fi
    done
    umount "$work/disk"
    at_end=()
else
    say "full disk: not tested, mounting a small tmpfs needs root"
fi

# refused NAME FILE: status 2, nothing on stdout, one line on stderr that names the file.
refused() {
    local name=$1 file=$2 view rc
    for view in "" --json; do
        rc=0
        # shellcheck disable=SC2086
        timeout 300 "$dump" $view "$file" >"$work/out" 2>"$work/err" || rc=$?
        [ "$rc" = 2 ] || fail "numalloc-dump $view on $name ends with status $rc, not 2: $(head -n 3 "$work/err")"
        [ "$(wc -l <"$work/err")" = 1 ] || fail "numalloc-dump $view on $name: $(wc -l <"$work/err") lines on stderr, not 1: $(head -n 3 "$work/err")"
        grep -qF -- "$(basename "$file")" "$work/err" || fail "numalloc-dump $view on $name does not name the file: $(cat "$work/err")"
        [ ! -s "$work/out" ] || fail "numalloc-dump $view on $name prints a report all the same"
    done
    say "$name: $(sed "s|$work/||g" "$work/err")"
}

: >"$work/empty.nprof"
head -c 100 /dev/zero >"$work/short.nprof"
head -c 300000 /dev/zero >"$work/zeros.nprof"
printf 'this is a text file\n%.0s' {1..2000} >"$work/text.nprof"
mkdir "$work/dir.nprof"
refused "an empty file" "$work/empty.nprof"
refused "a file of 100 zeros" "$work/short.nprof"
refused "a file of zeros" "$work/zeros.nprof"
refused "a text file" "$work/text.nprof"
refused "a program" "$load"
refused "a directory" "$work/dir.nprof"
refused "an absent file" "$work/absent.nprof"

profiled sites "$work/good.nprof" sites
check "$work/good.nprof" alloc_small:allocations=1000

# readable FILE NAME: a report (status 0), a partial one that says what is missing (1), or a refusal
# in one line (2); no crash, no hang, and valid JSON. Sets status and sites (how many are shown).
readable() {
    status=0
    sites=0
    timeout 300 "$dump" --json --stacks --top 0 "$1" >"$work/out" 2>"$work/err" || status=$?
    case $status in
    0 | 1)
        sites=$(/usr/bin/python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["sites"]))' "$work/out") ||
            fail "$2: the JSON is not valid"
        ;;
    2) [ "$(wc -l <"$work/err")" = 1 ] || fail "$2: refused with $(wc -l <"$work/err") lines: $(head -n 3 "$work/err")" ;;
    *) fail "$2: numalloc-dump ends with status $status: $(head -n 3 "$work/err")" ;;
    esac
    [ "$status" != 1 ] || grep -q '^numalloc-dump: incomplete: ' "$work/err" || fail "$2: status 1, but nothing says what is missing"
    ! grep -qv '^numalloc-dump: ' "$work/err" || fail "$2: a line on stderr does not say who speaks: $(head -n 3 "$work/err")"
}

# Cut at every page: whatever is left of the sites is shown, more with every page, and all of them
# before the end. header.used (profiler/format/nprof.h) says how long the file has to be.
size=$(stat -c %s "$work/good.nprof")
used=$(od -A n -t u8 -j 3104 -N 8 "$work/good.nprof" | tr -d ' ')
readable "$work/good.nprof" "the whole profile"
[ "$status" = 0 ] || fail "the whole profile is called incomplete: $(head -n 3 "$work/err")"
all=$sites
pages=$(((used + 4095) / 4096))
[ "$pages" -ge 4 ] && [ "$size" -ge "$used" ] || fail "the profile uses $used of $size bytes: the test does not know this format"
most=12
[ "$TEST_SCALE" != full ] || most=60
step=$((pages > most ? pages / most : 1))
before=0
partial=0
for ((page = 0; page < pages; page += (page < most / 2 ? 1 : step))); do
    head -c $((page * 4096)) "$work/good.nprof" >"$work/cut.nprof"
    readable "$work/cut.nprof" "a profile cut to $page of $pages pages"
    if [ "$page" = 0 ]; then
        [ "$status" = 2 ] || fail "a profile cut to nothing is not refused"
    else
        [ "$status" = 1 ] || fail "a profile cut to $page of $pages pages: status $status, expected 1 (partial)"
        [ "$sites" -ge "$before" ] || fail "cut to $page pages the profile shows $sites sites, cut shorter $before"
        before=$sites
        partial=$((partial + 1))
    fi
done
head -c $((used - 1)) "$work/good.nprof" >"$work/cut.nprof"
readable "$work/cut.nprof" "a profile without its last byte"
[ "$status" = 1 ] || fail "a profile without its last byte: status $status, expected 1 (partial)"
[ "$sites" = "$all" ] || fail "a profile without its last byte shows $sites of $all sites"
say "cut at page boundaries: $partial partial reports, $all sites in the whole one"

damaged=16
[ "$TEST_SCALE" != full ] || damaged=400
# Damaged: single bytes and whole pages, everywhere, by a fixed series of random numbers.
/usr/bin/python3 - "$work/good.nprof" "$work" "$damaged" <<'END'
import random, sys
good = open(sys.argv[1], "rb").read()
random.seed(20240607)
used = len(good.rstrip(b"\0"))
for i in range(int(sys.argv[3])):
    bad = bytearray(good)
    if i % 4 == 0:  # one byte, often in the header page or in a chunk's header
        bad[random.choice([random.randrange(4096), random.randrange(used)])] ^= 1 << random.randrange(8)
    elif i % 4 == 1:  # many bytes
        for _ in range(random.randrange(1, 2000)):
            bad[random.randrange(used)] = random.randrange(256)
    elif i % 4 == 2:  # pages of noise, the first one spared
        for _ in range(random.randrange(1, 5)):
            at = random.randrange(1, max(2, used // 4096)) * 4096
            bad[at:at + 4096] = random.randbytes(4096)
    else:  # words of extreme value
        for _ in range(random.randrange(1, 40)):
            at = random.randrange(used // 8) * 8
            bad[at:at + 8] = random.choice([b"\xff" * 8, b"\0" * 8, b"\xff" * 4 + b"\0" * 4, b"\0" * 7 + b"\x80"])
    open("%s/bad.%d.nprof" % (sys.argv[2], i), "wb").write(bad)
END
reports=0
for ((i = 0; i < damaged; i++)); do
    readable "$work/bad.$i.nprof" "damaged profile $i"
    [ "$status" = 2 ] || reports=$((reports + 1))
    rm "$work/bad.$i.nprof"
done
say "$damaged damaged profiles: $reports reports, $((damaged - reports)) refusals, no crash"
