#!/usr/bin/env bash
# demo.sh - profiles every allocation of a real program, Debian's C++ compiler, and shows the report.
set -euo pipefail

usage() {
    cat <<EOF
usage: ./demo.sh [--no-setup]

Builds numalloc (build/release), lets g++ -O2 compile a generated C++ file with numalloc preloaded and
profiling every allocation, and prints numalloc-dump's report of it. The files stay in build/demo/.

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

# Many small functions over containers of distinct types: templates to instantiate, code to inline.
source=build/demo/containers.cpp
if [[ ! -s $source ]]; then
    {
        echo '#include <algorithm>'
        echo '#include <map>'
        echo '#include <string>'
        echo '#include <unordered_map>'
        echo '#include <vector>'
        for i in $(seq 1 40); do
            cat <<EOF
struct key$i { int a, b; bool operator<(const key$i &o) const { return a != o.a ? a < o.a : b < o.b; } };
int work$i(const std::vector<std::string> &words) {
    std::map<key$i, std::string> tree;
    std::unordered_map<std::string, std::vector<key$i>> table;
    for (const std::string &word : words) {
        key$i k{static_cast<int>(word.size()) * $i, word.empty() ? $i : word[0]};
        tree.emplace(k, word + "$i");
        table[word.substr(0, 2)].push_back(k);
    }
    int sum = 0;
    for (auto &[prefix, keys] : table) {
        std::sort(keys.begin(), keys.end());
        sum += static_cast<int>(std::unique(keys.begin(), keys.end(), [](const key$i &x, const key$i &y) {
            return x.a == y.a;
        }) - keys.begin()) + static_cast<int>(prefix.size());
    }
    return sum + static_cast<int>(tree.size());
}
EOF
        done
    } >"$source.new"
    mv "$source.new" "$source"
fi

# g++ is a driver: it starts cc1plus, the compiler itself, which inherits the environment. Every
# process writes a profile of its own; the one of cc1plus is of interest.
echo "== g++ -O2 -S containers.cpp, every allocation recorded"
rm -f build/demo/*.nprof
# The C locale and no LD_PRELOAD of the caller: the same run everywhere.
seconds() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", b - a }'; }
t0=$(date +%s.%N)
LC_ALL=C g++ -std=c++17 -O2 -S -o build/demo/plain.s "$source"
t1=$(date +%s.%N)
LC_ALL=C LD_PRELOAD=$lib NUMALLOC_PROFILE=sites \
    NUMALLOC_PROFILE_FILE=$PWD/build/demo/%e.%p.nprof \
    g++ -std=c++17 -O2 -S -o build/demo/profiled.s "$source"
t2=$(date +%s.%N)
cmp -s build/demo/plain.s build/demo/profiled.s ||
    die "the compiler's output changed under the profiler; that is a defect of numalloc"
echo "plain $(seconds "$t0" "$t1") s, profiled $(seconds "$t1" "$t2") s; the same output"

profile=
for file in build/demo/cc1plus.*.nprof; do
    [[ -s $file ]] && profile=$file
done
[[ -n $profile ]] || die "no profile of cc1plus in build/demo; is g++ a wrapper on this system?"

echo
echo "== numalloc-dump $profile"
"$dump" "$profile"

cat <<EOF

The profile is $profile ($(du -h "$profile" | cut -f1)).
Try next:
  $dump --help
  LD_PRELOAD=$lib NUMALLOC_PROFILE=sites your-program     (then numalloc-dump on its .nprof file)
  LD_PRELOAD=$lib NUMALLOC_PROFILE=sample your-server     (little overhead)
EOF
