#!/bin/bash
# demo.sh - what ./demo.sh shows holds: the first finding in docs/examples/words is its list of places, by
# name and line; followed (-DMENDED), the output is the same and the peak is less by what was said, give or
# take the room that arrays leave.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"

source=$(cd "$test_source/../.." && pwd)/docs/examples/words/words.c
find /usr/include -name '*.h' -type f | LC_ALL=C sort | sed -n 1,1500p >"$work/headers"
for variant in plain mended; do
    flags=()
    [ $variant = plain ] || flags=(-DMENDED)
    cc -std=gnu17 -O2 -g -Wall -Wextra -Wconversion -Werror "${flags[@]}" "$source" -o "$work/$variant" || fail "the compiler does not build words.c, $variant"
    "$work/$variant" <"$work/headers" >"$work/$variant.out" || fail "words, $variant, ends with status $?"
    NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/$variant.nprof" LD_PRELOAD="$lib" "$work/$variant" <"$work/headers" >"$work/out" ||
        fail "words, $variant, ends with status $?"
    cmp -s "$work/out" "$work/plain.out" || fail "not the same output, $variant"
done
/usr/bin/python3 - "$dump" "$work" "$source" <<'END' || fail "the demo's story does not hold"
import json, re, subprocess, sys
dump, work, source = sys.argv[1:]

def rows(view, file):
    out = subprocess.run([dump, view, "%s/%s.nprof" % (work, file), "--json"], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)

found = rows("warnings", "plain")["rows"]
first = found[0]
line = next(n for n, text in enumerate(open(source), 1) if "malloc(sizeof *place)" in text)
assert first["warning"] == "tiny-blocks" and first["place"] == "add_place  words.c:%d" % line, first
assert "tiny-blocks" not in [r["warning"] for r in rows("warnings", "mended")["rows"]]
before, after = (rows("summary", file)["total"]["peak_bytes"] for file in ("plain", "mended"))
saved = before - after
# An array that doubles is three quarters full on average: of what was said up to two thirds go.
assert 0.3 * first["saves_bytes"] < saved <= 1.05 * first["saves_bytes"], (saved, first)
print("said %d, saved %d bytes of %d" % (first["saves_bytes"], saved, before))
END
say "the finding is what it costs, and following it saves that"

# The second program: Python, by line. The places and their numbers are nearly all that there is.
script=${source%.c}.py
sed -n 1,100p "$work/headers" >"$work/few"
NUMALLOC_PYTHON=1 PYTHONMALLOC=malloc NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/python.nprof" LD_PRELOAD="$lib" \
    /usr/bin/python3 "$script" <"$work/few" >"$work/out" || fail "words.py ends with status $?"
/usr/bin/python3 "$script" <"$work/few" | cmp -s - "$work/out" || fail "not the same output, words.py"
if [ "$(uname -m)" = x86_64 ]; then
    /usr/bin/python3 - "$dump" "$work" "$script" <<'END' || fail "words.py: the lines do not hold"
import json, subprocess, sys
dump, work, script = sys.argv[1:]
out = subprocess.run([dump, "source", work + "/python.nprof", "--filter", "words.py", "--json"],
                     check=True, capture_output=True, text=True)
rows = json.loads(out.stdout)["rows"]
first = max(rows, key=lambda r: r["peak_bytes"])
line = next(n for n, text in enumerate(open(script), 1) if "setdefault" in text)
whole = max(r["inclusive_peak_bytes"] for r in rows)
assert first["line"] == line and first["peak_bytes"] > whole / 2, (first, whole)
END
    say "and in Python the line is found"
fi
