#!/usr/bin/env bash
# gdb_heap.sh LIBNUMALLOC.SO NUMALLOC-GDB.PY PROGRAM - gdb's commands for the heap, in a process that
# stopped, in its core file, and of a program without symbols: what is live, what is free, what points
# where, and what is damaged.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need gdb gdb strip binutils
script=$(readlink -f "$2") program=$(readlink -f "$3")
cd "$work"
objdump -h "$lib" | has debug_info || skip "the library has no debug information"

# ask OUT PROGRAM [CORE] -- COMMAND...: gdb's output. Without a core file it runs the program.
ask() {
    local out=$1 commands=() about=()
    shift
    while [ "$1" != -- ]; do about+=("$1"); shift; done
    shift
    [ ${#about[@]} = 2 ] || commands=(-ex "set env LD_PRELOAD=$lib" -ex 'set startup-with-shell off' -ex run)
    for command in "source $script" "$@"; do commands+=(-ex "$command"); done
    gdb -q -nx -batch -ex 'set debuginfod enabled off' "${commands[@]}" "${about[@]}" >"$out" 2>&1 </dev/null || true
}
says() { has -E -- "$2" <"$1" || fail "$1: no '$2': $(cat "$1")"; }

all=('heap block keep' 'heap block keep + 99' 'heap block blocks[0]' 'heap block blocks[99]' 'heap block large + 5'
    'heap block &keep' 'heap find keep' 'heap top' 'heap check')
whole() {
    says "$1" '0 bytes into a block of class [0-9]+ of 112 bytes'
    says "$1" '99 bytes into a block of class [0-9]+ of 112 bytes'
    [ "$(grep -c '^  free: thread cache' "$1")" = 1 ] || fail "$1: blocks[0] is not free: $(cat "$1")"
    [ "$(grep -c '^  live' "$1")" = 4 ] || fail "$1: not four are live: $(cat "$1")"
    says "$1" '5 bytes into a large block of 1048576 bytes'
    says "$1" 'is in no block of numalloc'
    says "$1" '\(\+0\)  keep$'
    says "$1" '\(\+5\)  24 bytes into a live block of 32 bytes'
    says "$1" '\(\+7\)  stack of thread 2'
    says "$1" ' 60  48$'
    says "$1" '^no faults in '
}

ask process "$program" -- "${all[@]}" "generate-core-file $work/heap.core"
whole process
ask core "$program" heap.core -- "${all[@]}"
whole core

# ---- A program without symbols: by addresses.
strip -o stripped "$program"
ask addresses "$program" heap.core -- 'p keep' 'p blocks[0]'
keep=$(sed -n 's/^\$1 = \(0x[0-9a-f]*\).*/\1/p' addresses)
ask nameless stripped heap.core -- "heap block $keep" "heap find $keep" 'heap check'
says nameless '0 bytes into a block of class [0-9]+ of 112 bytes'
says nameless '\(\+5\)  24 bytes into a live block of 32 bytes'

# ---- A freed block that was written to.
gdb -q -nx -batch -ex "set env LD_PRELOAD=$lib" -ex 'set startup-with-shell off' -ex 'run damaged' -ex "source $script" \
    -ex 'heap check' "$program" >damaged 2>&1 </dev/null || true
says damaged 'was written to after it was freed'
says damaged '^1 fault in '

# ---- Where it cannot know.
says <(gdb -q -nx -batch -ex 'set env NUMALLOC_HARDEN=1' -ex "set env LD_PRELOAD=$lib" -ex 'set startup-with-shell off' \
    -ex run -ex "source $script" -ex 'heap check' "$program" 2>&1 </dev/null) 'NUMALLOC_HARDEN signs the lists'
says <(gdb -q -nx -batch -ex 'set startup-with-shell off' -ex run -ex "source $script" -ex 'heap top' "$program" 2>&1 </dev/null) \
    'is libnumalloc.so loaded'
say "a heap is looked at in a process, in a core file, and without symbols"
