"""Arrays of numpy: what makes memory (arrays, copies) and what makes none (views). With ARRAYS it
leaves in that file what each line made that owns its memory, and what a cache grew by between two copies of the
profile; then comes a block of 1234567 bytes, up to which events are compared."""
import ctypes
import json
import os
import sys

import numpy as np

lines = {}
kept = []


def keep(array):
    """The line that calls made this array; it counts for nothing if the array is a view."""
    line = sys._getframe(1).f_lineno
    lines[line] = lines.get(line, 0) + (array.nbytes if array.base is None else 0)
    kept.append(array)
    return array


def arrays():
    a = keep(np.ones((400, 500)))
    keep(np.zeros(70000, dtype=np.int16))
    keep(np.arange(30000.0))
    keep(np.full((3, 40000), 7, dtype=np.uint8))
    return a


def views(a):
    keep(a[::2])
    keep(a.T)
    keep(a[10:20, 1])
    keep(np.broadcast_to(a, (3, 400, 500)))


def copies(a):
    keep(a.copy())
    keep(a[a[:, 0] > 0])
    keep(a[[1, 2, 3] * 50])
    keep(a.astype(np.float32))
    keep(a + a)
    keep(np.concatenate([a, a]))
    keep(a.T.flatten())
    keep(np.sort(a[0:100], axis=1))


def passing(a):
    return float((a * 2 + 1).sum())


def load(i):
    return np.full(20000 + i, i, dtype=np.float64)


def grow(cache, n):
    for i in range(n):
        whole = load(i)
        cache.append(whole[:10])


def main():
    a = arrays()
    views(a)
    copies(a)
    for _ in range(5):
        passing(a)
    if "ARRAYS" not in os.environ:
        return
    dump = getattr(ctypes.CDLL(None), "numalloc_record_dump", lambda: None)
    cache = []
    grow(cache, 10)
    dump()
    grow(cache, 30)
    dump()
    kept.append(cache)
    grown = {"at": load.__code__.co_firstlineno + 1, "bytes": sum(8 * (20000 + i) for i in range(30))}
    json.dump({"lines": lines, "grown": grown}, open(os.environ["ARRAYS"], "w"))
    kept.append(bytes(1234567))


main()
