#!/usr/bin/env bash
# build.sh - builds QEMU with AMD's instruction-based sampling into build/lab-qemu/: Debian's source
# package, with the files and edits of this folder. 15 minutes of two processors the first time; what
# is there is kept, and only what changed is built again. NUMALLOC_LAB_QEMU=DIR is where else to build,
# so that several trees can share one. Debian 12 or a relative that has QEMU 7.2.
#
#   tests/lab/ibs/build.sh [--there]    --there: builds nothing; exits 0 and prints the program's path
#                                       if there is one
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
place=${NUMALLOC_LAB_QEMU:-$here/../../../build/lab-qemu}
program=out/qemu-system-x86_64

die() {
    echo "lab: no QEMU with IBS: $*" >&2
    exit 1
}
if [[ $# -eq 1 && $1 == --there ]]; then
    [[ -x $place/$program ]] || exit 1
    realpath "$place/$program"
    exit 0
fi
[[ $# -eq 0 ]] || {
    echo "usage: tests/lab/ibs/build.sh [--there]" >&2
    exit 2
}
mkdir -p "$place"
cd "$place"
for tool in apt-get dpkg-source ninja python3 pkg-config gcc; do
    command -v $tool >/dev/null || die "$tool is missing (scripts/setup.sh ibs)"
done
for library in glib-2.0 pixman-1 zlib libfdt; do
    pkg-config --exists $library 2>/dev/null || [[ $library == libfdt && -e /usr/include/libfdt.h ]] ||
        die "the headers of $library are missing (scripts/setup.sh ibs)"
done

source=$("$here/source.sh" "$PWD") || exit 1
"$here/apply" "$source" || die "the edits do not fit $source"

compiler=gcc
command -v ccache >/dev/null && compiler="ccache gcc"
mkdir -p out
if [[ ! -e out/build.ninja ]]; then
    (cd out && nice -n 19 "../$source/configure" --target-list=x86_64-softmmu --without-default-features --without-default-devices \
        --enable-tcg --disable-docs --disable-tools --disable-guest-agent --disable-werror \
        --disable-debug-info --disable-stack-protector --disable-install-blobs --audio-drv-list= \
        --cc="$compiler") >configure.log 2>&1 || die "configure failed: see $place/configure.log"
fi
nice -n 19 ninja -C out -j"$(nproc)" qemu-system-x86_64 >build.log 2>&1 ||
    die "the build failed: $(grep -m 1 'error:' build.log || tail -n 1 build.log)"
# For Debian's QEMU, which takes plugins: a log of all accesses, to hold samples against.
gcc -shared -fPIC -O2 -Wall -I"$source/include/qemu" "$here/matrix_plugin.c" -o out/matrix_plugin.so ||
    die "matrix_plugin.c does not compile"
echo "lab: QEMU with IBS is $(realpath "$program")"
