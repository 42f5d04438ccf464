# Code objects that die, and whose addresses others get.
import os, sys
kept, addresses, again = [], set(), 0
times = 400 if os.environ.get("TEST_SCALE") == "full" else 150
for i in range(times):
    source = "\n" * (i % 37) + "def f%d(k):\n    return bytes(600 + k)\nkept.append(f%d(%d))\n" % (i % 3, i % 3, i)
    code = compile(source, "made", "exec")
    for c in (code, *code.co_consts):
        if hasattr(c, "co_name"):
            again += id(c) in addresses
            addresses.add(id(c))
    exec(code, {"kept": kept})
    kept.append(eval("\n" * (i % 5) + "(lambda: bytearray(700 + %d))()" % i))
    del code
if again < times / 8 and sys.version_info >= (3, 11): raise SystemExit("no address was used again: the script shows nothing")
class D:
    def __del__(self): kept.append(bytes(5000))
for i in range(10): D()
