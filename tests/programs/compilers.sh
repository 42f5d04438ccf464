#!/bin/bash
# compilers.sh - gcc and g++ make the same object code with the library as without: on this
# project's own C sources and on a generated C++ file that leans on the standard library.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
need gcc gcc g++ g++ as binutils objdump binutils

# A copy, so that an edit while the test runs cannot make the two runs differ.
export SOURCES=$work/sources
mkdir "$SOURCES"
(cd "$test_source/../.." && cp -r include alloc pagemap profiler bench "$SOURCES")

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

both c c_story
both cxx cxx_story
both errors errors_story
proved cxx cxx_story g++ cc1plus as ld big
