#!/bin/sh
# again.sh SECONDS COMMAND [ARGUMENT...] - once more if it takes longer: on a machine with much else to
# do the made-up samples of the module have failed to come for a minute, in 2 of some 60 runs.
limit=$1
shift
timeout -s KILL "$limit" "$@" && exit
status=$?
[ "$status" = 137 ] || exit "$status"
echo "no answer in $limit s: once more"
exec "$@"
