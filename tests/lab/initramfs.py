"""initramfs.py - all that a guest of the lab finds: commands, the files they name, and what those
need."""
import os
import re
import shlex
import shutil
import struct
import subprocess

from topology import ARM64, HERE, PLACE_ARM64, SKIP, Fail

BUSYBOX = "/bin/busybox"
LIBRARIES_ARM64 = "/usr/aarch64-linux-gnu/lib"  # the cross compiler's C library


class Archive:
    """A cpio archive in the kernel's 'newc' form, uncompressed: unpacking costs more than loading."""

    def __init__(self):
        self.data = bytearray()
        self.names = set()

    def _entry(self, name, mode, body=b""):
        encoded = os.fsencode(name) + b"\0"
        fields = (len(self.names) + 1, mode, 0, 0, 1, 0, len(body), 0, 0, 0, 0, len(encoded), 0)
        self.data += b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
        self.data += b"\0" * (-len(self.data) % 4) + body
        self.data += b"\0" * (-len(self.data) % 4)

    def _parents(self, name):
        parent = os.path.dirname(name)
        if parent and parent not in self.names:
            self._parents(parent)
            self.names.add(parent)
            self._entry(parent, 0o040755)

    def add(self, path, body, executable=False):
        name = path.lstrip("/")
        if name in self.names:
            return
        self._parents(name)
        self.names.add(name)
        self._entry(name, 0o100755 if executable else 0o100644, body)

    def directory(self, path):
        self._parents(path.lstrip("/") + "/.")

    def device(self, path):
        """/dev/console must exist before anything is mounted: major 5, minor 1."""
        name = path.lstrip("/")
        self._parents(name)
        self.names.add(name)
        encoded = os.fsencode(name) + b"\0"
        fields = (len(self.names) + 1, 0o020600, 0, 0, 1, 0, 0, 0, 0, 5, 1, len(encoded), 0)
        self.data += b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
        self.data += b"\0" * (-len(self.data) % 4)

    def finish(self):
        self._entry("TRAILER!!!", 0)
        return self.data


def names_in_elf(body):
    """Interpreter and libraries that a program of 64 bits names, whatever processor it is for."""
    at, entry, count = struct.unpack_from("<Q", body, 32)[0], *struct.unpack_from("<HH", body, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", body, at + i * entry) for i in range(count)]

    def text(offset):
        return os.fsdecode(body[offset:body.index(b"\0", offset)])

    def place(address):  # in the file
        return next(offset + address - start for kind, _, offset, start, _, size, _, _ in headers
                    if kind == 1 and start <= address < start + size)

    names, strings = [], None
    needed = []
    for kind, _, offset, _, _, size, _, _ in headers:
        if kind == 3:
            names.append(text(offset))
        if kind == 2:
            for i in range(size // 16):
                tag, value = struct.unpack_from("<QQ", body, offset + 16 * i)
                if tag == 0:
                    break
                if tag == 1:
                    needed.append(value)
                if tag == 5:
                    strings = place(value)
    return names + [text(strings + value) for value in needed]


class Files:
    """Adds files of this machine to an archive, with what they need to run."""

    def __init__(self, archive, arch):
        self.archive, self.arch = archive, arch
        self.seen = set()
        applets = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True)
        self.applets = set(applets.stdout.split())

    def add(self, path):
        path = os.path.abspath(path)
        if path in self.seen:
            return
        self.seen.add(path)
        if os.path.isdir(path):
            for name in sorted(os.listdir(path)):
                self.add(os.path.join(path, name))
            return
        with open(path, "rb") as file:
            body = file.read()
        self.archive.add(path, body, os.access(path, os.X_OK))
        if body.startswith(b"\x7fELF"):
            self._libraries(path) if self.arch != ARM64 else self._libraries_arm64(body)
        elif body.startswith(b"#!"):
            interpreter = body[2:].split(b"\n", 1)[0].split()
            if interpreter and os.path.isfile(interpreter[0]):
                name = os.fsdecode(interpreter[0])
                if os.path.basename(name) not in self.applets:
                    self.add(name)

    def _libraries(self, path):
        listed = subprocess.run(["ldd", path], capture_output=True, text=True)  # 1: it is static
        missing = re.search(r"^\s*(\S+) => not found", listed.stdout, re.M)
        if missing:
            raise Fail(f"{path} needs {missing[1]}, which ldd does not find here")
        for library in re.findall(r"(?:=> |^\s*)(/\S+) \(0x", listed.stdout, re.M):
            self.add(library)

    def _libraries_arm64(self, body):
        """All that is wanted is the C library's, and lies in one place there."""
        for name in map(os.path.basename, names_in_elf(body)):
            if name in self.seen:
                continue
            self.seen.add(name)
            path = os.path.join(LIBRARIES_ARM64, name)
            if not os.path.exists(path):
                raise Fail(f"{path} is missing: install libc6-arm64-cross (scripts/setup.sh arm64)",
                           SKIP)
            with open(path, "rb") as file:
                library = file.read()
            self.archive.add("/lib/" + name, library, executable=True)
            self._libraries_arm64(library)

    def command(self, words):
        """A command with the files it names in place: words, NAME=value, lists with colons."""
        words = list(words)
        missing = next((w for w in words if "/lab-arm64/" in w and "=" not in w and
                        not os.path.exists(w)), None)
        if self.arch == ARM64 and missing:
            raise Fail(f"{missing} is not built: run tests/lab/arm64/build.sh "
                       f"{os.path.dirname(missing)}", SKIP)
        if "/" not in words[0] and words[0] not in self.applets:
            found = shutil.which(words[0])
            if found is None:
                raise Fail(f"'{words[0]}' is neither a file, a program of this machine nor of "
                           "busybox", 2)
            words[0] = found
        elif "/" in words[0] and not os.path.exists(words[0]):
            raise Fail(f"there is no file '{words[0]}'", 2)
        for word in words:
            for piece in {word, *re.split("[=:, ]", word)}:
                if "/" in piece and os.path.isfile(piece):
                    self.add(piece)
        return words


def make_initramfs(topology, commands, mark, environment, extra, path):
    archive = Archive()
    archive.directory("/dev")
    archive.device("/dev/console")
    files = Files(archive, topology.arch)
    with open(os.path.join(HERE, "init.sh"), "rb") as init:
        archive.add("/init", init.read(), executable=True)
    if topology.arch == ARM64:
        with open(os.path.join(PLACE_ARM64, "busybox"), "rb") as busybox:
            archive.add(BUSYBOX, busybox.read(), executable=True)
    else:
        files.add(BUSYBOX)
    for name in extra:
        if not os.path.exists(name):
            raise Fail(f"there is no file '{name}' (--file)", 2)
        files.add(name)
    archive.add("/lab/mark", mark.encode() + b"\n")
    archive.directory(os.getcwd())
    for number, command in enumerate(commands):
        words = files.command(command.words)
        script = ["#!/bin/busybox sh", f"cd {shlex.quote(os.getcwd())}"]
        for setting in environment:
            files.command(["env", setting])
            name, _, value = setting.partition("=")
            script.append(f"export {name}={shlex.quote(value)}")
        script.append("exec " + shlex.join(words))
        archive.add(f"/lab/tasks/{number:04}", "\n".join(script).encode() + b"\n", executable=True)
        archive.add(f"/lab/limits/{number:04}", f"{command.seconds}\n".encode())
    with open(path, "wb") as file:
        file.write(archive.finish())
