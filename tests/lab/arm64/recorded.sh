#!/bin/sh
# recorded.sh MODE COMMAND... - runs in a machine of the lab: COMMAND with a profile, which is printed
# (nothing else comes back), in lines 'profile: NUMBER BASE64'; thrice, since an emulated serial port loses
# a character now and then.
file=/tmp/recorded.nprof
mode=$1
shift
rm -f $file
env NUMALLOC_PROFILE="$mode" NUMALLOC_SAMPLE_INTERVAL=0 NUMALLOC_PROFILE_FILE=$file "$@" || exit
gzip -c $file | base64 | awk '{ print "profile: " NR " " $0 }' >/tmp/recorded
cat /tmp/recorded /tmp/recorded /tmp/recorded
