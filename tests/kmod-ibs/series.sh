#!/usr/bin/env bash
# series.sh HEADERS MAKE - the patches that scripts/kmod-series.py makes apply one after the other, and
# what they make is built without a warning where HEADERS are of Linux 6.12 or later.
set -euo pipefail
headers=$1 make=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# (Debian's have a part in common, which this Makefile includes.)
common=$(sed -n 's/^include \(.*\)\/Makefile$/\1/p' "$headers/Makefile")
version=$(cat {"$headers","$common"}/include/generated/uapi/linux/version.h 2>/dev/null |
    sed -n 's/^#define LINUX_VERSION_CODE //p' | head -n 1) || true
command -v clang-format >/dev/null && command -v git >/dev/null || {
    echo "clang-format or git is missing"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/../../scripts/kmod-series.py" "$work/patches"
mkdir "$work/linux"
cd "$work/linux"
git init -q
git -c user.name=series -c user.email=series@example.org am -q "$work"/patches/000[1-9]-*.patch
[[ ${version:-0} -ge $((6 << 16 | 12 << 8)) ]] || {
    echo "they apply; not built, for $headers are older than Linux 6.12"
    exit 0
}
driver=$work/linux/drivers/misc/numalloc_ibs
mkdir -p "$driver/uapi/linux"
cp include/uapi/linux/numalloc_ibs.h "$driver/uapi/linux/"
echo "ccflags-y := -I\$(src)" >>"$driver/Makefile"
env -u MAKEFLAGS -u MAKELEVEL -u CFLAGS "$make" -C "$headers" M="$driver" CONFIG_NUMALLOC_IBS=m W=1 modules >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
! grep -i warning "$work/log"
[[ -e $driver/numalloc_ibs.ko ]]
