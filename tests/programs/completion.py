"""completion.py SCRIPTS BIN - what zsh and fish make of a line and the tab key, with the completions
of SCRIPTS (scripts/completion) and the programs of BIN. A shell that is missing is left out; status
77 if both are."""
import os
import pathlib
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time

scripts, programs = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
CASES = [  # a line, and what it becomes: one candidate is put in, of several the common part
    ("numalloc-dump warn", "numalloc-dump warnings"),
    ("numalloc-dump help lea", "numalloc-dump help leaks"),
    ("numalloc-dump sites some.nprof --sta", "numalloc-dump sites some.nprof --stacks"),
    ("numalloc-dump sites some.nprof --sort lifetime_me", "numalloc-dump sites some.nprof --sort lifetime_mean_ms"),
    ("numalloc-dump sites some.nprof --wrappers au", "numalloc-dump sites some.nprof --wrappers auto"),
    ("numalloc-dump sites so", "numalloc-dump sites some.nprof"),
    ("numalloc-run --pro", "numalloc-run --profile"),
    ("numalloc-run -o so", "numalloc-run -o some.nprof"),
    ("numalloc-run --profile numf", "numalloc-run --profile numfmt"),
    ("numalloc-bench shb", "numalloc-bench shbench"),
    ("numalloc-bench compare shb", "numalloc-bench compare shbench"),
    ("numalloc-bench churn --distr", "numalloc-bench churn --distribution"),
    ("numalloc-bench compare --allocators x --res", "numalloc-bench compare --allocators x --resume"),
]


def zsh(line, work, environment):
    """The line after the tab key, as zsh's editor has it."""
    shown = work / "shown"
    shown.unlink(missing_ok=True)
    (work / "ready").unlink(missing_ok=True)
    setup = (
        f"fpath=({scripts}/zsh $fpath); autoload -Uz compinit; compinit -u -d {work}/zcompdump; "
        f"show() {{ print -r -- $BUFFER >{shown}.new; mv {shown}.new {shown}; zle kill-buffer }}; "
        "zle -N show; bindkey '^X' show; bindkey '^I' complete-word; unsetopt beep; "
        f"print -r -- ready >{work}/ready\n"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(work)
        os.execve(shutil.which("zsh"), ["zsh", "-f", "-i"], environment)
    os.write(terminal, setup.encode())

    def wait_for(path):
        end = time.monotonic() + 150
        while not path.exists():
            if time.monotonic() > end:
                sys.exit(f"completion.py: zsh did not answer to '{line}'")
            if select.select([terminal], [], [], 0.05)[0]:
                os.read(terminal, 4096)

    wait_for(work / "ready")
    os.write(terminal, line.encode() + b"\t\x18")
    wait_for(shown)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(terminal)
    return shown.read_text().rstrip()


def fish(line, work, environment):
    """The line with the common part of what fish would put in for its last word."""
    command = "; ".join(f"source {path}" for path in sorted(scripts.glob("fish/*.fish")))
    out = subprocess.run(
        ["fish", "--no-config", "-c", f"{command}; complete -C '{line}'"],
        cwd=work, env=environment, check=True, capture_output=True, text=True).stdout
    candidates = [row.split("\t")[0] for row in out.splitlines()]
    return line[:line.rindex(" ") + 1] + os.path.commonprefix(candidates)


def main():
    shells = [shell for shell in (zsh, fish) if shutil.which(shell.__name__)]
    if not shells:
        print("completion: skipped: neither zsh nor fish; install the packages 'zsh' and 'fish'")
        return 77
    wrong = 0
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        (work / "some.nprof").touch()
        environment = dict(os.environ, HOME=directory, XDG_CONFIG_HOME=directory, XDG_DATA_HOME=directory,
                           TERM="dumb", PATH=f"{programs}:{os.environ['PATH']}")
        environment.pop("LD_PRELOAD", None)
        for shell in shells:
            for line, wanted in CASES:
                got = shell(line, work, environment)
                if got != wanted:
                    print(f"completion: FAILED: {shell.__name__}: '{line}' gives '{got}', expected '{wanted}'")
                    wrong += 1
    print(f"completion: {len(CASES)} lines in {' and '.join(shell.__name__ for shell in shells)}, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
