"""`tensor.empty` may carry attributes: the library's syntax has no place for them."""

from __future__ import annotations

from xdsl.dialects import tensor
from xdsl.parser import Parser
from xdsl.printer import Printer

from pydispatch.ir.core import syntax
from pydispatch.ir.core.widen import give_syntax


def _parse(cls: type[tensor.EmptyOp], p: Parser) -> tensor.EmptyOp:
    sizes = syntax.parse_index_operands(p, "(", ")")
    attributes = p.parse_optional_attr_dict()
    p.parse_punctuation(":")
    op = cls(sizes, p.parse_type())
    op.attributes |= attributes
    return op


def _print(op: tensor.EmptyOp, printer: Printer) -> None:
    syntax.print_operands(printer, op.dynamic_sizes)
    syntax.print_attributes(printer, op.attributes, keyword=False)
    printer.print_string(" : ")
    printer.print_attribute(op.tensor.type)


give_syntax(tensor.EmptyOp, _parse, _print)
