#!/bin/sh
# c2c.sh PERF PATTERNS - in a machine whose processors have IBS and caches: two threads count, each in a word of
# its own of one line. perf c2c has that line first, as the program says it, and these words.
set -u
perf=$1 patterns=$2
fail() {
    echo "c2c.sh: $*"
    exit 1
}
cd /tmp || exit 1
sleep 10 | "$perf" c2c record -a -o c2c.data -- env PATTERN_PAUSE_MS=0 "$patterns" sharing wrong 0 >said 2>&1 3>&1 ||
    fail "$(cat said)"
line=$(sed -n 's/^\([0-9a-f]*\) false_sharing.*/\1/p' said)
"$perf" c2c report -i c2c.data --stdio --no-source >report 2>errors || fail "perf c2c report: $(cat errors)"
grep -A 7 'Shared Data Cache Line Table' report
sed -n '/Line Distribution Pareto/,/^ *1 /p' report | tee pareto
grep -qE "^ *0 .*0x$line\$" pareto || fail "perf's first line is not 0x$line"
words=$(sed -n 's/.*%  *\(0x[0-9a-f]*\) .*/\1/p' pareto | sort -u | tr '\n' ' ')
[ "$words" = "0x0 0x8 " ] || fail "perf's words are $words"
