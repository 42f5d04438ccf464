#!/bin/bash
# python_names.sh LIBRARY NUMALLOC_DUMP NUMALLOC_RUN - rows of Python code tell their files apart, frames
# of the import system stand aside, and numalloc-run says why another interpreter has no frames.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
. "$(dirname "$0")/python_lib.sh"
run=$(readlink -f "$3")
cd "$work"

# Two packages whose files have one name, in folders of one name, and a module that has its own.
mkdir -p one/deep two/deep
touch one/__init__.py two/__init__.py
echo 'kept = [bytearray(20000) for _ in range(50)]' | tee one/deep/__init__.py two/deep/__init__.py >alone.py
echo 'import one.deep, two.deep, alone' >names.py

ran=0
for python in "${pythons[@]}"; do
    version=$(version_of "$python") || continue
    rm -f p.nprof
    NUMALLOC_PYTHON=1 NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=p.nprof PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1 \
        LD_PRELOAD="$lib" "$python" names.py || fail "$version: the program fails"
    "$dump" functions p.nprof >rows
    for row in one/deep/__init__.py:1 two/deep/__init__.py:1 alone.py:1; do
        has " $row" rows || fail "$version: no row for $row: $(head -n 8 rows)"
    done
    if has '[a-z]/alone.py' rows; then fail "$version: a name that is alone is told by more"; fi

    "$dump" sites p.nprof --top 3 --stacks >stacks
    if has 'importlib' stacks; then fail "$version: frames of the import system are shown: $(cat stacks)"; fi
    [ "$(grep -c '| <module>.*/names.py:1' stacks)" = 3 ] || fail "$version: the line that imports is missing: $(cat stacks)"
    "$dump" sites p.nprof --top 3 --stacks --python --native >stacks
    has '_find_and_load .*importlib' stacks || fail "$version: they are not among all frames"
    ran=$((ran + 1))
done

# Programs that are no CPython.
echo 'int main(void) { return __builtin_malloc(10) == 0; }' >other.c
gcc -O0 other.c -o pypy3
cp pypy3 other
"$run" --profile --python -o pypy.nprof ./pypy3 2>said || fail "pypy3 fails"
has 'Python .*PyPy: only CPython.s frames are read' said || fail "PyPy: $(cat said)"
"$run" --profile --python -o other.nprof ./other 2>said || fail "other fails"
has 'Python .*no CPython ran' said || fail "other: $(cat said)"
"$run" --profile -o other.nprof ./other 2>said || fail "other fails"
if has Python said; then fail "nobody asked for Python: $(cat said)"; fi

[ $ran != 0 ] || skip "no $python_known in ${pythons[*]}"
