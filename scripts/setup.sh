#!/usr/bin/env bash
# setup.sh - installs the packages of scripts/packages that are missing, and for the tests unpacks the
# kernels of the lab's virtual machines into build/; nothing else. It removes no package: what cannot be
# had beside those that are installed is left out. Safe to run again: with nothing missing it needs no
# rights and no network.
set -euo pipefail
export LC_ALL=C

usage() {
    cat <<EOF
usage: scripts/setup.sh [build|test|ibs|arm64] [--check]

Installs the packages (Debian 12 or 13) listed in scripts/packages that are missing, with apt-get, as root
or through sudo. Where apt would remove a package for one that the tests need, it goes on without
that, and says so.

  build     what the library, the tools and the demo are built with
  test      that and what the tests need (the default); also fetches the kernel that the tests of
            virtual NUMA machines boot (build/lab-kernel)
  ibs       that and what the emulator with IBS is built with (tests/lab/ibs/build.sh)
  arm64     test and what machines of 64-bit ARM are built with and emulated by; also fetches what
            they boot (build/lab-arm64)
  --check   install nothing; say what is missing and exit with status 1 if anything is
EOF
}

check_only=0
groups='build test'
for argument; do
    case $argument in
    build) groups=build ;;
    test) groups='build test' ;;
    ibs) groups='build test ibs' ;;
    arm64) groups='build test arm64' ;;
    --check) check_only=1 ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        echo "setup: unknown argument '$argument'; see scripts/setup.sh --help" >&2
        exit 2
        ;;
    esac
done

die() {
    echo "setup: $*" >&2
    exit 1
}

# The lab's kernel (tests/lab) is unpacked, not installed. Tests that want it are skipped without.
lab_kernel() {
    [[ $groups == *test* && $(uname -m) == x86_64 ]] || return 0
    "$(dirname "${BASH_SOURCE[0]}")/../tests/lab/kernel.sh" ||
        echo "setup: tests of virtual NUMA machines will be skipped" >&2
    [[ $groups != *arm64* ]] || "$(dirname "${BASH_SOURCE[0]}")/../tests/lab/arm64/fetch.sh" ||
        echo "setup: tests of machines of 64-bit ARM will be skipped" >&2
}

release=$(. /etc/os-release 2>/dev/null && echo "${ID:-?} ${VERSION_CODENAME:-?}" || true)
list=$(dirname "${BASH_SOURCE[0]}")/packages
[[ -r $list ]] || die "cannot read $list; run this from a complete checkout"
mapfile -t listed < <(sed 's/#.*//; s/[[:space:]]//g; /^$/d' "$list")
wanted=() group=
declare -A group_of
for package in "${listed[@]}"; do
    if [[ $package == \[*\] ]]; then
        group=${package:1:-1}
        continue
    fi
    [[ " $groups " == *" $group "* ]] || continue
    [[ $package == *\?* ]] && command -v "${package#*\?}" >/dev/null && continue
    package=${package%%\?*}
    if [[ $release == "debian bookworm" ]]; then package=${package%%|*}; else package=${package##*|}; fi
    wanted+=("$package")
    group_of[$package]=$group
done

command -v dpkg-query >/dev/null ||
    die "this system has no dpkg; install by hand what provides: ${wanted[*]}"

missing=()
for package in "${wanted[@]}"; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [[ $status == installed ]] || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then
    echo "setup: all ${#wanted[@]} packages are installed"
    [[ $check_only -eq 1 ]] || lab_kernel
    exit 0
fi
if [[ $check_only -eq 1 ]]; then
    die "missing: ${missing[*]} (scripts/setup.sh ${groups##* } installs them)"
fi

[[ $release == "debian bookworm" || $release == "debian trixie" ]] ||
    die "missing: ${missing[*]}; this system is '${release:-unknown}' and not Debian 12 or 13 (bookworm," \
        "trixie), so install them by hand and run this again"

if [[ $(id -u) -eq 0 ]]; then
    as_root=()
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
    as_root=(sudo)
else
    die "missing: ${missing[*]}; installing needs root: run 'apt-get install ${missing[*]}' as root"
fi

# The network may fail for a moment: two more tries, a little later each.
tried() {
    local attempt
    for attempt in 1 2 3; do
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" && return 0
        if [[ $attempt -lt 3 ]]; then
            echo "setup: '$*' failed; trying again in $((attempt * 5)) s" >&2
            sleep $((attempt * 5))
        fi
    done
    return 1
}

# Installing a server must not start it. invoke-rc.d asks this file; one that exists is respected.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
    trap '"${as_root[@]}" rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
fi

echo "setup: installing ${#missing[@]} of ${#wanted[@]} packages: ${missing[*]}"
# Package lists are fetched only where apt cannot plan the installation with those it has.
plan() { # PACKAGE...: fails, with the reason in $why, if apt cannot install them or would remove others
    local planned
    if ! planned=$(apt-get install --simulate --no-install-recommends "$@" 2>&1); then
        why="apt cannot install it: $(sed -n 's/^ *\(.* : .*\)/\1/p; s/^E: //p' <<<"$planned" | tr -s '\n ' ' ')"
        return 1
    fi
    why=$(sed -n 's/^Remv \([^ ]*\).*/\1/p' <<<"$planned" | tr '\n' ' ')
    [[ -n $why ]] || return 0
    why="apt would remove ${why% }"
    return 1
}
if ! plan "${missing[@]}"; then
    [[ $why == "apt would"* ]] || {
        tried apt-get update -q || die "apt-get update failed; check the network and /etc/apt"
        updated=1
    }
    if ! plan "${missing[@]}"; then
        possible=()
        for package in "${missing[@]}"; do
            if plan "${possible[@]+"${possible[@]}"}" "$package"; then
                possible+=("$package")
                continue
            fi
            [[ ${group_of[$package]} != build ]] || die "$package is needed, but $why"
            echo "setup: goes on without $package, and the tests that want it: $why" >&2
            without+=" $package"
        done
        missing=("${possible[@]+"${possible[@]}"}")
    fi
fi
install=(apt-get install -y -q --no-remove --no-install-recommends "${missing[@]+"${missing[@]}"}")
if [[ ${#missing[@]} -gt 0 ]] && ! tried "${install[@]}"; then
    # Lists that are too old name versions that the mirror no longer has.
    [[ -z ${updated:-} ]] && tried apt-get update -q && tried "${install[@]}" ||
        die "could not install ${missing[*]}; the lines above say why"
fi
lab_kernel
echo "setup: done${without:+, without$without}"
