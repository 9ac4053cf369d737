"""The library's `memref` and `gpu` dialects, with the syntax that some of their operations lack there."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import gpu, memref
from xdsl.dialects.builtin import IndexType, IntegerAttr, i64
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer

from pydispatch.ir.core import syntax
from pydispatch.ir.core.widen import give_syntax
from pydispatch.ir.dialects.memref.views import ReshapeOp, TransposeOp

_RMW = ("addf", "addi", "assign", "maximumf", "maxs", "maxu", "minimumf", "mins", "minu", "mulf", "muli", "ori", "andi",
        "maxnumf", "minnumf", "xori")  # fmt: skip


def _parse_cast(cls: type[IRDLOperation], p: Parser) -> IRDLOperation:
    """`%source : T to U`."""
    name = p.parse_unresolved_operand()
    attributes = p.parse_optional_attr_dict()
    p.parse_punctuation(":")
    source = p.resolve_operand(name, p.parse_type())
    p.parse_keyword("to")
    return cls.create(operands=[source], result_types=[p.parse_type()], attributes=attributes)


def _print_cast(op: Any, printer: Printer) -> None:
    printer.print_string(" ")
    printer.print_ssa_value(op.operands[0])
    syntax.print_attributes(printer, op.attributes, keyword=False)
    printer.print_string(" : ")
    printer.print_attribute(op.operands[0].type)
    printer.print_string(" to ")
    printer.print_attribute(op.results[0].type)


def _parse_copy(cls: type[IRDLOperation], p: Parser) -> IRDLOperation:
    """`%source, %destination : T to U`."""
    first = p.parse_unresolved_operand()
    p.parse_punctuation(",")
    second = p.parse_unresolved_operand()
    attributes = p.parse_optional_attr_dict()
    p.parse_punctuation(":")
    source = p.resolve_operand(first, p.parse_type())
    p.parse_keyword("to")
    return cls.create(operands=[source, p.resolve_operand(second, p.parse_type())], attributes=attributes)


def _print_copy(op: Any, printer: Printer) -> None:
    printer.print_string(" ")
    printer.print_list(op.operands, printer.print_ssa_value)
    syntax.print_attributes(printer, op.attributes, keyword=False)
    printer.print_string(" : ")
    printer.print_attribute(op.operands[0].type)
    printer.print_string(" to ")
    printer.print_attribute(op.operands[1].type)


def _parse_pointer(cls: type[IRDLOperation], p: Parser) -> IRDLOperation:
    """`%source : T -> index`."""
    name = p.parse_unresolved_operand()
    p.parse_punctuation(":")
    source = p.resolve_operand(name, p.parse_type())
    p.parse_punctuation("->")
    p.parse_type()
    return cls.create(operands=[source], result_types=[IndexType()], attributes=p.parse_optional_attr_dict())


def _print_pointer(op: Any, printer: Printer) -> None:
    printer.print_string(" ")
    printer.print_ssa_value(op.operands[0])
    printer.print_string(" : ")
    printer.print_attribute(op.operands[0].type)
    printer.print_string(" -> index")
    syntax.print_attributes(printer, op.attributes, keyword=False)


def _parse_rmw(cls: type[IRDLOperation], p: Parser) -> IRDLOperation:
    """`kind %value, %memref[%i] : (T, memref) -> T`."""
    start = p.pos
    kind = p.parse_identifier(" for the kind")
    if kind not in _RMW:
        p.raise_error(f"unknown kind '{kind}', expected one of {', '.join(_RMW)}", start, p.pos)
    value_name = p.parse_unresolved_operand()
    p.parse_punctuation(",")
    name = p.parse_unresolved_operand()
    indices = syntax.parse_index_operands(p)
    attributes = p.parse_optional_attr_dict()
    p.parse_punctuation(":")
    type = p.parse_function_type()
    value = p.resolve_operand(value_name, type.inputs.data[0])
    target = p.resolve_operand(name, type.inputs.data[1])
    properties = {"kind": IntegerAttr(_RMW.index(kind), i64)}
    operands = [value, target, *indices]
    return cls.create(
        operands=operands, result_types=type.outputs.data, properties=dict(properties), attributes=attributes
    )


def _print_rmw(op: memref.AtomicRMWOp, printer: Printer) -> None:
    printer.print_string(f" {_RMW[op.kind.value.data]} ")
    printer.print_list([op.value, op.memref], printer.print_ssa_value)
    syntax.print_operands(printer, op.indices, "[", "]")
    syntax.print_attributes(printer, op.attributes, keyword=False)
    printer.print_string(" : (")
    printer.print_list([op.value, op.memref], lambda v: printer.print_attribute(v.type))
    printer.print_string(") -> ")
    printer.print_attribute(op.result.type)


def _parse_barrier(cls: type[IRDLOperation], p: Parser) -> IRDLOperation:
    if p.parse_optional_keyword("memfence") is not None:
        p.parse_attribute()
    return cls.create(attributes=p.parse_optional_attr_dict())


def _print_barrier(op: Any, printer: Printer) -> None:
    syntax.print_attributes(printer, op.attributes, keyword=False)


def _parse_dimension(cls: type[IRDLOperation], p: Parser) -> IRDLOperation:
    """`x`, with an upper bound that is not kept."""
    start = p.pos
    name = p.parse_identifier(" for the dimension")
    if name not in ("x", "y", "z"):
        p.raise_error(f"unknown dimension '{name}', expected x, y or z", start, p.pos)
    dimension = gpu.DimensionAttr(gpu.DimensionEnum(name))
    if p.parse_optional_keyword("upper_bound") is not None:
        syntax.parse_integer_attr(p, IndexType())
    return cls.create(
        result_types=[IndexType()], properties={"dimension": dimension}, attributes=p.parse_optional_attr_dict()
    )


def _print_dimension(op: Any, printer: Printer) -> None:
    printer.print_string(f" {op.dimension.data.value}")
    syntax.print_attributes(printer, op.attributes, keyword=False)


give_syntax(memref.CopyOp, _parse_copy, _print_copy)
give_syntax(memref.CastOp, _parse_cast, _print_cast)
give_syntax(memref.MemorySpaceCastOp, _parse_cast, _print_cast)
give_syntax(memref.ExtractAlignedPointerAsIndexOp, _parse_pointer, _print_pointer)
give_syntax(memref.AtomicRMWOp, _parse_rmw, _print_rmw)
give_syntax(gpu.BarrierOp, _parse_barrier, _print_barrier)
for _op in (gpu.ThreadIdOp, gpu.BlockIdOp, gpu.BlockDimOp, gpu.GridDimOp, gpu.GlobalIdOp):
    give_syntax(_op, _parse_dimension, _print_dimension)

MemRef = Dialect("memref", [*memref.MemRef.operations, TransposeOp, ReshapeOp], [*memref.MemRef.attributes])
GPU: Dialect = gpu.GPU
