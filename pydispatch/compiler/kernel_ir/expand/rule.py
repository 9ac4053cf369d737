"""Signature of the rules that expand operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.kernel_ir.build import Build

Rule = Callable[[Build, Operation], Sequence[SSAValue]]
"""Writes other operations before one, and returns what takes the place of its results. Raises CompileError for
what cannot be expanded."""
