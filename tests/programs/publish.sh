#!/usr/bin/env bash
# publish.sh LIBNUMALLOC.SO NUMALLOC-RUN PROGRAM - a process that publishes its figures can be looked
# at from outside: they are right, of it alone, and gone with it.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
run=$(readlink -f "$2") program=$(readlink -f "$3")
cd "$work"
trap 'echo "publish: line $LINENO: $BASH_COMMAND" >&2' ERR
export NUMALLOC_PUBLISH=$work/pages # for numalloc-run
mkdir pages

# begin NAME [VARIABLE=VALUE...]: $pid; its input is $input, its lines are in NAME.out.
begin() {
    mkfifo "$1.in"
    env LD_PRELOAD="$lib" "${@:2}" "$program" <"$1.in" >"$1.out" 2>"$1.err" &
    pid=$!
    at_end+=("kill -9 $pid 2>/dev/null")
    exec {input}>"$1.in"
    until_true "$1 does not begin" grep -q ready "$1.out"
}
# until_true WORDS COMMAND...: waits for it; a machine may be slow, so for minutes.
until_true() {
    local words=$1 end=$((SECONDS + 300))
    shift
    until "$@" 2>/dev/null; do
        [ $SECONDS -lt $end ] || fail "$words: $("$run" --status 2>&1 || true)"
        sleep 0.02
    done
}
# figure PID NAME: a sample of OpenMetrics. Empty: there is none.
figure() { "$run" --status="$1" --openmetrics | sed -n "s/^numalloc_$2{.*} //p"; }
# lies PID LEAST MOST: bytes that are allocated.
lies() {
    local bytes
    bytes=$(figure "$1" allocated_bytes) && [ -n "$bytes" ] && [ "$bytes" -ge "$2" ] && [ "$bytes" -le "$3" ]
}
no_pages() { ! "$run" --status | grep "$program_name" >/dev/null; }
program_name=$(basename "$program")
# A turn of the program's, and what the C library has.
over=2000000

wrong() { # WORDS ARGUMENT...
    local status=0
    "$run" "${@:2}" >out 2>err || status=$?
    if [ $status != 125 ] || [ "$(wc -l <err)" != 1 ] || ! has -F -- "$1" <err; then
        fail "${*:2}: status $status: $(cat out err)"
    fi
}

# ---- Right, while it runs.
begin first
first=$pid
until_true "nothing is allocated" lies "$first" 0 $over
echo "grow 100000" >&"$input"
until_true "102.4 MB are not seen" lies "$first" 102400000 $((102400000 + over))
"$run" --status="$first" >text
has -E '^  allocated +9[789]\.[0-9] MiB ' <text || fail "text: $(cat text)"
has '^node 0' <text || fail "no node: $(cat text)"
"$run" --status >table
has -E "^ +$first  $(basename "$program") +9[789]\.[0-9] MiB" <table || fail "table: $(cat table)"
"$run" --status --openmetrics >metrics
[ "$(tail -n 1 metrics)" = '# EOF' ] || fail "no end: $(tail -n 3 metrics)"
python3 - metrics <<'PY' || fail "not OpenMetrics"
import re, sys
kind = None
for line in open(sys.argv[1]).read().splitlines()[:-1]:
    if line.startswith("# TYPE "):
        family, kind = line.split()[2:]
        continue
    if line.startswith("# "):
        assert line.split()[2] == family, line
        continue
    found = re.fullmatch(r'(\w+)\{pid="\d+",program="[^"\n]*"(,node="(\d+|any)")?\} \d+', line)
    assert found and found[1] == family + ("_total" if kind == "counter" else ""), line
PY

# ---- A forked child has a page of its own; the parent's stays the parent's.
echo fork >&"$input"
until_true "no child" grep -q child first.out
child=$(sed -n 's/^child //p' first.out)
until_true "the child has no page" lies "$child" 102400000 $((102400000 + over))
echo "grow 100000" >&"$input"
until_true "the parent is not seen" lies "$first" 204800000 $((204800000 + over))
until_true "the child has its parent's figures" lies "$child" 102400000 $((102400000 + over))

# ---- Who ends takes its page along; what is left of who was killed is no process.
exec {input}>&-
wait "$first" || fail "status $?: $(cat first.err)"
[ ! -e "pages/numalloc.$first.status" ] || fail "the page is left"
until_true "the killed child's page is shown" no_pages
[ ! -s first.err ] || fail "it says: $(cat first.err)"

# ---- A process that has become another program has no figures.
LD_PRELOAD=$lib bash -c 'until [ -e "$NUMALLOC_PUBLISH/numalloc.$$.status" ]; do x=({1..5000}); done
unset LD_PRELOAD; exec sleep 600' &
became=$!
at_end+=("kill $became 2>/dev/null")
until_true "exec" grep -q '^sleep' "/proc/$became/comm"
[ -e "pages/numalloc.$became.status" ] || fail "the page of what it was is gone"
wrong 'publishes no figures' --status="$became"

# ---- Files of others are none.
begin second
second=$pid
head -c 4096 /dev/urandom >pages/numalloc.1.status
printf x >pages/numalloc.2.status
: >pages/numalloc.3.status
mkfifo pages/numalloc.4.status
mkdir pages/numalloc.5.status
ln -s "numalloc.$second.status" pages/numalloc.6.status
until_true "nothing is allocated" lies "$second" 0 $over
"$run" --status >table
[ "$(wc -l <table)" = 2 ] || fail "files that are no pages are shown: $(cat table)"
exec {input}>&-
wait "$second" || fail "status $?"

# ---- What cannot be is said, once, and the program goes on.
says() { # WORDS VALUE
    local status=0
    env LD_PRELOAD="$lib" NUMALLOC_PUBLISH="$2" /bin/echo fine >out 2>err || status=$?
    if [ $status != 0 ] || [ "$(cat out)" != fine ] || [ "$(wc -l <err)" != 1 ] || ! has -F -- "$1" <err; then
        fail "NUMALLOC_PUBLISH=$2: status $status, $(cat out err)"
    fi
}
says 'the whole path' pages
says 'no such directory' "$work/nowhere"
says 'no such directory' "$work/table"
wrong 'publishes no figures' --status=$$
wrong 'the number of a process' --status=x
wrong 'no process' --status=$first
wrong '--openmetrics needs --status' --openmetrics
NUMALLOC_PUBLISH=$work/nowhere wrong 'No such file' --status
say "a page is right, of one process, and gone with it"
