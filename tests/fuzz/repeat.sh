#!/usr/bin/env bash
# repeat.sh FUZZER CORPUS OPTION... - a fuzzer as a test: the same inputs in the same order wherever
# it runs, from the kept corpus and a fixed seed (FUZZ_REPEATABLE: fuzz_reader.c). Addresses are not
# randomised where that can be had, because comparisons of pointers steer the fuzzer, too. Nothing
# is read from or added to what other runs have found. An input that fails is printed as text, since
# the file may be gone with the machine: base64 -d | gunzip makes it again.
set -euo pipefail
fuzzer=$1 corpus=$2
shift 2
seeds=$(find "$corpus" -type f | LC_ALL=C sort | paste -sd,)
[[ -n $seeds ]] || {
    echo "repeat.sh: no inputs in $corpus" >&2
    exit 2
}
fixed=()
if setarch -R true 2>/dev/null; then fixed=(setarch -R); fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0
FUZZ_REPEATABLE=1 "${fixed[@]+"${fixed[@]}"}" "$fuzzer" -seed_inputs="$seeds" -reload=0 \
    -artifact_prefix="$scratch/" "$@" >"$scratch/log" 2>&1 || status=$?
grep -vE '^#|^INFO: |^"' "$scratch/log" | tail -n 100 || true
for input in "$scratch"/*-*; do
    [[ -f $input ]] || continue
    echo "repeat.sh: ${input##*/} ($(stat -c %s "$input") bytes), by gzip and base64:"
    gzip -9c "$input" | base64
done
exit $((status != 0))
