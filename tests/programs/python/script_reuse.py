# Code objects that die, and whose addresses others get.
import marshal, os, sys
kept, addresses, again = [], set(), 0
times = 400 if os.environ.get("TEST_SCALE") == "full" else 150
def note(code):
    global again
    for c in (code, *code.co_consts):
        if hasattr(c, "co_name"):
            again += id(c) in addresses
            addresses.add(id(c))
for i in range(times):
    source = "\n" * (i % 37) + "def f%d(k):\n    return bytes(600 + k)\nkept.append(f%d(%d))\n" % (i % 3, i % 3, i)
    code = compile(source, "made", "exec")
    note(code)
    exec(code, {"kept": kept})
    kept.append(eval("\n" * (i % 5) + "(lambda: bytearray(700 + %d))()" % i))
    del code
# Here all is alike but one thing, in the middle of it: a line in a table of equal size, which has a
# hash if it was compiled and none if it was read; a name; a file, whose name is ASCII, or as wide as Latin-1,
# or wider.
FILES = ["/made/%s/in/the/middle.py" % c for c in ("a", "b", "\u00e9", "\u00e8", "\u0142", "\u0141")]
def long(where, name):
    lines = ["def %s(k):" % name] + ["    k += 1"] * 12 + ["    return bytes(800 + k)", "kept.append(%s(1))" % name]
    lines.insert(2 + where, "")
    return "\n".join(lines)
read = {}
for where in range(8):
    for name in "fa", "fb":
        for file in FILES:
            read[where, name, file] = marshal.dumps(compile(long(where, name), file, "exec"))
for i in range(times):
    key = i % 8, ("fa", "fb")[i // 2 % 2], FILES[i // 3 % 6]
    code = marshal.loads(read[key]) if i % 3 else compile(long(*key[:2]), key[2], "exec")
    note(code)
    exec(code, {"kept": kept})
    del code
if again < times / 8 and sys.version_info >= (3, 11): raise SystemExit("no address was used again: the script shows nothing")
class D:
    def __del__(self): kept.append(bytes(5000))
for i in range(10): D()
