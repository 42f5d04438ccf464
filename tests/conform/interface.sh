#!/usr/bin/env bash
# interface.sh CC INCLUDE LIBNUMALLOC.SO - a program that was linked with 0.1, whose library had no
# versions, runs with this one, linked and preloaded; one that is linked now asks for NUMALLOC_1; the
# forms of 0.1 compile, with a warning that names the new one; and structures of any size are filled
# as far as they reach.
set -euo pipefail
cc=$1 include=$(realpath "$2") library=$(realpath "$3")
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
    echo "FAIL: $*" >&2
    exit 1
}

# The library of 0.1, as far as the linker sees it.
sed -n 's/^numalloc_[a-z_]*$/void &(void) {}/p' "$here/exports.txt" >old.c
"$cc" -shared -fPIC -Wl,-soname,libnumalloc.so.0 old.c -o libnumalloc.so.0
"$cc" -DNUMALLOC_WEAK -Wno-deprecated-declarations -I"$include" "$here/interface_old.c" -o old -L. -l:libnumalloc.so.0
readelf -V old | grep NUMALLOC >/dev/null && fail "the old program is not one"
rm libnumalloc.so.0
LD_LIBRARY_PATH=$(dirname "$library") ./old || fail "a program linked with 0.1: status $?"
LD_PRELOAD=$library ./old || fail "a program of 0.1 with the library preloaded: status $?"

"$cc" -fsyntax-only -Wdeprecated-declarations -I"$include" "$here/interface_old.c" 2>warnings
for form in numalloc_read_stats numalloc_read_node_stats numalloc_heap_read_stats numalloc_scan_leaks \
    numalloc_find_site numalloc_record_start numalloc_record_stop numalloc_record_dump \
    numalloc_record_is_running numalloc_record_marker numalloc_record_request; do
    grep -q "deprecated.*$form(" warnings || fail "no warning names $form"
done
"$cc" -fsyntax-only -Werror -DNUMALLOC_NO_DEPRECATED -I"$include" "$here/interface_old.c" 2>/dev/null &&
    fail "NUMALLOC_NO_DEPRECATED leaves the old forms in"

"$cc" -Wall -Wextra -Werror -I"$include" "$here/interface_new.c" -o new "$library"
readelf -V new | grep 'Name: NUMALLOC_1 ' >/dev/null || fail "the new program asks for no version"
LD_LIBRARY_PATH=$(dirname "$library") ./new || fail "a program linked now: status $?"
