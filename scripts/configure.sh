#!/usr/bin/env bash
# configure.sh PRESET [OPTION...] - `cmake --preset PRESET OPTION...`; anew if build/PRESET was configured
# in another place. CMake refuses the cache of a checkout that was copied or moved.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cache=build/$1/CMakeCache.txt
cached() { sed -n "s/^$1:INTERNAL=//p" "$cache"; }
fresh=()
if [[ -e $cache && ! ("$(cached CMAKE_HOME_DIRECTORY)" -ef . && "$(cached CMAKE_CACHEFILE_DIR)" -ef "build/$1") ]]; then
    echo "configure.sh: build/$1 was configured in $(cached CMAKE_CACHEFILE_DIR); configuring anew"
    fresh=(--fresh)
fi
exec cmake --preset "$@" "${fresh[@]+"${fresh[@]}"}"
