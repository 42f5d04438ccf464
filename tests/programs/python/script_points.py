"""Notes what the interpreter itself says of its stacks, at points taken at random.

usage: script_points.py OUT POINTS SEED. At each point a bytearray of a size of its own is made, and
sys._current_frames() and faulthandler are asked where the thread is. A point is the innermost of
calls of every kind, nested at random, in three threads; or a signal's handler, wherever the main
thread was; or lies in an import. OUT has a list of [bytes, by sys, by faulthandler], stacks
innermost first: [function, file, line]; line 0: the instruction has none. A last function
"<invalid frame>": faulthandler knew no further."""
import asyncio
import bisect
import contextlib
import ctypes
import faulthandler
import functools
import gc
import io
import itertools
import json
import os
import random
import re
import signal
import sys
import tempfile
import threading
import types
import weakref

out, wanted, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
FIRST, STEP = 100001, 2  # odd, as the tables of the interpreter are not
MORE = 33 if sys.version_info >= (3, 15) else 1  # what a bytearray allocates more than its size
numbers, notes = itertools.count(), []
kept = []
files = [tempfile.TemporaryFile() for _ in range(3)]
place = threading.local()


def point():
    size = FIRST + STEP * next(numbers)
    block = bytearray(size)
    frame = sys._current_frames()[threading.get_ident()]
    stack = []
    while frame is not None:
        code = frame.f_code
        stack.append([getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno or 0])
        frame = frame.f_back
    stack[0][2] = POINT_LINE
    other = None
    file = getattr(place, "file", None)
    if file is not None and size % 4 == 1:
        file.seek(0)
        file.truncate()
        faulthandler.dump_traceback(file, all_threads=False)
        file.seek(0)
        said = file.read().decode()
        other = re.findall(r'^  File "(.*)", line (\d+|\?+) in (.*)$', said, re.M)
        other = [[name, path, int(line.replace("?", "0"))] for path, line, name in other]
        if "  <invalid frame>" in said: other.append(["<invalid frame>", "", 0])
        other[0][2] = POINT_LINE
    notes.append([size + MORE, stack, other])
    return block


POINT_LINE = point.__code__.co_firstlineno + 2


class Thing:
    """Calls by way of the interpreter's own: slots, descriptors, the end of an object."""

    def __init__(self, next_step):
        self.next_step = next_step

    def __del__(self):
        if self.next_step is not None: self.next_step()

    def __getattr__(self, name):
        self.next_step()
        return name

    def __eq__(self, other):
        self.next_step()
        return True

    def __hash__(self):
        return 7

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.next_step()
        return True

    def __iter__(self):
        return self

    def __next__(self):
        self.next_step()
        raise StopIteration

    @property
    def value(self):
        return self.next_step()

    @classmethod
    def made(cls, next_step):
        return next_step()


def quiet(thing):
    thing.next_step = None


def by_sorted(then): sorted([3, 1, 2], key=lambda n: then() and n if n == 1 else n)
def by_map(then): list(map(lambda f: f(), [then, int]))
def by_reduce(then): functools.reduce(lambda a, b: then(), [1, 2])
def by_re(then): re.sub("b", lambda m: then() and "c" or "d", "abc")
def by_json(then): json.loads('{"a": {"b": 1}}', object_hook=lambda o: then() if "b" in o else o)
def by_dict(then):
    a, b = Thing(then), Thing(then)
    {a: 1}.get(b)
    quiet(a), quiet(b)
def by_del(then):
    thing = Thing(then)
    del thing
def by_gc(then):
    thing = Thing(then)
    thing.self = thing
    del thing
    if threading.current_thread() is threading.main_thread(): gc.collect(0)
def by_attribute(then):
    thing = Thing(then)
    thing.nothing
    quiet(thing)
def by_property(then):
    thing = Thing(then)
    thing.value
    quiet(thing)
def by_class_method(then): Thing.made(then)
def by_with(then):
    with Thing(then) as thing:
        kept and None
        raise ValueError(
            "of two lines")
    quiet(thing)
def by_iterator(then):
    for _ in Thing(then): pass
def by_weakref(then):
    def gone(_):
        then()
    thing = Thing(None)
    ref = weakref.ref(thing, gone)
    del thing
def by_generator(then):
    def inner():
        x = yield 1
        then()
        yield x
    def outer():
        yield from inner()
    it = outer()
    next(it)
    it.send(2)
    it.close()
def by_throw(then):
    def caught():
        while True:
            try:
                yield
            except KeyError:
                then()
    it = caught()
    next(it)
    it.throw(KeyError("x"))
def by_close(then):
    def closed():
        try:
            yield
        finally:
            then()
    it = closed()
    next(it)
    del it
def by_expression(then): return sum(1 for f in [then] for _ in [f()])
def by_list(then): return [f() for f in [then]]
def by_context(then):
    @contextlib.contextmanager
    def held():
        yield
        then()
    with held(): pass
def by_coroutine(then):
    @types.coroutine
    def pause():
        yield
    async def inner():
        await pause()
        then()
    async def outer():
        return await inner()
    it = outer()
    it.send(None)
    with contextlib.suppress(StopIteration): it.send(None)
def by_asyncio(then):
    if threading.current_thread() is not threading.main_thread() or asyncio._get_running_loop():
        return then()
    async def agen(n):
        for i in range(n):
            await asyncio.sleep(0)
            yield i
    async def one(n):
        async for i in agen(n):
            if i == n - 1: then() if n == 2 else point()
    async def all_of_them():
        await asyncio.gather(one(1), one(2), asyncio.wait_for(one(1), 5))
    asyncio.run(all_of_them())
def by_ctypes(then):
    if not QSORT: return then()
    numbers = (ctypes.c_int * 2)(2, 1)
    def compare(a, b):
        then()
        return a[0] - b[0]
    QSORT[0](numbers, 2, 4, QSORT[1](compare))
def by_exec(then): exec("\n\ndef made():\n    then()\nmade()", {"then": then})
def by_same_name(then):
    # The code dies with the call: its address is soon another's, of other lines.
    lines = random.randrange(9)
    exec(compile("\n" * lines + "def again():\n    then()\n    return 1\nagain()", "<again>", "exec"),
         {"then": then})
def by_bisect(then): bisect.bisect_left([1], 1) or max([1, 2], key=lambda n: then() and n or n)
def by_partial(then): functools.partial(lambda f, n: f(), then)(1)
def by_cache(then):
    @functools.lru_cache(None)
    def once(f):
        return f()
    once(then)
def by_recursion(then, n=None):
    n = random.randrange(60) if n is None else n
    return then() if n == 0 else by_recursion(then, n - 1)
def by_class_body(then):
    class Made:
        then()
        value = 1
def by_finally(then):
    try:
        try: raise KeyError
        finally: then()
    except KeyError:
        return point()
def by_many_lines(then):
    return (
        functools
        .reduce(
            lambda a,
            b: (
                then()
            ),
            [1,
             2]))
def by_trace(then):
    calls = []
    def trace(frame, event, arg):
        if event == "call" and not calls and frame.f_code.co_name == "traced":
            calls.append(1)
            then()
    def traced():
        return 1
    old = sys.gettrace()
    sys.settrace(trace)
    try: traced()
    finally: sys.settrace(old)
def by_write(then):
    class Raw(io.RawIOBase):
        def writable(self): return True
        def write(self, data):
            then()
            return len(data)
    file = io.BufferedWriter(Raw())
    file.write(b"a")
    file.flush()


KINDS = [f for name, f in sorted(globals().items()) if name.startswith("by_")]
QSORT = None
with contextlib.suppress(Exception):
    two = ctypes.POINTER(ctypes.c_int)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, two, two)
    QSORT = ctypes.CDLL(None).qsort, kind
    QSORT[0].argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, kind]
    QSORT[0].restype = None


def nest(depth, rng):
    """Calls of so many kinds inside each other, with points between, and one innermost."""
    def then():
        if depth == 0: return point()
        if rng.random() < 0.1: kept.append(point())
        nest(depth - 1, rng)
        if rng.random() < 0.1: point()
        return True
    rng.choice(KINDS)(then)
    kept[:-20] = []


def thread(k, points):
    place.file = files[k]
    rng = random.Random(seed * 100 + k)
    for kind in KINDS if k == 0 else []: kind(point)
    while len(notes) < points: nest(rng.randrange(7), rng)


def busy():
    """What signals interrupt: Python and the interpreter's own, for as long as they come."""
    text = json.dumps([{"a%d" % i: [i, str(i), {"b": None}]} for i in range(30)])
    while True:
        for pattern in ("a+b", "(x|y)*z"):
            re.compile(pattern + str(random.randrange(1000))).search("aaab")
        sorted((str(n) for n in json.loads(text)), key=lambda s: (len(s), s))
        yield
        compile("def f(x):\n return [y for y in x if y]\n", "<f>", "exec")
        yield


def on_signal(*_):
    if place.__dict__.setdefault("inside", False): return
    place.inside = True
    point()
    place.inside = False


gc.disable()  # but where it is asked for: sys._current_frames holds a lock while it allocates
faulthandler.enable()
threads = [threading.Thread(target=thread, args=(k, wanted * 7 // 10)) for k in range(2)]
for t in threads: t.start()
thread(2, wanted * 7 // 10)
for t in threads: t.join()
with tempfile.TemporaryDirectory() as path:
    with open(os.path.join(path, "has_a_point.py"), "w") as file:
        file.write("import __main__\nclass Here:\n    here = __main__.point()\n")
    sys.path.insert(0, path)
    import has_a_point
signal.signal(signal.SIGALRM, on_signal)
for _ in busy():
    signal.setitimer(signal.ITIMER_REAL, random.random() * 0.0006 + 0.00002)
    if len(notes) >= wanted: break
signal.setitimer(signal.ITIMER_REAL, 0)
gc.collect()
del Thing.__del__  # what is left ends with the interpreter, after the notes
with open(out, "w") as file:
    json.dump(notes, file)
