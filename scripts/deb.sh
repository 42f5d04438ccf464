#!/usr/bin/env bash
# deb.sh - builds the Debian packages (debian/) in build/deb/ and checks them with lintian.
# docs/packaging.md.
set -euo pipefail
export LC_ALL=C.UTF-8

usage() {
    cat <<USAGE
usage: scripts/deb.sh [--out DIR] [--source] [--no-lintian] [--jobs N]

Builds libnumalloc0, libnumalloc-profile0, libnumalloc-dev, numalloc-tools, numalloc-dkms and
python3-numalloc from the files of this checkout as they are, and leaves them in DIR (default: build/deb). Install them
with: sudo apt install build/deb/*.deb

  --out DIR      where the packages go; what is there of an earlier run is replaced
  --source       also the source package, for sbuild and for archives
  --no-lintian   no lintian
  --jobs N       N build jobs at a time (default: the number of processors)
USAGE
}

die() {
    echo "deb.sh: $*" >&2
    exit 1
}

out=build/deb
lintian=1
jobs=$(nproc)
what=--build=binary
while [[ $# -gt 0 ]]; do
    case $1 in
    --out | --jobs)
        [[ -n ${2:-} ]] || die "$1 needs a value; see scripts/deb.sh --help"
        if [[ $1 == --out ]]; then out=$(realpath -m "$2"); else jobs=$2; fi
        shift
        ;;
    --source) what=--build=full ;;
    --no-lintian) lintian=0 ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        echo "deb.sh: unknown argument '$1'; see scripts/deb.sh --help" >&2
        exit 2
        ;;
    esac
    shift
done
[[ $jobs =~ ^[1-9][0-9]*$ ]] || die "--jobs needs a number of 1 or more, not '$jobs'"

cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=(dpkg-buildpackage dpkg-checkbuilddeps dpkg-parsechangelog)
[[ $lintian -eq 0 ]] || tools+=(lintian)
for tool in "${tools[@]}"; do
    command -v "$tool" >/dev/null ||
        die "$tool is missing: apt-get install dpkg-dev debhelper dh-dkms lintian"
done
missing=$(dpkg-checkbuilddeps 2>&1) || die "$missing (apt-get build-dep ./ installs them)"

# The version has one home, the public header; the changelog must have followed.
part() { sed -n "s/^#define NUMALLOC_VERSION_$1 //p" include/numalloc/numalloc.h; }
version=$(part MAJOR).$(part MINOR).$(part PATCH)
listed=$(dpkg-parsechangelog -S Version)
[[ $listed == "$version" ]] ||
    die "debian/changelog is at $listed, include/numalloc/numalloc.h at $version: add an entry with dch"

# A copy of the sources, so that nothing of the build is left in the checkout, and nothing that
# is not part of it gets in.
tree=$out/numalloc-$version
rm -rf "$tree" "$out"/*numalloc*_"$version"*
mkdir -p "$tree"
if [[ $(git rev-parse --show-toplevel 2>/dev/null) == "$PWD" ]]; then
    git ls-files -z --cached --others --exclude-standard
else
    find . -path ./build -prune -o -type f -print0
fi | while IFS= read -r -d '' file; do [[ -e $file ]] && printf '%s\0' "$file"; done |
    tar -cf - --null --no-recursion -T - | tar -xf - -C "$tree"

# Debian's tools, and none of the caller's flags, options or preloaded libraries.
log=$out/build.log
if ! (cd "$tree" && env -i HOME="$out" PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL="$LC_ALL" \
    DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:+$DEB_BUILD_OPTIONS }parallel=$jobs" \
    ${DEB_BUILT:+DEB_BUILT="$DEB_BUILT" DPKG_DEB_COMPRESSOR_LEVEL=0} \
    dpkg-buildpackage $what --no-sign) >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    die "the build failed; the lines above are the end of $log"
fi
rm -rf "$tree"

if [[ $lintian -eq 1 ]]; then
    # lintian masks metadata of Python, and fails of it nevertheless. Three bytes of code may look like a
    # word. Without optimisation the C library's headers fortify nothing.
    suppressed=package-contains-documentation-outside-usr-share-doc,spelling-error-in-binary
    [[ -z ${DEB_BUILT:-} ]] || suppressed+=,hardening-no-bindnow,hardening-no-fortify-functions
    [[ " ${DEB_BUILD_OPTIONS:-} " != *" noopt "* ]] || suppressed+=,hardening-no-fortify-functions
    lintian --allow-root -EviI --pedantic --fail-on error,warning,info,pedantic,experimental \
        --suppress-tags "$suppressed" \
        "$out"/numalloc_"$version"_*.changes >"$out/lintian.log" 2>&1 || {
        grep -v '^N:' "$out/lintian.log" >&2 || true
        die "lintian has something to say; $out/lintian.log explains it"
    }
fi
ls -1 "$out"/*_"$version"_*.deb
