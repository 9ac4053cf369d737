"""The `check` dialect: what a test program says about its values. Every public function without arguments is a test."""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, FloatAttr, IntegerType, TensorType, f32
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.dialects.hal.device import DeviceType

DEFAULT_ATOL = 1e-4
"""The absolute tolerance of `expect_almost_eq` when none is given; the relative one is 0."""


class CheckOp(IRDLOperation):
    """`(%a, %b, atol x, rtol y) : type`, behind `<%device>` where a device is named, which nothing looks at."""

    OPERANDS: ClassVar[tuple[str, ...]] = ("operand",)
    HAS_DEVICE: ClassVar[bool] = True
    HAS_CONSTANT: ClassVar[bool] = False
    TOLERANCES: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        device = []
        if cls.HAS_DEVICE and p.parse_optional_punctuation("<") is not None:
            device.append(p.parse_operand(DeviceType()))
            p.parse_punctuation(">")
        names: list[UnresolvedOperand] = []
        properties: dict[str, Attribute | None] = {}
        with p.in_parens():
            for number in range(len(cls.OPERANDS)):
                if number:
                    p.parse_punctuation(",")
                names.append(p.parse_unresolved_operand())
            if cls.HAS_CONSTANT:
                p.parse_punctuation(",")
                properties["value"] = p.parse_attribute()
            while cls.TOLERANCES and p.parse_optional_punctuation(",") is not None:
                start = p.pos
                # Older releases write one number, or `tolerance` and one: the absolute tolerance.
                keyword = p.parse_optional_identifier() or "atol"
                keyword = "atol" if keyword == "tolerance" else keyword
                if keyword not in cls.TOLERANCES or keyword in properties:
                    p.raise_error(f"expected one atol and one rtol, got '{keyword}'", start, p.pos)
                properties[keyword] = FloatAttr(float(p.parse_number()), f32)
                if p.parse_optional_punctuation(":") is not None:
                    p.parse_type()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        type = p.parse_type()
        operands = [p.resolve_operand(name, type) for name in names]
        fields: list[Any] = [device, *operands] if cls.HAS_DEVICE else operands
        return cls(operands=fields, properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        device = getattr(self, "device", None)
        if device is not None:
            syntax.print_operands(printer, [device], "<", ">")
        values: list[SSAValue] = [getattr(self, name) for name in self.OPERANDS]
        syntax.print_operands(printer, values, "(", "")
        if self.HAS_CONSTANT:
            printer.print_string(", ")
            printer.print_attribute(self.properties["value"])
        for keyword in self.TOLERANCES:
            given = self.properties.get(keyword)
            if isinstance(given, FloatAttr):
                printer.print_string(f", {keyword} {given.value.data!r}")
        printer.print_string(")")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(values[0].type)

    def verify_(self) -> None:
        values: list[SSAValue] = [getattr(self, name) for name in self.OPERANDS]
        first = values[0].type
        if any(value.type != first for value in values):
            raise VerifyException(f"the two sides of a check have one type, got {first} and {values[1].type}")
        constant = self.properties.get("value")
        if constant is not None and getattr(constant, "type", None) != first:
            kind = getattr(constant, "type", constant)
            raise VerifyException(f"the two sides of a check have one type, got {first} and {kind}")
        if self.TOLERANCES and isinstance(first, TensorType) and not isinstance(first.element_type, AnyFloat):
            raise VerifyException(f"'almost' compares floats, got {first}; use the exact check")

    @property
    def tolerance(self) -> tuple[float, float]:
        """atol and rtol of |lhs - rhs| <= atol + rtol * |rhs|, as f32."""
        atol, rtol = self.properties.get("atol"), self.properties.get("rtol")
        return (
            atol.value.data if isinstance(atol, FloatAttr) else DEFAULT_ATOL,
            rtol.value.data if isinstance(rtol, FloatAttr) else 0.0,
        )


class _TruthOp(CheckOp):
    HAS_DEVICE: ClassVar[bool] = False
    operand = operand_def()

    def verify_(self) -> None:
        if not isinstance(self.operand.type, IntegerType):
            raise VerifyException(f"a truth is an integer such as i1 or i32, got {self.operand.type}")


@irdl_op_definition
class ExpectTrueOp(_TruthOp):
    """An integer is not 0."""

    name = "check.expect_true"


@irdl_op_definition
class ExpectFalseOp(_TruthOp):
    """An integer is 0."""

    name = "check.expect_false"


@irdl_op_definition
class ExpectAllTrueOp(CheckOp):
    """No element is 0."""

    name = "check.expect_all_true"
    device = opt_operand_def(DeviceType)
    operand = operand_def()

    def verify_(self) -> None:
        type = self.operand.type
        if isinstance(type, TensorType) and not isinstance(type.element_type, IntegerType):
            raise VerifyException(f"truths are integers such as i1 or i32, got {type}")


class _PairOp(CheckOp):
    OPERANDS: ClassVar[tuple[str, ...]] = ("lhs", "rhs")
    device = opt_operand_def(DeviceType)
    lhs = operand_def()
    rhs = operand_def()


class _ConstantPairOp(CheckOp):
    OPERANDS: ClassVar[tuple[str, ...]] = ("lhs",)
    HAS_CONSTANT: ClassVar[bool] = True
    device = opt_operand_def(DeviceType)
    lhs = operand_def(TensorType)
    value = prop_def(DenseIntOrFPElementsAttr)


class _AlmostOp(CheckOp):
    TOLERANCES: ClassVar[tuple[str, ...]] = ("atol", "rtol")
    atol = opt_prop_def(FloatAttr)
    rtol = opt_prop_def(FloatAttr)


@irdl_op_definition
class ExpectEqOp(_PairOp):
    """Two tensors are equal."""

    name = "check.expect_eq"


@irdl_op_definition
class ExpectEqConstOp(_ConstantPairOp):
    """A tensor is equal to a constant."""

    name = "check.expect_eq_const"


@irdl_op_definition
class ExpectAlmostEqOp(_PairOp, _AlmostOp):
    """|lhs - rhs| <= atol + rtol * |rhs| for every element."""

    name = "check.expect_almost_eq"


@irdl_op_definition
class ExpectAlmostEqConstOp(_ConstantPairOp, _AlmostOp):
    """|lhs - value| <= atol + rtol * |value| for every element."""

    name = "check.expect_almost_eq_const"


OPERATIONS: list[type[Operation]] = [
    ExpectTrueOp, ExpectFalseOp, ExpectAllTrueOp, ExpectEqOp, ExpectEqConstOp, ExpectAlmostEqOp, ExpectAlmostEqConstOp,
]  # fmt: skip
Check = Dialect("check", OPERATIONS, [])
