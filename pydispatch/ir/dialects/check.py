"""The `check` dialect: what a test program says about its values. Every public function without arguments is a test."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, FloatAttr, IntegerType, TensorType, f32
from xdsl.ir import Dialect, Operation
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.irdl.declarative_assembly_format import AttributeVariable, CustomDirective, ParsingState, PrintingState
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive
from pydispatch.ir.dialects.hal.device import DeviceType

DEFAULT_ATOL = 1e-4
"""The absolute tolerance of `expect_almost_eq` when none is given; the relative one is 0."""


@directive
class Tolerances(CustomDirective):
    """`, atol 0.01, rtol 0.5`, both optional. Older releases write one number, with `tolerance` before it or not."""

    atol: AttributeVariable
    rtol: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        while parser.parse_optional_punctuation(",") is not None:
            start = parser.pos
            keyword = parser.parse_optional_identifier() or "atol"
            keyword = "atol" if keyword == "tolerance" else keyword
            if keyword not in self.parameters or keyword in state.properties:
                parser.raise_error(f"expected one atol and one rtol, got '{keyword}'", start, parser.pos)
            state.properties[keyword] = FloatAttr(float(parser.parse_number()), f32)
            if parser.parse_optional_punctuation(":") is not None:
                parser.parse_type()

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        for variable in (self.atol, self.rtol):
            given = variable.get(op)
            if isinstance(given, FloatAttr):
                printer.print_string(f", {variable.name} {given.value.data!r}")


_DEVICE = "(`<` $device^ `>`)? ``"
_TOLERANCES = "custom<Tolerances>($atol, $rtol)"
_RHS = "custom<SameTypes>(type($rhs), ref(type($lhs)))"


class CheckOp(IRDLOperation):
    """`<%device>(%a, %b, atol x, rtol y) : type`; a device may be named, which nothing looks at."""

    custom_directives = (Tolerances,)

    def verify_(self) -> None:
        first, *others = [v for v in self.operands if not isinstance(v.type, DeviceType)]
        types = [v.type for v in others]
        if (constant := self.properties.get("value")) is not None:
            types.append(getattr(constant, "type", constant))
        for other in types:
            if other != first.type:
                raise VerifyException(f"the two sides of a check have one type, got {first.type} and {other}")


class _TruthOp(CheckOp):
    operand = operand_def()
    assembly_format = "`(` $operand `)` attr-dict `:` type($operand)"

    def verify_(self) -> None:
        if not isinstance(self.operand.type, IntegerType):
            raise VerifyException(f"a truth is an integer such as i1 or i32, got {self.operand.type}")


@op_definition
class ExpectTrueOp(_TruthOp):
    """An integer is not 0."""

    name = "check.expect_true"


@op_definition
class ExpectFalseOp(_TruthOp):
    """An integer is 0."""

    name = "check.expect_false"


@op_definition
class ExpectAllTrueOp(CheckOp):
    """No element is 0."""

    name = "check.expect_all_true"
    device = opt_operand_def(DeviceType)
    operand = operand_def()
    assembly_format = f"{_DEVICE} `(` $operand `)` attr-dict `:` type($operand)"

    def verify_(self) -> None:
        type = self.operand.type
        if isinstance(type, TensorType) and not isinstance(type.element_type, IntegerType):
            raise VerifyException(f"truths are integers such as i1 or i32, got {type}")


class AlmostOp(CheckOp):
    """A comparison with tolerances."""

    atol = opt_prop_def(FloatAttr)
    rtol = opt_prop_def(FloatAttr)

    def verify_(self) -> None:
        super().verify_()
        type = self.operands[-1].type
        if isinstance(type, TensorType) and not isinstance(type.element_type, AnyFloat):
            raise VerifyException(f"'almost' compares floats, got {type}; use the exact check")

    @property
    def tolerance(self) -> tuple[float, float]:
        """atol and rtol of |lhs - rhs| <= atol + rtol * |rhs|, as f32."""
        return (
            DEFAULT_ATOL if self.atol is None else self.atol.value.data,
            0.0 if self.rtol is None else self.rtol.value.data,
        )


@op_definition
class ExpectEqOp(CheckOp):
    """Two tensors are equal."""

    name = "check.expect_eq"
    device = opt_operand_def(DeviceType)
    lhs = operand_def()
    rhs = operand_def()
    assembly_format = f"{_DEVICE} `(` $lhs `,` $rhs `)` attr-dict `:` type($lhs) {_RHS}"


@op_definition
class ExpectEqConstOp(CheckOp):
    """A tensor is equal to a constant."""

    name = "check.expect_eq_const"
    device = opt_operand_def(DeviceType)
    lhs = operand_def(TensorType)
    value = prop_def(DenseIntOrFPElementsAttr)
    assembly_format = f"{_DEVICE} `(` $lhs `,` $value `)` attr-dict `:` type($lhs)"


@op_definition
class ExpectAlmostEqOp(AlmostOp):
    """|lhs - rhs| <= atol + rtol * |rhs| for every element."""

    name = "check.expect_almost_eq"
    device = opt_operand_def(DeviceType)
    lhs = operand_def()
    rhs = operand_def()
    assembly_format = f"{_DEVICE} `(` $lhs `,` $rhs {_TOLERANCES} `)` attr-dict `:` type($lhs) {_RHS}"


@op_definition
class ExpectAlmostEqConstOp(AlmostOp):
    """|lhs - value| <= atol + rtol * |value| for every element."""

    name = "check.expect_almost_eq_const"
    device = opt_operand_def(DeviceType)
    lhs = operand_def(TensorType)
    value = prop_def(DenseIntOrFPElementsAttr)
    assembly_format = f"{_DEVICE} `(` $lhs `,` $value {_TOLERANCES} `)` attr-dict `:` type($lhs)"


OPERATIONS: list[type[Operation]] = [
    ExpectTrueOp, ExpectFalseOp, ExpectAllTrueOp, ExpectEqOp, ExpectEqConstOp, ExpectAlmostEqOp, ExpectAlmostEqConstOp,
]  # fmt: skip
Check = Dialect("check", OPERATIONS, [])
