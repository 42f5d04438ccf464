# on_terminal.py - runs a command with standard error on a terminal and standard output in a file.
# Usage: on_terminal.py PRELOAD STDOUT SHOWN COMMAND...: PRELOAD ("" for none) is preloaded into the
# command alone; what the terminal showed goes to SHOWN. Ends with the command's status.
import os
import sys

preload, stdout, shown_at, *command = sys.argv[1:]
pid, terminal = os.forkpty()
if pid == 0:
    os.dup2(os.open(stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    if preload:
        os.environ["LD_PRELOAD"] = preload
    os.execv(command[0], command)
shown = b""
try:
    while part := os.read(terminal, 4096):
        shown += part
except OSError:  # the other end is closed
    pass
with open(shown_at, "wb") as out:
    out.write(shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
