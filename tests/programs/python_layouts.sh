#!/bin/bash
# python_layouts.sh LIBRARY SOURCE_DIRECTORY - where the recorder believes CPython's fields to be, against
# the internal headers of every version from 3.9 to 3.15 that is there: python3, python3.N, and what pyenv
# has, or what PYTHONS names. Each is compiled with its own headers, and tells what it keeps for debuggers.
# A version without headers is told, and no failure.
set -euo pipefail
pyenv=${PYENV_ROOT:-$HOME/.pyenv}
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/python_lib.sh"
source=$2
need cc gcc

if [ -z "${PYTHONS:-}" ]; then
    for version in $python_versions; do
        pythons+=("/usr/bin/python$version" "/usr/local/bin/python$version" "$pyenv/versions/$version".*/bin/"python$version")
    done
fi
held=
for python in "${pythons[@]}"; do
    [ -x "$python" ] || continue
    # The version; where its headers are; _PyRuntime, of which debuggers read the beginning.
    "$python" - "$work/runtime" >"$work/said" <<'P' || continue
import ctypes, sys, sysconfig
runtime = ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime")
open(sys.argv[1], "wb").write(ctypes.string_at(ctypes.addressof(runtime), 1024))
print("%d.%d.%d" % sys.version_info[:3])
print(sysconfig.get_path("include"))
P
    { read -r version && read -r include; } <"$work/said"
    version_of "$python" >/dev/null || continue
    case " $held" in *" $version "*) continue ;; esac
    if [ ! -r "$include/internal/pycore_frame.h" ] && [ ! -r "$include/internal/pycore_pystate.h" ]; then
        say "$version: no headers in $include"
        continue
    fi
    cc -std=gnu17 -O0 -w -I "$source" -I "$include" -I "$include/internal" -idirafter "$(dirname "$include")" -o "$work/layouts" \
        "$test_source/python/layouts.c" "$source/profiler/record/python/python_layouts.c" \
        2>"$work/compiled" || fail "$version: $(head -n 10 "$work/compiled")"
    "$work/layouts" "$work/runtime" >"$work/said" || fail "$version: $(cat "$work/said")"
    held+="$version "
done
[ -n "$held" ] || skip "no $python_known with its headers; install the package 'python3-dev'"
say "as the headers have it: $held"
