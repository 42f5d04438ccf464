#!/bin/bash
# forks.sh - shell pipelines that fork and exec hundreds of times, in parallel and in the background.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
need xargs findutils find findutils sort coreutils grep grep sed sed gzip gzip

forks_story() {
    local n=300 jobs=24 i
    [ "$SCALE" = full ] || n=60 jobs=12
    [ "$SCALE" != small ] || n=6
    mkdir tree
    for ((i = 0; i < n; i++)); do
        mkdir -p "tree/$((i % 13))/$((i % 7))"
        printf 'file %d\n%s\n' "$i" "$(seq 1 $((i % 50)))" >"tree/$((i % 13))/$((i % 7))/f$i"
    done
    # Many short programs at once.
    find tree -type f -print0 | xargs -0 -P 4 -n 3 cksum | sort | cksum
    find tree -type f -print0 | xargs -0 -P 4 -I{} sh -c 'sed s/file/FILE/ "$1" | sort -r | gzip -n | gzip -dc | tail -n 1 | cut -c1-20' _ {} | sort | cksum
    find tree -type f -exec grep -l 'file 1' {} + | sort | cksum
    find tree -name 'f*' -exec sh -c 'for f; do echo "${f##*/} $(wc -l <"$f")"; done' _ {} + | sort -k1.2n | cksum
    # Background jobs of one shell, each a fork that goes on allocating without exec.
    local -a pids=()
    for ((i = 0; i < jobs; i++)); do
        (
            text=""
            for ((k = 0; k < 300; k++)); do text+="$i.$k "; done
            # shellcheck disable=SC2086 # words are the point
        set -- $text
            echo "$i: $# words, last ${!#}" >"job.$i"
            exit $((i % 5))
        ) &
        pids+=("$!")
    done
    for i in "${!pids[@]}"; do
        rc=0
        wait "${pids[i]}" || rc=$?
        echo "$rc $(cat "job.$i")"
    done
    # A pipe of forks of forks, and a coprocess.
    deep() { if [ "$1" -gt 0 ]; then (echo "$1"; deep $(($1 - 1))) | cat; else echo end; fi; }
    deep 12 | tr '\n' ' '
    echo
    coproc { while read -r line; do echo "<$line>"; done; }
    for ((i = 0; i < 20; i++)); do
        echo "say $i" >&"${COPROC[1]}"
        read -r answer <&"${COPROC[0]}"
        echo "$answer"
    done >answers # no pipe: a subshell does not have the coprocess's descriptors
    cksum answers
    eval "exec ${COPROC[1]}>&-" # the coprocess ends at its end of input
    wait
    # sort starts threads while its shell forks on.
    for i in 1 2 3 4; do
        find tree -type f | sort | xargs cat | sort --parallel=4 -S 1M -k1,1r | cksum &
    done | sort
}

both forks forks_story
proved forks forks_story bash find xargs cksum sed sort gzip grep cut tail
