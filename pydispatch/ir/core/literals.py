"""Elements of tensor literals that xDSL's parser does not read: hexadecimal and complex ones."""

from __future__ import annotations

import re
from typing import Any

from xdsl.dialects.builtin import AnyFloat, ComplexType
from xdsl.parser import AttrParser

HEXADECIMAL = re.compile(r"(?:-\s*)?0x")
"""Start of a hexadecimal number, with its sign."""
MINUS_BEFORE_BITS = "a hexadecimal float states its bits and takes no minus: set the sign bit, the highest one, instead"
"""Error message for `-0x3C00 : f16`."""


class HexElement(AttrParser._TensorLiteralElement):
    """Hexadecimal element of a tensor literal: the bits of a float, the value of an integer."""

    def to_type(self, parser: Any, type: Any) -> Any:
        """Return the literal as a number of the element type `type`; of a float type it states the bits, not the value.

        Raise a parse error for more bits than the float type has, and for a minus before them.
        """
        if not isinstance(type, AnyFloat):
            return super().to_type(parser, type)
        assert isinstance(self.value, int)
        if self.span.text.startswith("-"):
            parser.raise_error(MINUS_BEFORE_BITS, self.span)
        size = type.compile_time_size
        if self.value >> (8 * size):
            parser.raise_error(f"{self.span.text} has more bits than {type}", self.span)
        return next(iter(type.iter_unpack(self.value.to_bytes(size, "little"))))


class ComplexElement(AttrParser._TensorLiteralElement):
    """Complex element `(real, imaginary)` of a tensor literal."""

    def to_type(self, parser: Any, type: Any) -> Any:
        """Return (real, imaginary) as numbers of the complex `type`; raise an error for any other type."""
        if not isinstance(type, ComplexType):
            parser.raise_error(f"a complex number is no element of {type}", self.span)
        return tuple(part.to_type(parser, type.element_type) for part in self.value)  # type: ignore[union-attr]
