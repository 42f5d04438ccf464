#!/usr/bin/env bash
# exports.sh LIBNUMALLOC.SO ALLOWED - the library exports the names of the file ALLOWED and no
# others, and numalloc_* alone with the version of the interface; `*` in a line of ALLOWED stands for any characters (an optional name).
set -euo pipefail
export LC_ALL=C

if [[ $# -ne 2 || ! -f $1 || ! -f $2 ]]; then
    echo "usage: $0 LIBNUMALLOC.SO ALLOWED (existing files)" >&2
    exit 2
fi
exported=$(nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
names=$(sed -e 's/#.*//' -e 's/[[:space:]]*$//' "$2" | grep -v '^$')
failed=0
# Programs ask for malloc by the C library's version: only one without a version takes its place.
odd=$(nm -D --defined-only --with-symbol-versions "$1" |
    awk '$2 != "A" && ($3 ~ /^numalloc_/) != ($3 ~ /^numalloc_.*@@NUMALLOC_[A-Z_]*1$/) ||
         $2 != "A" && $3 !~ /^numalloc_/ && $3 ~ /@/ { print $3 }')
if [[ -n $odd ]]; then
    echo "FAIL: a wrong version:" $odd >&2
    failed=1
fi
while read -r name; do
    known=0
    while read -r pattern; do
        # shellcheck disable=SC2053 -- the pattern is meant as one
        if [[ $name == $pattern ]]; then
            known=1
            break
        fi
    done <<<"$names"
    if [[ $known -eq 0 ]]; then
        echo "FAIL: exports $name, which $2 does not allow" >&2
        failed=1
    fi
done <<<"$exported"
while read -r name; do
    if [[ $name != *'*'* ]] && ! grep -qx -- "$name" <<<"$exported"; then
        echo "FAIL: does not export $name" >&2
        failed=1
    fi
done <<<"$names"
exit $failed
