#!/bin/sh
# balancing.sh 0|1 COMMAND... - runs a command on a machine where the kernel's NUMA balancing is off, or on.
set -e
echo "$1" >/proc/sys/kernel/numa_balancing
shift
exec "$@"
