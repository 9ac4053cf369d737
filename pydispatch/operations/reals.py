"""Arithmetic on single elements that are not complex: floats, signed and unsigned integers, bool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith, builtin, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pydispatch.graph.constants import constant_attribute
from pydispatch.graph.dtypes import BOOL, C64, C128, F32, I64, DType, Kind
from pydispatch.ir.dialects import arith as more_arith
from pydispatch.ir.dialects import math as more_math


@dataclass(frozen=True, eq=False)
class Scalar:
    """Element of a tensor in the body of an operation.

    Attributes:
        dtype: Type of the element.
        parts: One SSA value, or the real and the imaginary part.
    """

    dtype: DType
    parts: tuple[SSAValue, ...]

    @property
    def value(self) -> SSAValue:
        """Return the SSA value of an element that is not complex."""
        (value,) = self.parts
        return value


class UnsupportedTypeError(TypeError):
    """Error: an operation is not defined for the type of its operands; the message names both."""


_FLOAT_UNARY: dict[str, Callable[[SSAValue], Operation]] = {
    "abs": math.AbsFOp, "neg": arith.NegfOp, "ceil": math.CeilOp, "floor": math.FloorOp, "round": math.RoundOp,
    "round_even": math.RoundEvenOp, "trunc": math.TruncOp, "sqrt": math.SqrtOp, "rsqrt": math.RsqrtOp,
    "cbrt": math.CbrtOp, "exp": math.ExpOp, "exp2": math.Exp2Op, "expm1": math.ExpM1Op, "log": math.LogOp,
    "log2": math.Log2Op, "log10": math.Log10Op, "log1p": math.Log1pOp, "sin": math.SinOp, "cos": math.CosOp,
    "tan": math.TanOp, "asin": math.AsinOp, "acos": math.AcosOp, "atan": math.AtanOp, "sinh": math.SinhOp,
    "cosh": math.CoshOp, "tanh": math.TanhOp, "asinh": math.AsinhOp, "acosh": math.AcoshOp, "atanh": math.AtanhOp,
    "erf": math.ErfOp, "erfc": lambda x: _same_type(more_math.ErfcOp, x),
}  # fmt: skip
"""Functions of one float that are a single MLIR operation."""

FLOAT_FUNCTIONS = tuple(_FLOAT_UNARY)
"""Names of the functions of one float that are a single MLIR operation."""

_BINARY: dict[str, dict[Kind, Callable[[SSAValue, SSAValue], Operation]]] = {
    "add": {Kind.FLOAT: arith.AddfOp, Kind.INT: arith.AddiOp, Kind.UINT: arith.AddiOp, Kind.BOOL: arith.OrIOp},
    "sub": {Kind.FLOAT: arith.SubfOp, Kind.INT: arith.SubiOp, Kind.UINT: arith.SubiOp, Kind.BOOL: arith.XOrIOp},
    "mul": {Kind.FLOAT: arith.MulfOp, Kind.INT: arith.MuliOp, Kind.UINT: arith.MuliOp, Kind.BOOL: arith.AndIOp},
    "div": {Kind.FLOAT: arith.DivfOp, Kind.INT: arith.DivSIOp, Kind.UINT: arith.DivUIOp},
    "rem": {Kind.INT: arith.RemSIOp, Kind.UINT: arith.RemUIOp,
            Kind.FLOAT: more_arith.RemfOp},
    "max": {Kind.FLOAT: arith.MaximumfOp, Kind.INT: arith.MaxSIOp, Kind.UINT: arith.MaxUIOp, Kind.BOOL: arith.OrIOp},
    "min": {Kind.FLOAT: arith.MinimumfOp, Kind.INT: arith.MinSIOp, Kind.UINT: arith.MinUIOp, Kind.BOOL: arith.AndIOp},
    "and": {Kind.INT: arith.AndIOp, Kind.UINT: arith.AndIOp, Kind.BOOL: arith.AndIOp},
    "or": {Kind.INT: arith.OrIOp, Kind.UINT: arith.OrIOp, Kind.BOOL: arith.OrIOp},
    "xor": {Kind.INT: arith.XOrIOp, Kind.UINT: arith.XOrIOp, Kind.BOOL: arith.XOrIOp},
    "pow": {Kind.FLOAT: math.PowFOp, Kind.INT: math.IPowIOp},
    "atan2": {Kind.FLOAT: math.Atan2Op},
    "copysign": {Kind.FLOAT: math.CopySignOp},
    "shift_left": {Kind.INT: arith.ShLIOp, Kind.UINT: arith.ShLIOp},
    "shift_right": {Kind.INT: arith.ShRSIOp, Kind.UINT: arith.ShRUIOp},
    "shift_right_logical": {Kind.INT: arith.ShRUIOp, Kind.UINT: arith.ShRUIOp},
    "shift_right_arithmetic": {Kind.INT: arith.ShRSIOp, Kind.UINT: arith.ShRSIOp},
}  # fmt: skip
"""MLIR operations of functions of two numbers, by kind of type. Integer division truncates; max and min
propagate NaN."""

_FLOORED = {"floor_div": "div", "floor_rem": "rem"}
"""Quotient and remainder of integers, rounded down → the function that computes them of integers without a sign."""

_FORMULAS = frozenset({"logistic", "sign"})
"""Functions of one float that are composed of several operations. Floats of less than 32 bits are converted to f32 for
them, because intermediate results may overflow in a narrow type, and f8E8M0FNU has no zero or negative numbers."""

_FLOAT_ORDER = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
"""Order of a comparison → predicate of arith.cmpf. Only "ne" is true for NaN."""
_CLASSES = {"is_nan": more_math.IsNaNOp, "is_inf": more_math.IsInfOp, "is_finite": more_math.IsFiniteOp}
"""Name of a test of floats → its operation."""


def _same_type(op: type[Operation], *operands: SSAValue) -> Operation:
    """Create an operation whose result has the type of its operands."""
    return op(operands=list(operands), result_types=[operands[0].type])


def _constant(value: IntegerAttr[Any] | FloatAttr[Any]) -> Operation:
    """Create a constant operation by `create`, which omits the verification that xDSL's constructors do each time."""
    return arith.ConstantOp.create(result_types=[value.type], properties={"value": value})


_PROPERTIES: dict[Callable[..., Operation], dict[str, Attribute]] = {}
"""Cache of `_operation`: class of an operation → its properties, if its result has the type of the operands. The next
operation of the class is created with them, without the verification that its constructor does."""


def _operation(kind: Callable[..., Operation], *operands: SSAValue) -> Operation:
    """Create an operation on elements by its class, or by a function that creates it.

    Properties are cached per constructor, because constructors of xDSL verify the whole definition each time.
    """
    known, type_ = _PROPERTIES.get(kind), operands[0].type  # `_PROPERTIES`: class → properties of its operations
    if known is not None:
        return kind.create(operands=operands, result_types=(type_,), properties=known)  # type: ignore[attr-defined]
    op = kind(*operands)
    # `create` needs the type of the result, which is that of the operands, and is a method of classes only.
    if isinstance(kind, type) and not op.attributes and [r.type for r in op.results] == [type_]:
        _PROPERTIES[kind] = dict(op.properties)
    return op


class Reals:
    """Builder of scalar operations in a block; both operands of a binary operation have the same type.

    Each method appends operations and returns their result; `binary` and `unary` apply a function by its name. Complex
    numbers are only composed and taken apart here; the subclass `Scalars` computes with them.
    """

    def __init__(self, block: Block) -> None:
        """Append operations to `block`."""
        self.block = block

    def add_op(self, op: Operation) -> SSAValue:
        """Add an operation with one result, and return that."""
        self.block.add_op(op)
        return op.results[0]

    def emit(self, dtype: DType, op: Operation) -> Scalar:
        """Add an operation, and return its result as an element of type `dtype`."""
        return Scalar(dtype, (self.add_op(op),))

    def const(self, value: complex | bool, dtype: DType) -> Scalar:
        """Add a constant."""
        parts = [value.real, value.imag] if dtype.is_complex else [value]
        return Scalar(dtype, tuple(self.add_op(_constant(constant_attribute(p, dtype))) for p in parts))

    def position(self, axis: int, dtype: DType = I64) -> Scalar:
        """Return the loop index along an axis as a number of a type; of floats, it is rounded to one."""
        index, integer = self.add_op(linalg.IndexOp(axis)), dtype if dtype.is_integer else I64
        return self.convert(self.emit(integer, arith.IndexCastOp(index, integer.element)), dtype)

    # -- complex numbers and their parts

    def real(self, a: Scalar) -> Scalar:
        """Return the real part; a number that is not complex is returned unchanged."""
        return Scalar(a.dtype.real, a.parts[:1])

    def imag(self, a: Scalar) -> Scalar:
        """Return the imaginary part; 0 for a number that is not complex."""
        return Scalar(a.dtype.real, a.parts[1:]) if a.dtype.is_complex else self.const(0, a.dtype)

    def complex(self, real: Scalar, imag: Scalar) -> Scalar:
        """Return the complex number with given real and imaginary parts."""
        return Scalar({32: C64, 64: C128}[real.dtype.bits], (real.value, imag.value))

    def conj(self, a: Scalar) -> Scalar:
        """Return the complex conjugate."""
        return self.complex(self.real(a), self.unary("neg", self.imag(a))) if a.dtype.is_complex else a

    # -- functions by name

    def binary(self, name: str, lhs: Scalar, rhs: Scalar) -> Scalar:
        """Apply a function in BINARY_FUNCTIONS. Raise UnsupportedTypeError if the types differ or lack the function."""
        if lhs.dtype != rhs.dtype:
            raise UnsupportedTypeError(f"{name} of {lhs.dtype} and {rhs.dtype}: the types differ")
        if name == "pow" and lhs.dtype.kind is Kind.UINT:
            return self._unsigned_power(lhs, rhs)
        if name in _FLOORED:
            return self._floored(name, lhs, rhs)
        operation = _BINARY[name].get(lhs.dtype.kind)
        if operation is None:
            raise UnsupportedTypeError(f"{name} of {lhs.dtype} is not defined")
        return self.emit(lhs.dtype, _operation(operation, lhs.value, rhs.value))

    def _unsigned_power(self, base: Scalar, exponent: Scalar) -> Scalar:
        """Return base ** exponent of unsigned integers: the square of base ** (exponent / 2), times base if it is odd.

        `math.ipowi` reads the exponent as signed; half of an unsigned exponent is never negative.
        """
        one = self.const(1, base.dtype)
        half = self.binary("shift_right", exponent, one)
        root = self.emit(base.dtype, _operation(math.IPowIOp, base.value, half.value))
        is_odd = self.compare("ne", self.binary("and", exponent, one), self.const(0, base.dtype))
        return self.binary("mul", self.binary("mul", root, root), self.select(is_odd, base, one))

    def _floored(self, name: str, lhs: Scalar, rhs: Scalar) -> Scalar:
        """Return the quotient of integers, rounded down ("floor_div"), or the remainder of integers or floats with the
        sign of rhs ("floor_rem").
        """
        if lhs.dtype.is_unsigned:  # truncation rounds down: the operation "div" or "rem"
            return self.binary(_FLOORED[name], lhs, rhs)
        if lhs.dtype.kind is not Kind.INT and name == "floor_div":
            raise UnsupportedTypeError(f"{name} of {lhs.dtype} is not defined")
        # Division truncates: the quotient is one too large if the remainder is not 0 and has another sign than rhs.
        zero, remainder = self.const(0, lhs.dtype), self.binary("rem", lhs, rhs)
        signs_differ = self.binary("xor", self.compare("lt", remainder, zero), self.compare("lt", rhs, zero))
        is_truncated = self.binary("and", self.compare("ne", remainder, zero), signs_differ)
        if name == "floor_rem":
            return self.select(is_truncated, self.binary("add", remainder, rhs), remainder)
        quotient = self.binary("div", lhs, rhs)
        return self.select(is_truncated, self.binary("sub", quotient, self.const(1, lhs.dtype)), quotient)

    def unary(self, name: str, a: Scalar) -> Scalar:
        """Apply a function of one number: of a float by one operation if it is in FLOAT_FUNCTIONS, else by the method
        `_name` of this class, such as `_sign`.
        """
        if a.dtype.is_float and name in _FLOAT_UNARY:
            return self.emit(a.dtype, _operation(_FLOAT_UNARY[name], a.value))
        special = getattr(self, f"_{name}", None)
        if special is None:
            raise UnsupportedTypeError(f"{name} of {a.dtype} is not defined")
        is_narrow = a.dtype.is_float and a.dtype.bits < 32
        if is_narrow and name in _FORMULAS:  # intermediate results may overflow in the narrow type
            return self.convert(special(self.convert(a, F32)), a.dtype)
        return special(a)

    def _abs(self, a: Scalar) -> Scalar:
        """Return the absolute value of an integer; `unary` emits one operation for floats."""
        return a if a.dtype.is_unsigned else self.emit(a.dtype, math.AbsIOp(a.value))

    def _neg(self, a: Scalar) -> Scalar:
        """Return 0 - a."""
        return self.binary("sub", self.const(0, a.dtype), a)

    def _sign(self, a: Scalar) -> Scalar:
        """Return 1, -1 or 0; 0, -0 and NaN are returned unchanged."""
        zero, one = self.const(0, a.dtype), self.const(1, a.dtype)
        if a.dtype.is_unsigned:
            return self.select(self.compare("eq", a, zero), zero, one)
        negative_or_own = self.select(self.compare("lt", a, zero), self.const(-1, a.dtype), a)
        return self.select(self.compare("gt", a, zero), one, negative_or_own)

    def _not(self, a: Scalar) -> Scalar:
        """Return the bits of an integer inverted."""
        return self.binary("xor", a, self.const(-1, a.dtype))

    def _logistic(self, a: Scalar) -> Scalar:
        """Return 1 / (1 + exp(-a))."""
        one = self.const(1.0, a.dtype)
        return self.binary("div", one, self.binary("add", one, self.unary("exp", self.unary("neg", a))))

    def _popcount(self, a: Scalar) -> Scalar:
        """Return the number of bits that are 1."""
        return self.emit(a.dtype, math.CtPopOp(a.value))

    def _count_leading_zeros(self, a: Scalar) -> Scalar:
        """Return the number of bits that are 0 before the first 1."""
        return self.emit(a.dtype, math.CountLeadingZerosOp(a.value))

    def _floor(self, a: Scalar) -> Scalar:
        """Return an integer unchanged; `unary` emits an operation of its own for floats."""
        return a

    _ceil = _round = _round_even = _trunc = _floor

    def _is_nan(self, a: Scalar) -> Scalar:
        """Return whether a number is NaN; no integer is."""
        return self._class("is_nan", a, of_integers=False)

    def _is_inf(self, a: Scalar) -> Scalar:
        """Return whether a number is an infinity; no integer is."""
        return self._class("is_inf", a, of_integers=False)

    def _is_finite(self, a: Scalar) -> Scalar:
        """Return whether a number is finite; every integer is."""
        return self._class("is_finite", a, of_integers=True)

    def _class(self, name: str, a: Scalar, of_integers: bool) -> Scalar:
        """Return whether a float is in a class, such as NaN; `of_integers` is the result for all integers."""
        if not a.dtype.is_float:
            return self.const(of_integers, BOOL)
        return self.emit(BOOL, _CLASSES[name](operands=[a.value], result_types=[BOOL.element]))

    # -- comparing and choosing

    def compare(self, order: str, lhs: Scalar, rhs: Scalar) -> Scalar:
        """Compare lhs with rhs by `order`: eq, ne, lt, le, gt or ge. NaN is unequal to everything."""
        if lhs.dtype.is_float:
            return self.emit(BOOL, arith.CmpfOp(lhs.value, rhs.value, _FLOAT_ORDER[order]))
        predicate = order
        if order not in ("eq", "ne"):  # ult for unsigned, slt for signed integers
            predicate = f"u{order}" if lhs.dtype.is_unsigned else f"s{order}"
        return self.emit(BOOL, arith.CmpiOp(lhs.value, rhs.value, predicate))

    def select(self, condition: Scalar, lhs: Scalar, rhs: Scalar) -> Scalar:
        """Return lhs if the condition holds, else rhs."""
        if not condition.dtype.is_bool or lhs.dtype.element != rhs.dtype.element:
            raise UnsupportedTypeError(
                f"a choice between {lhs.dtype} and {rhs.dtype} by {condition.dtype} is not defined"
            )
        parts = zip(lhs.parts, rhs.parts, strict=True)  # a complex number has two: real and imaginary
        return Scalar(lhs.dtype, tuple(self.add_op(arith.SelectOp(condition.value, x, y)) for x, y in parts))

    # -- types

    def convert(self, a: Scalar, to: DType) -> Scalar:
        """Convert a number to another type.

        Integers wrap around. Floats are rounded to the nearest float, or truncated to integers: beyond the range of the
        integer type they become its least or greatest number, and NaN becomes 0. As a number, true is 1. As a bool,
        every number but 0 is true.
        """
        if a.dtype == to:
            return a
        if to.is_bool:
            a = self.convert(a, F32) if a.dtype.name == "f8E8M0FNU" else a  # this type has no 0
            return self.compare("ne", a, self.const(0, a.dtype))
        conversion = self._conversion(a, to)
        return Scalar(to, a.parts) if conversion is None else self.emit(to, conversion)

    def _conversion(self, a: Scalar, to: DType) -> Operation | None:
        """Return the operation that converts between two types; None if the bits remain the same."""
        value, source, element = a.value, a.dtype, to.element
        # Between floats, from a float, to a float, then between integers.
        if source.is_float and to.is_float:
            if source.bits == to.bits:  # f16 and bf16, for example: through f32
                return arith.TruncFOp(self.add_op(arith.ExtFOp(value, F32.element)), element)
            return arith.TruncFOp(value, element) if source.bits > to.bits else arith.ExtFOp(value, element)
        if source.is_float:  # this project's lowerings of these operations saturate, as `convert` states
            return arith.FPToUIOp(value, element) if to.is_unsigned else arith.FPToSIOp(value, element)
        if to.is_float:
            return arith.UIToFPOp(value, element) if source.is_unsigned else arith.SIToFPOp(value, element)
        if source.bits == to.bits:
            return None
        if source.bits > to.bits:
            return arith.TruncIOp(value, element)
        return arith.ExtUIOp(value, element) if source.is_unsigned else arith.ExtSIOp(value, element)

    def bitcast(self, a: Scalar, to: DType) -> Scalar:
        """Reinterpret the bits of a number as another type of the same width."""
        if a.dtype.element == to.element:
            return Scalar(to, a.parts)
        return self.emit(to, arith.BitcastOp(a.value, to.element))

    def index_of(self, a: Scalar) -> SSAValue:
        """Return an integer as an SSA value of type index."""
        cast: Any = arith.IndexCastOp
        return self.add_op(cast(a.value, builtin.IndexType()))


BINARY_FUNCTIONS = tuple(_BINARY)
"""Names of the functions of two numbers."""
