#!/usr/bin/env bash
# release.sh - makes a release of what is committed: tests, tables, packages, notes.
set -euo pipefail
export LC_ALL=C.UTF-8

usage() {
    cat <<USAGE
usage: scripts/release.sh [--dry-run] VERSION

Runs ./test.sh, writes the documents' tables anew (scripts/docs.py), builds the Debian packages
(scripts/deb.sh) and writes their notes, the section VERSION of CHANGELOG.md, to build/release-VERSION/
beside the packages. It tags and uploads nothing. Refused: a checkout with changes that are not
committed, a version that include/numalloc/numalloc.h or CHANGELOG.md does not have, one that is
"unreleased" still, or has its tag already.

  --dry-run    checks, and says what it would run; writes and runs nothing. A version that is
               unreleased is good, so that the rest can be tried
USAGE
}

die() {
    echo "release: $*" >&2
    exit 1
}

dry=0 version=
for word; do
    case $word in
    -h | --help)
        usage
        exit 0
        ;;
    --dry-run) dry=1 ;;
    -*) die "no such option: $word; see scripts/release.sh --help" ;;
    *)
        [[ -z $version ]] || die "one version at a time: $word"
        version=$word
        ;;
    esac
done
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || die "takes a version such as 1.0.0, not: '$version'"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What the checkout must be.
[[ -z $(git status --porcelain) ]] || die "the checkout has changes that are not committed"
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || die "v$version is tagged already"
heading=$(grep -m 1 -F "## $version " CHANGELOG.md) || die "CHANGELOG.md has no section $version"
notes=$(awk -v heading="$heading" '$0 == heading { on = 1; next } /^## / { on = 0 } on' CHANGELOG.md)
[[ $notes == *-* ]] || die "the section $version of CHANGELOG.md is empty"
has=$(sed -n 's/^#define NUMALLOC_VERSION_[A-Z]* //p' include/numalloc/numalloc.h | paste -sd .)
if [[ $dry -eq 0 ]]; then
    [[ $heading != *unreleased* ]] || die "CHANGELOG.md says that $version is unreleased: give it its date"
    [[ $has == "$version" ]] || die "include/numalloc/numalloc.h has version $has"
    [[ $(dpkg-parsechangelog -S Version) == "$version"* ]] ||
        die "debian/changelog has version $(dpkg-parsechangelog -S Version)"
fi

run() {
    echo "release: $*"
    [[ $dry -eq 1 ]] || "$@"
}
out=build/release-$version
run ./test.sh
run scripts/docs.py
[[ -z $(git status --porcelain) ]] || die "the tables of the documents were not those of the sources: commit them"
run scripts/deb.sh --source --out "$out"
if [[ $dry -eq 1 ]]; then
    echo "release: would write $out/NOTES.md:"
    echo "$notes"
else
    echo "$notes" >"$out/NOTES.md"
    echo "release: $out has the packages and NOTES.md; then: git tag -a v$version -F $out/NOTES.md"
fi
