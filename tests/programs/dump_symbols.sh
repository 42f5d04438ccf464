#!/bin/bash
# dump_symbols.sh - names from elsewhere than a module's own file: a perf map of code that node made
# while it ran (without its optimizer, which would inline the function), debug files beside a
# stripped program, and a debuginfod server.
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

# ---- debug files ----

profiled sites "$work/load.nprof" sites
"$dump" functions --csv --top 0 "$work/load.nprof" >"$work/with"
grep -q 'profile_load\.c' "$work/with" || fail "no source file with debug information"
id=$(readelf -n "$load" | sed -n 's/.*Build ID: //p')
objcopy --only-keep-debug "$load" "$work/load.debug"
strip "$load"
"$dump" functions --csv --top 0 "$work/load.nprof" >"$work/without"
if grep -q 'profile_load\.c' "$work/without"; then fail "a stripped program still has source files"; fi
mkdir "$work/.debug"
cp "$work/load.debug" "$work/.debug/profile_load.debug"
objcopy --add-gnu-debuglink="$work/.debug/profile_load.debug" "$load"
"$dump" functions --csv --top 0 "$work/load.nprof" | cmp -s - "$work/with" || fail "not the same names from .debug/profile_load.debug"
rm -r "$work/.debug"
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
for _ in $(seq 600); do
    [ ! -s "$work/port" ] || break
    kill -0 $server 2>/dev/null || fail "the server ended: $(cat "$work/server.log")"
    sleep 0.1
done
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
"$dump" functions --csv --top 0 "$work/load.nprof" | cmp -s - "$work/with" || fail "names are gone with the server: the cache was not used"
DEBUGINFOD_CACHE_PATH=$work/empty "$dump" functions --csv --top 0 "$work/load.nprof" | cmp -s - "$work/without" ||
    fail "a server that is gone changes more than the names"
say "debuginfod: asked only if DEBUGINFOD_URLS is set; says how far a download is; its cache serves without it"
