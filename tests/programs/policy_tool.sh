#!/usr/bin/env bash
# policy_tool.sh LIBNUMALLOC.SO NUMALLOC_DUMP POLICY_SERVER ACCESS_MADE NUMALLOC_RUN - numalloc-dump
# policy: from a profile to rules, and what they gain in the next run of the same program.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dump=$2 server=$3 made=$4 run=$5
[ "$(uname -m)" = x86_64 ] || skip "rules of several frames are for x86-64"
requests=150000
cd "$work"

serve() { # VARIABLE=VALUE... -> out, errors, and what was resident when it was quiet
    env "$@" LD_PRELOAD="$lib" "$server" "$requests" >out 2>errors || fail "$*: $(tail -n 1 errors)"
    resident=$(sed -n 's/^resident \([0-9]*\) KiB$/\1/p' errors)
}
serve NUMALLOC_STATS=0
cp out out.plain
plain=$resident
[ "$plain" -gt 24000 ] || fail "only $plain KiB are resident without a policy: nothing is kept"

# From each mode the same rule: the sessions, by two frames, since one is also the requests'.
for mode in sites trace sample; do
    serve "NUMALLOC_PROFILE=$mode" "NUMALLOC_PROFILE_FILE=$mode.nprof" NUMALLOC_SAMPLE_INTERVAL=8192
    "$dump" policy "$mode.nprof" -o "$mode.policy" || fail "$mode: no policy"
    [ "$(grep -c '^site ' "$mode.policy")" = 1 ] || fail "$mode: $(grep '^site' "$mode.policy" || echo 'no rule')"
    has -E '^site m1\+0x[0-9a-f]+ < m1\+0x[0-9a-f]+ : life=long, control=off$' "$mode.policy" ||
        fail "$mode: $(grep '^site' "$mode.policy")"
    has '^# 1\. xmalloc .* < open_session ' "$mode.policy" || fail "$mode: $(grep '^# 1' "$mode.policy")"
    has -E '^#     expected: .*[0-9.]+ MiB less .*; confidence (high|medium)' "$mode.policy" ||
        fail "$mode: no evidence: $(cat "$mode.policy")"
    has -E '^#   costs up to 75 instructions in each of [0-9,]+ calls ' "$mode.policy" || fail "$mode: no cost"
    "$dump" policy --check "$mode.policy" "$server" >checked || fail "$mode: $(cat checked)"
    has '^1 of 1 rule can be obeyed$' checked || fail "$mode: $(cat checked)"
    "$dump" policy --check "$mode.policy" sites.nprof >checked || fail "$mode: $(cat checked)"
    has 'good, means 1 site: .* in 11,250 blocks$' checked || fail "$mode: $(cat checked)"
done
[ "$(grep '^site ' sites.policy)" = "$(grep '^site ' trace.policy)" ] || fail "sites and trace differ"
[ "$(grep '^site ' sites.policy)" = "$(grep '^site ' sample.policy)" ] || fail "sites and sample differ"
# Several profiles of one program have one rule.
"$dump" policy sites.nprof trace.nprof -o both.policy || fail "no policy from two"
[ "$(grep '^site ' both.policy)" = "$(grep '^site ' sites.policy)" ] || fail "two profiles: $(cat both.policy)"
# What a rule saves is of one process, however many profiles there are of it.
cp sites.nprof again.nprof
expected() { sed -n '0,/expected: /s/.*expected: \(.* less ([0-9.]* %)\).*/\1/p' "$1"; }
"$dump" policy sites.nprof again.nprof -o again.policy || fail "no policy from the same one twice"
[ -n "$(expected sites.policy)" ] && [ "$(expected sites.policy)" = "$(expected again.policy)" ] ||
    fail "once it saves $(expected sites.policy), twice $(expected again.policy)"

# What it gains: the sessions are 1.7 MiB of 11,250 blocks, and what is not theirs goes back.
serve NUMALLOC_POLICY=sites.policy NUMALLOC_STATS=1
cmp out out.plain || fail "it says something else under the policy"
has '^policy sites.policy: 1 rules; 11250 blocks, ' errors || fail "no match: $(grep '^policy' errors)"
[ "$((resident * 2))" -lt "$plain" ] ||
    fail "$resident KiB are resident under the policy, $plain without: not half"
say "quiet: $plain KiB, under the policy $resident KiB"

# Sessions of numalloc_alloc_local, which no rule reaches: none is offered, and it is said why.
serve SERVER_API=1 NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=api.nprof
"$dump" policy api.nprof >api.policy || fail "no rules is no failure"
! grep '^site' api.policy || fail "a rule that changes nothing"
has '^# Of 1 site the place is named by a call of numalloc.h, which no rule reaches.$' api.policy || fail "$(cat api.policy)"
! grep 'nothing is to be gained' api.policy || fail "$(cat api.policy)"

# Did it help? Measured where the spans were looked at; beside a rule for nothing.
alias=$(sed -n 's/^site \(m[0-9]*+0x[0-9a-f]*\) <.*/\1/p' sites.policy)
cp sites.policy two.policy
echo "site $alias : reserve=64, control=off" >>two.policy
for name in sites two; do
    serve "NUMALLOC_POLICY=$name.policy" NUMALLOC_PROFILE=sites "NUMALLOC_PROFILE_FILE=after.$name.nprof"
done
"$dump" policy --compare sites.nprof after.sites.nprof >compared || fail "--compare: status $?: $(cat compared)"
has -E '^keep +11  kept in vain +[0-9.]+ MiB +[0-9.]+ [KM]iB +-[0-9.]+ MiB *$' compared || fail "--compare: $(cat compared)"
has '^1 of 1 rule to keep$' compared || fail "--compare: $(cat compared)"
sed -n 1,3p compared
python3 "$test_source/view_options.py" "$dump" "policy --compare $work/sites.nprof $work/after.sites.nprof" || fail "--compare: options"
rc=0
"$dump" policy --compare two.policy sites.nprof after.two.nprof >compared || rc=$?
[ "$rc" = 1 ] || fail "--compare with a rule for nothing: status $rc: $(cat compared)"
has '^keep .* kept in vain ' compared || fail "--compare: $(cat compared)"
has '^drop .* copied by realloc ' compared || fail "--compare: $(cat compared)"
has '^1 of 2 rules to keep$' compared || fail "--compare: $(cat compared)"
# What makes room for others is judged together with them.
sed 's/life=long/place=near/' sites.policy >near.policy
serve NUMALLOC_POLICY=near.policy NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=after.near.nprof
rc=0
"$dump" policy --compare sites.nprof after.near.nprof >compared || rc=$?
[ "$rc" = 1 ] || fail "--compare of place=near: status $rc: $(cat compared)"
has '^unclear ' compared || fail "--compare of place=near: $(cat compared)"
has 'near and far rules make room for each other' compared || fail "--compare of place=near: $(cat compared)"
# Of other work nothing is said; nor where the sites are not those of the rule.
requests=20000 serve NUMALLOC_POLICY=sites.policy NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=short.nprof
rc=0
"$dump" policy --compare sites.nprof short.nprof >compared || rc=$?
[ "$rc" = 1 ] || fail "--compare of other work: status $rc: $(cat compared)"
has -A1 '^unclear ' compared || fail "--compare of other work: $(cat compared)"
has 'the runs did not do the same work' compared || fail "--compare of other work: $(cat compared)"

# The table of frames, and why there is no rule.
"$dump" policy sites.nprof --explain >explained
has -E '^# +1 +9[0-9.]+ % 99' explained || fail "one frame: $(grep -A3 frames explained)"
has -E '^# +2 +0.00 % +0.00 % +0.00 % +0.00 %$' explained || fail "two frames: $(grep -A4 frames explained)"
"$dump" policy sites.nprof --only place >none || fail "no rules is no failure"
has '^# No rules: ' none || fail "it does not say that there are none: $(cat none)"
! grep '^site' none || fail "another kind than was asked for"
"$dump" policy sites.nprof --min-gain 99 >none
has '^# The most by life would be [0-9.]* %; --min-gain is 99 %.$' none || fail "$(cat none)"
"$dump" policy --check none sites.nprof | has '^0 of 0 rules can be obeyed$' || fail "none is a policy, too"

# From accesses, made up: what each verdict becomes.
mkdir made
"$made" made
site() { # NAME ACTION: one site
    "$dump" policy "made/$1.nprof" -o "$1.policy" || fail "$1: status $?"
    [ "$(sed -n 's/^site .* : //p' "$1.policy")" = "$2" ] || fail "$1: $(cat "$1.policy")"
    "$dump" policy --check "$1.policy" >checked || true # the machine may not have node 1
    has -E ' of [0-9] rules? can be obeyed$' checked || fail "$1: not read again: $(cat checked)"
}
site handed 'place=consumer 1'
site touched place=first-touch
site parted ''
site server0 place=interleave
site counters $'lines=own\nlines=own'
site words ''
site rows ''
site crowded ''
site local ''
for name in words crowded rows; do
    "$dump" policy "made/$name.nprof" --explain | has '^#   made.*; .*\(pin\|separate\|another node\)' ||
        fail "$name: nothing is explained: $("$dump" policy "made/$name.nprof" --explain)"
done
# While a verdict asks for a change, it is not said that nothing is to be gained, but why there is no rule.
why() { # NAME REASON OPTION...
    local name=$1 reason=$2
    shift 2
    "$dump" policy "made/$name.nprof" "$@" >why
    has "^#   made.*; $reason\$" why || fail "$name, $*: $(cat why)"
    ! grep -E '^site|nothing is to be gained' why || fail "$name, $*: $(cat why)"
}
why counters 'its confidence is 98 %: run longer, or --min-confidence 98' --min-confidence 99
why handed 'a rule would gain 40.00 %; --min-gain is 99 %' --min-gain 99
why handed 'rules of kind place are not asked for' --only lines
why parted 'it lies where it is first written already: let each thread write its own part first'
why local 'a rule would gain 0.50 %; --min-gain is 1 %'
why words 'parts of one block share a line: separate them in the source'
"$dump" policy made/handed.nprof --explain >why
! grep '^# What no rule mends' why || fail "it has a rule: $(cat why)"
"$dump" policy made/handed.nprof made/touched.nprof made/counters.nprof -o all.policy
"$dump" policy --check all.policy made/handed.nprof >checked || true
has -E '^[0-9] of [0-9] rules? can be obeyed' checked || fail "several: $(cat checked)"

# numalloc-run hands it on, by a path that holds elsewhere, and finds out whether it pays.
(cd / && "$run" --library="$lib" --policy="$work/sites.policy" --stats "$server" 1000) 2>errors >out
has "^policy $work/sites.policy: 1 rules; 75 blocks" errors || fail "numalloc-run --policy: $(cat errors)"
rc=0
"$run" --library="$lib" --policy=sites.policy --rounds=6 "$server" 2000 >out 2>errors || rc=$?
[ "$rc" -le 1 ] || fail "--rounds: status $rc: $(cat errors)"
[ "$(wc -l <out)" = 1 ] || fail "--rounds: the output of more than one run: $(cat out)"
for line in '^sites.policy, 6 rounds:$' '^  time .* times (' '^  peak .* times (' '^  mean .* times (' \
    '^  \(it pays\|it does not pay\|it makes no difference\|unclear\)'; do
    has "$line" errors || fail "--rounds does not say '$line': $(cat errors)"
done
rc=0
echo 'site xmalloc : lines=all' | cat sites.policy - >wrong.policy
"$run" --library="$lib" --policy=wrong.policy --rounds=6 "$server" 2000 >out 2>errors || true
has 'wrong.policy:[0-9]*: unknown lines' errors || fail "--rounds hides what the library says: $(cat errors)"
rc=0
"$run" --library="$lib" --policy=sites.policy --rounds=6 false 2>errors || rc=$?
[ "$rc" = 125 ] || fail "--rounds of what fails: $rc"
has 'false without the policy: status 1' errors || fail "--rounds of what fails: $(cat errors)"

# Programs of others: whatever their profiles say, under it they print what they print.
real() { # NAME COMMAND...
    local name=$1
    shift
    command -v "$1" >/dev/null || return 0
    "$@" >plain.out 2>&1 </dev/null || fail "$name by itself"
    NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/$name.nprof" LD_PRELOAD=$lib "$@" >profiled.out 2>&1 </dev/null
    "$dump" policy "$name.nprof" --min-gain 0 -o "$name.policy" || fail "$name: no policy"
    "$dump" policy --check "$name.policy" "$name.nprof" >checked || fail "$name: $(cat checked)"
    LD_PRELOAD=$lib NUMALLOC_POLICY=$work/$name.policy "$@" >policy.out 2>&1 </dev/null || fail "$name under its policy"
    cmp plain.out policy.out >&2 || fail "$name says something else under its policy"
    say "$name: $(grep -c '^site ' "$name.policy") rules, the same"
}
export PYTHONMALLOC=malloc PYTHONHASHSEED=0
real python3 /usr/bin/python3 -c 'import json
keep = []
for wave in range(3):
    gone = []
    for i in range(20000):
        gone.append({str(i): [i]})
        if i % 20 == 0: keep.append({"k%d" % i: str(i) * 5})
print(len(json.dumps(keep)))'
has '^site .*life=long' python3.policy || [ ! -e python3.policy ] || fail "python3: nothing stays"
real jq jq -n '[range(20000) | {a: ., b: (tostring * 3)}] | map(.b) | sort | length'
real sqlite3 sqlite3 :memory: 'create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) insert into t select i, hex(i) from n; delete from t where a % 10 <> 0; select sum(a) from t'

# A server of Debian's: keys that stay among keys that go.
if [ "$TEST_SCALE" = full ] && command -v redis-server redis-cli >/dev/null; then
    redis() { # VARIABLE=VALUE... -> resident: KiB when it is quiet
        local pid keys=200000
        # An idle server passes no slow path: a thread gives back what is free.
        env "$@" NUMALLOC_BACKGROUND=1 LD_PRELOAD="$lib" redis-server --port 0 --unixsocket "$work/redis.socket" --save '' >redis.log 2>&1 &
        pid=$!
        at_end+=("kill $pid 2>/dev/null")
        for _ in $(seq 100); do
            if redis-cli -s redis.socket ping >/dev/null 2>&1; then break; fi
            sleep 0.1
        done
        redis-cli -s redis.socket eval "for i=1,$keys do redis.call('set','k'..i,string.rep('x',60+i%120)) if i%30==0 then redis.call('hset','h'..i,'a',string.rep('y',90+i%60)) end end" 0 >/dev/null
        redis-cli -s redis.socket eval "for i=1,$keys do redis.call('del','k'..i) end" 0 >/dev/null
        sleep 12
        resident=$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status")
        redis-cli -s redis.socket shutdown nosave >/dev/null 2>&1 || true
        wait "$pid" || true
    }
    redis A=1
    plain=$resident
    redis NUMALLOC_PROFILE=sites "NUMALLOC_PROFILE_FILE=$work/redis.nprof"
    "$dump" policy redis.nprof -o redis.policy
    redis "NUMALLOC_POLICY=$work/redis.policy"
    say "redis-server, quiet: $plain KiB, under its policy $resident KiB"
    [ "$((resident * 4))" -lt "$((plain * 3))" ] || fail "redis-server: not a quarter less"
fi

# What cannot be obeyed.
sed 's/^\(module m1 [^ ]*\) .*/\1 0123456789abcdef/; s/^program.*/program any/' sites.policy >other
rc=0
"$dump" policy --check other "$server" >checked || rc=$?
[ "$rc" = 1 ] || fail "another build: status $rc"
has "$(basename "$server") is of another build" checked || fail "another build: $(cat checked)"
sed 's/^program.*/program something/; s/life=long/place=node 77/' sites.policy >other
echo 'site xmalloc : lines=all' >>other
rc=0
"$dump" policy --check other sites.nprof >checked || rc=$?
[ "$rc" = 1 ] || fail "another program: status $rc"
for line in 'other:[0-9]*: unknown lines' 'it is for another program' 'this machine has no node 77' \
    '0 of 1 rule can be obeyed; 1 lines are wrong'; do
    has "$line" checked || fail "it does not say '$line': $(cat checked)"
done

# Wrong uses: one line, status 2.
wrong() { # ARGUMENT...
    local rc=0
    "$dump" policy "$@" >out 2>errors || rc=$?
    [ "$rc" = 2 ] || fail "policy $*: status $rc"
    [ "$(wc -l <errors)" = 1 ] || fail "policy $*: $(cat errors)"
    [ ! -s out ] || fail "policy $*: it writes all the same"
}
wrong
wrong nothing.nprof
wrong sites.nprof --only size
wrong sites.nprof --min-gain much
wrong sites.nprof --min-confidence much
wrong sites.nprof --sort peak
wrong --check
wrong --check nothing.policy
wrong --check sites.nprof
wrong --check sites.policy "$0"
wrong --check sites.policy "$server" "$server"
wrong --compare sites.nprof
wrong --compare sites.nprof trace.nprof
wrong --compare sites.policy sites.nprof
wrong --compare sites.nprof sites.nprof after.sites.nprof
wrong --compare --check sites.nprof after.sites.nprof
wrong sites.nprof --json
rc=0
"$dump" policy sites.nprof -o there/is/no.policy 2>errors || rc=$?
[ "$rc" = 2 ] || fail "a folder that is not there: status $rc"
