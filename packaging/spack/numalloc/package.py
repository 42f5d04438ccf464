# Copyright 2026 The numalloc authors. SPDX-License-Identifier: MIT
# A recipe of Spack's: copy this folder into the packages/ of a repository (spack repo create).
import os

from spack.package import *


class Numalloc(CMakePackage):
    """A NUMA-aware drop-in malloc for Linux, with a heap profiler."""

    # Spack takes the address of a release's archive from here, or from a mirror.
    url = "file://" + os.environ.get("NUMALLOC_SOURCES", "/var/tmp") + "/numalloc-0.1.0.tar.gz"
    maintainers("numalloc")
    license("MIT")

    version("0.1.0")

    variant("dump", default=True, description="numalloc-dump, which reads profiles")
    variant("numa", default=True, description="memory by node, on machines that have several")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("elfutils", when="+dump")
    depends_on("binutils+libiberty", when="+dump")
    depends_on("zlib-api", when="+dump")
    depends_on("python@3:", type="run", when="+dump")

    conflicts("platform=darwin")
    conflicts("platform=windows")

    def cmake_args(self):
        return [
            self.define("NUMALLOC_TESTS", "OFF"),
            self.define_from_variant("NUMALLOC_DUMP", "dump"),
            self.define_from_variant("NUMALLOC_NUMA", "numa"),
        ]

    def setup_run_environment(self, env):
        # Nothing is preloaded unless it is asked for: numalloc-run, or LD_PRELOAD.
        env.prepend_path("LIBRARY_PATH", self.prefix.lib)
