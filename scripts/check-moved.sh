#!/usr/bin/env bash
# check-moved.sh - test.sh and demo.sh in a checkout that was built, then copied or moved. The project is a
# small one of the same targets; the scripts and the presets are those of this checkout.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() {
    echo "check-moved.sh: FAILED: $*" >&2
    exit 1
}
mkdir -p "$scratch/first/scripts"
cp "$source"/{test.sh,demo.sh,CMakePresets.json} "$scratch/first/"
cp "$source"/scripts/{setup,configure}.sh "$source/scripts/packages" "$scratch/first/scripts/"
cat >"$scratch/first/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES C)
enable_testing()
file(WRITE ${CMAKE_BINARY_DIR}/main.c "int main(void) { return 0; }")
foreach(name IN ITEMS numalloc numalloc-run numalloc-dump numalloc-bench)
    add_executable(${name} ${CMAKE_BINARY_DIR}/main.c)
endforeach()
add_test(NAME here COMMAND test numalloc -ef ${CMAKE_BINARY_DIR}/numalloc)
set_tests_properties(here PROPERTIES LABELS unit WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
END
tested() { # FOLDER
    "$scratch/$1/test.sh" --quick --no-setup >"$scratch/log" 2>&1 || fail "$1: $(cat "$scratch/log")"
    [[ $(tail -n 1 "$scratch/log") == "1 passed, 0 failed" ]] || fail "$1: $(cat "$scratch/log")"
}
tested first
cp -a "$scratch/first" "$scratch/copied"
tested copied
grep -q 'configured in .*/first/build/release; configuring anew' "$scratch/copied/build/release/build.log" || fail "copied: it does not say why"
mv "$scratch/first" "$scratch/moved"
# It goes on to what the demonstration is of, which is not here.
! "$scratch/moved/demo.sh" --no-setup >"$scratch/log" 2>&1 || fail "demo.sh: $(cat "$scratch/log")"
grep -q 'words.c: No such file' "$scratch/log" || fail "demo.sh: $(cat "$scratch/log")"
tested moved
tested moved
! grep -q 'configuring anew' "$scratch/moved/build/release/build.log" || fail "it configures anew each time"
ln -s moved "$scratch/linked"
tested linked
! grep -q 'configuring anew' "$scratch/moved/build/release/build.log" || fail "it configures anew for a link"
echo "ok"
