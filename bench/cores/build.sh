#!/usr/bin/env bash
# build.sh - builds the instrument of `numalloc-bench cores` into build/cores/: QEMU's user-mode
# emulation of Debian's source package, with the edits of this folder, its plugin, and the loads. Ten
# minutes of two processors the first time; what is there is kept. NUMALLOC_CORES=DIR is where else to
# build, so that several trees can share one. Debian 12 or a relative that has QEMU 7.2.
#
#   bench/cores/build.sh [--there]    --there: builds nothing; exits 0 if the emulator is built
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
place=${NUMALLOC_CORES:-$root/build/cores}

die() {
    echo "cores: no instrument: $*" >&2
    exit 1
}
if [[ $# -eq 1 && $1 == --there ]]; then
    [[ -x $place/out/qemu-x86_64 ]]
    exit
fi
[[ $# -eq 0 ]] || {
    echo "usage: bench/cores/build.sh [--there]" >&2
    exit 2
}
mkdir -p "$place"
cd "$place"
source=$("$root/tests/lab/ibs/source.sh" "$place") || exit 1
"$root/tests/lab/ibs/apply" "$source" "$here/edits" || die "the edits do not fit $source"

compiler=gcc
command -v ccache >/dev/null && compiler="ccache gcc"
mkdir -p out
if [[ ! -e out/build.ninja ]]; then
    (cd out && nice -n 19 "../$source/configure" --target-list=x86_64-linux-user \
        --without-default-features --enable-tcg --enable-linux-user --enable-plugins --disable-docs \
        --disable-tools --disable-guest-agent --disable-werror --disable-debug-info \
        --disable-stack-protector --cc="$compiler") >configure.log 2>&1 ||
        die "configure failed: see $place/configure.log"
fi
nice -n 19 ninja -C out -j"$(nproc)" qemu-x86_64 >build.log 2>&1 ||
    die "the build failed: $(grep -m 1 'error:' build.log || tail -n 1 build.log)"
gcc -shared -fPIC -O2 -g -Wall -Wextra -Wconversion -Werror -I"$root" -I"$source/include/qemu" "$here"/plugin.c \
    "$here"/{turns,lines,syscalls,report}.c -o cores.so || die "the plugin does not compile"
gcc -O2 -g -Wall -Wextra -Werror -pthread "$here/load.c" -o load || die "the loads do not compile"
gcc -O2 -g -Wall -Wextra -Werror -pthread "$here/known.c" -o known || die "known.c does not compile"
gcc -O2 -g -Wall -Wextra -Werror -pthread "$here/costs.c" -o costs || die "costs.c does not compile"
