#!/bin/bash
# dump_documented.sh LIBRARY NUMALLOC_DUMP DOCS - the command lines of the documents that write an export
# and open it are run as they stand there, and each reader shows a function of a program that is known.
# Readers that need a screen have a stand-in: heaptrack_gui is heaptrack_print; `chromium` and
# speedscope (its npm package, at the version of exports/package-lock.json) are a headless browser.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
docs=$3
need callgrind_annotate valgrind ms_print valgrind heaptrack_print heaptrack protoc protobuf-compiler \
    chromium chromium

cp "$test_source/exports/package.json" "$test_source/exports/package-lock.json" "$work/"
export page=$work/node_modules/speedscope/dist/release/index.html test_source work
if ! (cd "$work" && timeout 300 npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1); then
    say "without speedscope, which npm cannot install here: $(tail -n 1 "$work/npm.log")"
    page=
fi
[ -z "$page" ] || [ -r "$page" ] || fail "the package speedscope has no dist/release/index.html"

mkdir "$work/bin" "$work/run"
ln -s "$dump" "$work/bin/numalloc-dump"
cat >"$work/bin/chromium" <<'SCRIPT'
#!/bin/bash
# Shows the file that it is given, with all that scripts put into it.
case $1 in /* | file:*) address=$1 ;; *) address=$PWD/$1 ;; esac
timeout 300 /usr/bin/chromium --headless --no-sandbox --disable-gpu --allow-file-access-from-files \
    --user-data-dir="$work/chromium" --virtual-time-budget=10000 --dump-dom "file://${address#file://}" 2>"$work/chromium.err"
SCRIPT
cat >"$work/bin/speedscope" <<'SCRIPT'
#!/bin/bash
# As speedscope's own command does it: a script that hands over the file, named in the address. The
# page takes the profile's name for its title when its importer has understood the file.
printf 'speedscope.loadFileFromBase64("%s", "%s")\n' "$1" "$(base64 -w 0 "$1")" >"$work/load.js"
chromium "file://$page#localProfilePath=$work/load.js" | grep -o '<title>[^<]* - speedscope</title>' && cat "$1"
SCRIPT
cat >"$work/bin/flamegraph.pl" <<'SCRIPT'
#!/bin/bash
# What flamegraph.pl takes for a line: a stack, a blank and a number.
! grep -Evq '^[^ ].* [0-9]+$' "$1" && cat "$1"
SCRIPT
cat >"$work/bin/pprof" <<'SCRIPT'
#!/bin/bash
gzip -dc "${@: -1}" | protoc --decode=perftools.profiles.Profile --proto_path="$test_source/exports" profile.proto
SCRIPT
ln -s /usr/bin/heaptrack_print "$work/bin/heaptrack_gui"
chmod +x "$work"/bin/*
real=$(command -v pprof || true)
[ -z "$real" ] || ln -sf "$real" "$work/bin/pprof"

profiled trace "$work/app.nprof" sites
mapfile -t exports < <("$dump" help | awk '/^Exports/ { on = 1; next } /^$/ { on = 0 } on { print $1 }')
[ "${#exports[@]}" -ge 9 ] || fail "the help lists the exports ${exports[*]}"
/usr/bin/python3 -B "$test_source/documented.py" "$docs" "$work/app.nprof" "${exports[@]}" bundle >"$work/lines"

opened=" "
while IFS=$'\t' read -r -a line; do
    rm -rf "$work/run"
    mkdir "$work/run"
    for command in "${line[@]:1}"; do
        if [ -z "$page" ] && [[ $command == speedscope\ * ]]; then
            cp "$work/run/"* "$work/shown"
            continue
        fi
        (cd "$work/run" && PATH=$work/bin:$PATH bash -o pipefail -c "$command") >"$work/shown" 2>"$work/err" </dev/null ||
            fail "'$command' of the documents ends with status $?: $(head -n 3 "$work/err" "$work/shown")"
    done
    [ "${#line[@]}" -gt 2 ] || continue # written for what is not named
    grep -q alloc_big "$work/shown" || fail "'$command' of the documents shows no alloc_big: $(head -n 5 "$work/shown")"
    opened+="${line[0]} "
    say "$command"
done <"$work/lines"
for export in "${exports[@]}" bundle; do
    [[ $opened == *" $export "* ]] || fail "no document says how to open what '$export' writes"
done

# A name says how the file is compressed, or is refused.
"$dump" folded "$work/app.nprof" >"$work/plain"
"$dump" folded "$work/app.nprof" -o "$work/folded.gz"
gzip -dc "$work/folded.gz" | cmp - "$work/plain" || fail "folded.gz is not what folded writes, compressed"
[ "$(stat -c %a "$work/folded.gz")" = "$(stat -c %a "$work/plain")" ] || fail "folded.gz has rights of its own"
# refused OUTPUT VIEW: one line, status 2, and nothing is left.
refused() {
    local rc=0
    "$dump" "$2" "$work/app.nprof" -o "$1" 2>"$work/err" || rc=$?
    [ "$rc" = 2 ] && [ "$(wc -l <"$work/err")" = 1 ] || fail "$2 -o $1: status $rc, $(cat "$work/err")"
    [ ! -e "$1" ] || [ -c "$1" ] || fail "$2 -o $1 was refused and is there"
}
refused "$work/new.zst" heaptrack
refused "$work/new.nprof.gz" bundle
ln -s /dev/full "$work/full.gz"
refused "$work/full.gz" heaptrack
grep -q 'No space left' "$work/err" || fail "a full disk: $(cat "$work/err")"
[ -z "$(compgen -G "$work/*.gz.??????")" ] || fail "left behind: $(compgen -G "$work/*.gz.??????")"
say "a file's name says how it is compressed"

# A terminal gets text only.
/usr/bin/python3 -B - "$dump" "$work/app.nprof" <<'PYTHON' || fail "what a terminal gets"
import os, pty, sys
dump, profile = sys.argv[1:]
for view, binary in (("html", True), ("pprof", True), ("heaptrack", False), ("folded", False), ("json", False)):
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(dump, [dump, view, profile])
    shown = b""
    try:
        while block := os.read(fd, 65536):
            shown += block
    except OSError:
        pass  # the other end is closed
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if binary:
        assert status == 2 and shown.count(b"\n") == 1 and b"-o FILE" in shown, (view, status, shown[:200])
    else:
        assert status == 0 and b"alloc_big" in shown, (view, status, shown[:200])
PYTHON
say "a terminal gets text only"
