"""`pyd.transpose`: a small block of memory, turned, in kernel IR for CPUs."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """`pyd.transpose %from, %to : memref<RxC…>, memref<CxR…>`: to[j, i] = from[i, j].

    Both are static, rows are contiguous in both, and they do not overlap. Elements are whole bytes.
    """

    name = "pyd.transpose"
    source = operand_def(MemRefType)
    target = operand_def(MemRefType)

    @classmethod
    def parse(cls, p: Parser) -> TransposeOp:
        names = p.parse_comma_separated_list(p.Delimiter.NONE, p.parse_unresolved_operand)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        start = p.pos
        types = p.parse_comma_separated_list(p.Delimiter.NONE, p.parse_type)
        if len(names) != 2 or len(types) != 2:
            p.raise_error("expected two operands and two types", start, p.pos)
        operands = [p.resolve_operand(name, type) for name, type in zip(names, types, strict=True)]
        return cls(operands=operands, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_list(self.operands, lambda v: printer.print_attribute(v.type))

    def verify_(self) -> None:
        source, target = self.source.type, self.target.type
        assert isinstance(source, MemRefType) and isinstance(target, MemRefType)
        shape = source.get_shape()
        if len(shape) != 2 or any(n < 1 for n in shape):
            raise VerifyException(f"pyd.transpose turns static blocks of two dimensions, got {source}")
        if tuple(target.get_shape()) != (shape[1], shape[0]) or source.element_type != target.element_type:
            raise VerifyException(f"pyd.transpose of {source} is not {target}")


OPERATIONS: list[type[Operation]] = [TransposeOp]
