"""Prints programs so that parsing gives them back."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove

from pydispatch.ir.core.dense import print_dense
from pydispatch.ir.core.refine import refinement


class ProgramPrinter(Printer):
    """The library's printer, with the syntax that our dialects give to operations of the library."""

    def print_op(self, op: Operation) -> None:
        refined = refinement(type(op))
        if refined is None or refined.print is None or self.print_generic_format:
            super().print_op(op)
            return
        scope = op.has_trait(IsolatedFromAbove)
        self._print_results(op)
        if scope:
            self.enter_scope()
        self.print_string(op.name)
        refined.print(op, self)
        if scope:
            self.exit_scope()

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, DenseIntOrFPElementsAttr):
            print_dense(self, attribute)
        else:
            super().print_attribute(attribute)
