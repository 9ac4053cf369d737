"""The library's `tensor` dialect with operations it lacks."""

from __future__ import annotations

from math import prod

from xdsl.dialects import tensor
from xdsl.dialects.builtin import IndexType, TensorType
from xdsl.ir import Dialect, Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.widen import same_shape, widen
from pydispatch.ir.dialects.linalg import shape as linalg_shape
from pydispatch.ir.dialects.tensor import empty as _tensor_empty  # noqa: F401  (gives tensor.empty its attributes)
from pydispatch.ir.dialects.tensor import expand as _tensor_expand  # noqa: F401  (lets output_shape be left out)
from pydispatch.ir.dialects.tensor import gather, insert
from pydispatch.ir.dialects.tensor.verify import element_of, shape_of, verify_yield


@irdl_op_definition
class GenerateOp(IRDLOperation):
    """A tensor whose elements the body computes from their index."""

    name = "tensor.generate"
    dynamic_extents = var_operand_def(IndexType)
    body = region_def("single_block")
    result = result_def(TensorType)

    @classmethod
    def parse(cls, p: Parser) -> GenerateOp:
        extents = []
        while (name := p.parse_optional_unresolved_operand()) is not None:
            extents.append(p.resolve_operand(name, IndexType()))
            if p.parse_optional_punctuation(",") is None:
                break
        body = p.parse_region()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        return cls(operands=[extents], result_types=[p.parse_type()], regions=[body], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.dynamic_extents, printer.print_ssa_value)
        printer.print_string(" ")
        printer.print_region(self.body)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        expected = syntax.dynamic_dims(self.result.type)
        if len(self.dynamic_extents) != expected:
            raise VerifyException(
                f"{self.result.type} has {expected} dynamic dimension(s), got {len(self.dynamic_extents)} extent(s)"
            )
        verify_yield(self, element_of(self.result), len(shape_of(self.result)))


@irdl_op_definition
class RankOp(IRDLOperation):
    """How many dimensions a tensor has."""

    name = "tensor.rank"
    tensor = operand_def()
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$tensor attr-dict `:` type($tensor)"


@irdl_op_definition
class BitcastOp(IRDLOperation):
    """The same bits in elements of another type of the same width."""

    name = "tensor.bitcast"
    source = operand_def(TensorType)
    dest = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($dest)"

    def verify_(self) -> None:
        same_shape(self, self.source.type, self.dest.type)
        widths = [getattr(element_of(v), "bitwidth", None) for v in (self.source, self.dest)]
        if widths[0] != widths[1]:
            raise VerifyException(f"the elements of {self.source.type} and {self.dest.type} differ in width")


def _verify_empty(op: tensor.EmptyOp) -> None:
    expected = syntax.dynamic_dims(op.tensor.type)
    if len(op.dynamic_sizes) != expected:
        raise VerifyException(f"{op.tensor.type} has {expected} dynamic size(s), got {len(op.dynamic_sizes)} value(s)")


def _verify_reshape(op: tensor.ReshapeOp) -> None:
    """Static sizes fit, and there is one entry of the shape for each dimension of the result."""
    source, shape, result = op.source.type, op.shape.type, op.result.type
    assert isinstance(source, TensorType) and isinstance(shape, TensorType) and isinstance(result, TensorType)
    if source.element_type != result.element_type:
        raise VerifyException(f"a reshape keeps the element type, got {source} to {result}")
    if len(shape.get_shape()) != 1 or shape.get_shape()[0] not in (result.get_num_dims(), syntax.DYNAMIC, -1):
        raise VerifyException(f"the shape of {result} has {result.get_num_dims()} entries, got {shape}")
    if source.has_static_shape() and result.has_static_shape() and prod(source.get_shape()) != prod(result.get_shape()):
        raise VerifyException(f"{source} and {result} have different numbers of elements")


widen(tensor.ReshapeOp, verify=_verify_reshape)
widen(tensor.EmptyOp, verify=_verify_empty)

_EXTRA: list[type[Operation]] = [GenerateOp, RankOp, BitcastOp]
Tensor = Dialect(
    "tensor",
    [
        *tensor.Tensor.operations, *_EXTRA, *gather.OPERATIONS, *insert.OPERATIONS,
        *linalg_shape.TENSOR_OPERATIONS,
    ],
    [*tensor.Tensor.attributes],
)  # fmt: skip
