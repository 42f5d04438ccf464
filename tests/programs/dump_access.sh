#!/bin/bash
# dump_access.sh - numalloc-dump's views of accesses, on profiles of known shape: text, JSON and CSV
# say the same, several processes are one application, --where selects, and wrong words are refused.
# Usage: dump_access.sh LIBRARY NUMALLOC_DUMP ACCESS_MADE SOURCE_ROOT [counted]. counted: the build is
# optimised and can run under callgrind.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
dump=$2 made=$3 root=$4
"$made" "$work"
cd "$work"

# shows PATTERN ARGUMENT...: the output has the extended regular expression.
shows() {
    local pattern=$1
    shift
    "$dump" "$@" >out 2>err || fail "numalloc-dump $*: status $?: $(cat err)"
    [ ! -s err ] || fail "numalloc-dump $* says $(cat err)"
    grep -qE -- "$pattern" out || fail "numalloc-dump $*: no '$pattern' in: $(head -n 40 out)"
}
shows '^accesses     45\.0 % of 400 sampled ones went to another node' summary handed.nprof
shows 'To other nodes: 45\.0 %' memory handed.nprof
shows 'To other nodes: 45\.0 % \(36\.0 to 56\.0 % with what was lost\)' memory lossy.nprof
shows '^ +1 +45\.0 % +400 +50\.0 % +150 ' memory handed.nprof
shows '1\. remote after allocation: .*object 0 of 1\.00 MiB' verdicts handed.nprof
shows 'in the code +allocate it where it is used: numalloc_alloc_onnode\(size, 1\)' verdicts handed.nprof
shows 'by command .*or, where kernel\.numa_balancing is on, NUMALLOC_NUMA=unbound lets the kernel move it$' verdicts handed.nprof
shows 'expected +40\.0 % of all accesses become local; up to' verdicts handed.nprof
shows '\+ 100\.0 % after the hand-off, from one node that is not the page' verdicts handed.nprof
shows '2\. nothing wrong' verdicts --top 0 handed.nprof
shows '^nothing is wrong with 1 more; --top 0 shows it$' verdicts handed.nprof
shows 'below 10,000, small shares are uncertain' verdicts handed.nprof
shows 'remote after allocation +0 ' objects handed.nprof
shows '^ *180 \|.*[X#].*\| thread 2 102$' object 0 handed.nprof
shows 'made\+0x|\?' functions --access handed.nprof
shows '1{20,}.* 102 +thread 2$' threads --access handed.nprof
shows '0x10000000 ' pages handed.nprof
shows '^Groups of threads that share objects \(modularity 0\.75\)' sharing server0.nprof server1.nprof server2.nprof server3.nprof
shows '1 on nodes 0 1 2 3: thread 1 101 of 500[0-3],' sharing server0.nprof server1.nprof server2.nprof server3.nprof
shows '1\. sharing cluster: ' verdicts server0.nprof server1.nprof server2.nprof server3.nprof
shows 'numactl --cpunodebind=NODE --localalloc PROCESS, a node for each process' verdicts server0.nprof server1.nprof server2.nprof server3.nprof
shows '1\. write-shared: ' verdicts server0.nprof
shows 'kmod-ibs +400 samples; lost 0, unresolved 0' run handed.nprof
# Estimates of watchpoints and their interval, wherever accesses are summed up.
for view in objects "functions --access" "threads --access"; do
    # shellcheck disable=SC2086
    shows 'accesses \(95 %\)' $view watched.nprof
    shows ' 40,000 \(3[0-9],[0-9]{3} to 5[0-9],[0-9]{3}\) ' $view watched.nprof
done
shows 'Accesses: 40 samples by watch, in 100 rounds; ' objects watched.nprof
# Parts of a matrix, pairs of threads with their buffers, and a fault that is not worth mending.
shows '^1\. partition: .*object 0 of 4\.00 MiB' verdicts parted.nprof
shows '^ +1\.00 MiB to 2\.00 MiB: 100 % from node 1, lies on 0' verdicts parted.nprof
shows 'numalloc_migrate_range.*3\.00 MiB to 4\.00 MiB on node 3\).*each worker write its part first' verdicts parted.nprof
shows 'each of these objects has one node that uses it: .*numalloc_migrate\(block, numalloc_current_node\(\), NULL\)' verdicts rows.nprof
shows '^1\. sharing cluster: .*object 1 of 1\.00 MiB' verdicts paired.nprof
shows 'group [12] on node 1: threads thread 3 103, thread 4 104, their buffers \(object 1\) lie there already' verdicts paired.nprof
shows 'group [12] on node 3: threads thread 3 103, thread 4 104, their buffers \(object 1\) too: numalloc_migrate\(block, 3, NULL\)' \
    verdicts crowded.nprof
shows 'of 0\.5 % remote in all: nothing to gain; 100\.0 % of all remote cost' verdicts --top 0 local.nprof
# What cannot be gained takes one line, unless it is asked for.
[ "$("$dump" verdicts local.nprof | sed '1,/^$/d' | grep -c .)" = 1 ] || fail "nothing to gain takes more than a line: $("$dump" verdicts local.nprof)"
shows '^There is nothing to gain: of all accesses 0\.5 %' verdicts local.nprof
shows '^To other nodes: 0\.5 %, nothing to gain$' objects local.nprof
shows 'expected +nothing to gain: of all accesses 0\.5 %' verdicts --top 0 local.nprof
shows '64 B share their pages with others' verdicts --top 0 local.nprof
"$dump" verdicts --top 0 local.nprof | has numalloc_migrate && fail "a block of 64 B is to be moved by numalloc_migrate"
shows 'each use lines of their own in it' verdicts own_lines.nprof
shows 'let each thread allocate its part by itself' verdicts own_lines.nprof
"$dump" verdicts own_lines.nprof | has alignas && fail "what lies on lines of its own is to be padded"
"$dump" verdicts --top 0 local.nprof | has NUMALLOC_NUMA && fail "the kernel is to move where nothing is to gain"
say "text: verdicts, matrix, flow, groups, parts, estimates"

# The same in JSON, for every view; conditions select there as well.
for view in "functions --access" "threads --access" objects; do
    # shellcheck disable=SC2086
    "$dump" $view --json watched.nprof >"json.watched.${view%% *}" || fail "$view --json: status $?"
done
for view in memory objects sharing pages verdicts "object 0" "functions --access" "threads --access"; do
    # shellcheck disable=SC2086
    "$dump" $view --json handed.nprof >"json.${view%% *}" || fail "$view --json ends with status $?"
done
"$dump" verdicts --json --where thread=102 handed.nprof >json.selected
"$dump" verdicts --json server?.nprof >json.servers
"$dump" verdicts --json parted.nprof >json.parted
"$dump" verdicts --json crowded.nprof >json.crowded
"$dump" memory --json lossy.nprof >json.lossy
"$dump" objects --instances --csv server?.nprof >csv.instances
/usr/bin/python3 - <<'END' || fail "JSON is not as it should be"
import csv, json
def load(name): return json.load(open("json." + name))
memory = load("memory")
assert memory["samples"] == 400 and memory["source"] == "kmod-ibs" and not memory["enough"]
assert abs(memory["remote"] - 0.45) < 1e-9
assert memory["remote_low"] == memory["remote_high"] == memory["remote"]
assert [round(load("lossy")[key], 9) for key in ("remote_low", "remote", "remote_high")] == [0.36, 0.45, 0.56]
matrix = memory["matrix"]
assert [[c["samples"] for c in row] for row in matrix][:2] == [[20, 0, 0, 0], [180, 200, 0, 0]]
assert abs(sum(sum(row) for row in memory["load"]) - 400) < 1e-6
assert memory["levels"] == {"DRAM": 400}
verdict = load("verdicts")["verdicts"][0]
assert verdict["verdict"] == "remote_after_allocation" and verdict["placement"] == "node 1"
assert verdict["confidence"] == "high" and verdict["cost_share"] == 1
assert abs(verdict["gain_remote"] - 0.4) < 1e-9
assert len(verdict["rules"]) == 11 and len(set(verdict["runners_up"])) == 2
rule = [r for r in verdict["rules"] if r["rule"] == "remote_after_allocation"][0]
assert rule["holds"] and all(c["met"] for c in rule["conditions"]) and len(rule["conditions"]) == 3
assert verdict["measure"]["handoff_ns"] > 0 and verdict["measure"]["from"][1] == 0.9
flow = load("object")
assert flow["accesses"] == len(flow["flow"]) == 200 and flow["every"] == 1
times = [row[0] for row in flow["flow"]]
assert times == sorted(times) and {row[3] for row in flow["flow"]} == {0, 1}
assert flow["verdict"]["verdict"] == "remote_after_allocation"
objects = load("objects")["rows"]
assert [r["samples"] for r in objects] == [200, 200] and objects[0]["remote_share"] == 1
threads = load("threads")["rows"]
assert {t["tid"]: t["samples"] for t in threads} == {101: 20, 102: 380}
pages = load("pages")["rows"]
assert sum(p["samples"] for p in pages) == 400
assert sum(r["samples"] for r in load("functions")["rows"]) == 400
ends = {(r["weight"], r["weight_low"], r["weight_high"], r["rounds"])
        for view in ("functions", "threads", "objects") for r in load("watched." + view)["rows"]}
assert len(ends) == 1 and next(iter(ends))[3] == 40, ends
assert all(r["weight_low"] is None for r in load("functions")["rows"])
assert load("sharing")["row_count" if "row_count" in load("sharing") else "group_count"] >= 1
assert load("selected")["samples"] == 380
parts = load("parted")["verdicts"][0]
assert parts["verdict"] == parts["placement"].replace("parts", "partition") == "partition"
assert [(p["from"] >> 20, p["to"] >> 20, p["node"], p["lies_on"]) for p in parts["parts"]] == [(i, i + 1, i, 0) for i in range(4)]
assert parts["measure"]["parted"] > 0.99 and 0.7 < parts["gain_remote"] < 0.75
groups = {g["group"]: g for v in load("crowded")["verdicts"] for g in v["groups"]}
assert {g["node"] for g in groups.values()} != {0} and all(len(g["threads"]) == 2 and len(g["objects"]) == 1 for g in groups.values()), groups
servers = load("servers")
assert len(servers["processes"]) == 4 and servers["samples"] == 8000
assert servers["verdicts"][0]["verdict"] == "sharing_cluster"
rows = list(csv.DictReader(open("csv.instances", newline="")))
assert len(rows) == 4 and all(r["samples"] == "2000" for r in rows)
END
say "JSON and CSV: the same figures, and --where selects"

/usr/bin/python3 -B "$test_source/view_options.py" "$dump" "memory handed.nprof" "objects handed.nprof" "object 0 handed.nprof" \
    "sharing server0.nprof server1.nprof" "pages handed.nprof" "verdicts handed.nprof" "functions --access handed.nprof" \
    "threads --access handed.nprof" >out 2>err || fail "the options of tables: $(tail -n 1 err)"
say "options of tables: $(cat out)"
shows '^kind +heap block +100.0 %' memory handed.nprof --filter heap
shows '^1\. nothing wrong' verdicts handed.nprof --filter nothing
"$dump" memory --csv handed.nprof >csv.memory
"$dump" verdicts --csv handed.nprof >csv.verdicts
/usr/bin/python3 - <<'END' || fail "memory or verdicts have other figures in CSV than in JSON"
import csv, json
rows = list(csv.DictReader(open("csv.memory", newline="")))
memory = json.load(open("json.memory"))
pair = lambda f, h: next(r for r in rows if r["part"] == "nodes" and (r["from"], r["home"]) == (str(f), str(h)))
nodes = [n["node"] for n in memory["nodes"]]
assert [[int(pair(f, h)["samples"]) for h in nodes] for f in nodes] == [[c["samples"] for c in row] for row in memory["matrix"]]
assert {r["name"]: float(r["weight"]) for r in rows if r["part"] == "answer"} == memory["levels"]
steps = [r["remote"] for r in rows if r["part"] == "time"]
assert [float(r) if r else None for r in steps] == memory["remote_over_time"]
verdicts = list(csv.DictReader(open("csv.verdicts", newline="")))
for row, verdict in zip(verdicts, json.load(open("json.verdicts"))["verdicts"], strict=True):
    assert all(row[key] == (verdict[key] or "") for key in ("name", "verdict", "title", "kind", "code", "placement")), (row, verdict)
    assert float(row["cost_share"]) == verdict["cost_share"] and int(row["samples"]) == verdict["measure"]["samples"]
END

# refuses PATTERN ARGUMENT...
refuses() {
    local pattern=$1 rc=0
    shift
    "$dump" "$@" >out 2>err || rc=$?
    [ "$rc" = 2 ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] && grep -qE -- "$pattern" err ||
        fail "numalloc-dump $*: status $rc, $(cat err)"
}
refuses 'empty.nprof: no accesses were sampled' verdicts empty.nprof
refuses "run' lists the sources" memory empty.nprof
refuses 'looked.nprof: no accesses were sampled: watch looked at' verdicts looked.nprof
refuses 'looked.nprof: no accesses were sampled: watch looked at' objects looked.nprof
refuses "not understood: 'remot'" objects handed.nprof --where remot
refuses 'no access fulfils --where node=3' verdicts handed.nprof --where node=3
refuses 'there is no object 9; ids go to 1' object 9 handed.nprof
refuses "takes the id of an object" object handed.nprof handed.nprof
refuses "'object' takes ID FILE" object 0
say "bad words: one line, status 2"

# Flows and verdicts of many samples: by instructions, which no other load changes. A second has
# some 2,500 million of them at least; this is for a seventh of 720,000 samples, a minute's of IBS on
# one busy core at the default rate.
if [ "${5:-}" = counted ] && command -v valgrind >/dev/null; then
    "$made" "$work" 100000
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$dump" verdicts minute.nprof \
        >/dev/null 2>callgrind || fail "verdicts under callgrind: $(tail -n 1 callgrind)"
    millions=$(($(sed -n 's/.*Collected : //p' callgrind) / 1000000))
    [ "$millions" -gt 20 ] && [ "$millions" -le 357 ] ||
        fail "verdicts of 100,000 samples take $millions million instructions, not 20 to 357"
    say "verdicts of 100,000 samples: $millions million instructions"
fi
