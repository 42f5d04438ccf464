#!/bin/bash
# profile_functions.sh - numalloc-dump says which functions a program's memory came from: exclusive and
# inclusive figures, recursion counted once, wrappers passed over, as options ask.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"

cc -std=gnu17 -g -O2 "$test_source/profile_functions.c" -o "$work/functions" ||
    fail "the compiler does not build profile_functions.c"
file=$work/functions.nprof
env NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$file" LD_PRELOAD="$lib" "$work/functions" 2>"$work/err" ||
    fail "the program fails under a profile: $(head -n 3 "$work/err")"
[ ! -s "$work/err" ] || fail "unexpected on stderr: $(cat "$work/err")"

# expect EXPECTATION... -- OPTION...: of the functions that numalloc-dump shows with these options.
# NAME:own=BYTES,below=BYTES,count=N,wrapper=0|1,by=FUNCTION
expect() {
    local wanted=()
    while [ "$1" != -- ]; do
        wanted+=("$1")
        shift
    done
    shift
    "$dump" --json --top 0 "$@" "$file" >"$work/check.json" || fail "numalloc-dump $* ends with status $?"
    /usr/bin/python3 - "$work/check.json" "$test_source/profile_functions.c" "${wanted[@]}" <<'END' ||
import json, re, sys
document = json.load(open(sys.argv[1]))
lines = {}
for number, line in enumerate(open(sys.argv[2]), 1):
    start = re.match(r"(?:APART static|int) .*?(\w+)\(", line)
    if start:
        lines[start.group(1)] = number
functions, wrong = {}, []
for f in document["functions"]:
    functions.setdefault(f["function"], []).append(f)
for text in sys.argv[3:]:
    name, _, fields = text.partition(":")
    rows = functions.get(name, [])
    if len(rows) != 1:
        wrong.append("%d rows for %s" % (len(rows), name))
        continue
    row = rows[0]
    if not row.get("file", "").endswith("profile_functions.c") or row.get("line") != lines[name]:
        wrong.append("%s is at %s:%s, not line %d" % (name, row.get("file"), row.get("line"), lines[name]))
    own, below = row["exclusive"], row["inclusive"]
    actual = {"own": own["total_bytes"], "below": below["total_bytes"], "count": own["allocations"],
              "wrapper": int(row["wrapper"]), "by": row.get("by", "")}
    if [own["peak_bytes"], own["live_bytes"]] != [own["total_bytes"]] * 2:
        wrong.append("%s: at the peak and live at the end is not all that it asked for" % name)
    for field in fields.split(","):
        field, value = field.split("=")
        if str(actual[field]) != value:
            wrong.append("%s: %s is %s, expected %s" % (name, field, actual[field], value))
total = document["total"]["total_bytes"]
own = sum(f["exclusive"]["total_bytes"] for f in document["functions"])
if own != total:
    wrong.append("the functions' own bytes add up to %d, all is %d" % (own, total))
for line in wrong:
    print("profile_functions: " + line, file=sys.stderr)
sys.exit(1 if wrong else 0)
END
        fail "numalloc-dump $* does not say what the program did"
}

half="new_half:own=80,below=880,wrapper=0"
expect reader:own=100000,below=100000,count=100,wrapper=0,by=xmalloc \
    parser:own=560,below=560,count=70,by=xstrdup walker:own=1000,below=1000,count=10,by=xmalloc namer:own=1 \
    xmalloc:own=0,below=101561,wrapper=1 xstrdup:own=0,below=561,wrapper=1 \
    alloc_table:own=3000,below=3000,wrapper=0 "$half" reader_of_half:own=800,below=800,count=2 \
    main:own=0,below=105441 --
say "wrappers are passed over, recursion counts once, all adds up"

expect xmalloc:own=101561,below=101561,count=181,wrapper=0 reader:own=0,below=100000 \
    xstrdup:own=0,below=561 walker:own=0,below=1000 -- --wrappers none
expect main:own=103000,below=105441 reader:own=0,wrapper=1 walker:own=1000 \
    -- --skip '^reader$' --skip 'table'
say "--wrappers none and --skip do as they say"

# For people.
"$dump" "$file" >"$work/text" || fail "the summary ends with status $?"
grep -q '^Functions by bytes live at the peak' "$work/text" || fail "no table of functions"
sed -n '/^Functions/,/^$/p' "$work/text" | sed -n 3p |
    grep -Eq '97\.7 KiB .* % .* 100 .*  reader  profile_functions\.c:[0-9]+  by xmalloc$' ||
    fail "reader is not the first function: $(sed -n '/^Functions/,/^$/p' "$work/text")"
for option in --sites --stacks; do
    "$dump" $option "$file" >"$work/text" || fail "numalloc-dump $option ends with status $?"
    grep -q '^Sites by' "$work/text" || fail "$option shows no sites"
    ! grep -q '^Functions by' "$work/text" || fail "$option shows functions"
done
grep -q '| walker  ' "$work/text" || fail "--stacks shows no frames of walker"
say "the tables are there"

for wrong in "--skip (" "--wrappers some"; do
    rc=0
    # shellcheck disable=SC2086
    "$dump" $wrong "$file" >"$work/out" 2>"$work/err" || rc=$?
    [ "$rc" = 2 ] && [ "$(wc -l <"$work/err")" = 1 ] && [ ! -s "$work/out" ] ||
        fail "numalloc-dump $wrong: status $rc, $(cat "$work/err")"
done
say "wrong options are refused in one line"
