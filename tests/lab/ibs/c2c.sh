#!/bin/sh
# c2c.sh PERF PATTERNS LIBRARY DUMP - in a machine whose processors have IBS and caches: two threads count, each in a
# word of its own of one line. perf c2c and numalloc record the same run: perf's first line and that of our verdict are
# the one that the program says, and both name the same thread at each word.
set -u
perf=$1 patterns=$2 library=$3 dump=$4
fail() {
    echo "c2c.sh: $*"
    exit 1
}
[ -e /sys/bus/event_source/devices/ibs_op/caps/zen4_ibs_extensions ] || {
    echo "skipped: of processors before Zen 4, Linux does not say that another node's cache had a line modified"
    exit 77
}
cd /tmp || exit 1
sleep 20 | "$perf" c2c record -a -o c2c.data -- env PATTERN_PAUSE_MS=0 LD_PRELOAD="$library" \
    NUMALLOC_PROFILE=sites,access=watch NUMALLOC_PROFILE_FILE=/tmp/c2c.nprof "$patterns" sharing wrong 0 >said 2>&1 3>&1 ||
    fail "$(cat said)"
line=$(sed -n 's/^\([0-9a-f]*\) false_sharing.*/\1/p' said)
"$perf" c2c report -i c2c.data --stdio --no-source --coalesce tid >report 2>errors || fail "perf c2c report: $(cat errors)"
grep -A 7 'Shared Data Cache Line Table' report
sed -n '/Line Distribution Pareto/,/^ *1 /p' report | tee pareto
"$dump" verdicts c2c.nprof >verdicts || fail "numalloc-dump verdicts fails"
grep -B 2 -A 2 '^  line ' verdicts
grep -qE "^ *0 .*0x$line\$" pareto || fail "perf's first line is not 0x$line"
[ "$(sed -n 's/^  line  *0x\([0-9a-f]*\):.*/\1/p' verdicts)" = "$line" ] || fail "our first line is not 0x$line"
# Lines of "WORD THREAD".
sed -n 's/.*%  *\(0x[0-9a-f]*\) .* \([0-9]*\):lab-patterns .*/\1 \2/p' pareto | sort >of_perf
sed -n 's/^    offset \([0-9]*\), .*: lab-patterns \([0-9]*\)[ ,].*/\1 \2/p' verdicts | while read -r offset thread; do
    printf '0x%x %s\n' $((offset % 64)) "$thread"
done | sort >of_ours
cat of_perf
[ "$(sed 's/ .*//' of_perf | tr '\n' ' ')" = "0x0 0x8 " ] || fail "perf's words are $(cat of_perf)"
cmp of_perf of_ours || fail "ours are $(cat of_ours)"
