#!/bin/sh
# against_glibc.sh LIBRARY LIMITS MEMORY.SH [MIB...] - little memory, with glibc's malloc and with LIBRARY in
# turn: what each gives before it says ENOMEM, and with how little memory each is not killed. Fails
# where glibc works and LIBRARY does not, or where LIBRARY gives less than three quarters of what
# glibc does. With memory.max LIBRARY may need 88 MiB where 48 are in use, and 72 when it is told to
# be frugal. MIB: try all three with these limits instead of what the test needs (slow: a kernel
# that is short of memory is).
library=$1 limits=$2 memory=$3
shift 3
status=0

# WORD COMMAND...: "given" or "lives", by exit status and the program's own figure, into $result.
try() {
    preload=$1
    shift
    output=$(LD_PRELOAD=$preload "$@" 2>&1)
    code=$?
    result=$(echo "$output" | sed -n 's/^given before ENOMEM: \([0-9]*\) MiB$/\1/p')
}

exhaust() {
    try "" "$limits" "$@"
    theirs=$result their_code=$code
    try "$library" "$limits" "$@"
    echo "$*: glibc gives ${theirs:-nothing} MiB (exit $their_code), LIBRARY ${result:-nothing} MiB (exit $code)"
    if [ "$their_code" = 0 ] && [ "$code" != 0 ]; then
        echo "$output"
        status=1
    elif [ "$code" = 0 ] && [ "$their_code" = 0 ] && [ $((result * 4)) -lt $((theirs * 3)) ]; then
        echo "less than three quarters"
        status=1
    fi
}

for mebibytes in 128 256; do
    exhaust address $mebibytes
done
exhaust overcommit

# Blocks of 48 MiB in all, renewed: the less memory, the less may lie about. numalloc keeps on each
# node an eighth of the latest peak, a slack, and huge pages that are used in part; with the frugal
# settings nothing of the kind.
ladder=$*
for mebibytes in ${ladder:-88 72}; do
    ours=- frugal=-
    try "" "$memory" "${mebibytes}M" "$limits" churn 64
    theirs=$code
    if [ -n "$ladder" ] || [ "$mebibytes" -ge 88 ]; then
        try "$library" "$memory" "${mebibytes}M" "$limits" churn 64
        ours=$code
    fi
    if [ -n "$ladder" ] || [ "$mebibytes" -lt 88 ]; then
        try "$library" env NUMALLOC_HUGEPAGES=never NUMALLOC_PURGE_DELAY=0 \
            "$memory" "${mebibytes}M" "$limits" churn 64
        frugal=$code
    fi
    echo "memory.max ${mebibytes}M: glibc exit $theirs, LIBRARY exit $ours, frugal exit $frugal"
    [ "$mebibytes" -lt 88 ] || [ "$theirs" != 0 ] || [ "$ours" = 0 ] || status=1
    [ "$mebibytes" -lt 72 ] || [ "$theirs" != 0 ] || [ "$frugal" = 0 ] || [ "$frugal" = - ] || status=1
done
exit $status
