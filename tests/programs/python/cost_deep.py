"""The cost of Python frames: recursion of 200 to 900 calls that allocates on its way in and out, so that
each event has another stack than the one before. Argument: times."""
import sys


def deeper(n):
    block = bytearray(n)
    if n: deeper(n - 1)
    return bytearray(n), block


sys.setrecursionlimit(2000)
for i in range(int(sys.argv[1])):
    for depth in range(200, 901, 100): deeper(depth)
