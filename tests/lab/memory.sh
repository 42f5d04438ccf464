#!/bin/sh
# memory.sh LIMIT COMMAND... - runs a command in a control group that may hold LIMIT bytes of memory.
# Fails if the kernel had to kill. Threads get small stacks: the kernel makes a huge page of the
# top of a large one or not, as its address happens to be, and that is up to 2 MiB a thread.
ulimit -s 512
group=/sys/fs/cgroup/memory.$$
mkdir "$group" || exit 1
echo "$1" >"$group/memory.max" || exit 1
shift
(
    read -r self rest </proc/self/stat
    echo "$self" >"$group/cgroup.procs"
    exec "$@"
)
status=$?
kills=$(sed -n 's/^oom_kill //p' "$group/memory.events")
if [ "$kills" != 0 ]; then
    echo "the kernel killed $kills processes for memory" >&2
    exit 1
fi
exit $status
