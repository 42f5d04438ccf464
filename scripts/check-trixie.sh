#!/usr/bin/env bash
# check-trixie.sh - what the README says, in a new Debian 13 (trixie): ./demo.sh and ./test.sh of what is
# committed, and a build with clang and its tests. An hour. Status 77, and a line that says why, where
# that cannot be done.
set -euo pipefail
export LC_ALL=C.UTF-8
source=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/chroot.sh
. "$source/scripts/chroot.sh"

fresh trixie
install git ca-certificates
git clone -q --no-hardlinks "$source" "$root/src/numalloc"
status=0
run() { # TITLE COMMAND: in the checkout
    say "$1"
    inside sh -c "cd /src/numalloc && $2" >"$work/$1.log" 2>&1 || {
        status=1
        grep -E 'Failed|FAILED|\*\*\*|error:' "$work/$1.log" | tail -n 40
        echo "$script: FAILED: $1: $work/$1.log" >&2
    }
    tail -n 3 "$work/$1.log"
}
run demo ./demo.sh
run test ./test.sh
run clang 'cmake --preset clang -DNUMALLOC_TESTS=ON -DNUMALLOC_NIGHTLY=OFF && cmake --build --preset clang -- -k 0 &&
    ctest --preset clang -L "^(unit|conform|quick|programs)\$" -j "$(nproc)"'
exit $status
