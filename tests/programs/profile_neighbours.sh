#!/usr/bin/env bash
# profile_neighbours.sh LIBNUMALLOC.SO NUMALLOC-DUMP - a profile is whole beside any mappings of the
# program: 20 GiB of them, one right behind each other mapping again and again, many stacks of
# threads. In each mode, in forked children, after a kill, and where address space is limited.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dump=$2
need cc gcc

cat >"$work/neighbours.c" <<'END'
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define DEPTH   11

static __thread void *volatile last; /* a block of another thread's is not to be freed */
static void *map(uintptr_t at, size_t bytes) {
    int where = at != 0 ? MAP_FIXED_NOREPLACE : 0;
    return mmap((void *)at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | where, -1, 0);
}

/* A page behind every mapping that has nobody behind it. */
static void surround(void) {
    static char maps[1 << 20];
    int fd = open("/proc/self/maps", O_RDONLY);
    size_t used = 0;
    for (ssize_t n; (n = read(fd, maps + used, sizeof maps - 1 - used)) > 0;)
        used += (size_t)n;
    maps[used] = 0;
    close(fd);
    for (char *line = maps; line != NULL && *line != 0; line = strchr(line, '\n'), line += line != NULL) {
        char *end = strchr(line, '-');
        if (end != NULL) map(strtoull(end + 1, NULL, 16), 4096);
    }
}

__attribute__((noinline)) static void keep(void) { last = malloc(10000); }
__attribute__((noinline)) static void temp(void) { last = malloc(100); free(last); }
/* 2^DEPTH stacks. */
__attribute__((noinline)) static int tree(int depth) {
    if (depth == 0) {
        temp();
        return 1;
    }
    int n = tree(depth - 1);
    __asm__ volatile("");
    return n + tree(depth - 1);
}
static void *run(void *arg) {
    for (int i = 0; i < 250; i++)
        keep();
    for (int i = 0; i < 4; i++)
        tree(DEPTH);
    return arg;
}
static void work(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        surround();
        if (pthread_create(&threads[i], NULL, run, NULL) != 0) exit(3);
        if (i % 2 != 0) pthread_join(threads[i - 1], NULL), pthread_join(threads[i], NULL);
    }
}

/* neighbours GIB WORD: GIB of address space in pieces of 8 MiB, then `end`, `kill` or `fork`. */
int main(int count, char **words) {
    for (size_t gib = strtoul(words[1], NULL, 10) * 128; count == 3 && gib != 0; gib--)
        if (map(0, 8 << 20) == MAP_FAILED) return 2;
    surround();
    if (words[2][0] == 'f') {
        pid_t child = fork();
        if (child == 0) {
            work();
            return 0;
        }
        waitpid(child, NULL, 0);
    }
    work();
    if (words[2][0] == 'k') kill(getpid(), SIGKILL);
    return 0;
}
END
cc -std=gnu17 -g -O2 -fno-optimize-sibling-calls -pthread "$work/neighbours.c" -o "$work/neighbours" ||
    fail "the compiler does not build neighbours.c"

# check FILE: all blocks of keep and temp are in the profile, at their own functions.
check() {
    for view in functions run; do
        "$dump" "$view" --json "$1" >"$work/$view.json" || [ "$?" = 1 ] || fail "cannot read $1"
    done
    /usr/bin/python3 - "$work/functions.json" "$work/run.json" <<'END' || fail "${1##*/}: not as the program was"
import json, sys
functions, run = (json.load(open(name)) for name in sys.argv[1:])
found = {row["function"]: (row["allocations"], row["live_blocks"]) for row in functions["rows"]}
wanted = {"keep": (1000, 1000), "temp": (32768, 0)}
bad = {name: found.get(name) for name in wanted if found.get(name) != wanted[name]}
lost = {what: count for what, count in run["lost"].items() if count and what != "before_frees"}
if bad or lost:
    sys.exit("%s, expected %s; lost: %s" % (bad, wanted, lost))
END
}

# profiled MODE GIB WORD: one run; its files are $work/MODE.GIB.WORD.*
profiled() {
    local rc=0 wanted=0
    [ "$3" != kill ] || wanted=137
    { # bash tells of the kill here
        NUMALLOC_PROFILE=$1 NUMALLOC_PROFILE_FILE="$work/$1.$2.$3.%p" LD_PRELOAD=$lib \
            "$work/neighbours" "$2" "$3" 2>"$work/err" || rc=$?
    } 2>/dev/null
    [ "$rc" = "$wanted" ] || fail "$1 $2 $3: status $rc"
    [ ! -s "$work/err" ] || fail "$1 $2 $3: said $(head -n 2 "$work/err")"
    for file in "$work/$1.$2.$3".*; do
        check "$file"
        rm "$file"
    done
}

for mode in sites trace; do
    for gib in 0 20; do
        for how in end kill fork; do
            profiled "$mode" "$gib" "$how"
        done
    done
done
(
    ulimit -v 4000000
    profiled sites 1 end
    profiled trace 1 end
)
say "all events are counted beside 20 GiB of mappings, and beside one behind each other mapping"
