#!/usr/bin/env bash
# demo.sh - profiles a program, follows what the profile says first, and compares the allocator with
# the C library's.
set -euo pipefail

usage() {
    cat <<EOF2
usage: ./demo.sh [--no-setup]

Builds numalloc (build/release) and a program, docs/examples/words/words.c, which indexes the words of the C
headers in /usr/include. Profiles every allocation of it, shows numalloc-dump's report, does what the
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
for step in "cmake --preset release" \
    "cmake --build --preset release --target numalloc numalloc-dump numalloc-bench -j $(nproc)"; do
    $step >build/demo/build.log 2>&1 || {
        tail -n 40 build/demo/build.log >&2
        die "'$step' failed; the lines above say why"
    }
done
lib=$PWD/build/release/libnumalloc.so
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

# profile PROGRAM: runs it with every allocation recorded in build/demo/PROGRAM.nprof.
profile() {
    "build/demo/$1" <build/demo/headers >"build/demo/$1.plain"
    LD_PRELOAD=$lib NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=$PWD/build/demo/$1.nprof \
        "build/demo/$1" <build/demo/headers >"build/demo/$1.profiled"
    cmp -s "build/demo/$1.plain" "build/demo/$1.profiled" ||
        die "the output of $1 changed under the profiler; that is a defect of numalloc"
    [[ -s build/demo/$1.nprof ]] || die "$1 left no profile in build/demo; see the lines above"
}
peak() { "$dump" "build/demo/$1.nprof" | sed -n 's/^peak  *\([0-9.]* [KMG]*i*B\) in \([0-9,]*\) blocks.*/\1 in \2 blocks/p'; }

echo
echo "== $source indexes the words of $(wc -l <build/demo/headers) C headers, every allocation recorded"
profile words
cat build/demo/words.profiled
echo
echo "== numalloc-dump build/demo/words.nprof"
"$dump" build/demo/words.nprof
page=build/demo/report.html
"$dump" html build/demo/words.nprof -o "$page"

echo
echo "== The first finding followed: an array for each word instead of a list (-DMENDED)"
profile words-mended
cmp -s build/demo/words.plain build/demo/words-mended.plain || die "the mended program prints something else"
echo "peak before  $(peak words)"
echo "peak after   $(peak words-mended); the same output"

echo
echo "== The allocator: the first program with nothing recorded"
"$bench" compare --allocators numalloc,glibc --control off --rounds 5 --json \
    --program "words=build/demo/words <build/demo/headers" >build/demo/compare.json 2>build/demo/compare.err || {
    cat build/demo/compare.err >&2
    die "numalloc-bench failed; the lines above say why"
}
# least METRIC ALLOCATOR: the least of the rounds.
least() {
    sed -n "/\"name\": \"$1\"/,/\"name\": /s/.*\"allocator\": \"$2\", .*\"min\": \([0-9.]*\).*/\1/p" \
        build/demo/compare.json | head -n 1
}
printf 'numalloc %.2f s, %.1f MiB at the peak; the C library %.2f s, %.1f MiB (the best of five each)\n' \
    "$(least time numalloc)" "$(least 'peak memory' numalloc)" \
    "$(least time glibc)" "$(least 'peak memory' glibc)"

cat <<EOF2

The report as a page: open $PWD/$page ($(du -h "$page" | cut -f1)) in a browser.
Try next:
  $dump sites --stacks --top 5 build/demo/words.nprof
  $dump help
  LD_PRELOAD=$lib NUMALLOC_PROFILE=sites your-program   (then numalloc-dump on its .nprof file)
  LD_PRELOAD=$lib NUMALLOC_PROFILE=sample your-server   (little overhead)
EOF2
