#!/bin/bash
# dump_moments.sh LIBRARY NUMALLOC_DUMP - no finding compares moments that have nothing to do with each other, and
# what is live at a dump is not called never freed.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
cc -std=gnu17 -g -O1 -fno-builtin -Wall -Wextra "$test_source/dump_moments.c" -o "$work/moments" || fail "the compiler does not build dump_moments.c"
for mode in sites trace; do
    for what in later rounded stays dump; do
        NUMALLOC_PROFILE=$mode NUMALLOC_PROFILE_FILE="$work/$what.$mode" LD_PRELOAD="$lib" "$work/moments" $what || fail "$what fails in mode $mode"
    done
done
/usr/bin/python3 - "$dump" "$work" <<'END' || fail "a moment is taken for another"
import base64, json, re, subprocess, sys, zlib
dump, work = sys.argv[1:]
def run(*arguments):
    return subprocess.run([dump, *arguments], cwd=work, check=True, capture_output=True, text=True).stdout
def found(profile):
    return {r["warning"]: r for r in json.loads(run("warnings", profile, "--json"))["rows"]}
for mode in "sites", "trace":
    # 6 of 8 MiB were not freed, and none of them was there at the peak.
    assert "not-freed" not in found("later." + mode), (mode, found("later." + mode))
    assert re.search("^never freed  6.0[0-9]* MiB", run("later." + mode), re.M), run("later." + mode)
    # 17 bytes take 24 or 32: a third of all that was allocated, and nothing of the peak.
    waste = float(re.search("^waste +([0-9.]+) %", run("rounded." + mode), re.M).group(1))
    assert waste > 15 and "rounding" not in found("rounded." + mode), (mode, waste, found("rounded." + mode))
    row = found("stays." + mode)["fragmentation"]
    assert re.search("; saves about [0-9.]+ MiB of the [0-9.]+ MiB resident at the end", run("stays." + mode)), row
    assert row["evidence"].endswith("spans that few blocks keep") and " at the end, " in row["evidence"], row

    profile = "dump.%s.1" % mode
    assert found(profile) == {}, found(profile)
    for view in ("summary", profile), ("brief", profile), ("leaks", profile), ("run", profile), ("check", profile):
        text = run(*view)
        for words in "never freed", "Not freed", "ended normally", "at the end":
            assert words not in text, (view, text)
    assert re.search("^live now     4.0[0-9]* MiB", run(profile), re.M) and "the process ran on" in run(profile), run(profile)
    assert run("leaks", profile).startswith("Live at the dump: 4.0"), run("leaks", profile)
    whole = json.loads(run("json", profile)), json.loads(run("json", "dump." + mode))
    assert [(p["moment"], p["dump"], p["closed"]) for p in whole] == [("dump", 1, True), ("end", 0, True)], whole
    subprocess.run([dump, "html", profile, "-o", "page.html"], cwd=work, check=True, capture_output=True)
    packed = re.search(r'<script[^>]*type="application/[^>]*>([^<]+)</script>', open(work + "/page.html").read()).group(1).strip()
    page = packed if packed.startswith("{") else zlib.decompress(base64.b64decode(packed), 47).decode()
    assert "at the end" not in page and "never freed" not in page and "not freed" not in page, re.findall(".{40}at the end.{40}", page)
    assert json.loads(page)["run"]["ended"] == "dumped; the process ran on", json.loads(page)["run"]
    # A bundle is of the moment that its profile is of.
    run("bundle", profile, "-o", "bundle." + mode)
    assert json.loads(run("json", "bundle." + mode))["dump"] == 1
END
say "no finding is about another moment than its figures, and a dump says what is live now"
