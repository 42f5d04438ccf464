#!/usr/bin/python3
"""inputs.py - makes the inputs of the real programs (see compare.sh beside it) in a directory.

usage: inputs.py DIRECTORY [--small]

The same files on every machine and in every run: nothing here depends on time, on a random seed or
on the order of a set. --small makes inputs that the programs are through with in a moment. The one
document that is not made is valgrind's manual, as Debian's package installs it.
"""
import gzip
import json
import os
import sys

MANUAL = "/usr/share/doc/valgrind/valgrind_manual.pdf.gz"


class Random:
    """Equal on every version of Python: a 64-bit generator of its own (Knuth's MMIX constants)."""

    def __init__(self, seed):
        self.state = seed

    def below(self, limit):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self.state >> 33) % limit

    def pick(self, choices):
        return choices[self.below(len(choices))]


def vocabulary(count):
    """Words of 2 to 13 letters, more short ones than long ones."""
    random = Random(7)
    syllables = [a + b for a in "bdfghklmnprstvw" for b in "aeiou"] + ["st", "an", "er", "in", "qu"]
    return ["".join(random.pick(syllables) for _ in range(1 + random.below(3) + random.below(4)))
            for _ in range(count)]


def write(name, text):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)


def cxx(parts):
    """A C++ file as large projects have them: many headers, then templates of many types."""
    headers = """algorithm any array atomic bitset chrono complex condition_variable deque exception
        filesystem forward_list fstream functional future iomanip iostream iterator list locale map
        memory mutex numeric optional queue random ratio regex set shared_mutex sstream stack
        string string_view system_error thread tuple type_traits typeindex unordered_map
        unordered_set utility valarray variant vector""".split()
    out = ["#include <%s>" % header for header in headers]
    for i in range(parts):
        out.append("""
namespace part%(i)d {
struct Key { int a; std::string b; bool operator<(const Key &o) const { return std::tie(a, b) < std::tie(o.a, o.b); } };
struct Item { std::string name; std::vector<double> values; std::variant<int, std::string, std::vector<Key>> tag; };
struct Compare { bool operator()(const Item &x, const Item &y) const { return x.values.size() %% %(m)d < y.values.size() %% %(m)d; } };
using Index = std::map<Key, std::shared_ptr<Item>>;
using Names = std::unordered_map<std::string, std::vector<std::pair<Item, std::optional<Key>>>>;
double work(Index &index, Names &names, std::istream &in) {
    std::string line;
    std::vector<Item> items;
    std::set<Item, Compare> distinct;
    while (std::getline(in, line)) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos) continue;
        items.push_back({line.substr(0, colon), {std::stod(line.substr(colon + 1))}, int(items.size())});
        names[items.back().name].emplace_back(items.back(), Key{%(i)d, line});
        index.emplace(Key{int(index.size()), line}, std::make_shared<Item>(items.back()));
    }
    std::stable_sort(items.begin(), items.end(), Compare());
    distinct.insert(items.begin(), items.end());
    auto total = std::async(std::launch::deferred, [&] {
        return std::accumulate(items.begin(), items.end(), 0.0, [](double sum, const Item &item) {
            return sum + std::visit([&](const auto &tag) { return double(sizeof tag) + item.values.front(); }, item.tag);
        });
    });
    std::function<double(double)> more = [f = total.get(), n = names.size()](double x) { return x * f + double(n); };
    return more(double(distinct.size()) + std::transform_reduce(items.begin(), items.end(), 0.0, std::plus<>(),
        [](const Item &item) { return double(item.name.size()); }));
}
}""" % {"i": i, "m": 3 + i})
    write("large.cpp", "\n".join(out) + "\n")


def records(words, count):
    """Orders: what sqlite3 loads, and python3 and node parse."""
    random = Random(11)
    rows = []
    for i in range(count):
        rows.append({
            "id": i, "customer": random.below(count // 10 + 1), "name": random.pick(words) + " " + random.pick(words),
            "amount": random.below(1000000) / 100,
            "note": " ".join(random.pick(words) for _ in range(random.below(24))),
            "tags": [random.pick(words) for _ in range(random.below(6))],
        })
    with open("records.csv", "w", encoding="utf-8") as file:
        for row in rows:
            file.write("%(id)d,%(customer)d,%(name)s,%(amount).2f,%(note)s\n" % row)
    with open("records.json", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def statements():
    """A bulk load, indexes, and queries that sort, join, group and build long strings."""
    write("queries.sql", """PRAGMA temp_store=MEMORY;
PRAGMA cache_size=-65536;
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INTEGER, name TEXT, amount REAL, note TEXT);
.mode csv
.import records.csv orders
.mode list
CREATE TABLE word(order_id INTEGER, word TEXT);
INSERT INTO word WITH RECURSIVE part(id, word, rest) AS (
    SELECT id, NULL, note || ' ' FROM orders WHERE note <> '' UNION ALL
    SELECT id, substr(rest, 1, instr(rest, ' ') - 1), substr(rest, instr(rest, ' ') + 1) FROM part WHERE rest <> '')
    SELECT id, word FROM part WHERE word IS NOT NULL AND id % 2 = 0;
CREATE INDEX by_customer ON orders(customer, amount);
CREATE INDEX by_word ON word(word, order_id);
ANALYZE;
SELECT count(*), round(sum(amount), 2), sum(length(note)) FROM orders;
SELECT customer, count(*), round(sum(amount), 2) AS s FROM orders GROUP BY customer ORDER BY s DESC LIMIT 20;
SELECT word, count(*), round(avg(amount), 2) FROM word JOIN orders ON id = order_id GROUP BY word ORDER BY 2 DESC, 1 LIMIT 20;
SELECT id, row_number() OVER (PARTITION BY customer ORDER BY note, id) AS n FROM orders ORDER BY n, id LIMIT 10 OFFSET 5000;
SELECT length(group_concat(name, ',')) FROM (SELECT name FROM orders ORDER BY name, id);
SELECT length(json_group_array(json_object('id', id, 'name', name, 'note', note))) FROM orders WHERE id % 3 = 0;
UPDATE orders SET note = upper(note) || name WHERE id % 7 = 0;
DELETE FROM orders WHERE id % 11 = 0;
SELECT count(*), sum(length(note)) FROM orders;
PRAGMA integrity_check;
""")


def commands(words, keys):
    """What redis-cli --pipe sends: values of many sizes and kinds, then every second key deleted."""
    random = Random(13)

    def command(*parts):
        return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in (str(p).encode() for p in parts))

    text = " ".join(words) * 4
    with open("fill.resp", "wb") as file:
        for i in range(keys):
            start = random.below(2000)
            # Mostly small values, and some of a few KiB.
            size = 16 + random.below(240) + (random.below(3000) if random.below(8) == 0 else 0)
            if i % 20 == 3:
                file.write(command("HSET", "key:%d" % i, *(text[start + 9 * f:start + 9 * f + 4 + f % 5] for f in range(40))))
            elif i % 20 == 9:
                file.write(command("RPUSH", "key:%d" % i, *(text[start + 31 * f:start + 31 * f + 20] for f in range(30))))
            elif i % 20 == 14:
                file.write(command("ZADD", "key:%d" % i, *(v for f in range(160) for v in (f, text[start + 5 * f:start + 5 * f + 9]))))
            else:
                file.write(command("SET", "key:%d" % i, text[start:start + size]))
    with open("delete.resp", "wb") as file:
        for i in range(0, keys, 2):
            file.write(command("DEL", "key:%d" % i))
    write("keys", "%d\n" % keys)


def modules(words, count):
    """A tree of JavaScript modules, as a bundler reads them."""
    random = Random(17)
    os.makedirs("modules", exist_ok=True)
    for i in range(count):
        out = ["'use strict';"]
        out += ["const m%d = require('./module%d.js');" % (j, j) for j in sorted({random.below(i) for _ in range(4)} if i else ())]
        for f in range(24):
            a, b, c = (random.pick(words) for _ in range(3))
            out.append("""// %(a)s %(b)s
function %(a)s_%(f)d(%(b)s_a, options = {}) {
    const { limit = %(n)d, name = '%(c)s', seen = new Map() } = options;
    if (!Array.isArray(%(b)s_a)) throw new TypeError(`no array: ${typeof %(b)s_a}`);
    return %(b)s_a.filter(x => x && x.id < limit).map((x, i) => {
        seen.set(x.id, [i, name, ...(x.tags || [])]);
        return { ...x, total: (x.amount * 100 | 0) / 100, key: /^([a-z]+)[ _-](%(c)s)?/.exec(x.name), seen: seen.size };
    });
}
exports.%(a)s_%(f)d = %(a)s_%(f)d;""" % {"a": a, "b": b, "c": c, "f": f, "n": random.below(100000)})
        write("modules/module%d.js" % i, "\n".join(out) + "\n")


def manual():
    if os.path.exists(MANUAL):
        with gzip.open(MANUAL) as packed, open("manual.pdf", "wb") as file:
            file.write(packed.read())


def main():
    small = sys.argv[2:] == ["--small"]
    if len(sys.argv) < 2 or sys.argv[1].startswith("-") or (len(sys.argv) > 2 and not small):
        sys.exit("inputs.py: usage: inputs.py DIRECTORY [--small]")
    try:
        os.makedirs(sys.argv[1], exist_ok=True)
        os.chdir(sys.argv[1])
        words = vocabulary(4000)
        cxx(1)
        records(words, 2000 if small else 40000)
        statements()
        commands(words, 2000 if small else 60000)
        modules(words, 10 if small else 300)
        manual()
        write("size", "small\n" if small else "full\n")
    except OSError as error:
        sys.exit("inputs.py: cannot make the inputs in '%s': %s" % (sys.argv[1], error))


main()
