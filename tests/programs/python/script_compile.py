import ast, importlib, pickle, tokenize, io, os
import argparse, difflib, email.message, xml.etree.ElementTree as et
source = open(argparse.__file__).read()
trees = [ast.parse(source) for _ in range(2)]
codes = [compile(t, "again%d" % i, "exec") for i, t in enumerate(trees)]
tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
class V(ast.NodeVisitor):
    def __init__(self): self.names = []
    def generic_visit(self, node):
        self.names.append(type(node).__name__ * 40)
        super().generic_visit(node)
v = V(); v.visit(trees[0])
blob = pickle.dumps([str(t) for t in tokens])
root = et.fromstring("<a>" + "<b x='1'>text</b>" * 500 + "</a>")
spaces = []
for c in codes:
    space = {"__name__": "again"}
    exec(c, space)
    spaces.append(space)
