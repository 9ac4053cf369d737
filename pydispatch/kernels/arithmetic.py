"""Operations on scalars: common types of operands, conversions, and the operations that are emitted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pydispatch.kernels.entities import FLOATS, INTEGERS, UNSIGNED, Literal, Scalar
from pydispatch.kernels.writer import Writer, spelled

Number = Scalar | Literal
"""Operand or result of arithmetic: an SSA value, or a Python number that is known at compile time."""

WIDENING_ORDER = ("i8", "i16", "i32", "index", "i64")
"""Signed integer types; a value of one is converted implicitly to a later one. See `joined` for unsigned ones."""


class TypeMismatch(Exception):
    """Error of operands without a common type. `args` are the message and the remedy."""


def is_float(type: str) -> bool:
    """Return whether a type, such as "f32", is a floating-point type."""
    return type in FLOATS


def joined(lhs: Number, rhs: Number, what: str) -> str:
    """Return the type that both operands of an operation are converted to. Raise TypeMismatch if none exists.

    - A literal takes the type of the other operand: f32 and 2 give "f32". Two literals give the more general one
      of their `default_type`s: True and 5 give "i32".
    - Signed types widen in `WIDENING_ORDER`: i8 and i32 give "i32".
    - An unsigned type widens to a longer integer type: u8 and i32 give "i32". u32 and i32 have no common type, since
      neither holds all numbers of the other.
    - A float has a common type only with the same float type: i32 and f32, or f16 and f32, have none.

    Args:
        lhs: First operand.
        rhs: Second operand.
        what: Name of the operation in the error, such as "'+'".
    """
    if isinstance(lhs, Literal) and isinstance(rhs, Literal):
        return max(default_type(lhs), default_type(rhs), key=("i1", "i32", "f32").index)  # ascending generality
    if isinstance(lhs, Literal) or isinstance(rhs, Literal):
        scalar, literal = (rhs, lhs) if isinstance(lhs, Literal) else (lhs, rhs)
        assert isinstance(scalar, Scalar) and isinstance(literal, Literal)
        check_literal(literal, scalar.type, what)
        return scalar.type
    if lhs.type == rhs.type:
        return lhs.type
    if lhs.type in WIDENING_ORDER and rhs.type in WIDENING_ORDER:
        return max(lhs.type, rhs.type, key=WIDENING_ORDER.index)
    if lhs.type in INTEGERS and rhs.type in INTEGERS:  # INTEGERS has the number of bits of each type
        shorter, longer = sorted((lhs.type, rhs.type), key=INTEGERS.__getitem__)
        if shorter in UNSIGNED and INTEGERS[shorter] < INTEGERS[longer]:
            return longer
    # The conversion that the error proposes: to the first float or unsigned type among the two.
    wanted = next((type for type in (lhs.type, rhs.type) if is_float(type) or type in UNSIGNED), "i32")
    raise TypeMismatch(f"{what} of {lhs.type} and {rhs.type}", f"convert one of them: pydispatch.{wanted}(...)")


def widens(type: str, wanted: str) -> bool:
    """Return whether a value of `type` is converted implicitly to the type `wanted`, such as i8 to i32."""
    unnamed, other = Scalar("", type), Scalar("", wanted)  # only their types count
    try:
        return joined(unnamed, other, what="") == wanted
    except TypeMismatch:
        return False


def check_literal(literal: Literal, type: str, what: str) -> None:
    """Raise TypeMismatch for a literal that the type cannot hold; floats hold any number. `what` names its use."""
    value = literal.value
    if type == "i1" and not isinstance(value, bool):
        raise TypeMismatch(
            f"{what} of a condition and the number {value!r}", "write True or False, or pydispatch.i32(...)"
        )
    if type in INTEGERS:
        if isinstance(value, float):
            raise TypeMismatch(f"{what} of {type} and the fraction {value!r}",
                               f"write a whole number, or pydispatch.f32(...) around the {type}")  # fmt: skip
        width = INTEGERS[type]
        least = 0 if type in UNSIGNED else -(1 << (width - 1))
        end = 1 << width  # for a signed type, too: it also takes literals of bit patterns, such as 0xFF of an i8
        if not least <= value < end:
            raise TypeMismatch(f"the number {value} does not fit into {type}", "use a wider type")


def default_type(literal: Literal) -> str:
    """Return the type of a variable whose first value is a bare Python number: "i1", "i32" or "f32"."""
    if isinstance(literal.value, bool):
        return "i1"
    return "f32" if isinstance(literal.value, float) else "i32"


def cast(writer: Writer, value: Number, type: str, what: str = "the value") -> Scalar:
    """Emit the conversion of a number to another type, even if information is lost, and return the result.

    Raise TypeMismatch for a literal that does not fit; `what` names the value in the error.
    """
    if isinstance(value, Literal):
        python_value = value.value
        if is_float(type):
            return writer.constant(_as_float(python_value, type), type)
        if type == "i1":
            return writer.constant(bool(python_value), type)
        integer = _as_int(python_value, type)
        check_literal(Literal(integer), type, what)
        return writer.constant(integer, type)

    # A number that is known at run time only. Conditions first, then floats, then integers and index.
    source = value.type
    if source == type:
        return value
    if source == "i1":
        return _from_condition(writer, value, type)
    if type == "i1":
        zero = writer.constant(0, source)
        compare = "arith.cmpf une" if is_float(source) else "arith.cmpi ne"
        return writer.value(f"{compare}, {value.name}, {zero.name} : {source}", "i1")
    if is_float(source) and is_float(type):
        return _between_floats(writer, value, type)
    if is_float(source):  # MLIR has no conversion between floats and index
        through = "i64" if type == "index" else type
        operation = "arith.fptoui" if type in UNSIGNED else "arith.fptosi"
        converted = writer.value(f"{operation} {value.name} : {source} to {through}", through)
        return cast(writer, converted, type)
    if is_float(type):
        whole = cast(writer, value, "i64") if source == "index" else value
        operation = "arith.uitofp" if whole.type in UNSIGNED else "arith.sitofp"
        return writer.value(f"{operation} {whole.name} : {whole.type} to {type}", type)
    if "index" in (source, type):
        operation = "arith.index_castui" if source in UNSIGNED else "arith.index_cast"
        return writer.value(f"{operation} {value.name} : {source} to {type}", type)
    if INTEGERS[type] == INTEGERS[source]:  # such as u32 and i32, which MLIR does not distinguish
        return Scalar(value.name, type)
    longer = "arith.extui" if source in UNSIGNED else "arith.extsi"
    operation = longer if INTEGERS[type] > INTEGERS[source] else "arith.trunci"
    return writer.value(f"{operation} {value.name} : {source} to {type}", type)


def _as_int(value: complex, type: str) -> int:
    """Return a Python number without its fraction. Raise TypeMismatch for complex numbers, infinities and NaN."""
    try:
        return int(_as_real(value))
    except (OverflowError, ValueError):
        raise TypeMismatch(f"the number {value} does not fit into {type}", "give a finite number") from None


def _as_real(value: complex) -> float:
    """Return a Python number unchanged. Raise TypeMismatch for a complex one."""
    if isinstance(value, complex):
        raise TypeMismatch(f"the number {value} is complex", "kernels compute with real numbers")
    return value


def _as_float(value: complex, type: str) -> float:
    """Return a Python number as a float. Raise TypeMismatch for complex numbers and for integers that are too large."""
    value = _as_real(value)
    try:
        return float(value)
    except OverflowError:
        digits = int(value).bit_length() * 30103 // 100000 + 1  # log10(2) = 0.30103; str() refuses huge integers
        raise TypeMismatch(
            f"an integer of some {digits} digits does not fit into {type}", "write math.inf for infinity"
        ) from None


def _from_condition(writer: Writer, value: Scalar, type: str) -> Scalar:
    """Convert an i1 to 0 or 1 of another type."""
    if is_float(type):
        return writer.value(f"arith.uitofp {value.name} : i1 to {type}", type)
    if type == "index":  # which arith.extui does not take
        return cast(writer, writer.value(f"arith.extui {value.name} : i1 to i64", "i64"), "index")
    return writer.value(f"arith.extui {value.name} : i1 to {type}", type)


def _between_floats(writer: Writer, value: Scalar, type: str) -> Scalar:
    """Convert between different float types.

    Types of equal width, such as f16 and bf16, are converted through f32: MLIR only extends and truncates.
    """
    if FLOATS[type] == FLOATS[value.type]:
        value = writer.value(f"arith.extf {value.name} : {value.type} to f32", "f32")
    operation = "arith.extf" if FLOATS[type] > FLOATS[value.type] else "arith.truncf"
    return writer.value(f"{operation} {value.name} : {value.type} to {type}", type)


def binary(writer: Writer, symbol: str, lhs: Number, rhs: Number) -> Number:
    """Emit a binary operator with Python's semantics (`//` and `%` round down), and return its result.

    Operands get a common type first. For two literals the result is a literal, and nothing is emitted. Raise
    TypeMismatch for types that lack the operator.
    """
    if isinstance(lhs, Literal) and isinstance(rhs, Literal):
        return folded(symbol, lhs, rhs)
    type = joined(lhs, rhs, f"'{symbol}'")
    if symbol == "**":  # converts the operands itself: the literal exponents 2 and 3 become products
        return _power(writer, lhs, rhs, type)
    left, right = cast(writer, lhs, type), cast(writer, rhs, type)
    table = _CONDITION if type == "i1" else _table_of_numbers(type)
    if symbol not in table:
        raise TypeMismatch(
            f"'{symbol}' of {type}", _REMEDIES.get((symbol, is_float(type)), "convert the operands first")
        )
    lowering = table[symbol]  # the name of an MLIR operation, or a function that emits several
    if isinstance(lowering, str):
        return writer.value(f"{lowering} {left.name}, {right.name} : {type}", type)
    return lowering(writer, left, right)


def _extreme(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a function like `choose`, Python's max or min, that returns NaN if an operand is NaN.

    Python's max(1.0, nan) is 1.0, but arith.maximumf returns NaN: literals are folded to the latter.
    """

    def extreme(a: Any, b: Any) -> Any:
        """Return the larger or the smaller number, or NaN."""
        return next((x for x in (a, b) if not isinstance(x, int) and math.isnan(x)), choose(a, b))

    return extreme


_PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "**": lambda a, b: a**b,
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b, "max": _extreme(max), "min": _extreme(min),
}  # fmt: skip
"""Operators, and "max" and "min", on numbers that are known when the kernel is compiled."""


def folded(symbol: str, lhs: Literal, rhs: Literal) -> Literal:
    """Evaluate a binary operator, or "max" or "min", on two literals.

    Raise TypeMismatch if Python raises an error, such as for a division by 0, or if the result may have more than
    `MAX_BITS` bits.
    """
    if _result_bits(symbol, lhs.value, rhs.value) > MAX_BITS:
        raise TypeMismatch(f"the result of '{symbol}' has more than {MAX_BITS} bits", "give other numbers")
    try:
        return Literal(_PYTHON[symbol](lhs.value, rhs.value))
    except (ArithmeticError, TypeError, ValueError) as error:
        text = f"{_shown(lhs)} {symbol} {_shown(rhs)}: {error}"
        raise TypeMismatch(text, "give other numbers") from None


MAX_BITS = 4096
"""Bits of an integer that powers and shifts compute while compiling: larger ones take time and fit into no type."""


def _result_bits(symbol: str, lhs: Any, rhs: Any) -> int:
    """Return an upper bound of the bit length of a power or a left shift of two integers, such as 20 for 2 ** 10; 0 for
    other operations, and for negative `rhs`.

    The operands suffice for it, so that a huge result is refused before it is computed.
    """
    if not isinstance(lhs, int) or not isinstance(rhs, int) or rhs < 0:
        return 0
    if symbol == "**" and abs(lhs) > 1:  # powers of 0, 1 and -1 stay small
        return lhs.bit_length() * rhs
    if symbol == "<<" and lhs != 0:
        return lhs.bit_length() + rhs
    return 0


def _shown(literal: Literal) -> str:
    """Return a literal as text for messages; long integers are abbreviated."""
    is_long = isinstance(literal.value, int) and literal.value.bit_length() > 256
    return "an integer of more than 256 bits" if is_long else repr(literal.value)


def _floor_divide(writer: Writer, lhs: Scalar, rhs: Scalar) -> Scalar:
    """Emit a signed integer division that rounds down."""
    return writer.value(f"arith.floordivsi {lhs.name}, {rhs.name} : {lhs.type}", lhs.type)


def _modulo(writer: Writer, lhs: Scalar, rhs: Scalar) -> Scalar:
    """Emit a signed integer modulo whose result has the sign of the divisor, as in Python, unlike arith.remsi."""
    quotient = _floor_divide(writer, lhs, rhs)
    product = writer.value(f"arith.muli {quotient.name}, {rhs.name} : {lhs.type}", lhs.type)
    return writer.value(f"arith.subi {lhs.name}, {product.name} : {lhs.type}", lhs.type)


def _floor_divide_floats(writer: Writer, lhs: Scalar, rhs: Scalar) -> Scalar:
    """Emit a division of floats whose result is rounded down."""
    quotient = writer.value(f"arith.divf {lhs.name}, {rhs.name} : {lhs.type}", lhs.type)
    return writer.value(f"math.floor {quotient.name} : {lhs.type}", lhs.type)


def _modulo_floats(writer: Writer, lhs: Scalar, rhs: Scalar) -> Scalar:
    """Emit a modulo of floats whose result has the sign of the divisor, as in Python, unlike arith.remf."""
    type = lhs.type
    rest = writer.value(f"arith.remf {lhs.name}, {rhs.name} : {type}", type)
    zero = writer.constant(0, type)
    is_inexact = writer.value(f"arith.cmpf une, {rest.name}, {zero.name} : {type}", "i1")
    signs = [writer.value(f"arith.cmpf olt, {value.name}, {zero.name} : {type}", "i1") for value in (rest, rhs)]
    differ = writer.value(f"arith.xori {signs[0].name}, {signs[1].name} : i1", "i1")
    is_corrected = writer.value(f"arith.andi {is_inexact.name}, {differ.name} : i1", "i1")
    total = writer.value(f"arith.addf {rest.name}, {rhs.name} : {type}", type)
    result = writer.value(f"arith.select {is_corrected.name}, {total.name}, {rest.name} : {type}", type)
    # A zero, too, has the sign of the divisor.
    return writer.value(f"math.copysign {result.name}, {rhs.name} : {type}", type)


def _power(writer: Writer, lhs: Number, rhs: Number, type: str) -> Scalar:
    """Emit `**` on operands whose common type is `type`: products for the literal exponents 2 and 3, else `math.powf`,
    which needs a float type."""
    base = cast(writer, lhs, type)
    if isinstance(rhs, Literal) and rhs.value in (2, 3):
        multiply = "arith.mulf" if is_float(type) else "arith.muli"
        square = writer.value(f"{multiply} {base.name}, {base.name} : {type}", type)
        return square if rhs.value == 2 else writer.value(f"{multiply} {square.name}, {base.name} : {type}", type)
    if not is_float(type):
        raise TypeMismatch(
            f"'**' of {type}", "powers of whole numbers are 2 and 3; multiply, or convert to pydispatch.f32 first"
        )
    return writer.value(f"math.powf {base.name}, {cast(writer, rhs, type).name} : {type}", type)


Table = dict[str, "str | Callable[[Writer, Scalar, Scalar], Scalar]"]
"""Operator → name of an MLIR operation, or a function that emits several."""
_FLOAT: Table = {
    "+": "arith.addf", "-": "arith.subf", "*": "arith.mulf", "/": "arith.divf", "//": _floor_divide_floats,
    "%": _modulo_floats, "max": "arith.maximumf", "min": "arith.minimumf",
}  # fmt: skip
"""Operators of floats."""
_INTEGER: Table = {
    "+": "arith.addi", "-": "arith.subi", "*": "arith.muli", "//": _floor_divide, "%": _modulo,
    "&": "arith.andi", "|": "arith.ori", "^": "arith.xori", "<<": "arith.shli", ">>": "arith.shrsi",
    "max": "arith.maxsi", "min": "arith.minsi",
}  # fmt: skip
"""Operators of signed integers."""
_UNSIGNED: Table = {
    **_INTEGER, "//": "arith.divui", "%": "arith.remui", ">>": "arith.shrui", "max": "arith.maxui",
    "min": "arith.minui",
}  # fmt: skip
"""Operators of unsigned integers."""
_CONDITION: Table = {"&": "arith.andi", "|": "arith.ori", "^": "arith.xori"}
"""Operators of conditions, which are of type i1."""
_REMEDIES = {
    ("/", False): "write // for the quotient rounded down, or convert to pydispatch.f32 first",
}
"""(operator that is not defined, whether the type is a float) -> advice on what to write instead."""


class _Predicates(NamedTuple):
    """Predicates of a comparison: of arith.cmpi for signed integers, and of arith.cmpf."""

    of_integers: str
    of_floats: str


_COMPARISONS = {
    "<": _Predicates("slt", "olt"), "<=": _Predicates("sle", "ole"), ">": _Predicates("sgt", "ogt"),
    ">=": _Predicates("sge", "oge"), "==": _Predicates("eq", "oeq"), "!=": _Predicates("ne", "une"),
}  # fmt: skip
"""Predicates of Python's comparisons. With a NaN all are false but "!=", which is true."""


def compare(writer: Writer, symbol: str, lhs: Number, rhs: Number) -> Scalar | Literal:
    """Emit a comparison such as "<", whose result is an i1, or evaluate it if both operands are literals."""
    if isinstance(lhs, Literal) and isinstance(rhs, Literal):
        x, y = lhs.value, rhs.value
        return Literal({"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y}[symbol])
    type = joined(lhs, rhs, f"'{symbol}'")
    left, right = cast(writer, lhs, type), cast(writer, rhs, type)
    predicates = _COMPARISONS[symbol]
    if is_float(type):
        operation, predicate = "arith.cmpf", predicates.of_floats
    else:
        operation, predicate = "arith.cmpi", predicates.of_integers
    if type in UNSIGNED and predicate.startswith("s"):  # signed orders begin with "s"; "eq" and "ne" have no sign
        predicate = f"u{predicate[1:]}"  # "ult" in place of "slt"
    return writer.value(f"{operation} {predicate}, {left.name}, {right.name} : {type}", "i1")


def negated(writer: Writer, value: Number) -> Number:
    """Emit `-value`, or evaluate it for a literal."""
    if isinstance(value, Literal):
        return Literal(-value.value)
    if is_float(value.type):
        return writer.value(f"arith.negf {value.name} : {value.type}", value.type)
    if value.type == "i1":
        raise TypeMismatch("'-' of a condition", "write not, or pydispatch.i32(...)")
    zero = writer.constant(0, value.type)
    return writer.value(f"arith.subi {zero.name}, {value.name} : {value.type}", value.type)


def inverted(writer: Writer, value: Number) -> Number:
    """Emit `~` of an integer or `not` of a condition, or evaluate it for a literal."""
    if isinstance(value, Literal):
        if not isinstance(value.value, int):
            raise TypeMismatch(f"'~' of the number {value.value!r}", "write a whole number")
        return Literal(not value.value if isinstance(value.value, bool) else ~value.value)
    if is_float(value.type):
        raise TypeMismatch(f"'~' of {value.type}", "use pydispatch.bitcast(value, pydispatch.i32) for its bits")
    ones = writer.constant(True if value.type == "i1" else -1, value.type)  # all bits 1: xor inverts each bit
    return writer.value(f"arith.xori {value.name}, {ones.name} : {value.type}", value.type)


def combiner(symbol: str, type: str) -> str:
    """Return the operation of `arith` that combines two values of a type, without the dialect: "addf" for "+" and f32.

    `symbol` is "+", "max" or "min".
    """
    lowering = _table_of_numbers(type)[symbol]
    assert isinstance(lowering, str)
    return lowering.removeprefix("arith.")


def _table_of_numbers(type: str) -> Table:
    """Return the operators of floats, unsigned or signed integers, whichever `type` is."""
    if is_float(type):
        return _FLOAT
    return _UNSIGNED if type in UNSIGNED else _INTEGER


def reassociable(lines: Sequence[str], type: str) -> list[str]:
    """Return a copy of the MLIR lines in which additions of the float type `type` may be reassociated:
    `arith.addf %a, %b fastmath<reassoc> : f32 loc(...)`.

    A reduction of these lines can then be vectorized. Maxima and minima need no mark: each order has the same result.
    """
    suffix = f" : {type} loc"
    return [line.replace(suffix, f" fastmath<reassoc>{suffix}") if "arith.addf" in line else line for line in lines]


def neutral(symbol: str, type: str) -> str:
    """Return the identity element of the operator "+", "max" or "min" on a type, as MLIR text."""
    if symbol == "+":
        return spelled(0, type)
    if is_float(type):
        return spelled(-math.inf if symbol == "max" else math.inf, type)
    width = INTEGERS[type]
    if type in UNSIGNED:
        return spelled(0 if symbol == "max" else (1 << width) - 1, type)
    return spelled(-(1 << (width - 1)) if symbol == "max" else (1 << (width - 1)) - 1, type)
