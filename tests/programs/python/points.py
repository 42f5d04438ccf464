"""Points at which a block is made and noted, innermost in calls of some kinds nested at random: what
script_interpreters.py and script_greenlets.py share. A note is script_points.py's, without
faulthandler: [bytes, [[function, file, line], ...], None], innermost first."""
import sys
import threading

FIRST, STEP, A_RUN = 100001, 2, 4000  # runs have sizes of their own
MORE = 33 if sys.version_info >= (3, 15) else 1  # what a bytearray allocates more than its size
MALLOC = FREE = None
try:
    import ctypes
    LIBC = ctypes.CDLL(None)
    MALLOC, FREE = LIBC.malloc, LIBC.free
    MALLOC.argtypes, MALLOC.restype, FREE.argtypes = [ctypes.c_size_t], ctypes.c_void_p, [ctypes.c_void_p]
except ImportError:
    pass  # not for every interpreter


def point(points):
    size = points.next
    points.next += STEP
    if points.without_gil and points.draw(4) == 0:
        at = MALLOC(size); line = sys._getframe().f_lineno
        FREE(at)
    else:
        block = bytearray(size); line = sys._getframe().f_lineno
        size += MORE
    frame, stack = sys._getframe(), []
    while frame is not None:
        code = frame.f_code
        stack.append([getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno or 0])
        frame = frame.f_back
    stack[0][2] = line
    points.notes.append([size, stack, None])


class Points:
    """One thread's, of one interpreter."""

    def __init__(self, run, seed, without_gil):
        self.next, self.state, self.notes = FIRST + run * A_RUN * STEP, seed * 7919 + run, []
        self.without_gil = without_gil and MALLOC is not None

    def draw(self, n):
        self.state = (self.state * 1103515245 + 12345) % (1 << 31)
        return self.state // 65536 % n

    def nest(self, depth):
        def then():
            if depth == 0: return point(self)
            self.nest(depth - 1)
            if self.draw(5) == 0: point(self)
        KINDS[self.draw(len(KINDS))](then)


class Thing:
    def __init__(self, then): self.then = then
    def __del__(self): self.then()


def by_call(then): then()
def by_sorted(then): sorted([2, 1], key=lambda n: then() and n or n if n == 1 else n)
def by_map(then): list(map(lambda f: f(), [then]))
def by_list(then): return [f() for f in [then]]
def by_del(then):
    thing = Thing(then)
    del thing
def by_end(then):
    thing = Thing(then)  # ends with this frame
def by_generator(then):
    def inner():
        yield 1
        then()
        yield 2
    def outer(): yield from inner()
    for _ in outer(): pass
def by_exec(then): exec("\n\ndef made():\n    then()\nmade()", {"then": then})
def by_recursion(then, n=9): return then() if n == 0 else by_recursion(then, n - 1)
def by_class_body(then):
    class Made:
        then()
def by_thread(then):
    thread = threading.Thread(target=then)
    thread.start()
    thread.join()


KINDS = [f for name, f in sorted(globals().items()) if name.startswith("by_")]
