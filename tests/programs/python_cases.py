"""python_cases.py RESULTS.xml - what CPython's own tests wrote with --junit-xml, one line a test case: name
and how it ended. Times are left out. The cases are sorted because two workers finish in any order."""
import sys
import xml.etree.ElementTree as tree
lines = []
for case in tree.parse(sys.argv[1]).iter("testcase"):
    name = case.get("name") or "?"
    end = "+".join(sorted({child.tag for child in case if child.tag in ("failure", "error", "skipped")}))
    # Names of parametrised cases may carry an address or a temporary path.
    lines.append("%s %s %s" % (name.split(" at 0x")[0].split("/tmp/")[0], case.get("status"), end))
print("\n".join(sorted(lines)))
