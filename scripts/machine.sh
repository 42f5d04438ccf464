# machine.sh - sourced by the tests that install something: machines made of this one's files by an
# overlay, in a mount namespace of the test's own. What is changed in one is changed nowhere else, and
# all is gone when the test ends. Needs root.
#
#   machine_begin "$@"      first of all: starts the script anew in the namespace, and exits with its
#                           status. It returns there, or where no machine can be made; $no_machine
#                           then says why
#   machine NAME            makes one, with an empty /usr/local, /tmp, /run and /root, without numalloc
#   inside NAME COMMAND...  runs a command there as root, in the folder $at, with a clean environment
#   changes NAME            what differs from this machine's files, but for logs, caches and what dpkg
#                           notes
# shellcheck shell=bash

machines=${MACHINES-} no_machine=
machine_begin() {
    [[ -z $machines ]] || return 0
    no_machine='that needs root'
    [[ $(id -u) -eq 0 ]] || return 0
    no_machine='this system mounts no overlay of /'
    machines=$(mktemp -d)
    # shellcheck disable=SC2016
    if unshare --mount --propagation private bash -c 'mount -t tmpfs tmpfs "$1" && cd "$1" && mkdir a b c &&
        mount -t overlay -o "lowerdir=/,upperdir=$1/a,workdir=$1/b" overlay c && test -x c/usr/bin/dpkg' bash "$machines" 2>/dev/null; then
        trap 'rmdir "$machines"' EXIT
        local status=0
        MACHINES=$machines unshare --mount --propagation private "$0" "$@" || status=$?
        exit "$status"
    fi
    rmdir "$machines"
}

overlay() { # LOWER NAME MOUNTPOINT
    mkdir -p "$machines/$2/files" "$machines/$2/work" "$3"
    mount -t overlay -o "lowerdir=$1,upperdir=$machines/$2/files,workdir=$machines/$2/work" overlay "$3"
}

machine() {
    local root=$machines/$1/root directory
    mountpoint -q "$machines" || mount -t tmpfs tmpfs "$machines"
    overlay / "$1" "$root"
    for directory in proc dev sys; do mount --rbind "/$directory" "$root/$directory"; done
    for directory in tmp root usr/local run; do mount -t tmpfs -o mode=755 tmpfs "$root/$directory"; done
    chmod 1777 "$root/tmp"
    mkdir -p "$root"/usr/local/{bin,lib,share/man}
    echo 'APT::Get::Assume-Yes "true";' >"$root/etc/apt/apt.conf.d/99machine"
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    rm -f "$root/var/lib/man-db/auto-update" # the index of all manuals is none of ours
    at=/root
    # shellcheck disable=SC2016
    inside "$1" sh -c 'packages=$(dpkg-query -W -f "\${Package}\n" "*numalloc*" 2>/dev/null)
        [ -z "$packages" ] || dpkg --purge $packages; ldconfig' >/dev/null
}

inside() {
    local name=$1
    shift
    # shellcheck disable=SC2016
    env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive chroot "$machines/$name/root" \
        sh -c 'cd "$1" && shift && exec "$@"' sh "$at" "$@"
}

changes() {
    local file
    (cd "$machines/$1/files" && find . -path ./var/lib/dpkg -prune -o -path ./var/log -prune -o -path ./var/cache -prune -o \
        -path ./var/lib/apt -prune -o -printf '%y %P\n') | sort | while read -r type file; do
        case $type in
        d) [[ -d /$file ]] || echo "new: $file" ;;
        c) echo "gone: $file" ;;
        *) [[ $(readlink "/$file") == "$(readlink "$machines/$1/files/$file")" ]] && { [[ $type == l ]] ||
            cmp -s "$machines/$1/files/$file" "/$file"; } || echo "changed: $file" ;;
        esac
    done
    (cd "$machines/$1/root/usr/local" && find . ! -type d -printf 'new: usr/local/%P\n')
}
