#!/usr/bin/env bash
# check-chroot.sh [--no-build] [--packages DIR] - the Debian packages in a new Debian 12, made by
# debootstrap from this machine's mirror: built with what Build-Depends names and nothing else, twice,
# in different directories, to the same bytes; installed, used, and purged without a trace. Minutes.
# Status 77, and a line that says why, where that cannot be done.
#
#   --no-build       install what build/deb has (scripts/deb.sh), or --packages DIR
set -euo pipefail
export LC_ALL=C.UTF-8

source=$(cd "$(dirname "$0")/.." && pwd)
build=1
packages=$source/build/deb
while [[ $# -gt 0 ]]; do
    case $1 in
    --no-build) build=0 ;;
    --packages)
        packages=$(realpath -m "${2:?--packages needs a directory}")
        build=0
        shift
        ;;
    *)
        sed -n 's/^# check-chroot.sh /usage: scripts&/p' "$0" | sed 's/# //; s/ - .*//' >&2
        exit 2
        ;;
    esac
    shift
done
# shellcheck source=scripts/chroot.sh
. "$source/scripts/chroot.sh"

if [[ $build -eq 1 ]]; then
    say "build, with Build-Depends alone"
    fresh bookworm
    install build-essential
    mkdir -p "$root/src/numalloc" "$root/a/longer/path"
    (cd "$source" && git ls-files -z --cached --others --exclude-standard |
        while IFS= read -r -d '' file; do [[ -e $file ]] && printf '%s\0' "$file"; done |
        tar -cf - --null --no-recursion -T -) | tar -xf - -C "$root/src/numalloc"
    cp -r "$root/src/numalloc" "$root/a/longer/path/"
    quietly inside sh -c 'cd /src/numalloc && apt-get build-dep -y -q --no-install-recommends ./'
    quietly inside /src/numalloc/scripts/deb.sh --no-lintian --source --out /first
    say "again, elsewhere, with other settings"
    quietly inside env TZ=Asia/Tokyo LANG=C /bin/sh -c \
        'umask 077; /a/longer/path/numalloc/scripts/deb.sh --no-lintian --jobs 1 --out /second'
    packages=$work/packages
    rm -rf "$packages"
    mkdir "$packages"
    cp "$root"/first/*.deb "$packages/"
    for deb in "$packages"/*.deb; do
        cmp "$deb" "$root/second/${deb##*/}" || fail "${deb##*/} is not the same when built again"
    done
    echo "$(find "$packages" -name '*.deb' | wc -l) packages, the same bytes twice"
    if command -v lintian >/dev/null; then
        quietly lintian --allow-root -EviI --pedantic --fail-on error,warning,info,pedantic "$root"/first/*.dsc
    fi
fi
version=$(basename "$(echo "$packages"/libnumalloc0_*.deb)" | sed 's/.*_\(.*\)_amd64.deb/\1/')
[[ -e $packages/libnumalloc0_${version}_amd64.deb ]] || fail "no packages in $packages; run scripts/deb.sh"

say "install"
fresh bookworm
mkdir "$root/packages"
cp "$packages"/*.deb "$root/packages/"
# First what ours need, so that what is there before and after can be compared. Kernel headers are
# there, as on a machine that has a kernel module built.
mapfile -t needed < <(inside sh -c 'apt-get install -y --simulate --no-install-recommends /packages/*.deb linux-headers-amd64 gcc libc6-dev pkg-config udev' |
    sed -n 's/^Inst \([^ ]*\) .*/\1/p' | grep -v numalloc)
install "${needed[@]}"
inside useradd -m user
inside sh -c 'depmod $(ls /lib/modules)' # as it is on a machine with a kernel
state() {
    (cd "$root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./sys -o -path ./tmp -o -path ./packages \
        -o -path ./var/lib/dpkg -o -path ./var/log -o -path ./var/cache -o -path ./var/lib/apt \) -prune -o -print | sort)
    sort "$root/etc/group" "$root/etc/passwd"
}
state >"$work/before"
quietly inside sh -c 'apt-get install -y -q --no-install-recommends /packages/*.deb'
[[ $(inside dpkg-query -W -f '${db:Status-Abbrev}\n' '*numalloc*' | grep -c '^ii') -ge 5 ]] || fail "not all packages are installed"

say "use"
# As a user without rights, in a directory of his own.
as_user() { inside su user -c "cd && $1"; }
as_user 'numalloc-run --profile ls / >listed 2>said' || fail "numalloc-run: $(cat "$root/home/user/said")"
as_user 'ls / | cmp - listed' || fail "numalloc-run changed what ls prints"
as_user 'cat said; numalloc-dump *.nprof' >"$work/used"
grep '^peak ' "$work/used" || fail "no profile: $(cat "$work/used")"
as_user 'LD_PRELOAD=libnumalloc.so.0 NUMALLOC_STATS=1 ls / 2>&1 >/dev/null' | grep '^numalloc statistics' ||
    fail "LD_PRELOAD=libnumalloc.so.0 preloads nothing"
as_user 'numalloc-bench compare --help' | grep 'numalloc .*libnumalloc.so.0' || fail "numalloc-bench finds no numalloc"
as_user 'cp /usr/share/doc/libnumalloc-dev/examples/cmake/app.c . &&
    cc app.c $(pkg-config --cflags --libs numalloc) -o app && ./app &&
    cc -static app.c $(pkg-config --cflags --libs numalloc-static) -o app && ./app' || fail "app.c"

say "the kernel module"
module=$(find "$root/lib/modules" -name 'numalloc_ibs.ko*')
[[ -n $module ]] || fail "DKMS built no module: $(inside dkms status)"
inside dkms status numalloc_ibs
inside modinfo -F alias "${module#"$root"}" | grep 'cpu:type:x86' || fail "the module is not loaded by itself"
inside getent group numalloc || fail "there is no group numalloc"
inside modprobe --showconfig | grep '^options numalloc_ibs .*device_mode=0660' || fail "modprobe has no options"

kernel=$source/build/lab-kernel/vmlinuz lab_module=$source/build/release/kmod-ibs/numalloc_ibs.ko
if [[ -e $kernel && -e $lab_module ]]; then
    "$source/tests/lab/run" module -- "$source/tests/lab/udev.sh" "$root/usr/bin/udevadm" \
        "$root/usr/lib/udev/rules.d/60-numalloc-dkms.rules" "$lab_module" || fail "udev gives the device to nobody"
else
    echo "what udev makes of the device: not looked at, for there is no $kernel or $lab_module"
fi

say "purge"
as_user 'rm -rf -- * .cache' # his own
quietly inside sh -c 'apt-get purge -y -q $(dpkg-query -W -f "\${Package}\n" "*numalloc*")'
state >"$work/after"
diff "$work/before" "$work/after" || fail "that is left of the packages, or gone with them"

say "the container's lines"
fresh bookworm
while read -r word rest; do
    case $word in
    FROM) [[ $rest == debian:bookworm* ]] || fail "the Dockerfile is from $rest" ;;
    COPY) # shellcheck disable=SC2086 # PATTERN DIRECTORY
        (cd "$packages" && set -- $rest && cp "${@:1:$#-1}" "$root${*: -1}") ;;
    RUN) quietly inside sh -c "$rest" ;;
    ENV) inside env "${rest?}" NUMALLOC_STATS=1 ls / 2>&1 >/dev/null | grep '^numalloc statistics' ||
        fail "$rest preloads nothing" ;;
    *) fail "the Dockerfile has a line that this test does not know: $word $rest" ;;
    esac
done <"$source/docs/examples/container/Dockerfile"

rm -rf --one-file-system "$root"
say "ok: $version"
