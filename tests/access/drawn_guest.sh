#!/bin/sh
# drawn_guest.sh LIBRARY PROGRAM SOURCE SECONDS SEED STATE - in a machine of the lab: runs a drawn program under a source of
# accesses, and prints its profile after a quarter and half of the time and at its end, by gzip and base64, each between
# "@profile SECONDS" and "@end", and what the program says of itself.
set -u
library=$1 program=$2 source=$3 seconds=$4 seed=$5 state=$6
file=/tmp/drawn.nprof
rm -f $file $file.*
NUMALLOC_PROFILE=sites,access=$source NUMALLOC_ACCESS_COST=100 NUMALLOC_PROFILE_FILE=$file LD_PRELOAD=$library \
    "$program" "$seed" "$seconds" "$state" >/tmp/said &
for part in 4 2; do
    sleep $((seconds / 4))
    cp $file $file.$((seconds / part))
done
wait $!
status=$?
cp $file $file."$seconds"
for at in $((seconds / 4)) $((seconds / 2)) "$seconds"; do
    echo "@profile $at"
    gzip -c $file."$at" | base64
    echo "@end"
done
cat /tmp/said
rm -f $file $file.*
exit $status
