#!/usr/bin/env bash
# core_alone.sh NUMALLOC-CORE.SO NUMALLOC-CORE.A OTHERS CONFORM... - the core is a malloc by itself: it
# needs nothing but the C library, has nothing of what stands around and above it, and real programs
# run on it. OTHERS: a file with the names of those objects. CONFORM: programs of this directory, with
# their arguments, each one word; they run with the core preloaded.
set -euo pipefail
export LC_ALL=C

if [[ $# -lt 4 || ! -f $1 || ! -f $2 || ! -f $3 ]]; then
    echo "usage: $0 NUMALLOC-CORE.SO NUMALLOC-CORE.A OTHERS 'CONFORM ARGUMENT...'... (existing files)" >&2
    exit 2
fi
core=$1 archive=$2 others=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
    echo "FAIL: $*" >&2
    failed=1
}

# ---- Symbols. ----
# What it does not define is the C library's, or may be missing.
missing=$(nm -D --undefined-only "$core" | awk '$1 == "U" && $2 !~ /@GLIBC/ { print $2 }')
[[ -z $missing ]] || fail "$core lacks" $missing
needed=$(readelf -d "$core" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc|ld-linux.*)\.so\.' || true)
[[ -z $needed ]] || fail "$core needs" $needed
# In one piece, so that what members need of each other is met.
ld -r --whole-archive "$archive" -o "$work/whole.o"
nm --undefined-only "$work/whole.o" | awk '$1 == "U" { print $2 }' | sort >"$work/undefined"

mapfile -t objects <"$others"
[[ ${#objects[@]} -gt 20 ]] || fail "$others names ${#objects[@]} objects"
nm --defined-only "${objects[@]}" | awk 'NF == 3 && $2 ~ /[A-Z]/ { print $3 }' | grep -vx na_above | sort -u >"$work/others"
[[ $(wc -l <"$work/others") -gt 100 ]] || fail "the others define next to nothing"
for file in "$core" "$archive"; do
    nm --defined-only "$file" | awk 'NF == 3 { print $3 }' | sort -u >"$work/defined"
    grep -qx na_init "$work/defined" || fail "$file has no na_init: is it stripped?"
    both=$(comm -12 "$work/others" "$work/defined")
    [[ -z $both ]] || fail "$file defines what others do:" $both
done
both=$(comm -12 "$work/others" "$work/undefined")
[[ -z $both ]] || fail "$archive asks for what others define:" $both

# ---- Programs. The loader says whose malloc they had. ----
on_core() {
    local name=$1
    shift
    LD_PRELOAD=$core "$@" >"$work/out" 2>"$work/err" || fail "$name: ended with $?: $(tail -3 "$work/err")"
    LD_DEBUG=bindings LD_PRELOAD=$core "$1" --version >"$work/bound" 2>&1 || true
    # (A program that takes malloc's address has a PLT entry of that name: the C library is bound to it.)
    grep -E " to .*symbol .(malloc|realloc)'" "$work/bound" | grep -F "to $core" >"$work/malloc" ||
        fail "$name: had another malloc"
}
on_core ls ls -lR /usr/include
on_core python3 python3 -c '
import os, subprocess, sys, threading
words = {}
def work(n):
    for i in range(20000):
        words[n, i % 500] = str(i) * (i % 50)
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for t in threads: t.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        keep = [bytearray(i) for i in range(0, 200000, 997)]
        os._exit(0 if len(keep) == 201 else 1)
    assert os.waitpid(child, 0)[1] == 0
for t in threads: t.join()
assert len(words) == 2000
subprocess.run([sys.executable, "-c", "import json; json.dumps(list(range(9999)))"], check=True)'
on_core perl perl -e '
my %h; $h{$_ % 977} .= "x" x ($_ % 61) for 1 .. 100000;
my $pid = fork; if (!$pid) { my @a = map { "y" x $_ } 1 .. 2000; exit(@a == 2000 ? 0 : 1) }
waitpid $pid, 0; exit($? == 0 && keys %h == 977 ? 0 : 1)'
compiler=$(command -v gcc || command -v cc)
printf '#include <stdio.h>\nint main(void) { puts("made"); return 0; }\n' >"$work/made.c"
on_core compiler "$compiler" -O2 "$work/made.c" -o "$work/made"
[[ $("$work/made") == made ]] || fail "what the compiler made does not run"
for line in "$@"; do
    read -ra command <<<"$line"
    LD_PRELOAD=$core "${command[@]}" >"$work/out" 2>&1 ||
        fail "${command[0]##*/}: ended with $?: $(tail -3 "$work/out")"
done
exit $failed
