#!/bin/sh
# perf_mem.sh PERF PROGRAM... - in a machine of several nodes with IBS: stock `perf mem record` and
# `perf c2c record`, as they are, see loads by local and by remote memory, and stores; `perf record` of
# fetches has functions of the program and of the kernel.
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
for answer in 'Local RAM' 'Remote .*RAM'; do # the kernel's version has the rest of the words
    grep -q "%.*$answer" mem || fail "no '$answer'"
done
"$perf" c2c record -a -o c2c.data -- "$@" >record 2>&1 || fail "perf c2c record: $(cat record)"
"$perf" c2c report -i c2c.data --stdio --stats >c2c 2>/dev/null || fail "perf c2c report fails"
for what in 'Load Operations' 'Load Local DRAM' 'Load Remote DRAM' 'Store Operations'; do
    count=$(sed -n "s/^ *$what *: *\([0-9]*\)\$/\1/p" c2c | head -n 1)
    echo "$what: $count"
    [ "${count:-0}" -ge 20 ] || fail "too few of '$what'"
done
"$perf" record -a -e ibs_fetch/rand_en=1/ -c 16384 -o fetch.data -- "$@" >record 2>&1 || fail "perf record of fetches: $(cat record)"
"$perf" report -i fetch.data --stdio --sort=comm,symbol >fetch 2>/dev/null || fail "perf report of fetches fails"
grep '%' fetch | head -n 5
name=$(basename "$1")
grep -q "%.*$name.*\[\.\] [a-z]" fetch || fail "no fetch of a function of $name"
grep -q "%.*\[k\] [a-z]" fetch || fail "no fetch of the kernel's"
