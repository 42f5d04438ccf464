#!/usr/bin/env bash
# demo.sh - profiles a program, follows what the profile says first, and compares the allocator with
# the C library's.
set -euo pipefail

usage() {
    cat <<EOF2
usage: ./demo.sh [--no-setup]

Builds numalloc (build/release) and a program, docs/examples/words/words.c, which indexes the words of the C
headers in /usr/include. Profiles every allocation of it, shows where its memory goes, does what the
first finding says, and runs the program under numalloc and under the C library's malloc. The files
stay in build/demo/.

  --no-setup   install nothing, even if packages are missing
EOF2
}

setup=1
case ${1:-} in
'') ;;
--no-setup) setup=0 ;;
-h | --help)
    usage
    exit 0
    ;;
*)
    echo "demo.sh: unknown argument '$1'; see ./demo.sh --help" >&2
    exit 2
    ;;
esac

die() {
    echo "demo.sh: $*" >&2
    exit 1
}

cd "$(dirname "${BASH_SOURCE[0]}")"
mkdir -p build/demo
if [[ $setup -eq 1 ]]; then
    echo "== packages that a build needs (scripts/packages)"
    scripts/setup.sh build >build/demo/setup.log 2>&1 || {
        tail -n 20 build/demo/setup.log >&2
        die "scripts/setup.sh failed; the lines above say why"
    }
    tail -n 1 build/demo/setup.log
fi

echo "== building"
for step in "scripts/configure.sh release" \
    "cmake --build --preset release --target numalloc numalloc-run numalloc-dump numalloc-bench -j $(nproc)"; do
    $step >build/demo/build.log 2>&1 || {
        tail -n 40 build/demo/build.log >&2
        die "'$step' failed; the lines above say why"
    }
done
run=build/release/numalloc-run
dump=build/release/numalloc-dump
bench=build/release/numalloc-bench
source=docs/examples/words/words.c
unset LD_PRELOAD
for variable in $(compgen -e NUMALLOC_); do unset "$variable"; done
rm -f build/demo/*.nprof
gcc -O2 -g "$source" -o build/demo/words
gcc -O2 -g -DMENDED "$source" -o build/demo/words-mended
find /usr/include -name '*.h' -type f | LC_ALL=C sort | sed -n 1,2000p >build/demo/headers
[[ -s build/demo/headers ]] || die "there are no C headers in /usr/include"

# profile PROGRAM [OPTION]: runs it with every allocation recorded in build/demo/PROGRAM.nprof.
profile() {
    "build/demo/$1" <build/demo/headers >"build/demo/$1.plain"
    "$run" --profile "${@:2}" -o "build/demo/$1.nprof" "build/demo/$1" <build/demo/headers >"build/demo/$1.profiled"
    cmp -s "build/demo/$1.plain" "build/demo/$1.profiled" ||
        die "the output of $1 changed under the profiler; that is a defect of numalloc"
    [[ -s build/demo/$1.nprof ]] || die "$1 left no profile in build/demo; see the lines above"
}
peak() { "$dump" "build/demo/$1.nprof" | sed -n 's/^peak  *\([0-9.]* [KMG]*i*B\) in \([0-9,]*\) blocks.*/\1 in \2 blocks/p'; }

echo
echo "== $source indexes the words of $(wc -l <build/demo/headers) C headers, every allocation recorded:"
echo "== $run --profile build/demo/words"
profile words 2>&1
page=build/demo/report.html
"$dump" html build/demo/words.nprof -o "$page"

echo
echo "== The first finding followed: an array for each word instead of a list (-DMENDED)"
profile words-mended --quiet
cmp -s build/demo/words.plain build/demo/words-mended.plain || die "the mended program prints something else"
echo "peak before  $(peak words)"
echo "peak after   $(peak words-mended); the same output"

# Debian's python3, or whatever else is known (docs/python.md); on other machines this part is left out.
python=
for candidate in /usr/bin/python3 python3; do
    [[ -n $python || $(uname -m) != x86_64 ]] ||
        { "$candidate" -c 'import sys; sys.exit(not (3, 9) <= sys.version_info < (3, 16))' 2>/dev/null && python=$candidate; } || true
done
if [[ -n $python ]]; then
    echo
    echo "== The same index in Python (docs/examples/words/words.py), of 200 headers, by Python line:"
    echo "== $run --profile --python $python docs/examples/words/words.py"
    sed -n 1,200p build/demo/headers >build/demo/headers-200
    "$run" --profile --python --quiet -o build/demo/python.nprof "$python" docs/examples/words/words.py <build/demo/headers-200 >/dev/null
    [[ -s build/demo/python.nprof ]] || die "words.py left no profile in build/demo; see the lines above"
    "$dump" source build/demo/python.nprof --filter words.py --context 1
fi

echo
echo "== The allocator: the first program with nothing recorded"
# The least processor time of five runs, which take turns: [0] numalloc, [1] the C library.
least=(999 999)
for _ in 1 2 3 4 5; do
    for which in 0 1; do
        environment=()
        [[ $which -eq 1 ]] || environment=(LD_PRELOAD="$PWD/build/release/libnumalloc.so")
        TIMEFORMAT='%U %S'
        spent=$({ time env "${environment[@]}" build/demo/words <build/demo/headers >/dev/null; } 2>&1)
        least[which]=$(awk -v least="${least[which]}" '{ t = $1 + $2; print t < least ? t : least }' <<<"$spent")
    done
done
"$bench" compare --allocators numalloc,glibc --control off --rounds 1 --json \
    --program "words=build/demo/words <build/demo/headers" >build/demo/compare.json 2>build/demo/compare.err || {
    cat build/demo/compare.err >&2
    die "numalloc-bench failed; the lines above say why"
}
peak_under() {
    sed -n "/\"name\": \"peak memory\"/,\$s/.*\"allocator\": \"$1\", \"median\": \([0-9.]*\).*/\1/p" build/demo/compare.json
}
LC_ALL=C printf 'numalloc %.2f s of processor time, %.1f MiB at the peak; the C library %.2f s, %.1f MiB\n' \
    "${least[0]}" "$(peak_under numalloc)" "${least[1]}" "$(peak_under glibc)"

cat <<EOF2

The report as a page: open $PWD/$page ($(du -h "$page" | cut -f1)) in a browser.
Try next:
  $dump build/demo/words.nprof
  $dump help
  $run --profile your-program
  $run --sample your-server   (little overhead)
EOF2
