"""llvmlite, set up for every target that programs are compiled for."""

from __future__ import annotations

import functools
from typing import Any


@functools.cache
def library() -> Any:
    """Return llvmlite's module `binding`, with all targets and their assembly printers initialized."""
    from llvmlite import binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm
