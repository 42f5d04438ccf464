#!/usr/bin/env bash
# kernel_debug.sh - the kernel module's tests under a kernel that checks itself (kernel_debug.config: lockdep, KASAN,
# sleeping where nothing may). It is built once for each version, in build/lab-debug/, from Debian's source package or
# from a tree that is given, and the module for it. Status 77, and a line that says why, where that cannot be done.
#
#   tests/lab/kernel_debug.sh [SOURCE]   (a tree of Linux; $BUILD: the build with the tests, build/release;
#                                         $SECONDS_OF_FUZZ: 120)
set -euo pipefail
export LC_ALL=C
[[ $# -le 1 ]] || {
    sed -n 's/^#   \(tests.*\)/usage: \1/p' "$0" >&2
    exit 2
}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(cd "${BUILD:-$root/build/release}" && pwd)
cache=$root/build/lab-debug
skip() {
    echo "kernel_debug.sh: skipped: $*"
    exit 77
}
fail() {
    echo "kernel_debug.sh: FAILED: $*" >&2
    exit 1
}
for tool in make gcc flex bison bc xz; do
    command -v $tool >/dev/null || skip "$tool is missing; install make gcc flex bison bc xz-utils libelf-dev"
done
[[ -s $build/tests/lab/module.tests ]] || fail "$build has no tests of the module: build it, with kernel headers"
mkdir -p "$cache"

unpack() { # of Debian's package
    local package version
    package=$(apt-cache depends linux-source 2>/dev/null | sed -n 's/^ *Depends: \(linux-source-[^ ]*\)$/\1/p' | head -n 1)
    version=$(apt-cache show "$package" 2>/dev/null | sed -n 's/^Version: //p' | head -n 1)
    [[ -n $version ]] || skip "apt knows no package linux-source (try apt-get update)"
    source=$cache/linux-$version
    [[ ! -e $source/Makefile ]] || return 0
    rm -rf "$cache/new" && mkdir "$cache/new"
    (cd "$cache/new" && apt-get download -q "$package" >download.log 2>&1) || skip "apt-get download $package failed"
    dpkg-deb --fsys-tarfile "$cache/new/"*.deb | tar -xO --wildcards './usr/src/linux-source-*.tar.xz' |
        tar -xJ -C "$cache/new"
    mv "$cache/new/$package" "$source"
    rm -rf "$cache/new"
}

source=
if [[ $# -eq 1 ]]; then
    [[ -e $1/kernel/events/core.c ]] || fail "$1 is no tree of Linux"
    source=$(cd "$1" && pwd)
else
    unpack
fi
version=$(make -s -C "$source" kernelversion)
out=$cache/$version
mkdir -p "$out"
compile=(make -C "$source" O="$out" -j"$(nproc)")
command -v ccache >/dev/null && compile+=(CC="ccache gcc")
if ! cmp -s "$here/kernel_debug.config" "$out/wanted" || [[ ! -s $out/Module.symvers ]]; then
    echo "kernel_debug.sh: Linux $version ($out/build.log)"
    # (WERROR=0: a compiler later than the kernel warns of its tools.)
    "${compile[@]}" WERROR=0 KCONFIG_ALLCONFIG="$here/kernel_debug.config" \
        allnoconfig bzImage modules_prepare >"$out/build.log" 2>&1 || {
        tail -n 20 "$out/build.log" >&2
        fail "Linux $version does not build"
    }
    lacking=$(grep '^CONFIG_' "$here/kernel_debug.config" | grep -vxFf "$out/.config" || true)
    [[ -z $lacking ]] || fail "Linux $version has not: ${lacking//$'\n'/ }"
    cp "$out/vmlinux.symvers" "$out/Module.symvers" # what the module needs of the kernel
    cp "$here/kernel_debug.config" "$out/wanted"
fi
module=$out/numalloc_ibs.ko
(cd "$root/kmod-ibs" && ./build.sh "$out" "$out/module" "$module" make \
    Kbuild Makefile na_ibs.h ./*.c uapi/numalloc_ibs.h uapi/numalloc_ibs_decode.h)

# The same tests; then the fuzzer for longer; last, whether lockdep was still at work.
results=$out/results
rm -rf "$results"
mkdir "$results"
{
    sed "s,[^= ]*/numalloc_ibs\.ko,$module,; s/\t\([0-9]*\)\t/\t\10\t/" "$build/tests/lab/module.tests"
    printf 'fuzz\t%s\tenv NA_KMOD=%s %s %s\n' "$((${SECONDS_OF_FUZZ:-120} * 3))" "$module" \
        "$build/tests/lab-kmod-fuzz" "${SECONDS_OF_FUZZ:-120} $((RANDOM * 32768 + RANDOM))"
    printf 'lockdep\t10\tgrep -q "debug_locks: *1" /proc/lockdep_stats\n'
} >"$results/list"
status=0
"$here/run" --limit 36000 --kernel "$out/arch/x86/boot/bzImage" --append loglevel=7 --console \
    --tests "$results/list" --results "$results" module 2>"$results/console" || status=$?
[[ $status -ne 77 ]] || skip "$(tail -n 1 "$results/console")"
# lockdep and others only say what they find.
if grep -E 'WARNING: |BUG: |INFO: (possible|trying|task|rcu)|^ODEBUG' "$results/console" >&2; then
    fail "the kernel complains: $results/console"
fi
failed=0 skipped=0 tests=0
for file in "$results"/*.status; do
    tests=$((tests + 1))
    case $(<"$file") in
    0) ;;
    77) skipped=$((skipped + 1)) ;;
    *)
        failed=$((failed + 1))
        echo "== ${file##*/}: $(<"$file")"
        tail -n 10 "${file%.status}.out"
        ;;
    esac
done >&2
[[ $failed -eq 0 && $status -eq 0 ]] || fail "$failed tests of $tests; $results"
echo "kernel_debug.sh: Linux $version: $tests tests, $skipped skipped, no complaint"
