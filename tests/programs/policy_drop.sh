#!/usr/bin/env bash
# policy_drop.sh LIBNUMALLOC.SO NUMALLOC_DUMP ACCESS_MADE - numalloc-dump policy --follow takes out a rule
# that does not pay by its own control. Of made-up profiles: all accesses to the rule's blocks go to
# another node, and about half of those to its control. (Of a program that runs: tests/lab/dropped.c.)
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dump=$2 made=$3
cd "$work"
"$made" "$work"

written() {
    cat >app.policy <<'EOF'
numalloc policy 1
program any
module m1 made -
site m1+0x1020 : place=consumer 2
site m1+0x1030 : lines=own
EOF
}
follow() { "$dump" policy --follow "$1" --only place --iterations 1 -o app.policy >said || fail "$1: status $?: $(cat said)"; }

written
follow ruled.nprof
has -Fx '1 rule: 0 new, 0 changed, 1 as before, 1 dropped' said || fail "it said: $(cat said)"
has -Fx '# dropped: 100.0 % of 200 accesses went to other nodes, of 60 to its control 46.7 %' app.policy ||
    fail "no figures: $(cat app.policy)"
has -Fx '#   "made" - 0x1020 : place=consumer 2' app.policy || fail "no rule: $(cat app.policy)"
[ "$(grep -c '^site' app.policy)" = 1 ] || fail "the rule is there, or another is not: $(cat app.policy)"
has -E '^site .*\+0x1030 : lines=own$' app.policy || fail "the other rule: $(cat app.policy)"
"$dump" policy --check app.policy >checked || true
has -E '^[0-9]+ of 1 rule' checked || fail "it cannot be read again: $(cat checked)"

# Nor does it come back when the follower is started again, and the profile asks for it.
follow ruled_pays.nprof
[ ! -s said ] || fail "started again it said: $(cat said)"
"$dump" policy ruled_pays.nprof --only place >again || fail "no policy: status $?"
has -E '^site .*\+0x1020 : place=consumer 2$' again || fail "the profile asks for no rule: $(cat again)"
[ "$(grep -c '^# dropped: ' app.policy)" = 1 ] || fail "what was dropped is forgotten: $(cat app.policy)"
cat >app.policy <<'EOF'
numalloc policy 1
program any

# dropped: by hand
#   "made" - 0x1020 : place=consumer 1
EOF
follow ruled_pays.nprof
has -Fx '1 rule: 1 new, 0 changed, 0 as before' said || fail "other actions: $(cat said)"
has -Fx '# dropped: by hand' app.policy || fail "the comment is gone: $(cat app.policy)"

# One that pays stays, and so does one of which too little is known, or that has no control.
for profile in ruled_pays ruled_few ruled_without; do
    written
    cp app.policy before
    follow "$profile.nprof"
    cmp app.policy before || fail "$profile: $(cat app.policy)"
    [ ! -s said ] || fail "$profile: it said: $(cat said)"
done
