#!/bin/sh
# against_glibc.sh LIBRARY LIMITS MEMORY.SH [least] - little memory, with glibc's malloc and with LIBRARY in
# turn: what each gives before it says ENOMEM, and with how little memory each is not killed. Fails
# where glibc works and LIBRARY does not, where LIBRARY gives less than three quarters of what
# glibc does, or where it is killed for what it could have refused. `least`: finds the least memory.max that each survives instead (minutes).
library=$1 limits=$2 memory=$3
status=0

# PRELOAD COMMAND...: exit status and the program's own figure.
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

# 48 MiB in use, renewed. MIB SHAPE THREADS. glibc is asked only where LIBRARY is killed: it may be where glibc is.
survive() {
    try "$library" "$memory" "${1}M" "$limits" churn 48 "$2" "$3"
    ours=$code theirs=unasked
    if [ "$ours" != 0 ]; then
        try "" "$memory" "${1}M" "$limits" churn 48 "$2" "$3"
        theirs=$code
        [ "$theirs" != 0 ] || status=1
    fi
    echo "memory.max ${1}M, $2 blocks, $3 threads: LIBRARY exit $ours, glibc $theirs"
}

# Less than it needs: MIB SHAPE THREADS. LIBRARY is told ENOMEM, or gets by; it is not killed.
refused() {
    try "$library" "$memory" "${1}M" "$limits" churn 48 "$2" "$3"
    case $output in
    *"kernel killed"*)
        echo "memory.max ${1}M, $2 blocks, $3 threads: LIBRARY is killed"
        status=1
        ;;
    *) echo "memory.max ${1}M, $2 blocks, $3 threads: LIBRARY is not killed (exit $code)" ;;
    esac
}

# PRELOAD SHAPE THREADS: into $high.
find_least() {
    low=46 high=96
    while [ $((high - low)) -gt 1 ]; do
        middle=$(((low + high) / 2))
        try "$1" "$memory" "${middle}M" "$limits" churn 48 "$2" "$3"
        if [ "$code" = 0 ]; then high=$middle; else low=$middle; fi
    done
}

if [ "$4" = least ]; then
    for threads in 1 4; do
        for shape in small large mixed; do
            find_least "" $shape $threads
            theirs=$high
            find_least "$library" $shape $threads
            echo "$shape blocks, $threads threads: glibc survives $theirs MiB, LIBRARY $high MiB"
        done
    done
    exit 0
fi

for mebibytes in 128 256; do
    exhaust address $mebibytes
done
exhaust overcommit

# A few MiB more than what either was found to need, which differs from run to run.
survive 55 small 1
survive 56 large 1
survive 61 mixed 1
survive 56 small 4
survive 66 mixed 4

refused 49 small 1
refused 52 mixed 4
exit $status
