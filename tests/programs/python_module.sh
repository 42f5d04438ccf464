#!/bin/bash
# python_module.sh LIBRARY NUMALLOC_DUMP NUMALLOC_RUN SOURCE - the module of Python: profiles of parts of a
# program, markers, dumps, names of threads; the plug-in of pytest; the cell magic; and without the library.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
. "$(dirname "$0")/python_lib.sh"
run=$(readlink -f "$3") source=$4
cd "$work"
export PYTHONPATH=$source/python NUMALLOC_DUMP=$dump PYTHONDONTWRITEBYTECODE=1

version=$(sed -n 's/^#define NUMALLOC_VERSION_[A-Z]* //p' "$source/include/numalloc/numalloc.h" | paste -sd.)
has "^version = \"$version\"" "$source/python/pyproject.toml" || fail "pyproject.toml is not of version $version"

# A wheel of it, made without the net, has the modules and tells pytest of the plug-in.
if /usr/bin/python3 -c 'import pip, setuptools, wheel' 2>/dev/null; then
    cp -r "$source/python" wheel
    /usr/bin/python3 -m pip wheel -q --no-build-isolation --no-deps -w . ./wheel >said 2>&1 || fail "no wheel: $(cat said)"
    /usr/bin/python3 -m zipfile -l "numalloc-$version-py3-none-any.whl" >said
    for part in numalloc/plugin.py numalloc/magic.py "numalloc-$version.dist-info/entry_points.txt"; do
        has "^$part " said || fail "the wheel lacks $part"
    done
fi

cat >part.py <<'SCRIPT'
import errno, threading
import numalloc

assert numalloc.available() and not numalloc.is_running()
before = bytearray(3000000)
with numalloc.profile("part.nprof") as part:
    assert numalloc.is_running()
    kept = [bytearray(10000) for _ in range(100)]
    numalloc.marker("between")
    thread = threading.Thread(target=lambda: bytearray(50000), name="loader")
    thread.start()
    thread.join()
    part.dump()
    try:
        numalloc.start("again.nprof")
    except OSError as error:
        assert error.errno == errno.EALREADY, error
    else:
        raise SystemExit("two profiles at one time")
after = bytearray(2000000)
assert not numalloc.is_running()
try:
    numalloc.stop()
except OSError as error:
    assert error.errno == errno.EALREADY, error
else:
    raise SystemExit("nothing to stop")
try:
    numalloc.start("bad.nprof", "site")
except ValueError:
    pass
else:
    raise SystemExit("no such mode")
with numalloc.profile("second.nprof", "trace"): pass
with numalloc.profile("watched.nprof", access="watch", profile_frees=True): pass
try:
    numalloc.start("bad.nprof", access="magic")
except OSError as error:
    assert error.errno == errno.EINVAL, error
else:
    raise SystemExit("no such source")
numalloc.marker("to nobody")
SCRIPT
cat >without.py <<'SCRIPT'
import numalloc
assert not numalloc.available() and not numalloc.is_running()
numalloc.marker("to nobody")
try:
    with numalloc.profile(): pass
except numalloc.Missing as error:
    assert "numalloc-run --python" in str(error)
else:
    raise SystemExit("a profile of nothing")
SCRIPT
cat >test_memory.py <<'SCRIPT'
import pytest
kept = []
def test_peak():
    assert sum(bytearray(30000000)) == 0
def test_left():
    kept.append(bytearray(400000))
@pytest.mark.numalloc(peak="1 MiB")
def test_over_peak():
    bytearray(2000000)
@pytest.mark.numalloc(left="100 KiB")
def test_over_left():
    kept.append(bytearray(300000))
@pytest.mark.numalloc(peak="10M", left=500000)
def test_within():
    bytearray(2000000)
def test_wrong():
    assert kept == 0
SCRIPT
cat >cell.py <<'SCRIPT'
import numalloc
class Shell:
    def register_magic_function(self, function, kind, name):
        assert (kind, name) == ("cell", "numalloc")
        self.magic = function
    def run_cell(self, text): exec(compile(text, "<cell>", "exec"), {})
shell = Shell()
numalloc.load_ipython_extension(shell)
shell.magic("", "kept = bytearray(5000000)")
SCRIPT

ran=0
for python in "${pythons[@]}"; do
    version=$(version_of "$python") || continue
    rm -f ./*.nprof*
    "$python" without.py || fail "$version: without the library"
    "$run" --python "$python" part.py >said 2>&1 || fail "$version: part.py: $(cat said)"
    "$dump" sites part.nprof --top 1 >rows || fail "$version: no profile of a part"
    has ' part.py:8' rows || fail "$version: the part is not in it: $(cat rows)"
    if "$dump" sites part.nprof --top 0 | has '\.py:\(6\|23\)$'; then fail "$version: more than the part is in it"; fi
    "$dump" markers part.nprof | has between || fail "$version: no marker"
    "$dump" threads part.nprof | has loader || fail "$version: the thread has no name: $("$dump" threads part.nprof)"
    [ -s part.nprof.1 ] || fail "$version: no dump: $(ls)"
    "$dump" run second.nprof | has 'trace' || fail "$version: no trace"

    "$run" --python "$python" cell.py >said 2>&1 || fail "$version: the magic: $(cat said)"
    has 'numalloc: peak [45]\.[0-9]* MiB' said || fail "$version: the magic says $(cat said)"

    if "$python" -c 'import pytest' 2>/dev/null; then
        if "$run" --python "$python" -m pytest -p numalloc.plugin -p no:cacheprovider --numalloc test_memory.py >said 2>&1; then
            fail "$version: tests beyond their limits pass"
        fi
        has '3 failed, 3 passed' said || fail "$version: $(cat said)"
        for test in over_peak over_left wrong; do
            has "FAILED test_memory.py::test_$test" said || fail "$version: $test passes: $(cat said)"
        done
        has '28\.[0-9]* MiB .* test_memory.py::test_peak' said || fail "$version: no peak: $(cat said)"
        has '[0-9] MiB *39[0-9]\.[0-9]* KiB .* test_memory.py::test_left\| 39[0-9].* test_memory.py::test_left' said ||
            fail "$version: nothing left: $(cat said)"
        has 'numalloc: peak of 1\.9.* MiB, and the limit is 1.00 MiB' said || fail "$version: no limit: $(cat said)"
        has 'test_over_peak  .*test_memory.py:9' said || fail "$version: no line of it: $(cat said)"
        "$run" --python "$python" -m pytest -p numalloc.plugin -p no:cacheprovider -q test_memory.py >said 2>&1 || true
        has '1 failed, 5 passed' said || fail "$version: limits hold without --numalloc: $(cat said)"
        "$python" -m pytest -p numalloc.plugin --numalloc test_memory.py >said 2>&1 && fail "$version: without the library"
        has 'run numalloc-run --python' said || fail "$version: $(cat said)"
        say "$version: with pytest"
    elif [ "$python" = /usr/bin/python3 ]; then
        skip "pytest is missing; install the package 'python3-pytest'"
    fi
    ran=$((ran + 1))
done
[ $ran != 0 ] || skip "no $python_known in ${pythons[*]}"
