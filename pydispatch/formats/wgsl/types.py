"""Types of WGSL: their canonical spelling, sizes and alignments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pydispatch.formats.wgsl.lex import WgslToken

if TYPE_CHECKING:
    from pydispatch.formats.wgsl.module import WgslMember, WgslModule

_SHORTHAND = re.compile(r"(vec[234]|mat[234]x[234])([fhiu])")
"""Predeclared alias of a vector or matrix, such as vec3f for vec3<f32>."""
_LETTERS = {"f": "f32", "h": "f16", "i": "i32", "u": "u32"}
"""Last letter of an alias → the element type."""
SCALARS = {"bool": 4, "i32": 4, "u32": 4, "f32": 4, "f16": 2, "i64": 8, "u64": 8, "f64": 8}
"""Bytes of each scalar."""
_MAX_TYPE_DEPTH = 32
"""Levels of nested types whose layout is computed; that of deeper ones counts as unknown."""


def type_text(tokens: Sequence[WgslToken]) -> str:
    """Return a type in its canonical spelling, without spaces: `vec4f` becomes `vec4<f32>`."""
    parts = []
    for token in tokens:
        short = _SHORTHAND.fullmatch(token.text)
        parts.append(f"{short[1]}<{_LETTERS[short[2]]}>" if short else token.text)
    return "".join(parts).replace(",>", ">")


class TypeLayout(NamedTuple):
    """Size and alignment of a type, in bytes."""

    size: int
    alignment: int


def layout(module: WgslModule, type_: str, depth: int = 0) -> TypeLayout | None:
    """Return the size and the alignment of a type in bytes; None if they are not known, as for a runtime-sized array.

    Args:
        module: The module, in which aliases and structs are looked up.
        type_: The type, in the spelling of `type_text`.
        depth: Number of types around it.
    """
    if depth > _MAX_TYPE_DEPTH:
        return None
    if type_ in SCALARS:
        return TypeLayout(SCALARS[type_], SCALARS[type_])
    # A name of the module: an alias or a struct.
    named = module.named.get(type_)
    if named is not None:
        if named.kind == "alias":
            return layout(module, named.type, depth + 1)
        if named.kind != "struct":
            return None
        return _struct(module, named.members, (layout(module, member.type, depth + 1) for member in named.members))
    # A type with template arguments, such as vec4<f32> or array<f32,8>: the first argument is that of its elements.
    name, _, rest = type_.partition("<")
    if not rest.endswith(">"):
        return None
    arguments = _arguments(rest[:-1])
    inner = layout(module, arguments[0], depth + 1) if arguments else None
    if inner is None:
        return None
    return _template_layout(module, name, arguments, inner)


def _template_layout(module: WgslModule, name: str, arguments: Sequence[str], inner: TypeLayout) -> TypeLayout | None:
    """Return the layout of a type `name<arguments>`; None if it is not known. `inner` is that of the first argument."""
    size, alignment = inner
    if name == "atomic":
        return inner
    if re.fullmatch(r"vec[234]", name):
        width = int(name[3])
        aligned_width = 2 if width == 2 else 4  # vec3 is aligned like vec4
        return TypeLayout(width * size, aligned_width * size)
    if re.fullmatch(r"mat[234]x[234]", name):
        columns, rows = int(name[3]), int(name[5])  # a matrix is an array of columns, which are vectors
        column_size = (2 if rows == 2 else 4) * size  # with padding: a column of 3 rows has the size of 4
        return TypeLayout(columns * column_size, alignment=column_size)
    if name == "array" and len(arguments) == 2:
        count = module.constant(arguments[1])
        return None if count is None else TypeLayout(count * _rounded_up(size, alignment), alignment)
    return None


def minimum_size(module: WgslModule, type_: str) -> tuple[int, bool]:
    """Return the minimum size in bytes of a buffer of this type, and whether the type has exactly this size.

    A runtime-sized array counts with one element, a type of unknown size with one 32-bit word:

    - `vec4<f32>` gives (16, True)
    - `array<vec4<f32>>` gives (16, False)
    - `struct { n: u32, a: array<vec4<f32>> }`, by its name, gives (32, False): `a` begins at byte 16
    - `struct { v: vec4<f32>, a: array<f32> }`, by its name, gives (32, False): a multiple of its alignment of 16

    Args:
        module: The module, in which aliases and structs are looked up.
        type_: The type, in the spelling of `type_text`.
    """
    known = layout(module, type_)
    if known is not None:
        return known.size, True
    smallest = _with_one_element(module, type_)
    return 4 if smallest is None else smallest.size, False


def _with_one_element(module: WgslModule, type_: str) -> TypeLayout | None:
    """Return the layout of a runtime-sized array with one element, or of a struct that ends in one; None for other
    types."""
    named = module.named.get(type_)
    if named is not None and named.kind == "struct" and named.members:
        # Only the last member of a struct can be a runtime-sized array.
        *others, last = named.members
        layouts = (layout(module, member.type) for member in others)
        return _struct(module, named.members, chain(layouts, [_with_one_element_in_array(module, last.type)]))
    return _with_one_element_in_array(module, type_)


def _with_one_element_in_array(module: WgslModule, type_: str) -> TypeLayout | None:
    """Return the layout of a runtime-sized array with one element; None for other types."""
    if not type_.startswith("array<"):
        return None
    arguments = _arguments(type_[len("array<") : -1])
    inner = layout(module, arguments[0]) if len(arguments) == 1 else None
    return None if inner is None else TypeLayout(_rounded_up(inner.size, inner.alignment), inner.alignment)


def _struct(
    module: WgslModule, members: Sequence[WgslMember], layouts: Iterable[TypeLayout | None]
) -> TypeLayout | None:
    """Return the size and the alignment of a struct in bytes; None if those of a member are not known.

    `layouts` are those of the types of the members, which the attributes `@size(n)` and `@align(n)` of a member change.
    They are not computed after the first unknown one: a struct may contain itself, twice.
    """
    end, struct_alignment = 0, 1
    for member, laid_out in zip(members, layouts, strict=True):
        if laid_out is None:
            return None
        size: int | None
        alignment: int | None
        size, alignment = laid_out
        names = [attribute.name for attribute in member.attributes]
        if "size" in names:
            size = module.number(member, "size")
        if "align" in names:
            alignment = module.number(member, "align")
        if size is None or alignment is None or alignment < 1:
            return None
        end = _rounded_up(end, alignment) + size
        struct_alignment = max(struct_alignment, alignment)
    return TypeLayout(_rounded_up(end, struct_alignment), struct_alignment)


def _rounded_up(size: int, alignment: int) -> int:
    """Return the smallest multiple of `alignment` that is at least `size`."""
    return -(-size // alignment) * alignment


def _arguments(text: str) -> list[str]:
    """Split template arguments at the commas outside of nested templates and parentheses; drop empty ones."""
    parts, depth = [""], 0  # depth: number of open brackets
    for char in text:
        if char in "<(":
            depth += 1
        elif char in ">)":
            depth -= 1
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part for part in parts if part]
