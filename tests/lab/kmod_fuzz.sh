#!/usr/bin/env bash
# kmod_fuzz.sh - the kernel module's fuzzer (kmod_fuzz.c) for minutes, as before each release: in
# machines of 100 seconds each, so that a complaint of the kernel stops only one, and each with
# another seed, which is said and brings the same calls again.
set -euo pipefail
export LC_ALL=C

minutes=${1:-10}
if [[ $# -gt 1 || ! $minutes =~ ^[1-9][0-9]*$ ]]; then
    echo "usage: tests/lab/kmod_fuzz.sh [MINUTES]   (10; \$BUILD: the build, build/release)" >&2
    exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${BUILD:-$root/build/release}
build=$(cd "$build" && pwd)
module=$build/kmod-ibs/numalloc_ibs.ko
for file in "$module" "$build/tests/lab-kmod-fuzz"; do
    [[ -f $file ]] || {
        echo "kmod_fuzz.sh: $file is missing: build it, with linux-headers-cloud-amd64 installed" >&2
        exit 1
    }
done
left=$((minutes * 60))
while ((left > 0)); do
    seconds=$((left < 100 ? left : 100))
    "$root/tests/lab/run" --limit $((seconds * 3 + 120)) --console module -- \
        env NA_KMOD="$module" "$build/tests/lab-kmod-fuzz" $seconds $((RANDOM * 32768 + RANDOM))
    left=$((left - seconds))
done
echo "kmod_fuzz.sh: $minutes minutes, no complaint"
