"""Notes what the interpreters of a process say of their own stacks, at points in each of them.

usage: script_interpreters.py OUT POINTS SEED. At each point a bytearray of a size of its own is made,
or a block of malloc's by a thread that has given up the GIL for that (by way of ctypes). Points are
in the main interpreter and in others, which three threads make, run and end at the same time: each
thread those that it made, those that another made, and one inside of another. From 3.12 on they have
a GIL of their own, or share one, in turns. OUT is as script_points.py's, without faulthandler."""
import json
import os
import sys
import threading

from points import A_RUN, Points

VERSION = sys.version_info[:2]
here = os.path.abspath(__file__)
if VERSION >= (3, 13):
    import _interpreters as interpreters
else:
    import _xxsubinterpreters as interpreters


def inside(out, run, points, seed, without_gil):
    """In any interpreter: so many points, then their notes."""
    here = Points(run, seed, without_gil)
    while len(here.notes) < points: here.nest(here.draw(6))
    with open(out, "w") as file: json.dump(here.notes, file)


def make(run):
    if VERSION < (3, 12): return interpreters.create(isolated=False)
    if VERSION == (3, 12): return interpreters.create(isolated=run % 2 == 0)
    return interpreters.create("isolated" if run % 2 == 0 else "legacy")


def execute(it, source):
    failed = interpreters.run_string(it, source)
    if failed is not None: raise RuntimeError(failed.formatted)


def runs(it, directory, run, points, seed):
    # A thread without the GIL is known by the interpreter that it began in, up to 3.11.
    execute(it, "import sys\nsys.path.insert(0, %r)\nimport %s as it\nit.inside(%r, %d, %d, %d, %r)" % (
        os.path.dirname(here), os.path.basename(here)[:-3], "%s/%d" % (directory, run), run, points, seed, VERSION >= (3, 12)))


def main():
    out, wanted, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    directory, failed = out + ".notes", []
    os.mkdir(directory)
    turns = 3
    a_run, lock, next_run = max(10, wanted // (3 * turns)), threading.Lock(), iter(range(1, 1000))
    made_by_main = [make(0) for _ in range(3)]

    def thread():
        try:
            for turn in range(turns):
                with lock: run = next(next_run)
                it = made_by_main.pop() if turn % 4 == 1 and made_by_main else make(run)
                runs(it, directory, run, a_run, seed)
                if turn == 2:  # one inside of another, which makes it
                    with lock: run = next(next_run)
                    execute(it, "other = it.make(%d)\nit.runs(other, %r, %d, %d, %d)\nit.interpreters.destroy(other)" % (
                        run, directory, run, a_run, seed))
                interpreters.destroy(it)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=thread) for _ in range(3)]
    for t in threads: t.start()
    # Meanwhile without the GIL, mostly, while states run that this thread made.
    mine = Points(0, seed, True)
    while any(t.is_alive() for t in threads) and len(mine.notes) < wanted: mine.nest(mine.draw(3))
    for t in threads: t.join()
    if failed: sys.exit(1)
    notes = mine.notes
    for name in os.listdir(directory):
        with open("%s/%s" % (directory, name)) as file: notes += json.load(file)
    with open(out, "w") as file: json.dump(notes, file)


if __name__ == "__main__": main()
