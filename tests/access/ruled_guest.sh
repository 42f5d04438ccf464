#!/bin/sh
# ruled_guest.sh LIBRARY DUMP PROGRAM SOURCE SECONDS SEED - in a machine of the lab: runs a drawn program under a source of
# accesses, has rules written from the profile, and runs it under these: prints what the program says of itself each time,
# behind "@plain" and "@ruled", and the rules behind "@rules".
set -u
library=$1 dump=$2 program=$3 source=$4 seconds=$5 seed=$6
rm -f /tmp/ruled.*
echo "@plain $(NUMALLOC_PROFILE=sites,access=$source NUMALLOC_ACCESS_COST=100 NUMALLOC_PROFILE_FILE=/tmp/ruled.nprof \
    LD_PRELOAD=$library "$program" "$seed" "$seconds" wrong)"
$dump policy /tmp/ruled.nprof >/tmp/ruled.policy || exit
sed -n 's/^#.*place:.*\|^#.*expected:.*\|^site .*/@rules &/p' /tmp/ruled.policy
grep -q 'place=' /tmp/ruled.policy || exit 0
echo "@ruled $(NUMALLOC_POLICY=/tmp/ruled.policy LD_PRELOAD=$library "$program" "$seed" "$seconds" wrong)"
