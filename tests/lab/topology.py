"""topology.py - the machines of tests/lab/topologies, and what the lab's files share."""
import os

HERE = os.path.dirname(os.path.realpath(__file__))
# 64-bit ARM: what tests/lab/arm64/fetch.sh has unpacked.
ARM64 = "aarch64"
PLACE_ARM64 = os.path.join(HERE, "..", "..", "build", "lab-arm64")
SKIP, TIMED_OUT, LAB_FAILED = 77, 124, 125


class Fail(Exception):
    """One line for the user, and the exit status that goes with it."""

    def __init__(self, message, status=LAB_FAILED):
        super().__init__(message)
        self.status = status


class Node:
    def __init__(self, number, cpus=0, memory=0, later=0):
        self.number, self.cpus, self.memory = number, cpus, memory
        self.later = later  # CPU sockets that are empty at first


class Topology:
    def __init__(self, name, about):
        self.name, self.about = name, about
        self.nodes, self.distances, self.hotplug = [], {}, 0
        self.append, self.counted = "", False
        self.ibs = None  # settings of a processor that has it
        self.plugin = None  # of QEMU's, with its settings
        self.arch, self.kernel, self.cpu = "x86_64", None, ""


def read_topologies(path):
    found = {}
    current = None
    with open(path, encoding="utf-8") as lines:
        for number, text in enumerate(lines, 1):
            text = text.split("#", 1)[0].strip()
            if not text:
                continue
            try:
                word, _, rest = text.partition(" ")
                if word == "topology":
                    name, _, about = rest.partition("  ")
                    current = found[name] = Topology(name, about.strip())
                elif word == "hotplug":
                    current.hotplug = int(rest)
                elif word == "append":
                    current.append = rest.strip()
                elif word == "ibs":
                    current.ibs = rest.strip()
                elif word == "counted" and not rest:
                    current.counted = True
                elif word == "arm64":
                    kernel, _, cpu = rest.strip().partition(" ")
                    current.arch, current.cpu = ARM64, cpu and "," + cpu
                    current.kernel = os.path.join(PLACE_ARM64, kernel)
                elif word == "distance":
                    source, _, row = rest.partition("=")
                    current.distances[int(source)] = [int(item) for item in row.split()]
                elif word == "node":
                    identity, *settings = rest.split()
                    if settings == ["absent"]:
                        current.nodes.append(Node(int(identity), later=1))
                    else:
                        values = dict(setting.split("=") for setting in settings)
                        current.nodes.append(
                            Node(int(identity), int(values["cpus"]), int(values["memory"]),
                                 later=int(values.get("later", 0))))
                else:
                    raise ValueError
            except (ValueError, KeyError, AttributeError):
                raise Fail(f"{path}:{number}: not understood: '{text}'; its first lines say what "
                           "may stand there", 2) from None
    return found
