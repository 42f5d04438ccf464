#!/bin/bash
# dump_files.sh - where symbols are looked for, and what is said where they are not to be had: below
# --sysroot, by build-id among its debug files, in files of -gsplit-dwarf; not in a file that is newer
# than the profile. And diff pairs what prints alike where a new build has moved its lines.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
need g++ g++ strip binutils objcopy binutils
cd "$work"

# Two classes and two lambdas that print alike but for what they lie in, and two functions that print alike.
mkdir -p build/a build/b
cat >build/main.cpp <<'END'
#include <cstdlib>
#define KEEP(n) { void *volatile p = std::malloc(n); (void)p; }
#define NOINLINE __attribute__((noinline))
void run_a(); void run_b();
namespace {
struct Foo { NOINLINE void init() KEEP(10000 + EXTRA) };
struct Bar { NOINLINE void init() KEEP(20000 + EXTRA) };
}
int main() {
    Foo().init();
    Bar().init();
    auto one = []() NOINLINE KEEP(30000 + EXTRA);
    auto two = []() NOINLINE KEEP(40000 + EXTRA);
    one();
    two();
    run_a();
    run_b();
}
END
for part in a b; do
    cat >build/$part/init.cpp <<END
#include <cstdlib>
static __attribute__((noinline)) void init() { void *volatile p = std::malloc($([ $part = a ] && echo 50000 || echo 60000) + EXTRA); (void)p; }
void run_$part() { init(); }
END
done
# build OUTPUT EXTRA [OPTION...]: the program
build() {
    local output=$1 extra=$2
    shift 2
    (cd build && g++ -O1 -g -DEXTRA="$extra" "$@" main.cpp a/init.cpp b/init.cpp -o "$work/$output") || fail "g++ does not build $output"
}
profile() { # PROGRAM
    NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=$work/$1.nprof LD_PRELOAD=$lib "./$1" || fail "$1: status $?"
}
# functions PROFILE [OPTION...]: "FUNCTION FILE:LINE BYTES" of the program's
functions() {
    local profile=$1
    shift
    "$dump" functions --csv --top 0 --symbol-cache off "$@" "$profile.nprof" >csv 2>err || fail "functions $profile: status $?: $(cat err)"
    /usr/bin/python3 -c '
import csv, os
for row in csv.DictReader(open("csv")):
    if 10000 <= float(row["total_bytes"]) < 70000 and not row["module"].startswith("/lib/"):
        print(row["function"], os.path.basename(row["file"]) + ":" + row["line"], int(float(row["total_bytes"])))' | sort
}
same() { # WHAT EXPECTED: as standard input has it
    diff "$2" - >difference || fail "$1: $(cat difference)"
}

build first 0
profile first
cat >expected <<'END'
(anonymous namespace)::Bar::init() main.cpp:7 20000
(anonymous namespace)::Foo::init() main.cpp:6 10000
init() init.cpp:2 50000
init() init.cpp:2 60000
main::{lambda()#1}::operator()() const main.cpp:12 30000
main::{lambda()#2}::operator()() const main.cpp:13 40000
END
functions first | same "names" expected
say "functions that print alike are rows of their own"

# ---- a new build, with other lines ----

sed -i '1i // moved' build/main.cpp build/a/init.cpp
build second 8
profile second
"$dump" diff --csv --top 0 first.nprof second.nprof >csv || fail "diff: status $?"
/usr/bin/python3 - <<'END' || fail "diff pairs others: $(cut -d, -f1-3,6 csv)"
import csv
rows = [(float(r["old"]), float(r["new"])) for r in csv.DictReader(open("csv"))]
pairs = sorted((int(old), int(new)) for old, new in rows if old and new)
assert pairs == [(n, n + 8) for n in (10000, 20000, 30000, 40000, 50000, 60000)], pairs
assert not [row for row in rows if not row[0] or not row[1]], rows
END
say "diff: each has its pair in a build with other lines"

# ---- elsewhere ----

id=$(readelf -n first | sed -n 's/.*Build ID: //p')
mkdir -p "root$work" "debug/usr/lib/debug/.build-id/${id:0:2}"
objcopy --only-keep-debug first "debug/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug"
mv first "root$work/first"
[ -z "$(functions first | grep init || true)" ] || fail "names of a file that is gone"
"$dump" --symbol-cache off first.nprof | has "first: its file is not there" || fail "a file that is gone is not said"
functions first --sysroot root | same "--sysroot" expected
functions first --sysroot debug | same "--sysroot, debug file alone" expected
build first 16
functions first --sysroot debug | same "--sysroot, another build in place" expected
say "a root of another machine: programs, and debug files by build-id"

# ---- no build-id ----

build bare 0 -Wl,--build-id=none
sleep 0.1
profile bare
functions bare | has 'Foo::init' || fail "no names without build-id"
touch bare
[ -z "$(functions bare | grep init || true)" ] || fail "names of a newer file"
"$dump" --symbol-cache off bare.nprof | has 'bare: .*newer than the profile' || fail "a newer file is not said"
say "no build-id: not a file that is newer than the profile"

# ---- split DWARF ----

g++ -O2 -g -gsplit-dwarf -DEXTRA=0 build/main.cpp build/a/init.cpp build/b/init.cpp -o split || fail "g++ -gsplit-dwarf"
profile split
functions split | has 'Foo::init() main.cpp:7' || fail "split DWARF is not read"
mv split split-*.dwo "root$work/"
functions split --sysroot root | has 'Foo::init() main.cpp:7' || fail "split DWARF is not read below --sysroot"
mv "root$work/split" .
find . -name '*.dwo' -delete
functions split | has 'Foo::init()' || fail "no symbols where a .dwo file is missing"
"$dump" functions --symbol-cache off split.nprof | has 'split: split DWARF: .*\.dwo is missing' || fail "a missing .dwo file is not said"
say "split DWARF: read, and said to be missing"
