#!/usr/bin/env bash
# check-readme.sh BUILD_DIR - runs what README.md tells a reader to type, as it stands there, on machines
# made of this one's files (scripts/machine.sh): the packages are built and installed as it says, and
# purged without a trace; then the other ways to install. Each time the commands before "Try it" and
# those of the table "Use it" are run. What all pages call an installed file is looked for in the packages
# (scripts/installed.py). scripts/deb.sh packs what BUILD_DIR has (the compiler is for
# check-deb.sh). A command that this test does not know how to run is a failure.
set -euo pipefail
export LC_ALL=C.UTF-8

source=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/machine.sh
. "$source/scripts/machine.sh"
[[ $# -eq 1 && -f $1/CMakeCache.txt ]] || {
    echo "usage: $0 BUILD_DIR (a built tree such as build/release)" >&2
    exit 2
}
built=$(cd "$1" && pwd)
for tool in dpkg-buildpackage:dpkg-dev dh:debhelper dh_dkms:dh-dkms lintian; do
    command -v "${tool%%:*}" >/dev/null || {
        echo "check-readme.sh: skipped: ${tool%%:*} is missing; install the package ${tool#*:}"
        exit 77
    }
done
[[ $built == "$source/build/release" ]] || {
    echo "check-readme.sh: skipped: the README builds the preset release, not $built"
    exit 77
}
fail() {
    echo "check-readme.sh: FAILED: $*" >&2
    exit 1
}
export DEB_BUILT=$built DEB_BUILD_OPTIONS=noautodbgsym
machine_begin "$@"
if [[ -n $no_machine ]]; then
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    "$source/scripts/deb.sh" --out "$scratch/deb"
    for package in libnumalloc0 numalloc-tools; do dpkg-deb -x "$scratch"/deb/"$package"_*.deb "$scratch/root"; done
    "$source/scripts/installed.py" "$scratch"/deb/*.deb || fail "names of installed files"
    "$scratch/root/usr/bin/numalloc-run" --profile -o "$scratch/ls.nprof" ls / || fail "numalloc-run"
    echo "check-readme.sh: skipped: the packages were built and unpacked, but not installed: $no_machine"
    exit 77
fi

# SECTION<tab>COMMAND of each command; those of the table's column "type" have the section "table".
commands() {
    awk '/^#/ { section = $0; sub(/^#+ */, "", section) }
        /^```/ { fence = !fence; next }
        fence || /^    [^ ]/ {
            sub(/^    /, ""); sub(/ +# .*/, "")
            if (sub(/\\$/, "")) { line = line $0; next }
            print section "\t" line $0; line = ""
        }
        /^\| to \| type \|/ { table = 1; next }
        !/^\|/ { table = 0 }
        table && !/^\|--/ {
            split($0, cells, / \| /)
            for (rest = cells[2]; match(rest, /`[^`]*`/); rest = substr(rest, RSTART + RLENGTH))
                print "table\t" substr(rest, RSTART + 1, RLENGTH - 2)
        }' "$source/README.md"
}
mapfile -t all < <(commands)
of() { # SECTION: the commands of it
    local line
    for line in "${all[@]}"; do [[ $line != "$1"$'\t'* ]] || echo "${line#*$'\t'}"; done
}
for section in numalloc 'Try it' 'Install it' table; do [[ -n $(of "$section") ]] || fail "no commands in '$section'"; done
for line in "${all[@]}"; do
    [[ $line =~ ^(numalloc|Try it|Install it|table)$'\t' ]] || fail "nothing runs the commands of '${line%%$'\t'*}'"
done

# A checkout of its own on each machine, in the same place, with what is built.
computer() {
    machine "$1"
    overlay "$source" "$1.checkout" "$machines/$1/root$source"
    # The reader of these machines is root. (sudo itself may be missing, and wants files of a real root.)
    printf '#!/bin/sh\nexec "$@"\n' >"$machines/$1/root/usr/local/bin/sudo"
    chmod 755 "$machines/$1/root/usr/local/bin/sudo"
    home=$machines/$1/root/root
    cat >"$home/app.c" <<'END'
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void *volatile block;
/* Ends with status 3 if malloc is not numalloc's. "test" loses a block and writes behind one, "server"
 * only the latter; with an argument it stays for that many seconds. */
int main(int argc, char **argv) {
    for (int i = 0; i < 2000; i++) {
        block = malloc((size_t)(40 + i));
        memset(block, 1, 40);
        free(block);
    }
    for (int i = 0; argc > 1 && i < 10 * atoi(argv[1]); i++) {
        usleep(100000);
        free(block = malloc(1000));
    }
    const char *name = strrchr(argv[0], '/');
    if (strcmp(name, "/app") != 0) {
        block = malloc(40);
        ((volatile char *)block)[40] = 1;
        free(block);
    }
    if (strcmp(name, "/test") == 0) {
        block = malloc(12345);
        block = NULL;
    }
    return dlsym(RTLD_DEFAULT, "numalloc_version") != NULL ? 0 : 3;
}
END
    at=/root
    inside "$1" cc -g -w app.c -o app
    cp "$home/app" "$home/server"
    cp "$home/app" "$home/test"
    echo 'blocks = [bytes(1000) for _ in range(1000)]' >"$home/app.py"
}

# What a word that the reader fills in stands for.
newest() { # PATTERN [N]: the last file but N
    # shellcheck disable=SC2012,SC2086 # names of numalloc's
    (cd "$home" && ls -td $1 2>/dev/null | sed -n "$((${2:-0} + 1))p")
}
fill() { # COMMAND; the answer is in $filled
    filled=$1
    [[ $filled != *FILE* ]] || filled=${filled//FILE/$(newest 'numalloc.app.*.nprof')}
    [[ $filled != *' OLD NEW' ]] || filled=${filled/OLD NEW/$(newest 'numalloc.app.*.nprof' 1) $(newest 'numalloc.app.*.nprof')}
    [[ $filled != *DIRECTORY* ]] || filled=${filled//DIRECTORY/.}
    filled=${filled//--prefix DIR//--prefix /root/prefix}
    filled=${filled///--prefix/--prefix}
    case $filled in
    NUMALLOC_*=*' ...') filled=${filled/ .../ numalloc-run .\/app} ;;
    numalloc_*'(...)') # a function: it is declared, and linked
        filled="printf '#include <numalloc/numalloc.h>\nint main(void) { return ${filled%(...)} == 0; }\n' >call.c
            cc call.c \$(pkg-config --cflags --libs numalloc) -o call && ./call" ;;
    --*) filled="numalloc-dump policy $(newest 'numalloc.app.*.nprof') $filled" ;; # an option of the command before it
    'numalloc-bench compare') filled+=' --benchmarks churn --rounds 1 --budget 1 --threads 1' ;;
    esac
    [[ ! $filled =~ ^(NUMALLOC_[A-Z_]*=[^ ]* *)+$ ]] || filled+=' numalloc-run ./app' # the setting alone
    local word
    for word in $filled; do
        [[ ! $word =~ ^[A-Z]+$|'...' || $word == PID ]] || fail "the test has nothing for '$word' in '$1'"
    done
}

# reader MACHINE COMMAND: runs it and sees that it did what the README promises.
reader() {
    local name=$1 command=$2 status=0 expected=0 said=$machines/said server=
    fill "$command"
    local run=$filled
    case $run in
    *--growth=10m\ PID*) # of a server that was started without a profile
        run="LD_PRELOAD=libnumalloc.so.0 ./app 300 &
            server=\$!
            ${run//10m PID/4s \$server}
            kill \$server"
        ;;
    *PID*) # of a server that records; it ends when the command is at work, that is, catches SIGTERM
        run="NUMALLOC_POLICY=app.policy NUMALLOC_PROFILE=sites,access=auto LD_PRELOAD=libnumalloc.so.0 ./app 300 &
            server=\$!
            until ls numalloc.app.\$server.*.nprof; do sleep 0.1; done >/dev/null 2>&1
            ${run//PID/\$server} & command=\$!
            while readlink /proc/\$command/exe >/dev/null && ! (($((1 << 14)) & 0x\$(sed -n 's/^SigCgt:\t//p' /proc/\$command/status))); do
                sleep 0.1
            done
            kill \$server; wait \$command"
        ;;
    *NUMALLOC_GUARD=1*) run="NUMALLOC_GUARD_EACH=1 $run" expected=134 ;; # the program dies of its error
    *--check*) expected=86 ;;
    *--leaks*) expected=86 ;;
    esac
    echo "   $command"
    inside "$name" env "${given[@]+"${given[@]}"}" timeout 900 bash -euo pipefail -c "$run" >"$said" 2>&1 </dev/null || status=$?
    [[ $status -eq $expected ]] || fail "'$command' ended with $status, not $expected, on the machine '$name': $(tail -n 30 "$said")"
    ! grep -E 'cannot be preloaded|command not found|unknown option' "$said" || fail "'$command' on the machine '$name'"
    says() { grep -E "$1" "$said" >/dev/null || fail "'$command' does not say '$1' but: $(cat "$said")"; }
    case $command in
    *pkg-config*) [[ ! -e $home/a.out ]] || inside "$name" ./a.out || fail "'$command' makes a program without numalloc" ;;
    *NUMALLOC_GUARD=1*) [[ -n $(newest '*.errors') ]] || fail "'$command' left no file of errors" ;;
    *NUMALLOC_STATS=1*) says '^numalloc statistics' ;;
    *--check*) says '1 error was found' ;;
    *--leaks*) says 'Direct leak of 12345 byte.* in 1 object' ;;
    *--html*) [[ -n $(newest '*.html') ]] || fail "'$command' wrote no page" ;;
    *--growth*) says 'copies|dumps' ;;
    numalloc-run\ *--python*) says 'app.py:1' ;;
    numalloc-run\ *--profile* | numalloc-run\ *--sample*) says '^  peak ' ;;
    'numalloc-dump errors '*) says '^1[.] overflow' ;;
    'numalloc-bench compare') says 'glibc' ;;
    esac
}

# typed MACHINE SECTION [!]PATTERN: the reader's commands of a section that match, or that do not.
typed() {
    local command
    while IFS= read -r command; do
        if [[ $command =~ ${3#!} ]]; then [[ $3 == !* ]]; else [[ $3 != !* ]]; fi || reader "$1" "$command"
    done < <(of "$2")
}
links='pkg-config|^numalloc_[a-z_]*[(]'

echo "== the packages, built of $built"
computer packages
changes packages >"$machines/before"
while IFS= read -r command; do
    [[ $command =~ ^\./(demo|test)\.sh$ ]] || fail "the test runs no '$command'" # minutes; test.sh runs this test
    (at=$source && inside packages "$command" --help >/dev/null) || fail "$command --help"
done < <(of 'Try it')
given=(DEB_BUILT="$DEB_BUILT" DEB_BUILD_OPTIONS="$DEB_BUILD_OPTIONS")
at=$source
typed packages 'Install it' 'apt install .*libnumalloc0_'
given=() at=/root
"$source/scripts/installed.py" "$machines/packages/root$source"/build/deb/*.deb || fail "names of installed files"
inside packages test ! -e /usr/lib/x86_64-linux-gnu/libnumalloc.so || fail "the packages for running programs have libnumalloc.so"
typed packages numalloc .
typed packages table "!$links"
at=$source typed packages 'Install it' 'apt install .*libnumalloc-dev'
typed packages table "$links"

echo "== purged"
inside packages sh -c 'apt-get purge -q $(dpkg-query -W -f "\${Package}\n" "*numalloc*") && ldconfig' >"$machines/said" 2>&1 || fail "$(cat "$machines/said")"
changes packages | diff "$machines/before" - || fail "the packages leave that behind"

echo "== installed in /usr/local, and in a directory"
computer local
for pattern in '^cmake --preset' 'sudo cmake --install' '--prefix DIR'; do
    at=$source typed local 'Install it' "$pattern"
done
typed local numalloc .
typed local table 'LD_PRELOAD'
typed local table "$links"
inside local prefix/bin/numalloc-run --profile ./app 2>"$machines/said" || fail "under --prefix: $(cat "$machines/said")"
grep -q '^  peak ' "$machines/said" || fail "under --prefix: $(cat "$machines/said")"
while IFS= read -r command; do
    [[ $command =~ apt\ install|^cmake\ --preset|sudo\ cmake\ --install|--prefix\ DIR ]] || fail "the test runs no '$command'"
done < <(of 'Install it')
echo "ok"
