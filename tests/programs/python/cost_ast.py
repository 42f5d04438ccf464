"""The cost of Python frames: deep recursion. Trees of Python source are made, walked, changed and
written out. Argument: functions in the source."""
import ast
import sys

FUNCTION = """
def function_{0}(first, second=None, *rest, **named):
    '''Text {0}.'''
    if first > {0} and (second is None or len(rest) < {0} + 1):
        return [item * {0} + index for index, item in enumerate(rest) if item != first]
    for key, value in sorted(named.items(), key=lambda pair: pair[1]):
        first += value if isinstance(value, int) else len(str(value)) - {0} // (len(key) or 1)
    return {{"first": first, "second": (second, first - {0}), "rest": rest[::2]}}
"""


class Rename(ast.NodeTransformer):
    def visit_Name(self, node):
        return ast.copy_location(ast.Name(node.id + "_", node.ctx), node)

    def visit_Constant(self, node):
        return ast.copy_location(ast.Constant(node.value), node)


def changed(source):
    tree = Rename().visit(ast.parse(source))
    return ast.unparse(ast.fix_missing_locations(tree)), sum(1 for _ in ast.walk(tree))


for i in range(int(sys.argv[1])):
    changed(FUNCTION.format(i))
