#!/usr/bin/env bash
# first_pages.sh LIBNUMALLOC.SO PROGRAM STILL_CLOCK.SO LAYOUT.MAP LAYOUT.PY - a small program, with
# threads or without, runs and reads nothing of the library that lies beyond its file's first 64 KiB,
# which is what the system maps at once (alloc/layout.ld); one that takes some MiB nothing beyond the
# second. Where it passes once in three runs, it does: now and then a thread waits for another.
#
# Valgrind's lackey tells each address, the linker's map what lies there. The clock stands still:
# what goes by time (memory that is free for half a second is purged) never runs, however slow the
# machine.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
program=$2 clock=$3 map=$4 layout=$5
need valgrind valgrind
[ -x /usr/bin/python3 ] || skip "program '/usr/bin/python3' is missing; install the package 'python3'"
[ ! -e /sys/devices/system/node/node1 ] || skip "on a machine with several nodes more of it runs"

status=0
check() { # KIB COMMAND...
    for _ in 1 2 3; do
        if "$layout" beyond "$map" "$lib" "$clock" "$@"; then return; fi
    done
    status=1
}
check 64 "$program" single 1000
check 64 "$program" mixed 1000
check 64 "$program" threads 1000
check 64 cat "$map"
check 128 sort --buffer-size=8M
exit "$status"
