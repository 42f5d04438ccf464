#!/usr/bin/env bash
# profile_small.sh LIBNUMALLOC.SO NUMALLOC-DUMP PROGRAM - a process that allocates little has a small
# profile that costs it little (profile_small.py has the checks).
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need python3 python3 valgrind valgrind
cd "$work"
python3 "$test_source/profile_small.py" "$lib" "$(readlink -f "$2")" "$(readlink -f "$3")"
