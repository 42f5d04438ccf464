#!/bin/bash
# leaks_report.sh - the report of numalloc-run --leaks: names, lines and inlined frames; what is lost first, and below
# it what that holds; suppressions by names as programmers write them, and of a library that was closed.
# usage: leaks_report.sh LIBRARY NUMALLOC_DUMP NUMALLOC_RUN
set -euo pipefail
. "$(dirname "$0")/../programs/lib.sh"
dump=$2 run=$3
source=$(cd "$(dirname "$0")" && pwd)
c++ -std=gnu++17 -O1 -g -fno-builtin "$source/leak_report.cpp" -o "$work/report" -ldl || fail "the compiler does not build leak_report.cpp"
c++ -std=gnu++17 -O1 -g -fno-builtin -shared -fPIC "$source/leak_report_library.cpp" -o "$work/library.so" || fail "no library"
report() { # ARGUMENT...: of numalloc-run; sets `status`
    status=0
    "$run" --library "$lib" --leaks "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
}
cat >"$work/judge.py" <<'END'
import re, sys
text = open(sys.argv[1]).read()
leaks = []  # (indent, kind, bytes, objects, [frames])
for line in text.splitlines():
    if m := re.fullmatch(r"( *)(Direct|Indirect) leak of (\d+) byte\(s\) in (\d+) object\(s\) allocated from:", line):
        leaks.append((len(m[1]), m[2], int(m[3]), int(m[4]), []))
    elif m := re.fullmatch(r" +#(\d+) 0x[0-9a-f]+ in (.*)", line):
        assert int(m[1]) == len(leaks[-1][4]), line
        leaks[-1][4].append(m[2])
def frame(leak, at):
    return leak[4][at].replace(" (inlined)", "").rsplit("/", 1)[-1] if "/" in leak[4][at] else leak[4][at]
assert [l[:4] for l in leaks[:5]] == [(0, "Direct", 48, 1), (2, "Indirect", 410, 4), (2, "Indirect", 160, 4), (2, "Indirect", 144, 3),
    (0, "Direct", 77, 1)], leaks
assert leaks[0][4][0].startswith("app::Registry::add(app::Node*, int) ") and frame(leaks[0], 0).startswith("leak_report.cpp:"), leaks[0]
assert leaks[0][4][1].startswith("app::build() ") and leaks[0][4][2].startswith("main "), leaks[0]
assert any(f.startswith("app::Registry::named") and f.endswith("(inlined)") for f in leaks[1][4]), leaks[1]
assert leaks[2][4][0].startswith("app::make<int>(int) "), leaks[2]
assert leaks[4][4][0].startswith("library::inner() ") and frame(leaks[4], 0).startswith("leak_report_library.cpp:"), leaks[4]
# A ring: two blocks of one line, or of two; none of them is a direct leak.
ring = leaks[5:]
assert sum(l[2] for l in ring) == 144 and sum(l[3] for l in ring) == 2 and {l[1] for l in ring} == {"Indirect"}, ring
assert all(l[4][0].startswith("app::ring() ") for l in ring), ring
assert "SUMMARY: 983 byte(s) leaked in 15 allocation(s)" in text and "_ZN" not in text, text
END
report "$work/report" "$work/library.so"
[ "$status" = 86 ] || fail "status $status: $(cat "$work/err")"
/usr/bin/python3 "$work/judge.py" "$work/err" || fail "the report: $(cat "$work/err")"
grep -q '1 process has lost blocks' "$work/err" || fail "$(cat "$work/err")"
report --profile -o "$work/p.nprof" "$work/report" "$work/library.so"
[ "$status" = 86 ] || fail "with a profile: status $status: $(cat "$work/err")"
/usr/bin/python3 "$work/judge.py" "$work/err" || fail "with a profile: $(cat "$work/err")"
"$dump" leaks --stacks "$work/p.nprof" >"$work/err" && /usr/bin/python3 "$work/judge.py" "$work/err" || fail "numalloc-dump leaks --stacks: $(cat "$work/err")"
report -q sh -c "'$work/report'; '$work/report'; exit 5"
[ "$status" = 86 ] && [ ! -s "$work/err" ] || fail "-q: status $status: $(cat "$work/err")"
report sh -c "'$work/report'; '$work/report'"
[ "$(grep -c '^SUMMARY: 906 byte(s) leaked in 14 ' "$work/err")" = 2 ] && grep -q '2 processes have lost blocks' "$work/err" ||
    fail "two processes: $(cat "$work/err")"
say "names, lines, inlined frames, and what holds what"

# What a suppressed leak holds goes with it.
export NUMALLOC_LEAKS_SUPPRESSIONS=$work/list
printf 'leak:^library::inner\nleak:app::build()\n' >"$work/list"
report "$work/report" "$work/library.so"
[ "$status" = 86 ] && grep -q '^SUMMARY: 144 byte(s) leaked in 2 ' "$work/err" || fail "suppressed: status $status, $(cat "$work/err")"
printf 'leak:library.so$\nleak:^app::Registry::add\nleak:app::ring\n' >"$work/list"
report "$work/report" "$work/library.so"
[ "$status" = 0 ] && [ ! -s "$work/err" ] || fail "all is suppressed: status $status, $(cat "$work/err")"
# A list with lines that are no suppressions of leaks is said, and hides no report.
printf 'race:nonsense\n' >"$work/list"
report "$work/report"
[ "$status" = 86 ] && grep -q '^SUMMARY: 906 byte(s) leaked in 14 ' "$work/err" && grep -q 'leak:PATTERN' "$work/err" ||
    fail "a wrong line in the list: status $status, $(cat "$work/err")"
# The process by itself knows symbols, and modules, too.
for pattern in 'library.so$' '^_ZN7library5innerEv$'; do
    printf 'leak:%s\nleak:build\nleak:ring\n' "$pattern" >"$work/list"
    status=0
    LD_PRELOAD=$lib NUMALLOC_LEAKS=1 NUMALLOC_LEAKS_EXIT=9 "$work/report" "$work/library.so" 2>"$work/err" || status=$?
    [ "$status" = 0 ] && [ ! -s "$work/err" ] || fail "$pattern: status $status, $(cat "$work/err")"
done
unset NUMALLOC_LEAKS_SUPPRESSIONS
say "suppressions by demangled names, of a closed library, and with what is held"

# By itself: what is lost first; it says who knows more.
LD_PRELOAD=$lib NUMALLOC_LEAKS=1 "$work/report" "$work/library.so" 2>"$work/err"
head -n 1 "$work/err" | has '^numalloc: 48 bytes in 1 block lost, 144 bytes in 3 blocks indirectly lost' || fail "not the root first: $(cat "$work/err")"
grep -q '_ZN7library5innerEv+0x.*library.so+0x' "$work/err" || fail "a closed library has no name: $(cat "$work/err")"
grep -q 'numalloc-run --leaks shows' "$work/err" || fail "no word of who knows more: $(cat "$work/err")"
# A directory that cannot be written to: the report of the process.
LD_PRELOAD=$lib NUMALLOC_LEAKS=1 NUMALLOC_LEAKS_FILE=$work/none "$work/report" 2>"$work/err"
grep -q '^numalloc: .* are lost, ' "$work/err" || fail "no report where there is no place for a file: $(cat "$work/err")"
say "the report of a process by itself"
