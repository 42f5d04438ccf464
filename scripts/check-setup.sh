#!/usr/bin/env bash
# check-setup.sh - scripts/setup.sh on a machine (scripts/machine.sh) whose packages conflict with those
# that it wants: apt and dpkg are the real ones, with a made-up archive. Nothing may be removed; what
# can be had is installed; each package that was left out is named, with the reason.
set -euo pipefail
export LC_ALL=C.UTF-8
source=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/machine.sh
. "$source/scripts/machine.sh"
fail() {
    echo "check-setup.sh: FAILED: $*" >&2
    exit 1
}
skip() {
    echo "check-setup.sh: skipped: $*"
    exit 77
}
grep -qE '^VERSION_CODENAME=(bookworm|trixie)' /etc/os-release || skip "setup.sh installs packages on Debian 12 and 13 only"
command -v dpkg-scanpackages >/dev/null || skip "dpkg-scanpackages is missing; install the package dpkg-dev"
machine_begin "$@"
[[ -z $no_machine ]] || skip "no machine to install on: $no_machine"

machine setup
home=$machines/setup/root/root
mkdir -p "$home/scripts" "$home/archive"
cp "$source/scripts/setup.sh" "$home/scripts/"
package() { # NAME [FIELD]...: in the archive
    mkdir -p "$machines/tree/DEBIAN"
    printf '%s\n' "Package: $1" 'Version: 1' 'Architecture: all' 'Maintainer: test <test@test.invalid>' "${@:2}" \
        'Description: test' >"$machines/tree/DEBIAN/control"
    dpkg-deb -b "$machines/tree" "$home/archive/$1.deb" >/dev/null
}
# As libunwind-14-dev, libc++-14-dev and libunwind-dev are.
package na-user-14-dev
package na-user 'Depends: na-user-14-dev'
package na-build
package na-plain
package na-conflicting 'Conflicts: na-user-14-dev'
package na-behind 'Depends: na-conflicting'
package na-broken 'Depends: na-nowhere'
package na-other
inside setup sh -c 'dpkg -i archive/na-user-14-dev.deb archive/na-user.deb && cd archive && dpkg-scanpackages -m . >Packages' >"$machines/log" 2>&1 ||
    fail "$(cat "$machines/log")"
inside setup apt-get check >"$machines/log" 2>&1 || skip "apt is not content with this machine: $(tail -n 1 "$machines/log")"
rm -rf "$machines"/setup/root/etc/apt/sources.list* "$machines"/setup/root/var/lib/apt/lists
mkdir -p "$machines/setup/root/var/lib/apt/lists"
echo 'deb [trusted=yes] file:/root/archive ./' >"$machines/setup/root/etc/apt/sources.list"

installed() { inside setup dpkg-query -W -f '${Package} ${db:Status-Status}\n' 'na-*' 2>/dev/null | sed -n 's/ installed$//p' | tr '\n' ' '; }
wants() { printf '%s\n' "$@" >"$home/scripts/packages"; }
setup() { inside setup scripts/setup.sh "$@" >"$machines/log" 2>&1; }
says() { grep -qE -- "$1" "$machines/log" || fail "it does not say '$1': $(cat "$machines/log")"; }

echo "== a package that a build needs conflicts"
wants '[build]' na-build na-conflicting
! setup build || fail "it goes on: $(cat "$machines/log")"
says 'na-conflicting is needed, but apt would remove na-user-14-dev na-user|na-conflicting is needed, but apt would remove na-user na-user-14-dev'
[[ $(installed) == 'na-user na-user-14-dev ' ]] || fail "there are now $(installed)"

echo "== packages of tests do"
wants '[build]' na-build '[test]' na-plain na-conflicting na-behind na-broken na-other
setup test || fail "$(cat "$machines/log")"
says 'goes on without na-conflicting, .*would remove .*na-user-14-dev'
says 'goes on without na-behind, .*would remove .*na-user-14-dev'
says 'goes on without na-broken, .*na-nowhere'
says '^setup: done, without na-conflicting na-behind na-broken$'
[[ $(installed) == 'na-build na-other na-plain na-user na-user-14-dev ' ]] || fail "there are now $(installed)"
! setup test --check || fail "nothing is missing?"
says 'missing: na-conflicting na-behind na-broken '
setup test || fail "again, with nothing to install: $(cat "$machines/log")"

echo "== without a conflict"
inside setup dpkg --purge na-user na-user-14-dev >/dev/null
wants '[build]' na-build '[test]' na-plain na-conflicting na-behind na-other
setup test || fail "$(cat "$machines/log")"
says '^setup: done$'
[[ $(installed) == 'na-behind na-build na-conflicting na-other na-plain ' ]] || fail "there are now $(installed)"
echo "ok"
