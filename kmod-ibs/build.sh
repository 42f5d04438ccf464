#!/usr/bin/env bash
# build.sh - builds the module with the kernel's own make, and holds it to no warnings at all.
#
# The kernel's build writes beside the sources, so it gets a copy of them in DIRECTORY.
# usage: build.sh HEADERS DIRECTORY MODULE MAKE SOURCE...   (CMakeLists.txt; users take the Makefile)
set -euo pipefail
[[ $# -gt 4 ]] || {
    sed -n 's/^# usage: /usage: /p' "$0" >&2
    exit 2
}
headers=$1 directory=$2 module=$3 make=$4
log=$directory/build.log
mkdir -p "$directory"
(cd "$(dirname "$0")" && cp --parents "${@:5}" "$directory")
# The jobserver and the flags of an outer make are not this one's.
env -u MAKEFLAGS -u MAKELEVEL -u CFLAGS "$make" -C "$directory" KDIR="$headers" W=1 >"$log" 2>&1 || {
    cat "$log" >&2
    exit 1
}
# "Skipping BTF generation": the headers have no vmlinux; the module does without.
if grep -i 'warning' "$log" >&2; then
    echo "kmod-ibs: the lines above are warnings; none is accepted ($log)" >&2
    exit 1
fi
cp "$directory/numalloc_ibs.ko" "$module"
