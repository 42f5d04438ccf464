#!/usr/bin/env bash
# fuzz.sh - every fuzzer for a while, on all processors: a step of each release (docs/development.md).
set -euo pipefail

usage() {
    cat <<EOF
usage: scripts/fuzz.sh [MINUTES [FUZZER...]]

  MINUTES     for each fuzzer, 10 if not given
  FUZZER      reader, bombs, alloc, options, chain, policy, spe; all of them if not given. bombs is
              the reader from files that cost all that they may: thousands of times fewer inputs
  BUILD       (environment) the build, default build/asan
  KEEP=1      (environment) inputs that reach new code are added to tests/fuzz/corpus

Exit status: 0, nothing was found; 1, a fuzzer failed: the input lies in tests/fuzz/corpus, minimised;
2, wrong usage or nothing to run.
EOF
}

case ${1:-} in
-h | --help)
    usage
    exit 0
    ;;
esac
minutes=${1:-10}
shift || true
[[ $minutes =~ ^[0-9]+$ && $minutes -gt 0 ]] || {
    usage >&2
    exit 2
}
fuzzers=("$@")
[[ ${#fuzzers[@]} -gt 0 ]] || fuzzers=(reader bombs alloc options chain policy spe)
start=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${BUILD:-$PWD/build/asan}
[[ $build = /* ]] || build=$start/$build
corpus=$PWD/tests/fuzz/corpus
program_of() { if [[ $1 = bombs ]]; then echo "$build/tests/fuzz_reader"; else echo "$build/tests/fuzz_$1"; fi; }
for fuzzer in "${fuzzers[@]}"; do
    [[ -x $(program_of "$fuzzer") && -d $corpus/$fuzzer ]] || {
        echo "fuzz.sh: no $(program_of "$fuzzer"); build the asan preset (cmake --preset asan && cmake --build --preset asan)" >&2
        exit 2
    }
done

# Those of tests/fuzz/CMakeLists.txt.
options_of() {
    case $1 in
    reader | bombs) echo "-max_len=32768 -malloc_limit_mb=129 -rss_limit_mb=1024" ;;
    *) echo "-max_len=2048 -rss_limit_mb=2048" ;;
    esac
}
found_of() { echo "$build/tests/fuzz/found_$1"; }

# One fuzzer, number $2 of those that share its findings.
run() {
    local fuzzer=$1 found
    found=$(found_of "$fuzzer")
    mkdir -p "$found"
    # shellcheck disable=SC2046 # options are meant to be split
    "$(program_of "$fuzzer")" -max_total_time=$((minutes * 60)) -timeout=100 -reload=1 -print_final_stats=1 $(options_of "$fuzzer") \
        -artifact_prefix="$scratch/$fuzzer." "$found" "$corpus/$fuzzer" >"$scratch/$fuzzer.$2.log" 2>&1 ||
        echo "$fuzzer" >>"$scratch/failed"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cores=$(nproc)
jobs=("${fuzzers[@]}")
for ((i = ${#fuzzers[@]}; i < cores; i++)); do jobs+=("${fuzzers[0]}"); done
echo "fuzz.sh: ${fuzzers[*]}, $minutes min each, $cores at a time"
number=0
for job in "${jobs[@]}"; do
    while [[ $(jobs -rp | wc -l) -ge $cores ]]; do wait -n || true; done
    number=$((number + 1))
    run "$job" "$number" &
done
wait

for log in "$scratch"/*.log; do
    name=${log##*/}
    awk -v name="${name%.log}" '/INFO: Seed/ { seed = $3 } /stat::number_of_executed_units/ { runs = $2 } /stat::new_units_added/ { new = $2 }
        /cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") cov = $(i + 1) }
        END { printf "%s: %s inputs, %s of them new, coverage %s, seed %s\n", name, runs, new, cov, seed }' "$log"
done
if [[ ${KEEP:-} = 1 ]]; then
    for fuzzer in "${fuzzers[@]}"; do
        [[ $fuzzer != bombs ]] || continue # each of them costs every test its time
        # shellcheck disable=SC2046
        "$(program_of "$fuzzer")" -merge=1 $(options_of "$fuzzer") "$corpus/$fuzzer" "$(found_of "$fuzzer")" >"$scratch/merge" 2>&1 ||
            { tail -n 3 "$scratch/merge" >&2; exit 1; }
    done
fi
[[ -s $scratch/failed ]] || exit 0
status=1
sort -u "$scratch/failed" | while read -r fuzzer; do
    grep -hE 'ERROR: |runtime error|of memory, and|s are allowed|SUMMARY' "$scratch/$fuzzer".*.log | head -n 4 >&2 || true
    for input in "$scratch/$fuzzer".{crash,leak,oom,timeout,slow-unit}-*; do
        [[ -f $input ]] || continue
        kept=$corpus/$fuzzer/crash-${input##*-}
        # shellcheck disable=SC2046
        "$(program_of "$fuzzer")" -minimize_crash=1 -max_total_time=60 $(options_of "$fuzzer") \
            -exact_artifact_path="$kept" "$input" >/dev/null 2>&1 || true
        [[ -f $kept ]] || cp "$input" "$kept"
        echo "fuzz.sh: $fuzzer fails; repeat it with $(program_of "$fuzzer") $kept" >&2
    done
done
exit $status
