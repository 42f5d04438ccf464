#!/bin/bash
# python_names.sh LIBRARY NUMALLOC_DUMP NUMALLOC_RUN - rows of Python code tell their files apart, frames
# of the import system stand aside, threads have the names that Python gave them, and numalloc-run says why
# another interpreter has no frames.
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
echo 'pass' >start.py

cat >threads.py <<'P'
import _thread, concurrent.futures, ctypes, threading
def work(): return [bytearray(1000) for _ in range(100)]
def native(): # prctl(PR_SET_NAME)
    ctypes.CDLL(None).prctl(15, b"by itself", 0, 0, 0); return work()
class Sub(threading.Thread):
    def __init__(self, name): self.more = 1; super().__init__(name=name)
    def run(self): work()
def one(thread): thread.start(); thread.join()
one(threading.Thread(target=work, name="worker"))
one(Sub("of a class"))
one(threading.Thread(target=work, name="größer-日本語"))
one(threading.Thread(target=native, name="named again"))
with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="pool") as pool: pool.submit(work).result()
done = _thread.allocate_lock(); done.acquire()
def bare(): work(); done.release()
_thread.start_new_thread(bare, ())
done.acquire()
P

# python_profile FILE PYTHON SCRIPT
python_profile() {
    NUMALLOC_PYTHON=1 NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=$1 PYTHONMALLOC=malloc PYTHONHASHSEED=0 \
        PYTHONDONTWRITEBYTECODE=1 LD_PRELOAD="$lib" "$2" "$3" || fail "$version: $3 fails"
}

# Of each function of the import system the line and how many blocks.
importlib_rows() {
    "$dump" functions --json --top 0 "$1" >rows.json
    "$python" - rows.json <<'P' | sort
import json, sys
for row in json.load(open(sys.argv[1]))["rows"]:
    if "importlib" in (row["file"] or ""): print(row["function"], row["line"], row["allocations"])
P
}

ran=0
for python in "${pythons[@]}"; do
    version=$(version_of "$python") || continue
    rm -f p.nprof
    python_profile p.nprof "$python" names.py
    importlib_rows p.nprof >with
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

    # In the rows of functions, too: what is left has no other code outside, as in a program that imports nothing.
    rm -f p.nprof
    python_profile p.nprof "$python" start.py
    importlib_rows p.nprof >without
    [ -s without ] || fail "$version: the interpreter starts without the import system"
    cmp -s with without || fail "$version: frames of the import system have rows: $(diff without with)"

    rm -f p.nprof
    python_profile p.nprof "$python" threads.py
    "$dump" threads --json p.nprof >threads.json
    "$python" - "$version" threads.json <<'P' || fail "$version: threads' names: $(cat threads.json)"
import json, sys
names = {row["name"] for row in json.load(open(sys.argv[2]))["rows"]}
wanted = {"worker", "of a class", "größer-日本", "by itself", "pool_0"}
known = tuple(map(int, sys.argv[1].split("."))) >= (3, 11)
sys.exit(not ((wanted < names and "named again" not in names) if known else not wanted & (names - {"by itself"})))
P
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
