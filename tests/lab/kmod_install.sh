#!/usr/bin/env bash
# kmod_install.sh - the kernel module as docs/kmod-ibs.md has it installed, on emulated machines that boot a whole
# Debian from a disk: with make, by DKMS, a newer module, a newer kernel, no headers, signatures enforced, Secure Boot.
# kmod_install_guest.sh says what is checked. Twenty minutes a Debian. Status 77, and a line that says why,
# where that cannot be done.
#
#   tests/lab/kmod_install.sh [--compile] [bookworm|trixie]...
#
#   --compile   the compiler runs in the machines, too (hours); else what it makes there comes from a cache, which the
#               same builds have filled in a chroot before
set -euo pipefail
export LC_ALL=C.UTF-8
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
lab=$source/tests/lab
cached=1
[[ ${1:-} != --compile ]] || { cached=0 && shift; }
releases=("$@")
[[ $# -gt 0 ]] || releases=(bookworm trixie)
for release in "${releases[@]}"; do
    [[ $release == bookworm || $release == trixie ]] || {
        sed -n 's/^#   \(tests.*\)/usage: \1/p' "$0" >&2
        exit 2
    }
done
# shellcheck source=scripts/chroot.sh
. "$source/scripts/chroot.sh"
firmware=/usr/share/OVMF
PATH=$PATH:/usr/sbin
for tool in qemu-system-x86_64 mke2fs cpio sbsign "$firmware/OVMF_VARS_4M.snakeoil.fd"; do
    command -v "$tool" >/dev/null || [[ -e $tool ]] ||
        skip "$tool is missing; install qemu-system-x86 e2fsprogs cpio sbsigntool ovmf"
done
version=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' "$source/kmod-ibs/dkms.conf")

# The chroot is the machine's disk: it has two kernels, of which the newer one is left as a package.
prepare() {
    local security kernels
    fresh "$release"
    # The updates, for the archive itself has one kernel only.
    security=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 security) || true
    [[ -z $security ]] || echo "deb $security $release-security main" >>"$root/etc/apt/sources.list"
    quietly inside apt-get update -q
    mapfile -t kernels < <(inside apt-cache pkgnames | sed -n 's/^linux-image-\([0-9].*-cloud-amd64\)$/\1/p' | sort -V |
        while read -r kernel; do ! inside apt-cache show "linux-headers-$kernel" >/dev/null 2>&1 || echo "$kernel"; done)
    # Debian 12 has newer kernels, too, as backports.
    [[ $release != bookworm ]] || mapfile -t kernels < <(printf '%s\n' "${kernels[@]}" | grep '^6\.1\.')
    [[ ${#kernels[@]} -ge 2 ]] || fail "$release has not two kernels with headers: ${kernels[*]}"
    old=${kernels[0]} new=${kernels[-1]}
    say "$release: $old, then $new"
    # Neither needs an initial RAM disk here; an emulated machine is at one for many minutes.
    install initramfs-tools
    echo update_initramfs=no >"$root/etc/initramfs-tools/update-initramfs.conf"
    chmod -x "$root"/etc/kernel/post*.d/initramfs-tools
    install dkms make gcc kmod xz-utils zstd ccache openssl linux-{image,headers}-{"$old","$new"}
    mkdir -p "$root/lab/newer"
    cp -r "$source/kmod-ibs" "$root/lab/"
    # An upgrade: another version, and other code.
    cp -r "$source/kmod-ibs/." "$root/lab/newer/"
    sed -i "s/^PACKAGE_VERSION=.*/PACKAGE_VERSION=\"$version.1\"/" "$root/lab/newer/dkms.conf"
    sed -i "s/^MODULE_VERSION(.*/MODULE_VERSION(\"$version.1\");/" "$root/lab/newer/main.c"
    cp "$lab/kmod_install_guest.sh" "$root/lab/"
    openssl rsa -passin pass:snakeoil -in /usr/share/ovmf/PkKek-1-snakeoil.key -out "$root/lab/key.pem" 2>/dev/null
    cp /usr/share/ovmf/PkKek-1-snakeoil.pem "$root/lab/certificate.pem"
    printf '%s\n' "old=$old" "new=$new" "version=$version" >"$root/lab/settings"
    [[ $cached -eq 0 ]] || fill_cache
}
fill_cache() {
    say "$release: the compiler's cache"
    printf 'export %s\n' DEBIAN_KERNEL_USE_CCACHE=1 CCACHE_DIR=/lab/ccache CCACHE_COMPILERCHECK=content \
        >>"$root/lab/settings"
    quietly inside bash -ec '. /lab/settings
        make -C /lab/kmod-ibs KDIR=/lib/modules/$old/build
        make -C /lab/kmod-ibs KDIR=/lib/modules/$old/build clean
        dkms add /lab/kmod-ibs && dkms build numalloc_ibs/$version -k $old
        dkms add /lab/newer && dkms build numalloc_ibs/$version.1 -k $old && dkms build numalloc_ibs/$version.1 -k $new
        dkms remove numalloc_ibs/$version --all && dkms remove numalloc_ibs/$version.1 --all
        rm -rf /usr/src/numalloc_ibs-* /var/lib/dkms/mok.*'
}

# An initial RAM disk with busybox and what the disk needs.
ramdisk() { # KERNEL FILE
    local at=$work/ramdisk module number=100
    rm -rf "$at"
    mkdir -p "$at"/{bin,modules,proc,dev,root}
    cp /bin/busybox "$at/bin/"
    while read -r module; do
        cp "$root$module" "$at/modules/$number-${module##*/}"
        number=$((number + 1))
    done < <(inside sh -c "modprobe -S $1 --show-depends virtio_pci; modprobe -S $1 --show-depends virtio_blk" |
        sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++')
    find "$at/modules" -name '*.xz' -exec xz -d {} +
    cat >"$at/init" <<'INIT'
#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs devtmpfs /dev
for module in /modules/*; do insmod "$module"; done
until [ -b /dev/vda ]; do sleep 1; done
mount -t ext4 /dev/vda /root
mount --move /dev /root/dev
umount /proc
exec switch_root /root /lab/kmod_install_guest.sh
INIT
    chmod +x "$at/init"
    (cd "$at" && find . | cpio --quiet -o -H newc) >"$2"
}

boot() { # STAGE KERNEL RAMDISK WORDS [ARGUMENT...]: of QEMU
    local log=$work/$release.$1.log
    say "$release: $1"
    # One processor: emulated ones lose interrupts between them now and then. (cx16: see run.)
    timeout 21600 qemu-system-x86_64 -nodefaults -display none -no-reboot -cpu max,cx16=off -smp 1 -m 2048 -accel tcg \
        -kernel "$2" -initrd "$3" -append "console=ttyS0 quiet panic=-1 mitigations=off cryptomgr.notests no_timer_check stage=$1 $4" \
        -drive "file=$work/disk,format=raw,if=none,id=disk,cache=unsafe" -device virtio-blk-pci,drive=disk \
        -serial "file:$log" "${@:5}" </dev/null || fail "QEMU ended with status $?"
    sed 's/\r$//' "$log" | grep -E '^(kernel|ok|FAILED): ' || true
    if ! grep -q "^end: $1" "$log" || grep -q '^FAILED: ' "$log"; then
        tail -n 40 "$log" >&2
        fail "$release: $1: $log"
    fi
}

for release in "${releases[@]}"; do
    prepare
    ramdisk "$old" "$work/ramdisk.old"
    ramdisk "$new" "$work/ramdisk.new"
    cp "$root/boot/vmlinuz-$old" "$work/vmlinuz.old"
    sbsign --key "$root/lab/key.pem" --cert "$root/lab/certificate.pem" --output "$work/vmlinuz.new" \
        "$root/boot/vmlinuz-$new" 2>/dev/null
    quietly inside apt-get purge -y -q "linux-image-$new" "linux-headers-$new"
    quietly inside apt-get install -y -q --no-install-recommends --download-only linux-{image,headers}-"$new"
    rm -f "$work/disk"
    cp "$firmware/OVMF_VARS_4M.snakeoil.fd" "$work/variables"
    mke2fs -q -t ext4 -d "$root" "$work/disk" 6G
    boot first "$work/vmlinuz.old" "$work/ramdisk.old" ""
    boot second "$work/vmlinuz.new" "$work/ramdisk.new" ""
    boot enforced "$work/vmlinuz.new" "$work/ramdisk.new" module.sig_enforce=1
    boot secure "$work/vmlinuz.new" "$work/ramdisk.new" "" -machine q35,smm=on \
        -global driver=cfi.pflash01,property=secure,value=on \
        -drive "if=pflash,format=raw,unit=0,readonly=on,file=$firmware/OVMF_CODE_4M.secboot.fd" \
        -drive "if=pflash,format=raw,unit=1,file=$work/variables"
    rm -rf --one-file-system "$root" "$work/disk"
done
say ok
