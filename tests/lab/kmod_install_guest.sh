#!/bin/bash
# kmod_install_guest.sh - process 1 of a machine of kmod_install.sh: what is checked at one boot of it, $stage, which
# the kernel's command line says. Prints a line for each check, "ok: WHAT" or "FAILED: WHAT" with what was said, and
# powers the machine off.
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /tmp
mount -t securityfs securityfs /sys/kernel/security
ln -sfn /proc/self/fd /dev/fd
# shellcheck source=/dev/null
. /lab/settings # old, new: the kernels; version: of the module; and the compiler's cache, if it has one
kernel=$(uname -r)
module=numalloc_ibs

check() { # WHAT COMMAND...
    if "${@:2}" >/tmp/said 2>&1; then
        echo "ok: $1 ($SECONDS s)"
    else
        echo "FAILED: $1"
        tail -n 30 /tmp/said /var/lib/dkms/$module/*/build/make.log
    fi
}
one_line_without_headers() {
    mv "/lib/modules/$kernel/build" /tmp/build
    ! make -C /lab/kmod-ibs >/tmp/out 2>/tmp/err || return
    mv /tmp/build "/lib/modules/$kernel/build"
    cat /tmp/err
    [[ $(grep -vc '^make' /tmp/err) -eq 1 ]] && grep "install those of this kernel.*linux-headers-$kernel" /tmp/err
}
loads_from() { # PATTERN: modprobe takes that file, and there is a device
    local file
    modprobe $module && [[ -c /dev/$module ]] || return
    file=$(modinfo -F filename $module)
    echo "$file"
    # What is loaded is that file.
    # shellcheck disable=SC2053
    [[ $file == $1 && $(cat /sys/module/$module/srcversion) == $(modinfo -F srcversion $module) ]] &&
        modprobe -r $module && [[ ! -e /dev/$module ]]
}
with_make() {
    local status=0
    make -C /lab/kmod-ibs && make -C /lab/kmod-ibs install && loads_from "/lib/modules/$kernel/*/$module.ko*" || status=1
    # DKMS would keep it.
    find "/lib/modules/$kernel" -name "$module.ko*" -delete
    depmod
    [[ $status -eq 0 ]] && ! modprobe $module
}
with_dkms() { # SOURCE VERSION
    dkms add "$1" && dkms install "$module/$2" && installed "$2" "$kernel" &&
        loads_from "/lib/modules/$kernel/updates/dkms/*"
}
installed() { # VERSION KERNEL
    dkms status $module
    dkms status "$module/$1" -k "$2" | grep ': installed'
}
upgraded_module() {
    local before
    before=$(modinfo -F srcversion $module)
    with_dkms /lab/newer "$version.1" && [[ $(modinfo -F srcversion $module) != "$before" ]] &&
        dkms remove "$module/$version" --all && loads_from "/lib/modules/$kernel/updates/dkms/*"
}
upgraded_kernel() {
    apt-get install -y -q --no-download --no-install-recommends linux-{image,headers}-"$new" &&
        installed "$version.1" "$new" && installed "$version.1" "$kernel"
}
# As DKMS signed it, with a key that nobody enrolled; and without a signature.
refused() { # FILE WORDS
    ! insmod "$1" 2>/tmp/refused || return
    cat /tmp/refused
    grep "$2" /tmp/refused
}
unsigned_is_refused() {
    decompressed && cp /tmp/$module.ko /tmp/unsigned.ko && strip -g /tmp/unsigned.ko && refused /tmp/unsigned.ko "Key was rejected"
}
decompressed() {
    local file
    file=$(modinfo -F filename $module)
    case $file in
    *.xz) xz -dc "$file" >/tmp/$module.ko ;;
    *.zst) zstd -qdc "$file" >/tmp/$module.ko ;;
    *) cp "$file" /tmp/$module.ko ;;
    esac
}
other_key_is_refused() { decompressed && refused /tmp/$module.ko "Key was rejected"; }
known_key_is_loaded() { # the commands of the page, with a key that the firmware knows
    decompressed && cp /tmp/$module.ko /tmp/signed.ko && strip -g /tmp/signed.ko &&
        "/lib/modules/$kernel/build/scripts/sign-file" sha256 /lab/key.pem /lab/certificate.pem /tmp/signed.ko &&
        insmod /tmp/signed.ko && [[ -c /dev/$module ]] && rmmod $module
}
secure_boot() { dmesg | grep -i 'secure boot.* enabled' && grep '\[integrity\]' /sys/kernel/security/lockdown; }

echo "kernel: $kernel"
case ${stage:-} in
first)
    check "no headers: one line says which" one_line_without_headers
    check "make, make install, modprobe" with_make
    check "dkms add, dkms install, modprobe" with_dkms /lab/kmod-ibs "$version"
    check "a newer version by DKMS" upgraded_module
    check "apt installs $new, DKMS builds for it" upgraded_kernel
    ;;
second) check "after the upgrade: modprobe" loads_from "/lib/modules/$new/updates/dkms/*" ;;
enforced)
    check "module.sig_enforce=1: no signature is refused" unsigned_is_refused
    check "module.sig_enforce=1: a key not enrolled is refused" other_key_is_refused
    ;;
secure)
    check "Secure Boot is on" secure_boot
    check "Secure Boot: no signature is refused" unsigned_is_refused
    check "Secure Boot: a key not enrolled is refused" other_key_is_refused
    check "Secure Boot: signed with a key that is, it loads" known_key_is_loaded
    ;;
esac
echo "end: ${stage:-}"
sync
mount -o remount,ro /
echo o >/proc/sysrq-trigger
sleep 60
