"""The tables that the repository holds are those that fit.py computes, for C and for kernels alike."""

from __future__ import annotations

from pathlib import Path

from pydispatch.compiler.devlib import fit
from pydispatch.compiler.devlib.prebuilt import SOURCES
from pydispatch.compiler.kernel_ir.math import coefficients


def test_the_tables_are_those_computed() -> None:
    in_c, in_kernels = fit.files()
    assert (SOURCES / "coefficients.h").read_text() == in_c
    assert Path(coefficients.__file__).read_text() == in_kernels
