#!/bin/bash
# profile_control.sh - profiles that begin, end and are copied while the program runs: by its own
# calls, by signal, by time, by memory, by a file; filters; pools and markers; what a fork inherits.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
include=$(readlink -f "$test_source/../../include")

cc -std=gnu17 -g -O1 -fno-builtin -I"$include" "$test_source/control_load.c" -o "$work/control_load" ||
    fail "the compiler does not build control_load.c"
load=$work/control_load

is() { # FILE EXPRESSION...
    /usr/bin/python3 "$test_source/control_check.py" "$dump" "$@" || fail "${1##*/} is not as the program was"
}

# go NAME [NAME=VALUE...] -- ROLE...: runs the program in a directory of its own; nothing may be said.
go() {
    local name=$1 settings=()
    shift
    while [ "$1" != -- ]; do settings+=("$1"); shift; done
    shift
    mkdir -p "$work/$name"
    (cd "$work/$name" && env "${settings[@]}" LD_PRELOAD="$lib" "$load" "$@" >"$work/$name.out" 2>"$work/$name.err") ||
        fail "$name: the program ends with status $?: $(head -n 3 "$work/$name.err")"
    [ ! -s "$work/$name.err" ] || fail "$name: unexpected on stderr: $(head -n 3 "$work/$name.err")"
}
files() { find "$work/$1" -name '*.nprof*' | wc -l; }
some() { # NAME LEAST MOST
    local n
    n=$(files "$1")
    [ "$n" -ge "$2" ] && [ "$n" -le "$3" ] || fail "$1: $n files, $2 to $3 expected: $(ls "$work/$1")"
}

# ---- By the program itself. ----
"$load" api >"$work/without.out" 2>&1 || fail "without the library the program ends with status $?"
grep -qx -- '-1 -1 -1 -1 -1 running -1' "$work/without.out" || fail "without the library: $(cat "$work/without.out")"
go api NUMALLOC_PROFILE_FILE=p.nprof -- api
grep -qx '0 0 0 0 0 running 0' "$work/api.out" || fail "the calls returned $(cat "$work/api.out")"
some api 4 4
# A trace sees the same, and its copy is as whole as its file.
go traced NUMALLOC_PROFILE_FILE=p.nprof CONTROL_MODE=trace -- api
some traced 4 4
for file in p.nprof p.nprof.1; do
    is "$work/traced/$file" 'head["closed"]' 'f("inside")["allocations"] == 600' 'f("inside")["live_blocks"] == 300' \
        'f("early")["allocations"] == 0' 'lost["events"] == 0'
done
is "$work/traced/p.nprof.2" 'f("inside")["allocations"] == 300' 'f("inside")["live_blocks"] == 300' 'lost["events"] == 0'
is "$work/api/p.nprof" 'head["closed"]' 'f("inside")["allocations"] == 600' 'f("inside")["live_blocks"] == 300' \
    'f("early")["allocations"] == 0' 'lost["before_frees"] == 100' 'lost["events"] == 0' \
    'rows("markers")[0]["name"] == "half way"' 'len(rows("markers")) == 1' \
    'rows("session")[0]["session"] == 1' 'rows("session")[0]["copy"] == 0' \
    'rows("session")[0]["from_start"] == 0' 'rows("session")[0]["missed_at_most"] == 256'
is "$work/api/p.nprof.1" 'head["closed"]' 'f("inside")["live_blocks"] == 300' 'rows("session")[0]["copy"] == 1'
is "$work/api/p.nprof.2" 'f("inside")["allocations"] == 300' 'f("inside")["live_blocks"] == 300' \
    'lost["before_frees"] == 300' 'f("between")["allocations"] == 0' 'rows("session")[0]["session"] == 2'
is "$work/api/p.nprof.3" 'f("inside")["allocations"] == 0' 'lost["before_frees"] == 0'
go settings NUMALLOC_PROFILE_FILE=p.nprof -- settings
grep -qx '0 0 0 0 -1! -1! -1! -1! ' "$work/settings.out" || fail "the calls returned $(cat "$work/settings.out")"
some settings 4 4
says() { # FILE PATTERN: numalloc-dump run has such a line
    "$dump" run "$work/settings/$1" | has -E "$2" || fail "$1 has no '$2': $("$dump" run "$work/settings/$1")"
}
says p.nprof '^  watch '
says p.nprof.1 '^interval  *64.0 KiB'
is "$work/settings/p.nprof.2" 'f("drop")["freed_here_count"] == 300'
is "$work/settings/p.nprof.3" 'f("drop")["freed_here_count"] == 0'
"$dump" run "$work/settings/p.nprof.3" | has '^  watch ' && fail "a setting holds for the next profile"
go whole NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=p.nprof -- api
grep -qx -- '-1 0 0 0 0 running 0' "$work/whole.out" || fail "the calls returned $(cat "$work/whole.out")"
is "$work/whole/p.nprof" 'f("early")["allocations"] == 500' 'f("early")["live_blocks"] == 400' \
    'f("inside")["live_blocks"] == 300' 'rows("session")[0]["from_start"] == 1'
# Text and page say that a profile began late: its peak and its time are not those of the run.
for name in api whole; do "$dump" "$work/$name/p.nprof" >"$work/$name.text"; "$dump" brief "$work/$name/p.nprof" >"$work/$name.brief"; done
grep -q '^profile  *began .* UTC, after the process, ' "$work/api.text" && grep -q ', begun after the process$' "$work/api.brief" ||
    fail "a profile that began late does not say so: $(grep began "$work/api.text"; head -n 1 "$work/api.brief")"
grep -q '^run  *began .* UTC, [0-9]' "$work/whole.text" && ! grep -q 'after the process' "$work/whole.text" "$work/whole.brief" ||
    fail "a profile of the whole run: $(grep began "$work/whole.text"; head -n 1 "$work/whole.brief")"
say "start, stop and copy by the program: three profiles and a copy, exact, what was before told apart"

# ---- Pools and markers. ----
go pools NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=p.nprof -- pools
is "$work/pools/p.nprof" \
    '[(r["allocations"], r["frees"], r["live_bytes"], r["peak_bytes"], r["before_frees"]) for r in rows("pools") if r["pool"] == "test arena" and r["site"] is None] == [(150, 90, 1920, 53200, 1)]' \
    'sorted((r["allocations"], r["live_bytes"], r["peak_bytes"]) for r in rows("pools") if r["pool"] == "test arena" and r["site"] is not None) == [(50, 0, 50000), (100, 1920, 3200)]' \
    '[(r["allocations"], r["frees"], r["live_bytes"]) for r in rows("pools") if r["pool"] == "short-lived" and r["site"] is None] == [(100, 100, 0)]' \
    '[m["name"] for m in rows("markers")] == ["pools begin", "pools end"]'
say "pools: blocks by site, live and at the pool's peak; markers in order"

# ---- Fork. ----
go family NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=%p.nprof -- family
parent=$(sed -n 's/^parent \([0-9]*\) .*/\1/p' "$work/family.out")
child=$(sed -n 's/.* child \([0-9]*\)$/\1/p' "$work/family.out")
grandchild=$(sed -n 's/^grandchild \([0-9]*\)$/\1/p' "$work/family.out")
inherited() { # NAME: (blocks inherited, freed) of the function's site
    printf '[(r["inherited_blocks"], r["freed_blocks"]) for r in rows("inherited") if r["site"].startswith("%s")]' "$1"
}
cd "$work/family"
is "$work/family/$parent.nprof" 'f("inside")["live_blocks"] == 300' 'rows("inherited") == []'
is "$work/family/$child.nprof" "$(inherited inside) == [(300, 100)]" "$(inherited early) == [(500, 0)]" \
    'f("between")["live_blocks"] == 200' 'lost["before_frees"] < 10'
is "$work/family/$grandchild.nprof" "$(inherited inside) == [(200, 150)]" "$(inherited early) == [(500, 0)]" \
    "$(inherited between) == [(200, 200)]" "{r[\"origin_pid\"] for r in rows(\"inherited\")} == {$parent, $child}"
cd /
say "a forked child knows what it inherited of each site of its parent and grandparent, and what it freed"

# ---- Signals. ----
go signals NUMALLOC_PROFILE_FILE=p.nprof NUMALLOC_PROFILE_SIGNAL=usr1 NUMALLOC_PROFILE_DUMP_SIGNAL=USR2 -- signals
some signals 3 3
is "$work/signals/p.nprof" 'head["closed"]' 'f("inside")["allocations"] == 300' 'f("between")["allocations"] == 0'
is "$work/signals/p.nprof.1" 'rows("session")[0]["copy"] == 1' 'f("inside")["live_blocks"] == 300'
is "$work/signals/p.nprof.2" 'f("between")["allocations"] == 200' 'f("inside")["allocations"] == 0'
mkdir "$work/asleep"
(cd "$work/asleep" && exec env NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=p.nprof NUMALLOC_BACKGROUND=1 \
    NUMALLOC_PROFILE_DUMP_SIGNAL=usr2 LD_PRELOAD="$lib" "$load" sleep) &
sleeper=$!
# Its handler is there (SigCgt, bit 12) before it is asked.
caught() { sed -n 's/^SigCgt:\t/0x/p' "/proc/$sleeper/status"; }
await '[ $(($(caught) >> 11 & 1)) = 1 ] && [ -s "$work/asleep/p.nprof" ]'
kill -USR2 "$sleeper"
await '[ -s "$work/asleep/p.nprof.1" ]'
[ -s "$work/asleep/p.nprof.1" ] || fail "a sleeping program with NUMALLOC_BACKGROUND=1 was not copied"
kill "$sleeper" 2>/dev/null || true
wait "$sleeper" 2>/dev/null || true
say "signals begin, end and copy profiles, also of a program that sleeps"

# ---- Time. ----
go later NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=p.nprof NUMALLOC_PROFILE_START=later -- churn 200
some later 0 0
go after NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=p.nprof NUMALLOC_PROFILE_AFTER=300 NUMALLOC_PROFILE_FOR=200 -- churn 2000
some after 1 1
ms() { sed -n "s/$2/\\1/p" "$work/$1.out"; } # of the program's own clock
round=$(ms after '.*a round of \([0-9]*\)')
is "$work/after/p.nprof" 'head["closed"]' "180 <= head['duration_ms'] <= 500 + 2 * $round" 'rows("session")[0]["from_start"] == 0'
# As often as that, or as it has a turn: where it has few, it runs longer.
for time in 1500 6000 24000; do
    rm -rf "$work/every"
    go every NUMALLOC_PROFILE=sample NUMALLOC_PROFILE_FILE=p.nprof NUMALLOC_PROFILE_DUMP_EVERY=100 -- churn $time
    [ "$(files every)" -lt 5 ] || break
done
some every 5 $(($(ms every '\([0-9]*\) ms, .*') / 100 + 2))
say "profiles begin after, end after and are copied every so many milliseconds"

# ---- Memory. ----
go rss NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=p.nprof NUMALLOC_PROFILE_DUMP_RSS=10M -- grow
some rss 4 7
go live NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=p.nprof NUMALLOC_PROFILE_DUMP_LIVE=10M -- grow
some live 4 5
is "$work/live/p.nprof.1" '10 * 2**20 <= f("grown")["live_bytes"] <= 13 * 2**20'
say "copies when resident or live memory passes multiples of a limit"

# What mending saves is a part of what the profile saw, which is not the run where it began late.
go grown NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=p.nprof NUMALLOC_PROFILE_AFTER=1 -- grow
for name in grown rss; do "$dump" "$work/$name/p.nprof" >"$work/$name.text"; done
grep -q "  not-freed .* saves .* of the profile's peak$" "$work/grown.text" && ! grep -q 'saves .* of the \(run\|peak\)$' "$work/grown.text" &&
    grep -q '  not-freed .* saves .* of the peak$' "$work/rss.text" ||
    fail "of what mending saves a part: $(grep -h saves "$work/grown.text" "$work/rss.text")"
say "a profile that began late says so, and that its findings are of its own time and peak"

# ---- A file. ----
mkdir "$work/trigger"
mkfifo "$work/running"
(cd "$work/trigger" && exec env NUMALLOC_PROFILE_TRIGGER="$work/now" NUMALLOC_PROFILE_FILE=p.nprof LD_PRELOAD="$lib" \
    "$load" churn 120000 >"$work/running") &
churner=$!
at_end=("kill -9 $churner 2>/dev/null")
read -r line <"$work/running" || fail "the program ended before it was asked anything"
step() { # WORD FILE
    echo "$1" >"$work/now.new"
    mv "$work/now.new" "$work/now"
    await "[ -e '$work/trigger/$2' ]"
}
step start p.nprof
step dump p.nprof.1
echo stop >"$work/now.new" && mv "$work/now.new" "$work/now"
await '"$dump" json "$work/trigger/p.nprof" 2>/dev/null | has "\"closed\": *true"'
step start p.nprof.2
kill "$churner"
wait "$churner" 2>/dev/null || true
at_end=()
is "$work/trigger/p.nprof" 'head["closed"]'
say "a trigger file begins, copies and ends profiles"

# ---- Filters. ----
go other NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=p.nprof NUMALLOC_PROFILE_ONLY=gcc,other -- churn 10
some other 0 0
go named NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=p.nprof NUMALLOC_PROFILE_ONLY='gcc,control*' -- churn 10
some named 1 1
go ranks NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=p.nprof NUMALLOC_PROFILE_RANKS=0,4-7 OMPI_COMM_WORLD_RANK=3 -- churn 10
some ranks 0 0
go ranked NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=p.nprof NUMALLOC_PROFILE_RANKS=0,4-7 OMPI_COMM_WORLD_RANK=5 \
    OMPI_COMM_WORLD_SIZE=8 SLURM_JOB_ID=4711 -- churn 10
is "$work/ranked/p.nprof" 'rows("session")[0]["rank"] == 5' 'rows("session")[0]["ranks"] == 8' 'rows("session")[0]["job"] == "4711"'
(cd "$work" && env NUMALLOC_PROFILE_RANKS=0,x LD_PRELOAD="$lib" "$load" churn 1) 2>"$work/bad.err"
grep -q 'NUMALLOC_PROFILE_RANKS=0,x ignored' "$work/bad.err" || fail "a bad list of ranks is not named: $(cat "$work/bad.err")"
(cd "$work" && env NUMALLOC_PROFILE_LABELS=web LD_PRELOAD="$lib" "$load" churn 1) 2>"$work/bad.err"
grep -q 'NUMALLOC_PROFILE_LABELS=web ignored: key=value' "$work/bad.err" || fail "bad labels are not named: $(cat "$work/bad.err")"
# Labels are recorded however large the rest of the environment is.
many=()
for i in $(seq 60); do many+=("SLURM_NTASKS_$i=1" "PMI_FILLER_$i=$(printf 'x%.0s' $(seq 70))"); done
go labelled "${many[@]}" NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=p.nprof NUMALLOC_PROFILE_LABELS=service=web,version=2 -- churn 10
"$dump" run "$work/labelled/p.nprof" | has 'NUMALLOC_PROFILE_LABELS=service=web,version=2' || fail "labels are not in the file"
say "filters by program and by rank; labels"
