"""The `arith` dialect of xDSL, extended by casts of vectors and tensors, and by operations that it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    FixedBitwidthType,
    IndexType,
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
    OptAttributeDef,
    OptPropertyDef,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.irdl.declarative_assembly_format import CustomDirective, ParsingState, PrintingState, TypeDirective
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import NumberedChoice, directive
from pydispatch.ir.core.elements import check_same_shape, element_type
from pydispatch.ir.core.refine import refine

_INTEGER = container_of(IntegerType)
"""Constraint of an integer, or of a vector or tensor of integers."""
_INTEGER_OR_INDEX = container_of(IntegerType) | container_of(IndexType)
"""Constraint of an integer or index, or of a vector or tensor of them."""
_FLOAT = container_of(AnyFloat)
"""Constraint of a float, or of a vector or tensor of floats."""
_ROUNDING = ("to_nearest_even", "downward", "upward", "toward_zero", "to_nearest_away")
"""Rounding modes of MLIR, of which `Rounding` accepts the first one only."""


@op_definition
class RemfOp(arith.FloatingPointLikeBinaryOperation):
    """Floating-point remainder with the sign of the dividend, as fmod computes it."""

    name = "arith.remf"
    traits = traits_def(Pure())


@op_definition
class IndexCastUIOp(IRDLOperation):
    """Zero-extending cast between index and an integer type."""

    name = "arith.index_castui"
    input = operand_def(_INTEGER_OR_INDEX)
    result = result_def(_INTEGER_OR_INDEX)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def verify_(self) -> None:
        """Check the types as those of `arith.index_cast`."""
        _verify_index_cast(self)


@op_definition
class ScalingExtFOp(IRDLOperation):
    """Conversion of each element to a wider float, multiplied by its scale, an element of type f8E8M0FNU."""

    name = "arith.scaling_extf"
    input = operand_def(_FLOAT)
    scale = operand_def(_FLOAT)
    result = result_def(_FLOAT)
    traits = traits_def(Pure())
    assembly_format = "$input `,` $scale attr-dict `:` type($input) `,` type($scale) `to` type($result)"


@op_definition
class ScalingTruncFOp(IRDLOperation):
    """Division of each element by its scale, an element of type f8E8M0FNU, then conversion to a narrower float."""

    name = "arith.scaling_truncf"
    input = operand_def(_FLOAT)
    scale = operand_def(_FLOAT)
    result = result_def(_FLOAT)
    traits = traits_def(Pure())
    assembly_format = "$input `,` $scale attr-dict `:` type($input) `,` type($scale) `to` type($result)"


def _verify_index_cast(op: Any) -> None:
    """Check that one of the two element types is index, the other an integer, and that the shapes are equal."""
    check_same_shape(op, op.input.type, op.result.type)
    source, target = element_type(op.input.type), element_type(op.result.type)
    if isinstance(source, IndexType) == isinstance(target, IndexType):
        raise VerifyException(f"'{op.name}' casts between index and an integer, got {source} to {target}")


def _width(type: Attribute) -> int:
    """Return the bits of an element; 64 for index."""
    element = element_type(type)
    return element.bitwidth if isinstance(element, FixedBitwidthType) else 64


def _verify_wider(op: Any) -> None:
    """Check that a conversion makes elements wider."""
    check_same_shape(op, op.input.type, op.result.type)
    if _width(op.result.type) <= _width(op.input.type):
        raise VerifyException(f"'{op.name}' widens, got {op.input.type} to {op.result.type}")


def _verify_narrower(op: Any) -> None:
    """Check that a conversion makes elements narrower."""
    check_same_shape(op, op.input.type, op.result.type)
    if _width(op.result.type) >= _width(op.input.type):
        raise VerifyException(f"'{op.name}' narrows, got {op.input.type} to {op.result.type}")


def _verify_shape(op: Any) -> None:
    """Check that a conversion keeps the shape."""
    check_same_shape(op, op.input.type, op.result.type)


def _verify_bitcast(op: Any) -> None:
    """Check that the shape and the width of elements are kept."""
    check_same_shape(op, op.input.type, op.result.type)
    if _width(op.result.type) != _width(op.input.type):
        raise VerifyException(f"'{op.name}' keeps the width, got {op.input.type} to {op.result.type}")


def _verify_select(op: arith.SelectOp) -> None:
    """Check that a tensor or vector of conditions has the shape of the values; an i1 selects whole values."""
    cond, type = op.cond.type, op.result.type
    if isinstance(cond, TensorType | VectorType):
        check_same_shape(op, cond, type)


def _verify_compare(predicate: type[NumberedChoice], op: Any) -> None:
    """Check the predicate of a comparison, that both sides have one type, and that the result has their shape."""
    predicate.verify_index(op.predicate)
    check_same_shape(op, op.lhs.type, op.result.type)
    if op.lhs.type != op.rhs.type:
        raise VerifyException(f"'{op.name}' compares {op.lhs.type} with {op.rhs.type}")


@directive
class SelectTypes(CustomDirective):
    """Directive for the types of a select: `T`, or `condition type, T` if the condition has a shape."""

    cond: TypeDirective
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `T`, the type of both values, or `C, T` if the type C of the condition is not i1."""
        cond: Attribute = i1
        type = parser.parse_type()
        if parser.parse_optional_punctuation(",") is not None:
            cond, type = type, parser.parse_type()
        self.cond.set(state, (cond,))
        self.result.set(state, (type,))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `T`, or `condition type, T` if the condition is no i1."""
        types = [*self.cond.get(op), *self.result.get(op)]
        state.print_whitespace(printer)
        printer.print_list(types[1:] if types[0] == i1 else types, printer.print_attribute)


@directive
class IntegerPredicate(NumberedChoice):
    """Directive for a comparison predicate of integers, printed as a word; older programs write it in quotes."""

    WORDS: ClassVar[Sequence[str]] = arith.CMPI_COMPARISON_OPERATIONS
    WHAT: ClassVar[str] = "predicate"


@directive
class FloatPredicate(NumberedChoice):
    """Directive for a comparison predicate of floats, such as `olt`: the attribute is the index of the word."""

    WORDS: ClassVar[Sequence[str]] = arith.CMPF_COMPARISON_OPERATIONS
    WHAT: ClassVar[str] = "predicate"


@directive
class Rounding(CustomDirective):
    """Directive for the rounding mode; only the default, round to nearest even, is supported."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse a rounding mode; only `to_nearest_even` is supported."""
        start = parser.pos
        mode = parser.parse_optional_keyword_in(_ROUNDING)
        if mode is not None and mode != "to_nearest_even":
            parser.raise_error(f"rounding mode '{mode}' is not supported, only to_nearest_even is", start, parser.pos)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print nothing: the only supported rounding mode is the default."""


# Part of an assembly format without text: it sets the types of `lhs` and `rhs` to that of the result, parsed before.
_SAME = "custom<SameTypes>(type($lhs), ref(type($result))) custom<SameTypes>(type($rhs), ref(type($result)))"
_SELECTED = "custom<SelectTypes>(type($cond), type($result))"
"""Types of a select: `f32`, the result's; after a condition type other than i1: `vector<4xi1>, vector<4xf32>`."""
_TO = "attr-dict `:` type($input) `to` type($result)"
"""Attributes and types of a cast: `: f32 to f64`."""
_FASTMATH = "(`fastmath` `` $fastmath^)?"
"""Optional flags of float arithmetic: `fastmath<fast>`."""
_COMPARED = (
    "attr-dict `:` type($lhs) custom<SameTypes>(type($rhs), ref(type($lhs))) "
    "custom<TruthOf>(type($result), ref(type($lhs)))"
)
"""Types of a comparison, of which only the left operand's is written: the result has i1 for each of its elements."""


def _refine_all() -> None:
    """Replace the syntax of xDSL's arith operations by MLIR's, and extend the types of their operands.

    For example, `arith.extsi %a : vector<4xi8> to vector<4xi32>` is accepted, where xDSL's operation takes scalars
    only. Each call of `refine` states the assembly format, the constraints on types and a check of one operation.
    `_SAME`, `_TO`, `_FASTMATH`, `_COMPARED` and `_SELECTED` are parts of assembly formats.
    """
    for exact in (arith.DivSIOp, arith.DivUIOp, arith.ShRSIOp, arith.ShRUIOp):
        # `exact` promises that the division or shift loses no bits; it is accepted and has no effect.
        refine(exact, assembly_format=f"$lhs `,` $rhs (`exact` $isExact^)? attr-dict `:` type($result) {_SAME}",
               properties={"isExact": OptPropertyDef(BaseAttr(UnitAttr))})  # fmt: skip
    # Casts: constraint of the operand's type, constraint of the result's type, and check of both types.
    for cast, operands, results, check in (
        (arith.IndexCastOp, _INTEGER_OR_INDEX, _INTEGER_OR_INDEX, _verify_index_cast),
        (arith.ExtSIOp, _INTEGER, _INTEGER, _verify_wider),
        (arith.ExtUIOp, _INTEGER, _INTEGER, _verify_wider),
        (arith.TruncIOp, _INTEGER, _INTEGER, _verify_narrower),
        (arith.SIToFPOp, _INTEGER, _FLOAT, _verify_shape),
        (arith.UIToFPOp, _INTEGER, _FLOAT, _verify_shape),
        (arith.FPToSIOp, _FLOAT, _INTEGER, _verify_shape),
        (arith.FPToUIOp, _FLOAT, _INTEGER, _verify_shape),
        (arith.BitcastOp, AnyAttr(), AnyAttr(), _verify_bitcast),
    ):
        refine(cast, assembly_format=f"$input {_TO}", operands=operands, results=results, check=check)
    # Casts of floats, comparisons and the select have further clauses in their syntax.
    flags = {"fastmath": OptAttributeDef(BaseAttr(arith.FastMathFlagsAttr))}
    refine(arith.ExtFOp, assembly_format=f"$input {_FASTMATH} {_TO}", attributes=flags, operands=_FLOAT,
           results=_FLOAT, check=_verify_wider)  # fmt: skip
    refine(arith.TruncFOp, assembly_format=f"$input custom<Rounding>() {_FASTMATH} {_TO}", attributes=flags,
           directives=(Rounding,), operands=_FLOAT, results=_FLOAT, check=_verify_narrower)  # fmt: skip
    refine(arith.CmpiOp, assembly_format=f"custom<IntegerPredicate>($predicate) `,` $lhs `,` $rhs {_COMPARED}",
           directives=(IntegerPredicate,), results=arith.boolLike,
           check=partial(_verify_compare, IntegerPredicate))  # fmt: skip
    refine(arith.CmpfOp,
           assembly_format=f"custom<FloatPredicate>($predicate) `,` $lhs `,` $rhs {_FASTMATH} {_COMPARED}",
           directives=(FloatPredicate,), results=arith.boolLike,
           check=partial(_verify_compare, FloatPredicate))  # fmt: skip
    refine(arith.SelectOp, operands={"cond": arith.boolLike}, check=_verify_select, directives=(SelectTypes,),
           assembly_format=f"$cond `,` $lhs `,` $rhs attr-dict `:` {_SELECTED} {_SAME}")  # fmt: skip


_refine_all()

_EXTRA: list[type[Operation]] = [RemfOp, IndexCastUIOp, ScalingExtFOp, ScalingTruncFOp]
"""Operations of MLIR that xDSL lacks."""
Arith = Dialect("arith", [*arith.Arith.operations, *_EXTRA], [*arith.Arith.attributes])
