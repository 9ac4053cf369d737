"""`tensor.parallel_insert_slice`: what one iteration of `scf.forall` writes into a shared output."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import DenseArrayBase, IndexType, TensorType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.linalg.shape import numbers


@irdl_op_definition
class ParallelInsertSliceOp(IRDLOperation):
    """`%source into %dest[offsets] [sizes] [strides] : T into U`."""

    name = "tensor.parallel_insert_slice"
    source = operand_def(TensorType)
    dest = operand_def(TensorType)
    offsets = var_operand_def(IndexType)
    sizes = var_operand_def(IndexType)
    strides = var_operand_def(IndexType)
    static_offsets = prop_def(DenseArrayBase)
    static_sizes = prop_def(DenseArrayBase)
    static_strides = prop_def(DenseArrayBase)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def parse(cls, p: Parser) -> ParallelInsertSliceOp:
        source = p.parse_unresolved_operand()
        p.parse_keyword("into")
        dest = p.parse_unresolved_operand()
        lists = [_parse_list(p) for _ in range(3)]
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        source_value = p.resolve_operand(source, p.parse_type())
        p.parse_keyword("into")
        dest_value = p.resolve_operand(dest, p.parse_type())
        keys = ("static_offsets", "static_sizes", "static_strides")
        statics = {key: DenseArrayBase.from_list(i64, static) for key, (_, static) in zip(keys, lists, strict=True)}
        return cls(
            operands=[source_value, dest_value, *(values for values, _ in lists)], properties=dict(statics),
            attributes=attributes,
        )  # fmt: skip

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(" into ")
        printer.print_ssa_value(self.dest)
        for number, (values, statics) in enumerate(self.lists()):
            printer.print_string(" [" if number else "[")
            dynamic = iter(values)

            def one(static: int, dynamic: Iterator[SSAValue] = dynamic) -> None:
                if static == DYNAMIC:
                    printer.print_ssa_value(next(dynamic))
                else:
                    printer.print_string(str(static))

            printer.print_list(statics, one)
            printer.print_string("]")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" into ")
        printer.print_attribute(self.dest.type)

    def lists(self) -> list[tuple[tuple[SSAValue, ...], list[int]]]:
        """The dynamic values and all entries of offsets, sizes and strides; DYNAMIC where a value stands."""
        return [
            (tuple(self.offsets), numbers(self.static_offsets)),
            (tuple(self.sizes), numbers(self.static_sizes)),
            (tuple(self.strides), numbers(self.static_strides)),
        ]

    def verify_(self) -> None:
        rank = len(self.dest.type.get_shape())  # type: ignore[attr-defined]
        for _, statics in self.lists():
            if len(statics) != rank:
                raise VerifyException(f"{self.dest.type} takes {rank} offsets, sizes and strides, got {len(statics)}")


def _parse_list(p: Parser) -> tuple[list[SSAValue], list[int]]:
    values: list[SSAValue] = []
    static: list[int] = []

    def one() -> None:
        name = p.parse_optional_unresolved_operand()
        if name is not None:
            values.append(p.resolve_operand(name, IndexType()))
        static.append(DYNAMIC if name is not None else p.parse_integer(allow_boolean=False))

    p.parse_comma_separated_list(p.Delimiter.SQUARE, one)
    return values, static


OPERATIONS: list[type[Operation]] = [ParallelInsertSliceOp]
