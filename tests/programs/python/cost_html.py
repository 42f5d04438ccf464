"""The cost of Python frames: objects of classes, callbacks and generators. A page is parsed to a tree
of objects, counted, sorted and written out. Argument: rows of the page."""
import collections
import html
import html.parser
import sys


class Node:
    def __init__(self, tag, attributes):
        self.tag, self.attributes, self.children = tag, dict(attributes), []

    def texts(self):
        for child in self.children:
            if isinstance(child, Node):
                yield from child.texts()
            else:
                yield child

    def __str__(self):
        inner = "".join(str(c) if isinstance(c, Node) else html.escape(c) for c in self.children)
        names = "".join(' %s="%s"' % (k, html.escape(v)) for k, v in self.attributes.items())
        return "<%s%s>%s</%s>" % (self.tag, names, inner, self.tag)


class Parser(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = [Node("root", [])]

    def handle_starttag(self, tag, attributes):
        node = Node(tag, attributes)
        self.open[-1].children.append(node)
        self.open.append(node)

    def handle_endtag(self, tag):
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)


rows = int(sys.argv[1])
page = "".join(
    '<tr class="c%d" id="r%d"><td>name %d &amp; <b>more %s</b></td><td>%d</td></tr>'
    % (i % 7, i, i, "x" * (i % 40), i * 13 % 101)
    for i in range(rows)
)
parser = Parser()
parser.feed("<table>" + page + "</table>")
root = parser.open[0]
words = collections.Counter(word for text in root.texts() for word in text.split())
best = sorted(words.items(), key=lambda pair: (-pair[1], pair[0]))
assert len(str(root)) > len(page) and len(best) > rows // 2
