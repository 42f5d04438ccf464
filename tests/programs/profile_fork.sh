#!/bin/bash
# profile_fork.sh - forked and exec'd children get files of their own, and each file holds what its
# own process did.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"

for name in pattern default; do
    mkdir "$work/$name"
    if [ "$name" = pattern ]; then file="$work/$name/%e.%p.nprof"; else file=; fi
    rc=0
    (cd "$work/$name" && NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=$file LD_PRELOAD="$lib" \
        "$load" fork >"$work/$name.out" 2>"$work/$name.err") || rc=$?
    [ "$rc" = 5 ] || fail "the parent ends with status $rc: $(head -n 3 "$work/$name.err")"
    [ ! -s "$work/$name.err" ] || fail "unexpected on stderr: $(head -n 3 "$work/$name.err")"
    parent=$(sed -n 's/^parent \([0-9]*\) child status 4$/\1/p' "$work/$name.out")
    child=$(sed -n 's/^forked \([0-9]*\) exec .*/\1/p' "$work/$name.out")
    execed=$(sed -n 's/^forked .* exec \([0-9]*\) status 5$/\1/p' "$work/$name.out")
    [ -n "$parent" ] && [ -n "$child" ] && [ -n "$execed" ] || fail "the program printed: $(cat "$work/$name.out")"
    if [ "$name" = pattern ]; then
        at() { the_one "$work/pattern/profile_load.$1.nprof"; }
    else
        at() { the_one "$work/default/numalloc.profile_load.$1.*.nprof"; }
    fi
    parent_file=$(at "$parent")
    child_file=$(at "$child")
    # exec starts the program anew under the same pid: the file of the fork before it may be there
    # as well, without the exec'd program's site.
    check "$parent_file" @pid="$parent" @inherited_pid=0 \
        alloc_small:allocations=1000,live_bytes=48000 alloc_zeroed:allocations=200 -alloc_child
    check "$child_file" alloc_child:allocations=500,total_bytes=40000,live_bytes=40000 -alloc_zeroed \
        @pid="$child" @inherited_pid="$parent" @lost.before_frees=0..100
    found=
    for file in "$work/$name"/*"$execed"*; do
        ask "$file"
        if as_expected alloc_child:allocations=500,total_bytes=40000 -alloc_small @pid="$execed" 2>/dev/null; then found=$file; fi
    done
    [ -n "$found" ] || fail "no profile of the exec'd process $execed holds its site: $(ls "$work/$name")"
done
say "parent, forked child and exec'd child have a profile each, under both kinds of names"
