"""The `check` dialect: assertions of a test program. Every public function without arguments is a test.

Operations are read in two forms: IREE's, `check.expect_eq(%a, %b) : T`, and StableHLO's, `check.expect_eq %a, %b : T`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f32,
)
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
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
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.check.stablehlo_form import parse_stablehlo_form, print_stablehlo_form
from pydispatch.ir.dialects.hal.device import DeviceType

DEFAULT_ATOL = 1e-4
"""The absolute tolerance of `expect_almost_eq` if the program states none; the relative tolerance is then 0."""


@directive
class Tolerances(CustomDirective):
    """Directive for optional tolerances `, atol 0.01, rtol 0.5`.

    Older releases write one number, the absolute tolerance, alone or after the word `tolerance`.
    """

    atol: AttributeVariable
    rtol: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `, atol 1.0e-4, rtol 0.0`, each at most once and with or without its type.

        A number without a word, or after `tolerance`, is atol.
        """
        while parser.parse_optional_punctuation(",") is not None:
            start = parser.pos
            keyword = parser.parse_optional_identifier()
            if keyword is None or keyword == "tolerance":  # older releases
                keyword = "atol"
            if keyword not in self.parameters or keyword in state.properties:  # the parameters are atol and rtol
                parser.raise_error(f"expected one atol and one rtol, got '{keyword}'", start, parser.pos)
            state.properties[keyword] = FloatAttr(float(parser.parse_number()), f32)
            if parser.parse_optional_punctuation(":") is not None:
                parser.parse_type()

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the tolerances that are stated."""
        for variable in (self.atol, self.rtol):
            value = variable.get(op)
            if isinstance(value, FloatAttr):
                printer.print_string(f", {variable.name} {value.value.data!r}")


_DEVICE = "(`<` $device^ `>`)? ``"
"""Optional device on which values are compared, in angle brackets after the name of the operation."""
_TOLERANCES = "custom<Tolerances>($atol, $rtol)"
"""Optional absolute and relative tolerance: `, atol 1.0e-4, rtol 0.0`."""
_RHS = "custom<SameTypes>(type($rhs), ref(type($lhs)))"
"""Type of the right operand: without text, as it is the type of the left one."""


class CheckOp(IRDLOperation):
    """Base of assertions `<%device>(%a, %b, atol 0.01, rtol 0.5) : type`; the optional device is ignored."""

    custom_directives = (Tolerances,)

    def verify_(self) -> None:
        """Check that both sides have equal types, or tensor types that differ in dynamic sizes only.

        The sides are two operands, or an operand and the constant `value`.
        """
        first, *others = [v for v in self.operands if not isinstance(v.type, DeviceType)]
        types = [v.type for v in others]
        if (constant := self.properties.get("value")) is not None:
            types.append(getattr(constant, "type", constant))
        for other in types:
            if not _may_be_of_one_value(other, first.type):
                raise VerifyException(f"the two sides of a check have one type, got {first.type} and {other}")


def _may_be_of_one_value(lhs: Attribute, rhs: Attribute) -> bool:
    """Return whether one value may have both types: equal types, or tensor types whose static sizes agree."""
    if not isinstance(lhs, TensorType) or not isinstance(rhs, TensorType):
        return lhs == rhs
    if lhs.element_type != rhs.element_type:
        return False
    sizes, others = lhs.get_shape(), rhs.get_shape()
    return len(sizes) == len(others) and all(n == m or DYNAMIC in (n, m) for n, m in zip(sizes, others, strict=True))


class _TruthOp(CheckOp):
    """Base of assertions on one integer, such as an i1."""

    operand = operand_def()
    assembly_format = "`(` $operand `)` attr-dict `:` type($operand)"

    def verify_(self) -> None:
        """Verify that the operand is an integer."""
        if not isinstance(self.operand.type, IntegerType):
            raise VerifyException(f"a truth is an integer such as i1 or i32, got {self.operand.type}")


@op_definition
class ExpectTrueOp(_TruthOp):
    """Assertion that an integer is not 0."""

    name = "check.expect_true"


@op_definition
class ExpectFalseOp(_TruthOp):
    """Assertion that an integer is 0."""

    name = "check.expect_false"


@op_definition
class ExpectAllTrueOp(CheckOp):
    """Assertion that no element of a tensor of integers is 0; `device` is ignored."""

    name = "check.expect_all_true"
    device = opt_operand_def(DeviceType)
    operand = operand_def()
    assembly_format = f"{_DEVICE} `(` $operand `)` attr-dict `:` type($operand)"

    def verify_(self) -> None:
        """Verify that the elements of a tensor operand are integers."""
        type = self.operand.type
        # Other operands, such as buffer views, do not state the type of their elements.
        if isinstance(type, TensorType) and not isinstance(type.element_type, IntegerType):
            raise VerifyException(f"truths are integers such as i1 or i32, got {type}")


class AlmostOp(CheckOp):
    """Base of comparisons with tolerances; `tolerance` has the values that hold if `atol` or `rtol` is absent."""

    atol = opt_prop_def(FloatAttr)
    rtol = opt_prop_def(FloatAttr)

    def verify_(self) -> None:
        """Check also that tensors have float or complex elements."""
        super().verify_()
        type = self.operands[-1].type  # the first operand may be a device
        if isinstance(type, TensorType) and not isinstance(type.element_type, AnyFloat | ComplexType):
            raise VerifyException(f"'almost' compares floats, got {type}; use the exact check")

    @property
    def tolerance(self) -> tuple[float, float]:
        """Return atol and rtol; the assertion is |lhs - rhs| <= atol + rtol * |rhs|."""
        return (
            DEFAULT_ATOL if self.atol is None else self.atol.value.data,
            0.0 if self.rtol is None else self.rtol.value.data,
        )


@op_definition
class ExpectEqOp(CheckOp):
    """Assertion that two values, such as tensors, are equal; `device` is ignored."""

    name = "check.expect_eq"
    device = opt_operand_def(DeviceType)
    lhs = operand_def()
    rhs = operand_def()
    assembly_format = f"{_DEVICE} `(` $lhs `,` $rhs `)` attr-dict `:` type($lhs) {_RHS}"


@op_definition
class ExpectEqConstOp(CheckOp):
    """Assertion that a tensor equals the constant `value`; `device` is ignored."""

    name = "check.expect_eq_const"
    device = opt_operand_def(DeviceType)
    lhs = operand_def(TensorType)
    value = prop_def(DenseIntOrFPElementsAttr)
    assembly_format = f"{_DEVICE} `(` $lhs `,` $value `)` attr-dict `:` type($lhs)"


@op_definition
class ExpectAlmostEqOp(AlmostOp):
    """Assertion that |lhs - rhs| <= atol + rtol * |rhs| for every element; `device` is ignored."""

    name = "check.expect_almost_eq"
    device = opt_operand_def(DeviceType)
    lhs = operand_def()
    rhs = operand_def()
    assembly_format = f"{_DEVICE} `(` $lhs `,` $rhs {_TOLERANCES} `)` attr-dict `:` type($lhs) {_RHS}"


@op_definition
class ExpectAlmostEqConstOp(AlmostOp):
    """Assertion that |lhs - value| <= atol + rtol * |value| for every element; `device` is ignored."""

    name = "check.expect_almost_eq_const"
    device = opt_operand_def(DeviceType)
    lhs = operand_def(TensorType)
    value = prop_def(DenseIntOrFPElementsAttr)
    assembly_format = f"{_DEVICE} `(` $lhs `,` $value {_TOLERANCES} `)` attr-dict `:` type($lhs)"


@irdl_op_definition
class ExpectCloseOp(CheckOp):
    """Assertion on the distance of corresponding elements of two tensors, in units of the last place (ULP).

    Syntax: `%a, %b, max_ulp_difference = 3 : T, T`. Every distance is at most `max_ulp_difference` and at least
    `min_ulp_difference`, 0 if that is absent.
    """

    name = "check.expect_close"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    max_ulp_difference = prop_def(IntegerAttr)
    min_ulp_difference = opt_prop_def(IntegerAttr)

    @classmethod
    def parse(cls, parser: Parser) -> ExpectCloseOp:
        """Parse StableHLO's form: the operands, then the bounds of the distance in ULP."""
        return parse_stablehlo_form(cls, parser, "max_ulp_difference", "min_ulp_difference")

    def print(self, printer: Printer) -> None:
        """Print operands, options and the types of both operands."""
        print_stablehlo_form(self, printer, ("max_ulp_difference", "min_ulp_difference"))
        printer.print_string(", ")
        printer.print_attribute(self.rhs.type)

    def verify_(self) -> None:
        """Check also that tensors have float or complex elements."""
        super().verify_()
        type = self.lhs.type
        if isinstance(type, TensorType) and not isinstance(type.element_type, AnyFloat | ComplexType):
            raise VerifyException(f"'close' compares floats, got {type}; use the exact check")

    @property
    def tolerance(self) -> tuple[float, float]:
        """Return the largest and the smallest permitted distance, in units of the last place."""
        largest = float(self.max_ulp_difference.value.data)
        smallest = 0.0 if self.min_ulp_difference is None else float(self.min_ulp_difference.value.data)
        return largest, smallest


@irdl_op_definition
class ExpectSerializedEqOp(CheckOp):
    """Assertion that the tensor `expected` equals one that `interpreter.probe` recorded under `probe_id`.

    If the probe is executed several times, as in a loop, `iteration` selects the tensor: 0, the default, is the first.
    """

    name = "check.expect_serialized_eq"
    expected = operand_def(TensorType)
    probe_id = prop_def(StringAttr)
    iteration = opt_prop_def(IntegerAttr)

    @classmethod
    def parse(cls, parser: Parser) -> ExpectSerializedEqOp:
        """Parse StableHLO's form: the operand, then the options `probe_id` and `iter`."""
        return parse_stablehlo_form(cls, parser, "probe_id", "iter")

    def print(self, printer: Printer) -> None:
        """Print StableHLO's form: the operand, then the options `probe_id` and `iter`."""
        print_stablehlo_form(self, printer, ("probe_id", "iter"))


def _accept_both_forms(kind: type[CheckOp], *words: str) -> None:
    """Make an assertion class accept StableHLO's form as well, with the options `words`.

    Its `parse` is replaced: IREE's form begins with `(`, or with the device in `<...>`; StableHLO's does not.
    """
    parse_iree_form = kind.parse

    def parse(cls: type[CheckOp], parser: Parser) -> CheckOp:
        """Parse an assertion in either form."""
        is_iree_form = parser._current_token.text in ("(", "<")
        return parse_iree_form(parser) if is_iree_form else parse_stablehlo_form(cls, parser, *words)

    kind.parse = classmethod(parse)  # type: ignore[method-assign,assignment]


_accept_both_forms(ExpectEqOp)
_accept_both_forms(ExpectEqConstOp)
_accept_both_forms(ExpectAlmostEqOp, "tolerance")
_accept_both_forms(ExpectAlmostEqConstOp, "tolerance")

OPERATIONS: list[type[Operation]] = [
    ExpectTrueOp, ExpectFalseOp, ExpectAllTrueOp, ExpectEqOp, ExpectEqConstOp, ExpectAlmostEqOp, ExpectAlmostEqConstOp,
    ExpectCloseOp, ExpectSerializedEqOp,
]  # fmt: skip
Check = Dialect("check", OPERATIONS, [])
