#!/usr/bin/python3
# nameless.py - run by Debian's Python, whose own functions have symbols only where they are exported.
import json

documents = [json.dumps({"line %d" % i: list(range(i % 400))}) for i in range(3000)]
print(sum(len(json.loads(document)) for document in documents))
