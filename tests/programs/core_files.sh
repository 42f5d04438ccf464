#!/usr/bin/env bash
# core_files.sh LIBRARY PROGRAM - core files, made by gcore and by the kernel, hold what was in use
# and not what was only reserved: with the library at most 1 MiB (and its code) more beside the
# resident memory than without it, under a profile 1.25 MiB (a thread's tables of stacks, of which it
# has used a part), and the program's blocks are in them.
# shellcheck source=tests/programs/lib.sh
source "$(dirname "$0")/lib.sh"
need gcore gdb readelf binutils
program=$2
mark=gnihtemos-$$-dnif-ot
found=$(rev <<<"$mark")

# KiB of the file, where the program has so much anonymous memory: what is beside it, in $beside.
judge() { # NAME FILE KIB
    [ -s "$2" ] || fail "$1: no core file was made"
    grep -qa -- "$found" "$2" || fail "$1: the program's block is not in the core file"
    beside=$(($(stat -c %s "$2") / 1024 - $3))
    rm -f "$2"
}

by_gcore() { # NAME MIB [VARIABLE=VALUE...]
    local name=$1 mib=$2 line pid anon
    shift 2
    coproc subject { exec env "$@" "$program" "$mib" "$mark"; }
    pid=$subject_PID
    read -r line <&"${subject[0]}" || fail "$name: the program did not start"
    anon=$(awk '/^RssAnon/ { print $2 }' "/proc/$pid/status")
    timeout 300 gcore -o "$work/core" "$pid" >"$work/out" 2>&1 || fail "$name: $(tail -1 "$work/out")"
    kill "$pid"
    wait "$pid" 2>/dev/null || true
    judge "$name" "$work/core.$pid" "$anon"
}

# gdb writes a mapping that begins with an ELF header whole: the code of the library.
code=$(LC_ALL=C readelf -lW "$lib" | awk '$1 == "LOAD" { print $5; exit }')
more=$((1024 + (code + 1023) / 1024))
for mib in 1 40; do
    by_gcore plain $mib MALLOC_ARENA_MAX=1
    plain=$beside
    by_gcore preloaded $mib LD_PRELOAD="$lib"
    say "$mib MiB: $plain KiB beside resident memory, $beside with the library"
    [ "$beside" -le $((plain + more)) ] || fail "gcore, $mib MiB: $beside KiB are in the core file that are not resident, $plain without the library"
done
# Which pages hold memory differs by 200 KiB from run to run, with how far each thread gets.
for mode in sites sample trace; do
    for _ in 1 2 3; do
        by_gcore $mode 10 LD_PRELOAD="$lib" NUMALLOC_PROFILE=$mode NUMALLOC_PROFILE_FILE="$work/p.%p"
        say "$mode: $beside KiB beside resident memory"
        [ "$beside" -gt $((plain + more + 256)) ] || continue 2
    done
    fail "gcore, $mode: $beside KiB are in the core file that are not resident, $plain without the library"
done

# The kernel's own, where it writes files.
pattern=$(cat /proc/sys/kernel/core_pattern)
directory=$work/kernel
mkdir "$directory"
case $pattern in
'|'*)
    say "the kernel's core files go to a program here (core_pattern): gcore's only"
    exit 0
    ;;
/*) directory=$(dirname "$pattern") ;;
esac
{ ulimit -c unlimited && [ -w "$directory" ]; } 2>/dev/null || {
    say "the kernel makes no core files here: gcore's only"
    exit 0
}
by_kernel() { # NAME [VARIABLE=VALUE...]
    local name=$1 pid file
    shift
    (cd "$work/kernel" && exec env "$@" "$program" 20 "$mark" end) >/dev/null 2>&1 &
    pid=$!
    wait "$pid" 2>/dev/null || true
    file=$(ls -t "$directory"/*"$pid"* "$work"/kernel/core 2>/dev/null | head -1)
    judge "$name" "$file" 0
}
# Where huge pages are given unasked, the last one is whole.
most=4096
! grep -qF '[always]' /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || most=$((most + 2048))
by_kernel plain MALLOC_ARENA_MAX=1
plain=$beside
by_kernel preloaded LD_PRELOAD="$lib"
say "kernel: $plain KiB, $beside with the library"
[ "$beside" -le $((plain + most)) ] || fail "the kernel's core file has $beside KiB, $plain without the library"
by_kernel sites LD_PRELOAD="$lib" NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/p.%p"
say "kernel, sites: $beside KiB"
[ "$beside" -le $((plain + most)) ] || fail "the kernel's core file has $beside KiB under a profile, $plain without the library"
