#!/bin/sh
# python.sh - python3 on allocation-heavy work.
#   python.sh INPUTS [malloc]
# CPython cuts objects up to 512 bytes from arenas of its own, which it maps; with `malloc` each
# object is the allocator's, as in programs that embed it that way or run it under a debugger.
here=$(dirname "$0")
[ "${2-}" != malloc ] || export PYTHONMALLOC=malloc
export PYTHONHASHSEED=0
exec /usr/bin/python3 -s -S -P "$here/python_load.py" "$1"
