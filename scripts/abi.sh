#!/usr/bin/env bash
# abi.sh - holds the libraries to the binary interface of the last release, tests/abi/*.abi.
set -euo pipefail

usage() {
    cat <<EOF
usage: scripts/abi.sh [--record] [BUILD_DIR]

  (neither)   compares the libraries of BUILD_DIR (default: build/release) with tests/abi/*.abi by
              abidiff; status 1 if a function is gone or a type has changed. New functions are
              allowed
  --record    writes tests/abi/*.abi anew: with a release, for what no release has had, and where a
              structure that is passed with its size has a new member at its end
EOF
}

record=0
case ${1:-} in
-h | --help)
    usage
    exit 0
    ;;
--record)
    record=1
    shift
    ;;
esac
build=$(realpath "${1:-$(dirname "${BASH_SOURCE[0]}")/../build/release}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for tool in abidw abidiff; do
    command -v $tool >/dev/null || {
        echo "abi: skipped: $tool is missing; scripts/setup.sh installs it (abigail-tools)" >&2
        exit 77
    }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for library in numalloc numalloc-profile; do
    file=$build/lib$library.so
    [[ -f $file ]] || {
        echo "abi: no $file; build it, or name the directory: scripts/abi.sh --help" >&2
        exit 2
    }
    readelf -S "$file" | grep '\.debug_info' >/dev/null || {
        echo "abi: skipped: $file has no debug information, which types are read from" >&2
        exit 77
    }
    abidw --headers-dir include --drop-private-types --exported-interfaces-only --no-corpus-path \
        --no-comp-dir-path --no-show-locs --no-elf-needed --no-parameter-names --no-architecture \
        --suppressions tests/abi/public.ini --out-file "$work/$library.abi" "$(realpath "$file")"
    if [[ $record == 1 ]]; then
        sed -i -E "s| path='[^']*/(alloc\|profiler)/| path='\1/|" "$work/$library.abi" # not of this machine
        cp "$work/$library.abi" tests/abi/
        continue
    fi
    status=0
    abidiff --no-added-syms --no-architecture "tests/abi/$library.abi" "$work/$library.abi" >"$work/difference" 2>&1 || status=$?
    [[ $status == 0 ]] && continue
    echo "abi: lib$library.so is not what programs were compiled for (docs/interface.md):" >&2
    cat "$work/difference" >&2
    failed=1
done
exit $failed
