#!/bin/bash
# bench_compare.sh - `numalloc-bench compare` from its command line to its files, on small work.
#   bench_compare.sh NUMALLOC NUMALLOC-BENCH CRASHING-LIBRARY HANGING-LIBRARY
set -uo pipefail
numalloc=$1 bench=$2 crash=$3 hang=$4
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place" || exit 1
export TMPDIR=$place

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# expect STATUS COMMAND...: runs it with its output in out and err.
expect() {
    local wanted=$1 got
    shift
    "$@" >out 2>err
    got=$?
    [ $got -eq "$wanted" ] || fail "status $got, not $wanted: $* ($(tail -n 1 err))"
}

# has PATTERN FILE
has() {
    grep -q -- "$1" "$2" || fail "no '$1' in $2: $(head -c 2000 "$2")"
}

light=(--objects 2000 --spots 100 --repetitions 1 --warmup 0)

# --allocator adds to those that are found; of a known one it says where that is.
cp "$numalloc" mine.so
expect 0 "$bench" compare churn "${light[@]}" --allocator mine=mine.so --rounds 1
has "^malloc  *numalloc " out
has "^  *glibc " out
has "^  *mine .*mine.so" out
expect 0 "$bench" compare churn "${light[@]}" --allocator numalloc=mine.so --rounds 1
has "^malloc  *numalloc .*mine.so" out
has "^  *glibc " out

# One round says nothing of how sure a ratio is, three give extremes, six an interval. Every value is in
# the CSV.
one=(compare churn "${light[@]}" --allocators "glibc,mine=$numalloc")
expect 0 "$bench" "${one[@]}" --rounds 1
has "nothing to say how sure it is, of one round" out
has "^churn .*[0-9] \[-\]" out
has "^churn .*[0-9]  *-  *[0-9.]*  *-$" out
expect 0 "$bench" "${one[@]}" --rounds 3
has "with the extremes of the rounds" out
expect 0 "$bench" "${one[@]}" --rounds 6
has "with the 95 % interval" out
expect 0 "$bench" "${one[@]}" --rounds 3 --csv
has "^case,threads,metric,unit,better,rank,allocator,round,value$" out
[ "$(grep -c '^churn,0,churn,ns/obj,lower,headline,mine,[123],' out)" = 3 ] || fail "no three values: $(cat out)"
expect 2 "$bench" "${one[@]}" --csv --json
has "exclude each other" err

# A machine that is busy with something else is named.
yes >/dev/null &
other=$!
expect 0 "$bench" hotpath --repetitions 50
cp err busy.err
kill $other
has "hotpath: others used .* processors meanwhile" busy.err

small=(--set churn.objects=2000 --set churn.spots=100 --set churn.repetitions=2 --set churn.warmup=0)
two=(--allocators "glibc,mine=$numalloc")

# Both forms, two allocators.
expect 0 "$bench" compare churn "${two[@]}" --objects 2000 --spots 100 --repetitions 2 --rounds 3
has "cost relative to glibc" out
has "mine .*libnumalloc" out
expect 0 "$bench" compare --benchmarks churn --threads 1,2 "${two[@]}" "${small[@]}" --rounds 3 \
    --program 'say <hello>=echo hello' --html page.html
has "churn, 1 thread" out
has "churn, 2 threads" out
has "Geometric means" out
has "control    glibc against itself" out
has "</html>" page.html
has "say &lt;hello&gt;" page.html
[ -z "$(find . -name 'numalloc-bench-compare.*')" ] || fail "the temporary journal was left behind"

# What needs two threads has no row for one; several cases of a benchmark are one headline.
expect 0 "$bench" compare --benchmarks handoff --threads 1,2 "${two[@]}" --set handoff.objects=600 \
    --set handoff.repetitions=1 --rounds 2 --html page.html --details
has "left out: handoff with 1 thread: --threads takes a whole number from 2" err
has "left out .*handoff with 1 thread" out
has "min .* s, of which" err
grep -q "handoff, 1 thread" out && fail "handoff ran with one thread"
has "^sleep, batch 256 " out
has "^handoff  " out
has "<details>" page.html
has "sleep, batch 256" page.html

# With a budget, work that is large by nature is smaller, unless it is given.
expect 0 "$bench" compare --benchmarks growth,startup --allocators glibc --control off --rounds 1 \
    --set growth.idle-threads=2,3 --set startup.starts=5
has "growth: .*--live=1,16,128" out
has "growth: --idle-threads=2,3 " out

# A library that crashes and one that hangs are reported; the others' results are all there.
expect 1 "$bench" compare --benchmarks churn --threads 1 "${two[@]}" \
    --allocator "crash=$crash" --allocator "hang=$hang" "${small[@]}" --rounds 3 --timeout 10 --json
cp out bad.json
has '"reason": "ended by signal 11' bad.json
has '"reason": "took longer than 10 s' bad.json
if command -v python3 >/dev/null; then
    python3 - <<'PY' || fail "bad.json is not what it should be"
import json
found = json.load(open("bad.json"))
assert found["rounds"] == 3 and found["stopped"] is None
case = found["cases"][0]
assert {f["allocator"]: f["count"] for f in case["failures"]} == {"crash": 2, "hang": 1}
churn = {v["allocator"]: v for v in case["metrics"][0]["values"]}
assert case["headline"] == "churn" == case["metrics"][0]["name"]
for name in ("glibc", "mine", "glibc (A/A)"):
    assert all(value > 0 for value in churn[name]["rounds"])
assert churn["crash"]["rounds"] == churn["hang"]["rounds"] == [None] * 3
ratio = churn["mine"]["cost_relative_to"]["glibc"]
assert ratio["pairs"] == 3 and ratio["low"] <= ratio["ratio"] <= ratio["high"]
assert churn["mine"]["cost_relative_to"]["crash"] is None
PY
fi

# One that hangs everywhere does not cost a time-out for each case.
expect 1 "$bench" compare --allocators glibc --allocator "hang=$hang" --control off --rounds 1 \
    --timeout 6 --program a=true --program b=true --program c=true --program d=true --program e=true
[ "$(grep -c 'took longer than 6 s' out)" -eq 3 ] || fail "not three time-outs"
[ "$(grep -c 'left out: it timed out in 3 other cases' out)" -eq 2 ] || fail "not two left out"

# What is no allocator must not become a row of glibc's figures.
empty=$(dirname "$bench")/libempty_preload.so
expect 1 "$bench" compare --benchmarks churn --threads 1 "${two[@]}" --allocator "empty=$empty" \
    "${small[@]}" --rounds 2
has "empty: preloaded, but malloc came from" out

# Interrupted, it reports what it has; resumed, it goes on there.
cat >nap.sh <<'SH'
#!/bin/sh
# One that begins when there is a run before it is interrupted, however late that comes.
[ -e resumed ] || ! grep -qs '^run' journal || sleep 600
SH
chmod +x nap.sh
"$bench" compare "${two[@]}" --program 'nap=./nap.sh' --rounds 4 --resume journal >out 2>err &
child=$!
until grep -qs '^run' journal || ! kill -0 $child; do sleep 0.1; done
kill -INT $child
wait $child
status=$?
[ $status -eq 130 ] || fail "status $status when interrupted"
has "begun of 4: it was interrupted" out
has "--resume journal" err
before=$(grep -c '^run' journal)
first=$(grep '^run' journal | head -n 1)
printf 'run\t0\t0' >>journal
touch resumed
expect 2 "$bench" compare --rounds 9 --resume journal
expect 0 "$bench" compare --resume journal --json
[ "$(grep -c '^run' journal)" -eq 12 ] || fail "not 12 runs in the journal"
[ "$before" -lt 12 ] || fail "the interrupt came after the end"
has '"rounds": 4,' out
[ "$(grep '^run' journal | head -n 1)" = "$first" ] || fail "what was there has changed"

# Bad command lines: one line, status 2, before anything runs.
for words in "--allocators nothing" "--threads 0x" "--benchmarks nothing" "nothing" \
    "--set churn.nothing=1" "--set churn=1" "--base nothing" "--program nothing" "churn --set churn.min=1" \
    "--html /nonexistent/page.html" "--resume /dev/null" "--allocators mine=/nonexistent.so" \
    "hotpath --threads 2" "handoff --threads 1" "--threads 0,1025" \
    "--rounds 1001" "--budget -1" "--timeout x" "--control maybe" "--program =true" "--json=1" \
    "--allocators glibc,glibc" "--allocators glibc," "--benchmarks churn," \
    "--benchmarks churn,churn" "--program a=true --program a=false" "--benchmarks churn --set churn.min=2 --set churn.max=1"; do
    # shellcheck disable=SC2086
    expect 2 "$bench" compare $words
    [ "$(wc -l <err)" -eq 1 ] || fail "not one line for: $words"
done
