"""numalloc - profiles of parts of a Python program, by the library that it runs with.

    with numalloc.profile("load.nprof"):
        load()
    numalloc.marker("loaded")       # a moment on the time line
    numalloc.dump()                 # a copy of the profile as it is now

The program has to run with libnumalloc preloaded, and with Python frames if they are wanted:

    numalloc-run --python python3 app.py

Nothing is built: all goes through the library's public functions, by ctypes."""
import contextlib
import ctypes
import os
import sys
import threading

__all__ = ["Missing", "available", "dump", "is_running", "load_ipython_extension", "marker", "name_thread", "profile",
           "start", "stop"]

MODES = ("sites", "sample", "trace")


class _Options(ctypes.Structure):
    """numalloc_record_options_t."""
    _fields_ = [("size", ctypes.c_size_t), ("mode", ctypes.c_int), ("file", ctypes.c_char_p),
                ("settings", ctypes.c_char_p)]


class Missing(RuntimeError):
    """The process runs without the library."""


class Profile:
    """What `with profile()` gives: `file`, as it was asked for, and `mode`."""

    def __init__(self, file, mode):
        self.file, self.mode = file, mode

    def dump(self):
        """As dump()."""
        dump()

    def marker(self, name):
        """As marker()."""
        marker(name)


def _functions():
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "numalloc_record_start_with"):
        return None
    text, number = ctypes.c_char_p, ctypes.c_int
    for name, takes, gives in (("start_with", [ctypes.POINTER(_Options)], number), ("stop", [], number), ("dump", [], number),
                               ("is_running", [], number), ("marker", [text], None)):
        function = getattr(library, "numalloc_record_" + name)
        function.argtypes, function.restype = takes, gives
    return library


_library = _functions()


def _need():
    if _library is None:
        raise Missing("libnumalloc is not preloaded: run the program with numalloc-run --python, "
                      "or LD_PRELOAD=libnumalloc.so.0 NUMALLOC_PYTHON=1 PYTHONMALLOC=malloc")
    return _library


def _check(result, file=None):
    if result == 0:
        return
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), *([file] if file else []))


def available():
    """The library is there."""
    return _library is not None


def is_running():
    """A profile is being recorded."""
    return _library is not None and bool(_library.numalloc_record_is_running())


def start(file=None, mode=None, **settings):
    """Begins a profile. `file`: a name or a folder, as NUMALLOC_PROFILE_FILE takes it; `mode`: "sites",
    "sample" or "trace". None: as the environment says. Settings of this profile are those that can follow
    in NUMALLOC_PROFILE, access="watch". OSError with EALREADY: one is running; EINVAL: no such setting."""
    if mode is not None and mode not in MODES:
        raise ValueError("mode is %r; it may be %s" % (mode, ", ".join(MODES)))
    name = None if file is None else os.fsencode(file)
    _name_threads()
    listed = ",".join("%s=%s" % (key, int(value) if isinstance(value, bool) else value)
                      for key, value in settings.items())
    options = _Options(ctypes.sizeof(_Options), 0 if mode is None else MODES.index(mode) + 1, name, listed.encode())
    _check(_need().numalloc_record_start_with(options), file)


def stop():
    """Ends it: its file is complete. OSError with EALREADY: none is running."""
    _check(_need().numalloc_record_stop())


def dump():
    """Copies the profile as it is now to a file of its own, with the next number behind the name."""
    _check(_need().numalloc_record_dump())


def marker(name):
    """Names this moment on the time line (47 bytes of UTF-8). Does nothing without a profile."""
    if _library is not None:
        _library.numalloc_record_marker(name.encode())


@contextlib.contextmanager
def profile(file=None, mode="sites", **settings):
    """A profile of what runs inside of it, all threads. Blocks that it leaves are live in the profile."""
    start(file, mode, **settings)
    try:
        yield Profile(file, mode)
    finally:
        stop()


# ---- threads ----

_PR_SET_NAME = 15


def name_thread(name):
    """The calling thread's name for the system, and so in profiles: 15 bytes of it."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, ctypes.c_char_p(os.fsencode(name)[:15]), 0, 0, 0)


def _name_threads():
    """From now on threads have the names that Python gave them (from 3.14 on it does so itself), and
    those that run get theirs now. A profile asks for a name when the thread first allocates."""
    bootstrap = getattr(threading.Thread, "_bootstrap_inner", None)
    if sys.version_info >= (3, 14) or bootstrap is None or hasattr(bootstrap, "numalloc"):
        return

    def named(thread):
        name_thread(thread.name)
        bootstrap(thread)

    named.numalloc = True
    threading.Thread._bootstrap_inner = named
    for thread in threading.enumerate():
        if thread is threading.main_thread() or not thread.native_id:
            continue
        with contextlib.suppress(OSError), open("/proc/self/task/%d/comm" % thread.native_id, "wb") as comm:
            comm.write(os.fsencode(thread.name)[:15])


def load_ipython_extension(ipython):
    """%load_ext numalloc: the cell magic %%numalloc (numalloc.magic)."""
    from numalloc.magic import register
    register(ipython)
