"""words.py - the index of words.c in Python: where each word of the files on standard input is."""
import re
import sys


def index(names):
    places = {}
    for name in names:
        with open(name, errors="replace") as file:
            for number, line in enumerate(file, 1):
                for word in re.findall(r"\w+", line):
                    places.setdefault(word, []).append((name, number))
    return places


def main():
    places = index(sys.stdin.read().split())
    print(len(places), "words in", sum(map(len, places.values())), "places")


main()
