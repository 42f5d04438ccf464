#!/usr/bin/env bash
# run_limits.sh LIBNUMALLOC.SO NUMALLOC-RUN NUMALLOC-DUMP - a run is held against limits and a
# baseline: what breaks one is named with its site, as text, as annotations of GitHub and as JUnit's
# XML; what is no limit is refused before the program starts.
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
run=$(realpath "$2")
need cc gcc python3 python3
cd "$work"
cat >program.c <<'EOF'
#include <stdlib.h>
#include <string.h>
static void *volatile kept;
__attribute__((noinline)) static void keeps(void) { kept = malloc(300000); }
__attribute__((noinline)) static void takes(size_t size) {
    void *volatile block = malloc(size);
    memset(block, 1, size);
    free(block);
}
int main(int count, char **words) {
    if (count > 2) keeps();
    takes(count > 1 ? (size_t)atoi(words[1]) << 20 : 4u << 20);
    return count > 3 ? 3 : 0;
}
EOF
cc -g -O1 -fno-builtin "$work/program.c" -o program

# go STATUS OPTION... -- ARGUMENT...: its standard error is in err.
go() {
    local expected=$1 status=0
    shift
    "$run" --library="$lib" "$@" >out 2>err || status=$?
    [ "$status" -eq "$expected" ] || fail "$*: status $status, not $expected: $(cat err)"
}
says() { grep -qE -- "$1" err || fail "no line '$1': $(cat err)"; }

go 0 -q -o main.nprof --profile ./program
go 0 -q --limit peak=5M --limit leaks=0 --baseline main.nprof ./program
[ ! -s err ] || fail "limits that hold, quietly: $(cat err)"
go 0 --limit peak=5M ./program
says '^ok: peak 4.00 MiB'
go 3 -q --limit peak=9M ./program 4 keep fail

go 86 -q --limit peak=2M ./program
says '^failed: peak > 2.00 MiB: .* is 4.00 MiB$'
says '^  4.00 MiB by takes  program.c:[0-9]+$'
go 86 -q --limit leaks=0 ./program 4 keep
says '^failed: leaks > 0 B: '
says '^  293 KiB by keeps  program.c:4$'
go 86 -q --baseline main.nprof ./program 6
says '^failed: peak grew from 4.00 MiB to 6.00 MiB \(\+50.0 %\)$'
says '^  2.00 MiB more by takes  program.c:'
go 0 -q --baseline main.nprof --limit=peak=60% ./program 6
go 86 -q --baseline main.nprof --limit=peak=40% ./program 6
go 86 -q --limit peak=2M ./program 4 keep fail # the program's own status counts less

go 86 -q --github --junit=result.xml --limit peak=2M --limit total=1T ./program 4
says '^::error file=program.c,line=[0-9]+,title=numalloc::failed: peak > 2.00 MiB: .*%0A  4.00 MiB by takes  program.c:[0-9]+$'
[ "$(wc -l <err)" -eq 1 ] || fail "not one annotation: $(cat err)"
python3 - <<'EOF' || fail "JUnit: $(cat result.xml)"
import xml.etree.ElementTree as tree
suite = tree.parse("result.xml").getroot()
cases = {c.get("name"): c for c in suite}
assert (suite.tag, suite.get("tests"), suite.get("failures")) == ("testsuite", "3", "1"), suite.attrib
failure = cases["peak>2M"].find("failure")
assert failure.get("message").startswith("failed: peak > 2.00 MiB") and "takes  program.c" in failure.text
assert len(cases["total>1T"]) == 0 and len(cases["the profile is whole"]) == 0
EOF

refused() {
    go 125 "${@:2}" touch started
    says "$1"
    [ "$(wc -l <err)" -eq 1 ] || fail "${*:2}: not one line: $(cat err)"
    [ ! -e started ] || fail "${*:2}: the program was started"
}
refused '--limit takes FIGURE=MOST.* not: peak$' --limit peak
refused 'FIGURE is one of peak, live.* not: peek=1M$' --limit peek=1M
refused 'not: peak=$' --limit peak=
refused 'not: peak=many$' --limit peak=many
refused 'needs --baseline=FILE: --limit=peak=5%' --limit peak=5%
refused 'one --limit in percent' --limit peak=5% --limit live=5% --baseline main.nprof
refused '--baseline=none.nprof: No such file' --baseline none.nprof
refused '--github needs --limit or --baseline' --github
refused 'limits are for a program' --limit peak=1M --later
refused '--junit takes a file' --limit peak=1M --junit=
go 125 -q --limit peak=1M --junit=none/result.xml ./program
says '--junit=none/result.xml: No such file'
echo damaged >damaged
go 125 -q --limit peak=1M --baseline damaged ./program
