"""%%numalloc in Jupyter and IPython (%load_ext numalloc): a profile of the cell, and what has most of it.

    %%numalloc [FILE]

FILE keeps the profile. The kernel has to run with the library: numalloc-run --python jupyter lab."""
import os
import tempfile

import numalloc
from numalloc import reading


def register(ipython):
    def cell(line, text):
        """%%numalloc [FILE]: what the cell has at its peak, and leaves."""
        with tempfile.TemporaryDirectory(prefix="numalloc-") as folder:
            file = line.strip() or os.path.join(folder, "cell.nprof")
            with numalloc.profile(file):
                ipython.run_cell(text)
            figures = reading.Figures(file)
            print("numalloc: peak %s; %s left in %d blocks" % (reading.text(figures.peak), reading.text(figures.left),
                                                               figures.blocks))
            print("\n".join(figures.lines("peak", 5)))

    ipython.register_magic_function(cell, "cell", "numalloc")
