#!/bin/sh
# drawn_guest.sh LIBRARY DUMP PROGRAM SOURCE SECONDS SEED STATE [MODULE] - in a machine of the lab: runs a drawn program
# under a source of accesses, and prints its profile after a quarter and half of the time and at its end, by gzip and base64,
# each between "@profile SECONDS" and "@end", and what the program says of itself. A wrong one's policy follows, behind
# "@policy"; if it has rules on places, also what the program says of itself under them, behind "@ruled".
set -u
library=$1 dump=$2 program=$3 source=$4 seconds=$5 seed=$6 state=$7
[ $# -lt 8 ] || [ -e /dev/numalloc_ibs ] || insmod "$8" || exit
file=/tmp/drawn.nprof policy=/tmp/drawn.policy
rm -f $file $file.* $policy
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
[ "$state" = wrong ] && "$dump" policy --only place $file >$policy && sed 's/^/@policy /' $policy
grep -q 'place=' $policy 2>/dev/null &&
    echo "@ruled $(NUMALLOC_POLICY=$policy LD_PRELOAD=$library "$program" "$seed" "$seconds" "$state")"
rm -f $file $file.* $policy
exit $status
