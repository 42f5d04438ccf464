#!/usr/bin/env bash
# run.sh - records a profile of a subject, makes the page, and drives a browser over it.
#   run.sh TEST MODE LIBRARY NUMALLOC-DUMP SUBJECT PACKAGES ARTEFACTS
# TEST.mjs is the test, MODE that of the profile (made: SUBJECT writes it, access_made.c; guarded: sample, every block
# drawn, with files of errors); screenshots and the page stay in ARTEFACTS. Exit
# status 77: skipped.
set -euo pipefail
name=$1 mode=$2 library=$3 dump=$4 subject=$5 packages=$6 artefacts=$7
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

for program in node chromium; do
    command -v "$program" >/dev/null || {
        echo "browser: skipped: '$program' is missing; run scripts/setup.sh" >&2
        exit 77
    }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$artefacts"
if [ "$mode" = made ]; then # SUBJECT writes profiles of known shape
    "$subject" "$work"
    mv "$work/handed.nprof" "$work/profile.nprof"
    "$dump" html "$work/watched.nprof" -o "$artefacts/$name-$mode-watched.html"
elif [ "$mode" = guarded ]; then
    mkdir "$work/errors"
    env -u NUMALLOC_STATS NUMALLOC_PROFILE=sample NUMALLOC_SAMPLE_INTERVAL=1 NUMALLOC_PROFILE_FILE="$work/profile.nprof" \
        NUMALLOC_GUARD=recover NUMALLOC_GUARD_EACH=1 NUMALLOC_GUARD_FILE="$work/errors" LD_PRELOAD="$library" "$subject"
else
    env -u NUMALLOC_STATS NUMALLOC_PROFILE="$mode" NUMALLOC_PROFILE_FILE="$work/profile.nprof" \
        LD_PRELOAD="$library" "$subject"
fi
base=()
if [ "$mode" = guarded ]; then base=(--errors "$work/errors"); fi
if [ "$name" = diff ]; then
    env -u NUMALLOC_STATS NUMALLOC_PROFILE="$mode" NUMALLOC_PROFILE_FILE="$work/later.nprof" \
        LD_PRELOAD="$library" "$subject" later
    mv "$work/profile.nprof" "$work/earlier.nprof"
    mv "$work/later.nprof" "$work/profile.nprof"
    base=(--baseline "$work/earlier.nprof")
fi
if [ "$name" = cut ]; then
    base=(--baseline "$work/profile.nprof")
    "$dump" functions "$work/profile.nprof" --csv --top 0 -o "$work/functions.csv"
fi
"$dump" html "$work/profile.nprof" "${base[@]}" -o "$artefacts/$name-$mode.html"
"$dump" json "$work/profile.nprof" -o "$work/profile.json"
# node looks for packages above the module that asks for them.
cp "$here"/*.mjs "$work/"
ln -s "$packages/node_modules" "$work/node_modules"
node "$work/$name.mjs" "$artefacts/$name-$mode.html" "$work/profile.json" "$artefacts/$name-$mode"
