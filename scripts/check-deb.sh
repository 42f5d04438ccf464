#!/usr/bin/env bash
# check-deb.sh [DIR] - builds the Debian packages (scripts/deb.sh, with lintian) in DIR, unpacks them,
# and holds what a user gets to what the documents say. It installs nothing; scripts/check-chroot.sh
# does. Built without optimisation, to be quick (DEB_BUILD_OPTIONS= : as the packages are). Status 77
# if a program is missing.
set -euo pipefail
export LC_ALL=C.UTF-8

source=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
out=${1:-$scratch/deb}
fail() {
    echo "check-deb.sh: FAILED: $*" >&2
    exit 1
}
for tool in dpkg-buildpackage:dpkg-dev dh:debhelper dh_dkms:dh-dkms lintian readelf:binutils; do
    command -v "${tool%%:*}" >/dev/null || {
        echo "check-deb.sh: skipped: ${tool%%:*} is missing; install the package ${tool#*:}"
        exit 77
    }
done

echo "== build, lintian"
rm -rf "$out"
DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS-noopt noautodbgsym}" "$source/scripts/deb.sh" --out "$out" >"$scratch/list"
version=$(sed -n 's/.*libnumalloc0_\(.*\)_amd64.deb/\1/p' "$scratch/list")
packages='libnumalloc-dev libnumalloc-profile0 libnumalloc0 numalloc-dkms numalloc-tools python3-numalloc'
built=$(sed -n 's|.*/\([^_]*\)_.*|\1|p' "$scratch/list" | grep -v dbgsym | sort | tr '\n' ' ')
[[ $built == "$packages " ]] || fail "built $built, not $packages"

unpack() { # PACKAGE DIRECTORY
    dpkg-deb -x "$out"/"$1"_*.deb "$2"
}
user=$scratch/user   # who profiles
tree=$scratch/tree   # who compiles: the same, and libnumalloc-dev
kernel=$scratch/dkms # the module's
unpack libnumalloc0 "$user"
unpack numalloc-tools "$user"
cp -a "$user" "$tree"
unpack libnumalloc-profile0 "$tree"
unpack libnumalloc-dev "$tree"
unpack numalloc-dkms "$kernel"
unpack python3-numalloc "$user"

echo "== ELF files"
count=0
while IFS= read -r -d '' file; do
    dynamic=$(readelf -dW "$file" 2>/dev/null) || continue
    [[ $dynamic == *"Dynamic section"* ]] || continue
    count=$((count + 1))
    ! grep -E '\((RPATH|RUNPATH)\)' <<<"$dynamic" || fail "$file has a run path"
done < <(find "$tree" -type f -print0)
[[ $count -ge 7 ]] || fail "only $count programs and libraries"
lib=$user/usr/lib/x86_64-linux-gnu/libnumalloc.so.0
"$source/scripts/check-library.sh" "$lib"

echo "== tools without libnumalloc-dev"
[[ ! -e ${lib%.0} ]] || fail "libnumalloc0 has the link libnumalloc.so, which is libnumalloc-dev's"
for program in "$user"/usr/bin/*; do
    name=${program##*/}
    "$program" --help >/dev/null || fail "$name --help"
done
[[ -x $user/usr/bin/numalloc-dump && -x $user/usr/bin/numalloc-bench && -x $user/usr/bin/numalloc-run ]] || fail "a tool is missing"
units=$user/lib/systemd/system # Debian 12; in /usr/lib since
[[ -d $units ]] || units=$user/usr/lib/systemd/system
[[ -s $units/numalloc-ship.timer && -s $units/numalloc-ship.service ]] || fail "numalloc-ship's units are missing"
grep -q '^ExecStart=/usr/bin/numalloc-ship ' "$units/numalloc-ship.service" || fail "the unit does not start numalloc-ship"
"$user/usr/bin/numalloc-bench" compare --help | grep "numalloc *$(realpath "$lib")" ||
    fail "numalloc-bench does not find the library of its package"
LD_PRELOAD=$lib NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=$scratch/ls.nprof ls / >/dev/null
"$user/usr/bin/numalloc-dump" "$scratch/ls.nprof" | grep '^peak ' || fail "no profile of ls"
(cd "$scratch" && env -u LD_PRELOAD "$user/usr/bin/numalloc-run" --profile ls /) \
    >"$scratch/out" 2>"$scratch/err" || fail "numalloc-run --profile ls /: $(cat "$scratch/err")"
ls / | cmp - "$scratch/out" || fail "numalloc-run changed what ls prints"
grep -q nprof "$scratch/err" || fail "numalloc-run names no profile: $(cat "$scratch/err")"

(cd "$scratch" && PYTHONPATH=$user/usr/lib/python3/dist-packages NUMALLOC_DUMP=$user/usr/bin/numalloc-dump \
    env -u LD_PRELOAD "$user/usr/bin/numalloc-run" --python /usr/bin/python3 -c '
import numalloc, importlib.metadata
with numalloc.profile("part.nprof"): kept = bytearray(5000000)
from numalloc import reading
assert reading.Figures("part.nprof").peak >= 5000000
assert importlib.metadata.version("numalloc")') || fail "the Python module"

echo "== an install tree"
"$source/scripts/check-install.sh" --prefix "$tree/usr" >"$scratch/install.log" 2>&1 || {
    cat "$scratch/install.log" >&2
    fail "check-install.sh"
}

echo "== the kernel module, its group and its device"
module=$kernel/usr/src/numalloc_ibs-$version
[[ -f $module/dkms.conf ]] || fail "numalloc-dkms has no $module/dkms.conf"
grep -q "^PACKAGE_VERSION=\"$version\"" "$module/dkms.conf" || fail "dkms.conf is of another version"
headers=$(find /usr/src -maxdepth 1 -name 'linux-headers-*-amd64' | sort -V | tail -n 1)
if [[ -n $headers ]] && command -v make >/dev/null; then
    # As dkms.conf says, in a copy, since the kernel's build writes beside the sources.
    make -C "$module" KDIR="$headers" >"$scratch/make.log" 2>&1 || {
        tail -n 20 "$scratch/make.log" >&2
        fail "the module of numalloc-dkms does not build against $headers"
    }
    [[ -s $module/numalloc_ibs.ko ]] || fail "the build made no numalloc_ibs.ko"
else
    echo "not built: no kernel headers (package linux-headers-cloud-amd64) or no make"
fi
rule=$(cat "$kernel"/lib/udev/rules.d/*numalloc-dkms.rules)
[[ $rule == *'GROUP="numalloc"'* ]] || fail "the udev rule names no group: $rule"
if command -v systemd-sysusers >/dev/null; then
    mkdir -p "$kernel/etc"
    systemd-sysusers --root="$kernel" numalloc-dkms.conf 2>/dev/null
    grep -q '^numalloc:' "$kernel/etc/group" || fail "systemd-sysusers made no group numalloc"
fi
echo "ok: $version"
