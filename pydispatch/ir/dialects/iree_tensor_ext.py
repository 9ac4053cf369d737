"""`iree_tensor_ext`: what dispatches look like once the peer's compiler has formed them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, ShapedType, StringAttr
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import NoMemoryEffect, Pure

from pydispatch.ir.core import syntax
from pydispatch.ir.dialects.flow.base import parse_typed, print_typed

_ACCESS = ("readonly", "readwrite", "writeonly")


@irdl_attr_definition
class DispatchTensorType(ParametrizedAttribute, TypeAttribute):
    """`!iree_tensor_ext.dispatch.tensor<readonly:tensor<?xf32>>`: a binding seen as a tensor."""

    name = "iree_tensor_ext.dispatch.tensor"
    access: StringAttr
    bound_type: Attribute

    def get_shape(self) -> tuple[int, ...]:
        return tuple(self.bound_type.get_shape()) if isinstance(self.bound_type, ShapedType) else ()

    @classmethod
    def parse_parameters(cls, p: AttrParser) -> Sequence[Attribute]:
        with p.in_angle_brackets():
            start = p.pos
            access = p.parse_identifier(" for the access")
            if access not in _ACCESS:
                p.raise_error(f"unknown access '{access}', expected one of {', '.join(_ACCESS)}", start, p.pos)
            p.parse_punctuation(":")
            return [StringAttr(access), p.parse_type()]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.access.data}:")
        printer.print_attribute(self.bound_type)
        printer.print_string(">")


class _SliceOp(IRDLOperation):
    """`offsets = [...], sizes = [...], strides = [...]`, integers or values.

    static_offsets, static_sizes, static_strides: integers, with the dynamic index where a value stands.
    """

    offsets = var_operand_def(IndexType)
    sizes = var_operand_def(IndexType)
    strides = var_operand_def(IndexType)
    static_offsets = prop_def(ArrayAttr)
    static_sizes = prop_def(ArrayAttr)
    static_strides = prop_def(ArrayAttr)


def parse_slice(p: Parser) -> tuple[list[list[SSAValue]], dict[str, Attribute | None]]:
    values: list[list[SSAValue]] = []
    statics: dict[str, Attribute | None] = {}
    for key in ("offsets", "sizes", "strides"):
        p.parse_punctuation(",")
        p.parse_keyword(key)
        p.parse_punctuation("=")
        dynamic: list[SSAValue] = []
        static: list[Attribute] = []

        def one(dynamic: list[SSAValue] = dynamic, static: list[Attribute] = static) -> None:
            name = p.parse_optional_unresolved_operand()
            if name is None:
                static.append(IntegerAttr(p.parse_integer(), 64))
            else:
                dynamic.append(p.resolve_operand(name, IndexType()))
                static.append(IntegerAttr(syntax.DYNAMIC, 64))

        p.parse_comma_separated_list(p.Delimiter.SQUARE, one)
        values.append(dynamic)
        statics[f"static_{key}"] = ArrayAttr(static)
    return values, statics


def print_slice(printer: Printer, op: _SliceOp) -> None:
    for key in ("offsets", "sizes", "strides"):
        values = iter(getattr(op, key))
        printer.print_string(f", {key} = [")

        def one(attr: Attribute, values: object = values) -> None:
            assert isinstance(attr, IntegerAttr)
            if attr.value.data == syntax.DYNAMIC:
                printer.print_ssa_value(next(values))  # type: ignore[call-overload]
            else:
                printer.print_string(str(attr.value.data))

        printer.print_list(getattr(op, f"static_{key}"), one)
        printer.print_string("]")


@irdl_op_definition
class DispatchTensorLoadOp(_SliceOp):
    """Reads a slice of a binding."""

    name = "iree_tensor_ext.dispatch.tensor.load"
    source = operand_def(DispatchTensorType)
    source_dims = var_operand_def(IndexType)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(NoMemoryEffect())

    @classmethod
    def parse(cls, p: Parser) -> DispatchTensorLoadOp:
        name = p.parse_unresolved_operand()
        values, statics = parse_slice(p)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        type = p.parse_type()
        source = p.resolve_operand(name, type)
        dims = syntax.parse_dims(p, type)
        p.parse_punctuation("->")
        return cls(
            operands=[source, dims, *values], result_types=[p.parse_type()], properties=statics, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        print_slice(printer, self)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        syntax.print_dims(printer, self.source_dims)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class DispatchTensorStoreOp(_SliceOp):
    """Writes a slice of a binding."""

    name = "iree_tensor_ext.dispatch.tensor.store"
    value = operand_def()
    target = operand_def(DispatchTensorType)
    target_dims = var_operand_def(IndexType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def parse(cls, p: Parser) -> DispatchTensorStoreOp:
        value_name = p.parse_unresolved_operand()
        p.parse_punctuation(",")
        name = p.parse_unresolved_operand()
        values, statics = parse_slice(p)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        value = p.resolve_operand(value_name, p.parse_type())
        p.parse_punctuation("->")
        type = p.parse_type()
        target = p.resolve_operand(name, type)
        dims = syntax.parse_dims(p, type)
        return cls(operands=[value, target, dims, *values], properties=statics, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list([self.value, self.target], printer.print_ssa_value)
        print_slice(printer, self)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.target.type)
        syntax.print_dims(printer, self.target_dims)


@irdl_op_definition
class WorkloadOrdinalOp(IRDLOperation):
    """Marks a kernel argument as the n-th workload value."""

    name = "iree_tensor_ext.dispatch.workload.ordinal"
    operand = operand_def(IndexType)
    ordinal = prop_def(IntegerAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> WorkloadOrdinalOp:
        operand = p.parse_operand(IndexType())
        p.parse_punctuation(",")
        ordinal = IntegerAttr(p.parse_integer(), IndexType())
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        p.parse_type()
        return cls(
            operands=[operand], result_types=[IndexType()], properties={"ordinal": ordinal}, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.operand)
        printer.print_string(f", {self.ordinal.value.data}")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : index")


class _CountOp(IRDLOperation):
    """A grid that is worked out of the kernel's own loops."""

    operands_ = var_operand_def(IndexType)
    x = result_def(IndexType)
    y = result_def(IndexType)
    z = result_def(IndexType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        operands = syntax.parse_index_operands(p, "(", ")")
        return cls(operands=[operands], result_types=[IndexType()] * 3, attributes=p.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        syntax.print_operands(printer, self.operands_)
        syntax.print_attributes(printer, self.attributes, keyword=False)


@irdl_op_definition
class WorkgroupCountFromSliceOp(_CountOp):
    name = "iree_tensor_ext.dispatch.workgroup_count_from_slice"


@irdl_op_definition
class WorkgroupCountFromDagRootOp(_CountOp):
    name = "iree_tensor_ext.dispatch.workgroup_count_from_dag_root"


class _BarrierOp(IRDLOperation):
    """Passes a tensor on; work does not move across."""

    source = operand_def()
    source_dims = var_operand_def(IndexType)
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        name = p.parse_unresolved_operand()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        type = p.parse_type()
        source = p.resolve_operand(name, type)
        dims = syntax.parse_dims(p, type)
        p.parse_punctuation("->")
        return cls(operands=[source, dims], result_types=[p.parse_type()], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        syntax.print_dims(printer, self.source_dims)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class ComputeBarrierStartOp(_BarrierOp):
    name = "iree_tensor_ext.compute_barrier.start"


@irdl_op_definition
class ComputeBarrierEndOp(_BarrierOp):
    name = "iree_tensor_ext.compute_barrier.end"


@irdl_op_definition
class BitCastOp(IRDLOperation):
    """The same bytes as another type: `%source : T{%d} -> U{%e}`."""

    name = "iree_tensor_ext.bitcast"
    source = operand_def()
    source_dims = var_operand_def(IndexType)
    result_dims = var_operand_def(IndexType)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> BitCastOp:
        name = p.parse_unresolved_operand()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        source, source_dims = parse_typed(p, name)
        p.parse_punctuation("->")
        type = p.parse_type()
        result_dims = syntax.parse_dims(p, type)
        return cls(operands=[source, source_dims, result_dims], result_types=[type], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        print_typed(printer, self.source.type, self.source_dims)
        printer.print_string(" -> ")
        print_typed(printer, self.result.type, self.result_dims)


TensorExt = Dialect(
    "iree_tensor_ext",
    [
        DispatchTensorLoadOp, DispatchTensorStoreOp, WorkloadOrdinalOp, WorkgroupCountFromSliceOp,
        WorkgroupCountFromDagRootOp, ComputeBarrierStartOp, ComputeBarrierEndOp, BitCastOp,
    ],
    [DispatchTensorType],
)  # fmt: skip
