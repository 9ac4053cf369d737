"""Values that record the operations on them; calling a function with such values traces it."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydispatch.errors import InvalidArgumentError
from pydispatch.patterns.types import Size, TensorType

FLOAT = {"add": "arith.addf", "sub": "arith.subf", "mul": "arith.mulf", "div": "arith.divf",
         "maximum": "arith.maximumf", "minimum": "arith.minimumf", "neg": "arith.negf", "abs": "math.absf",
         "pow": "math.powf"}  # fmt: skip
"""Name of an operator → its operation on floats."""
INTEGER = {"add": "arith.addi", "sub": "arith.subi", "mul": "arith.muli", "div": "arith.divsi",
           "maximum": "arith.maxsi", "minimum": "arith.minsi", "abs": "math.absi"}  # fmt: skip
"""Name of an operator → its operation on signed integers."""
UNARY = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sin", "cos", "erf", "floor", "ceil")
"""Functions of one float, with the names of their operations in the dialect math."""
WRITE_A_PROGRAM = "for operations of NumPy write the pattern as a program: @pydispatch.pattern over @pydispatch.program"
"""The remedy of errors about operations that only arrays of programs have."""


@dataclass(frozen=True, eq=False)
class Value:
    """Value in the dataflow graph of a pattern.

    Attributes:
        op: "input", "constant" or the kind of operation: "scalar" (elementwise), "matmul", "reduce", "argmax", or
            "program" for a result of a pattern that is a program.
        type: Type of the value.
        operands: Values that the operation reads.
        detail: Position of an input, value of a constant, MLIR operation of "scalar", (operator, axis) of "reduce", or
            (axis, type of the index) of "argmax", whose second result adds the first; else None.
        index: Index of the value among the operation's results.
    """

    op: str
    type: TensorType
    operands: tuple[Value, ...] = ()
    detail: object = None
    index: int = 0

    @property
    def shape(self) -> tuple[Size, ...]:
        """Sizes of the tensor; () for a number."""
        return self.type.shape or ()

    def __add__(self, other: Value | float) -> Value:
        return binary("add", self, other)

    def __radd__(self, other: float) -> Value:
        return binary("add", other, self)

    def __sub__(self, other: Value | float) -> Value:
        return binary("sub", self, other)

    def __rsub__(self, other: float) -> Value:
        return binary("sub", other, self)

    def __mul__(self, other: Value | float) -> Value:
        return binary("mul", self, other)

    def __rmul__(self, other: float) -> Value:
        return binary("mul", other, self)

    def __truediv__(self, other: Value | float) -> Value:
        return binary("div", self, other)

    def __rtruediv__(self, other: float) -> Value:
        return binary("div", other, self)

    def __pow__(self, other: Value | float) -> Value:
        return binary("pow", self, other)

    def __neg__(self) -> Value:
        return unary("neg", self)

    def __abs__(self) -> Value:
        return unary("abs", self)

    def __matmul__(self, other: Value) -> Value:
        return matmul(self, other)

    def __getitem__(self, index: object) -> Value:
        """Raise InvalidArgumentError: patterns cannot contain subscripts."""
        raise InvalidArgumentError(f"{self.type} cannot be indexed in such a pattern; {WRITE_A_PROGRAM}")

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError for what arrays of NumPy have and values of patterns do not."""
        raise AttributeError(f"a value of a pattern has no attribute '{name}'; {WRITE_A_PROGRAM}")

    def __bool__(self) -> bool:
        """Raise InvalidArgumentError: values are not known while a pattern is traced."""
        raise InvalidArgumentError(
            "a pattern cannot branch on a value: it records one computation; use a predicate (when=...) instead"
        )


def _is_float(dtype: str) -> bool:
    """Return whether a dtype, by its name, is a float."""
    return dtype.startswith(("f", "bf"))


def constant(value: float, dtype: str) -> Value:
    """Return a number as a scalar constant of the type `dtype`.

    Raise InvalidArgumentError if `value` is no number, or if `dtype` is an integer type and `value` is no integer that
    it holds, with or without a sign.
    """
    try:
        literal = float(value) if _is_float(dtype) else operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgumentError(f"expected a value of the pattern or a number for {dtype}, got {value!r}") from None
    if isinstance(literal, int):
        bits = 64 if dtype == "index" else int(dtype[1:])
        if not -(1 << bits - 1) <= literal < 1 << bits:
            raise InvalidArgumentError(
                f"the constant {literal} is out of range for {dtype}: "
                f"write one from {-(1 << bits - 1)} to {(1 << bits) - 1}, or a pattern of wider integers"
            )
    scalar_type = TensorType(dtype, shape=None)
    return Value("constant", scalar_type, operands=(), detail=literal)


def value_of(what: str, x: object) -> Value:
    """Return `x` if it is a value of a pattern, else raise InvalidArgumentError. `what` names the operation in the
    error.
    """
    if not isinstance(x, Value):
        raise InvalidArgumentError(
            f"{what}: expected a value of the pattern, got {x!r}; operations are written in a function under "
            "@pydispatch.pattern"
        )
    return x


def unary(name: str, x: Value) -> Value:
    """Return the value of an elementwise operation of one operand.

    name: an operator of FLOAT or INTEGER, or a function of UNARY.
    """
    x = value_of(name, x)
    # The dialect arith has no negation of integers.
    if name == "neg" and not _is_float(x.type.dtype):
        return binary("sub", 0, x)
    table = FLOAT if _is_float(x.type.dtype) else INTEGER
    op = table.get(name) or (f"math.{name}" if name in UNARY and table is FLOAT else None)
    if op is None:
        raise InvalidArgumentError(f"{name} of {x.type} is not known")
    return Value("scalar", x.type, (x,), op)


def is_array(x: object) -> bool:
    """Return whether NumPy computes with an operand: a number, an array, or an array of a program."""
    return isinstance(x, (int, float)) or hasattr(x, "__array_ufunc__") or hasattr(x, "__array_interface__")


def elementwise(name: str, x: Any) -> Any:
    """Return the result of the function `name` for a value of a pattern, an array of a program or NumPy, or a number.

    name: an elementwise function of one operand, such as "exp".
    """
    if not is_array(x):
        return unary(name, x)
    import numpy as np

    # NumPy has neither of these two functions.
    if name == "rsqrt":
        return 1 / np.sqrt(x)
    if name == "erf":
        if hasattr(x, "erf"):  # an array of a program
            return x.erf()
        return np.vectorize(math.erf, otypes=[np.result_type(x, np.float32)])(x)
    return getattr(np, name)(x)


def binary(name: str, lhs: Value | float, rhs: Value | float) -> Value:
    """Return the value of an elementwise operation of two operands of one type. `name` is a key of FLOAT or INTEGER.

    A number becomes a constant with the type of the other operand.
    """
    if not isinstance(lhs, Value):
        lhs = constant(lhs, value_of(name, rhs).type.dtype)
    if not isinstance(rhs, Value):
        rhs = constant(rhs, lhs.type.dtype)
    if lhs.type.dtype != rhs.type.dtype:
        raise InvalidArgumentError(f"{name} of {lhs.type} and {rhs.type}: element types differ")
    op = (FLOAT if _is_float(lhs.type.dtype) else INTEGER).get(name)
    if op is None:
        raise InvalidArgumentError(f"{name} of {lhs.type} is not known")
    return Value("scalar", TensorType(lhs.type.dtype, broadcast(lhs, rhs)), (lhs, rhs), op)


def broadcast(lhs: Value, rhs: Value) -> tuple[Size, ...] | None:
    """Return the shape of an elementwise result; None for scalars. One operand may lack leading dimensions."""
    if lhs.type.shape is None or rhs.type.shape is None:
        return lhs.type.shape if rhs.type.shape is None else rhs.type.shape
    longer, shorter = (lhs.shape, rhs.shape) if len(lhs.shape) >= len(rhs.shape) else (rhs.shape, lhs.shape)
    for x, y in zip(longer[len(longer) - len(shorter) :], shorter, strict=True):
        if x != y:
            raise InvalidArgumentError(f"shapes of {lhs.type} and {rhs.type} differ: name equal sizes alike")
    return longer


def matmul(lhs: Value, rhs: Value) -> Value:
    """Return the matrix product of lhs [m, k] and rhs [k, n], accumulated from zero."""
    lhs, rhs = value_of("@", lhs), value_of("@", rhs)
    if len(lhs.shape) != 2 or len(rhs.shape) != 2 or lhs.shape[1] != rhs.shape[0] or lhs.type.dtype != rhs.type.dtype:
        raise InvalidArgumentError(f"cannot multiply {lhs.type} and {rhs.type}: write f32['m', 'k'] @ f32['k', 'n']")
    return Value("matmul", TensorType(lhs.type.dtype, (lhs.shape[0], rhs.shape[1])), (lhs, rhs))


def numpy_function(name: str, *operands: Any) -> Any:
    """Call a function of NumPy by its name."""
    import numpy as np

    return getattr(np, name)(*operands)


def maximum(lhs: Value | float, rhs: Value | float) -> Value:
    """Return the larger of two values, elementwise."""
    return numpy_function("maximum", lhs, rhs) if is_array(lhs) and is_array(rhs) else binary("maximum", lhs, rhs)


def minimum(lhs: Value | float, rhs: Value | float) -> Value:
    """Return the smaller of two values, elementwise."""
    return numpy_function("minimum", lhs, rhs) if is_array(lhs) and is_array(rhs) else binary("minimum", lhs, rhs)


def reduce(op: str, x: Value, axis: int = -1) -> Value:
    """Return the reduction of a value by "add" or "maximum" along one axis, which is removed."""
    if op not in ("add", "maximum"):
        raise InvalidArgumentError(f"a reduction is 'add' or 'maximum', got {op!r}")
    axis = _axis("reduce", x, axis)
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    return Value("reduce", TensorType(x.type.dtype, shape), (x,), (op, axis))


def _axis(what: str, x: object, axis: object) -> int:
    """Return a non-negative axis for one that may count from the end. `what` names the operation in errors."""
    value = value_of(what, x)
    if not isinstance(axis, int) or isinstance(axis, bool) or not -len(value.shape) <= axis < len(value.shape):
        raise InvalidArgumentError(f"{what}: axis: {value.type} has no axis {axis!r}")
    return axis + len(value.shape) if axis < 0 else axis


def argmax(x: Value, axis: int = -1, index: str = "i64") -> tuple[Value, Value]:
    """Return the maximum along an axis, which is removed, and the index of its first occurrence.

    index: type of the indices, "i32" or "i64".
    """
    if index not in ("i32", "i64"):
        raise InvalidArgumentError(f"argmax: index: expected 'i32' or 'i64', got {index!r}")
    if is_array(x) and getattr(x, "ndim", False):  # a number has no axis
        return numpy_function("max", x, axis), numpy_function("argmax", x, axis).astype(f"int{index[1:]}")
    axis = _axis("argmax", x, axis)
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    best = Value("argmax", TensorType(x.type.dtype, shape), operands=(x,), detail=(axis, index))
    # `best` in the detail of the second result states that both are results of one operation.
    position = Value("argmax", TensorType(index, shape), operands=(x,), detail=(axis, index, best), index=1)
    return best, position


def outputs_of(result: object, name: str) -> Sequence[Value]:
    """Return the results of a traced function, which returns one value or several, as a tuple or list.

    Raise InvalidArgumentError for a result that is an input or a constant. `name` is the name of the pattern.
    """
    values = result if isinstance(result, (tuple, list)) else (result,)
    for value in values:
        if not isinstance(value, Value):
            raise InvalidArgumentError(f"pattern '{name}' must return what it computes, got {value!r}")
        if value.op in ("input", "constant"):
            raise InvalidArgumentError(f"pattern '{name}' computes nothing: it returns an {value.op}")
    return values
