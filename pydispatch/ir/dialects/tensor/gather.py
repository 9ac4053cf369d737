"""`tensor.gather` and `tensor.scatter`: slices of a tensor at coordinates that another tensor holds."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerType, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.dialects.tensor.verify import element_of, shape_of


@irdl_op_definition
class GatherOp(IRDLOperation):
    """result[i..., :] = source at the coordinates indices[i..., :], which pick in `gather_dims`.

    source: any rank. indices: (..., number of gather_dims), index or integers.
    """

    name = "tensor.gather"
    source = operand_def(TensorType)
    indices = operand_def(TensorType)
    gather_dims = prop_def(DenseArrayBase)
    unique = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> GatherOp:
        names = [p.parse_unresolved_operand()]
        with p.in_square_brackets():
            names.append(p.parse_unresolved_operand())
        properties, attributes = _parse_dims(p, "gather_dims")
        start = p.pos
        type = p.parse_function_type()
        operands = p.resolve_operands(names, type.inputs.data, start)
        return cls(
            operands=operands, result_types=type.outputs.data, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        syntax.print_operands(printer, [self.indices], "[", "]")
        _print_dims(printer, self, "gather_dims")

    def verify_(self) -> None:
        _check(self, self.gather_dims, self.source, self.indices)
        _check_slices(self.gather_dims, self.source, self.indices, self.result)


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """`dest` with the slices of `source` written at the coordinates of `indices`, which pick in `scatter_dims`."""

    name = "tensor.scatter"
    source = operand_def(TensorType)
    dest = operand_def(TensorType)
    indices = operand_def(TensorType)
    scatter_dims = prop_def(DenseArrayBase)
    unique = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> ScatterOp:
        names = [p.parse_unresolved_operand()]
        p.parse_keyword("into")
        names.append(p.parse_unresolved_operand())
        with p.in_square_brackets():
            names.append(p.parse_unresolved_operand())
        properties, attributes = _parse_dims(p, "scatter_dims")
        start = p.pos
        type = p.parse_function_type()
        operands = p.resolve_operands(names, type.inputs.data, start)
        return cls(
            operands=operands, result_types=type.outputs.data, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(" into ")
        printer.print_ssa_value(self.dest)
        syntax.print_operands(printer, [self.indices], "[", "]")
        _print_dims(printer, self, "scatter_dims")

    def verify_(self) -> None:
        _check(self, self.scatter_dims, self.dest, self.indices)
        _check_slices(self.scatter_dims, self.dest, self.indices, self.source)
        if self.unique is None:
            raise VerifyException("a scatter needs 'unique': coordinates that meet twice have no order")
        if self.result.type != self.dest.type:
            raise VerifyException(f"the result is {self.result.type}, expected {self.dest.type} as what it is made of")


def _parse_dims(p: Parser, keyword: str) -> tuple[dict[str, Attribute | None], dict[str, Attribute]]:
    p.parse_keyword(keyword)
    with p.in_parens():
        dims = p.parse_comma_separated_list(p.Delimiter.SQUARE, p.parse_integer, " in dimensions")
    properties: dict[str, Attribute | None] = {keyword: DenseArrayBase.from_list(i64, dims)}
    if p.parse_optional_keyword("unique") is not None:
        properties["unique"] = UnitAttr()
    attributes = p.parse_optional_attr_dict()
    p.parse_punctuation(":")
    return properties, attributes


def _print_dims(printer: Printer, op: GatherOp | ScatterOp, keyword: str) -> None:
    dims = op.gather_dims if isinstance(op, GatherOp) else op.scatter_dims
    printer.print_string(f" {keyword}([{', '.join(str(d) for d in dims.get_values())}])")
    if op.unique is not None:
        printer.print_string(" unique")
    syntax.print_attributes(printer, op.attributes, keyword=False)
    printer.print_string(" : ")
    printer.print_operation_type(op)


def _check(op: Operation, dims: DenseArrayBase[Any], target: SSAValue, indices: SSAValue) -> None:
    """The dimensions exist, rise, and are as many as the coordinates."""
    assert isinstance(target.type, TensorType) and isinstance(indices.type, TensorType)
    values = [int(d) for d in dims.get_values()]
    rank = target.type.get_num_dims()
    if not values or values != sorted(set(values)) or values[0] < 0 or values[-1] >= rank:
        raise VerifyException(f"the dimensions {values} do not rise from 0 to at most {rank - 1}")
    shape = indices.type.get_shape()
    if not shape or shape[-1] != len(values):
        raise VerifyException(f"the last dimension of {indices.type} must be {len(values)}, one for each dimension")
    if not isinstance(indices.type.get_element_type(), IndexType | IntegerType):
        raise VerifyException(f"coordinates are integers or index, got {indices.type}")


def _check_slices(dims: DenseArrayBase[Any], target: SSAValue, indices: SSAValue, slices: SSAValue) -> None:
    """The slices have the sizes of the coordinates, then those of the target, where `dims` are left out or are ones."""
    if element_of(slices) != element_of(target):
        raise VerifyException(f"{slices.type} and {target.type} differ in their elements")
    picked = {int(d) for d in dims.get_values()}
    batch, shape = shape_of(indices)[:-1], shape_of(target)
    kept = tuple(1 if d in picked else n for d, n in enumerate(shape))
    left = tuple(n for d, n in enumerate(shape) if d not in picked)
    found = shape_of(slices)
    for rest in (left, kept):
        wanted = (*batch, *rest)
        if len(found) == len(wanted) and all(
            a is None or b is None or a == b for a, b in zip(found, wanted, strict=True)
        ):
            return
    text = "x".join("?" if n is None else str(n) for n in (*batch, *left))
    raise VerifyException(f"the slices are {slices.type}, expected the shape {text}")


OPERATIONS: list[type[Operation]] = [GatherOp, ScatterOp]
