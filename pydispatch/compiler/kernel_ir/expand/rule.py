"""Signature of the rules that expand operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.kernel_ir.build import Build

Rule = Callable[[Build, Operation], Sequence[SSAValue]]
"""Function that inserts the expansion of an operation before it, and returns the values that replace its results.
Raises CompileError for operations that it cannot expand."""
