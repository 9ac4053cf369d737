"""A float in the function being written, for functions in plain arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydispatch.compiler.emit.spirv.function import FunctionEmitter
from pydispatch.compiler.emit.spirv.math.coefficients import POLYNOMIALS
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.types import single_bits

if TYPE_CHECKING:
    from typing_extensions import Self


class Single:
    """An f32 in the function being written; arithmetic writes instructions, numbers are constants."""

    __slots__ = ("f", "id")
    width = 32
    upper_digits = 0xFFFFF000
    polynomials = POLYNOMIALS

    def __init__(self, f: FunctionEmitter, id: Id) -> None:
        self.f, self.id = f, id

    @staticmethod
    def spell(value: float) -> int:
        """The bits of a number."""
        return single_bits(value)

    def _of(self, other: Self | float) -> Id:
        return other.id if isinstance(other, Single) else self.f.m.number(self.spell(other), self.width)

    def made(self, id: Id) -> Self:
        """A number of this type."""
        return type(self)(self.f, id)

    def new(self, value: float) -> Self:
        return self.made(self._of(value))

    def word(self, name: str, a: int, b: int) -> Id:
        """Arithmetic of integers as wide as this; plain ints are constants."""
        left, right = (x if isinstance(x, Id) else self.f.m.integer(x, self.width) for x in (a, b))
        return self.f.code.let(name, self.f.m.int(self.width), left, right)

    def from_bits(self, bits: Id) -> Self:
        return self.made(self.f.code.let("Bitcast", self.f.m.float(self.width), bits))

    def _op(self, name: str, a: Self | float, b: Self | float) -> Self:
        made = self.f.code.let(name, self.f.m.float(self.width), self._of(a), self._of(b))
        self.f.m.decorate(made, "NoContraction")
        return self.made(made)

    def __add__(self, other: Self | float) -> Self:
        return self._op("FAdd", self, other)

    def __radd__(self, other: float) -> Self:
        return self._op("FAdd", other, self)

    def __sub__(self, other: Self | float) -> Self:
        return self._op("FSub", self, other)

    def __rsub__(self, other: float) -> Self:
        return self._op("FSub", other, self)

    def __mul__(self, other: Self | float) -> Self:
        return self._op("FMul", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Self | float) -> Self:
        return self._op("FDiv", self, other)

    def __rtruediv__(self, other: float) -> Self:
        return self._op("FDiv", other, self)

    def __neg__(self) -> Self:
        return self.made(self.f.code.let("FNegate", self.f.m.float(self.width), self.id))

    def fma(self, factor: Self | float, term: Self | float) -> Self:
        """self * factor + term."""
        return self.made(self.f.code.glsl("Fma", self.f.m.float(self.width), self.id, self._of(factor), self._of(term)))

    def product(self, other: Self) -> tuple[Self, Self]:
        """The product and what it was rounded by; nothing here needs to be fused."""
        whole = self * other
        high, most = self.upper(), other.upper()
        low, rest = self - high, other - most
        return whole, ((high * most - whole) + high * rest + low * most) + low * rest

    def upper(self) -> Self:
        """The upper half of the digits."""
        return self.from_bits(self.word("BitwiseAnd", self.bits(), self.upper_digits))

    def glsl(self, name: str) -> Self:
        return self.made(self.f.code.glsl(name, self.f.m.float(self.width), self.id))

    def poly(self, name: str) -> Self:
        """A polynomial by its name."""
        first, second, *rest = self.polynomials[name]
        total = self.fma(first, second)
        for coefficient in rest:
            total = total.fma(self, coefficient)
        return total

    def test(self, name: str, other: Self | float) -> Id:
        """A comparison; false where one is NaN."""
        return self.f.code.let(f"FOrd{name}", self.f.m.bool(), self.id, self._of(other))

    def pick(self, condition: Id, other: Self | float) -> Self:
        """self where the condition holds, else the other."""
        return self.made(self.f.code.let("Select", self.f.m.float(self.width), condition, self.id, self._of(other)))

    def bits(self) -> Id:
        return self.f.code.let("Bitcast", self.f.m.int(self.width), self.id)

    def clamp(self, low: float, high: float) -> Self:
        """NaN stays NaN."""
        raised = self.new(low).pick(self.test("LessThan", low), self)
        return raised.new(high).pick(raised.test("GreaterThan", high), raised)

    def size(self) -> Self:
        return self.glsl("FAbs")

    def with_sign_of(self, other: Self) -> Self:
        top = 1 << (self.width - 1)
        magnitude, sign = self.word("BitwiseAnd", self.bits(), top - 1), self.word("BitwiseAnd", other.bits(), top)
        return self.from_bits(self.word("BitwiseOr", magnitude, sign))

    def is_nan(self) -> Id:
        return self.f.code.let("IsNan", self.f.m.bool(), self.id)


def word(f: FunctionEmitter, name: str, a: int, b: int) -> Id:
    """32-bit integer arithmetic; plain ints are constants."""
    left, right = (x if isinstance(x, Id) else f.m.integer(x) for x in (a, b))
    return f.code.let(name, f.m.int(32), left, right)


def from_bits(f: FunctionEmitter, bits: Id) -> Single:
    return Single(f, f.code.let("Bitcast", f.m.float(32), bits))
