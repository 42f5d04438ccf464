#!/usr/bin/env bash
# valgrind.sh LIBNUMALLOC.SO PROGRAM [ARGUMENT...] - the program, preloaded with the library, runs
# under valgrind (whose own malloc is told to stay away) without an error and ends with status 0.
set -euo pipefail

if [[ $# -lt 2 || ! -f $1 || ! -x $2 ]]; then
    echo "usage: $0 LIBNUMALLOC.SO PROGRAM [ARGUMENT...]" >&2
    exit 2
fi
lib=$1
shift
if ! command -v valgrind >/dev/null; then
    echo "skipped: valgrind is not installed" >&2
    exit 77
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
LD_PRELOAD=$lib NA_TEST_LIB=$lib valgrind --soname-synonyms=somalloc=nouserintercepts \
    --error-exitcode=99 --log-file="$log" "$@" || status=$?
if [[ $status -ne 0 ]]; then
    echo "FAIL: $1 under valgrind: exit status $status" >&2
    cat "$log" >&2
    exit 1
fi
if ! grep -q 'ERROR SUMMARY: 0 errors' "$log"; then
    echo "FAIL: valgrind reports errors" >&2
    cat "$log" >&2
    exit 1
fi
# Valgrind's own counters must not have seen our blocks: the library really was the malloc.
if grep -Eq 'total heap usage: [1-9]' "$log"; then
    echo "FAIL: valgrind's malloc served the program, not the library's" >&2
    exit 1
fi
