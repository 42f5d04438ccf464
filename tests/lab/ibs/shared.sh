#!/bin/sh
# shared.sh SOURCE MODULE PERF LIBRARY PATTERNS DUMP - in a machine with IBS: a program is recorded by
# kmod or ibs while perf uses the same counter. The view says that the counter was shared.
set -u
source=$1
[ -e /dev/numalloc_ibs ] || insmod "$2" || exit 1
cd /tmp || exit 1
"$3" record -a -e ibs_op/cnt_ctl=1/ -c 65536 -o other.data sleep 1000 >/dev/null 2>&1 &
other=$!
sleep 1
sleep 10 | env NUMALLOC_PROFILE=sites,access="$source" NUMALLOC_PROFILE_FILE="/tmp/$source.nprof" LD_PRELOAD="$4" \
    "$5" handoff wrong 0 3>&1
kill $other
"$6" objects "$source.nprof" >view 2>&1
cat view
grep -qE "(Note: the|its) counter ran for [0-9]+ % of the time" view || {
    echo "shared.sh: nothing is said of the other user"
    exit 1
}
