#!/bin/sh
# check.sh BUILD - what the build of the packages checks before it packs: the libraries are as the
# loader wants them, serve a program, and a profile of it can be read.
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$here/scripts/check-library.sh" "$build/libnumalloc.so"
# Not what the environment of the build says.
unset LD_PRELOAD NUMALLOC_PROFILE NUMALLOC_PROFILE_FILE NUMALLOC_STATS 2>/dev/null || true
LD_PRELOAD="$build/libnumalloc.so" NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$scratch/sort.nprof" \
    sort "$here/README.md" >"$scratch/sorted"
sort "$here/README.md" | cmp - "$scratch/sorted"
"$build/numalloc-dump" "$scratch/sort.nprof" >"$scratch/summary"
grep -q '^peak ' "$scratch/summary"
"$build/numalloc-bench" list >"$scratch/list"
grep -q churn "$scratch/list"
echo "check.sh: ok"
