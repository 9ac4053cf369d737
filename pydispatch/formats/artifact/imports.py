"""The parameter structure of an import: its layout, and its C declaration.

An import is called as `int32_t f(void* params, void* context, void* reserved)`. `params` points at a C structure of the
results, the arguments and the fields that the declaration requests, in this order, with the natural alignment of a
64-bit target. Two or more results are a nested structure at its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydispatch.formats.artifact.strict import flag, listed, table, text

SCALARS: dict[str, tuple[int, str]] = {
    "i1": (1, "bool"),
    "i8": (1, "int8_t"),
    "i16": (2, "int16_t"),
    "i32": (4, "int32_t"),
    "i64": (8, "int64_t"),
    "i128": (16, "__int128"),
    "index": (8, "size_t"),
    "f16": (2, "uint16_t"),
    "bf16": (2, "uint16_t"),
    "f32": (4, "float"),
    "f64": (8, "double"),
    "ptr": (8, "void*"),
}
"""Types of results and arguments -> size in bytes (also the alignment) and C type. Halves are passed as their bits."""

FIELDS: dict[str, tuple[int, str]] = {"processor_id": (4, "uint32_t"), "processor_data": (8, "const uint64_t*")}
"""Names allowed in `hal.import.fields` -> bytes and C type."""

_NOTES = {"f16": "the bits of an IEEE half", "bf16": "the bits of a bfloat16"}
"""Type of a member → comment in C, for types that C declares as integers."""


@dataclass(frozen=True)
class Member:
    """Member of the C structure that passes the results, arguments and fields of an import call.

    `type` is the declared MLIR type, or the name of a field (a key of FIELDS); `c_type` is the type in C. `offset` and
    `size` are in bytes; `offset` counts from the beginning of the whole structure, also for results.
    """

    name: str
    type: str
    c_type: str
    offset: int
    size: int


@dataclass(frozen=True)
class ParamsLayout:
    """Layout of the structure that `params` points at.

    Attributes:
        members: Members for results, arguments and fields (data that the runtime adds, see FIELDS), in this order.
        result_count: Number of members that are results.
        size: Size in bytes; 0 for an empty structure, for which `params` is not a valid pointer.
        align: Alignment in bytes.
    """

    members: tuple[Member, ...]
    result_count: int
    size: int
    align: int


def _kind(type_: str, table: dict[str, tuple[int, str]], what: str) -> tuple[int, str]:
    """Return `table[type_]`, the (size in bytes, C type) of a type of the program; raise ValueError if it has none.

    `what` is the subject of the error message, such as "the result type".
    """
    if type_ not in table:
        raise ValueError(f"{what} '{type_}' cannot be a member of a C structure; known are: {', '.join(table)}")
    return table[type_]


class _StructureBuilder:
    """C structure that is being laid out.

    Attributes:
        members: Members so far.
        size: Bytes so far.
        align: Largest alignment of a member so far, in bytes.
    """

    def __init__(self) -> None:
        """Begin with an empty structure."""
        self.members: list[Member] = []
        self.size, self.align = 0, 1

    def add(self, name: str, type_: str, size: int, c_type: str) -> None:
        """Append a member at the next offset that is a multiple of its size, which is also its alignment."""
        offset = -(-self.size // size) * size  # rounded up: 8 for a member of 8 bytes after 5 bytes
        self.members.append(Member(name=name, type=type_, c_type=c_type, offset=offset, size=size))
        self.size, self.align = offset + size, max(self.align, size)

    def pad(self) -> None:
        """Round the size up to a multiple of the alignment, as C pads the end of a structure."""
        self.size = -(-self.size // self.align) * self.align


def layout(results: Sequence[str], arguments: Sequence[str], fields: Sequence[str] = ()) -> ParamsLayout:
    """Lay out the C structure that passes the results and arguments of an import call.

    layout(["i32"], ["f64", "ptr"], ["processor_id"]) has 32 bytes, aligned to 8, and the members `result` at offset 0,
    `a0` at 8, `a1` at 16 and `processor_id` at 24.

    Several results are a structure of their own at the beginning, so that the padding at its end comes before the
    arguments: of layout(["i64", "i8"], ["i8"]), the members `r0`, `r1` and `a0` have the offsets 0, 8 and 16.

    Args:
        results, arguments: MLIR types, keys of SCALARS.
        fields: Data that the runtime adds, keys of FIELDS.

    Raises:
        ValueError: A type has no equivalent in C, or a field is not known.
    """
    structure = _StructureBuilder()
    for index, type_ in enumerate(results):
        name = f"r{index}" if len(results) > 1 else "result"
        structure.add(name, type_, *_kind(type_, SCALARS, "the result type"))
    if len(results) > 1:
        structure.pad()  # the end of the nested structure: `align` is that of the results alone
    for index, type_ in enumerate(arguments):
        structure.add(f"a{index}", type_, *_kind(type_, SCALARS, "the argument type"))
    for name in fields:
        structure.add(name, name, *_kind(name, FIELDS, "the field"))
    structure.pad()
    return ParamsLayout(tuple(structure.members), len(results), structure.size, structure.align)


def _members(members: Sequence[Member], indent: str) -> Iterator[str]:
    """Yield the C declarations of members, each after `indent`, with their offsets as comments."""
    width = max((len(f"{m.c_type} {m.name};") for m in members), default=0)
    for member in members:
        text = f"{member.c_type} {member.name};"
        note = f": {_NOTES[member.type]}" if member.type in _NOTES else ""
        yield f"{indent}{text:<{width}}  // {member.offset}{note}"


def c_identifier(symbol: str) -> str:
    """Return the symbol with characters that C does not allow in names replaced by underscores."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", symbol)
    return f"_{name}" if not name or name[0].isdigit() else name


def c_declaration(
    symbol: str, results: Sequence[str] = (), arguments: Sequence[str] = (), fields: Sequence[str] = ()
) -> str:
    """Return C source that declares the structure and the function of an import; comments state offsets in bytes.

    For the symbol "f", the results ["i32"] and the arguments ["f64"] it is

        struct f_params {  // 16 bytes, aligned to 8
          int32_t result;  // 0
          double a0;       // 8
        };
        int32_t f(void* params, void* context, void* reserved);  // 0 is success

    Several results are members r0, r1, ... of a nested structure `results`. Without members, `params` is NULL. The
    source needs <stdbool.h>, <stddef.h> and <stdint.h>. Raises ValueError for a type that C lacks.

    Args:
        symbol: Name of the function. Characters that C does not allow in names are replaced.
        results, arguments: MLIR types, keys of SCALARS.
        fields: Data that the runtime adds, keys of FIELDS, such as "processor_id".
    """
    name = c_identifier(symbol)
    params = layout(results, arguments, fields)
    lines: list[str] = []
    if params.members:
        result_members, other_members = params.members[: params.result_count], params.members[params.result_count :]
        lines.append(f"struct {name}_params {{  // {params.size} bytes, aligned to {params.align}")
        if len(result_members) > 1:
            lines += ["  struct {", *_members(result_members, "    "), "  } results;"]
            lines += _members(other_members, "  ")
        else:
            lines += _members(params.members, "  ")
        lines.append("};")
    else:
        lines.append("// No results, arguments or fields: |params| is NULL.")
    lines.append(f"int32_t {name}(void* params, void* context, void* reserved);  // 0 is success")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class ImportSignature:
    """Signature with which a program calls an imported symbol; a symbol may have several signatures.

    A declaration `@scale(memref<f32>, index) -> i32` with `llvm.bareptr` has the arguments ("ptr", "index") and the
    results ("i32",).

    Attributes:
        symbol: Name of the imported function.
        optional: Whether the program can be loaded without it.
        results: Types of the results, keys of SCALARS.
        arguments: Types of the arguments, keys of SCALARS. A memref is one pointer (`llvm.bareptr`), or the fields of
            MLIR's descriptor: two pointers, the offset, sizes and strides.
        fields: Data that the runtime adds after the arguments, such as "processor_id"; keys of FIELDS.
        exports: Names of the exports (kernels) of the executable that may make the call. They are not compared:
            signatures are equal if their calls are.
    """

    symbol: str
    optional: bool = False
    results: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    exports: tuple[str, ...] = field(default=(), compare=False)

    @property
    def prototype(self) -> str:
        """Return the signature in C; see `c_declaration`."""
        return c_declaration(self.symbol, self.results, self.arguments, self.fields)

    def to_json(self) -> dict[str, Any]:
        """Return the import as JSON values, with the C declaration for people, which from_json() ignores."""
        return {
            "symbol": self.symbol, "optional": self.optional, "results": list(self.results),
            "arguments": list(self.arguments), "fields": list(self.fields), "exports": list(self.exports),
            "c": self.prototype,
        }  # fmt: skip

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ImportSignature:
        """Build the import from the JSON values of to_json(); raise ValueError or KeyError for other values."""
        table(value)  # raises ValueError unless it is an object
        return cls(
            symbol=text(value["symbol"]),
            optional=flag(value["optional"]),
            results=tuple(map(text, listed(value["results"]))),
            arguments=tuple(map(text, listed(value["arguments"]))),
            fields=tuple(map(text, listed(value["fields"]))),
            exports=tuple(map(text, listed(value["exports"]))),
        )
