#!/usr/bin/env bash
# sample_forks.sh LIBNUMALLOC.SO NUMALLOC-DUMP - children of one process that do the same draw samples of
# their own: not the same blocks in each. With a seed they draw the same ones in each run.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
lib=$1 dump=$2
need cc gcc
children=16

cat >"$work/workers.c" <<'END'
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 4000 };
static void *block[BLOCKS];

int main(int argc, char **argv) {
    (void)argc;
    for (int i = 0; i < BLOCKS; i++)
        block[i] = malloc(100);
    for (int i = 0; i < BLOCKS; i++)
        free(block[i]);
    for (int child = atoi(argv[1]); child > 0; child--) {
        if (fork() == 0) {
            for (int i = 0; i < BLOCKS; i++)
                block[i] = malloc(100);
            return 0;
        }
        wait(NULL);
    }
    return 0;
}
END
cc -O1 -fno-builtin -o "$work/workers" "$work/workers.c" || fail "the program does not build"

# The samples of each child, one after the other. (4,000 blocks of 112 bytes: 27 on average.)
samples() { # DIRECTORY
    mkdir "$1"
    LD_PRELOAD="$lib" NUMALLOC_PROFILE=sample NUMALLOC_SAMPLE_INTERVAL=16384 NUMALLOC_SAMPLE_SEED=7 \
        NUMALLOC_PROFILE_FILE="$1/%p.nprof" "$work/workers" $children
    find "$1" -name '*.nprof' | sort -V | tail -n $children | while read -r file; do
        "$dump" --json "$file" | sed -n 's/.*"samples":\([0-9]*\),.*/\1/p' | head -n 1
    done | paste -sd ' '
}

first=$(samples "$work/first")
again=$(samples "$work/again")
say "samples: $first"
[ "$(wc -w <<<"$first")" = $children ] || fail "not $children children have samples: $first"
[ "$(tr ' ' '\n' <<<"$first" | sort -u | wc -l)" -ge $((children / 4)) ] || fail "the children draw alike: $first"
[ "$first" = "$again" ] || fail "with a seed, another run draws differently: $again"
