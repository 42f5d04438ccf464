"""Runs a script with tracemalloc on, and leaves what it knows at the end in a file.

usage: under_tracemalloc.py OUT FRAMES SCRIPT. The moment is marked in the profile by a block of
1234567 bytes (and the header of a bytes object): the events up to it are what is compared."""
import gc
import marshal
import sys
import tracemalloc

out, frames, script = sys.argv[1], int(sys.argv[2]), sys.argv[3]
source = compile(open(script).read(), script, "exec")
gc.disable()
tracemalloc.start(frames)
space = {"__name__": "__main__", "__file__": script}
exec(source, space)
mark = bytes(1234567)
traces = tracemalloc._get_traces()
tracemalloc.stop()
with open(out, "wb") as f:
    marshal.dump(traces, f)
