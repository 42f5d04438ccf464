#!/usr/bin/env bash
# ibs-check.sh - what the instruction-based sampling (IBS) of this machine's AMD processor gives, and
# what numalloc makes of it: a report of two pages, to be sent to the project. Five minutes, root.
# docs/ibs-emulation.md says what an emulated processor reports.
set -uo pipefail
export LC_ALL=C

usage() {
    cat <<EOF
usage: scripts/ibs-check.sh [--build DIR] [--period OPS] [--module FILE] [SECONDS]

Prints a report: the machine, how exact its samples are, what they cost, and the verdicts of the
project's own test programs by the module and by perf. Needs root, and a build with tests
(cmake --preset release -DNUMALLOC_TESTS=ON && cmake --build --preset release).

  --build DIR    the build (build/release)
  --period OPS   one sample in so many ops (65536)
  --module FILE  the kernel module to load if it is not (DIR/kmod-ibs/numalloc_ibs.ko)
  SECONDS        of sampling in the first part (10)
EOF
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$here/build/release period=65536 module='' seconds=10
while [[ $# -gt 0 ]]; do
    case $1 in
    --build | --period | --module)
        [[ $# -ge 2 ]] || { echo "ibs-check: $1 needs a value" >&2; exit 2; }
        case $1 in
        --build) build=$2 ;;
        --period) period=$2 ;;
        --module) module=$2 ;;
        esac
        shift 2
        ;;
    -h | --help) usage; exit 0 ;;
    *)
        [[ $1 =~ ^[1-9][0-9]*$ ]] || { echo "ibs-check: there is no option $1; --help lists them" >&2; exit 2; }
        seconds=$1
        shift
        ;;
    esac
done
[[ $period =~ ^[1-9][0-9]*$ ]] || { echo "ibs-check: --period needs a number" >&2; exit 2; }
[[ $(id -u) -eq 0 ]] || { echo "ibs-check: this needs root" >&2; exit 2; }
bin=$build/tests library=$build/libnumalloc.so
: "${module:=$build/kmod-ibs/numalloc_ibs.ko}"
for file in "$bin/lab-ibs-check" "$bin/lab-truth" "$library"; do
    [[ -e $file ]] || { echo "ibs-check: $file is missing; build with tests (see --help)" >&2; exit 2; }
done

echo "== numalloc ibs-check"
dmesg 2>/dev/null | grep -iE 'perf: AMD IBS|IBS APIC|\[Firmware Bug\].*IBS|LVT offset' | tail -n 5
"$bin/lab-ibs-check" "$seconds" "$period" || exit 1

echo "== numalloc"
sources=ibs
if [[ -e /dev/numalloc_ibs ]] || insmod "$module" 2>/dev/null || [[ -e /dev/numalloc_ibs ]]; then
    sources="kmod ibs"
    dmesg 2>/dev/null | grep numalloc_ibs | tail -n 2
else
    echo "the module is not loaded, and $module does not load"
fi
for source in $sources; do
    for pattern in handoff migrated partition; do
        echo "-- $source $pattern"
        TRUTH_LIB=$library NA_KMOD=$module NUMALLOC_ACCESS_PERIOD=$period timeout 100 \
            "$bin/lab-truth" "$source" "$pattern" 2>&1
        echo "   status $?"
    done
done
dmesg 2>/dev/null | grep -E 'BUG|WARNING|Uhhuh|interrupt took too long' | tail -n 5
