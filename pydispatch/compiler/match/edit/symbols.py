"""Import of symbols of a spec into the program, together with the symbols that they reference."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.symbols import references
from pydispatch.ir.core.walk import walk


def symbol_of(op: Operation) -> str:
    """Return the symbol name of an operation without the "@"; "" if it has none."""
    name = op.properties.get("sym_name", op.attributes.get("sym_name"))
    return name.data if isinstance(name, StringAttr) else ""


def table_of(module: ModuleOp) -> dict[str, Operation]:
    """Return the symbol table of a module: symbol, without the "@" -> operation."""
    return {symbol_of(op): op for op in module.body.block.ops if symbol_of(op)}


def clone(op: Operation) -> Operation:
    """Return a copy of an operation that keeps the source locations."""
    copy: Operation = op.clone()
    for new, old in zip(walk(copy), walk(op), strict=True):
        new.location = old.location
    return copy


def are_equal(symbol: Operation, other: Operation) -> bool:
    """Return whether symbols of two modules are the same operation with the same body, whatever the names of values."""
    assert symbol.parent is not None and other.parent is not None
    return symbol.is_structurally_equivalent(other, {symbol.parent: other.parent})


Imported = dict[tuple[ModuleOp, str], Operation]
"""Module of the program, and symbol of the spec without the "@" -> the copy of the symbol in the module."""


def import_symbol(
    name: str, source: dict[str, Operation], program: ModuleOp, imported: Imported, spec_op: Operation,
    if_undefined: bool = False, force: bool = False,
) -> Operation:  # fmt: skip
    """Copy a symbol of the spec, and the symbols that it references, to the start of a module of the program.

    For `@relu` of the spec, a function that calls `@max`, both functions are copied. If the module has an equal `@max`,
    such as a declaration of the same external function, the copy of `@relu` refers to that one.

    Args:
        name: The symbol, without the "@".
        source: Symbol table of the spec.
        program: The module, which is changed in place.
        imported: Symbols that were copied before, with their copies, which are returned as they are; receives new ones.
        spec_op: Operation of the spec at which errors are located.
        if_undefined: Whether to use the module's own symbol of this name, or of a referenced one, instead of raising.
        force: Whether to replace the program's own symbol instead of raising.

    Returns:
        The operation of the program that has the symbol.

    Raises:
        CompileError: The spec has no such symbol, or the module has its own of this name, or another one of the name of
            a referenced symbol.
    """
    # The symbol may be a copy already, or must be in the spec and not in the program. A copy without a parent was
    # erased from the program: it is made again.
    previous = imported.get((program, name))
    if previous is not None and previous.parent is not None:
        return previous
    if name not in source:
        # Named sequences and other operations of the transform dialect are no symbols for a program.
        near = ", ".join(f"@{n}" for n, op in source.items() if not op.name.startswith("transform."))
        raise CompileError(f"the spec has no symbol '@{name}'", location_of(spec_op), f"symbols: {near or 'none'}")
    symbols = table_of(program)
    if name in symbols:
        if if_undefined:
            return symbols[name]
        if not force:
            raise _taken(name, spec_op)
        erase_op(symbols[name], safe_erase=False)  # unsafe: references by name stay, and then mean the copy
    # The copy, and those of the symbols that it references.
    copy = clone(source[name])
    _insert_first(program, copy)
    imported[program, name] = copy
    for other in dict.fromkeys(references(source[name])):
        if other not in source or other == name:
            continue
        own = table_of(program).get(other)
        # A symbol of this name in the program is used if it was copied before, if it equals that of the spec, or if
        # `if_undefined` is set.
        if own is None:
            import_symbol(other, source, program, imported, spec_op, if_undefined)
        elif own is not imported.get((program, other)) and not if_undefined and not are_equal(own, source[other]):
            raise _taken(other, spec_op, f", which '@{name}' of the spec does not mean")
    return copy


def _taken(name: str, spec_op: Operation, reason: str = "") -> CompileError:
    """Return an error at `spec_op`, an import of the spec: the program has a symbol `name` of its own."""
    return CompileError(
        f"the program has a symbol '@{name}' of its own{reason}", location_of(spec_op),
        "rename the one in the spec, or write 'if undefined' to use the one of the program",
    )  # fmt: skip


def _insert_first(program: ModuleOp, op: Operation) -> None:
    """Insert `op` at the start of the program."""
    first = program.body.block.first_op
    if first is None:
        program.body.block.add_op(op)
    else:
        program.body.block.insert_op_before(op, first)


__all__ = ["are_equal", "clone", "import_symbol", "references", "set_location", "symbol_of", "table_of"]
