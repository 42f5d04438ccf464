#!/usr/bin/env bash
# check-release.sh - scripts/release.sh, in a clone: --dry-run says what it would do and writes nothing;
# what is no release is refused in one line. Status 77 outside of a git checkout.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
git -C "$source" rev-parse -q --verify HEAD >/dev/null 2>&1 || {
    echo "check-release: skipped: $source is no git checkout"
    exit 77
}
git clone -q --depth 1 "file://$source" "$scratch/clone"
cp "$source/scripts/release.sh" "$source/CHANGELOG.md" "$scratch"
cd "$scratch/clone"
git config user.name check && git config user.email check@numalloc.invalid
cp "$scratch/release.sh" scripts/ && cp "$scratch/CHANGELOG.md" .
git add -A && git commit -q --allow-empty -m "Check the release"

fail() {
    echo "check-release: FAILED: $*" >&2
    exit 1
}
refused() { # PATTERN ARGUMENT...
    local pattern=$1 said
    shift
    ! said=$(scripts/release.sh "$@" 2>&1) && [[ $(wc -l <<<"$said") -eq 1 && $said == *$pattern* ]] ||
        fail "release.sh $*: $said"
}
version=$(sed -n 's/^## \([0-9.]*\) (unreleased)$/\1/p' CHANGELOG.md | head -n 1)
if [[ -n $version ]]; then
    said=$(scripts/release.sh --dry-run "$version") || fail "--dry-run ends with status $?"
    for step in ./test.sh scripts/docs.py scripts/deb.sh NOTES.md; do
        [[ $said == *"$step"* ]] || fail "--dry-run says nothing of $step: $said"
    done
    [[ -z $(git status --porcelain --ignored) ]] || fail "--dry-run writes $(git status --porcelain --ignored)"
    refused "is unreleased" "$version"
fi
refused "takes a version"
refused "takes a version" --dry-run 1.0
refused "has no section 99.0.0" --dry-run 99.0.0
git tag v0.1.0
refused "is tagged already" --dry-run 0.1.0
echo >>README.md
refused "not committed" --dry-run "${version:-0.1.0}"
echo "check-release: ok"
