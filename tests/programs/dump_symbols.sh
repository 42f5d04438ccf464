#!/bin/bash
# dump_symbols.sh - names from elsewhere than a module's own file: a perf map of code that node made
# while it ran (without its optimizer, which would inline the function) and of Java's, the cache on disk, debug
# files beside a stripped program, and a debuginfod server.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
need node nodejs objcopy binutils strip binutils

# ---- code made by node ----

# It writes a log of its own to the directory it is in, or to standard output if it may not.
cd "$work"
NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=$work/node.nprof LD_PRELOAD=$lib \
    node --no-opt --perf-basic-prof --interpreted-frames-native-stack "$test_source/jit_load.js" >"$work/out" || fail "node: status $?"
[ "$(cat "$work/out")" = 50 ] || fail "node printed '$(cat "$work/out")'"
pid=$("$dump" --json --top 1 "$work/node.nprof" | /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])')
map=/tmp/perf-$pid.map
[ -s "$map" ] || fail "node wrote no $map"
at_end+=('rm -f "$map"')
jit() { # what keep_buffer asked for, with all that it called, as `functions --csv` has it
    "$dump" functions --csv --top 0 "$1" >"$work/csv" || fail "functions: status $?"
    /usr/bin/python3 - "$work/csv" <<'END'
import csv, sys
rows = [r for r in csv.DictReader(open(sys.argv[1])) if r["function"] == "keep_buffer"]
assert len(rows) <= 1, rows
if rows:
    r = rows[0]
    print(r["module"], r["file"].rsplit("/", 1)[-1], r["line"], sum(int(float(v)) > 10**8 for k, v in r.items() if k.endswith("bytes")) > 0)
END
}
[ "$(jit "$work/node.nprof")" = "[jit] jit_load.js 3 True" ] || fail "keep_buffer is not as node made it: '$(jit "$work/node.nprof")'; $(head -n 1 "$work/csv")"
"$dump" bundle "$work/node.nprof" -o "$work/bundle.nprof" || fail "bundle: status $?"
touch -d '2001-01-01' "$map"
[ -z "$(jit "$work/node.nprof")" ] || fail "a map from before the process is believed"
rm -f "$map"
[ -z "$(jit "$work/node.nprof")" ] || fail "a name without a map"
[ "$(jit "$work/bundle.nprof")" = "[jit] jit_load.js 3 True" ] || fail "bundle has lost keep_buffer: '$(jit "$work/bundle.nprof")'"
say "perf map: node's keep_buffer is one function with file and line, interpreted or compiled; a bundle keeps it"

# ---- code made by Java, at its end ----

if [ "$TEST_SCALE" = full ] && command -v java >/dev/null; then
    cat >"$work/Load.java" <<'END'
import java.nio.ByteBuffer;
public class Load {
    static ByteBuffer[] kept = new ByteBuffer[3000];
    static ByteBuffer reserve(int bytes) { return ByteBuffer.allocateDirect(bytes); }
    static void fill() { for (int i = 0; i < kept.length; i++) kept[i] = reserve(20000 + i); }
    public static void main(String[] arguments) {
        for (int round = 0; round < 8; round++) fill();
        System.out.println(kept[5].capacity());
    }
}
END
    NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=$work/java.nprof LD_PRELOAD=$lib \
        java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -XX:+PreserveFramePointer -Xcomp \
        -XX:CompileCommand=dontinline,Load::reserve -XX:CompileCommand=quiet "$work/Load.java" >"$work/out" ||
        fail "java: status $?"
    [ "$(tail -n 1 "$work/out")" = 20005 ] || fail "java printed '$(cat "$work/out")'"
    map=/tmp/perf-$("$dump" --json --top 1 "$work/java.nprof" | /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])').map
    at_end+=('rm -f "$map"')
    "$dump" functions --csv --top 0 "$work/java.nprof" >"$work/csv" || fail "functions: status $?"
    /usr/bin/python3 - "$work/csv" <<'END' || fail "Java's names are missing: $(head -n 3 "$work/csv")"
import csv, sys
found = [r for r in csv.DictReader(open(sys.argv[1])) if "Load.reserve(" in r["function"]]
assert len(found) == 1 and found[0]["module"] == "[jit]" and float(found[0]["inclusive_total_bytes"]) > 4e8, found
END
    say "perf map: Java's Load.reserve"
fi

# ---- the cache ----

profiled sites "$work/load.nprof" sites
kept=$HOME/.cache/numalloc
rm -rf "$kept"
id=$(readelf -n "$load" | sed -n 's/.*Build ID: //p')
# opens OUTPUT [OPTION...]: writes all sites with stacks; prints how often the program's file was opened.
opens() {
    /usr/bin/python3 - "$load" "$1" "$dump" sites --stacks --json --top 0 "$work/load.nprof" "${@:2}" 2>"$work/err" <<'END' || fail "sites: $(tail -n 1 "$work/err")"
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(os.O_NONBLOCK)
assert watch >= 0 and libc.inotify_add_watch(watch, os.fsencode(sys.argv[1]), 0x20) > 0, ctypes.get_errno()  # IN_OPEN
with open(sys.argv[2], "wb") as out:
    subprocess.run(sys.argv[3:], stdout=out, check=True)
try:
    print(len(os.read(watch, 65536)) // 16)  # no names: the watch is on a file
except BlockingIOError:
    print(0)
END
    [ ! -s "$work/err" ] || fail "with the cache: $(head -n 3 "$work/err")"
}
[ "$(opens "$work/off" --symbol-cache off)" -gt 0 ] || fail "names come from nowhere"
grep -q 'profile_load\.c' "$work/off" || fail "no source file without the cache"
[ ! -e "$kept" ] || fail "--symbol-cache off keeps symbols"
same() { cmp -s "$work/$1" "$work/off" || fail "$1: other output than without a cache"; }
[ "$(opens "$work/cold")" -gt 0 ] || fail "an empty cache knows names"
same cold
[ -s "$kept/$id.symbols" ] || fail "nothing is kept of the program: $(ls "$kept")"
[ "$(opens "$work/warm")" = 0 ] || fail "the program's file is opened although its symbols are kept"
same warm

# What is wrong is not believed, and replaced.
cp "$kept/$id.symbols" "$work/good"
other=$(find "$kept" -name '*.symbols' ! -name "$id.symbols" | head -n 1)
[ -n "$other" ] || fail "of the program's libraries nothing is kept"
size=$(stat -c %s "$work/good")
spoil() {
    case $1 in
    flipped) printf '\377' | dd of="$kept/$id.symbols" bs=1 seek=$((size - 2)) conv=notrunc status=none ;;
    cut) truncate -s $((size - 1)) "$kept/$id.symbols" ;;
    longer) echo >>"$kept/$id.symbols" ;;
    empty) : >"$kept/$id.symbols" ;;
    foreign) cp "$other" "$kept/$id.symbols" ;;
    format) printf '\376' | dd of="$kept/$id.symbols" bs=1 seek=8 conv=notrunc status=none ;;
    link) ln -sf "$work/good" "$kept/$id.symbols" ;;
    esac
}
for way in flipped cut longer empty foreign format link; do
    spoil $way
    cmp -s "$kept/$id.symbols" "$work/good" && [ $way != link ] && fail "$way: as it was"
    [ "$(opens "$work/$way")" -gt 0 ] || fail "$way: believed"
    same $way
    [ ! -L "$kept/$id.symbols" ] || fail "$way: not replaced"
    cmp -s "$kept/$id.symbols" "$work/good" || fail "$way: not mended"
done
touch "$load"
[ "$(opens "$work/touched")" -gt 0 ] || fail "what was kept of a file counts after the file has changed"
same touched

# Several at once.
rm -rf "$kept"
runs=()
for i in 1 2 3 4; do
    "$dump" sites --stacks --json --top 0 "$work/load.nprof" >"$work/at_once.$i" 2>&1 &
    runs+=($!)
done
for run in "${runs[@]}"; do wait "$run" || fail "one of several at once: status $?"; done
for i in 1 2 3 4; do same at_once.$i; done
left=$(find "$kept" -type f ! -name '*.symbols')
[ -z "$left" ] || fail "left behind: $left"
[ "$(opens "$work/after")" = 0 ] || fail "several at once have kept nothing"
same after

# Where nothing can be kept, and what is too much.
: >"$work/file"
[ "$(XDG_CACHE_HOME=$work/file opens "$work/unwritable")" -gt 0 ] || fail "a file is a directory"
same unwritable
rm -rf "$kept"
[ "$(opens "$work/small" --symbol-cache 100)" -gt 0 ] || fail "names from a cache of 100 bytes"
same small
[ -z "$(find "$HOME/.cache" -name '*.symbols*')" ] || fail "more is kept than --symbol-cache allows"
mkdir -p "$work/xdg/numalloc"
for name in 00000001.symbols 00000002.symbols 00000003.symbols.abcdef other; do
    head -c 3000000 /dev/zero >"$work/xdg/numalloc/$name"
done
touch -d '2001-01-01' "$work/xdg/numalloc/"*
touch "$work/xdg/numalloc/00000002.symbols"
[ "$(XDG_CACHE_HOME=$work/xdg opens "$work/bounded" --symbol-cache 4M)" -gt 0 ] || fail "XDG_CACHE_HOME: names from nowhere"
same bounded
[ "$(cd "$work/xdg/numalloc" && echo 0000* other)" = "00000002.symbols other" ] || fail "other files than the oldest are removed; left are $(ls "$work/xdg/numalloc")"
[ -s "$work/xdg/numalloc/$id.symbols" ] || fail "nothing is kept in XDG_CACHE_HOME"
rc=0
"$dump" sites "$work/load.nprof" --symbol-cache much >"$work/out" 2>"$work/err" || rc=$?
[ "$rc" = 2 ] || fail "--symbol-cache much: status $rc"
grep -q -- '--symbol-cache takes a size such as 256M, or off, not: much' "$work/err" || fail "--symbol-cache much: $(cat "$work/err")"
say "cache: cold and warm as without; warm does not open the program's file; damaged ones are mended; bounded"

# ---- debug files ----

"$dump" functions --csv --top 0 "$work/load.nprof" >"$work/with"
grep -q 'profile_load\.c' "$work/with" || fail "no source file with debug information"
objcopy --only-keep-debug "$load" "$work/load.debug"
strip "$load"
"$dump" functions --csv --top 0 "$work/load.nprof" >"$work/without"
if grep -q 'profile_load\.c' "$work/without"; then fail "a stripped program still has source files"; fi
mkdir "$work/.debug"
cp "$work/load.debug" "$work/.debug/profile_load.debug"
objcopy --add-gnu-debuglink="$work/.debug/profile_load.debug" "$load"
"$dump" functions --csv --top 0 "$work/load.nprof" | cmp -s - "$work/with" || fail "not the same names from .debug/profile_load.debug"
rm -r "$work/.debug"
"$dump" functions --csv --top 0 "$work/load.nprof" | cmp -s - "$work/without" || fail "what is kept of a debug file counts after the file is gone"
say "debug files: found by the link in a stripped program"

# ---- debuginfod ----

mkdir -p "$work/served/buildid/$id"
cp "$work/load.debug" "$work/served/buildid/$id/debuginfo"
/usr/bin/python3 - "$work" >"$work/server.log" 2>&1 <<'END' &
import functools, http.server, os, sys
work = sys.argv[1]
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=work + "/served")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
with open(work + "/port.new", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(work + "/port.new", work + "/port")
server.serve_forever()
END
server=$!
at_end+=('kill $server 2>/dev/null')
await '[ -s "$work/port" ] || ! kill -0 $server 2>/dev/null'
[ -s "$work/port" ] || fail "the server ended: $(cat "$work/server.log")"
export DEBUGINFOD_CACHE_PATH=$work/cache
"$dump" functions --csv --top 0 "$work/load.nprof" | cmp -s - "$work/without" || fail "names without DEBUGINFOD_URLS"
if grep -q buildid "$work/server.log"; then fail "the server was asked without DEBUGINFOD_URLS"; fi
export DEBUGINFOD_URLS=http://127.0.0.1:$(cat "$work/port")
"$dump" functions --csv --top 0 "$work/load.nprof" | cmp -s - "$work/with" || fail "not the same names from the server: $(tail -n 3 "$work/server.log")"
grep -q "GET /buildid/$id/debuginfo" "$work/server.log" || fail "the server was not asked: $(cat "$work/server.log")"
cc -std=gnu17 -D_GNU_SOURCE -O1 -shared -fPIC -Wall -Wextra "$test_source/fast_clock.c" -o "$work/fast_clock.so" -ldl ||
    fail "the compiler does not build fast_clock.c"
DEBUGINFOD_CACHE_PATH=$work/other TERM=xterm /usr/bin/python3 "$test_source/on_terminal.py" "$work/fast_clock.so" "$work/out" \
    "$work/terminal" "$dump" functions --csv --top 0 "$work/load.nprof" || fail "status $? on a terminal: $(cat -v "$work/terminal")"
cmp -s "$work/out" "$work/with" || fail "not the same names from the server where progress is shown"
tr '\r' '\n' <"$work/terminal" | grep '^downloading symbols  *\[[# ]*\]' >/dev/null || fail "a download without progress: $(cat -v "$work/terminal")"
kill $server
wait $server 2>/dev/null || true
"$dump" functions --csv --top 0 --symbol-cache off "$work/load.nprof" | cmp -s - "$work/with" || fail "names are gone with the server: the cache was not used"
DEBUGINFOD_CACHE_PATH=$work/empty "$dump" functions --csv --top 0 "$work/load.nprof" | cmp -s - "$work/without" ||
    fail "a server that is gone changes more than the names"
say "debuginfod: asked only if DEBUGINFOD_URLS is set; says how far a download is; its cache serves without it"

# Functions without symbols, those of Debian's Python that are not exported, are one row for each library
# in text, and one each with --addresses and for programs. A program built with -g has no such row.
NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/python.nprof" LD_PRELOAD="$lib" PYTHONMALLOC=malloc \
    /usr/bin/python3 -c 'import json; json.loads(json.dumps([{str(i): list(range(9))} for i in range(3000)]))' ||
    fail "python3 ends with status $?"
/usr/bin/python3 - "$dump" "$work" <<'END' || fail "functions without symbols are not as they should be"
import json, re, subprocess, sys
dump, work = sys.argv[1:]

def run(*arguments):
    return subprocess.run([dump, *arguments], cwd=work, check=True, capture_output=True, text=True).stdout

def groups(text):  # by library: (allocations, functions)
    found = re.findall(r"^.* ([\d,]+) +[\d.,]+ [KMG]?i?B +[\d.]+ %  (\S+) \((\d+) functions? without symbols\)$", text, re.M)
    return {library: (int(allocations.replace(",", "")), int(count)) for allocations, library, count in found}

address = re.compile(r"^(.*)\+0x[0-9a-f]+$")
rows = [r for r in json.loads(run("functions", "python.nprof", "--json", "--top", "0"))["rows"] if address.match(r["function"]) and r["kind"] == ""]
expected, on_stacks = {}, {}
for row in rows:
    library = row["module"].rsplit("/", 1)[1]
    on_stacks[library] = on_stacks.get(library, 0) + 1
    if row["sites"]:
        allocations, count = expected.get(library, (0, 0))
        expected[library] = (allocations + row["allocations"], count + 1)
text = run("functions", "python.nprof", "--top", "0")
shown = groups(text)
python = max(expected, key=lambda library: expected[library][1])
assert python.startswith("python3") and expected[python][1] > 10, expected
for library, figures in expected.items():  # one alone is shown as itself
    assert shown.get(library) == (figures if on_stacks[library] > 1 else None), (library, figures, shown)
assert python + "+0x" not in text
each = run("functions", "python.nprof", "--top", "0", "--addresses").split("\nMemory that the program mapped itself")[0]
assert groups(each) == {} and len(re.findall(r"  %s\+0x" % re.escape(python), each)) == expected[python][1]

# With all that they call: each stack counts once, whatever of it is in the library.
below = run("python.nprof", "--top", "0").split("The same with all that they call")[1]
(line,) = [l for l in below.splitlines() if "%s (%d functions without" % (python, on_stacks[python]) in l]
share = float(re.search(r"([\d.]+) %  " + re.escape(python), line).group(1))
alone = max(row["inclusive_peak_bytes"] for row in rows if row["module"].endswith(python))
peak = json.loads(run("python.nprof", "--json"))["total"]["peak_bytes"]
assert 100 * alone / peak - 0.1 <= share <= 100, (share, alone, peak)
assert groups(run("functions", "load.nprof", "--top", "0")) == {}

# In trees those that follow each other in a library are one node, and nothing of it is lost.
for view in "callers", "callees":
    every = [view, "python.nprof", "--top", "0", "--min", "0", "--depth", "60"]
    tree, each = run(*every), run(*every, "--addresses")
    assert python + " (without symbols)" in tree and python + "+0x" not in tree, (view, tree[:2000])
    assert python + "+0x" in each and "without symbols" not in each, (view, each[:2000])
    whole = [json.loads(run(*every, "--json", *more)) for more in ([], ["--addresses"])]
    assert whole[0] == whole[1] and python + "+0x" in json.dumps(whole[0]), view
    assert "without symbols" not in run(view, "load.nprof", "--top", "0", "--min", "0"), view
    twice = [a for a, b in zip(tree.splitlines()[2:], tree.splitlines()[3:]) if "| " + python + " (w" in b and a.endswith(python + " (without symbols)")]
    assert not twice, (view, twice[:3])  # a chain has no library twice in a row
END
say "functions without symbols are one row for each library, and one node of a tree"

# Paths as the compiler was given them, from any working directory: a file below the directory that was built in,
# and an inlined function of a header beside it.
mkdir -p "$work/project/src" "$work/project/include"
cat >"$work/project/include/taken.h" <<'END'
#include <stdlib.h>
static inline __attribute__((always_inline)) void *taken(size_t n) {
    return malloc(n); /* in the header */
}
END
cat >"$work/project/src/paths.c" <<'END'
#include "taken.h"
void *volatile kept;
int main(void) {
    kept = taken(100000); /* calls the header's */
    kept = malloc(50000); /* in the file */
}
END
for compiler in gcc clang; do
    command -v $compiler >/dev/null || continue
    (cd "$work/project" && $compiler -g -O1 -Iinclude src/paths.c -o paths-$compiler) || fail "$compiler does not build paths.c"
    NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/paths.nprof" LD_PRELOAD="$lib" "$work/project/paths-$compiler"
    (cd / && "$dump" source "$work/paths.nprof") >"$work/out"
    for line in 'in the file' 'in the header' "calls the header's"; do
        grep -qF "/* $line */" "$work/out" || fail "$compiler: no source text '$line': $(cat "$work/out")"
    done
    rm "$work/paths.nprof"
done
say "source is found where the compiler was given relative paths"
