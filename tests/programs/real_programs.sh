#!/bin/bash
# real_programs.sh LIBNUMALLOC.SO NAME - a real program does the same with the library as without:
# output, standard error, status. The table is at the end: programs, their stories, and whose malloc is
# proved to be the library's.
set -euo pipefail
TEST_NAME=$2
. "$(dirname "$0")/lib.sh"

shell_story() {
    # Pure bash: strings, arrays, associative arrays, substitution, subshells, here-documents.
    local -A seen=()
    local -a list=()
    local i n=4000 text=""
    [ "$SCALE" != small ] || n=50
    for ((i = 0; i < n; i++)); do
        seen[key$((i * 7919 % 1009))]=$i
        list+=("item-$i-${text:0:$((i % 60))}")
        text=${text/%???/}$i$text
        text=${text:0:4000}
    done
    printf '%s\n' "${!seen[@]}" | sort | cksum
    printf '%s\n' "${list[@]}" | cksum
    for ((i = 0; i < n / 20; i++)); do
        text=$(
            cat <<END
${list[i]} $(echo "${list[@]:i:5}")
END
        )
        echo "${text//item/ITEM}"
    done | cksum
    (
        trap 'echo trapped' USR1
        kill -USR1 "$BASHPID"
        (exit 3) || echo "subshell says $?"
    )
}

utilities_story() {
    local lines=400000 buffer=8M
    [ "$SCALE" = full ] || lines=40000 buffer=1M
    [ "$SCALE" != small ] || lines=2000
    awk -v n="$lines" 'BEGIN { x = 12345; for (i = 0; i < n; i++) {
        x = (x * 1103515245 + 12345) % 2147483648
        printf "%010d %d line of text number %d %s\n", x, x % 977, i, substr("abcdefghijklmnopqrstuvwxyz", 1 + x % 20) } }' >big
    wc big
    sort --parallel=4 -S $buffer big >sorted # a small buffer: runs are spilled and merged
    cksum <sorted
    sort --parallel=2 -S 256M -k2,2n -k1,1r big | cksum
    sort -u -k2,2n big | cksum
    sort -c sorted && echo "sorted is sorted"
    tac big | cksum
    od -A x -t x1z big | cksum
    cut -d' ' -f2 big | sort -n | uniq -c | sort -k1,1nr -k2,2n | sed -n 1,20p # head would end its writer early
    tr a-z A-Z <big | cksum
    split -l 9000 -d -a 3 big part. && cat part.* | cmp - big && echo "split joins again"
    join -1 1 -2 1 <(head -n 500 sorted) <(tail -n +200 sorted | head -n 600) | cksum
    comm -12 <(head -n 500 sorted) <(tail -n +200 sorted | head -n 600) | cksum
    paste big sorted | cksum
    shuf --random-source=big big | cksum
    expand big | fold -w 31 | fmt -w 60 | nl | cksum
    base64 big | base64 -d | cmp - big && echo "base64 round trip"
    sha256sum big
    csplit -z -s big 100 '{3}' && ls | cksum
    factor 18446744073709551557 340282366920938463463374607431768211456 1000000016000000063
    seq 1 "$((lines / 20))" | factor | cksum
    seq -f 'a%gb' 1 5 | tsort 2>&1 || echo "tsort says $?"
    seq 1 2000 | tsort | cksum
    seq 1 3000 | pr -3 -t | cksum
    ptx <<<"the quick brown fox jumps over the lazy dog"
    printf '%5.2f|%-8s|%q\n' 3.14159 left "a b'c"
    mkdir -p tree/{a,b,c}/{1,2,3} && cp part.* tree/a/1 && cp -r tree other && ls -R other | cksum
    du -a --apparent-size other | sort -k2 | cksum
    dd if=big of=copy bs=64k status=none && cmp big copy && echo "dd copies"
    ls /does/not/exist || echo "ls says $?"
    numfmt --to=iec 1048576 12345678
    expr "$(printf 'x%.0s' {1..3000})" : 'x*'
    rm -rf tree other && ls | wc -l
}

# A repository of many commits: pack, delta, diff, merge, clone, blame.
git_story() {
    local commits=240 i n
    rm -f "$HOME/.gitconfig"
    [ "$SCALE" = full ] || commits=45
    [ "$SCALE" != small ] || commits=6
    export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org \
        GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org
    git config --global pack.threads 2
    git config --global init.defaultBranch trunk
    git config --global gc.auto 0
    git config --global advice.detachedHead false
    git init -q repo
    cd repo
    for ((i = 0; i < commits; i++)); do
        export GIT_AUTHOR_DATE="$((1700000000 + i * 60)) +0000"
        export GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE
        mkdir -p "dir$((i % 17))/sub$((i % 5))"
        for n in 0 1 2; do
            printf 'commit %d file %d\n' "$i" "$n" >"dir$((i % 17))/sub$((i % 5))/f$i.$n"
        done
        # One file that grows and one that is rewritten, so that deltas and blame have work.
        printf 'line %d: %s\n' $i "$((i * i))" >>grows
        seq $((i % 9)) 3 $((2000 + i)) >rewritten
        git add -A
        git commit -q -m "change $i" -m "why: number $i"
        if ((i % 40 == 20)); then
            git checkout -q -b "side$i"
            echo "side $i" >>"side.$i"
            git add -A
            git commit -q -m "side $i"
            git checkout -q trunk
            git merge -q --no-ff -m "merge side$i" "side$i"
        fi
    done
    git count-objects | cut -d' ' -f1
    git log -p --stat --format=fuller | cksum
    git log --graph --oneline --all | cksum
    git blame rewritten | cksum
    git blame -C -M grows | tail -n 3
    git diff --word-diff HEAD~5 HEAD | cksum
    git grep -n 'commit 1' | cksum
    git gc -q --aggressive --prune=now
    git fsck --full --strict
    git verify-pack -v .git/objects/pack/*.idx | sort | grep -c commit
    git rev-list --objects --all | sort | cksum
    cd ..
    git clone -q --no-local repo copy
    (cd copy && git log --format=%H%n%B%n%N | cksum && git status --short && git fsck)
    git clone -q --bare repo bare.git
    (cd copy && git checkout -q -b more HEAD~3 && echo x >grows && git commit -qam x &&
        git push -q ../bare.git more && git rebase -q -X theirs origin/trunk && git rev-parse HEAD)
    git -C bare.git for-each-ref
    (cd repo && git format-patch -q -3 --stdout | cksum && git archive HEAD | cksum &&
        git bundle create -q ../all.bundle --all && git bundle verify -q ../all.bundle && git stash list)
    git clone -q all.bundle third
    git -C third rev-parse HEAD
}

# The same object code, of this project's own C sources and of a generated C++ file that leans on the
# standard library.
c_story() {
    local file object made=0 most=14
    [ "$SCALE" = full ] || most=2
    [ "$SCALE" != small ] || most=1
    # Whatever compiles on its own; a file that does not (a missing header) says so equally twice.
    while read -r file; do
        object=${file//\//_}.o
        if gcc -std=gnu17 -O2 -g -D_GNU_SOURCE -I"$SOURCES" -I"$SOURCES/include" \
            -c "$SOURCES/$file" -o "$object" 2>"$object.err"; then
            made=$((made + 1))
        fi
        cat "$object.err"
        [ ! -e "$object" ] || cksum "$object"
        [ "$made" -lt "$most" ] || break
    done < <(cd "$SOURCES" && find alloc pagemap profiler bench -name '*.c' | sort)
    echo "compiled: $made"
    [ "$made" -gt 0 ]
}

cxx_story() {
    local types=9 i level=-O2 regex=regex
    # Regular expressions alone are half of what there is to compile.
    [ "$SCALE" = full ] || types=1 level=-O1 regex=
    {
        for i in algorithm functional iostream map memory numeric $regex set sstream string \
            unordered_map variant vector; do echo "#include <$i>"; done
        for ((i = 0; i < types; i++)); do
            cat <<END
namespace part$i {
struct Item { std::string name; std::vector<double> values; std::variant<int, std::string, double> tag; };
template <typename T, int N> struct Chain { Chain<T, N - 1> next; T own[N % 7 + 1]; T sum() const { return own[N % 7] + next.sum(); } };
template <typename T> struct Chain<T, 0> { T own; T sum() const { return own; } };
using Table = std::unordered_map<std::string, std::map<int, std::shared_ptr<Item>>>;
double walk(Table &table, int seed) {
    for (int i = 0; i < $((50 + i)); i++) {
        auto item = std::make_shared<Item>();
        item->name = "item " + std::to_string(i * seed);
        for (int k = 0; k < i; k++) item->values.push_back(k * 1.5 + $i);
        if (i % 3 == 0) item->tag = item->name; else item->tag = i;
        table[item->name.substr(0, 6)][i] = item;
    }
    double total = 0;
    for (auto &[key, inner] : table)
        for (auto &[number, item] : inner) {
            std::sort(item->values.begin(), item->values.end(), std::greater<>());
            total += std::accumulate(item->values.begin(), item->values.end(), 0.0) + number;
            total += std::visit([](const auto &v) -> double { if constexpr (std::is_arithmetic_v<std::decay_t<decltype(v)>>) return v; else return v.size(); }, item->tag);
        }
    Chain<double, $((60 + i))> chain{};
    std::function<double(double)> f = [&](double x) { return x + chain.sum(); };
    return f(total);
}
}
END
        done
        echo 'int main() { std::cout.precision(17); std::set<double> seen; std::ostringstream out;'
        for ((i = 0; i < types; i++)); do
            echo "{ part$i::Table t; double v = part$i::walk(t, $i + 3); seen.insert(v); out << v << '\\n'; }"
        done
        [ -z "$regex" ] || echo 'std::regex digits("[0-9]+"); std::string s = out.str();
            std::cout << std::distance(std::sregex_iterator(s.begin(), s.end(), digits), {}) << " numbers\n";'
        echo 'std::cout << out.str() << seen.size() << "\n"; }'
    } >big.cpp
    g++ -std=c++17 $level -g -c big.cpp -o big.o
    cksum big.cpp big.o
    g++ big.o -o big # with the linker under the library, too
    cksum big
    ./big
}

errors_story() {
    # A compiler that stops halfway: diagnostics and status are part of what must not change.
    printf 'int f(void) { return undeclared + ; }\n#include "none.h"\n' >wrong.c
    gcc -c wrong.c 2>&1 || echo "gcc says $?"
    printf '#include <map>\nstd::map<int, int> m = "text"; int x = m.find(1, 2, 3);\n' >wrong.cpp
    g++ -c wrong.cpp >wrong.text 2>&1 || echo "g++ says $?"
    cksum wrong.text
}

perl_story() {
    local n=120000
    [ "$SCALE" = full ] || n=40000
    [ "$SCALE" != small ] || n=500
    # Hash order is random by design in perl; everything printed is sorted or summed.
    perl -w - "$n" <<'END'
use strict;
my $n = shift;
my $x = 42;
sub next_number { $x = ($x * 1103515245 + 12345) % 2147483648; return $x; }
my (@words, %count, %by_length);
for my $i (1 .. $n) {
    my $w = join '', map { chr(97 + next_number() % 26) } 1 .. 3 + next_number() % 12;
    push @words, $w;
    $count{$w}++;
    push @{ $by_length{length $w} }, $w;
}
my $sum = 0;
my $place = 0;
for my $w (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count) {
    $place++;
    $sum = ($sum * 31 + length($w) * $place) % 1000000007;
}
print "sorted $place words, sum $sum\n";
for my $l (sort { $a <=> $b } keys %by_length) {
    my @s = sort @{ $by_length{$l} };
    print "$l: ", scalar @s, " $s[0] $s[-1]\n";
}
my $text = join ' ', @words;
my %pairs;
$pairs{"$1$2"}++ while $text =~ /\b([a-m])\w*?([n-z])\b/g;
print "$_ $pairs{$_}\n" for (sort { $pairs{$b} <=> $pairs{$a} || $a cmp $b } keys %pairs)[0 .. 9];
(my $changed = $text) =~ s/([aeiou])(\w)/\U$2\E$1/g;
my $hash = 0;
$hash = ($hash * 33 + ord) % 4294967291 for split //, substr($changed, 0, 100000);
print "changed ", length $changed, " $hash\n";
my $grow = '';
$grow .= chr(33 + $_ % 90) x ($_ % 50) for 1 .. $n;
print "grew to ", length $grow, "\n";
my $made = 0;
for my $i (1 .. $n / 100) {
    my $f = eval "sub { my \$y = shift; return \$y * $i + length('x' x \$y) }" or die $@;
    $made = ($made + $f->($i)) % 1000003;
}
print "evaluated $made\n";
my @kids;
for my $k (1 .. 8) {
    pipe(my $r, my $w) or die;
    my $pid = fork // die;
    if (!$pid) {
        close $r;
        my %own = map { $_ => [ ($words[$_ * $k % @words]) x ($_ % 17) ] } 1 .. $n / 20;
        delete $own{$_} for grep { $_ % 3 } keys %own;
        %count = ();
        my $s = 0;
        $s += length join '', @$_ for values %own;
        print $w "kid $k: $s\n";
        close $w;
        exit $k;
    }
    close $w;
    push @kids, [ $pid, $r ];
}
for (@kids) {
    my ($pid, $r) = @$_;
    print readline $r;
    waitpid $pid, 0;
    print "status ", $? >> 8, "\n";
}
print "lines of a child program: ", scalar(my @l = `perl -e 'print "\$_\\n" for 1..1000'`), "\n";
exit 7 if $n < 0;
END
    perl -MData::Dumper -MStorable=dclone -e '
        $Data::Dumper::Sortkeys = 1;
        my $deep = [1]; $deep = [ $deep, { a => $deep } ] for 1 .. 12;
        my $copy = dclone($deep); my $s = Dumper($copy); print length($s), "\n";
        die "as asked\n"' || echo "perl says $?"
}

# PHP opens its extensions with RTLD_DEEPBIND: what they do with files, encodings and archives.
php_story() {
    local n=200000
    [ "$SCALE" != small ] || n=2000
    cat >story.php <<'END'
<?php
$n = (int)$argv[1];
$x = 42;
function next_number() { global $x; return $x = ($x * 1103515245 + 12345) % 2147483648; }
$words = [];
for ($i = 0; $i < $n; $i++) $words[] = str_repeat(chr(97 + next_number() % 26), 1 + next_number() % 200);
for ($i = 0; $i < $n; $i++) $words[next_number() % $n] .= "-$i";
sort($words);
echo md5(implode(",", $words)), " ", count(array_unique($words)), "\n";
preg_match_all('/([a-m]+)-(\d+)/', implode(" ", $words), $found);
echo count($found[1]), " ", md5(serialize($found[2])), "\n";
$json = json_encode($words);
echo strlen($json), " ", json_decode($json, true) === $words ? "same" : "other", "\n";
# Extensions: iconv, ctype, tokenizer, fileinfo, phar; each a library of its own.
echo iconv("UTF-8", "UTF-16LE", str_repeat("\u{e9}x", 1000)) === str_repeat("\xe9\0x\0", 1000) ? "iconv\n" : "no\n";
echo count(array_filter($words, 'ctype_alpha')), "\n";
echo count(token_get_all(file_get_contents(__FILE__))), "\n";
echo (new finfo(FILEINFO_MIME_TYPE))->file(__FILE__), "\n";
$tar = new PharData("a.tar");
for ($i = 0; $i < 200; $i++) $tar->addFromString("f$i", $words[$i]);
unset($tar);
$sum = 0;
foreach (new PharData("a.tar") as $f) $sum += strlen(file_get_contents($f->getPathname()));
echo "archive $sum\n";
END
    php -d memory_limit=-1 story.php "$n"
    rm -f a.tar
}

# The database has 10 MB (in the nightly script 100); the files of the two runs are equal byte for byte.
sqlite_story() {
    local rows=400000
    [ "$SCALE" = full ] || rows=40000
    [ "$SCALE" != small ] || rows=500
    sqlite3 -batch data.db <<END
PRAGMA journal_mode=OFF;
PRAGMA synchronous=OFF;
PRAGMA cache_size=-$((rows / 6));
PRAGMA threads=2;
CREATE TABLE item(id INTEGER PRIMARY KEY, number INTEGER, name TEXT, body TEXT);
CREATE TABLE tag(item INTEGER, word TEXT);
BEGIN;
WITH RECURSIVE r(i, x) AS (SELECT 1, 12345 UNION ALL
    SELECT i + 1, (x * 1103515245 + 12345) % 2147483648 FROM r WHERE i < $rows)
INSERT INTO item SELECT i, x, printf('name %08x of %d', x, i), hex(zeroblob(x % 61)) || x || hex(zeroblob(30 + i % 20)) FROM r;
INSERT INTO tag SELECT id, 'word' || (number % 1009) FROM item;
INSERT INTO tag SELECT id, substr(name, 6, 3) FROM item WHERE id % 2;
COMMIT;
CREATE INDEX by_number ON item(number);
CREATE INDEX by_name ON item(name, number);
CREATE INDEX by_word ON tag(word, item);
ANALYZE;
SELECT count(*), sum(number), sum(length(body)) FROM item;
SELECT word, count(*), sum(number) FROM tag JOIN item ON item.id = tag.item GROUP BY word ORDER BY 2 DESC, 1 LIMIT 20;
SELECT id, row_number() OVER (ORDER BY body, id) AS n FROM item ORDER BY n LIMIT 10 OFFSET $((rows / 2));
SELECT group_concat(name, ',') FROM (SELECT name FROM item WHERE number BETWEEN 1000000 AND 9000000 ORDER BY name);
SELECT count(*) FROM item a JOIN item b ON a.number % 100003 = b.id AND a.body < b.body;
SELECT json_group_array(json_object('id', id, 'name', name)) FROM item WHERE id % 997 = 0;
UPDATE item SET body = upper(body) || name WHERE id % 7 = 0;
DELETE FROM item WHERE id % 11 = 0;
PRAGMA integrity_check;
VACUUM;
PRAGMA integrity_check;
SELECT count(*), total(length(body)) FROM item;
PRAGMA page_count;
END
    sqlite3 data.db 'SELECT nosuch FROM item' || echo "sqlite3 says $?"
    cksum data.db # its size is part of the line
    sqlite3 data.db .dump | cksum
}

# Worker threads, Buffers, JSON, zlib, crypto and streams.
node_story() {
    node "$SCRIPT" "$SCALE"
    node -e 'process.on("exit", c => console.log("exit", c)); setImmediate(() => { throw new Error("as asked"); })' 2>/dev/null ||
        echo "node says $?"
    # npm-like start-up: many small programs one after the other.
    for i in 1 2 3; do node -p "Buffer.alloc($i * 100000, 'ab').toString('base64').length"; done
}

# Pipelines that fork and exec hundreds of times, in parallel and in the background.
forks_story() {
    local n=300 jobs=24 i
    [ "$SCALE" = full ] || n=60 jobs=12
    [ "$SCALE" != small ] || n=6
    mkdir tree
    for ((i = 0; i < n; i++)); do
        mkdir -p "tree/$((i % 13))/$((i % 7))"
        printf 'file %d\n%s\n' "$i" "$(seq 1 $((i % 50)))" >"tree/$((i % 13))/$((i % 7))/f$i"
    done
    # Many short programs at once.
    find tree -type f -print0 | xargs -0 -P 4 -n 3 cksum | sort | cksum
    find tree -type f -print0 | xargs -0 -P 4 -I{} sh -c 'sed s/file/FILE/ "$1" | sort -r | gzip -n | gzip -dc | tail -n 1 | cut -c1-20' _ {} | sort | cksum
    find tree -type f -exec grep -l 'file 1' {} + | sort | cksum
    find tree -name 'f*' -exec sh -c 'for f; do echo "${f##*/} $(wc -l <"$f")"; done' _ {} + | sort -k1.2n | cksum
    # Background jobs of one shell, each a fork that goes on allocating without exec.
    local -a pids=()
    for ((i = 0; i < jobs; i++)); do
        (
            text=""
            for ((k = 0; k < 300; k++)); do text+="$i.$k "; done
            # shellcheck disable=SC2086 # words are the point
        set -- $text
            echo "$i: $# words, last ${!#}" >"job.$i"
            exit $((i % 5))
        ) &
        pids+=("$!")
    done
    for i in "${!pids[@]}"; do
        rc=0
        wait "${pids[i]}" || rc=$?
        echo "$rc $(cat "job.$i")"
    done
    # A pipe of forks of forks, and a coprocess.
    deep() { if [ "$1" -gt 0 ]; then (echo "$1"; deep $(($1 - 1))) | cat; else echo end; fi; }
    deep 12 | tr '\n' ' '
    echo
    coproc { while read -r line; do echo "<$line>"; done; }
    for ((i = 0; i < 20; i++)); do
        echo "say $i" >&"${COPROC[1]}"
        read -r answer <&"${COPROC[0]}"
        echo "$answer"
    done >answers # no pipe: a subshell does not have the coprocess's descriptors
    cksum answers
    eval "exec ${COPROC[1]}>&-" # the coprocess ends at its end of input
    wait
    # sort starts threads while its shell forks on.
    for i in 1 2 3 4; do
        find tree -type f | sort | xargs cat | sort --parallel=4 -S 1M -k1,1r | cksum &
    done | sort
}

# A copy, so that an edit while the test runs cannot make the two runs differ.
copy_sources() {
    export SOURCES=$work/sources
    mkdir "$SOURCES"
    (cd "$test_source/../.." && cp -r include alloc pagemap profiler bench "$SOURCES")
}

# The library can speak for itself, too: statistics on stderr at the end, standard output untouched.
# (Only numalloc; the test may be tried on other allocators.)
statistics() {
    nm -D --defined-only "$lib" 2>/dev/null | has -w numalloc_version || return 0
    seq 1 20000 >"$work/numbers"
    NUMALLOC_STATS=1 LD_PRELOAD="$lib" sort -r "$work/numbers" >"$work/sorted" 2>"$work/stats"
    sort -r "$work/numbers" | cmp - "$work/sorted" || fail "sort prints otherwise with NUMALLOC_STATS=1"
    [ -s "$work/stats" ] || fail "NUMALLOC_STATS=1 prints nothing on stderr"
    say "NUMALLOC_STATS=1: $(wc -l <"$work/stats") lines on stderr"
}

# NAME | PROGRAM PACKAGE... | STORY..., the last one proved | PROGRAM..., whose malloc it is
table='
bash_coreutils | sort coreutils awk mawk | shell utilities | bash sort wc tac od factor split join shuf fmt ptx cp ls du csplit sha256sum dd tsort
git | git git | git | git
compilers | gcc gcc g++ g++ as binutils objdump binutils | c errors cxx | g++ cc1plus as ld big
perl | perl perl | perl | perl
php | php php | php | php
sqlite | sqlite3 sqlite3 | sqlite | sqlite3
node | node nodejs | node | node
forks | xargs findutils find findutils sort coreutils grep grep sed sed gzip gzip | forks | bash find xargs cksum sed sort gzip grep cut tail'

IFS='|' read -r _ needs stories proven < <(grep "^$2 |" <<<"$table") || fail "no program '$2' in the table"
# shellcheck disable=SC2086 # lists
need $needs
case $2 in
compilers) copy_sources ;;
node) export SCRIPT=$test_source/node_load.js ;;
esac
for story in $stories; do both "$story" "${story}_story"; done
# shellcheck disable=SC2086 # a list
proved "$story" "${story}_story" $proven
if [ "$2" = bash_coreutils ]; then statistics; fi
