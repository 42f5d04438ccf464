"""The pytest plug-in: `pytest --numalloc` records each test by itself and tells what it has at its
peak and what it leaves; tests with limits fail beyond them:

    @pytest.mark.numalloc(peak="10 MiB", left="64 KiB")
    def test_load(): ...

Run pytest with the library: numalloc-run --python python3 -m pytest --numalloc."""
import gc
import os
import tempfile

import pytest

import numalloc
from numalloc import reading

MARK = "numalloc(peak=BYTES, left=BYTES): fail if the test has more at its peak, or leaves more (with --numalloc)"


def pytest_addoption(parser):
    group = parser.getgroup("numalloc", "memory by numalloc")
    group.addoption("--numalloc", action="store_true", help="record each test: its peak, and what it leaves")
    group.addoption("--numalloc-top", type=int, default=10, metavar="N", help="tests that are listed (10; 0: all)")
    group.addoption("--numalloc-keep", metavar="DIR", help="keep the tests' profiles there")


def pytest_configure(config):
    config.addinivalue_line("markers", MARK)
    if not config.getoption("--numalloc"):
        return
    if not numalloc.available():
        raise pytest.UsageError("--numalloc: the library is not there; run numalloc-run --python python3 -m pytest --numalloc")
    if numalloc.is_running():
        raise pytest.UsageError("--numalloc: a profile of the whole run is being recorded already")
    if reading.tool() is None:
        raise pytest.UsageError("--numalloc: numalloc-dump is not in PATH")
    config.pluginmanager.register(Recorder(config), "numalloc-recorder")


class Recorder:
    def __init__(self, config):
        self.keep, self.top = config.getoption("--numalloc-keep"), config.getoption("--numalloc-top")
        self.seen, self.failed = {}, {}
        self.folder = tempfile.TemporaryDirectory(prefix="numalloc-") if self.keep is None else None
        if self.keep is not None:
            os.makedirs(self.keep, exist_ok=True)

    def file(self, item):
        plain = "".join(c if c.isalnum() or c in "._-" else "_" for c in item.nodeid)[-150:]
        return os.path.join(self.keep or self.folder.name, "%d-%s.nprof" % (len(self.seen), plain))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        file = self.file(item)
        gc.collect()
        numalloc.start(file, "sites")
        yield
        gc.collect()
        if not numalloc.is_running():
            return # the test ended it
        numalloc.stop()
        try:
            figures = reading.Figures(file)
            self.seen[item.nodeid] = figures.peak, figures.left, figures.blocks
            self.failed[item.nodeid] = list(exceeded(item, figures))
        finally:
            if self.keep is None and os.path.exists(file):
                os.unlink(file)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        report, over = outcome.get_result(), self.failed.get(item.nodeid)
        if call.when == "call" and over and report.outcome == "passed":
            report.outcome, report.longrepr = "failed", "\n".join(over)

    def pytest_terminal_summary(self, terminalreporter):
        rows = sorted(self.seen.items(), key=lambda row: -row[1][0])
        shown = rows[:self.top] if self.top else rows
        if not rows:
            return
        terminalreporter.section("numalloc: %d of %d tests by peak" % (len(shown), len(rows)))
        terminalreporter.write_line("%12s  %12s  %8s  %s" % ("peak", "left", "blocks", "test"))
        for name, (peak, left, blocks) in shown:
            terminalreporter.write_line("%12s  %12s  %8d  %s" % (reading.text(peak), reading.text(left), blocks, name))

    def pytest_unconfigure(self):
        if self.folder is not None:
            self.folder.cleanup()


def exceeded(item, figures):
    """A line for each limit that the test is beyond, and below it who has the memory."""
    marks = list(item.iter_markers("numalloc"))
    for name, what, has in (("peak", "peak", figures.peak), ("left", "live", figures.left)):
        limit = next((m.kwargs[name] for m in marks if name in m.kwargs), None)
        if limit is None or has <= reading.number(limit):
            continue
        yield "numalloc: %s of %s, and the limit is %s" % (name, reading.text(has), reading.text(reading.number(limit)))
        yield from figures.lines(what)
