#!/bin/sh
# perf_mem.sh PERF PROGRAM... - in a machine of several nodes with IBS: stock `perf mem record` and
# `perf c2c record`, as they are, see loads by local and by remote memory, and stores.
set -u
perf=$1
shift
fail() {
    echo "perf_mem.sh: $*"
    exit 1
}
cd /tmp || exit 1
"$perf" mem record -a -o mem.data -- "$@" >record 2>&1 || fail "perf mem record: $(cat record)"
"$perf" mem report -i mem.data --stdio --sort=mem >mem 2>/dev/null || fail "perf mem report fails"
grep '%' mem
for answer in 'Local RAM hit' 'Remote RAM'; do
    grep -q "%.*$answer" mem || fail "no '$answer'"
done
"$perf" c2c record -a -o c2c.data -- "$@" >record 2>&1 || fail "perf c2c record: $(cat record)"
"$perf" c2c report -i c2c.data --stdio --stats >c2c 2>/dev/null || fail "perf c2c report fails"
for what in 'Load Operations' 'Load Local DRAM' 'Load Remote DRAM' 'Store Operations'; do
    count=$(sed -n "s/^ *$what *: *\([0-9]*\)\$/\1/p" c2c | head -n 1)
    echo "$what: $count"
    [ "${count:-0}" -ge 20 ] || fail "too few of '$what'"
done
