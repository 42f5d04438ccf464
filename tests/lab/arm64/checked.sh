#!/bin/sh
# checked.sh LIBRARY KEPT PROGRAM MODE [PLUGIN...] - runs in a machine of the lab: a mode of
# stacks_stress.c under the library that holds stacks against an exact walk, and dies where they differ.
# At least KEPT of a hundred walks must have joined the last one.
library=$1 least=$2
shift 2
env NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=/tmp/ NUMALLOC_STACKS_COUNT=1 NUMALLOC_STACKS_EVERY=7 \
    LD_PRELOAD="$library" "$@" >/tmp/out 2>/tmp/err
status=$?
rm -f /tmp/*.nprof
stacks=$(sed -n 's/^stacks: //p' /tmp/err | tail -n 1)
kept=$(sed -n 's/^kept: //p' /tmp/err | tail -n 1)
cat /tmp/out
grep -v -e '^stacks: ' -e '^kept: ' /tmp/err
echo "stacks: ${stacks:-none}, kept: ${kept:-none}"
[ $status = 0 ] && [ "${stacks:-0}" -gt 100 ] && [ "${kept:-0}" -ge $((stacks * least / 100)) ]
