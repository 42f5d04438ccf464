#!/usr/bin/env bash
# soak.sh - randomised stress in the modes that look for errors, added up: a word about a program that
# makes none is a false report. docs/hardening.md has the sum so far.
set -euo pipefail

# Modes and programs take turns; a turn is so many seconds of one program, with a seed of its own.
modes=("NUMALLOC_CHECK=0" "NUMALLOC_CHECK=1" "NUMALLOC_HARDEN=1" "NUMALLOC_HARDEN=2" "NUMALLOC_GUARD=1"
    "NUMALLOC_GUARD=1 NUMALLOC_GUARD_EACH=16" "NUMALLOC_GUARD=1 NUMALLOC_PROFILE=sites" "NUMALLOC_LEAKS=1")
programs=(stress handover realloc_storm)
turn=20

usage() {
    cat <<EOF
usage: scripts/soak.sh [--hours H] [--journal FILE] [--build DIR]
       scripts/soak.sh --sum [--journal FILE]

Runs conform-stress, -handover and -realloc_storm in turn, with new seeds, for H hours (1), in each of
  ${modes[*]/#/
  }
and writes a line for each turn to FILE (build/soak.journal): when, which build, mode, program, seed,
seconds, processor seconds, status, lines that the library said. What was said is in FILE.said. The
status is 1 if there was a word, or a program failed. --sum adds up a journal: hours and words by mode.
DIR: where the programs are (build/release).
EOF
}

die() {
    echo "soak.sh: $*" >&2
    exit 2
}

cd "$(dirname "${BASH_SOURCE[0]}")/.."
hours=1 journal=build/soak.journal build=build/release sum=
while [[ $# -gt 0 ]]; do
    case $1 in
    --hours | --journal | --build)
        [[ $# -gt 1 ]] || die "$1 needs a value; see --help"
        declare "${1#--}=$2"
        shift
        ;;
    --sum) sum=1 ;;
    -h | --help)
        usage
        exit 0
        ;;
    *) die "there is no '$1'; see --help" ;;
    esac
    shift
done

add_up() {
    awk -F'\t' '
        { turns[$3]++; wall[$3] += $6; busy[$3] += $7; words[$3] += $9; failed[$3] += $8 != 0; all += $6; used += $7
          said += $9; bad += $8 != 0 }
        END {
            printf "%-46s %7s %8s %16s %6s %7s\n", "mode", "turns", "hours", "processor hours", "words", "failed"
            for (m in turns)
                printf "%-46s %7d %8.2f %16.2f %6d %7d\n", m, turns[m], wall[m] / 3600, busy[m] / 3600, words[m], failed[m]
            printf "%-46s %7d %8.2f %16.2f %6d %7d\n", "all", NR, all / 3600, used / 3600, said, bad
        }' "$1"
}

if [[ -n $sum ]]; then
    [[ -r $journal ]] || die "there is no journal '$journal'"
    add_up "$journal"
    exit 0
fi

library=$PWD/$build/libnumalloc.so
[[ $build != /* ]] || library=$build/libnumalloc.so
[[ -r $library ]] || die "there is no library '$library'; build it"
end=$(awk -v now="$EPOCHREALTIME" -v hours="$hours" 'BEGIN { if (hours + 0 <= 0) exit 1; printf "%d", now + hours * 3600 }') ||
    die "'$hours' is no number of hours"
commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$(dirname "$journal")"

status=0
TIMEFORMAT='%R %U %S'
for ((n = 0; $(date +%s) < end; n++)); do
    mode=${modes[n % ${#modes[@]}]}
    program=${programs[n / ${#modes[@]} % ${#programs[@]}]}
    seed=$((RANDOM << 15 ^ RANDOM))
    rc=0
    : >"$work/err"
    # shellcheck disable=SC2086
    { time env $mode NA_TEST_SEED=$seed NA_TEST_LIB="$library" LD_PRELOAD="$library" NUMALLOC_PROFILE_FILE="$work/profile" \
        "$(dirname "$library")/tests/conform-$program" "$turn" >"$work/out" 2>"$work/err"; } 2>"$work/time" || rc=$?
    words=$(grep -c '^numalloc: ' "$work/err" || true)
    read -r wall user system <<<"$(tail -n 1 "$work/time")"
    printf '%s\t%s\t%s\t%s\t%d\t%s\t%s\t%d\t%d\n' "$(date -u +%FT%TZ)" "$commit" "$mode" "$program" "$seed" "$wall" \
        "$(awk -v u="$user" -v s="$system" 'BEGIN { print u + s }')" "$rc" "$words" >>"$journal"
    if [[ $rc -ne 0 || $words -ne 0 ]]; then
        status=1
        printf '== %s %s, seed %d: status %d\n' "$mode" "$program" "$seed" "$rc" | cat - "$work/err" >>"$journal.said"
    fi
    rm -f "$work"/profile*
done
add_up "$journal"
exit "$status"
