#!/bin/sh
# lost.sh COMMAND... - runs in a machine of the lab: lose.c, under a scan that must find what it loses and
# nothing else.
env NUMALLOC_LEAKS=1 "$@" 2>/tmp/lost
status=$?
cat /tmp/lost
[ $status = 0 ] && [ "$(grep -c ' lose+' /tmp/lost)" = 3 ] &&
    grep -q '^numalloc: 3000 bytes in 3 blocks are lost, 0 bytes in 0 blocks indirectly; ' /tmp/lost
