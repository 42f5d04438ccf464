# stacks_gdb.py - inside gdb: stops a program at chosen stacks of a recorder that was built for it
# (NA_STACKS_CHECK) and compares what is in the profile with gdb's own physical frames.
#
# Reads from the environment: STACKS_POINTS, numbers of stacks in ascending order, separated by
# commas, and STACKS_REPORT, a file that gets one line for each difference and a summary.
import bisect
import os

import gdb

points = [int(p) for p in os.environ["STACKS_POINTS"].split(",")]
report = open(os.environ["STACKS_REPORT"], "w")
compared, frames_compared, equal, deepest = 0, 0, 0, 0


def own_range():
    for objfile in gdb.objfiles():
        if "numalloc" in os.path.basename(objfile.filename or ""):
            start = int(gdb.parse_and_eval("(unsigned long)&na_stacks_stop"))
            for line in gdb.execute("info proc mappings", to_string=True).splitlines():
                fields = line.split()
                if fields and fields[-1] == os.path.realpath(objfile.filename):
                    yield int(fields[0], 16), int(fields[1], 16)
            return
    raise gdb.GdbError("no libnumalloc in the program")


def physical_frames(own):
    pcs, frame, inside = [], gdb.newest_frame(), True
    while frame is not None:
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            pc = frame.pc()
            inside = inside and any(lo <= pc < hi for lo, hi in own)
            if not inside:
                pcs.append(pc)
        reason = frame.unwind_stop_reason()
        older = frame.older()
        if older is None and reason not in (gdb.FRAME_UNWIND_NO_REASON, gdb.FRAME_UNWIND_OUTERMOST):
            pcs.append("(gdb: %s)" % gdb.frame_stop_reason_string(reason))
        frame = older
    return pcs


def name(pc):
    if not isinstance(pc, int):
        return pc
    return "%x %s" % (pc, gdb.execute("info symbol 0x%x" % pc, to_string=True).strip())


def recorded_frames():
    at, count = int(gdb.parse_and_eval("$rdi")), int(gdb.parse_and_eval("$rsi"))
    memory = gdb.selected_inferior().read_memory(at, 8 * count).tobytes() if count else b""
    pcs = [int.from_bytes(memory[i : i + 8], "little") for i in range(0, len(memory), 8)]
    return pcs + (["(truncated)"] if int(gdb.parse_and_eval("(int)$edx")) else [])


def compare(own):
    global compared, frames_compared, equal, deepest
    theirs, ours = physical_frames(own), recorded_frames()
    compared += 1
    frames_compared += len(ours)
    deepest = max(deepest, len(ours))
    if theirs == ours:
        equal += 1
        return
    same = 0
    while same < min(len(ours), len(theirs)) and ours[same] == theirs[same]:
        same += 1
    report.write("stack %d: %d frames recorded, %d in gdb; equal up to %d, then\n"
        % (points[0], len(ours), len(theirs), same))
    for label, pcs in (("recorded", ours), ("gdb", theirs)):
        for pc in pcs[max(0, same - 2) : same + 4]:
            report.write("    %-8s %s\n" % (label, name(pc)))


for setting in ("pagination off", "confirm off", "height 0", "width 0", "backtrace past-main on",
                "backtrace past-entry on", "backtrace limit unlimited", "breakpoint pending on",
                "print thread-events off", "startup-with-shell off", "auto-solib-add on",
                "detach-on-fork on", "print symbol-loading off"):
    gdb.execute("set " + setting)
for signal in ("SIGALRM", "SIGUSR1", "SIGPROF"):
    gdb.execute("handle %s nostop noprint pass" % signal)
gdb.execute("set environment NUMALLOC_STACKS_STOP %d" % points[0])
for variable in ("LD_PRELOAD", "NUMALLOC_PROFILE", "NUMALLOC_PROFILE_FILE", "NUMALLOC_STACKS_EVERY"):
    gdb.execute("set environment %s %s" % (variable, os.environ["STACKS_" + variable]))
gdb.execute("break na_stacks_stop")
gdb.execute("run")
own = None
while points and gdb.selected_inferior().pid != 0:
    if gdb.selected_thread() is None:
        break
    if own is None:
        own = list(own_range())
    compare(own)
    now = int(gdb.parse_and_eval("*(unsigned long *)&stacks"))
    points = points[bisect.bisect_right(points, max(points[0], now)) :]
    if not points:
        gdb.execute("kill")
        break
    gdb.execute("set var *(unsigned long *)&na_stacks_stop_at = %d" % points[0])
    gdb.execute("continue")
report.write("summary: %d points, %d equal, %d frames, deepest %d\n" % (compared, equal, frames_compared, deepest))
report.close()
