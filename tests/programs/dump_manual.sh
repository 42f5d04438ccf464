#!/bin/bash
# dump_manual.sh - the manual pages and the bash completion know every view, option, benchmark,
# environment variable and function that there is. Usage: dump_manual.sh LIBRARY NUMALLOC_DUMP
# NUMALLOC_BENCH NUMALLOC_RUN SOURCE_ROOT.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
dump=$2 bench=$3 run=$4 root=$5
need mandoc mandoc

pages=("$root"/docs/man/*.[13])
[ "${#pages[@]}" -eq 5 ] || fail "expected 5 pages, found ${pages[*]}"
for page in "${pages[@]}"; do
    mandoc -Tlint -W warning "$page" >"$work/lint" 2>&1 || fail "mandoc on ${page##*/}: $(head -n 5 "$work/lint")"
    mandoc -Tutf8 "$page" | sed 's/.\x08//g' | tr -c 'A-Za-z0-9_-' '\n' | sort -u >"$work/$(basename "$page").words"
done

# knows PAGE WORD...: the word is in the page, as a word.
knows() {
    local page=$1 missing
    shift
    missing=$(printf '%s\n' "$@" | sort -u | comm -23 - "$work/$page.words")
    [ -z "$missing" ] || fail "$page does not mention ${missing//$'\n'/ }"
}
mapfile -t views < <("$dump" help --names)
[ "${#views[@]}" -gt 20 ] || fail "numalloc-dump has ${#views[@]} views only"
knows numalloc-dump.1 "${views[@]}"
for view in "${views[@]}"; do
    [ "$view" = help ] && continue
    mapfile -t options < <("$dump" help "$view" --names | tr -d =)
    knows numalloc-dump.1 "${options[@]}"
done
mapfile -t benchmarks < <("$bench" --help | sed -n '/^Benchmarks:/,$p' | sed -nE 's/^  ([a-z][a-z-]*) .*/\1/p')
[ "${#benchmarks[@]}" -gt 10 ] || fail "numalloc-bench has ${#benchmarks[@]} benchmarks only"
knows numalloc-bench.1 "${benchmarks[@]}"
mapfile -t options < <("$bench" compare --help | sed -n '/^Options:/,$p' | sed -nE 's/^  (--[a-z-]+) .*/\1/p')
[ "${#options[@]}" -gt 10 ] || fail "numalloc-bench compare has ${#options[@]} options only"
knows numalloc-bench.1 "${options[@]}"
mapfile -t options < <("$run" --names | sed -E 's/\[?=\]?//')
[ "${#options[@]}" -gt 15 ] || fail "numalloc-run has ${#options[@]} options only"
knows numalloc-run.1 "${options[@]}"
for option in "${options[@]}"; do
    "$run" --help | has -E -- " $option( |=|\\[|$)" || fail "numalloc-run --help does not have $option"
done
mapfile -t variables < <(sed -nE 's/^\| `(NUMALLOC_[A-Z_]+)` .*/\1/p' "$root/docs/options.md")
[ "${#variables[@]}" -gt 8 ] || fail "docs/options.md has ${#variables[@]} variables only"
knows libnumalloc.3 "${variables[@]}"
mapfile -t functions < <(sed -nE 's/^[A-Za-z].*[ *](numalloc_[a-z_]+)\(.*/\1/p' "$root/include/numalloc/numalloc.h" "$root/include/numalloc/profile.h" | sort -u)
[ "${#functions[@]}" -gt 30 ] || fail "the headers have ${#functions[@]} functions only"
knows libnumalloc.3 "${functions[@]}"
say "manual: ${#views[@]} views, ${#benchmarks[@]} benchmarks, ${#variables[@]} variables, ${#functions[@]} functions"

# Completion, as bash would ask for it.
complete_line() { complete_by _numalloc_dump "$@"; }
complete_by() {
    local function=$1
    shift
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    "$function"
    printf '%s\n' "${COMPREPLY[@]+"${COMPREPLY[@]}"}"
}
# shellcheck disable=SC1091
. "$root/scripts/completion/numalloc-dump"
complete -p numalloc-dump >/dev/null || fail "nothing is completed for numalloc-dump"
cd "$work"
touch some.nprof
# is WANTED GOT
is() { [ "$2" = "$1" ] || fail "completion gives '$2', expected '$1'"; }
is "$(printf '%s\n' callees callers callgrind)" "$(complete_line "$dump" call | sort)"
is some.nprof "$(complete_line "$dump" sites some)"
is --stacks "$(complete_line "$dump" sites some.nprof --sta)"
is "" "$(complete_line "$dump" functions some.nprof --sta)"
is --fail-if "$(complete_line "$dump" check some.nprof --fail-i)"
is "$(printf '%s\n' peak peak_blocks peak_bytes)" "$(complete_line "$dump" sites --sort p | LC_ALL=C sort)"
is "$(printf '%s\n' requested_max requested_min)" "$(complete_line "$dump" timeline some.nprof --sort req)"
is remote_share "$(complete_line "$dump" functions --access some.nprof --top 3 --sort remote_s)"
is "" "$(complete_line "$dump" functions some.nprof --sort remote_s)"
is temporary_ratio "$(complete_line "$dump" sites --sort = temporary_)"
is live "$(complete_line "$dump" some.nprof --sort l)"
is total "$(complete_line "$dump" folded some.nprof --metric t)"
# (Every ninth view, and all of them in the nightly script.)
asked=0 every=9
[ "$TEST_SCALE" != full ] || every=1
for view in "${views[@]}"; do
    [ "$view" = help ] && continue
    asked=$((asked + 1))
    [ $((asked % every)) = 0 ] || continue
    mapfile -t keys < <("$dump" help "$view" --keys)
    [ "${#keys[@]}" -gt 0 ] || continue
    is "$(printf '%s\n' "${keys[@]}" | sort -u)" "$(complete_line "$dump" "$view" some.nprof --sort "" | sort -u)"
    listed=$("$dump" help "$view" | sed -n '/^Keys of --sort:/,/^$/p' | tail -n +2 | tr -d ' ' | tr ',' '\n' | grep .)
    is "$(printf '%s\n' "${keys[@]}")" "$listed"
done
is leaks "$(complete_line "$dump" help lea)"
is some.nprof "$(complete_line "$dump" sites -o so)"
for view in "${views[@]}"; do
    complete_line "$dump" "${view:0:3}" | grep -x -- "$view" >/dev/null || fail "completion does not know the view $view"
done
# numalloc-run: options, programs, sources, and behind the program its own completion.
# shellcheck disable=SC1091
. "$root/scripts/completion/numalloc-run"
complete -p numalloc-run >/dev/null || fail "nothing is completed for numalloc-run"
of_run() { complete_by _numalloc_run "$run" "$@"; }
is "$(printf '%s\n' "${options[@]}" | sort)" "$(of_run -- | sort)"
is --profile "$(of_run --pro)"
is --html "$(of_run --sample --ht)"
is watch "$(of_run --access = wat)"
is some.nprof "$(of_run -o so)"
is "$$" "$(of_run --start $$)"
is numfmt "$(of_run --profile numf)"
is numfmt "$(of_run -o x --access = auto -- numf)"
_command_offset() { COMPREPLY=("offset $1"); }
is "offset 3" "$(of_run --profile -- ls x)"
is "offset 5" "$(of_run --access = auto -p ls x)"

# That of numalloc-bench.
# shellcheck disable=SC1091
. "$root/scripts/completion/numalloc-bench"
complete_bench() {
    COMP_WORDS=("$bench" "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _numalloc_bench
    printf '%s\n' "${COMPREPLY[@]+"${COMPREPLY[@]}"}"
}
is "$(printf '%s\n' "${benchmarks[@]}" compare list | sort)" "$(complete_bench "" | sort)"
is larson-sized "$(complete_bench compare larson-)"
is --distribution "$(complete_bench churn --dist)"
is --resume "$(complete_bench compare --allocators x --res)"
say "completion knows them, too"
