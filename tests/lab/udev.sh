#!/bin/busybox sh
# udev.sh UDEVADM RULE MODULE - in a machine of the lab: what udev makes of the module's device, with
# the rule of the package numalloc-dkms. scripts/check-chroot.sh runs it.
set -e
udevadm=$1 rule=$2 module=$3
mkdir -p /lib/systemd /lib/udev/rules.d /etc/udev /run/udev
cp "$udevadm" /bin/udevadm
cp "$udevadm" /lib/systemd/systemd-udevd
cp "$rule" /lib/udev/rules.d/
echo 'numalloc:x:997:' >>/etc/group
/lib/systemd/systemd-udevd --daemon
insmod "$module" trust_file_mode=1
for try in 1 2 3 4 5 6 7 8 9 10; do
    udevadm settle --timeout=30
    is=$(stat -c '%G %a' /dev/numalloc_ibs)
    [ "$is" = "numalloc 660" ] && break
    sleep 1
done
echo "/dev/numalloc_ibs: $is"
[ "$is" = "numalloc 660" ]
