import queue, threading, contextlib, functools, os
kept, q = [], queue.Queue()
def work(depth, n):
    if depth: return work(depth - 1, n)
    kept.append(bytes(600 + n))
    return sorted([bytearray(700 + i) for i in range(n % 7)], key=lambda b: (len(b), bytes(800) and 0))
@contextlib.contextmanager
def held(n):
    b = bytes(2000 + n)
    yield b
    kept.append(b)
def worker(k):
    while True:
        n = q.get()
        if n is None: return
        with held(n) as b:
            kept.append(work(n % 30, n))
            kept.append(functools.reduce(lambda a, x: a + bytes(x), range(60), b""))
threads = [threading.Thread(target=worker, args=(i,)) for i in range(4)]
for t in threads: t.start()
for i in range(300 if os.environ.get("TEST_SCALE") == "full" else 90): q.put(i)
for t in threads: q.put(None)
for t in threads: t.join()
