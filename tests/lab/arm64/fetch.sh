#!/usr/bin/env bash
# fetch.sh - gets what the lab's machines of 64-bit ARM boot: packages of Debian's for arm64, unpacked
# into build/lab-arm64/ and not installed. Kernels with pages of 4 KiB and of 16 KiB (the latter from
# backports), busybox, libz.a. Needs the package archive once, and no root. What is there is kept.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
place=$here/../../../build/lab-arm64

die() {
    echo "lab: nothing to boot for 64-bit ARM: $*" >&2
    exit 1
}
[[ $# -eq 0 ]] || {
    echo "usage: tests/lab/arm64/fetch.sh (no arguments; writes build/lab-arm64/)" >&2
    exit 2
}
mkdir -p "$place"
place=$(cd "$place" && pwd)
cd "$place"
if [[ -s vmlinuz && -s vmlinuz-16k && -s busybox && -s libz.a ]]; then
    echo "lab: kernels $(<version) and $(<version-16k) for 64-bit ARM are there"
    exit 0
fi
for tool in apt-get apt-cache dpkg-deb; do
    command -v $tool >/dev/null || die "$tool is missing (this needs Debian or a relative)"
done

# Debian's archives that apt installs from, and backports beside them, for the other architecture; all
# apart from the machine's own lists.
mkdir -p apt/lists/partial apt/cache/archives/partial apt/parts
: >apt/status
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ -r $file ]] && sed -n 's/arch=[^] ]*//; s/^deb \(.*debian.*\)/deb \1/p' "$file"
done >apt/sources.list
for file in /etc/apt/sources.list.d/debian*.sources; do
    [[ -r $file ]] && sed '/^Architectures:/d' "$file" >"apt/parts/$(basename "$file")"
done
archive=$({
    sed -n 's/^URIs: *\([^ ]*\).*/\1/p' apt/parts/debian*.sources 2>/dev/null
    sed -n 's/^deb .*\(https\?:[^ ]*\).*/\1/p' apt/sources.list
} | grep -v security | head -n 1) || true
codename=$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-}")
[[ -z $archive ]] || {
    printf 'Types: deb\nURIs: %s\nSuites: %s-backports\nComponents: main\n' "$archive" "$codename"
    sed -n '/^Signed-By:/{p;q}' apt/parts/debian*.sources 2>/dev/null || true
} >apt/parts/lab-backports.sources
apt=(-o "Dir::Etc::SourceList=$place/apt/sources.list" -o "Dir::Etc::SourceParts=$place/apt/parts"
    -o "Dir::State::Lists=$place/apt/lists" -o "Dir::State::Status=$place/apt/status"
    -o "Dir::Cache=$place/apt/cache" -o APT::Architecture=arm64 -o APT::Architectures::=arm64
    -o "APT::Sandbox::User=root" -o Acquire::Languages=none)
# (Without backports there is no kernel of 16 KiB, and the rest serves.)
apt-get "${apt[@]}" update >apt/log 2>&1 || echo "lab: apt-get update: $(grep -m 1 '^E:' apt/log)" >&2

# package NAME: fetched and named on standard output.
package() {
    rm -rf apt/one
    mkdir -p apt/one
    (cd apt/one && apt-get "${apt[@]}" download -q "$1" >../log 2>&1) || return 1
    printf '%s\n' "$PWD"/apt/one/*.deb
}

# take DEB FILE TO: one file of a package. (Of a kernel's, the rest are modules.)
take() {
    local member=./$2
    mkdir -p apt/one
    { dpkg-deb --fsys-tarfile "$1" 2>/dev/null || true; } |
        tar -xO --occurrence=1 -f - "$member" >"$3.new" 2>/dev/null || true
    [[ -s $3.new ]] || return 1
    mv "$3.new" "$3"
}

# kernel META SUFFIX: what the metapackage stands for.
kernel() {
    local name deb version
    [[ ! -s vmlinuz$2 ]] || return 0
    name=$(apt-cache "${apt[@]}" depends "$1" 2>/dev/null |
        sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
    [[ -n $name ]] && deb=$(package "$name") || return 1
    version=${name#linux-image-}
    version=${version%-unsigned}
    take "$deb" "boot/config-$version" "config$2" && take "$deb" "boot/vmlinuz-$version" image || return 1
    echo "$version" >"version$2"
    mv image "vmlinuz$2" # last: its presence says that all is there
}

one() { # PACKAGE FILE TO
    local deb
    [[ ! -s $3 ]] || return 0
    deb=$(package "$1") && take "$deb" "$2" "$3"
}

one busybox-static bin/busybox busybox || one busybox-static usr/bin/busybox busybox ||
    die "the package busybox-static is not to be had: $(tail -n 1 apt/log)"
chmod 755 busybox
one zlib1g-dev usr/lib/aarch64-linux-gnu/libz.a libz.a ||
    echo "lab: no libz.a for 64-bit ARM: traces will not be compressed there" >&2
kernel linux-image-cloud-arm64 '' || die "its kernel is not to be had: $(tail -n 1 apt/log)"
kernel linux-image-arm64-16k -16k ||
    echo "lab: no kernel with pages of 16 KiB: its tests will be skipped" >&2
rm -rf apt/one
echo "lab: for 64-bit ARM, kernel $(<version) and $(cat version-16k 2>/dev/null || echo none)" \
    "with pages of 16 KiB, in $place"
