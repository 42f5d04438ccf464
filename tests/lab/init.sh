#!/bin/busybox sh
# init.sh - process 1 of a lab machine: mounts what programs expect, runs the commands of /lab/tasks
# one after another, and powers the machine off.
#
# The second serial port (LAB_LINE, from the kernel's command line, says which) carries everything
# between this machine and tests/lab/run: what the commands print, and between them lines that begin
# with the mark of this boot (see run). A command can ask the host for something the same way:
# `lab-call plug NODE MIB`.
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/root TERM=dumb
/bin/busybox mkdir -p /bin /sbin /usr/bin /usr/sbin /proc /sys /dev /tmp /root /run /var/tmp /etc
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
chmod 1777 /tmp /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup && echo '+cpuset +memory' >/sys/fs/cgroup/cgroup.subtree_control
ip link set lo up
ln -sf /proc/self/fd /dev/fd
hostname lab
echo 'root:x:0:0:root:/root:/bin/sh' >/etc/passwd
echo 'root:x:0:' >/etc/group

read -r LAB_MARK </lab/mark
line=${LAB_LINE:-/dev/ttyS1}
LAB_LINE=$line
export LAB_MARK LAB_LINE
stty -F "$line" raw -echo 115200
cat >/bin/lab-call <<'CALL'
#!/bin/sh
# lab-call WORDS...: asks the host. Twice, with a sum: an emulated line loses a byte now and then.
sum=$(printf %s "$*" | md5sum)
call="$LAB_MARK ${sum%% *} $$ $*"
printf '\n%s\n\n%s\n' "$call" "$call" >"$LAB_LINE"
CALL
chmod 755 /bin/lab-call

# Programs of the lab may change it.
balancing=/proc/sys/kernel/numa_balancing
[ ! -e $balancing ] || read -r balanced <$balancing

for task in /lab/tasks/*; do
    [ ! -e $balancing ] || echo "$balanced" >$balancing
    number=${task##*/}
    read -r limit <"/lab/limits/$number"
    lab-call begin "$number"
    # A session of its own, so that whatever it leaves running can be ended with it.
    setsid timeout -s KILL "$limit" "$task" <&- </dev/null >"$line" 2>&1
    status=$?
    # First: what it left running writes to the same line, into the middle of ours.
    kill -KILL -1 2>/dev/null
    lab-call end "$number" $status
done
poweroff -f
sleep 60
