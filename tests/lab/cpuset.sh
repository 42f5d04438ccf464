#!/bin/sh
# cpuset.sh NODES CPUS COMMAND... - runs a command in a cpuset of these nodes and CPUs.
set -e
group=/sys/fs/cgroup/cpuset.$$
mkdir "$group"
echo "$1" >"$group/cpuset.mems"
echo "$2" >"$group/cpuset.cpus"
echo $$ >"$group/cgroup.procs"
shift 2
exec "$@"
