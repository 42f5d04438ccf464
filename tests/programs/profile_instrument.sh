#!/bin/bash
# profile_instrument.sh LIBRARY NUMALLOC_DUMP LIBNUMALLOC-INSTRUMENT - the call stacks of a program
# that keeps them itself (-finstrument-functions): whole, over exceptions, after longjmp, and
# without libnumalloc in the process.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
dump=${2:-} instrument=${3:-}
[ -x "$dump" ] && [ -r "$instrument" ] || fail "usage: $0 LIBNUMALLOC.SO NUMALLOC_DUMP LIBNUMALLOC-INSTRUMENT.SO"
need g++ g++
[ -x /usr/bin/python3 ] || skip "program '/usr/bin/python3' is missing; install the package 'python3'"

g++ -std=gnu++17 -g -O1 -finstrument-functions "$test_source/profile_instrument.cpp" -o "$work/program" \
    "$instrument" -Wl,-rpath,"$(dirname "$instrument")" || fail "the compiler does not build profile_instrument.cpp"
"$work/program" || fail "the program fails without libnumalloc: status $?"
env NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/p.nprof" LD_PRELOAD="$lib" "$work/program" 2>"$work/err" ||
    fail "the program fails under a profile: $(head -n 3 "$work/err")"
[ ! -s "$work/err" ] || fail "unexpected on stderr: $(cat "$work/err")"
"$dump" --json --stacks --top 0 "$work/p.nprof" >"$work/p.json" || fail "numalloc-dump ends with status $?"
/usr/bin/python3 - "$work/p.json" <<'END_PYTHON' || fail "the stacks are not those of the program"
import json, sys
expected = {
    101: ["allocate", "inner", "middle", "main"],
    102: ["allocate", "middle", "main"],
    103: ["allocate", "after_jump", "jump_and_go_on", "main"],
    104: ["allocate", "after_throw", "throw_and_go_on", "main"],
    105: ["allocate"] + 101 * ["deep"] + ["main"],
    106: ["allocate", "main"],
}
# Of the program's functions; between them are the libraries'.
through = {
    107: ["duplicates", "main"],
    109: ["silent", "calls_silent", "main"],
    110: ["allocate", "compares", "sorts", "main"],
    111: ["allocate", "handler", "<signal handler called>", "raises", "main"],
    112: ["allocate", "inlined", "inlines", "main"],
    113: ["allocate", "inlines", "main"],
    201: ["assigns", "main"],
}
own = {name for names in list(expected.values()) + list(through.values()) for name in names}
found, wrong = {}, False
for site in json.load(open(sys.argv[1]))["sites"]:
    names = [f.get("function", "?").split("(")[0] for f in site["stack"]]
    found.setdefault(site["size_max"], []).append(names)
for size, names in expected.items():
    got = found.get(size, [])
    if len(got) != 1 or got[0][: len(names)] != names or len(got[0]) > len(names) + 3:
        print("malloc(%d): %s, expected one stack %s" % (size, got, names), file=sys.stderr)
        wrong = True
for size, names in through.items():
    got = [[name for name in stack if name in own] for stack in found.get(size, [])]
    if names not in got:
        print("malloc(%d): %s, expected one with %s" % (size, found.get(size), names), file=sys.stderr)
        wrong = True
sys.exit(wrong)
END_PYTHON
say "stacks kept by the program are whole, also after exceptions and longjmp, and through libraries and signals"

# The same program, walked: what a handler interrupted goes on below it.
g++ -std=gnu++17 -g -O1 "$test_source/profile_instrument.cpp" -o "$work/plain" || fail "the compiler does not build it without instrumentation"
env NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/plain.nprof" LD_PRELOAD="$lib" "$work/plain" || fail "the plain program fails: status $?"
"$dump" --json --stacks --top 0 "$work/plain.nprof" | /usr/bin/python3 -c 'import json, sys
site, = [s for s in json.load(sys.stdin)["sites"] if s["size_max"] == 111]
names = [f.get("function", "?").split("(")[0] for f in site["stack"]]
assert names[:3] == ["allocate", "handler", "<signal handler called>"] and names[names.index("raises"):][:2] == ["raises", "main"], names
' || fail "the stack of a signal handler is not named"
say "a signal's trampoline has a name"
