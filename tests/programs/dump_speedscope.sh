#!/bin/bash
# dump_speedscope.sh - speedscope itself (its npm package, at the version of exports/package-lock.json,
# in a headless browser) opens numalloc-dump's export and shows the figures.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
need chromium chromium npm npm

cp "$test_source/exports/package.json" "$test_source/exports/package-lock.json" "$work/"
(cd "$work" && timeout 60 npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1) ||
    skip "npm cannot install speedscope here: $(tail -n 1 "$work/npm.log")"
page=$work/node_modules/speedscope/dist/release/index.html
[ -r "$page" ] || fail "the package speedscope has no dist/release/index.html"

profiled sites "$work/load.nprof" sites
"$dump" speedscope "$work/load.nprof" -o "$work/load.json"

# As speedscope's own command does it: a script that hands over the file, named in the address. The
# page takes the profile's name for its title when its importer has understood the file.
printf 'speedscope.loadFileFromBase64("load.json", "%s")\n' "$(base64 -w 0 "$work/load.json")" >"$work/load.js"
timeout 60 chromium --headless --no-sandbox --disable-gpu --allow-file-access-from-files \
    --user-data-dir="$work/chromium" --virtual-time-budget=10000 --dump-dom \
    "file://$page#localProfilePath=$work/load.js" >"$work/dom" 2>"$work/err" ||
    fail "chromium: $(tail -n 1 "$work/err")"
grep -q '<title>.*profile_load.* - speedscope</title>' "$work/dom" ||
    fail "speedscope did not open the file: $(grep -o '<title>[^<]*' "$work/dom"), $(tail -n 1 "$work/err")"
say "speedscope opens the export: $(grep -o '<title>[^<]*' "$work/dom" | cut -c8-)"
