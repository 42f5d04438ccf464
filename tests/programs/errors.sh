#!/bin/bash
# errors.sh - numalloc-dump errors: errors that guarded blocks found, of many processes put together, with functions and
# lines; what is known of an address alone; what is no such file.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"

cc -std=gnu17 -g -O1 -fno-builtin "$test_source/errors_load.c" -o "$work/load" || fail "the compiler does not build errors_load.c"
line() { grep -n "/\* $1 \*/" "$test_source/errors_load.c" | cut -d: -f1; }

mkdir "$work/files" "$work/plain" "$work/none"
guarded() { # DIRECTORY ARGUMENT...
    local directory=$1
    shift
    NUMALLOC_GUARD=1 NUMALLOC_GUARD_EACH=1 NUMALLOC_GUARD_FILE=$directory LD_PRELOAD="$lib" "$work/load" "$@" >>"$work/out" 2>>"$work/err"
}
for shift in 0 3 9; do
    status=0
    guarded "$work/files" stale $shift || status=$?
    [[ $status -eq 139 ]] || fail "a stale read ends with status $status"
done
status=0
guarded "$work/files" beyond || status=$?
[[ $status -eq 139 ]] || fail "a write beyond the end ends with status $status"
guarded "$work/files" well || fail "a program without fault fails"
[[ $(ls "$work/files" | grep -c '^numalloc\.load\.[0-9]*\.[0-9]*\.errors$') -eq 5 ]] || fail "files: $(ls "$work/files")"
say "4 of 5 processes died of it, as without the library, and each has a file"

"$dump" errors "$work/files" >"$work/text" || fail "errors ends with status $?"
has "2 errors, found 4 times in 5 files" <"$work/text" || fail "the headline: $(head -n 1 "$work/text")"
has "1. use after free: read, in load" <"$work/text" || fail "the first error: $(cat "$work/text")"
has "of a block of 48 bytes, 5 into it" <"$work/text" || fail "its block: $(cat "$work/text")"
has "found 3 times, in 3 processes; first 20" <"$work/text" || fail "how often: $(cat "$work/text")"
has "2. overflow: write, in load" <"$work/text" || fail "the second error: $(cat "$work/text")"
has "of a block of 48 bytes, 1 behind its end" <"$work/text" || fail "its block: $(cat "$work/text")"
has "errors_load.c:$(line PEEKS) (inlined)" <"$work/text" || fail "no inlined frame: $(cat "$work/text")"

"$dump" errors --json "$work/files" >"$work/json" || fail "errors --json ends with status $?"
/usr/bin/python3 - "$work" "$(line MAKES)" "$(line DROPS)" "$(line READS)" "$(line FILLS)" <<'END' || fail "JSON: $(cat "$work/json")"
import json, sys
work, makes, drops, reads, fills = sys.argv[1], *map(int, sys.argv[2:])
d = json.load(open(work + "/json"))
stale, beyond = d["errors"]
assert (stale["kind"], stale["access"], stale["times"], stale["processes"]) == ("use-after-free", "read", 3, 3), stale
assert (beyond["kind"], beyond["access"], beyond["times"], len(beyond["files"])) == ("overflow", "write", 1, 1), beyond
assert stale["block"]["size"] == 48 and stale["block"]["offset"] == 5 and beyond["block"]["offset"] == 48
assert stale["block"]["freed_by"] == "free" and beyond["block"]["freed_by"] is None
def frames(error, stack):
    return [(f["function"], f.get("line")) for f in error[stack] if f.get("file", "") and f["file"].endswith("errors_load.c")]
assert [f for f, _ in frames(stale, "access_stack")] == ["peeks", "reads_order", "main"], frames(stale, "access_stack")
assert frames(stale, "access_stack")[1] == ("reads_order", reads), frames(stale, "access_stack")
assert frames(stale, "free_stack")[0][0] == "drops_order" and abs(frames(stale, "free_stack")[0][1] - drops) <= 1
assert frames(stale, "allocation_stack")[0][0] == "makes_order" and makes - 4 <= frames(stale, "allocation_stack")[0][1] <= makes
assert frames(beyond, "access_stack")[0] == ("fills_order", fills), frames(beyond, "access_stack")
assert beyond["free_stack"] == []
assert len(d["files"]) == 5 and all(f["guarded"] >= 1 and f["program"].endswith("/load") for f in d["files"])
END
say "errors of three processes are one, with functions, lines and inlined calls"

# Without a word of the library: the address that the program told, as a core file would.
last=$(ls "$work"/files/*.errors | head -n 1)
: >"$work/out"
status=0
guarded "$work/plain" stale || status=$?
address=$(head -n 1 "$work/out")
"$dump" errors "$work/plain" --address "$address" >"$work/text" || fail "--address ends with status $?"
has "1. use after free, in load" <"$work/text" || fail "--address: $(cat "$work/text")"
has "5 into it" <"$work/text" && has drops_order <"$work/text" && has makes_order <"$work/text" || fail "--address: $(cat "$work/text")"
"$dump" errors "$work/plain" --address 0x10 2>"$work/said" && fail "an address elsewhere is no error"
has "0x10 is not in the area of guarded blocks" <"$work/said" || fail "an address elsewhere: $(cat "$work/said")"
"$dump" errors "$work/plain" --address here 2>"$work/said" && fail "no address is no error"
has "takes a hexadecimal address, not: here" <"$work/said" || fail "no address: $(cat "$work/said")"
say "an address alone leads to the block and its stacks"

# The page of a profile of the same program, of another run, marks the site of each error.
NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=$work/load.nprof LD_PRELOAD="$lib" "$work/load" well >>"$work/out"
"$dump" html "$work/load.nprof" --errors "$work/files" -o "$work/page.html" || fail "html --errors ends with status $?"
/usr/bin/python3 - "$work/page.html" <<'END' || fail "the page's errors"
import base64, json, re, sys, zlib
packed = re.search(r'<script[^>]*type="application/[^>]*>([^<]+)</script>', open(sys.argv[1]).read()).group(1).strip()
d = json.loads(zlib.decompress(base64.b64decode(packed)))
stale, beyond = d["errors"]
assert (stale["kind"], stale["times"], stale["processes"]) == ("use-after-free", 3, 3), stale
assert (beyond["kind"], beyond["access"], beyond["size"], beyond["offset"]) == ("overflow", "write", 48, 48), beyond
assert [f for f, _ in stale["by"]][:3] == ["peeks", "reads_order", "main"] and stale["freed"][0][0] == "drops_order"
site = stale["site"]
assert site >= 0 and site == beyond["site"], (stale["site"], beyond["site"])
def name(frame):
    return d["strings"][d["functions"]["name"][d["frames"]["function"][frame]]]
assert name(d["tree"]["frame"][d["sites"]["node"][site]]) == "makes_order"
END
"$dump" html "$work/load.nprof" --errors "$work/none" -o "$work/page.html" 2>"$work/said" && fail "a directory without files of errors is one"
has "no file of errors is in this directory" <"$work/said" || fail "html --errors: $(cat "$work/said")"
"$dump" summary "$work/load.nprof" --errors "$work/files" 2>"$work/said" && fail "summary takes --errors"
has "does not take --errors" <"$work/said" || fail "summary --errors: $(cat "$work/said")"
say "the page of a profile has each error at its site"

# What is no such file.
refused() { # WORDS FILE
    local status=0
    timeout 300 "$dump" errors "$2" >"$work/text" 2>"$work/said" || status=$?
    [[ $status -eq 2 ]] && has "$1" <"$work/said" && [[ $(wc -l <"$work/said") -eq 1 ]] || fail "$2: status $status, $(cat "$work/said")"
}
head -c 200 "$last" >"$work/short"
head -c 5000 "$last" >"$work/cut"
head -c 300000 /dev/zero >"$work/zero"
refused "no file of errors that numalloc wrote" "$work/short"
refused "is damaged" "$work/cut"
refused "no file of errors that numalloc wrote" "$work/zero"
refused "no file of errors that numalloc wrote" "$work/load"
refused "no file of errors is in this directory" "$work/none"
refused "No such file" "$work/missing"
# Any byte may be wrong: nothing crashes, nothing hangs.
/usr/bin/python3 - "$dump" "$last" "$work/made" <<'END' || fail "a damaged file"
import random, subprocess, sys
dump, path, made = sys.argv[1:]
data = open(path, "rb").read()
random.seed(1)
for round in range(60):
    d = bytearray(data)
    for _ in range(random.choice((1, 20, 400))):
        at = random.randrange(random.choice((448, len(d))))
        d[at] = random.choice((0, 255, random.randrange(256)))
    open(made, "wb").write(d)
    r = subprocess.run([dump, "errors", made] + ["--json"] * (round % 2), capture_output=True, timeout=300)
    assert r.returncode in (0, 1, 2), (round, r.returncode, r.stderr)
END
say "what is no such file is refused in a line, and damage does no harm"
