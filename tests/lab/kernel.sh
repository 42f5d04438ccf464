#!/usr/bin/env bash
# kernel.sh - gets the kernel of the lab's machines: Debian's stock cloud kernel, unpacked from its
# package into build/lab-kernel/ and not installed, and its module for model-specific registers. Needs
# the package archive once, and no root.
set -euo pipefail
export LC_ALL=C

if [[ $# -ne 0 ]]; then
    echo "usage: tests/lab/kernel.sh (no arguments; writes build/lab-kernel/vmlinuz)" >&2
    exit 2
fi
die() {
    echo "lab: no kernel for the lab's machines: $*" >&2
    exit 1
}

cache=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/lab-kernel

# A module loads into the very kernel that it was built for, so the installed headers decide.
headers=$(printf '%s\n' /usr/src/linux-headers-*-cloud-amd64 | sort -V | tail -n 1)
wanted=
[[ -r $headers/Makefile ]] && wanted=${headers#/usr/src/linux-headers-}

if [[ -s $cache/vmlinuz ]]; then
    there=$(cat "$cache/version")
    if [[ -s $cache/msr.ko && (-z $wanted || $wanted == "$there") ]]; then
        echo "lab: kernel $there is there"
        exit 0
    fi
    # An older one still serves, but for the tests of the kernel module.
    die() {
        echo "lab: kernel $there stays${wanted:+, the installed headers are of $wanted}: $*" >&2
        exit 0
    }
fi
for tool in apt-get apt-cache dpkg-deb; do
    command -v $tool >/dev/null || die "$tool is missing (this needs Debian or a relative)"
done
if [[ -n $wanted ]]; then
    package=linux-image-$wanted
else
    package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null |
        sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
fi
[[ -n $package ]] || die "apt knows no package linux-image-cloud-amd64 (try apt-get update)"

mkdir -p "$cache"
scratch=$(mktemp -d "$cache/unpack.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
# apt fetches as its own user where it can; as root it says that it did not.
(cd "$scratch" && apt-get download -q "$package" >download.log 2>&1) ||
    # The archive keeps few versions: where that of the headers is gone, the current one.
    { [[ -n $wanted && ! -s $cache/vmlinuz ]] &&
        package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null |
            sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1) && [[ -n $package ]] &&
        (cd "$scratch" && apt-get download -q "$package" >download.log 2>&1); } ||
    die "apt-get download $package failed: $(tail -n 1 "$scratch/download.log")"
dpkg-deb -x "$scratch"/*.deb "$scratch/root" || die "$package does not unpack"
version=${package#linux-image-}
cp "$scratch/root/boot/config-$version" "$cache/config"
# In lib or, of newer kernels, in usr/lib, and compressed.
msr=$(find "$scratch/root" -name 'msr.ko*')
[[ $msr != *.xz ]] || xz -d "$msr"
cp "${msr%.xz}" "$cache/"
echo "$version" >"$cache/version"
mv "$scratch/root/boot/vmlinuz-$version" "$cache/vmlinuz" # last: its presence says that all is there
echo "lab: kernel $version unpacked into $cache"
