#!/bin/bash
# git.sh - git on a repository of many commits: pack, delta, diff, merge, clone, blame.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
need git git

git_story() {
    local commits=240 i n
    [ "$SCALE" = full ] || commits=45
    [ "$SCALE" != small ] || commits=6
    export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org \
        GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org
    git config --global pack.threads 2
    git config --global init.defaultBranch trunk
    git config --global gc.auto 0
    git config --global advice.detachedHead false
    git init -q repo
    cd repo
    for ((i = 0; i < commits; i++)); do
        export GIT_AUTHOR_DATE="$((1700000000 + i * 60)) +0000"
        export GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE
        mkdir -p "dir$((i % 17))/sub$((i % 5))"
        for n in 0 1 2; do
            printf 'commit %d file %d\n' "$i" "$n" >"dir$((i % 17))/sub$((i % 5))/f$i.$n"
        done
        # One file that grows and one that is rewritten, so that deltas and blame have work.
        printf 'line %d: %s\n' $i "$((i * i))" >>grows
        seq $((i % 9)) 3 $((2000 + i)) >rewritten
        git add -A
        git commit -q -m "change $i" -m "why: number $i"
        if ((i % 40 == 20)); then
            git checkout -q -b "side$i"
            echo "side $i" >>"side.$i"
            git add -A
            git commit -q -m "side $i"
            git checkout -q trunk
            git merge -q --no-ff -m "merge side$i" "side$i"
        fi
    done
    git count-objects | cut -d' ' -f1
    git log -p --stat --format=fuller | cksum
    git log --graph --oneline --all | cksum
    git blame rewritten | cksum
    git blame -C -M grows | tail -n 3
    git diff --word-diff HEAD~5 HEAD | cksum
    git grep -n 'commit 1' | cksum
    git gc -q --aggressive --prune=now
    git fsck --full --strict
    git verify-pack -v .git/objects/pack/*.idx | sort | grep -c commit
    git rev-list --objects --all | sort | cksum
    cd ..
    git clone -q --no-local repo copy
    (cd copy && git log --format=%H%n%B%n%N | cksum && git status --short && git fsck)
    git clone -q --bare repo bare.git
    (cd copy && git checkout -q -b more HEAD~3 && echo x >grows && git commit -qam x &&
        git push -q ../bare.git more && git rebase -q -X theirs origin/trunk && git rev-parse HEAD)
    git -C bare.git for-each-ref
    (cd repo && git format-patch -q -3 --stdout | cksum && git archive HEAD | cksum &&
        git bundle create -q ../all.bundle --all && git bundle verify -q ../all.bundle && git stash list)
    git clone -q all.bundle third
    git -C third rev-parse HEAD
}

both git git_story
rm -f "$HOME/.gitconfig"
proved git git_story git
