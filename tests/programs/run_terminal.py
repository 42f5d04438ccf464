"""run_terminal.py NUMALLOC_RUN - numalloc-run on a terminal, under an interactive shell: Ctrl-C, Ctrl-Z,
fg, bg, Ctrl-\\, kill %1, a program that stops itself, one that reads the terminal, a pipeline. What the
program sees is counted: each signal comes once."""
import os
import pty
import re
import select
import signal
import sys
import time

run = sys.argv[1]
pid, terminal = pty.fork()
if pid == 0:
    os.environ.update(PS1="$ ", TERM="dumb", HISTFILE="")
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
seen = ""


def read(seconds):
    global seen
    if select.select([terminal], [], [], seconds)[0]:
        seen += os.read(terminal, 65536).decode(errors="replace").replace("\r\n", "\n")


def send(text):
    os.write(terminal, text.encode())


def expect(pattern, seconds=150):
    """Waits for the text, and takes it and all before it."""
    global seen
    end = time.monotonic() + seconds
    while not (found := re.search(pattern, seen)):
        assert time.monotonic() < end, f"no '{pattern}' within {seconds} s, but:\n{seen}"
        read(0.1)
    seen = seen[found.end():]
    return found


def state(process):
    return open(f"/proc/{process}/stat").read().rsplit(")", 1)[1].split()[0]


def becomes(process, letters):
    for _ in range(3000):
        if state(process) in letters:
            return
        time.sleep(0.05)
    raise AssertionError(f"state {state(process)}, expected one of {letters}\n{seen}")


def taken(process):
    """Signals that it was sent are not pending: one more of the same number is another one."""
    for _ in range(3000):
        if not any(int(line.split()[1], 16) for line in open(f"/proc/{process}/status") if line.startswith(("SigPnd", "ShdPnd"))):
            return
        time.sleep(0.05)
    raise AssertionError(f"signals of {process} stay pending\n{seen}")


def silent(pattern, seconds=0.5):
    """The text does not come."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        read(0.1)
    assert not re.search(pattern, seen), seen


open("count.py", "w").write("""
import os, signal, sys, time
counts = {}
def count(number, _):
    counts[number] = counts.get(number, 0) + 1
    # Not by print: one signal may come while another one's is being written.
    os.write(1, f"got {signal.Signals(number).name} {counts[number]}\\n".encode())
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCONT, signal.SIGUSR1, signal.SIGWINCH):
    signal.signal(number, count)
print(f"ready {os.getpid()} {os.getppid()}", flush=True)
while True:
    time.sleep(0.01)
    if os.path.exists("stop"):
        os.unlink("stop")
        os.kill(os.getpid(), signal.SIGSTOP)
    if os.path.exists("end"):
        os.unlink("end")
        sys.exit(6)
""")
send("stty -echo; set +o history; echo be''gin\n")
expect("begin\n")

send(f"{run} -p -o count.nprof {sys.executable} count.py\n")
found = expect(r"ready (\d+) (\d+)\n")
program, runner = int(found[1]), int(found[2])
send("\x03")
expect(r"got SIGINT 1\b")
send("\x1a")
expect("Stopped")
becomes(program, "T")  # the shell says so of the runner
becomes(runner, "T")
send("fg\n")
expect(r"got SIGCONT 1\b")
becomes(program, "RS")
send("\x03")
expect(r"got SIGINT 2\b")
silent("got SIG(INT|CONT)")
send("\x1a")
expect("Stopped")
send("bg\n")
expect(r"got SIGCONT 2\b")
# To the whole job by the shell, to numalloc-run alone, and to its process group by itself.
send("kill %1\n")
expect(r"got SIGTERM 1\b")
silent("got SIGTERM")
send(f"kill {runner}\n")
expect(r"got SIGTERM 2\b")
silent("got SIGTERM")
send("kill -USR1 %1\n")
expect(r"got SIGUSR1 1\b")
taken(runner)
send(f"kill -USR1 {runner}\n")
expect(r"got SIGUSR1 2\b")
taken(runner)
send("kill -USR1 %1\n")
expect(r"got SIGUSR1 3\b")
silent("got SIGUSR1")
# It stops itself; who lets numalloc-run go on lets it go on.
open("stop", "w")
becomes(program, "T")
becomes(runner, "T")
os.kill(runner, signal.SIGCONT)
expect(r"got SIGCONT 3\b")
becomes(program, "RS")
open("stop", "w")
becomes(runner, "T")
send("\n")
expect("Stopped")
send("fg\n")
expect(r"got SIGCONT 4\b")
open("end", "w")
expect("ended with status 6")
expect("next +")
send("echo status $?\n")
expect("status 6\n")

# Killed by the terminal; the summary comes all the same.
send(f"{run} -p -o quit.nprof {sys.executable} -c 'import time; print(\"rea\" + \"dy\", flush=True); time.sleep(600)'\n")
expect("ready\n")
send("\x1c")
expect("was killed by signal 3")
expect("quit.nprof")
send("echo status $?\n")
expect("status 131\n")

# A page is opened on a desktop; whose browser lives on.
os.makedirs("bin")
open("bin/xdg-open", "w").write('#!/bin/sh\necho "$1 $(ps -o sid= $$)" >opened.new; mv opened.new opened\n')
os.chmod("bin/xdg-open", 0o755)
send(f"DISPLAY=:99 PATH=$PWD/bin:$PATH {run} -p --html -o page.nprof true; echo pa''ge $?\n")
expect("page 0\n")
if os.path.exists("page.nprof.html") or os.path.exists("page.html"):
    for _ in range(3000):
        if os.path.exists("opened"):
            break
        time.sleep(0.05)
    page, session = open("opened").read().split()
    assert page == os.path.realpath("page.html") and int(session) != pid, (page, session)

# The terminal is its own: it reads lines, and is the one in front.
send(f"{run} -q -p -o cat.nprof sh -c 'echo rea''dy; exec cat'; echo ca''t $?\n")
expect("ready\n")
send("one line\n\x04")
expect("one line\n")
expect("cat 0\n")
send(f"{run} -q -p -o less.nprof sh -c 'echo 1; echo 2' | {sys.executable} -c 'import sys; words = sys.stdin.read().split(); print(\"rea\" + \"dy\", flush=True); print(words, open(\"/dev/tty\").readline())'\n")
expect("ready\n")
send("from the terminal\n")
expect(r"\['1', '2'\] from the terminal")
send(f"{run} -q -p -o pipe.nprof sh -c 'echo rea''dy; exec sleep 600' | cat\n")
expect("ready\n")
send("\x1a")
expect("Stopped")
send("kill %1; wait; echo do''ne\n")
expect("done\n")
os.close(terminal)  # hangs up
os.waitpid(pid, 0)
print("terminal: each signal came once")
