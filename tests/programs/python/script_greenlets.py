"""Notes what the interpreter says of its stacks, at points in greenlets that switch to each other at
random, below calls of some kinds; in two threads.

usage: script_greenlets.py OUT POINTS SEED. OUT is as script_points.py's, without faulthandler."""
import json
import sys
import threading

import greenlet
import points


def by_switch(then):
    """Somebody else goes on, and comes back here at some time."""
    greenlet.getcurrent().parent.switch()
    then()


points.KINDS.remove(points.by_thread)  # a greenlet stays in its thread
points.KINDS += [by_switch] * 3


def thread(here, wanted):
    def body():
        while len(here.notes) < wanted: here.nest(here.draw(7))
    alive = [greenlet.greenlet(body) for _ in range(6)]
    while alive:
        one = alive[here.draw(len(alive))]
        one.switch()
        if one.dead: alive.remove(one)


def main():
    out, wanted, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    both = [points.Points(run, seed, True) for run in range(2)]
    other = threading.Thread(target=thread, args=(both[1], wanted // 2))
    other.start()
    thread(both[0], wanted // 2)
    other.join()
    with open(out, "w") as file: json.dump(both[0].notes + both[1].notes, file)


main()
