#!/bin/sh
# numa-check.sh - what numalloc does on this machine with several nodes: one report, to be sent to
# the project. Ten minutes at most; each step has a limit of its own, and says what it could not do.
# In virtual machines (tests/lab) placement can be judged, and time cannot: real ones are asked here.
set -u
export LC_ALL=C

usage() {
    cat <<EOF
usage: scripts/numa-check.sh [--build DIR] [--seconds N] [--quick] >report.txt

Prints a report: the machine, where pages lie under each allocator that is installed, first touch,
the remote share that the processor counts, how fast loads are with one, half and all processors,
and verdicts on test programs. Needs a build with tests (cmake --preset release
-DNUMALLOC_TESTS=ON && cmake --build --preset release); as root, or with
kernel.perf_event_paranoid at most 2, it says more. It changes nothing on the machine.

  --build DIR    the build (build/release)
  --seconds N    end after so long (600); a step for which no time is left says so
  --quick        small loads: for emulated machines
EOF
}

here=$(cd "$(dirname "$0")/.." && pwd)
build=$here/build/release seconds=600 rounds=40 largest=22 loads="churn larson handoff threadtest"
while [ $# -gt 0 ]; do
    case $1 in
    --build | --seconds)
        [ $# -ge 2 ] || { echo "numa-check: $1 needs a value" >&2; exit 2; }
        if [ "$1" = --build ]; then build=$2; else seconds=$2; fi
        shift 2
        ;;
    --quick) rounds=2 largest=18 loads="churn handoff"; shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "numa-check: there is no option $1; --help lists them" >&2; exit 2 ;;
    esac
done
case $seconds in '' | *[!0-9]*) echo "numa-check: --seconds needs a number" >&2; exit 2 ;; esac
library=$build/libnumalloc.so bench=$build/numalloc-bench
for file in "$library" "$bench"; do
    [ -e "$file" ] || { echo "numa-check: $file is missing; build first (see --help)" >&2; exit 2; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
end=$(($(date +%s) + seconds))

# LIMIT COMMAND...: runs it for no longer than that, nor beyond the end. What it prints is in $out,
# why it failed in $why.
step() {
    limit=$1
    shift
    left=$((end - $(date +%s)))
    [ "$limit" -le $left ] || limit=$left
    : >"$scratch/out"
    if [ "$limit" -le 0 ]; then
        why="no time left" status=125
        return 1
    fi
    timeout -s KILL "$limit" "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
    case $status in
    0) why= ;;
    124 | 137) why="stopped after $limit s" ;;
    77) why="cannot run here: $(cat "$scratch/out" "$scratch/err" | tail -n 1)" ;;
    *) why="failed ($status): $(tail -n 1 "$scratch/err")" ;;
    esac
    return $status
}

metric() { # NAME: of what the last step printed
    awk -F'\t' -v metric="$1" '$1 == "metric" && $2 == metric { printf "%.4g", $NF; found = 1 }
        END { if (!found) printf "-" }' "$scratch/out"
}

show() { # FILE TITLE
    [ -r "$1" ] && echo "$2: $(cat "$1" 2>/dev/null)"
}

# NAME=FILE of each allocator; glibc's has no file.
allocators="numalloc=$library glibc="
for peer in jemalloc=libjemalloc.so.2 tcmalloc=libtcmalloc_minimal.so.4 mimalloc=libmimalloc.so.2 \
    mimalloc3=libmimalloc.so.3; do
    for file in /usr/lib/*/"${peer#*=}" /usr/lib64/"${peer#*=}" /usr/local/lib/"${peer#*=}"; do
        if [ -e "$file" ]; then
            allocators="$allocators ${peer%%=*}=$file"
            break
        fi
    done
done

echo "== numalloc numa-check"
echo "kernel: $(uname -srm)"
grep -m 1 'model name' /proc/cpuinfo
for file in /sys/devices/system/cpu/online /sys/devices/system/node/online \
    /sys/devices/system/node/has_memory /proc/sys/kernel/numa_balancing \
    /proc/sys/kernel/perf_event_paranoid /sys/kernel/mm/transparent_hugepage/enabled; do
    show "$file" "$file"
done
nodes=0
for node in /sys/devices/system/node/node[0-9]*; do
    [ -d "$node" ] || continue
    nodes=$((nodes + 1))
    echo "${node##*/}: processors $(cat "$node/cpulist"), distances $(cat "$node/distance")," \
        "$(awk '/MemTotal/ { total = $4 } /MemFree/ { free = $4 }
            END { printf "%d MiB, %d free", total / 1024, free / 1024 }' "$node/meminfo")"
done
grep -E 'Cpus_allowed_list|Mems_allowed_list' /proc/self/status
[ $nodes -ge 2 ] || echo "this machine has one node: what follows says nothing of NUMA"
echo "load: $(cat /proc/loadavg)"
"$bench" --version 2>/dev/null | head -n 1

echo
echo "== where pages lie: accesses to the worker's own node, %, by move_pages"
echo "   (pinned; moved to another node half way; after the move)"
kaminski() { # TITLE VARIABLE...
    title=$1
    shift
    for repin in off on; do
        if step 25 env "$@" "$bench" numa --rounds "$rounds" --max-log2 "$largest" --passes 1 --warmup 0 \
            --repetitions 1 --pin on --repin $repin --tsv --details; then
            line="$(metric 'local accesses')"
            [ $repin = off ] && pinned=$line
        else
            line="($why)"
            [ $repin = off ] && pinned=$line
        fi
    done
    printf '%-20s %10s %10s %10s\n' "$title" "$pinned" "$line" "$(metric 'local accesses after the move')"
}
failed=0
for allocator in $allocators; do
    kaminski "${allocator%%=*}" "LD_PRELOAD=${allocator#*=}"
    case ${allocator%%=*},$pinned in numalloc,'('* | numalloc,-) failed=1 ;; esac
done
for mode in strict unbound off; do
    kaminski "numalloc $mode" "LD_PRELOAD=$library" NUMALLOC_NUMA=$mode
done

echo
echo "== first touch of large blocks, by the thread of each node"
if [ ! -e "$build/tests/lab-first_touch" ]; then
    echo "not built"
elif step 60 env "LD_PRELOAD=$library" "$build/tests/lab-first_touch"; then
    echo "every part lies on its node"
else
    echo "$why"
    tail -n 5 "$scratch/out"
fi

echo
echo "== remote share by the processor's counters (perf stat: node-loads, node-load-misses)"
if ! command -v perf >/dev/null 2>&1; then
    echo "not counted: perf is not installed"
else
    for allocator in $allocators; do
        if step 20 perf stat -x, -e node-loads,node-load-misses env "LD_PRELOAD=${allocator#*=}" \
            "$bench" numa --rounds "$rounds" --max-log2 "$largest" --warmup 0 --repetitions 1 --pin on; then
            awk -F, -v name="${allocator%%=*}" '/node-loads/ { all = $1 } /node-load-misses/ { far = $1 }
                END { if (all + 0 > 0) printf "%-20s %d loads, %.1f %% of them remote\n", name, all, 100 * far / all
                    else printf "%-20s not counted: this processor or kernel has no such event (%s)\n", name, all }' \
                "$scratch/err"
        else
            printf '%-20s %s\n' "${allocator%%=*}" "$why"
        fi
    done
fi

echo
echo "== loads, native: 1, half and all processors (time an object)"
processors=$(grep -c '^processor' /proc/cpuinfo)
half=$(((processors + 1) / 2))
threads=1
[ $half -le 1 ] || threads="$threads $half"
[ "$processors" -le "$half" ] || threads="$threads $processors"
for load in $loads; do
    for count in $threads; do
        [ "$load" != handoff ] || [ "$count" -ge 2 ] || continue
        printf '%-10s %3d threads:' "$load" "$count"
        for allocator in $allocators; do
            if step 8 env "LD_PRELOAD=${allocator#*=}" "$bench" "$load" --threads "$count" --warmup 1 \
                --repetitions 3 --tsv; then
                figure=$(awk -F'\t' '$1 == "metric" && $5 == "headline" && $6 == "time" {
                    printf "%.4g %s", $NF, $3; exit }' "$scratch/out")
            else
                figure="($why)"
            fi
            printf '  %s %s' "${allocator%%=*}" "${figure:-(no figure)}"
        done
        echo
    done
done

echo
echo "== verdicts by watchpoints, on programs whose truth is known, wrong and mended"
for pattern in handoff migrated partition sharing; do
    if [ ! -e "$build/tests/lab-truth" ] || [ ! -e "$build/tests/lab-patterns" ]; then
        echo "$pattern: not built"
    elif step 60 env "TRUTH_LIB=$library" "$build/tests/lab-truth" watch $pattern; then
        echo "$pattern: right"
    else
        echo "$pattern: $why"
    fi
    grep -E '^(wrong|mended): [a-z_]+: ' "$scratch/err" "$scratch/out" 2>/dev/null | sed 's/^[^:]*:/  /' |
        tail -n 4
done
echo
echo "== end: $((seconds - end + $(date +%s))) s"
exit $failed # numalloc itself could not be judged
