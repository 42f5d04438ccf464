# shellcheck shell=bash
# chroot.sh - a new Debian in build/chroot/, made by debootstrap from this machine's mirror. Sourced, never
# run. Before: `source`, the checkout. Status 77, and a line that says why, where that cannot be done.
script=${0##*/}
say() { printf '== %s (%d s)\n' "$*" "$SECONDS"; }
fail() {
    echo "$script: FAILED: $*" >&2
    exit 1
}
skip() {
    echo "$script: skipped: $*"
    exit 77
}
[[ $(id -u) -eq 0 ]] || skip "making a chroot needs root"
command -v debootstrap >/dev/null || skip "debootstrap is missing; install the package debootstrap"
unshare --mount true 2>/dev/null || skip "this system allows no mount namespace"

work=$source/build/chroot
mkdir -p "$work"
root=$work/root
# Mounts are made in a namespace of their own, so nothing is mounted when a command has ended.
inside() { # COMMAND...: in the chroot, with a clean environment
    unshare --mount --propagation private bash -c '
        root=$1; shift
        # A mount of its own, so that a program in it can make a mount namespace.
        mount --bind "$root" "$root" && mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" &&
            mount --rbind /sys "$root/sys" || exit 125
        exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
            chroot "$root" "$@"' bash "$root" "$@"
}
quietly() { # COMMAND...: its output only if it fails
    "$@" >"$work/log" 2>&1 || {
        tail -n 40 "$work/log" >&2
        fail "$*"
    }
}
fresh() { # CODENAME
    # The base system is kept for a week.
    local base=$work/$1.tar mirror
    rm -rf --one-file-system "$root"
    if [[ -z $(find "$work" -name "$1.tar" -mtime -7) ]]; then
        say "debootstrap $1"
        mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
            sed -n 's/^\(bookworm\|trixie\) //p' | head -n 1)
        [[ -n $mirror ]] || skip "apt on this machine has no mirror of Debian"
        quietly debootstrap --variant=minbase "$1" "$root" "$mirror"
        rm -f "$root"/var/cache/apt/archives/*.deb
        tar -cpf "$base.new" -C "$root" .
        mv "$base.new" "$base"
    else
        mkdir "$root"
        tar -xpf "$base" -C "$root"
    fi
    cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
    quietly inside apt-get update -q
}
install() { quietly inside apt-get install -y -q --no-install-recommends "$@"; }
