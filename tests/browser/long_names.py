#!/usr/bin/env python3
"""long_names.py FILE - writes a C program with many functions whose names are long and cannot be
packed, each of which allocates: what a page that tells them all apart could not hold in 10 MB. C++
programs with many templates are a little like this."""
import random
import sys

FUNCTIONS, LENGTH = 2500, 6000
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"


def main():
    random.seed(7)
    with open(sys.argv[1], "w", encoding="ascii") as out:
        print("#include <stdlib.h>\nstatic void *kept[%d];" % FUNCTIONS, file=out)
        for i in range(FUNCTIONS):
            name = "f" + "".join(random.choices(LETTERS, k=LENGTH))
            print('void f%d(void) __asm__("%s");' % (i, name), file=out)
            print("void f%d(void) { kept[%d] = malloc(%d); }" % (i, i, 100 + i), file=out)
        calls = " ".join("f%d();" % i for i in range(FUNCTIONS))
        print("int main(void) { %s return kept[0] == NULL; }" % calls, file=out)


main()
