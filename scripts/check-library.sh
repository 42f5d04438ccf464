#!/usr/bin/env bash
# check-library.sh LIBNUMALLOC.SO - what the loader and the linker see of the built library:
# soname, needed libraries, flags, static TLS, and the exported symbols.
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
tls=$(readelf -lW "$lib" | awk '$1 == "TLS" { print strtonum($6) }')
if [[ ${tls:-0} -gt 64 ]]; then
    fail "has $tls bytes of static TLS; at most 64 keep dlopen safe"
fi

exported=$(nm -D --defined-only "$lib" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }')
for symbol in malloc free calloc realloc aligned_alloc posix_memalign memalign valloc pvalloc \
    malloc_usable_size malloc_trim numalloc_version numalloc_get_stats numalloc_node_of; do
    grep -qx "$symbol" <<<"$exported" || fail "does not export $symbol"
done
# operator new and delete, throwing, nothrow, sized and aligned.
for symbol in _Znwm _Znam _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t \
    _ZnwmSt11align_val_t _ZnamSt11align_val_t _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t; do
    grep -qx "$symbol" <<<"$exported" || fail "does not export $(c++filt "$symbol") ($symbol)"
done
if leaked=$(grep '^na_' <<<"$exported"); then
    fail "exports internal names:" $leaked
fi

if [[ $failed -eq 0 ]]; then
    echo "ok: $lib, $(wc -l <<<"$exported") exported symbols, ${tls:-0} bytes of static TLS"
fi
exit $failed
