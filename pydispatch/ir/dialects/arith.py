"""The library's `arith` dialect, widened to what programs write: casts of vectors and tensors, and what it lacks."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    FixedBitwidthType,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    UnitAttr,
    VectorType,
    container_of,
    i1,
)
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import (
    AnyAttr,
    BaseAttr,
    IRDLOperation,
    OptPropertyDef,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.widen import element_type, give_syntax, same_shape, widen

_INTEGER = container_of(IntegerType)
_INTEGER_OR_INDEX = container_of(IntegerType) | container_of(IndexType)
_FLOAT = container_of(AnyFloat)
_ROUNDING = ("to_nearest_even", "downward", "upward", "toward_zero", "to_nearest_away")


@irdl_op_definition
class RemfOp(arith.FloatingPointLikeBinaryOperation):
    """The remainder with the sign of the dividend, as fmod gives it."""

    name = "arith.remf"
    traits = traits_def(Pure())


@irdl_op_definition
class IndexCastUIOp(IRDLOperation):
    """Between index and an integer, widening with zeros."""

    name = "arith.index_castui"
    input = operand_def(_INTEGER_OR_INDEX)
    result = result_def(_INTEGER_OR_INDEX)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def verify_(self) -> None:
        _verify_index_cast(self)


@irdl_op_definition
class ScalingExtFOp(IRDLOperation):
    """Widens a float and multiplies by a scale of type f8E8M0FNU."""

    name = "arith.scaling_extf"
    input = operand_def(_FLOAT)
    scale = operand_def(_FLOAT)
    result = result_def(_FLOAT)
    traits = traits_def(Pure())
    assembly_format = "$input `,` $scale attr-dict `:` type($input) `,` type($scale) `to` type($result)"


@irdl_op_definition
class ScalingTruncFOp(IRDLOperation):
    """Divides a float by a scale of type f8E8M0FNU and narrows it."""

    name = "arith.scaling_truncf"
    input = operand_def(_FLOAT)
    scale = operand_def(_FLOAT)
    result = result_def(_FLOAT)
    traits = traits_def(Pure())
    assembly_format = "$input `,` $scale attr-dict `:` type($input) `,` type($scale) `to` type($result)"


def _verify_index_cast(op: Any) -> None:
    same_shape(op, op.input.type, op.result.type)
    source, target = element_type(op.input.type), element_type(op.result.type)
    if isinstance(source, IndexType) == isinstance(target, IndexType):
        raise VerifyException(f"'{op.name}' casts between index and an integer, got {source} to {target}")


def _width(type: Attribute) -> int:
    element = element_type(type)
    return element.bitwidth if isinstance(element, FixedBitwidthType) else 64


def _verify_wider(op: Any) -> None:
    same_shape(op, op.input.type, op.result.type)
    if _width(op.result.type) <= _width(op.input.type):
        raise VerifyException(f"'{op.name}' widens, got {op.input.type} to {op.result.type}")


def _verify_narrower(op: Any) -> None:
    same_shape(op, op.input.type, op.result.type)
    if _width(op.result.type) >= _width(op.input.type):
        raise VerifyException(f"'{op.name}' narrows, got {op.input.type} to {op.result.type}")


def _verify_shape(op: Any) -> None:
    same_shape(op, op.input.type, op.result.type)


def _verify_bitcast(op: Any) -> None:
    same_shape(op, op.input.type, op.result.type)
    if _width(op.result.type) != _width(op.input.type):
        raise VerifyException(f"'{op.name}' keeps the width, got {op.input.type} to {op.result.type}")


def _parse_select(cls: type[arith.SelectOp], p: Parser) -> arith.SelectOp:
    """`%c, %a, %b : T`, or `: condition type, T` for a condition with a shape."""
    names = [p.parse_unresolved_operand()]
    for _ in range(2):
        p.parse_punctuation(",")
        names.append(p.parse_unresolved_operand())
    attributes = p.parse_optional_attr_dict()
    p.parse_punctuation(":")
    condition: Attribute = i1
    type = p.parse_type()
    if p.parse_optional_punctuation(",") is not None:
        condition, type = type, p.parse_type()
    operands = [p.resolve_operand(n, t) for n, t in zip(names, (condition, type, type), strict=True)]
    return cls.create(operands=operands, result_types=[type], attributes=attributes)


def _print_select(op: arith.SelectOp, printer: Printer) -> None:
    printer.print_string(" ")
    printer.print_list(op.operands, printer.print_ssa_value)
    syntax.print_attributes(printer, op.attributes, keyword=False)
    printer.print_string(" : ")
    if op.cond.type != i1:
        printer.print_attribute(op.cond.type)
        printer.print_string(", ")
    printer.print_attribute(op.result.type)


def _verify_select(op: arith.SelectOp) -> None:
    cond, type = op.cond.type, op.result.type
    if isinstance(cond, TensorType | VectorType):
        same_shape(op, cond, type)


def _parse_compare(cls: type[Operation], p: Parser) -> Operation:
    """`predicate, %a, %b : T`; the result is i1, in the shape of T. Older programs write the predicate in quotes."""
    known = arith.CMPI_COMPARISON_OPERATIONS if cls is arith.CmpiOp else arith.CMPF_COMPARISON_OPERATIONS
    start, end = p._current_token.span.start, p._current_token.span.end
    predicate = p.parse_optional_str_literal()
    if predicate is None:
        predicate = p.parse_identifier(" for the predicate")
    if predicate not in known:
        p.raise_error(f"unknown predicate '{predicate}', expected one of {', '.join(known)}", start, end)
    p.parse_punctuation(",")
    names = [p.parse_unresolved_operand()]
    p.parse_punctuation(",")
    names.append(p.parse_unresolved_operand())
    properties: dict[str, Attribute] = {"predicate": IntegerAttr(known.index(predicate), 64)}
    if cls is arith.CmpfOp:
        given = p.parse_optional_keyword("fastmath") is not None
        properties["fastmath"] = arith.FastMathFlagsAttr(
            arith.FastMathFlagsAttr.parse_parameter(p) if given else "none"
        )
    attributes = p.parse_optional_attr_dict()
    p.parse_punctuation(":")
    type = p.parse_type()
    operands = [p.resolve_operand(name, type) for name in names]
    return cls.create(operands=operands, result_types=[like(type, i1)], properties=properties, attributes=attributes)


def like(type: Attribute, element: Attribute) -> Attribute:
    """`element` in the shape of `type`."""
    if isinstance(type, TensorType):
        return TensorType(element, type.shape, type.encoding)
    if isinstance(type, VectorType):
        return VectorType(element, type.get_shape(), type.scalable_dims)
    return element


def _verify_compare(op: Any) -> None:
    same_shape(op, op.lhs.type, op.result.type)
    if op.lhs.type != op.rhs.type:
        raise VerifyException(f"'{op.name}' compares {op.lhs.type} with {op.rhs.type}")


def _parse_resize(cls: type[Operation], p: Parser) -> Operation:
    """`%a mode fastmath<...> : T to U`. Only the default rounding mode, to nearest even, is known."""
    name = p.parse_unresolved_operand()
    start = p.pos
    mode = p.parse_optional_keyword_in(_ROUNDING) if cls is arith.TruncFOp else None
    if mode is not None and mode != "to_nearest_even":
        p.raise_error(f"rounding mode '{mode}' is not supported, only to_nearest_even is", start, p.pos)
    given = p.parse_optional_keyword("fastmath") is not None
    flags = arith.FastMathFlagsAttr(arith.FastMathFlagsAttr.parse_parameter(p)) if given else None
    attributes = p.parse_optional_attr_dict()
    if flags is not None:
        attributes["fastmath"] = flags
    p.parse_punctuation(":")
    operand = p.resolve_operand(name, p.parse_type())
    p.parse_keyword("to")
    return cls.create(operands=[operand], result_types=[p.parse_type()], attributes=attributes)


def _print_resize(op: Any, printer: Printer) -> None:
    printer.print_string(" ")
    printer.print_ssa_value(op.operands[0])
    flags = op.attributes.get("fastmath")
    if isinstance(flags, arith.FastMathFlagsAttr):
        printer.print_string(" fastmath")
        flags.print_parameter(printer)
    rest = {name: value for name, value in op.attributes.items() if value is not flags}
    syntax.print_attributes(printer, rest, keyword=False)
    printer.print_string(" : ")
    printer.print_attribute(op.operands[0].type)
    printer.print_string(" to ")
    printer.print_attribute(op.results[0].type)


def _parse_exact(cls: type[Operation], p: Parser) -> Operation:
    """`%a, %b exact : T`; `exact` says that nothing is lost, which nobody needs to know."""
    names = [p.parse_unresolved_operand()]
    p.parse_punctuation(",")
    names.append(p.parse_unresolved_operand())
    properties: dict[str, Attribute] = {} if p.parse_optional_keyword("exact") is None else {"isExact": UnitAttr()}
    attributes = p.parse_optional_attr_dict()
    p.parse_punctuation(":")
    type = p.parse_type()
    operands = [p.resolve_operand(name, type) for name in names]
    return cls.create(operands=operands, result_types=[type], properties=properties, attributes=attributes)


def _print_exact(op: Any, printer: Printer) -> None:
    printer.print_string(" ")
    printer.print_list(op.operands, printer.print_ssa_value)
    if "isExact" in op.properties:
        printer.print_string(" exact")
    syntax.print_attributes(printer, op.attributes, keyword=False)
    printer.print_string(" : ")
    printer.print_attribute(op.results[0].type)


def _widen_all() -> None:
    for exact in (arith.DivSIOp, arith.DivUIOp, arith.ShRSIOp, arith.ShRUIOp):
        exact.get_irdl_definition().properties["isExact"] = OptPropertyDef(BaseAttr(UnitAttr))
        give_syntax(exact, _parse_exact, _print_exact)
    widen(arith.IndexCastOp, _INTEGER_OR_INDEX, _INTEGER_OR_INDEX, _verify_index_cast)
    widen(arith.ExtSIOp, _INTEGER, _INTEGER, _verify_wider)
    widen(arith.ExtUIOp, _INTEGER, _INTEGER, _verify_wider)
    widen(arith.TruncIOp, _INTEGER, _INTEGER, _verify_narrower)
    widen(arith.ExtFOp, _FLOAT, _FLOAT, _verify_wider)
    widen(arith.TruncFOp, _FLOAT, _FLOAT, _verify_narrower)
    widen(arith.SIToFPOp, _INTEGER, _FLOAT, _verify_shape)
    widen(arith.UIToFPOp, _INTEGER, _FLOAT, _verify_shape)
    widen(arith.FPToSIOp, _FLOAT, _INTEGER, _verify_shape)
    widen(arith.FPToUIOp, _FLOAT, _INTEGER, _verify_shape)
    widen(arith.BitcastOp, AnyAttr(), AnyAttr(), _verify_bitcast)
    for compare in (arith.CmpiOp, arith.CmpfOp):
        widen(compare, result=arith.boolLike, verify=_verify_compare)
        compare.parse = classmethod(_parse_compare)  # type: ignore[method-assign,assignment]
    condition = arith.SelectOp.get_irdl_definition().operands
    condition[0] = (condition[0][0], type(condition[0][1])(arith.boolLike))
    arith.SelectOp.parse = classmethod(_parse_select)  # type: ignore[method-assign,assignment]
    arith.SelectOp.print = _print_select  # type: ignore[method-assign,assignment]
    arith.SelectOp.verify_ = _verify_select  # type: ignore[method-assign,assignment]
    for resize in (arith.TruncFOp, arith.ExtFOp):
        resize.parse = classmethod(_parse_resize)  # type: ignore[method-assign,assignment]
        resize.print = _print_resize  # type: ignore[method-assign,assignment]


_widen_all()

_EXTRA: list[type[Operation]] = [RemfOp, IndexCastUIOp, ScalingExtFOp, ScalingTruncFOp]
Arith = Dialect("arith", [*arith.Arith.operations, *_EXTRA], [*arith.Arith.attributes])
