#!/bin/bash
# dump_views.sh - every view of numalloc-dump on recorded profiles, held against kept outputs
# (golden/VIEW.txt). Times, process ids, addresses and the C library's own frames are made equal
# first; sizes and counts are the program's and must be exact. UPDATE=1 writes the outputs anew.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
golden=$test_source/golden
update=${UPDATE:-}

mkdir "$work/src"
cp "$test_source/dump_views.c" "$work/src/dump_views.c"
cc -std=gnu17 -g -O1 -fno-inline -fno-optimize-sibling-calls -fno-stack-protector -pthread \
    "$work/src/dump_views.c" -o "$work/views" || fail "the compiler does not build dump_views.c"
record() {
    (cd "$work" && exec env NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/$1" "${@:3}" \
        LD_PRELOAD="$lib" "$work/views" "$2") 2>"$work/err" || fail "dump_views.c $2 fails: $(cat "$work/err")"
}
record old.nprof small
record new.nprof large
record thread.nprof thread
record rank0.nprof small OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2
record rank1.nprof large OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2
mkdir "$work/batch"
slurm="SLURM_JOB_ID=77 SLURM_NTASKS=2"
record batch/ranks0.nprof large $slurm SLURM_STEP_ID=0 SLURM_PROCID=0
record batch/ranks1.nprof large $slurm SLURM_STEP_ID=0 SLURM_PROCID=1
record batch/script.nprof small $slurm SLURM_STEP_ID=4294967291 SLURM_PROCID=0
NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/large.nprof" LD_PRELOAD="$lib" sort -S 20M </dev/null || fail "sort ends with status $?"
NUMALLOC_PROFILE=trace NUMALLOC_PROFILE_FILE="$work/thread.trace" LD_PRELOAD="$lib" "$work/views" thread || fail "no trace"
say "profiles recorded"

# What differs between runs and machines. Frames outside main are the C library's.
normalise() {
    sed -E -e "s|$work|WORK|g" -e 's/[0-9]+(\.[0-9]+)? (ms|s)\b/TIME/g' -e 's/(process|tid|pid) +[0-9]+/\1 PID/g' \
        -e '/(_start|__libc_start_[a-z_]+|start_thread|clone3?)\b/d' -e '/^All: /d' -e 's/ +$//'
}

# shown NAME ARGUMENT...: the view's output is as it was kept, and the exit status is $want.
want=0
shown() {
    local name=$1 rc=0
    shift
    (cd "$work" && exec "$dump" "$@") >"$work/out" 2>"$work/err" || rc=$?
    [ "$rc" = "$want" ] || fail "numalloc-dump $*: status $rc, expected $want: $(head -n 3 "$work/err")"
    normalise <"$work/out" >"$work/norm"
    if [ -n "$update" ]; then
        mkdir -p "$golden"
        cp "$work/norm" "$golden/$name.txt"
    fi
    diff -u "$golden/$name.txt" "$work/norm" >"$work/diff" || {
        head -n 40 "$work/diff" >&2
        fail "numalloc-dump $* is not as kept in golden/$name.txt (UPDATE=1 writes it anew)"
    }
    seen+=("$1")
}
seen=()

shown functions functions new.nprof
shown functions_filter functions new.nprof --filter '^(parse|grow)$' --sort total
shown sites sites new.nprof --stacks --top 3
shown callers callers new.nprof --min 0
shown callers_filter callers new.nprof --filter '^walk$' --min 0
shown callees callees new.nprof --min 0 --sort total
shown callees_none callees new.nprof --filter nothing_of_this_name
shown libraries libraries new.nprof --filter views
shown sites_size sites new.nprof --sort size_max --top 2
shown leaks leaks new.nprof
printf '# a cache\nleak:^keep_cache$\n' >"$work/known"
shown leaks_suppressed leaks new.nprof --suppressions known
shown source source new.nprof --filter dump_views --context 0
# A file with next to nothing is left out; that is not to know no line.
printf '#include <stdlib.h>\nvoid *large(void) { return malloc(9 << 20); }\n' >"$work/large.c"
printf '#include <stdlib.h>\nextern void *large(void);\nint main(void) { return !large() | !malloc(64); }\n' >"$work/little.c"
(cd "$work" && cc -O0 -fno-builtin -g0 -c large.c && cc -O0 -fno-builtin -g little.c large.o -o little) || fail "no program"
NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/little.nprof" LD_PRELOAD="$lib" "$work/little" || fail "little fails"
little=$("$dump" source "$work/little.nprof")
grep -q '^(1 file, and lines with less' <<<"$little" && ! grep -q "No source line" <<<"$little" || fail "source: $little"
shown diff diff old.nprof new.nprof
shown diff_lines diff old.nprof new.nprof --lines
shown diff_same diff old.nprof old.nprof
shown warnings warnings new.nprof
shown at at new.nprof
shown at_end at new.nprof --time end --stacks --top 2
shown sizes sizes new.nprof
shown sizes_filter sizes new.nprof --filter 'parse|walk'
shown temporary temporary new.nprof
shown globals globals new.nprof --filter '^views_'
shown bundle bundle new.nprof -o bundled.nprof

want=1
shown check_fail check new.nprof --fail-if 'peak>1K' --fail-if 'leaks>0' --fail-if 'allocations == 0'
shown check_grown check new.nprof --baseline old.nprof --fail-on-increase 5%
want=0
shown check_known check new.nprof --fail-if 'leaks>3000' --suppressions known
shown check_same check old.nprof --baseline old.nprof --fail-on-increase peak=0%
say "text of ${#seen[@]} calls is as kept"

# Views whose text is times and drawings: their rows.
/usr/bin/python3 - "$dump" "$work" <<'END' || fail "threads, timeline, compare, aggregate, summary or run are not as the program was"
import json, os, re, shutil, subprocess, sys
dump, work = sys.argv[1:]
def rows(*arguments):
    out = subprocess.run([dump, *arguments, "--json"], cwd=work, check=True, capture_output=True).stdout
    return json.loads(out)["rows"]
def text(*arguments):
    return subprocess.run([dump, *arguments], cwd=work, check=True, capture_output=True, text=True).stdout

for profile in "thread.nprof", "thread.trace":
  threads = rows("threads", profile)
  worker = [t for t in threads if t["name"] == "worker"]
  assert len(threads) == 2 and len(worker) == 1, threads
  assert worker[0]["allocations"] == 40 and worker[0]["total_bytes"] == 40 * 64, worker
  assert [t["cross_thread_frees"] for t in threads if t["name"] != "worker"] == [40], threads
assert rows("realloc", "thread.trace") and json.loads(text("json", "thread.trace"))["mode"] == "trace"

resized = rows("realloc", "new.nprof")
assert [(r["function"], r["reallocs"]) for r in resized] == [("grow", 7)], resized

points = rows("timeline", "new.nprof")
peak = rows("compare", "new.nprof")[0]["peak_bytes"]
assert max(p["requested_max"] or 0 for p in points) <= peak and points[-1]["ms"] >= 0
drawn = text("timeline", "new.nprof", "--width", "30", "--height", "4").splitlines()
assert sum("|" in line for line in drawn) == 4 and any(line.startswith("Largest rises") for line in drawn), drawn

compared = rows("compare", "old.nprof", "new.nprof")
assert [r["file"] for r in compared] == ["old.nprof", "new.nprof"]
assert compared[0]["peak_ratio"] == 1 and compared[1]["peak_ratio"] > 1.5
assert all(len(r["steps"]) == 64 and max(r["steps"]) <= r["peak_bytes"] for r in compared)
assert len([l for l in text("compare", "old.nprof", "new.nprof").splitlines() if l.startswith("|")]) == 2

ranks = rows("aggregate", "rank0.nprof", "rank1.nprof")
assert [r["rank"] for r in ranks] == [1, 0], ranks  # largest peak first
peaks = [r["peak_bytes"] for r in ranks]
out = text("aggregate", "rank0.nprof", "rank1.nprof", "--top", "2")
assert "Highest peak: rank 1 on " in out and "Lowest peak: rank 0 on " in out, out
def kib(b):
    digits = 2 if b / 1024 < 9.995 else 1 if b / 1024 < 99.95 else 0
    return "%.*f KiB" % (digits, b / 1024)
mean = sum(peaks) / 2
line = next(l for l in out.splitlines() if l.startswith("peak "))
assert [kib(peaks[1]), kib(peaks[0]), kib(mean), kib((peaks[0] - peaks[1]) / 2)] == \
    [" ".join(line.split()[i:i + 2]) for i in (1, 3, 5, 7)], (line, peaks)
bad = subprocess.run([dump, "aggregate", "rank0.nprof", "nothing.nprof", "--csv"], cwd=work, capture_output=True, text=True)
assert bad.returncode == 1 and bad.stderr.count("\n") == 2 and "nothing.nprof" in bad.stderr and "no profile of rank 1\n" in bad.stderr, bad
# Slurm, by its variables: what the batch script runs besides is no rank.
out = text("aggregate", "batch")
assert out.startswith("job 77/0, 2 of 2 ranks\n") and "\n  no rank: views (pid " in out, out
again = subprocess.run([dump, "aggregate", "batch", "rank0.nprof", "--csv"], cwd=work, capture_output=True, text=True)
assert again.returncode == 1 and "job without a name of 2 ranks: no profile of rank 1\n" in again.stderr, again
# Without a view: which of several, or of a directory, matter.
os.makedirs(work + "/many/deeper")
for i in range(12):
    shutil.copy(work + "/rank0.nprof", f"{work}/many/small{i}")
shutil.copy(work + "/large.nprof", work + "/many/large.nprof")
open(work + "/many/notes.txt", "w").write("no profile")
out = text("many")
lines = out.splitlines()
assert lines[0] == "Profiles by peak (1 of 1)" and lines[2].endswith("many/large.nprof"), out
assert re.search(r"^12 more of no weight, .* allocated by all of them: .* \(12\)$", out, re.M), out
assert lines[-1] == "The first one: numalloc-dump many/large.nprof", out
assert "13 of 13" in text("many", "--top", "0") and text("list", "many") == out
# In short: the same figures as the summary, the functions of "functions", the largest of several.
brief = text("brief", "rank0.nprof").splitlines()
summary = text("rank0.nprof")
peak = re.search(r"^peak +(.*) in (.*) blocks,", summary, re.M)
assert brief[1].split(",")[0] == f"  peak         {peak[1]} in {peak[2]} blocks".split(",")[0] and len(brief) <= 14, brief
top = rows("functions", "rank0.nprof", "--sort", "peak")[:3]
shown = [line for line in brief if re.search(r"B +[0-9.]+ %  ", line)]
assert len(shown) >= 2 and all(row["function"].split("(")[0] in line for row, line in zip(top, shown)), (top, brief)
findings = rows("warnings", "rank0.nprof")
assert sum(line.startswith("  findings ") for line in brief) == (len(findings) > 0), (findings, brief)
assert all(f["place"].split("  ")[0] in "\n".join(brief) for f in findings[:3]), (findings, brief)
several = text("brief", "many").splitlines()
assert several[0] == "13 profiles, by peak" and several[1].endswith("  many/large.nprof"), several
assert several[6:] == text("brief", "many/large.nprof").splitlines(), several
listed = rows("list", "many/large.nprof", "many/small0")
assert [r["file"] for r in listed] == ["many/large.nprof", "many/small0"] and rows("list", "many")[0] == listed[0], listed
assert listed[0]["findings"] == len(rows("warnings", "many/large.nprof")), listed
assert listed[0]["events"] == sum(rows("compare", "many/large.nprof")[0][k] for k in ("allocations",)) + json.loads(text("summary", "many/large.nprof", "--json"))["total"]["frees"]
job = subprocess.run([dump, "aggregate", "many", "--json"], cwd=work, capture_output=True, text=True)
assert job.returncode == 1 and json.loads(job.stdout)["rows"][0]["peak_bytes"] == listed[1]["peak_bytes"], job
open(work + "/many/broken.nprof", "w").write("no profile")
some = subprocess.run([dump, "many"], cwd=work, capture_output=True, text=True)
assert some.returncode == 1 and some.stdout == out and some.stderr.count("\n") == 1 and "broken.nprof" in some.stderr, some
for arguments, word in ((["sites", "many"], "is a directory"), (["many/deeper"], "no profile is in this directory")):
    bad = subprocess.run([dump, *arguments], cwd=work, capture_output=True, text=True)
    assert bad.returncode == 2 and bad.stderr.count("\n") == 1 and word in bad.stderr and not bad.stdout, bad

summary = text("new.nprof")
for word in ("program", "peak", "Functions by bytes live at the peak", "build_table"):
    assert word in summary, word
# What it says of the run is what the file has.
total = json.loads(text("summary", "new.nprof", "--json"))["total"]
said = dict(line.split(None, 1) if line[:5] != "never" else ("never freed", line[13:]) for line in summary.split("\n\n")[0].splitlines())
assert said["never freed"].startswith("6.84 KiB in 11 blocks, %.0f %% of the peak" % (100 * total["live_bytes"] / total["peak_bytes"])), said
assert said["calls"] == "{allocations:,} allocations ({reallocs} by realloc), {frees:,} frees".format(**total), said
assert said["waste"].startswith("%.1f %% more" % (100 * (total["usable_ratio"] - 1))), said
assert said["temporary"].startswith("%.1f %% of the blocks" % (100 * total["temporary_ratio"])), said
assert (", %.1f times the peak;" % (total["total_bytes"] / total["peak_bytes"])) in said["allocated"], said
# (Times are in ms: one that ends in the ms in which another begins is taken to have ended before.)
assert said["threads"] == "1" and re.search("\nthreads      2 that allocated or freed; at most [123] were seen at one time\n", text("thread.nprof"))
run = text("run", "rank1.nprof")
for word in ("MPI rank       1 of 2", "OMPI_COMM_WORLD_RANK=1", "NUMALLOC_PROFILE=sites", "(the program)", "stacks", "cells"):
    assert word in run, word
run = json.loads(text("run", "rank1.nprof", "--json"))
assert (run["mpi_rank"], run["mpi_size"], run["mode"], run["access_sources"]) == (1, 2, "sites", []), run
assert "OMPI_COMM_WORLD_RANK=1" in run["environment"] and sum(m["main"] for m in run["modules"]) == 1, run
assert {"stacks", "cells"} <= {c["type"] for c in run["chunks"]} and run["damage"] == [], run["chunks"]
assert sum(c["stored_bytes"] for c in run["chunks"]) < run["file_bytes"] == os.path.getsize(f"{work}/rank1.nprof"), run
END
say "threads, timeline, compare, aggregate, summary and run are as the program was"

# Every view of one profile or several takes the options of tables, or says why not (those of accesses:
# dump_access.sh).
(cd "$work" && /usr/bin/python3 -B "$test_source/view_options.py" "$dump" "functions new.nprof" "sites new.nprof" \
    "libraries new.nprof" "threads thread.nprof" "timeline thread.nprof" "events thread.trace" "at new.nprof" "sizes new.nprof" \
    "lifetimes new.nprof" "temporary new.nprof" "globals new.nprof" "globals --modules new.nprof" "allocator new.nprof" \
    "allocator --retention new.nprof" "rules new.nprof" "realloc new.nprof" "leaks new.nprof" "warnings new.nprof" "diff old.nprof new.nprof" "diff --lines old.nprof new.nprof" \
    "compare old.nprof new.nprof" "aggregate rank0.nprof rank1.nprof" "aggregate --by=host rank0.nprof rank1.nprof" "merge rank0.nprof rank1.nprof" "pools new.nprof" "markers new.nprof" \
    "inherited new.nprof" "session new.nprof" "run new.nprof" "check new.nprof" "bundle new.nprof" "json new.nprof" \
    "folded new.nprof" "callgrind new.nprof" "pprof new.nprof" "speedscope new.nprof" "massif new.nprof" \
    "heaptrack thread.trace" "html new.nprof") >"$work/out" 2>"$work/err" || fail "the options of tables: $(tail -n 1 "$work/err")"
say "options of tables: $(cat "$work/out")"
/usr/bin/python3 - "$dump" "$work" <<'END' || fail "summary's options do not choose what it shows"
import json, subprocess, sys
dump, work = sys.argv[1:]
def output(*arguments):
    return subprocess.run([dump, *arguments], cwd=work, check=True, capture_output=True, text=True).stdout
assert output("summary", "new.nprof", "--csv") == output("functions", "new.nprof", "--csv")
assert output("summary", "new.nprof", "--csv", "--sites") == output("sites", "new.nprof", "--csv")
every = json.loads(output("summary", "new.nprof", "--json", "--top", "0"))
one = json.loads(output("summary", "new.nprof", "--json", "--filter", "^parse$"))
assert [f["function"] for f in one["functions"]] == ["parse"] and one["function_count"] == 1 < every["function_count"]
assert one["total"] == every["total"] and len(every["sites"]) == every["site_count"] > one["site_count"] == 1
text = output("summary", "new.nprof", "--filter", "^parse$")
assert text.count("parse  ") == 2 and "build_table" not in text and "\ncalls " in text, text
END
say "summary's are those of functions and sites"

# Several files are read in parallel: each waits, as it is opened, for another to be opened as well.
if [ "$(getconf _NPROCESSORS_ONLN)" -ge 2 ]; then
    cc -std=gnu17 -D_GNU_SOURCE -O1 -shared -fPIC -Wall -Wextra -pthread "$test_source/open_together.c" \
        -o "$work/open_together.so" -ldl || fail "the compiler does not build open_together.c"
    together() { OPEN_TOGETHER=2 LD_PRELOAD="$work/open_together.so" timeout "$1" "$dump" "${@:2}" >"$work/out" 2>"$work/err"; }
    for view in aggregate compare; do
        together 300 $view --csv "$work/old.nprof" "$work/new.nprof" "$work/rank0.nprof" "$work/rank1.nprof" ||
            fail "$view does not read its files in parallel: status $?, $(cat "$work/err")"
        "$dump" $view --csv "$work/old.nprof" "$work/new.nprof" "$work/rank0.nprof" "$work/rank1.nprof" | cmp -s - "$work/out" ||
            fail "$view of files that are opened together differs"
    done
    # One after the other, as diff reads: this is what the wait is there to find.
    rc=0
    together 2 diff "$work/old.nprof" "$work/new.nprof" || rc=$?
    [ "$rc" = 124 ] || fail "a view that reads one file after the other is not found out: status $rc"
    say "aggregate and compare read their files in parallel"
fi

# A bundle reads where the program is not: nothing is looked up.
"$dump" sites "$work/new.nprof" --csv --top 0 >"$work/before.csv"
mv "$work/views" "$work/moved"
"$dump" sites "$work/bundled.nprof" --csv --top 0 >"$work/after.csv" 2>"$work/err" || fail "the bundle: $(cat "$work/err")"
cmp -s "$work/before.csv" "$work/after.csv" || fail "the bundle shows something else than the profile did: $(diff "$work/before.csv" "$work/after.csv" | head -n 4)"
"$dump" sites "$work/new.nprof" --csv --top 0 | cmp -s - "$work/before.csv" && fail "the program is still found: the bundle proves nothing"
"$dump" "$work/bundled.nprof" | grep '^No symbols' >/dev/null && fail "the bundle lacks symbols"
strip -s -o "$work/stripped" "$work/moved"
NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE="$work/stripped.nprof" LD_PRELOAD="$lib" "$work/stripped" large
"$dump" "$work/stripped.nprof" >"$work/out"
tr '\n' ' ' <"$work/out" | grep "Names: functions with [0-9]* % of the bytes live at the peak are known by their address only. Debug symbols of   $work/stripped would" >/dev/null ||
    fail "the summary of a stripped program does not say what lacks names: $(tail -n 4 "$work/out")"
"$dump" "$work/bundled.nprof" | grep '^Names' >/dev/null && fail "the summary misses names that it has"
rc=0
"$dump" bundle "$work/bundled.nprof" -o "$work/twice.nprof" 2>"$work/err" || rc=$?
[ "$rc" = 2 ] && grep -q "already" "$work/err" && [ ! -e "$work/twice.nprof" ] || fail "a bundle is bundled again"
say "a bundle reads without the program"

# A view that the profile's mode does not record says which mode does.
NUMALLOC_PROFILE=sample NUMALLOC_PROFILE_FILE="$work/sample.nprof" LD_PRELOAD="$lib" "$work/moved" small
rc=0
"$dump" realloc "$work/sample.nprof" >"$work/out" 2>"$work/err" || rc=$?
[ "$rc" = 2 ] && [ ! -s "$work/out" ] && [ "$(wc -l <"$work/err")" = 1 ] &&
    grep -q "'realloc' needs a profile of mode sites or trace, this one is of mode sample.*NUMALLOC_PROFILE=sites" "$work/err" ||
    fail "realloc on a sampled profile: status $rc, $(cat "$work/err")"
say "a view says which mode it needs"

# Every view that is no export has come up here (events: profile_trace.sh; lifetimes, allocator
# and top: dump_blocks.sh; the last
# four: profile_control.sh; merge: fleet.sh; rules: policy.sh;
# policy: policy_tool.sh).
for view in $("$dump" help --names); do
    case " ${seen[*]} help summary threads timeline compare list brief aggregate run json csv folded callgrind pprof speedscope massif html heaptrack realloc check events lifetimes allocator top pools markers inherited session rules policy memory objects object sharing pages verdicts merge errors " in
    *" $view "*) ;;
    *) fail "the view $view has no test here" ;;
    esac
done
for wrong in "check $work/old.nprof --fail-if peak" "check $work/old.nprof --fail-if size>3" "check $work/old.nprof --baseline $work/old.nprof" \
    "check $work/old.nprof --baseline $work/old.nprof --fail-on-increase much" "leaks $work/old.nprof --suppressions $work/none" \
    "diff $work/old.nprof" "bundle $work/old.nprof"; do
    rc=0
    # shellcheck disable=SC2086
    "$dump" $wrong >"$work/out" 2>"$work/err" || rc=$?
    [ "$rc" = 2 ] && [ "$(wc -l <"$work/err")" = 1 ] && [ ! -s "$work/out" ] || fail "numalloc-dump $wrong: status $rc, $(cat "$work/err")"
done
say "wrong use is refused in one line"
