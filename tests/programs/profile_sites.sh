#!/bin/bash
# profile_sites.sh - a profile of a program with known allocations names every site with its exact
# figures (modes sites and trace), also with threads, and within its stated error (mode sample).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"

mkdir "$work/p"
profiled sites "$work/p/%e.%p.nprof" sites
file=$(the_one "$work/p/profile_load.*.nprof")
[[ $file =~ /profile_load\.[0-9]+\.nprof$ ]] || fail "the pattern %e.%p.nprof made '$file'"
# The third block of 10 MiB makes the peak: what lives then, lives at the peak of every site.
figures=(@closed=True @lost.events=0 @lost.stacks=0 @lost.before_frees=0
    alloc_small:allocations=1000,total_bytes=48000,peak_bytes=48000,peak_blocks=1000,live_bytes=0,frees=1000
    alloc_temp:allocations=5000,total_bytes=500000,peak_bytes=0,live_bytes=0
    alloc_zeroed:allocations=200,total_bytes=66000,peak_bytes=66000,live_bytes=66000,live_blocks=200
    alloc_aligned:allocations=10,total_bytes=10000,peak_bytes=10000,live_bytes=10000
    alloc_grow:allocations=1,total_bytes=16,live_bytes=0
    alloc_regrow:allocations=10,total_bytes=32736,reallocs=10,live_bytes=0,peak_bytes=0
    alloc_big:allocations=3,total_bytes=31457280,peak_bytes=31457280,live_bytes=0
    -alloc_thread -alloc_many)
check "$file" @mode=sites "${figures[@]}"
profiled trace "$work/trace.nprof" sites
check "$work/trace.nprof" @mode=trace "${figures[@]}"
say "modes sites and trace: counts, bytes, peak, live, function and line are exact"

# For people, too: the table names the largest site and its line.
"$dump" "$file" >"$work/text" 2>&1 || fail "numalloc-dump on a good profile ends with status $?"
grep -q alloc_big "$work/text" || fail "the text view does not name alloc_big"

# The same linked for large pages: there are gaps between its segments.
cc -std=gnu17 -g -O2 -pthread -fomit-frame-pointer -Wl,-z,max-page-size=0x200000,-z,separate-code \
    "$work/profile_load.c" -o "$work/apart" || fail "the compiler does not build profile_load.c with gaps"
whole=$load load=$work/apart
profiled sites "$work/p/apart.nprof" sites
load=$whole
check "$work/p/apart.nprof" @lost.truncated_stacks=0 alloc_small:allocations=1000 alloc_big:allocations=3
say "a program with gaps between its segments has whole stacks"

profiled sites "$work/p/threads.nprof" threads
# Peak: exact within threads x the publishing quantum of each thread.
check "$work/p/threads.nprof" \
    alloc_thread:allocations=40000,total_bytes=2560000,frees=40000,freed_bytes=2560000,live_bytes=0,live_blocks=0,cross_thread_frees=40000,peak_bytes=2000000..2560000
say "mode sites with 4 threads: exact, cross-thread frees included"

# 100 MB in blocks of 512 bytes against a sample every 64 KiB: some 1500 samples. A block of 8 MiB
# is certain to be sampled.
profiled sample "$work/p/sample.nprof" sample NUMALLOC_SAMPLE_INTERVAL=64K
check "$work/p/sample.nprof" @mode=sample @sample_interval=65536 \
    alloc_many:allocations=~200000,total_bytes=~102400000,live_bytes=~51200000 \
    alloc_large:allocations=20,total_bytes=167772160,live_bytes=83886080
profiled sample "$work/p/all.nprof" sites NUMALLOC_SAMPLE_INTERVAL=0
check "$work/p/all.nprof" @mode=sample alloc_small:allocations=1000,frees=1000 \
    alloc_zeroed:allocations=200,live_blocks=200 alloc_big:allocations=3
say "mode sample: estimates within their stated error, large blocks exact"

# No file name given: the default, in the working directory, and never the same twice.
mkdir "$work/default"
for _ in 1 2; do
    (cd "$work/default" && profiled sites "" sites)
done
[ "$(find "$work/default" -type f | wc -l)" = 2 ] || fail "two runs made $(find "$work/default" -type f | wc -l) files, not 2"
for file in "$work"/default/*; do
    [[ $file =~ /numalloc\.profile_load\.[0-9]+\.[0-9]+\.nprof$ ]] ||
        fail "the default name is '${file##*/}', not numalloc.PROGRAM.PID.START.nprof"
    check "$file" alloc_small:allocations=1000
done
say "default file names are as documented"
