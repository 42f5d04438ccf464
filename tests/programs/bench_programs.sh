#!/bin/bash
# bench_programs.sh - the real programs that allocators are compared over (bench/programs) run with
# the library in the process that matters, say the same as without it, and report what they promise.
#   bench_programs.sh NUMALLOC BENCH_PROGRAMS NUMALLOC-BENCH
set -euo pipefail
. "$(dirname "$0")/lib.sh"
need g++ g++ /usr/bin/python3 python3 sqlite3 sqlite3 redis-server redis-server \
    redis-benchmark redis-tools mutool mupdf-tools node nodejs
programs=${2:?usage: $0 NUMALLOC BENCH_PROGRAMS NUMALLOC-BENCH}
bench=${3:?usage: $0 NUMALLOC BENCH_PROGRAMS NUMALLOC-BENCH}
[ -e /usr/share/doc/valgrind/valgrind_manual.pdf.gz ] || skip "valgrind's manual is not installed, which document.sh reads"

# The same inputs each time.
inputs=$work/inputs
"$programs/inputs.py" "$inputs" --small
"$programs/inputs.py" "$work/again" --small
diff -r "$inputs" "$work/again" || fail "the inputs differ from one time to the next"
export P=$programs I=$inputs
say "inputs: $(cd "$inputs" && ls | wc -l) files, $(du -sk "$inputs" | cut -f1) KiB, the same twice"

gcc_story() { "$P/gcc.sh" "$I"; }
python_story() { "$P/python.sh" "$I"; }
python_malloc_story() { "$P/python.sh" "$I" malloc; }
sqlite_story() { "$P/sqlite.sh" "$I"; }
document_story() { "$P/document.sh" "$I"; }
node_story() { "$P/node.sh" "$I"; }
redis_story() { "$P/redis.sh" "$I" benchmark 3>&1; }
half_story() { "$P/redis.sh" "$I" half 3>&1; }

# (The others under the library: real_programs.sh, python.sh.)
compared=(sqlite document)
if [ "$TEST_SCALE" = full ]; then
    compared=(gcc python python-malloc sqlite redis redis-half document node)
    both python python_story
    both python-malloc python_malloc_story
    both sqlite sqlite_story
    both node node_story
    cmp "$work/python.plain/out" "$work/python-malloc.plain/out" || fail "python says something else with PYTHONMALLOC"
    proved gcc gcc_story cc1plus
    proved python python_story python3
    proved python-malloc python_malloc_story python3
    proved sqlite sqlite_story sqlite3
    proved node node_story node
fi
proved document document_story mutool
proved redis redis_story redis-server
proved half half_story redis-server

# Without the library, redis-server has the C library's malloc, and not jemalloc's.
mkdir "$work/ld"
scenario_run "$work/redis.plain" redis_story LD_DEBUG=bindings LD_DEBUG_OUTPUT="$work/ld/ld"
grep -h "binding file redis-server .* to .*libc.so.6 .*\`malloc'" "$work"/ld/ld.* >/dev/null ||
    fail "the plain redis-server does not take malloc from the C library"
! grep -h "binding file redis-server .* to .*jemalloc.* \`\(malloc\|free\|realloc\)'" "$work"/ld/ld.* ||
    fail "the plain redis-server takes malloc from jemalloc"
rm -rf "$work/ld"

# reported FILE NAME UNIT: the one line that the program reports, with a positive value.
reported() {
    awk -F'\t' -v name="$2" -v unit="$3" '$1 == "metric" && $2 == name && $3 == unit && $7 > 0 { n++ } END { exit n != 1 }' "$1" ||
        fail "no metric '$2' in: $(head -c 500 "$1")"
}
reported "$work/redis.proof/out" requests kop/s
reported "$work/half.proof/out" 'after deleting half' MiB

# And by way of compare.
only=$(IFS=, && echo "${compared[*]}")
"$programs/compare.sh" --bench "$bench" --inputs "$inputs" --small --only "$only" --allocators "glibc,mine=$lib" \
    --control off --rounds 1 --json >"$work/result.json" 2>"$work/result.err" ||
    fail "compare.sh fails: $(tail -n 1 "$work/result.err")"
/usr/bin/python3 - "$work/result.json" "${compared[@]}" <<'PY' || fail "the result of compare.sh is not what it should be"
import json
import sys
cases = {case["name"]: case for case in json.load(open(sys.argv[1]))["cases"]}
assert list(cases) == sys.argv[2:], list(cases)
for name, case in cases.items():
    wanted = {"redis": "requests", "redis-half": "after deleting half"}.get(name, "time")
    assert case["headline"] == wanted, (name, case["headline"])
    assert not case["failures"], case["failures"]
    for metric in case["metrics"]:
        for value in metric["values"]:
            assert all(v > 0 for v in value["rounds"]), (name, metric)
    # Of the program, and not of the shell that starts it.
    peak = [m for m in case["metrics"] if m["name"] == "peak memory"][0]["values"][0]["rounds"][0]
    assert peak > 4, (name, peak)
PY
say "compare.sh: ${#compared[@]} programs under two allocators"

# Mistakes: one line, status 2.
for words in "--only nothing" "--inputs" "--bench /nonexistent" "--inputs $inputs" "--rounds 1 --only gcc"; do
    rc=0
    # shellcheck disable=SC2086
    "$programs/compare.sh" --bench "$bench" $words >"$work/out" 2>"$work/err" || rc=$?
    if [ "$rc" != 2 ] || [ "$(wc -l <"$work/err")" != 1 ]; then
        fail "status $rc for '$words': $(cat "$work/err")"
    fi
done

# What profiles cost: a figure for each mode, and files of each; mistakes as above.
costs=sqlite works=json
[ "$TEST_SCALE" != full ] || costs=sqlite,python-malloc works="sqlite json"
"$programs/recording.py" --library "$lib" --inputs "$inputs" --small --only $costs --rounds 1 >"$work/out" ||
    fail "recording.py fails"
for mode in sample sites trace; do
    [ "$(awk -v mode=$mode '$1 == mode && $2 == "wall" && $3 > 0 && $5 > 0 && $6 > 0 { n++ } END { print n + 0 }' "$work/out")" = "$(tr , '\n' <<<$costs | wc -l)" ] ||
        fail "recording.py has no figures of mode $mode: $(cat "$work/out")"
done
"$programs/recording.py" --library "$lib" --inputs "$inputs" --small --only sqlite --modes sites --rounds 1 --json >"$work/out" ||
    fail "recording.py --json fails"
/usr/bin/python3 -c 'import json, sys; row, = json.load(sys.stdin)["rows"]
assert row["mode"] == "sites" and row["wall"][0] > 0 and row["processor"][0] > 0 and row["bytes"] > 0, row' <"$work/out" ||
    fail "recording.py --json has other figures: $(cat "$work/out")"
for words in "--only nothing --small" "--library /nonexistent" "--modes nothing" "--rounds 0" "--only sqlite"; do
    rc=0
    # shellcheck disable=SC2086
    "$programs/recording.py" --library "$lib" --inputs "$inputs" $words >"$work/out" 2>"$work/err" || rc=$?
    if [ "$rc" != 2 ] || [ "$(wc -l <"$work/err")" != 1 ]; then
        fail "recording.py: status $rc for '$words': $(cat "$work/err")"
    fi
done
say "recording.py: $costs in three modes"

# And inside of one process.
for name in $works; do
    "$programs/within.py" --library "$lib" --inputs "$inputs" --work $name --rounds 2 --units 1 >"$work/out" 2>"$work/err" ||
        fail "within.py fails: $(cat "$work/err")"
    [ "$(awk -v name=$name '$1 == name && $7 > 0 && $9 > 0 { n++ } END { print n + 0 }' "$work/out")" = 3 ] ||
        fail "within.py has no figures of $name: $(cat "$work/out")"
    # (Where a hypervisor keeps the debug registers to itself, nothing can be watched.)
    if has "watchpoints can be set but never fire" <"$work/err"; then
        say "within.py: nothing can be watched here"
    elif [ -s "$work/err" ]; then
        fail "within.py watched nothing: $(cat "$work/err")"
    fi
done
for words in "--rounds 0" "--inputs /nonexistent" "--library /nonexistent" "--mode nothing --rounds 1"; do
    rc=0
    # shellcheck disable=SC2086
    "$programs/within.py" --library "$lib" --inputs "$inputs" $words >"$work/out" 2>"$work/err" || rc=$?
    if [ "$rc" != 2 ] || [ "$(wc -l <"$work/err")" != 1 ]; then
        fail "within.py: status $rc for '$words': $(cat "$work/err")"
    fi
done
say "within.py: $works, under two modes in turn"

# Programs of others.
"$programs/others.py" "$work/others" --bench "$bench" --only sort,tsort --allocators "glibc,mine=$lib" --rounds 1 \
    --control off >"$work/out" 2>"$work/err" || fail "others.py fails: $(tail -n 1 "$work/err")"
has -E '^tsort  .* MiB ' "$work/out" || fail "others.py has no figures of tsort: $(cat "$work/out")"
for words in "" "--rounds 1" "$work/others --only nothing" "$work/others --bench /nonexistent" "/dev/null/inputs --only sort"; do
    rc=0
    # shellcheck disable=SC2086
    "$programs/others.py" $words >"$work/out" 2>"$work/err" || rc=$?
    if [ "$rc" != 2 ] || [ "$(wc -l <"$work/err")" != 1 ]; then
        fail "others.py: status $rc for '$words': $(cat "$work/err")"
    fi
done
say "others.py: two programs under two allocators"
