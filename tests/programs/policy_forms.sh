#!/usr/bin/env bash
# policy_forms.sh LIBNUMALLOC.SO POLICY_FORMS PLUGIN.SO STATIC_PROGRAM - rules hold for every form of
# allocation, for libraries as soon as dlopen returns, for threads that start meanwhile, and in a
# child that was forked in the middle of it. A file that is none is said in one line, and nothing is
# waited for. A program that the library is linked into hears that rules do nothing there.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
program=$2 plugin=$3 static=$4
[ "$(uname -m)" = x86_64 ] || skip "calls are found by name on x86-64"

{
    printf 'numalloc policy 1\nprogram %s\nsite plugin_site : place=local, control=off\n' "$(basename "$program")"
    nm "$program" | awk '$3 ~ /^by_/ { print "site " $3 " : place=local, control=off" }'
} >"$work/forms.policy"
run() {
    timeout 300 env LD_PRELOAD="$lib" NUMALLOC_POLICY="$work/forms.policy" NUMALLOC_STATS=1 "$@" 2>"$work/errors" ||
        fail "${*: -3}: $(grep -v '^ ' "$work/errors" | head -n 3)"
    ! grep '^numalloc: ' "$work/errors" || fail "${*: -3}: it complains"
}

run "$program" forms
grep -q '^policy .*: 15 rules, 1 not bound; [0-9]* blocks, ' "$work/errors" ||
    fail "not 14 of 15 rules: $(grep '^policy' "$work/errors")"
mkdir "$work/plugins"
for i in 1 2 3 4 5 6; do cp "$plugin" "$work/plugins/libplugin$i.so"; done
run "$program" open "$work"/plugins/*.so
run env LD_LIBRARY_PATH="$work/plugins" "$program" by-name libplugin3.so
(cd "$work" && run "$program" open plugins/libplugin2.so)
for _ in 1 2 3; do run "$program" fork "$work/plugins/libplugin1.so" "$work/plugins/libplugin2.so"; done

# A file that is none.
one_line() { # FILE WHAT
    local status=0
    timeout 300 env LD_PRELOAD="$lib" NUMALLOC_POLICY="$1" /bin/true 2>"$work/errors" || status=$?
    [ $status = 0 ] || fail "$1: status $status"
    [ "$(grep -c . "$work/errors")" = 1 ] || fail "$1: not one line: $(cat "$work/errors")"
    grep -qF "numalloc: NUMALLOC_POLICY=$1 $2: no policy" "$work/errors" || fail "$1: $(cat "$work/errors")"
}
mkfifo "$work/fifo"
one_line "$work/fifo" "is no regular file"
one_line "$work" "is no regular file"
one_line /dev/zero "is no regular file"
one_line "$work/forms.policy/x" "is not there"
one_line nowhere.policy "is not there"
if [ "$(id -u)" = 0 ]; then # who reads everything
    say "unreadable file: not as root"
else
    cp "$work/forms.policy" "$work/closed"
    chmod 0 "$work/closed"
    one_line "$work/closed" "cannot be read"
fi
: >"$work/empty"
LD_PRELOAD=$lib NUMALLOC_POLICY=$work/empty /bin/true 2>"$work/errors" || fail "an empty file"
[ "$(grep -c . "$work/errors")" = 1 ] || fail "an empty file: not one line: $(cat "$work/errors")"
(cd "$work" && LD_PRELOAD=$lib NUMALLOC_POLICY=forms.policy NUMALLOC_STATS=1 "$program" forms 2>errors) ||
    fail "a relative name"
grep -q '^policy forms.policy: 15 rules' "$work/errors" || fail "a relative name: $(grep '^policy' "$work/errors")"

# Linked in.
sed 's/^program .*/program any/' "$work/forms.policy" >"$work/any.policy"
NUMALLOC_POLICY=$work/any.policy NUMALLOC_STATS=1 "$static" >/dev/null 2>"$work/errors" || fail "linked in: it fails"
[ "$(grep -c "^numalloc: NUMALLOC_POLICY=.* does not reach calls of the program itself" "$work/errors")" = 1 ] ||
    fail "linked in: not said: $(grep -i policy "$work/errors")"
grep -q '^policy .*calls of the program itself out of reach' "$work/errors" || fail "linked in: not in the statistics"
NUMALLOC_POLICY=$work/forms.policy "$static" >/dev/null 2>"$work/errors" || fail "linked in, another's: it fails"
! grep -i policy "$work/errors" || fail "linked in, another's: it is said"
