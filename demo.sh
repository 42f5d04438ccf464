#!/usr/bin/env bash
# demo.sh - profiles every allocation of a real program, Python indexing the system's headers, and
# shows the report.
set -euo pipefail

usage() {
    cat <<EOF
usage: ./demo.sh [--no-setup]

Builds numalloc (build/release), runs Debian's Python, which indexes the words of the C headers in
/usr/include, with numalloc preloaded and profiling every allocation, and prints numalloc-dump's
report of it. The files stay in build/demo/.

  --no-setup   install nothing, even if packages are missing
EOF
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
if [[ $setup -eq 1 ]]; then
    scripts/setup.sh
fi

echo "== building"
mkdir -p build/release build/demo
for step in "cmake --preset release" \
    "cmake --build --preset release --target numalloc numalloc-dump -j $(nproc)"; do
    $step >build/demo/build.log 2>&1 || {
        tail -n 40 build/demo/build.log >&2
        die "'$step' failed; the lines above say why"
    }
done
lib=$PWD/build/release/libnumalloc.so
dump=build/release/numalloc-dump

python=/usr/bin/python3 # Debian's own: its function names are in the binary
[[ -x $python ]] || die "no $python; scripts/setup.sh installs it"

program=build/demo/index.py
cat >"$program" <<'EOF'
"""An index of the words of all C headers: word -> files and lines, as one JSON document."""
import collections
import hashlib
import json
import pathlib
import re

word = re.compile(r"[A-Za-z_]\w+")
index = collections.defaultdict(list)
files = sorted(p for p in pathlib.Path("/usr/include").rglob("*.h") if p.is_file())[:1200]
for number, path in enumerate(files):
    for line, text in enumerate(path.read_text(errors="replace").splitlines()):
        for name in word.findall(text):
            index[name].append((number, line))
document = json.dumps(index, sort_keys=True)
print(len(files), "files,", len(index), "words,", len(document), "bytes of JSON, sha256",
      hashlib.sha256(document.encode()).hexdigest()[:16])
EOF

# PYTHONMALLOC=malloc: every Python object is a block of its own, instead of a piece of a pool that
# Python would take from malloc. A fixed hash seed makes the two runs alike.
export PYTHONMALLOC=malloc PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1
unset LD_PRELOAD
seconds() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", b - a }'; }

echo "== $python indexes the words of /usr/include/**/*.h, every allocation recorded"
rm -f build/demo/*.nprof
t0=$(date +%s.%N)
"$python" "$program" >build/demo/plain.txt
t1=$(date +%s.%N)
LD_PRELOAD=$lib NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=$PWD/build/demo/%e.%p.nprof \
    "$python" "$program" >build/demo/profiled.txt
t2=$(date +%s.%N)
cat build/demo/profiled.txt
cmp -s build/demo/plain.txt build/demo/profiled.txt ||
    die "the program's output changed under the profiler; that is a defect of numalloc"
echo "plain $(seconds "$t0" "$t1") s, profiled $(seconds "$t1" "$t2") s; the same output"

profile=
for file in build/demo/python3*.nprof; do
    [[ -s $file ]] && profile=$file
done
[[ -n $profile ]] || die "the run left no profile in build/demo; see the lines above"

echo
echo "== numalloc-dump $profile"
"$dump" "$profile"

page=build/demo/report.html
if "$dump" html "$profile" -o "$page" 2>build/demo/html.err; then
    echo
    echo "== The same as a page: open $PWD/$page ($(du -h "$page" | cut -f1)) in a browser"
else
    cat build/demo/html.err
fi

cat <<EOF

The profile is $profile ($(du -h "$profile" | cut -f1)).
Try next:
  $dump sites --stacks --top 5 $profile
  $dump help
  LD_PRELOAD=$lib NUMALLOC_PROFILE=sites your-program   (then numalloc-dump on its .nprof file)
  LD_PRELOAD=$lib NUMALLOC_PROFILE=sample your-server   (little overhead)
EOF
