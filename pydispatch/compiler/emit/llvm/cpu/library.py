"""The constant tables of library ABI 0.6 and its query function, as LLVM IR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydispatch.compiler.emit.llvm.cpu.imports import Import
from pydispatch.compiler.kernel_ir.kernel import Export
from pydispatch.compiler.kernel_ir.readers import c_string, quoted

QUERY_SYMBOL = "iree_hal_executable_library_query"
"""The function that the runtime looks up in a library."""
VERSION = 6
"""Version of the library ABI, 0.6."""
ATTRS = "{ i64, i16, i8, i8, i32, i32, i16, i16, [5 x i64] }"
"""LLVM type of the attributes of an export, of which `_attrs` returns a value."""


def library(
    executable: str,
    exports: Sequence[Export],
    imports: Sequence[Import],
    constants: int,
    pages: Sequence[int],
    functions: Sequence[str],
) -> Iterator[tuple[str, str]]:
    """Yield (symbol with sigil, LLVM text) of every global of a library, and (name, definition) of the query function.

    Args:
        executable: Name of the executable.
        exports: The exports, in the order of their ordinals.
        imports: The imports, in the order of the environment's tables.
        constants: Number of 32-bit words of executable constants.
        pages: For each export, the local memory that its code reserves, in units of 4096 bytes.
        functions: For each export, the symbol of its function, without sigil and quotes.
    """
    yield _string("@pyd.name", executable)
    fields = f"{{ i32 {VERSION}, ptr @pyd.name, i32 0, i32 0 }}"  # the last two members are unused
    yield "@pyd.header", f"@pyd.header = private constant {{ i32, ptr, i32, i32 }} {fields}"
    yield from _names("@pyd.imports", "@pyd.import", [entry.marked_symbol for entry in imports])
    yield from _names("@pyd.names", "@pyd.export", [export.name for export in exports])
    yield _table("@pyd.functions", [f"@{quoted(function)}" for function in functions])
    rows = ", ".join(
        f"{ATTRS} {_export_attributes(export, own_pages)}" for export, own_pages in zip(exports, pages, strict=True)
    )
    yield "@pyd.attrs", f"@pyd.attrs = private constant [{len(exports)} x {ATTRS}] [{rows}]"
    type_, value = _library_structure(len(exports), len(imports), constants)
    yield "@pyd.library", f"@pyd.library = private constant {type_} {value}"
    yield QUERY_SYMBOL, _query_function()


def _library_structure(exports: int, imports: int, constants: int) -> tuple[str, str]:
    """Return the LLVM type and constant of the library, which refers to the other tables, from the sizes of these."""
    null = "ptr", "null"  # optional tables that this compiler does not write
    export_table = _struct(
        count=("i32", exports), ptrs=("ptr", "@pyd.functions"), attrs=("ptr", "@pyd.attrs"), params=null,
        occupancy=null, names=("ptr", "@pyd.names"), tags=null, parameter_names=null, source_locations=null,
        stage_locations=null,
    )  # fmt: skip
    return _struct(
        header=("ptr", "@pyd.header"),
        imports=_struct(count=("i32", imports), symbols=("ptr", "@pyd.imports" if imports else "null")),
        exports=export_table,
        constants=_struct(count=("i32", constants)),
        sources=("{ i32, ptr }", "zeroinitializer"),
    )


def _query_function() -> str:
    """Return the definition of the query function, which returns the library, or null to a caller of an older ABI."""
    return (
        f"define ptr @{QUERY_SYMBOL}(i32 %max_version, ptr %environment) #0 {{\n"
        f"  %known = icmp uge i32 %max_version, {VERSION}\n"
        f"  %library = select i1 %known, ptr @pyd.library, ptr null\n  ret ptr %library\n}}\n"
    )


def _names(table: str, prefix: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the globals of a table of C strings: the strings `prefix`.0, `prefix`.1, ..., then the table itself."""
    symbols = [f"{prefix}.{index}" for index in range(len(texts))]
    yield from map(_string, symbols, texts)
    yield _table(table, symbols)


def _export_attributes(export: Export, pages: int) -> str:
    """Return the dispatch attributes of an export as an LLVM constant.

    `pages` is the local memory that its code reserves, in units of 4096 bytes. The export may declare more.
    """
    x, y, z = export.workgroup_size
    local_pages = max(pages, -(-export.local_memory // 4096))  # rounded up
    layout = export.layout
    # Members of pyd_library_export_attrs_t: flags, local_memory_pages, constant_count, binding_count, workgroup_size_x,
    # _y, _z, parameter_count, reserved.
    return (
        f"{{ i64 0, i16 {local_pages}, i8 {layout.constants}, i8 {len(layout.bindings)}, i32 {x}, i32 {y}, "
        f"i16 {z}, i16 0, [5 x i64] zeroinitializer }}"
    )


def _struct(**members: tuple[str, str | int]) -> tuple[str, str]:
    """Return the LLVM type and constant of a structure of library.h, from the (type, value) of each member by name."""
    types = ", ".join(type_ for type_, _ in members.values())
    values = ", ".join(f"{type_} {value}" for type_, value in members.values())
    return f"{{ {types} }}", f"{{ {values} }}"


def _string(name: str, text: str) -> tuple[str, str]:
    """Return the name and text of a global with a C string."""
    length, spelled = c_string(text)
    return name, f'{name} = private unnamed_addr constant [{length} x i8] c"{spelled}"'


def _table(name: str, entries: Sequence[str]) -> tuple[str, str]:
    """Return the name and text of a global with an array of pointers to `entries`."""
    items = ", ".join(f"ptr {entry}" for entry in entries)
    return name, f"{name} = private constant [{len(entries)} x ptr] [{items}]"
