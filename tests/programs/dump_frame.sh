#!/bin/bash
# dump_frame.sh - what all views of numalloc-dump have in common: help, options, one table in three
# formats, output to a file that appears whole or not at all, refusals in one line.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"

file=$work/load.nprof
profiled sites "$file" sites

"$dump" help >"$work/help" || fail "help ends with status $?"
[ "$("$dump" --help)" = "$(cat "$work/help")" ] || fail "help and --help differ"
views=$("$dump" help --names | grep -vx help)
[ "$(wc -w <<<"$views")" -ge 3 ] || fail "help --names lists $views"
for view in $views; do
    grep -Eq "^  $view +(yes|estimates|-) +(yes|estimates|-)" "$work/help" || fail "the table of modes lacks $view"
    "$dump" help "$view" >"$work/out" || fail "help $view ends with status $?"
    grep "^Usage: numalloc-dump $view " "$work/out" >/dev/null || fail "help $view: $(head -n 1 "$work/out")"
    [ "$("$dump" "$view" --help)" = "$(cat "$work/out")" ] || fail "$view --help and help $view differ"
done
say "help: $(wc -w <<<"$views") views, each with its own"

# refused PATTERN ARGUMENT...: status 2, one line that matches, and nothing on stdout.
refused() {
    local pattern=$1 rc=0
    shift
    "$dump" "$@" >"$work/out" 2>"$work/err" || rc=$?
    [ "$rc" = 2 ] && [ "$(wc -l <"$work/err")" = 1 ] && [ ! -s "$work/out" ] ||
        fail "numalloc-dump $*: status $rc, $(cat "$work/err")"
    grep -q -- "$pattern" "$work/err" || fail "numalloc-dump $*: $(cat "$work/err")"
}
refused "no profile named"
refused "no such view: nonsense" nonsense "$file"
refused "no such view: nonsense" help nonsense
refused "one profile at a time" sites "$file" "$file"
refused "unknown option" --nonsense "$file"
refused "does not take --stacks" functions --stacks "$file"
refused "does not take --time, but at does;" functions --time peak "$file"
refused "does not take --depth, but callers and callees do;" sites --depth 3 "$file"
refused "--wrappers takes auto or none, not: some" --wrappers some "$file"
refused "peak, live, total or count, not: size" --sort size "$file"
refused "size_max.*not: nonsense" sites --sort nonsense "$file"
refused "regular expression" sites --filter '(' "$file"
refused "a number, not: -3" --top=-3 "$file"
say "wrong usage is refused in one line"

# One table, three formats, any order.
"$dump" sites --csv --sort size_max --top 0 "$file" >"$work/sites.csv"
"$dump" "$file" sites >/dev/null 2>&1 && fail "a view after the file is taken"
"$dump" sites "$file" --json --sort size_max --top 0 >"$work/sites.json"
"$dump" sites "$file" --sort size_max --top 0 >"$work/sites.text"
"$dump" sites "$file" --json --stacks --filter '^alloc_(big|grow)$' >"$work/some.json"
/usr/bin/python3 - "$work" <<'END' || fail "text, JSON and CSV do not agree"
import csv, json, sys
work = sys.argv[1]
document = json.load(open(work + "/sites.json"))
rows = document["rows"]
assert document["schema"] == "numalloc-dump.sites" and document["schema_version"] == 1
assert document["row_count"] == len(rows) >= 7
lines = list(csv.DictReader(open(work + "/sites.csv", newline="")))
assert len(lines) == len(rows)
for row, line in zip(rows, lines):
    assert list(row) == list(line)
    for key, value in row.items():
        assert line[key] == ("" if value is None else str(value)), (key, value, line[key])
sizes = [row["size_max"] for row in rows]
assert sizes == sorted(sizes, reverse=True), sizes
assert rows[0]["function"] == "alloc_big" and rows[0]["total_bytes"] == 3 * (10 << 20)
text = open(work + "/sites.text").read().splitlines()
assert text[0].startswith("Sites by size_max (%d of %d)" % (len(rows), len(rows))), text[0]
assert len(text) == len(rows) + 2
some = json.load(open(work + "/some.json"))["rows"]
# alloc_grow is two lines of one function: malloc and realloc
assert sorted(row["function"] for row in some) == ["alloc_big", "alloc_grow", "alloc_grow"], some
assert [f["function"] for f in some[0]["stack"]][:1] == ["alloc_big"] and some[0]["stack_truncated"] is False
END
say "text, JSON and CSV hold the same, in the order asked for"

# A name of before: the view that it is now, and not in the help.
"$dump" csv --sort size_max "$file" >"$work/csv" && cmp "$work/csv" "$work/sites.csv" || fail "csv is not sites --csv --top 0"
! "$dump" csv --top 1 "$file" | cmp -s - "$work/sites.csv" || fail "csv --top 1 has all rows"
"$dump" help csv | grep "^Usage: numalloc-dump sites " >/dev/null || fail "help csv is not that of sites"
! grep "^  csv " "$work/help" || fail "the help has csv"

# -o: whole or not at all.
"$dump" sites --csv --sort size_max --top 0 -o "$work/o.csv" "$file" >"$work/out" || fail "-o ends with status $?"
cmp -s "$work/o.csv" "$work/sites.csv" && [ ! -s "$work/out" ] || fail "-o writes something else than stdout"
[ "$(stat -c %a "$work/o.csv")" = "$(umask | python3 -c 'print("%o" % (0o666 & ~int(input(), 8)))')" ] ||
    fail "the rights of the file are $(stat -c %a "$work/o.csv")"
refused "is a directory" sites -o "$work" "$file"
refused "cannot write" sites -o "$work/no/such/x" "$file"
refused "one of peak" sites --sort nonsense -o "$work/o.csv" "$file"
cmp -s "$work/o.csv" "$work/sites.csv" || fail "a refused call changed the file of the call before"
"$dump" sites -o /dev/null "$file" || fail "-o /dev/null ends with status $?"
rc=0
"$dump" sites --json --stacks "$file" >/dev/full 2>"$work/err" || rc=$?
[ "$rc" = 2 ] && grep -q 'cannot write the output: No space' "$work/err" || fail "a full device: status $rc, $(cat "$work/err")"
# A file size limit stands for a full disk: nothing new, nothing changed, no temporary file left.
rc=0
(ulimit -f 1 && trap '' XFSZ && exec "$dump" --json --stacks --top 0 -o "$work/o.csv" "$file") 2>"$work/err" || rc=$?
[ "$rc" = 2 ] && [ "$(wc -l <"$work/err")" = 1 ] || fail "no room: status $rc, $(cat "$work/err")"
cmp -s "$work/o.csv" "$work/sites.csv" || fail "no room: the old file is changed"
(ulimit -f 1 && exec "$dump" --json --stacks --top 0 -o "$work/o.csv" "$file") >/dev/null 2>&1 && fail "SIGXFSZ is not seen"
cmp -s "$work/o.csv" "$work/sites.csv" || fail "SIGXFSZ: the old file is changed"
[ -z "$(compgen -G "$work/o.csv.*")" ] || fail "temporary files are left: $(compgen -G "$work/o.csv.*")"
say "-o leaves no half file"

# An interrupt while it works: its temporary file is there from the start, and is gone afterwards.
# One that comes when the file has its name already, and the program is about to end, leaves all of it.
"$dump" --json --stacks --top 0 -o "$work/whole.json" "$file" || fail "the whole file ends with status $?"
for signal in INT TERM HUP; do
    caught=0
    for try in {1..300}; do # where this shell has its turns late, until one is in time
        [ $try -le 20 ] || [ $caught = 0 ] || break
        rm -f "$work/int.json"
        env --default-signal=INT,HUP "$dump" --symbol-cache off --json --stacks --top 0 -o "$work/int.json" "$file" &
        pid=$!
        while [ -z "$(compgen -G "$work/int.json*")" ] && kill -0 "$pid" 2>/dev/null; do :; done
        kill "-$signal" "$pid" 2>/dev/null || true
        rc=0
        wait "$pid" 2>/dev/null || rc=$?
        [ -z "$(compgen -G "$work/int.json.*")" ] || fail "$signal leaves $(compgen -G "$work/int.json.*")"
        if [ "$rc" -gt 128 ]; then
            if [ ! -e "$work/int.json" ]; then
                caught=$((caught + 1))
            else
                cmp -s "$work/int.json" "$work/whole.json" || fail "$signal leaves a half file (status $rc)"
            fi
        fi
    done
    [ "$caught" -gt 0 ] || fail "$signal came too late in 300 tries"
done
say "an interrupt leaves nothing behind"

# Warnings: what applies has its figure, its place, a reason and a remedy; the summary names it.
# (It is of time: 1.6 ms, which is more than a hundredth of a run that has its processors.)
for _ in {1..500}; do
    rm -f "$work/threads.nprof"
    began=${EPOCHREALTIME/./}
    profiled sites "$work/threads.nprof" threads
    [ $((${EPOCHREALTIME/./} - began)) -gt 120000 ] || break
done
"$dump" warnings --json "$work/threads.nprof" >"$work/warnings.json"
"$dump" "$work/threads.nprof" >"$work/summary"
"$dump" warnings "$work/threads.nprof" >"$work/warnings"
/usr/bin/python3 - "$work" <<'END' || fail "the warning of frees by other threads: $(cat "$work/warnings")"
import json, sys
work = sys.argv[1]
rows = {r["warning"]: r for r in json.load(open(work + "/warnings.json"))["rows"]}
row = rows["cross-thread"]  # thread_main frees what its neighbour allocated
assert row["value"] > 0.99 > row["threshold"] and "alloc_thread" in row["place"], row
assert row["reason"] and row["remedy"] and row["evidence"].endswith("by another thread than allocated")
text = open(work + "/warnings").read()
assert row["evidence"] in text and row["reason"] in text and row["remedy"] in text and "alloc_thread" in text
summary = open(work + "/summary").read()
(line,) = [l for l in summary.splitlines() if l.startswith("  cross-thread ")]
assert summary.index("\nFindings, the most valuable first") < summary.index(line), summary
assert "alloc_thread" in line and "%% of those frees: free where" and "; saves about " in line and line.endswith(" % of the run"), line
END
! "$dump" "$file" | grep '^Findings' >/dev/null || fail "a program with nothing to warn of is warned"
say "warnings are there, and only where they apply"
