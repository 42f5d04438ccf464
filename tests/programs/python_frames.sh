#!/bin/bash
# python_frames.sh LIBRARY NUMALLOC_DUMP - Python frames on stacks (NUMALLOC_PYTHON=1), of every
# CPython of python_lib.sh.
#
#   against tracemalloc   every block that it knows at the end of a script, with the same stack, 25
#                         frames deep, and the other way round where functions have names. Scripts
#                         with generators, coroutines, threads, recursion, __del__ and imports, and
#                         one whose code objects die and leave their addresses to others, from
#                         malloc's blocks and from the interpreter's own
#   modes                 sites and sample have the same frames; views, exports and check read them
#   forks, the end        children have frames; daemon threads at the end do no harm
#   without CPython       --native and --python show the stacks that there are
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
. "$(dirname "$0")/python_lib.sh"
here="$test_source/python"

scripts="reuse threads" forks="1 2"
[ "$TEST_SCALE" != full ] || scripts="reuse async threads text" forks="1 2 3 4 5"
profiled() { # MODE FILE COMMAND...
    local mode=$1 file=$2
    shift 2
    env NUMALLOC_PYTHON=1 NUMALLOC_PROFILE="$mode" NUMALLOC_PROFILE_FILE="$file" PYTHONMALLOC="${objects:-malloc}" \
        LD_PRELOAD="$lib" "$@"
}

ran=0
for python in "${pythons[@]}"; do
    version=$(version_of "$python") || continue
    ran=$((ran + 1))
    for script in $scripts reuse.pymalloc; do
        rm -f "$work/p.nprof"*
        objects=${script#*.} script=${script%.*}
        [ "$objects" != "$script" ] || objects=malloc
        profiled trace "$work/p.nprof" "$python" "$here/under_tracemalloc.py" "$work/traces" 25 \
            "$here/script_$script.py" || fail "$version: script_$script.py fails"
        /usr/bin/python3 "$here/against_tracemalloc.py" "$dump" "$work/p.nprof" "$work/traces" 25 \
            >"$work/said" || fail "$version: $script, $objects: not what tracemalloc knows: $(head -n 30 "$work/said")"
        say "$version: $script, $objects: $(head -n 1 "$work/said")"
    done
    objects=
    for mode in sites sample; do
        rm -f "$work/s.nprof"*
        NUMALLOC_SAMPLE_INTERVAL=4K profiled $mode "$work/s.nprof" "$python" "$here/script_threads.py" ||
            fail "$version: fails in mode $mode"
        "$dump" check "$work/s.nprof" >/dev/null || fail "$version: $mode: the profile is damaged"
        "$dump" "$work/s.nprof" --stacks --sort total --top 0 >"$work/stacks"
        grep -q 'script_threads.py:17' "$work/stacks" || fail "$version: $mode: a line is missing"
        "$dump" "$work/s.nprof" --stacks --sort total --top 0 --native >"$work/native"
        if grep -q 'script_threads.py:' "$work/native"; then fail "$version: --native shows Python"; fi
        grep -q '_PyEval_EvalFrameDefault' "$work/native" || fail "$version: --native lacks the interpreter"
    done
    # Files that can be read come first, and no file without lines.
    "$dump" source "$work/s.nprof" >"$work/source"
    place=$(grep -n "^$here/script_threads.py" "$work/source" | cut -d: -f1)
    if grep -n 'not readable here' "$work/source" >"$work/unread"; then
        [ -n "$place" ] && [ "$place" -lt "$(head -n 1 "$work/unread" | cut -d: -f1)" ] ||
            fail "$version: the source view does not begin with what can be read"
    elif [ "$version" = 3.11 ]; then # others have less that is frozen
        fail "$version: no frozen file in the source view"
    fi
    awk '/^ *own *with all *line$/ { getline next_line; if (next_line == "") empty = 1 } END { exit empty }' \
        "$work/source" || fail "$version: a file without lines in the source view"
    # With pymalloc small objects are not seen, which is said there and nowhere else.
    for name in malloc pymalloc; do
        rm -f "$work/m.nprof"*
        objects=$name profiled sites "$work/m.nprof" "$python" -c 'print()' >/dev/null ||
            fail "$version: fails with PYTHONMALLOC=$name"
        said=no
        "$dump" "$work/m.nprof" | grep 'objects of up to 512 B are not seen' >/dev/null && said=yes
        [ $name.$said = malloc.no ] || [ $name.$said = pymalloc.yes ] ||
            fail "$version: PYTHONMALLOC=$name: that small objects are not seen is said: $said"
    done
    # Frames in memory that is unmapped while they are current.
    for name in malloc pymalloc; do
        rm -f "$work/u.nprof"*
        objects=$name profiled sites "$work/u.nprof" "$python" "$here/script_stack.py" ||
            fail "$version: PYTHONMALLOC=$name: a program fails that gives back its stack of frames"
        "$dump" check "$work/u.nprof" >/dev/null || fail "$version: script_stack.py: the profile is damaged"
        "$dump" source "$work/u.nprof" --csv --top 0 | has 'script_stack.py,9$' ||
            fail "$version: script_stack.py: a line is missing"
    done
    # Code that is made for ever is one after the first 4,096, whose blocks are all counted; what has a
    # file is as always. From malloc's blocks and from the interpreter's own.
    for name in malloc pymalloc; do
        for count in 4500 9000; do
            rm -f "$work/o.nprof"*
            objects=$name profiled sites "$work/o.nprof" "$python" "$here/script_made.py" $count ||
                fail "$version: script_made.py fails"
            "$dump" check "$work/o.nprof" >/dev/null || fail "$version: script_made.py: the profile is damaged"
            "$dump" "$work/o.nprof" | has '<other code> stands for code that is made again and again' ||
                fail "$version: script_made.py: the summary does not tell of other code"
            "$dump" run --json "$work/o.nprof" >"$work/run.$count"
            "$dump" functions --json --top 0 "$work/o.nprof" >"$work/functions.json"
            /usr/bin/python3 - "$work/functions.json" $count <<'P' || fail "$version, $name: script_made.py: not as it was"
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
made = [r for r in rows if r["function"].startswith("made_")]
other = [r for r in rows if r["function"] == "<other code>"]
assert len(made) < 4096 and len(other) == 1 and other[0]["file"] is None, (len(made), other)
assert sum(r["total_bytes"] >= 5000 for r in made) == len(made)
assert len(made) + sum(r["total_bytes"] for r in other) // 5000 >= int(sys.argv[2]), (len(made), other)
kept = [r for r in rows if r["function"] == "kept"]
assert kept and sum(r["inclusive_total_bytes"] for r in kept) >= 700000, kept
P
        done
        /usr/bin/python3 - "$work/run.4500" "$work/run.9000" <<'P' || fail "$version, $name: code without end takes memory without end"
import json, sys
few, many = (json.load(open(name))["own_bytes"] for name in sys.argv[1:])
assert many - few < 512 << 10, (few, many)
P
    done
    for export in folded pprof speedscope json html; do
        "$dump" $export "$work/s.nprof" -o "$work/out.$export" || fail "$version: export $export fails"
    done
    grep -q 'held' "$work/out.folded" || fail "$version: no Python function in the flame graph"
    # Of many processes as one, and that once more with one of them.
    for i in 1 2; do
        rm -f "$work/merge$i.nprof"*
        profiled sites "$work/merge$i.nprof" "$python" "$here/script_threads.py" || fail "$version: fails"
    done
    "$dump" merge "$work"/merge[12].nprof -o "$work/both.nprof" || fail "$version: merge fails"
    "$dump" merge "$work/both.nprof" "$work/merge1.nprof" -o "$work/three.nprof" || fail "$version: merge fails"
    for of in merge1 merge2 both three; do
        "$dump" source "$work/$of.nprof" --csv --top 0 >"$work/lines.$of"
        "$dump" functions "$work/$of.nprof" --csv --top 0 --sort total >"$work/functions.$of"
    done
    /usr/bin/python3 - "$work" <<'P' || fail "$version: merged, Python's lines or functions are others"
import csv, sys
def sums(name, of, key):
    found = {}
    for row in csv.DictReader(open("%s/%s.%s" % (sys.argv[1], name, of))):
        where = tuple(row[k] for k in key)
        if ".py" in row["file"]: found[where] = found.get(where, 0) + float(row["allocations"])
    return found
for name, key in ("functions", ("function", "file")), ("lines", ("file", "line")):
    first, second, both, three = (sums(name, of, key) for of in ("merge1", "merge2", "both", "three"))
    assert len(both) > 5 and any("script_threads.py" in k for where in both for k in where), both
    for where in {**first, **second}:
        wanted = first.get(where, 0) + second.get(where, 0)
        assert both.get(where) == wanted, (where, both.get(where), wanted)
        assert three.get(where) == wanted + first.get(where, 0), (where, three.get(where))
P
done
[ $ran != 0 ] || skip "no $python_known in ${pythons[*]}"

cat >"$work/fork.py" <<'P'
import os, threading, time
def child(): return [bytes(3000 + i) for i in range(50)]
def forever():
    while True: bytes(3000); time.sleep(0)
kept = []
pid = os.fork()
if pid == 0:
    kept.append(child())
    os._exit(0)
os.waitpid(pid, 0)
for i in range(3): threading.Thread(target=forever, daemon=True).start()
time.sleep(0.1)
P
mkdir "$work/forks"
for _ in $forks; do
    profiled sites "$work/forks/" /usr/bin/python3 "$work/fork.py" || fail "a program with daemon threads fails"
done
seen=0
for file in "$work/forks"/*; do
    "$dump" check "$file" >/dev/null || fail "a profile of a fork is damaged"
    "$dump" "$file" --sites --sort total --top 0 >"$work/sites"
    if grep -q 'child  fork.py:2' "$work/sites"; then seen=$((seen + 1)); fi
done
[ $seen -ge "$(wc -w <<<"$forks")" ] || fail "the children's profiles lack Python frames ($seen)"
say "children, and daemon threads at the end"

rm -f "$work/n.nprof"*
profiled sites "$work/n.nprof" ls / >/dev/null
for option in "" --native --python; do
    # shellcheck disable=SC2086 # no option, or one
    "$dump" "$work/n.nprof" --stacks --sort total --top 0 $option >"$work/ls.${option#--}"
done
cmp -s "$work/ls." "$work/ls.native" && cmp -s "$work/ls." "$work/ls.python" || fail "ls is no CPython"
say "nothing without CPython"
