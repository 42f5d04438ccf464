#!/bin/sh
# shared.sh MODULE PERF LIBRARY PATTERNS DUMP - in a machine with IBS: a program is recorded by the module
# while perf uses the same counter. The view says that the counter was shared.
set -u
insmod "$1" || exit 1
cd /tmp || exit 1
"$2" record -a -e ibs_op/cnt_ctl=1/ -c 65536 -o other.data sleep 1000 >/dev/null 2>&1 &
other=$!
sleep 1
sleep 10 | env NUMALLOC_PROFILE=sites,access=kmod NUMALLOC_PROFILE_FILE=/tmp/shared.nprof LD_PRELOAD="$3" \
    "$4" handoff wrong 0 3>&1
kill $other
"$5" objects shared.nprof >view 2>&1
cat view
grep -q "^Note: the counter ran for [0-9]* % of the time" view || {
    echo "shared.sh: nothing is said of the other user"
    exit 1
}
