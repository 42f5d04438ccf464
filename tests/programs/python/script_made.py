# script_made.py COUNT - code that is made again and again: functions of no file, each another, that
# allocate blocks of 5000 bytes. Beyond a bound they are one.
import sys

for i in range(int(sys.argv[1])):
    made = {}
    exec("def made_%d(): return bytearray(5000)\nmade_%d()\n" % (i, i), made)


def kept():
    return [bytearray(7000) for _ in range(100)]


last = kept()
