"""cells.py - the ways to build the program: compilers, levels of optimisation and of debug information,
formats of DWARF, linkers, and what is done to the file before or after it has run.

`level` of a cell says what is there when the profile is read: "full" (names, files, lines), "lines" (-g1:
inlined calls, of which perhaps the last part of the name; files and lines of definitions perhaps), "symbols"
(a symbol table only), "none". `says`: what the report must say then. `lacks`: what this build can't do.
"""
import functools
import os
import shutil
import subprocess

import cases_others

FAR_HEADERS = os.path.join(os.path.dirname(__file__), "../support/far_headers.py")
DEBUG = {"-g": "full", "-g1": "lines", "-g0": "symbols"}


class Cell:
    def __init__(self, name, compiler, flags, level, standard=17, link="", before=(), after=(), needs=(), says=None,
                 language="cxx", lacks=()):
        self.name, self.compiler, self.flags, self.level, self.standard = name, compiler, flags, level, standard
        self.link, self.before, self.later, self.needs, self.says = link, before, after, (compiler, *needs), says
        self.language, self.group, self.lacks = language, "", lacks

    def missing(self):
        for it in self.needs:  # programs, folders
            if shutil.which(it) is None and not os.path.exists(it):
                return f"{it} is not installed"
        return None

    def commands(self):
        if self.language != "cxx":
            return [*cases_others.LANGUAGES[self.language]["build"](self), *self.before]
        return [f"{self.compiler} -std=gnu++{self.standard} -w {self.flags} -I. -c truth.cpp -o truth.o",
                f"{self.compiler} {self.flags} truth.o -o truth {self.link}", *self.before]

    def after(self):
        return self.later


@functools.lru_cache(None)
def has(compiler, feature, standard):
    """Can this compiler do that?"""
    macro = {"coroutine": "__cpp_impl_coroutine"}.get(feature)
    if macro is None:
        return True
    tried = subprocess.run([*compiler.split(), f"-std=gnu++{standard}", "-dM", "-E", "-x", "c++", "/dev/null"],
                           capture_output=True, text=True)
    return macro in tried.stdout


COMPILERS = (("g++", 17), ("g++", 20), ("clang++", 17), ("clang++-16", 20), ("clang++-19", 20))
TWO = (("g++", 17), ("clang++", 17))


def small():
    """Those of ctest."""
    yield Cell("g++ -O2 -g", "g++", "-O2 -g", "full")
    yield Cell("clang++ -O2 -g -gsplit-dwarf", "clang++", "-O2 -g -gsplit-dwarf", "full")
    yield Cell("g++ -std=20 -O0 -g1", "g++", "-O0 -g1", "lines", 20)
    yield Cell("g++ -std=20 -O0 -g0", "g++", "-O0 -g0", "symbols", 20)


def base():
    for compiler, standard in COMPILERS:
        for optimise in ("-O0", "-O2", "-O3"):
            for debug, level in DEBUG.items():
                yield Cell(f"{compiler} -std={standard} {optimise} {debug}", compiler, f"{optimise} {debug}", level, standard)


def formats():
    """How debug information is written, and where it lies."""
    for compiler, standard in TWO:
        def cell(name, flags="", level="full", **more):
            optimise = more.pop("optimise", "-O2")
            return Cell(f"{compiler} {optimise} {name}", compiler, f"{optimise} -g {flags}", level, standard, **more)
        clang = compiler.startswith("clang")
        for version in (2, 3, 4, 5):
            yield cell(f"DWARF {version}", f"-gdwarf-{version}")
        yield cell("DWARF 5, 64 bit", "-gdwarf-5 -gdwarf64")
        yield cell("DWARF 4, 64 bit", "-gdwarf-4 -gdwarf64")
        yield cell("type units", "-fdebug-types-section")
        yield cell("type units, DWARF 4", "-gdwarf-4 -fdebug-types-section")
        for version in (4, 5):
            split = f"-gdwarf-{version} -gsplit-dwarf"
            dwp = "llvm-dwp" if version == 5 else "dwp"
            yield cell(f"split, DWARF {version}", split)
            yield cell(f"split, type units, DWARF {version}", split + " -fdebug-types-section")
            yield cell(f"split, type units, DWARF {version}, .dwp", split + " -fdebug-types-section",
                       before=(f"{dwp} -e truth -o truth.dwp", "rm *.dwo"), needs=(dwp,))
            yield cell(f"split, DWARF {version}, .dwo missing", split, "symbols", after=("rm *.dwo",), says="split DWARF")
            yield cell(f"split, DWARF {version}, .dwo of another build", split, "symbols", says="truth.dwo is of another build",
                       after=(f"{compiler} -std=gnu++17 -w -O0 -g {split} -I. -c truth.cpp -o other.o", "mv other.dwo truth.dwo"))
            yield cell(f"split, DWARF {version}, .dwp", split, before=(f"{dwp} -e truth -o truth.dwp", "rm *.dwo"), needs=(dwp,))
        if clang:
            yield cell("split, inlined in skeleton", "-gsplit-dwarf -fsplit-dwarf-inlining")
            yield cell("names simplified", "-gsimple-template-names")
            yield cell("limited", "-fno-standalone-debug")
            yield cell("-gline-tables-only", "-gline-tables-only", "lines")
        for kind in ("zlib", "zlib-gnu", "zstd"):
            yield cell(f"compressed, {kind}", before=(f"objcopy --compress-debug-sections={kind} truth",))
        if not clang:  # dwz does not know clang's .debug_addr
            yield cell("dwz", before=("dwz truth",), needs=("dwz",))
            yield cell("dwz -m", before=("cp truth other", "dwz -m common.debug truth other"), needs=("dwz",))
        yield cell("dwz, DWARF 4", "-gdwarf-4", before=("dwz truth",), needs=("dwz",))
        apart = ("objcopy --only-keep-debug truth truth.debug", "strip truth")
        yield cell("debuglink", before=(*apart, "objcopy --add-gnu-debuglink=truth.debug truth"))
        yield cell("debuglink, .debug", before=(*apart, "objcopy --add-gnu-debuglink=truth.debug truth", "mkdir -p .debug", "mv truth.debug .debug/"))
        yield cell("debuglink, compressed", before=("objcopy --only-keep-debug --compress-debug-sections=zlib truth truth.debug", "strip truth",
                                                    "objcopy --add-gnu-debuglink=truth.debug truth"))
        yield cell("debuglink, file missing", level="none", before=(*apart, "objcopy --add-gnu-debuglink=truth.debug truth", "rm truth.debug"))
        yield cell("no build-id", link="-Wl,--build-id=none")
        yield cell("no build-id, changed since", level="none", link="-Wl,--build-id=none", says="changed",
                   after=("sleep 1.1; printf x >>truth",))
        yield cell("rebuilt since", level="none", says="another build-id",
                   after=(f"{compiler} -std=gnu++17 -w -O0 -g -I. truth.cpp -o truth",))
        yield cell("removed since", level="none", says="not there", after=("rm truth",))
        yield cell("stripped", level="none", before=("strip truth",))
        yield cell("strip -g", level="symbols", before=("strip -g truth",))
        yield cell(".gnu_debugdata", level="symbols", needs=("xz",),
                   before=("strip -g truth -o symbols", "objcopy --only-keep-debug symbols", "xz symbols", "strip truth",
                           "objcopy --add-section .gnu_debugdata=symbols.xz truth"))
        yield cell("stripped of symbols, DWARF left", before=("objcopy --strip-all --keep-section='.debug*' truth 2>/dev/null || true",))
        lto = {"needs": ("ld.lld",), "lacks": ("ifunc",)} if clang else {}  # lld leaves an ifunc's resolver out
        with_lld = " -fuse-ld=lld" if clang else ""
        for optimise in ("-O2", "-O3"):
            for debug, level in DEBUG.items():
                yield cell(f"-flto {debug}", f"-flto {debug}{with_lld}", level, optimise=optimise, **lto)
        if clang:
            yield cell("-flto=thin", "-flto=thin -fuse-ld=lld", **lto)
        yield cell("-ffunction-sections", "-ffunction-sections -Wl,--gc-sections")
        yield cell("-fno-pie", "-fno-pie", link="-no-pie")
        yield cell("-static", "-fno-pie", link="-static -Wl,--eh-frame-hdr $ARCHIVE")
        yield cell("-static-pie", "-fPIE", link="-static-pie $ARCHIVE")
        yield cell("-fno-omit-frame-pointer", "-fno-omit-frame-pointer")
        for linker in ("bfd", "gold", "lld", "mold"):
            yield cell(f"ld.{linker}", link=f"-fuse-ld={linker}", needs=(f"ld.{linker}",))
        yield cell("ld.lld --gdb-index", "-ggnu-pubnames", link="-fuse-ld=lld -Wl,--gdb-index", needs=("ld.lld",))
        yield cell("packed relocations", link="-Wl,-z,pack-relative-relocs")
        yield cell("-z separate-code", link="-Wl,-z,noseparate-code")
        yield cell("patchelf", before=("patchelf --set-rpath /a/rather/long/path/that/moves/things truth",), needs=("patchelf",))
        yield cell("headers at the end", before=(f"{FAR_HEADERS} truth",))
        yield cell("bolt, DWARF 4", "-gdwarf-4", before=("llvm-bolt-16 truth -o truth.bolt --update-debug-sections", "mv truth.bolt truth"),
                   needs=("llvm-bolt-16",))
        yield cell("bolt, no DWARF", "-g0", "symbols", before=("llvm-bolt-16 truth -o truth.bolt", "mv truth.bolt truth"),
                   needs=("llvm-bolt-16",))
    yield Cell("g++ -O2 -freorder-blocks-and-partition", "g++", "-O2 -g -freorder-blocks-and-partition", "full")
    yield Cell("g++ -Og", "g++", "-Og -g", "full")
    yield Cell("g++ -Os", "g++", "-Os -g", "full")
    yield Cell("g++ -O3 -fno-ipa-icf -fipa-pta", "g++", "-O3 -g -fno-ipa-icf -fipa-pta", "full")
    yield Cell("g++ -g3", "g++", "-O2 -g3", "full")
    yield Cell("g++ -gstrict-dwarf", "g++", "-O2 -g -gstrict-dwarf -gdwarf-4", "full")
    yield Cell("clang++ -O2 -g libc++", "clang++", "-O2 -g -stdlib=libc++", "full", needs=("/usr/lib/llvm-14/include/c++/v1",),
               lacks=("libstdc++",))
    for compiler in ("clang++-16", "clang++-19"):
        yield Cell(f"{compiler} -O2 split", compiler, "-O2 -g -gsplit-dwarf", "full", 20)
        yield Cell(f"{compiler} -O2 split, .dwp", compiler, "-O2 -g -gsplit-dwarf", "full", 20,
                   before=("llvm-dwp-19 -e truth -o truth.dwp", "rm *.dwo"), needs=("llvm-dwp-19",))
        yield Cell(f"{compiler} -O2 type units", compiler, "-O2 -g -fdebug-types-section", "full", 20)
        yield Cell(f"{compiler} -O2 names simplified", compiler, "-O2 -g -gsimple-template-names", "full", 20)


def languages():
    for language, it in cases_others.LANGUAGES.items():
        for optimise in it.get("levels", ("-O0", "-O2")):
            for debug, level in (("-g", "full"), ("", "symbols")):
                yield Cell(f"{it['compiler']} ({language}) {optimise} {debug}".strip(), it["compiler"], f"{optimise} {debug}", level,
                           language=language)


GROUPS = {"base": "C++: gcc 12, clang 14, 16 and 19; -O0 to -O3; -g, -g1, -g0",
          "formats": "C++: formats of debug information, linkers, link-time optimisation, files changed afterwards",
          "languages": "C, Rust, D, Fortran, Ada, Objective-C, Go", "small": "those of ctest"}


def cells(chosen):
    sets = {"small": (small,), "base": (base,), "formats": (formats,), "languages": (languages,), "all": (base, formats, languages)}
    found = []
    for part in sets[chosen]:
        for cell in part():
            cell.group = GROUPS[part.__name__]
            found.append(cell)
    return found
