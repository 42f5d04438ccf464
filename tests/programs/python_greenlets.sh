#!/bin/bash
# python_greenlets.sh LIBRARY NUMALLOC_DUMP - Python frames where greenlets switch to each other, in two
# threads: the profile has the same bytes as the interpreter says of its stacks.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
. "$(dirname "$0")/python_lib.sh"
python=/usr/bin/python3
"$python" -c 'import greenlet' 2>/dev/null || skip "greenlets are missing; install the package 'python3-greenlet'"
version=$(version_of "$python") || skip "no $python_known in $python"

points=400 modes=sites
[ "$TEST_SCALE" != full ] || points=1000 modes="sites trace"
for mode in $modes; do
    as_interpreter "$python" "$version" $mode script_greenlets.py $points 1 without-faulthandler
done
