#!/usr/bin/env bash
# check-library.sh LIBNUMALLOC.SO - what the loader and the linker see of the built library:
# soname, needed libraries, flags, static TLS and relocations. (Exported names: tests/conform/exports.sh.)
set -euo pipefail
export LC_ALL=C

if [[ $# -ne 1 || ! -f $1 ]]; then
    echo "usage: $0 PATH/libnumalloc.so (an existing file)" >&2
    exit 2
fi
lib=$1
failed=0
fail() {
    echo "FAIL: $*" >&2
    failed=1
}

dynamic=$(readelf -dW "$lib")
grep -q 'Library soname: \[libnumalloc\.so\.0\]' <<<"$dynamic" ||
    fail "the soname is not libnumalloc.so.0"

# Every further library costs each preloaded process about 140 us; the loader is always there.
while read -r needed; do
    case $needed in
    libc.so.6 | ld-linux-*) ;;
    *) fail "needs $needed; only libc may be needed" ;;
    esac
done < <(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic")

flags=$(grep -E '\((FLAGS|FLAGS_1)\)' <<<"$dynamic" || true)
for flag in NOW NODELETE STATIC_TLS; do
    grep -qw "$flag" <<<"$flags" || fail "the dynamic section lacks the flag $flag"
done
if grep -q '(TEXTREL)' <<<"$dynamic"; then
    fail "has text relocations"
fi
if readelf -lW "$lib" | grep -E 'GNU_STACK.*E ' >/dev/null; then
    fail "asks for an executable stack"
fi

# The loader keeps little surplus static TLS for libraries opened by dlopen.
tls=$(readelf -lW "$lib" | awk '$1 == "TLS" { print $6 }')
tls=$((${tls:-0}))
if [[ $tls -gt 64 ]]; then
    fail "has $tls bytes of static TLS; at most 64 keep dlopen safe"
fi

# The loader reads 24 bytes of each, which are in the file's first 64 KiB, and writes to a page of each
# process (docs/decisions/start-up.md). Tables of pointers make them: zlib's a third, those of the
# seam (alloc/core/path/seam.h) another.
relative=$(readelf -rW "$lib" | grep -c '_RELATIVE')
if [[ $relative -gt 120 ]]; then # gcc 12: 105; gcc 14: 114
    fail "has $relative relative relocations; at most 120 leave room for code (readelf -rW tells where)"
fi

if [[ $failed -eq 0 ]]; then
    echo "ok: $lib, $tls bytes of static TLS, $relative relative relocations"
fi
exit $failed
