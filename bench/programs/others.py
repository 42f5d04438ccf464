#!/usr/bin/python3
"""others.py - compares allocators over programs of Debian's that numalloc was not made with.

usage: others.py DIRECTORY [--bench PATH] [--only A,B] [options of numalloc-bench compare]

Writes the inputs to DIRECTORY, the same ones each time, and runs `numalloc-bench compare` with a
--program for each that is installed; those that are not are named with their package. Each takes
half a second to a few seconds, most of it in one thread.
"""
import os
import random
import shutil
import subprocess
import sys

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]

# name: package, command (in DIRECTORY)
PROGRAMS = {
    "convert": ("imagemagick", "convert -size 1600x1200 plasma:red-blue -seed 1 -blur 0x2 -rotate 7 out.png"),
    "dot": ("graphviz", "dot -Tplain graph.dot"),
    "ffmpeg": ("ffmpeg", "ffmpeg -v error -y -threads 1 -f lavfi -i testsrc=d=4:s=640x360 -c:v mpeg4 -f null -"),
    "gawk": ("gawk", "gawk -f arrays.awk"),
    "groff": ("groff", "groff -man -Tps page.man"),
    "iverilog": ("iverilog", "iverilog -o out.vvp netlist.v"),
    "jq": ("jq", "jq -c '.[]|{id,name:(.name|ascii_upcase),n:(.tags|length)}' data.json"),
    "ledger": ("ledger", "ledger -f journal.dat reg"),
    "minisat": ("minisat", "minisat formula.cnf; test $? = 10 -o $? = 20"),
    "numpy": ("python3-numpy", "/usr/bin/python3 arrays.py"),
    "perl": ("perl", "perl hashes.pl"),
    "sort": ("coreutils", "sort --parallel=1 lines"),
    "sqlite3": ("sqlite3", "sqlite3 :memory: <tables.sql"),
    "tclsh": ("tcl", "tclsh dicts.tcl"),
    "tsort": ("coreutils", "tsort pairs"),
    "vvp": ("iverilog", "vvp netlist.vvp"),
    "xmllint": ("libxml2-utils", "xmllint --shell data.xml <queries"),
}

AWK = """BEGIN { s = 1; n = 100000
  for (i = 0; i < n; i++) { s = (s * 1103515245 + 12345) % 2147483648; k[i] = "key" s; a[k[i]] = i; b[k[i]] = "some longer value of " s }
  for (j = 0; j < 700000; j++) { s = (s * 1103515245 + 12345) % 2147483648; t += a[k[s % n]] }
  print t }
"""
PERL = """my (%h, $t); my $s = 1; sub r { $s = ($s * 1103515245 + 12345) % 2147483648; $s }
for my $i (0 .. 150000) { push @{$h{"k" . (r() % 40000)}}, {id => $i, name => "n" . r()}; }
for my $k (sort keys %h) { $t += length $_->{name} for @{$h{$k}}; }
my @a = map { [split /,/, join(",", map { r() % 1000 } 1 .. 20)] } 1 .. 15000; $t += $_->[3] for @a; print "$t\\n";
"""
TCL = """set s 1
proc rnd {} { global s; set s [expr {($s * 1103515245 + 12345) % 2147483648}] }
for {set i 0} {$i < 40000} {incr i} { dict set d key[rnd] [list $i [rnd] x$i] }
for {set j 0} {$j < 2} {incr j} { dict for {k v} $d { incr t [lindex $v 0]; lappend l [string length $k] } }
puts "$t [lindex [lsort -integer $l] 0]"
"""
SQL = """create table t(a integer primary key, b text);
with recursive c(x) as (select 1 union all select x+1 from c where x<80000) insert into t select x, hex(x*x) from c;
create index i on t(b); select count(*), sum(length(b)) from t where b like '3%'; select sum(length(b||a)) from t;
create table u as select b, group_concat(a) g from t group by substr(b,1,4); select sum(length(g)) from u;
delete from t where a%3=0; select count(*) from t join u on t.b=u.b;
"""
NUMPY = """import numpy as np
a = np.arange(300000, dtype=float)
for i in range(300):
    b = np.sqrt(a) + i
    c = b[b > 200] * 2
    d = np.concatenate([c, b[:1000]])
rows = [np.zeros(40) + i for i in range(100000)]
print(d.sum() + sum(r[0] for r in rows))
"""


def graph(draw):
    for i in range(2, 500):
        yield f"n{i} -> n{draw.randrange(max(1, i - 60), i)}; n{i} -> n{draw.randrange(max(1, i - 200), i)};\n"


def netlist(draw, gates, until):
    yield "module t; reg clk=0; always #1 clk=~clk;\n"
    for k in range(gates):
        yield f"wire w{k}; reg q{k}={draw.randrange(2)};\n"
    for k in range(gates):
        a, b = draw.randrange(gates), draw.randrange(gates)
        yield f"{draw.choice(['and', 'xor', 'or', 'nand'])} g{k}(w{k}, q{a}, q{b});\n"
        yield f"always @(posedge clk) q{k} <= w{k} ^ q{draw.randrange(gates)};\n"
    yield f"initial #{until} $finish; endmodule\n"


def journal(draw):
    accounts = ["Assets:Bank", "Expenses:Food", "Expenses:Rent", "Income:Job", "Assets:Cash"]
    for i in range(8000):
        yield (f"{2000 + i // 1200}/{draw.randrange(1, 13):02}/{draw.randrange(1, 29):02} Payee {draw.randrange(900)}\n"
               f"    {draw.choice(accounts)}:{draw.randrange(40)}  ${draw.random() * 500:.2f}\n    {draw.choice(accounts)}\n\n")


def formula(draw, variables):
    clauses = int(variables * 4.2)
    yield f"p cnf {variables} {clauses}\n"
    for _ in range(clauses):
        yield " ".join(str(v * draw.choice((1, -1))) for v in draw.sample(range(1, variables + 1), 3)) + " 0\n"


def record(draw, i):
    tags = ",".join(f'"{t}"' for t in draw.sample(WORDS, 3))
    return (f'{{"id":{i},"name":"{draw.choice(WORDS)}{i}","tags":[{tags}],"x":{draw.random()},'
            f'"text":"{" ".join(draw.choices(WORDS, k=12))}"}}')


def item(draw, i):
    return (f'<item id="k{i}"><name>{draw.choice(WORDS)}{i}</name><price>{draw.randrange(1000)}</price>'
            f'<note>{" ".join(draw.choices(WORDS, k=8))}</note></item>\n')


def pair(draw):
    a, b = sorted(draw.choices(range(120000), k=2))
    return f"w{a} w{b}\n"


def make_inputs(directory):
    draw = random.Random(1)
    files = {
        "arrays.awk": AWK, "hashes.pl": PERL, "dicts.tcl": TCL, "tables.sql": SQL, "arrays.py": NUMPY,
        "graph.dot": "digraph g {\n" + "".join(graph(draw)) + "}\n",
        "netlist.v": "".join(netlist(draw, 4000, 10)),
        "large.v": "".join(netlist(draw, 12000, 120)),
        "journal.dat": "".join(journal(draw)),
        "formula.cnf": "".join(formula(draw, 190)),
        "data.json": "[" + ",\n".join(record(draw, i) for i in range(20000)) + "]\n",
        "data.xml": "<r>\n" + "".join(item(draw, i) for i in range(40000)) + "</r>\n",
        "queries": "".join(f"xpath count(//item[price > {i * 50}])\n" for i in range(10)) + "bye\n",
        "pairs": "".join(pair(draw) for _ in range(120000)),
        "lines": "".join(f"{draw.choice(WORDS)} {draw.random()}\n" for _ in range(400000)),
        "page.man": ".TH A 1\n" + "".join(
            f".SH s{i}\n.PP\n{' '.join(draw.choices(WORDS, k=40))}\n.B {draw.choice(WORDS)}\n" for i in range(3000)),
    }
    os.makedirs(directory, exist_ok=True)
    for name, text in files.items():
        with open(os.path.join(directory, name), "w") as file:
            file.write(text)
    if shutil.which("iverilog"):
        subprocess.run(["iverilog", "-o", "netlist.vvp", "large.v"], cwd=directory, check=True)


def is_there(name):
    if name == "numpy":
        return subprocess.run(["/usr/bin/python3", "-c", "import numpy"], capture_output=True).returncode == 0
    return shutil.which(name) is not None


def die(why):
    print(f"others.py: {why}", file=sys.stderr)
    sys.exit(2)


def main():
    words = sys.argv[1:]
    if words and words[0] in ("--help", "-h"):
        print(__doc__.strip())
        return
    if not words or words[0].startswith("-"):
        die("name a directory for the inputs first; see --help")
    directory, rest = os.path.abspath(words[0]), words[1:]
    bench = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/release/numalloc-bench")
    only = list(PROGRAMS)
    while rest and rest[0] in ("--bench", "--only"):
        if len(rest) < 2:
            die(f"{rest[0]} needs a value")
        if rest[0] == "--bench":
            bench = os.path.abspath(rest[1])
        else:
            only = rest[1].split(",")
        rest = rest[2:]
    wrong = [name for name in only if name not in PROGRAMS]
    if wrong:
        die(f"--only takes {', '.join(PROGRAMS)}, not: {', '.join(wrong)}")
    if not os.access(bench, os.X_OK):
        die(f"cannot run {bench}: build it, or name another with --bench")
    try:
        make_inputs(directory)
    except OSError as error:
        die(f"{error.filename}: {error.strerror}")
    command = [bench, "compare"]
    for name in only:
        package, run = PROGRAMS[name]
        if is_there(name):
            command += ["--program", f"{name}=cd '{directory}' && {run} >/dev/null"]
        else:
            print(f"others.py: {name} is left out: it is in the package {package}", file=sys.stderr)
    if len(command) == 2:
        die("none of these programs is installed")
    os.execv(bench, command + rest)


main()
