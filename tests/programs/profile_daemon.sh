#!/usr/bin/env bash
# profile_daemon.sh LIBNUMALLOC.SO NUMALLOC-DUMP - the name of a profile counts from where the program
# began: after chdir, closed descriptors, another root directory; in children made then, in copies, by
# default, plain and absolute names. Who may not write there any more says so in one line.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dump=$2
need cc gcc

cat >"$work/daemon.c" <<'END'
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <numalloc/numalloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void work(unsigned count) {
    for (unsigned i = 0; i < count; i++)
        free(strdup("a block"));
    free(malloc(100000));
}

/* daemon WORD...: what the process does, one after the other. */
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int good = 1;
        if (strcmp(word, "daemon") == 0) { /* as daemon(3), which goes to "/" */
            pid_t child = fork();
            if (child != 0) {
                int status;
                waitpid(child, &status, 0);
                _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
            }
            good = chdir("/") == 0;
        } else if (strcmp(word, "close") == 0) {
            close_range(3, 65535, 0);
            good = open("/dev/null", O_RDONLY) == 3 && open("/dev/null", O_RDONLY) == 4;
        } else if (strncmp(word, "root=", 5) == 0) {
            good = chroot(word + 5) == 0 && chdir("/") == 0;
        } else if (strcmp(word, "user") == 0) {
            good = setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0;
        } else if (strcmp(word, "work") == 0) {
            work(1000);
        } else if (strcmp(word, "dump") == 0) {
            good = numalloc_record_dump() == 0;
        } else if (strncmp(word, "start=", 6) == 0) {
            good = numalloc_record_start(NUMALLOC_MODE_SITES, word[6] != 0 ? word + 6 : NULL) == 0;
        } else if (strcmp(word, "usr1") == 0) {
            raise(SIGUSR1);
            work(10000);
        } else {
            good = 0;
        }
        if (!good) {
            perror(word);
            return 3;
        }
    }
    return 0;
}
END
cc -std=gnu17 -O1 -fno-builtin -I"$test_source/../../include" -o "$work/daemon" "$work/daemon.c" "$lib" -Wl,-rpath,"$(dirname "$lib")" ||
    fail "the program does not build"
mkdir "$work/jail" "$work/away"

# starts NAME [NAME=VALUE...] -- WORD...: in a directory of its own, which is $at
starts() {
    at=$work/$1
    local set=()
    shift
    while [ "$1" != -- ]; do
        set+=("$1")
        shift
    done
    shift
    mkdir -p "$at"
    (cd "$at" && env LD_PRELOAD="$lib" "${set[@]}" "$work/daemon" "$@") 2>"$work/err" || fail "$at: status $?: $(cat "$work/err")"
}

# left COUNT PATTERN: so many profiles there, all readable and ended; nothing said, nothing elsewhere
left() {
    local files file
    mapfile -t files < <(compgen -G "$at/$2" || true)
    [ "${#files[@]}" = "$1" ] || fail "$at: ${#files[@]} of $1 files $2; $(ls -R "$at") $(cat "$work/err")"
    for file in "${files[@]}"; do
        "$dump" --top 0 "$file" >"$work/run" 2>&1 || fail "$file: $(cat "$work/run")"
        grep -q '^calls  *[1-9][0-9,]* allocations' "$work/run" || fail "$file has no allocations: $(cat "$work/run")"
    done
    [ ! -s "$work/err" ] || fail "$at: $(cat "$work/err")"
    [ -z "$(compgen -G "/*.nprof*" || true)" ] || fail "$at: a profile in /"
}

for mode in sites sample trace; do
    starts "plain-$mode" NUMALLOC_PROFILE=$mode NUMALLOC_SAMPLE_INTERVAL=64 NUMALLOC_PROFILE_FILE=d.%p.nprof -- work daemon work
    left 2 'd.*.nprof'
done
starts default NUMALLOC_PROFILE=sites -- work daemon work
left 2 'numalloc.daemon.*.nprof'
mkdir -p "$work/into/sub"
starts into NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=sub -- work daemon daemon work
left 2 'sub/numalloc.daemon.*.nprof'
starts closed NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=d.nprof -- work daemon close work dump work
left 3 'd.nprof*'
starts later NUMALLOC_PROFILE_SIGNAL=usr1 NUMALLOC_PROFILE_FILE=d.nprof -- work daemon usr1 work usr1
left 1 'd.nprof*'
say "a daemon and its children leave their files where it was started"

# What the program names itself counts from where it is.
root=()
[ "$(id -u)" != 0 ] || root=("root=/")
starts call -- "${root[@]}" start="$work/call.nprof" work
at=$work left 1 'call.nprof'
(cd "$work/away" && LD_PRELOAD=$lib "$work/daemon" start=own.nprof work daemon work) 2>"$work/err"
at=$work/away left 2 'own.nprof*'
say "a name that the program gives counts from where it is then"

# A directory that is gone: one line in the child, no file elsewhere.
mkdir "$work/gone"
(cd "$work/gone" && rmdir "$work/gone" && LD_PRELOAD=$lib NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=d.nprof "$work/daemon" work) 2>"$work/err" ||
    fail "a directory that is gone: status $?"
[ "$(grep -c '^numalloc: no profile, ' "$work/err")" = 1 ] && [ "$(wc -l <"$work/err")" = 1 ] || fail "gone: $(cat "$work/err")"

if [ "$(id -u)" != 0 ]; then
    say "another root directory and another user need root: not tried"
    exit 0
fi
starts root NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=d.nprof -- work "root=$work/jail" daemon work dump
left 3 'd.nprof*'
starts whole NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/whole/d.nprof" -- work "root=$work/jail" daemon work
left 2 'd.nprof*'
[ -z "$(ls "$work/jail")" ] || fail "something was left in the other root: $(ls "$work/jail")"
chmod 755 "$work"
starts user NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=d.nprof -- work user work
left 1 'd.nprof*' # its file is open
starts other NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=d.nprof -- work user daemon work
[ "$(wc -l <"$work/err")" = 1 ] && grep -q "^numalloc: no profile, $at/d.nprof.*: permission denied" "$work/err" ||
    fail "a child of another user: $(cat "$work/err")"
say "another root directory, another user: the file, or one line"
