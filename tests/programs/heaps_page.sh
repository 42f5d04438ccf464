#!/usr/bin/env bash
# heaps_page.sh LIBNUMALLOC.SO SOURCES - what docs/heaps.md shows compiles as it is printed and runs on
# this machine: C, and C++ also without exceptions and run-time type information.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
library=$1 source=$2
need gcc gcc g++ g++
cd "$work"

block() { # HEADING: the first indented block under it
    awk -v heading="$1" '$0 == heading { on = 1; next } on && /^    / { seen = 1; print substr($0, 5); next }
        seen && !/^$/ { exit } seen { print "" }' "$source/docs/heaps.md"
}
built=(-Wall -Wextra -I "$source/include" "$library" "-Wl,-rpath,$(dirname "$library")")

{
    printf '#include <err.h>\n#include <stdlib.h>\ntypedef struct { int value[8]; } node_t;\n'
    block '# Heaps of your own' | sed 's/^numalloc_heap_t \*heap/int main(void) { &/'
    printf 'return 0; }\n'
} >page.c
grep -q 'int main' page.c || fail "the first example of docs/heaps.md is another: $(cat page.c)"
gcc -std=c17 page.c "${built[@]}" -o page || fail "the C example does not compile"
./page || fail "the C example ends with status $?"

{
    printf '#include <memory_resource>\n#include <unordered_map>\n#include <vector>\n'
    block '## C++' | sed 's/^numalloc::heap heap/int main() { &/'
    printf 'numbers.push_back(1); index[1] = 2;\n'
    printf 'return numalloc_heap_of(numbers.data()) == heap.get() ? index[1] - 2 : 1; }\n'
} >page.cpp
grep -q 'int main' page.cpp || fail "the C++ example of docs/heaps.md is another: $(cat page.cpp)"
for options in "" "-fno-rtti" "-fno-exceptions" "-fno-rtti -fno-exceptions"; do
    # shellcheck disable=SC2086 # several options
    g++ -std=c++17 $options page.cpp "${built[@]}" -o page_cxx || fail "the C++ example does not compile ($options)"
    ./page_cxx || fail "the C++ example ends with status $? ($options)"
done
