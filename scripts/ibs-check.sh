#!/usr/bin/env bash
# ibs-check.sh - what the instruction-based sampling (IBS) of this machine's AMD processor gives, and
# what numalloc makes of it: a report of two pages, to be sent to the project. Five minutes, root.
# docs/kmod-ibs.md says what only such a machine can show.
set -uo pipefail
export LC_ALL=C

usage() {
    cat <<EOF
usage: scripts/ibs-check.sh [--build DIR] [--period OPS] [--module FILE] [SECONDS]

Prints a report: the machine, how exact its samples are, what they cost, and the verdicts of the
project's own test programs by the module and by perf. Needs root, and a build with tests
(cmake --preset release -DNUMALLOC_TESTS=ON && cmake --build --preset release).

  --build DIR    the build (build/release)
  --period OPS   one sample in so many ops (65536; the verdicts: the library's default)
  --module FILE  the kernel module to load if none is (the installed one, DIR's, or one made from
                 kmod-ibs/ for the running kernel)
  SECONDS        of sampling in the first part (10)
EOF
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$here/build/release period=65536 module='' seconds=10 settings=()
while [[ $# -gt 0 ]]; do
    case $1 in
    --build | --period | --module)
        [[ $# -ge 2 ]] || { echo "ibs-check: $1 needs a value" >&2; exit 2; }
        case $1 in
        --build) build=$2 ;;
        --period) period=$2 settings=("NUMALLOC_ACCESS_PERIOD=$2") ;;
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
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for file in "$bin/lab-ibs-check" "$bin/lab-truth" "$library"; do
    [[ -e $file ]] || { echo "ibs-check: $file is missing; build with tests (see --help)" >&2; exit 2; }
done

# --- the module ---

# Each step has a time of its own: a report with a hole is better than none.
step() {
    timeout -k 5 "$@"
    local status=$?
    [[ $status -ne 124 && $status -ne 137 ]] || echo "   (stopped after $1 s)"
    return $status
}
kernel=$(uname -r)
fits() { # FILE: is it built for this kernel?
    [[ -e $1 && $(modinfo -F vermagic "$1" 2>/dev/null) == "$kernel "* ]]
}
# Loads the module of this kernel: the one given, the installed one, that of the build, or one made now.
load_module() {
    [[ ! -e /dev/numalloc_ibs ]] || { echo "loaded before: version $(cat /sys/module/numalloc_ibs/version \
        /sys/module/numalloc_ibs/srcversion 2>/dev/null | head -n 1)"; return 0; }
    if [[ -z $module ]] && modprobe numalloc_ibs 2>/dev/null; then
        echo "loaded by modprobe"
        return 0
    fi
    if [[ -z $module ]]; then
        module=$build/kmod-ibs/numalloc_ibs.ko
        if ! fits "$module"; then
            local headers=/lib/modules/$kernel/build
            if [[ ! -e $headers/Makefile ]]; then
                echo "not loaded: $module is not for Linux $kernel, and there are no headers to build" \
                    "one (Debian: apt install linux-headers-$kernel)"
                return 1
            fi
            cp -r "$here/kmod-ibs" "$scratch/kmod-ibs"
            if ! step 120 make -C "$scratch/kmod-ibs" KDIR="$headers" >"$scratch/make.log" 2>&1; then
                echo "not loaded: it does not build for Linux $kernel:"
                tail -n 5 "$scratch/make.log"
                return 1
            fi
            module=$scratch/kmod-ibs/numalloc_ibs.ko
            echo "built for Linux $kernel"
        fi
    fi
    local said
    said=$(insmod "$module" 2>&1) || true
    [[ -e /dev/numalloc_ibs ]] && { echo "loaded from $module"; return 0; }
    echo "not loaded: ${said:-insmod $module failed}"
    dmesg 2>/dev/null | grep -iE 'numalloc_ibs|lockdown|module verification|Loading of' | tail -n 3
    return 1
}

echo "== numalloc ibs-check"
modprobe msr 2>/dev/null || true
dmesg 2>/dev/null | grep -iE 'perf: AMD IBS|IBS APIC|\[Firmware Bug\].*IBS|LVT offset' | tail -n 5
echo "perf_event_paranoid: $(cat /proc/sys/kernel/perf_event_paranoid)"
step $((seconds * 3 + 180)) "$bin/lab-ibs-check" "$seconds" "$period"
[[ $? -ne 1 ]] || exit 1

echo "== numalloc"
sources=ibs
if load_module; then
    sources="kmod ibs"
    dmesg 2>/dev/null | grep numalloc_ibs | tail -n 2
fi
for source in $sources; do
    for pattern in handoff migrated partition; do
        echo "-- $source $pattern"
        TRUTH_LIB=$library NA_KMOD=$module step 100 env "${settings[@]}" \
            "$bin/lab-truth" "$source" "$pattern" 2>&1
        echo "   status $?"
    done
done
dmesg 2>/dev/null | grep -E 'BUG|WARNING|Uhhuh|interrupt took too long' | tail -n 5
