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


def import_symbol(
    name: str, source: dict[str, Operation], program: ModuleOp, imported: dict[str, Operation], at: Operation,
    if_undefined: bool = False, force: bool = False,
) -> Operation:  # fmt: skip
    """Copy a symbol of the spec, and the symbols that it references, to the start of the program.

    For `@relu` of the spec, a function that calls `@max`, both functions are copied. A referenced symbol is not copied
    if the program has a symbol of that name: the copy of `@relu` then refers to the program's own `@max`.

    Args:
        name: The symbol, without the "@".
        source: Symbol table of the spec.
        program: The program, which is changed in place.
        imported: Symbols that were copied before, with their copies, which are returned as they are; receives new ones.
        at: Operation of the spec at which errors are located.
        if_undefined: Whether to return the program's own symbol of this name, if it has one, instead of raising.
        force: Whether to replace the program's own symbol instead of raising.

    Returns:
        The operation of the program that has the symbol.

    Raises:
        CompileError: The spec has no such symbol, or the program has its own.
    """
    # The symbol may be a copy already, or must be in the spec and not in the program. A copy without a parent was
    # erased from the program: it is made again.
    if name in imported and imported[name].parent is not None:
        return imported[name]
    if name not in source:
        # Named sequences and other operations of the transform dialect are no symbols for a program.
        near = ", ".join(f"@{n}" for n, op in source.items() if not op.name.startswith("transform."))
        raise CompileError(f"the spec has no symbol '@{name}'", location_of(at), f"symbols: {near or 'none'}")
    known = table_of(program)
    if name in known:
        if if_undefined:
            return known[name]
        if not force:
            raise CompileError(
                f"the program has a symbol '@{name}' of its own", location_of(at),
                "rename the one in the spec, or write 'if undefined' to use the one of the program",
            )  # fmt: skip
        erase_op(known[name], safe_erase=False)
    # The copy, and those of the symbols that it references.
    copy = clone(source[name])
    _insert_first(program, copy)
    imported[name] = copy
    for other in dict.fromkeys(references(source[name])):
        if other in source and other != name and other not in table_of(program):
            import_symbol(other, source, program, imported, at)
    return copy


def _insert_first(program: ModuleOp, op: Operation) -> None:
    """Insert `op` at the start of the program."""
    first = program.body.block.first_op
    if first is None:
        program.body.block.add_op(op)
    else:
        program.body.block.insert_op_before(op, first)


__all__ = ["clone", "import_symbol", "references", "set_location", "symbol_of", "table_of"]
