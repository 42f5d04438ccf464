#!/bin/bash
# python_refused.sh LIBRARY NUMALLOC_DUMP - an interpreter whose frames cannot be read is left alone, and
# the summary says why. None such is on most machines; so one that is there is copied, and says of itself
# in the copy what another would: a version that is not known, one before 3.9, or, from 3.13 on, that it
# has no GIL. One whose program headers lie beyond the first page, as BOLT writes them, is read.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
. "$(dirname "$0")/python_lib.sh"
need readelf binutils

ran=0
for python in "${pythons[@]}"; do
    version=$(version_of "$python") || continue
    file=$(readlink -f "$(command -v "$python")")
    readelf -sW --dyn-syms "$file" >"$work/symbols"
    if ! has ' _PyRuntime' "$work/symbols"; then continue; fi # its code is in libpython
    readelf -lW "$file" >"$work/segments"
    home=$("$python" -c 'import sys; print(sys.base_prefix)')

    # refused NAME SYMBOL OFFSET BYTES TEXT: the copy has these bytes there; the summary says that.
    refused() {
        cp "$file" "$work/copy"
        /usr/bin/python3 - "$work" "$2" "$3" "$4" <<'P' || fail "$version: $2 cannot be changed"
import re, sys
work, name, offset, data = sys.argv[1:]
symbol = re.search(r"^\s*\d+: ([0-9a-f]+)\s+\S+ OBJECT .* %s(@\S+)?$" % name, open(work + "/symbols").read(), re.M)
address = int(symbol[1], 16) + int(offset)
for segment in re.finditer(r"LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", open(work + "/segments").read()):
    at, start, size = (int(x, 16) for x in segment.groups())
    if start <= address < start + size:
        with open(work + "/copy", "r+b") as f:
            f.seek(at + address - start)
            f.write(bytes.fromhex(data))
        sys.exit()
sys.exit("no segment has it")
P
        rm -f "$work/r.nprof"*
        PYTHONHOME=$home NUMALLOC_PYTHON=1 NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/r.nprof" PYTHONMALLOC=malloc \
            LD_PRELOAD="$lib" "$work/copy" -c 'print([bytes(3000) for _ in range(50)][7][:3])' >"$work/out" 2>&1 ||
            fail "$version, $1: the program fails: $(tail -n 3 "$work/out")"
        [ "$(cat "$work/out")" = "b'\\x00\\x00\\x00'" ] || fail "$version, $1: the program says $(cat "$work/out")"
        "$dump" check "$work/r.nprof" >/dev/null || fail "$version, $1: the profile is damaged"
        "$dump" "$work/r.nprof" >"$work/summary"
        has "^Python  *$5: its frames are not read" "$work/summary" || fail "$version, $1: the summary does not say so"
        "$dump" functions "$work/r.nprof" --top 0 >"$work/functions"
        if has '<module>' "$work/functions"; then fail "$version, $1: there are Python frames"; fi
        say "$version, $1: left alone"
        ran=$((ran + 1))
    }
    cp "$file" "$work/copy"
    /usr/bin/python3 "$test_source/../support/far_headers.py" "$work/copy"
    rm -f "$work/r.nprof"*
    PYTHONHOME=$home NUMALLOC_PYTHON=1 NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/r.nprof" PYTHONMALLOC=malloc \
        LD_PRELOAD="$lib" "$work/copy" -c 'kept = [bytes(3000) for _ in range(50)]' || fail "$version, headers at the end: the program fails"
    "$dump" functions "$work/r.nprof" --top 0 >"$work/functions"
    has '<module> *<string>:1' "$work/functions" || fail "$version, headers at the end: there are no Python frames"
    say "$version, headers at the end: read"

    if has ' Py_Version' "$work/symbols"; then
        refused 'unknown version' Py_Version 0 '00001f03' '3.31 is not known'
        refused 'old version' Py_Version 0 '00000703' '3.7 or older'
    fi
    case $version in
    3.9 | 3.1[0-2]) ;;
    *) refused 'without the GIL' _PyRuntime 16 '0100000000000000' "$version without the GIL" ;;
    esac
done
[ $ran != 0 ] || skip "no $python_known that is one file in ${pythons[*]}"
