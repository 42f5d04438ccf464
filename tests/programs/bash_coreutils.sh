#!/bin/bash
# bash_coreutils.sh - the shell and the core utilities do the same with the library as without.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
need sort coreutils awk mawk

shell_story() {
    # Pure bash: strings, arrays, associative arrays, substitution, subshells, here-documents.
    local -A seen=()
    local -a list=()
    local i n=4000 text=""
    [ "$SCALE" != small ] || n=50
    for ((i = 0; i < n; i++)); do
        seen[key$((i * 7919 % 1009))]=$i
        list+=("item-$i-${text:0:$((i % 60))}")
        text=${text/%???/}$i$text
        text=${text:0:4000}
    done
    printf '%s\n' "${!seen[@]}" | sort | cksum
    printf '%s\n' "${list[@]}" | cksum
    for ((i = 0; i < n / 20; i++)); do
        text=$(
            cat <<END
${list[i]} $(echo "${list[@]:i:5}")
END
        )
        echo "${text//item/ITEM}"
    done | cksum
    (
        trap 'echo trapped' USR1
        kill -USR1 "$BASHPID"
        (exit 3) || echo "subshell says $?"
    )
}

utilities_story() {
    local lines=400000 buffer=8M
    [ "$SCALE" = full ] || lines=40000 buffer=1M
    [ "$SCALE" != small ] || lines=2000
    awk -v n="$lines" 'BEGIN { x = 12345; for (i = 0; i < n; i++) {
        x = (x * 1103515245 + 12345) % 2147483648
        printf "%010d %d line of text number %d %s\n", x, x % 977, i, substr("abcdefghijklmnopqrstuvwxyz", 1 + x % 20) } }' >big
    wc big
    sort --parallel=4 -S $buffer big >sorted # a small buffer: runs are spilled and merged
    cksum <sorted
    sort --parallel=2 -S 256M -k2,2n -k1,1r big | cksum
    sort -u -k2,2n big | cksum
    sort -c sorted && echo "sorted is sorted"
    tac big | cksum
    od -A x -t x1z big | cksum
    cut -d' ' -f2 big | sort -n | uniq -c | sort -k1,1nr -k2,2n | sed -n 1,20p # head would end its writer early
    tr a-z A-Z <big | cksum
    split -l 9000 -d -a 3 big part. && cat part.* | cmp - big && echo "split joins again"
    join -1 1 -2 1 <(head -n 500 sorted) <(tail -n +200 sorted | head -n 600) | cksum
    comm -12 <(head -n 500 sorted) <(tail -n +200 sorted | head -n 600) | cksum
    paste big sorted | cksum
    shuf --random-source=big big | cksum
    expand big | fold -w 31 | fmt -w 60 | nl | cksum
    base64 big | base64 -d | cmp - big && echo "base64 round trip"
    sha256sum big
    csplit -z -s big 100 '{3}' && ls | cksum
    factor 18446744073709551557 340282366920938463463374607431768211456 1000000016000000063
    seq 1 "$((lines / 20))" | factor | cksum
    seq -f 'a%gb' 1 5 | tsort 2>&1 || echo "tsort says $?"
    seq 1 2000 | tsort | cksum
    seq 1 3000 | pr -3 -t | cksum
    ptx <<<"the quick brown fox jumps over the lazy dog"
    printf '%5.2f|%-8s|%q\n' 3.14159 left "a b'c"
    mkdir -p tree/{a,b,c}/{1,2,3} && cp part.* tree/a/1 && cp -r tree other && ls -R other | cksum
    du -a --apparent-size other | sort -k2 | cksum
    dd if=big of=copy bs=64k status=none && cmp big copy && echo "dd copies"
    ls /does/not/exist || echo "ls says $?"
    numfmt --to=iec 1048576 12345678
    expr "$(printf 'x%.0s' {1..3000})" : 'x*'
    rm -rf tree other && ls | wc -l
}

both shell shell_story
both utilities utilities_story
proved utilities utilities_story bash sort wc tac od factor split join shuf fmt ptx cp ls du \
    csplit sha256sum dd tsort

# The library can speak for itself, too: statistics on stderr at the end, standard output untouched.
# (Only numalloc; the test may be tried on other allocators.)
if nm -D --defined-only "$lib" 2>/dev/null | has -w numalloc_version; then
    seq 1 20000 >"$work/numbers"
    NUMALLOC_STATS=1 LD_PRELOAD="$lib" sort -r "$work/numbers" >"$work/sorted" 2>"$work/stats"
    sort -r "$work/numbers" | cmp - "$work/sorted" || fail "sort prints otherwise with NUMALLOC_STATS=1"
    [ -s "$work/stats" ] || fail "NUMALLOC_STATS=1 prints nothing on stderr"
    say "NUMALLOC_STATS=1: $(wc -l <"$work/stats") lines on stderr"
fi
