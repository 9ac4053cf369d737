"""Prints programs so that parsing gives them back."""

from __future__ import annotations

from typing import IO

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove

from pydispatch.ir.core.dense import print_dense
from pydispatch.ir.core.refine import refinement


class ProgramPrinter(Printer):
    """Printer of programs, with our dialects' syntax for operations of xDSL.

    Args:
        stream: File to which the text is written.
        elide_bytes: Dense constants of more bytes, except splats, are printed without their elements; None prints all.
    """

    def __init__(self, stream: IO[str], elide_bytes: int | None = None) -> None:
        """Begin to print to `stream`. elide_bytes: see the class."""
        super().__init__(stream)
        self._elide_bytes = elide_bytes

    def print_op(self, op: Operation) -> None:
        """Print an operation, by the function that `refine` registered for its class if there is one.

        Such functions print the dialects' own syntax for operations of xDSL. xDSL prints all other operations, and
        every operation if the generic format is requested.
        """
        refined = refinement(type(op))
        if refined is None or refined.print is None or self.print_generic_format:
            super().print_op(op)
            return
        has_scope = op.has_trait(IsolatedFromAbove)  # names of values inside may be those of values outside
        self._print_results(op)
        if has_scope:
            self.enter_scope()
        self.print_string(op.name)
        refined.print(op, self)
        if has_scope:
            self.exit_scope()

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        """Write text, and count its columns.

        A text without a line break, the usual case, is written here, since the base class takes more time.
        """
        if self.stream is None or "\n" in text:
            super().print_string(text, indent=indent)
        else:
            self._current_column += len(text)
            self.stream.write(text)

    def print_ssa_value(self, value: SSAValue) -> str:
        """Print a value as %name, and return the name; a value without a name gets one."""
        name = self._ssa_values.get(value)
        if name is None:
            return super().print_ssa_value(value)  # chooses a name
        self.print_string("%" + name)
        return name

    def print_attribute(self, attribute: Attribute) -> None:
        """Print an attribute; long dense constants are elided."""
        if isinstance(attribute, DenseIntOrFPElementsAttr):
            print_dense(self, attribute, self._elide_bytes)
        else:
            super().print_attribute(attribute)
