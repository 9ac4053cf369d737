"""Bodies of structured operations: casts to the accumulator, products and sums, and the named functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerType
from xdsl.dialects.linalg import ops
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

Binary = Callable[[SSAValue, SSAValue], Operation]
"""Function of two operands that returns the operation, not yet inserted, that combines them."""

# Function -> (operation on floats, operation on integers); None where there is none.
_BINARY: dict[str, tuple[Binary | None, Binary | None]] = {
    "add": (arith.AddfOp, arith.AddiOp),
    "sub": (arith.SubfOp, arith.SubiOp),
    "mul": (arith.MulfOp, arith.MuliOp),
    "div": (arith.DivfOp, arith.DivSIOp),
    "div_unsigned": (None, arith.DivUIOp),
    "max": (arith.MaximumfOp, arith.MaxSIOp),
    "min": (arith.MinimumfOp, arith.MinSIOp),
    "max_signed": (arith.MaximumfOp, arith.MaxSIOp),
    "min_signed": (arith.MinimumfOp, arith.MinSIOp),
    "max_unsigned": (None, arith.MaxUIOp),
    "min_unsigned": (None, arith.MinUIOp),
    "powf": (math.PowFOp, None),
}
# Function of i1 -> its operation, where it is not that of wider integers: sums of i1 do not wrap around.
_BOOLEAN: dict[str, Binary] = {"add": arith.OrIOp, "mul": arith.AndIOp}
_UNARY: dict[str, Callable[[SSAValue], Operation]] = {
    "abs": math.AbsFOp,
    "ceil": math.CeilOp,
    "floor": math.FloorOp,
    "negf": arith.NegfOp,
    "exp": math.ExpOp,
    "log": math.LogOp,
    "sqrt": math.SqrtOp,
    "rsqrt": math.RsqrtOp,
    "round": math.RoundOp,
    "tanh": math.TanhOp,
    "erf": math.ErfOp,
}
"""Unary function in linalg's tables → function of the operand that returns the operation for it."""


class BodyBuilder:
    """Builder of the body of a structured operation: a block of scalar code with an argument for each operand.

    Attributes:
        block: The block, whose arguments have the types `types`: inputs, then outputs.
    """

    def __init__(self, types: Sequence[Attribute]) -> None:
        """Create a block without operations. types: element types of its arguments, inputs before outputs."""
        self.block = Block(arg_types=types)

    def add(self, op: Operation) -> SSAValue:
        """Append an operation of one result, and return the result."""
        self.block.add_op(op)
        return op.results[0]

    def finish(self, *values: SSAValue) -> Block:
        """Add the terminator to the block, and return the block."""
        self.block.add_op(ops.YieldOp(*values))
        return self.block

    def cast(self, value: SSAValue, to: Attribute, unsigned: bool) -> SSAValue:
        """Emit the conversion of a scalar to the type `to`, and return it; the scalar itself if it has the type.

        unsigned: whether integers are unsigned: they are widened with zeros, and converted to or from floats so.
        """
        conversion = cast_operation(value, to, unsigned)
        return value if conversion is None else self.add(conversion)

    def binary(self, function: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Emit a function of two values of one type, and return its result; VerifyException if it is not supported.

        function: a name such as "add" or "max_unsigned". For i1, "add" is `or`, and "mul" is `and`.
        """
        of_floats, of_integers = _BINARY[function]
        if lhs.type != rhs.type:
            raise VerifyException(f"{function} of {lhs.type} and {rhs.type}: the elements differ in type")
        if isinstance(lhs.type, AnyFloat):
            op = of_floats
        elif isinstance(lhs.type, IntegerType | IndexType):
            op = _BOOLEAN.get(function, of_integers) if lhs.type == IntegerType(1) else of_integers
        else:
            op = None
        if op is None:
            raise VerifyException(f"{function} of {lhs.type} is not supported")
        return self.add(op(lhs, rhs))

    def unary(self, function: str, a: SSAValue) -> SSAValue:
        """Emit a function of one value, and return its result; VerifyException if it is not supported.

        function: a name such as "exp". Integers have only "square".
        """
        if not isinstance(a.type, AnyFloat):
            if function == "square" and isinstance(a.type, IntegerType):
                return self.binary("mul", a, a)
            raise VerifyException(f"{function} of {a.type} is not supported, only floats are")
        if function == "square":
            return self.binary("mul", a, a)
        if function == "reciprocal":
            one = self.add(arith.ConstantOp(FloatAttr(1.0, a.type)))
            return self.binary("div", one, a)
        return self.add(_UNARY[function](a))


def cast_operation(value: SSAValue, to: Attribute, unsigned: bool) -> Operation | None:
    """Build the operation that converts `value` to type `to`; None if it has that type.

    Integers are signed, or unsigned if `unsigned`, where they are widened or converted to or from floats. The caller
    inserts the operation.

    Raises:
        VerifyException: There is no conversion, as between f16 and bf16, which have the same width.
    """
    source = value.type
    if source == to:
        return None
    # From or to an index, between integers, between floats, and between both.
    if isinstance(source, IndexType) and isinstance(to, IntegerType):
        return arith.IndexCastOp(value, to)
    if isinstance(source, IntegerType) and isinstance(to, IndexType):
        return arith.IndexCastOp(value, to)
    if isinstance(source, IntegerType) and isinstance(to, IntegerType):
        if source.width.data > to.width.data:
            return arith.TruncIOp(value, to)
        return arith.ExtUIOp(value, to) if unsigned else arith.ExtSIOp(value, to)
    if isinstance(source, AnyFloat) and isinstance(to, AnyFloat):
        if source.bitwidth == to.bitwidth:
            raise VerifyException(f"{source} does not become {to}: they have the same width")
        return arith.TruncFOp(value, to) if source.bitwidth > to.bitwidth else arith.ExtFOp(value, to)
    if isinstance(source, IntegerType) and isinstance(to, AnyFloat):
        return arith.UIToFPOp(value, to) if unsigned else arith.SIToFPOp(value, to)
    if isinstance(source, AnyFloat) and isinstance(to, IntegerType):
        return arith.FPToUIOp(value, to) if unsigned else arith.FPToSIOp(value, to)
    raise VerifyException(f"elements of {source} do not become {to}")


def product_sum(types: Sequence[Attribute], unsigned: bool) -> Block:
    """Build the body acc + a * b, or with zero points za and zb acc + (a - za) * (b - zb).

    types: element types of the arguments (a, b, acc) or (a, b, za, zb, acc). All are cast to that of acc first;
    integers widen by their sign, or with zeros when `unsigned`.
    """
    body = BodyBuilder(types)
    *inputs, acc = body.block.args
    factors = [body.cast(value, acc.type, unsigned) for value in inputs]
    a, b = factors[:2]
    if len(factors) == 4:
        a, b = body.binary("sub", a, factors[2]), body.binary("sub", b, factors[3])
    return body.finish(body.binary("add", acc, body.binary("mul", a, b)))


def pooling(types: Sequence[Attribute], function: str, unsigned: bool) -> Block:
    """Build the body of a pooling, which combines the running value with an element of the image.

    Args:
        types: Element types of the image, of the window (which only has a shape and is not read), and of the output.
        function: "sum", "max" or "min".
        unsigned: Whether integers are unsigned.
    """
    body = BodyBuilder(types)
    image, _, acc = body.block.args
    if function == "sum":
        combiner = "add"
    else:
        combiner = f"{function}_unsigned" if unsigned else function
    return body.finish(body.binary(combiner, acc, body.cast(image, acc.type, unsigned)))


def elementwise(types: Sequence[Attribute], function: str, cast: bool, unsigned: bool) -> Block:
    """Return the body of a generic that applies a function to one element of each input.

    Args:
        types: Element types of the inputs, then of the output.
        function: Name of the function: "copy", "select", or one of `unary` or `binary`.
        cast: Whether the inputs may have other types than the output; they are converted then.
        unsigned: Whether integers are widened with zeros instead of their sign.

    Raises:
        VerifyException: The types do not fit the function.
    """
    # The elements of the inputs, in the type of the output where they are cast.
    body = BodyBuilder(types)
    *inputs, out = body.block.args
    values: list[SSAValue] = [*inputs]
    if cast:
        values = [body.cast(value, out.type, unsigned) for value in values]
    # The function of them.
    if function == "copy":
        result = values[0]
    elif function == "select":
        if values[0].type != IntegerType(1) or values[1].type != values[2].type:
            raise VerifyException(f"select takes i1 and two of one type, got {', '.join(str(v.type) for v in values)}")
        result = body.add(arith.SelectOp(*values))
    elif len(values) == 1:
        result = body.unary(function, values[0])
    else:
        result = body.binary(function, *values)
    if result.type != out.type:
        raise VerifyException(f"{function} gives {result.type}, but the output holds {out.type}")
    return body.finish(result)
