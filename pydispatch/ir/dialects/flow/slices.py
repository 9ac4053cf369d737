"""`flow.tensor.*`: operations on parts of tensors. A tensor is followed by its dynamic dims, `tensor<?xf32>{%d}`."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.dialects.flow.base import parse_typed, print_typed


@irdl_op_definition
class TensorLoadOp(IRDLOperation):
    """One element on the host, or a vector of them."""

    name = "flow.tensor.load"
    source = operand_def()
    source_dims = var_operand_def(IndexType)
    indices = var_operand_def(IndexType)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def parse(cls, p: Parser) -> TensorLoadOp:
        name = p.parse_unresolved_operand()
        indices = syntax.parse_index_operands(p)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        source, dims = parse_typed(p, name)
        type = source.type.get_element_type()  # type: ignore[attr-defined]
        if p.parse_optional_punctuation("->") is not None:
            type = p.parse_type()
        return cls(operands=[source, dims, indices], result_types=[type], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        if self.indices:
            syntax.print_operands(printer, self.indices, "[", "]")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        print_typed(printer, self.source.type, self.source_dims)

    def verify_(self) -> None:
        rank = len(self.source.type.get_shape())  # type: ignore[attr-defined]
        if len(self.indices) != rank:
            raise VerifyException(f"a tensor of rank {rank} takes {rank} index value(s), got {len(self.indices)}")


@irdl_op_definition
class TensorStoreOp(IRDLOperation):
    """A tensor with one element replaced on the host."""

    name = "flow.tensor.store"
    value = operand_def()
    target = operand_def()
    target_dims = var_operand_def(IndexType)
    indices = var_operand_def(IndexType)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def parse(cls, p: Parser) -> TensorStoreOp:
        value_name = p.parse_unresolved_operand()
        p.parse_punctuation(",")
        name = p.parse_unresolved_operand()
        indices = syntax.parse_index_operands(p)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        target, dims = parse_typed(p, name)
        value = p.resolve_operand(value_name, target.type.get_element_type())  # type: ignore[attr-defined]
        return cls(operands=[value, target, dims, indices], result_types=[target.type], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list([self.value, self.target], printer.print_ssa_value)
        if self.indices:
            syntax.print_operands(printer, self.indices, "[", "]")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        print_typed(printer, self.target.type, self.target_dims)


@irdl_op_definition
class TensorSliceOp(IRDLOperation):
    """A part: `%source[%starts... for %lengths...]`."""

    name = "flow.tensor.slice"
    source = operand_def()
    source_dims = var_operand_def(IndexType)
    start_indices = var_operand_def(IndexType)
    lengths = var_operand_def(IndexType)
    result_dims = var_operand_def(IndexType)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> TensorSliceOp:
        name = p.parse_unresolved_operand()
        starts: list[SSAValue] = []
        lengths: list[SSAValue] = []
        with p.in_square_brackets():
            for values in (starts, lengths):
                if values is lengths:
                    p.parse_keyword("for")
                values.append(p.parse_operand(IndexType()))
                while p.parse_optional_punctuation(",") is not None:
                    values.append(p.parse_operand(IndexType()))
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        source, dims = parse_typed(p, name)
        p.parse_punctuation("->")
        type = p.parse_type()
        result_dims = syntax.parse_dims(p, type)
        operands: list[Any] = [source, dims, starts, lengths, result_dims]
        return cls(operands=operands, result_types=[type], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string("[")

        printer.print_list(self.start_indices, printer.print_ssa_value)
        printer.print_string(" for ")
        printer.print_list(self.lengths, printer.print_ssa_value)
        printer.print_string("]")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        print_typed(printer, self.source.type, self.source_dims)
        printer.print_string(" -> ")
        print_typed(printer, self.result.type, self.result_dims)


@irdl_op_definition
class TensorUpdateOp(IRDLOperation):
    """`%target` with `%update` written at an offset: `%update, %target[%i] : T{..} -> %target as U{..}`."""

    name = "flow.tensor.update"
    target = operand_def()
    target_dims = var_operand_def(IndexType)
    start_indices = var_operand_def(IndexType)
    update = operand_def()
    update_dims = var_operand_def(IndexType)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def parse(cls, p: Parser) -> TensorUpdateOp:
        update_name = p.parse_unresolved_operand()
        p.parse_punctuation(",")
        name = p.parse_unresolved_operand()
        starts = syntax.parse_index_operands(p)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        update, update_dims = parse_typed(p, update_name)
        p.parse_punctuation("->")
        tied = p.parse_optional_unresolved_operand()
        if tied is not None:
            p.parse_keyword("as")
            if tied.operand_name != name.operand_name:
                p.raise_error(f"the result is tied to %{tied.operand_name}, expected %{name.operand_name}",
                              tied.span.start, tied.span.end)  # fmt: skip
        target, dims = parse_typed(p, name)
        operands: list[Any] = [target, dims, starts, update, update_dims]
        return cls(operands=operands, result_types=[target.type], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list([self.update, self.target], printer.print_ssa_value)
        syntax.print_operands(printer, self.start_indices, "[", "]")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        print_typed(printer, self.update.type, self.update_dims)
        printer.print_string(" -> ")
        printer.print_ssa_value(self.target)
        printer.print_string(" as ")
        print_typed(printer, self.target.type, self.target_dims)


OPERATIONS: list[type[Operation]] = [TensorLoadOp, TensorStoreOp, TensorSliceOp, TensorUpdateOp]
