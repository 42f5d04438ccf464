#!/usr/bin/env bash
# policy.sh LIBNUMALLOC.SO POLICY_LOAD NUMALLOC_DUMP - NUMALLOC_POLICY: rules mean the calls that they name, and no
# others; nothing else changes.
#
# The program looks for itself whether each block lies where its rule says (policy_load.c), in
# threads and in a forked child. Then real programs, with rules for the calls of malloc that they
# make most of: what they print is what it was.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
load=$2 dump=$3
[ "$(uname -m)" = x86_64 ] || skip "rules of several frames are for x86-64"
count=$([ "$TEST_SCALE" = full ] && echo 400000 || echo 20000)

policy=$work/load.policy
cat >"$policy" <<'RULES'
numalloc policy 1
program any
group pair : place=node 0, control=off
site by_one : place=interleave, control=off
site by_two < first_way : group=pair
site by_lines : lines=own, control=off
site by_realloc : life=long, control=off
site by_aligned : place=local, control=off
RULES

run() { # VARIABLE=VALUE... -- ARGUMENT...
    local set=()
    while [ "$1" != -- ]; do
        set+=("$1")
        shift
    done
    shift
    env "${set[@]}" LD_PRELOAD="$lib" "$load" "$@" 2>"$work/errors"
}

# Without: every block is malloc's.
run NUMALLOC_STATS=1 -- "$count" plain || fail "without a policy: $(tail -n 1 "$work/errors")"
! grep -q '^policy' "$work/errors" || fail "statistics speak of a policy that there is not"

# With: in each mode.
for mode in STATS=1 CHECK=1 PROFILE=sites PROFILE=sample PROFILE=trace; do
    run "NUMALLOC_POLICY=$policy" NUMALLOC_STATS=1 "NUMALLOC_$mode" NUMALLOC_SAMPLE_INTERVAL=4096 \
        "NUMALLOC_PROFILE_FILE=$work/load.nprof" -- "$count" ||
        fail "$mode: $(grep -v '^ ' "$work/errors" | tail -n 1)"
    ! grep -a '^numalloc: ' "$work/errors" >&2 || fail "$mode: it complains"
    grep -a "^policy $policy: 5 rules; [0-9]* blocks, " "$work/errors" >/dev/null ||
        fail "$mode: no summary, or another: $(grep -a '^policy' "$work/errors")"
done

# The same rules by address: what a profile has of them.
id=$(readelf -n "$load" | sed -n 's/.*Build ID: //p')
behind() { # FUNCTION CALLED -> where it returns to
    objdump -d --no-show-raw-insn "$load" | awk -v f="<$1>:" -v c="<$2@plt>" \
        '$2 == f { on = 1 } on && found { sub(":", "", $1); print $1; exit } on && index($0, c) { found = 1 }'
}
called() { # FUNCTION OWN -> the same of a function of the program's
    objdump -d --no-show-raw-insn "$load" | awk -v f="<$1>:" -v c="<$2>" \
        '$2 == f { on = 1 } on && found { sub(":", "", $1); print $1; exit } on && /call/ && index($0, c) { found = 1 }'
}
cat >"$work/address.policy" <<RULES
numalloc policy 1
program $(basename "$load") $id
module m $(basename "$load") $id
site m+0x$(behind by_one malloc) : place=first-touch, control=off
site m+0x$(behind by_two calloc) < m+0x$(called first_way by_two) : huge=no
site m+0x$(behind by_two calloc) < m+0x$(called first_way by_two) : place=near, control=off
site m+0x$(behind by_lines malloc) : lines=own, control=off
site m+0x$(behind by_realloc realloc) : life=short, control=off
site m+0x$(behind by_aligned posix_memalign) : place=far, control=off
RULES
run "NUMALLOC_POLICY=$work/address.policy" NUMALLOC_STATS=1 -- "$count" ||
    fail "by address: $(grep -v '^ ' "$work/errors" | tail -n 1)"
grep -q "^policy $work/address.policy: 5 rules, 1 lines left out; " "$work/errors" ||
    fail "by address: $(grep '^policy' "$work/errors")"
grep -q "address.policy:5: " "$work/errors" || fail "the line that is wrong is not named"

# The profile says of each rule what it did, and why one did nothing; in copies, too.
{
    sed "s/^program .*/program any/" "$policy"
    printf 'module gone libgone.so.1 00ff\nmodule libc libc.so.6 0011\nmodule m %s %s\n' "$(basename "$load")" "$id"
    printf 'site nobody : life=long\nsite gone+0x44 : life=long\nsite libc+0x44 : life=long\n'
    printf 'site main : place=node 777 # not here\nsite m+0x7fffffff : life=long\nnonsense\n'
} >"$work/all.policy"
read_rules() { # FILE PROGRAM: rows of the view, and `by` their rule's text, for Python
    "$dump" rules --json "$1" >"$work/rules.json" || fail "rules of $1"
    /usr/bin/python3 - "$work/rules.json" <<PYTHON || fail "rules of $1 are not what they are"
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
by = {row["rule"].split(" ")[1]: row for row in rows}
$2
PYTHON
}
for mode in sites sample trace; do
    run "NUMALLOC_POLICY=$work/all.policy" "NUMALLOC_PROFILE=$mode" "NUMALLOC_PROFILE_FILE=$work/all.nprof" -- 20000 ||
        fail "all, $mode: $(tail -n 1 "$work/errors")"
    read_rules "$work/all.nprof" '
assert len(rows) == 10, len(rows)
state = {name: row["state"] for name, row in by.items()}
assert state == {"by_one": "applied", "by_two": "applied", "by_lines": "applied", "by_realloc": "applied",
    "by_aligned": "applied", "nobody": "no such call", "gone+0x44": "module not loaded",
    "libc+0x44": "another build", "main": "node not here", "m+0x7fffffff": "no such call"}, state
# The main thread and three more, each a seventh. (What grows stays in its heap, and is not given again.)
for name in "by_one", "by_two", "by_lines", "by_aligned":
    assert by[name]["blocks"] // 4 in (20000 // 7, 20000 // 7 + 1), (name, by[name])
assert by["by_realloc"]["blocks"] >= 4 * (20000 // 7), by["by_realloc"]
assert by["by_one"]["bytes"] > 300 * by["by_one"]["blocks"], by["by_one"]
assert by["by_one"]["heap"] and not by["by_lines"]["heap"], rows
assert by["by_one"]["heap_span_bytes"] >= by["by_one"]["heap_live_bytes"], by["by_one"]
assert by["by_two"]["node"] == 0 and by["by_two"]["rule"] == "site by_two < first_way : group=pair", by["by_two"]
assert by["main"]["rule"] == "site main : place=node 777", by["main"]'
    "$dump" check "$work/all.nprof" >"$work/out" || fail "all, $mode: the profile is not whole: $(cat "$work/out")"
done
"$dump" rules "$work/all.nprof" >"$work/out" || fail "rules as text"
grep -q '^policy  *.*all.policy: 10 rules, 6 bound, 1 lines left out$' "$work/out" || fail "rules as text: $(head -n 2 "$work/out")"
grep -q '^modules  *3, 1 of another build, 1 not loaded$' "$work/out" || fail "rules as text: $(head -n 2 "$work/out")"
# Killed: what was said last.
printf 'numalloc policy 1\nprogram any\nsite by_one : place=local, control=1/4\n' >"$work/killed.policy"
rm -f "$work/killed.nprof"
env NUMALLOC_POLICY="$work/killed.policy" NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/killed.nprof" LD_PRELOAD="$lib" \
    "$load" 2000000000 heedless 2>/dev/null &
killed=$!
await '"$dump" rules --json "$work/killed.nprof" 2>/dev/null | has "\"blocks\":[0-9]\{5,\}"'
kill -9 $killed
wait $killed 2>/dev/null || true
read_rules "$work/killed.nprof" '
r, = rows
assert r["state"] == "applied" and 0.15 < r["control_blocks"] / r["blocks"] < 0.35, r
assert r["control_live_bytes"] > 0 and r["heap_live_bytes"] > 0, r'
# None: the view says so.
run NUMALLOC_PROFILE=sites "NUMALLOC_PROFILE_FILE=$work/none.nprof" -- 1000 plain
"$dump" rules "$work/none.nprof" | has 'No policy: NUMALLOC_POLICY was not set' || fail "no policy is not said"

# What is not for this program does nothing, and that is said; so do what cannot be read, and garbage.
sed "s/$id/0123456789abcdef0123/" "$work/address.policy" >"$work/other.policy"
run "NUMALLOC_POLICY=$work/other.policy" NUMALLOC_STATS=1 -- "$count" plain ||
    fail "another build: $(tail -n 1 "$work/errors")"
grep -q 'other.policy: for other programs' "$work/errors" || fail "another build is not said"
sed "s/^program .*/program any/; s/^module m .*/module m $(basename "$load") 0123456789abcdef0123/" \
    "$work/address.policy" >"$work/module.policy"
run "NUMALLOC_POLICY=$work/module.policy" NUMALLOC_STATS=1 -- "$count" plain ||
    fail "another module: $(tail -n 1 "$work/errors")"
grep -q '5 not bound, .*1 modules of another build' "$work/errors" ||
    fail "another module is not said: $(grep '^policy' "$work/errors")"
run NUMALLOC_POLICY=/nonexistent -- 1000 plain || fail "a policy that is not there"
head -c 100000 /dev/urandom >"$work/noise"
run "NUMALLOC_POLICY=$work/noise" -- 1000 plain || fail "noise as a policy"

# The control: of what a rule means, one of so many stays with malloc's placement.
printf 'numalloc policy 1\nprogram any\nsite by_lines : lines=own, control=1/4\n' >"$work/control.policy"
run "NUMALLOC_POLICY=$work/control.policy" NUMALLOC_STATS=1 -- 40000 plain || true
awk '/^policy/ { match($0, /[0-9]+ blocks/); all = substr($0, RSTART) + 0
                 match($0, /[0-9]+ of them/); some = substr($0, RSTART) + 0
                 exit !(all > 5000 && some > all * 0.2 && some < all * 0.3) }' "$work/errors" ||
    fail "the control is not a quarter: $(grep '^policy' "$work/errors")"

# Programs of others, under rules for what they call most. (Functions of libraries that export them.)
cat >"$work/real.policy" <<'RULES'
numalloc policy 1
program any
site PyObject_Malloc : life=long
site PyMem_RawMalloc : place=interleave
site sqlite3_malloc64 : place=local
site jv_string_sized : lines=own
site xmalloc : group=x
site g_malloc : group=x
group x : place=first-touch
RULES
real() { # NAME COMMAND...
    local name=$1
    shift
    command -v "$1" >/dev/null || return 0
    "$@" >"$work/plain.out" 2>&1 </dev/null || fail "$name by itself"
    LD_PRELOAD=$lib NUMALLOC_POLICY=$work/real.policy "$@" >"$work/policy.out" 2>&1 </dev/null ||
        fail "$name under a policy: $(tail -n 1 "$work/policy.out")"
    cmp "$work/plain.out" "$work/policy.out" >&2 || fail "$name says something else under a policy"
    say "$name: the same"
}
real python3 python3 -c 'import json, sqlite3
print(len(json.dumps([{str(i): list(range(i % 50))} for i in range(5000)])))
c = sqlite3.connect(":memory:"); c.execute("create table t(a, b)")
c.executemany("insert into t values(?, ?)", [(i, str(i) * 9) for i in range(20000)])
print(c.execute("select sum(a), max(b) from t").fetchall())'
real jq jq -n '[range(20000) | {a: ., b: (tostring * 3)}] | map(.b) | sort | length'
real sqlite3 sqlite3 :memory: 'with recursive n(i) as (select 1 union all select i + 1 from n where i < 50000) select sum(length(hex(i))) from n'
real git git -C "$(dirname "$test_source")/.." log --oneline -n 50
real gcc gcc -x c -S -o - -O2 "$test_source/instructions.c"

# As many rules as there may be, all of them of calls that the program has.
many() { # PROGRAM
    local file id
    file=$(readlink -f "$(command -v "$1")")
    id=$(readelf -n "$file" | sed -n 's/.*Build ID: //p')
    printf 'numalloc policy 1\nprogram any\nmodule m %s %s\n' "${file##*/}" "$id"
    objdump -d --no-show-raw-insn "$file" | awk '
        call && $1 ~ /^[0-9a-f]+:$/ && n < 1024 { sub(":", "", $1); print "site m+0x" $1 " : reserve=64"; n++ }
        { call = ($2 == "call") }
        END { exit n < 1024 }'
}
for rules in 30 100 1024; do
    many bash >"$work/all.policy" || fail "bash has less than 1,024 calls"
    head -n $((3 + rules)) "$work/all.policy" >"$work/real.policy"
    # shellcheck disable=SC2016
    real bash bash -c 'for ((i = 0; i < 2000; i++)); do a[i]=${a[i / 2]}x$i; done; echo "${#a[@]} ${a[1999]}"'
done

# set-user-id programs have no policy: options.h ignores their environment (conform.secure).
