"""Parameters of a CUDA kernel as its author describes them, if they are not all buffers and then all constants.

A dispatch passes buffers (its bindings) and 32-bit words (its constants). A parameter is one of these, or a list of
them, which is a struct as C lays it out:

    binding(0)                    the address of binding 0: a pointer of 8 bytes
    constant(0), constant(0) : T  word 0 of the constants; T is i8, i16, i32, i64, f16, f32 or f64, and takes two words
                                  if it has 8 bytes
    extend(constant(0)) : i64     word 0 with its sign, in 8 bytes
    7 : T                         a number; T is i8 to i64
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Description = Any
"""A string, or a list of descriptions."""

MOST_BYTES = 32764
"""Maximum size of all parameters of a kernel in bytes; a larger description is refused, whatever the device."""
_MOST_NESTED = 16
"""Depth of nested structs that is refused: descriptions are untrusted."""
_BYTES = {"i8": 1, "i16": 2, "f16": 2, "i32": 4, "f32": 4, "i64": 8, "f64": 8}
"""Type of a constant of the dispatch, or of a literal number such as `7 : i64` → its size in bytes."""
_FORM = re.compile(
    r"\s*(?:"
    r"binding\((?P<binding>\d{1,4})\)"
    r"|constant\((?P<constant>\d{1,4})\)(?:\s*:\s*(?P<constant_type>\w+))?"
    r"|extend\(constant\((?P<extended>\d{1,4})\)\)\s*:\s*i64"
    r"|(?P<number>-?\d{1,20})\s*:\s*(?P<number_type>\w+)"
    r")\s*",
    re.ASCII,
)
"""Description of a scalar, in one of the forms that `_FORMS` shows."""
_FORMS = "binding(0), constant(0) : i32, extend(constant(0)) : i64, or a number, 0 : i64"
"""Examples of each form of description, for messages."""


class Field(NamedTuple):
    """Scalar in the parameters of a kernel, which a dispatch passes.

    Attributes:
        offset: Offset from the first parameter, in bytes.
        size: Size in bytes.
        kind: "binding", the address of a buffer; "constant", one or two 32-bit constants of the dispatch; "extended",
            one such constant with its sign extended to 64 bits; or "number", a literal.
        value: Index of the binding or of the (first) 32-bit constant; for "number" the value itself, as unsigned bits.
    """

    offset: int
    size: int
    kind: str
    value: int

    @property
    def constants(self) -> range:
        """Indices of the 32-bit constants of the dispatch that the scalar is read from: two for 8 bytes, or none."""
        if self.kind == "extended":
            return range(self.value, self.value + 1)
        if self.kind == "constant":
            return range(self.value, self.value + (2 if self.size == 8 else 1))
        return range(0)


class _Scalar(NamedTuple):
    """Scalar of a parameter, before its offset is known.

    Attributes:
        size: Bytes of the field.
        kind, value: As of a `Field`.
    """

    size: int
    kind: str
    value: int


class _Layout(NamedTuple):
    """Layout of a parameter or of a struct member.

    Attributes:
        scalars: (offset in bytes, scalar) of each scalar in it.
        size: Size in bytes.
        alignment: Alignment in bytes.
    """

    scalars: list[tuple[int, _Scalar]]
    size: int
    alignment: int


@dataclass(frozen=True)
class Parameters:
    """Layout of a kernel's parameters in memory, from their descriptions; `parameters_of` creates it.

    Example:
        ["binding(0)", ["constant(0) : i32", "7 : i64"]] is a pointer, and a struct of 4 bytes, 4 of padding and 8:
        offsets (0, 8), sizes (8, 16), alignments (8, 8), size 24, and fields at the offsets 0, 8 and 16.

    Attributes:
        offsets: Offset of each parameter from the first one, in bytes.
        sizes: Size of each parameter, in bytes.
        alignments: Alignment of each parameter, in bytes.
        fields: Scalars of all parameters, by ascending offset; a struct has one for each of its scalar members.
        size: Size of all parameters together in bytes, without padding after the last one.
    """

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    alignments: tuple[int, ...]
    fields: tuple[Field, ...]
    size: int

    def mismatch(self, bindings: int, constants: int) -> str | None:
        """Return which binding or constant the parameters lack, or use although it does not exist; None if all match.

        Args:
            bindings: Number of bindings of the dispatch.
            constants: Number of its 32-bit constants.
        """
        used_bindings = {field.value for field in self.fields if field.kind == "binding"}
        used_constants = {index for field in self.fields for index in field.constants}
        for what, used, count in (("binding", used_bindings, bindings), ("constant", used_constants, constants)):
            beyond = [index for index in sorted(used) if index >= count]
            if beyond:
                return f"there is no {what} {beyond[0]}: the layout has {count}"
            missing = [index for index in range(count) if index not in used]
            if missing:
                return f"{what} {missing[0]} of the layout is in no parameter"
        return None


def parameters_of(descriptions: Sequence[Description]) -> Parameters:
    """Lay out the described parameters; raise ValueError for a malformed description."""
    offsets, sizes, alignments, fields = [], [], [], []
    at = 0
    for index, description in enumerate(descriptions):
        layout = _layout_of(description, index, depth=0)
        at = _round_up(at, layout.alignment)
        offsets.append(at)
        sizes.append(layout.size)
        alignments.append(layout.alignment)
        fields += [Field(at + offset, *scalar) for offset, scalar in layout.scalars]
        at += layout.size
        if at > MOST_BYTES:
            raise ValueError(f"the parameters have more than {MOST_BYTES} bytes")
    return Parameters(
        offsets=tuple(offsets), sizes=tuple(sizes), alignments=tuple(alignments), fields=tuple(fields), size=at
    )


def _layout_of(description: Description, index: int, depth: int) -> _Layout:
    """Lay out a parameter or struct member as C does; raise ValueError for a malformed description.

    ["constant(0) : i32", "binding(0)"] is a struct of size 16 and alignment 8, with scalars at the offsets 0 and 8.

    Args:
        description: A string for a scalar, or a list of the descriptions of a struct's members.
        index: Index of the parameter, for messages.
        depth: Number of structs around it.
    """
    if isinstance(description, str):
        scalar = _parse_scalar(description, index)
        return _Layout([(0, scalar)], scalar.size, alignment=scalar.size)
    if not isinstance(description, (list, tuple)) or not description or depth == _MOST_NESTED:
        raise ValueError(
            f"parameter {index} is {description!r:.60}, expected {_FORMS}, or a list of these for a struct"
        )
    # A struct: each member is at the next multiple of its alignment, the end at one of the struct's own alignment.
    scalars: list[tuple[int, _Scalar]] = []
    at, alignment = 0, 1
    for member_description in description:
        member = _layout_of(member_description, index, depth + 1)
        at = _round_up(at, member.alignment)
        alignment = max(alignment, member.alignment)
        scalars += [(at + offset, scalar) for offset, scalar in member.scalars]
        at += member.size
    return _Layout(scalars, _round_up(at, alignment), alignment)


def _parse_scalar(text: str, index: int) -> _Scalar:
    """Parse the description of a scalar; raise ValueError if it is malformed.

    "binding(2)" has 8 bytes, kind "binding" and value 2; "constant(0) : i64" 8 bytes, "constant", 0;
    "extend(constant(1)) : i64" 8 bytes, "extended", 1; "-1 : i8" 1 byte, "number", 255.

    index: index of the parameter that it is in, for messages.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"parameter {index} is '{text:.60}', expected {_FORMS}")
    if match["binding"]:
        return _Scalar(size=8, kind="binding", value=int(match["binding"]))
    if match["extended"]:
        return _Scalar(size=8, kind="extended", value=int(match["extended"]))
    # The rest is a constant, of type i32 if none is stated, or a number, of an integer type.
    is_constant = bool(match["constant"])
    type_ = (match["constant_type"] or "i32") if is_constant else match["number_type"]
    size = _BYTES.get(type_)
    is_float_number = not is_constant and type_[0] == "f"
    if size is None or is_float_number:
        types = ", ".join(_BYTES) if is_constant else "i8, i16, i32, i64"
        raise ValueError(f"parameter {index} is '{text:.60}', whose type is none of {types}")
    if is_constant:
        return _Scalar(size, kind="constant", value=int(match["constant"]))
    value = int(match["number"])  # signed or unsigned: -1 and 255 are the same i8
    if not -(1 << (8 * size - 1)) <= value < 1 << 8 * size:
        raise ValueError(f"parameter {index} is '{text:.60}', which does not fit into {type_}")
    return _Scalar(size, kind="number", value=value & ((1 << 8 * size) - 1))


def _round_up(at: int, alignment: int) -> int:
    """Return the least multiple of `alignment` that is not below the byte offset `at`."""
    return -(-at // alignment) * alignment


def words_of(fields: Sequence[Field], addresses: Sequence[int], words: Sequence[int]) -> Iterator[int]:
    """Yield the value of each field as an unsigned number of its size.

    Args:
        fields: The fields.
        addresses: Address of each binding in memory of the device.
        words: The 32-bit constants, as unsigned numbers.
    """
    for field in fields:
        if field.kind == "binding":
            yield addresses[field.value]
        elif field.kind == "number":
            yield field.value
        elif field.kind == "extended":  # the sign of a 32-bit constant fills 64 bits
            word = words[field.value]
            is_negative = word >> 31
            yield word | 0xFFFFFFFF << 32 if is_negative else word
        elif field.size == 8:  # a constant of two words
            yield words[field.value] | words[field.value + 1] << 32
        else:
            yield words[field.value] & ((1 << 8 * field.size) - 1)
