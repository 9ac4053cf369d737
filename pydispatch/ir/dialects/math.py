"""The library's `math` dialect with the operations it lacks."""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import AnyFloat, IntegerType, ShapedType, container_of, i1
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure, SameOperandsAndResultType

from pydispatch.ir.core import syntax

_FLOAT = container_of(AnyFloat)


def parse_fastmath(p: Parser) -> FastMathFlagsAttr | None:
    """`fastmath<...>`, or nothing."""
    if p.parse_optional_keyword("fastmath") is None:
        return None
    return FastMathFlagsAttr(FastMathFlagsAttr.parse_parameter(p))


def print_fastmath(printer: Printer, flags: FastMathFlagsAttr | None) -> None:
    if flags is not None:
        printer.print_string(" fastmath")
        flags.print_parameter(printer)


@irdl_op_definition
class ErfcOp(IRDLOperation):
    """1 - erf."""

    name = "math.erfc"
    operand = operand_def(_FLOAT)
    fastmath = opt_prop_def(FastMathFlagsAttr)
    result = result_def(_FLOAT)
    traits = traits_def(Pure(), SameOperandsAndResultType())

    @classmethod
    def parse(cls, p: Parser) -> ErfcOp:
        name = p.parse_unresolved_operand()
        flags = parse_fastmath(p)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        type = p.parse_type()
        return cls(operands=[p.resolve_operand(name, type)], result_types=[type], properties={"fastmath": flags},
                   attributes=attributes)  # fmt: skip

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.operand)
        print_fastmath(printer, self.fastmath)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.operand.type)


class ClassifyOp(IRDLOperation):
    """A test of a float; the result is i1 in the shape of the operand."""

    operand = operand_def(_FLOAT)
    fastmath = opt_prop_def(FastMathFlagsAttr)
    result = result_def(container_of(IntegerType(1)))
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        name = p.parse_unresolved_operand()
        flags = parse_fastmath(p)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        type = p.parse_type()
        result: Attribute = i1
        if isinstance(type, ShapedType):
            # Tensors and vectors are rebuilt around another element type.
            result = type.__class__(i1, type.get_shape())  # type: ignore[call-arg]
        return cls(operands=[p.resolve_operand(name, type)], result_types=[result], properties={"fastmath": flags},
                   attributes=attributes)  # fmt: skip

    def print(self, printer: Printer) -> None:
        ErfcOp.print(self, printer)  # type: ignore[arg-type]


@irdl_op_definition
class IsNaNOp(ClassifyOp):
    name = "math.isnan"


@irdl_op_definition
class IsInfOp(ClassifyOp):
    name = "math.isinf"


@irdl_op_definition
class IsFiniteOp(ClassifyOp):
    name = "math.isfinite"


@irdl_op_definition
class IsNormalOp(ClassifyOp):
    name = "math.isnormal"


@irdl_op_definition
class ClampFOp(IRDLOperation):
    """The value, or the bound that it is beyond."""

    name = "math.clampf"
    value = operand_def(_FLOAT)
    min = operand_def(_FLOAT)
    max = operand_def(_FLOAT)
    fastmath = opt_prop_def(FastMathFlagsAttr)
    result = result_def(_FLOAT)
    traits = traits_def(Pure(), SameOperandsAndResultType())

    @classmethod
    def parse(cls, p: Parser) -> ClampFOp:
        names = [p.parse_unresolved_operand()]
        p.parse_keyword("to")
        with p.in_square_brackets():
            names.append(p.parse_unresolved_operand())
            p.parse_punctuation(",")
            names.append(p.parse_unresolved_operand())
        flags = parse_fastmath(p)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        type = p.parse_type()
        operands = [p.resolve_operand(n, type) for n in names]
        return cls(operands=operands, result_types=[type], properties={"fastmath": flags}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(" to [")
        printer.print_list([self.min, self.max], printer.print_ssa_value)
        printer.print_string("]")
        print_fastmath(printer, self.fastmath)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class SinCosOp(IRDLOperation):
    """Both at once."""

    name = "math.sincos"
    operand = operand_def(_FLOAT)
    fastmath = opt_prop_def(FastMathFlagsAttr)
    sin = result_def(_FLOAT)
    cos = result_def(_FLOAT)
    traits = traits_def(Pure(), SameOperandsAndResultType())

    @classmethod
    def parse(cls, p: Parser) -> SinCosOp:
        name = p.parse_unresolved_operand()
        flags = parse_fastmath(p)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        type = p.parse_type()
        return cls(operands=[p.resolve_operand(name, type)], result_types=[type, type],
                   properties={"fastmath": flags}, attributes=attributes)  # fmt: skip

    def print(self, printer: Printer) -> None:
        ErfcOp.print(self, printer)  # type: ignore[arg-type]


_EXTRA: list[type[Operation]] = [ErfcOp, IsNaNOp, IsInfOp, IsFiniteOp, IsNormalOp, ClampFOp, SinCosOp]
Math = Dialect("math", [*math.Math.operations, *_EXTRA], [*math.Math.attributes])
