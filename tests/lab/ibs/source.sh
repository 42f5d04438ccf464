#!/usr/bin/env bash
# source.sh - the source of Debian 12's QEMU, unpacked: tests/lab/ibs/source.sh DIRECTORY. Fetches it if
# it is not there, and prints the folder's name below DIRECTORY.
set -euo pipefail
export LC_ALL=C
cd "$1"

die() {
    echo "lab: no source of QEMU: $*" >&2
    exit 1
}
source=$(find . -maxdepth 1 -type d -name 'qemu-7.2*' | head -n 1)
if [[ -z $source ]]; then
    # The sources of the release that apt installs from, listed apart from the machine's own lists.
    mkdir -p apt/lists/partial apt/cache/archives/partial
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [[ -r $file ]] && sed -n 's/^deb \(.*debian.*\)/deb-src \1/p' "$file"
    done >apt/sources.list
    apt=(-o "Dir::Etc::SourceList=$PWD/apt/sources.list" -o "Dir::Etc::SourceParts=$PWD/apt/parts"
        -o "Dir::State::Lists=$PWD/apt/lists" -o "Dir::Cache=$PWD/apt/cache" -o "APT::Sandbox::User=root")
    mkdir -p apt/parts
    for file in /etc/apt/sources.list.d/debian*.sources; do
        [[ -r $file ]] && sed 's/^Types:.*/Types: deb-src/' "$file" >"apt/parts/$(basename "$file")"
    done
    apt-get "${apt[@]}" update >apt/log 2>&1 || die "apt-get update: $(tail -n 1 apt/log)"
    version=$(apt-cache "${apt[@]}" showsrc qemu 2>/dev/null | sed -n 's/^Version: //p' |
        grep -E '^1:7\.2[+]' | sort -V | tail -n 1) || true
    [[ -n $version ]] || die "this release's archive has no QEMU 7.2"
    apt-get "${apt[@]}" source "qemu=$version" >>apt/log 2>&1 || die "apt-get source: $(tail -n 1 apt/log)"
    source=$(find . -maxdepth 1 -type d -name 'qemu-7.2*' | head -n 1)
    [[ -n $source ]] || die "the source package did not unpack"
fi
echo "$source"
